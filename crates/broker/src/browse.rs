//! Browsing the ready messages of a queue for an operator, without taking any: some of them at
//! once, or all of them while they are read.
//!
//! Messages that only the disk has are read without a lock and not kept. Expired ones are shown
//! while they are there.

use std::sync::Arc;

use selector::Selector;

use crate::broker::Broker;
use crate::engine::Engine;
use crate::error::Error;
use crate::message::Message;
use crate::message::properties::Properties;
use crate::queue::{Glimpse, Queue, Walk};

/// A message in a queue.
#[derive(Debug)]
pub struct Browsed {
    /// Its number in the queue, which rises within each priority.
    pub number: u64,
    /// The message.
    pub message: Message,
    /// Its properties, as consumers see them.
    pub properties: Properties,
    /// It may have been delivered before.
    pub redelivered: bool,
}

/// A queue, and a choice of its messages.
#[derive(Debug, Clone, Copy)]
pub struct Browse<'a> {
    /// The vhost.
    pub vhost: &'a str,
    /// The queue.
    pub queue: &'a str,
    /// Only messages that this selector is true of; blank for all.
    pub selector: &'a str,
    /// No more than so many.
    pub limit: u64,
}

/// The messages that were ready when it was begun, as they are asked for.
pub struct Browsing {
    engine: Arc<Engine>,
    queue: Arc<Queue>,
    selector: Option<Selector>,
    walk: Walk,
}

impl Browsing {
    /// Shows the next messages of about so many bytes in all, but one in any case; of those that
    /// are not selected, none. False when there are no more.
    ///
    /// # Errors
    /// `Internal` for a message that can't be read.
    pub fn next(&mut self, most: usize, show: &mut dyn FnMut(Browsed)) -> Result<bool, Error> {
        let Self { engine, queue, selector, walk } = self;
        engine.walk_on(queue, selector.as_ref(), (walk, most), &mut |glimpse, message| {
            show(browsed(engine, glimpse, message)?);
            Ok(true)
        })
    }
}

fn browsed(engine: &Engine, glimpse: &Glimpse, message: Message) -> Result<Browsed, Error> {
    let counts = glimpse.returns.shown(engine.settings.counted_returns);
    let properties = engine.dialects.read_shown(&message, counts)?;
    Ok(Browsed { number: glimpse.seq, message, properties, redelivered: glimpse.redelivered })
}

impl Broker {
    /// Begins to show all that is ready now, up to the end that the queue has now. The limit is not
    /// looked at.
    ///
    /// # Errors
    /// `NotFound` without such a queue, `Precondition` for a text that is no selector.
    pub fn begin_browsing(&self, browse: &Browse<'_>) -> Result<Browsing, Error> {
        let engine = Arc::clone(&self.engine);
        let (queue, selector) = engine.find(browse.vhost, browse.queue, browse.selector)?;
        let walk = queue.walk(&engine);
        Ok(Browsing { engine, queue, selector, walk })
    }

    /// Shows the ready messages of a queue in order, from the front, while `wanted` is true. Reads
    /// from the disk where needed, so it may take a while.
    ///
    /// # Errors
    /// `NotFound` without such a queue, `Precondition` for a text that is no selector, `Internal`
    /// for a message that can't be read.
    pub fn browse(
        &self,
        browse: &Browse<'_>,
        wanted: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Browsed),
    ) -> Result<(), Error> {
        let engine = &self.engine;
        let (queue, selector) = engine.find(browse.vhost, browse.queue, browse.selector)?;
        let mut shown = 0;
        engine.walk(&queue, selector.as_ref(), wanted, &mut |glimpse, message| {
            if shown < browse.limit {
                show(browsed(engine, glimpse, message)?);
                shown += 1;
            }
            Ok(shown < browse.limit)
        })
    }
}
