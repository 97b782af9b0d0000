//! Browsing the ready messages of a queue for an operator, without taking any.
//!
//! Messages that only the disk has are read without a lock and not kept. Expired ones are shown
//! while they are there.

use crate::broker::Broker;
use crate::error::Error;
use crate::message::Message;
use crate::message::properties::Properties;

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

impl Broker {
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
                let counts = glimpse.returns.shown(engine.settings.counted_returns);
                let properties = engine.dialects.read_shown(&message, counts)?;
                let redelivered = glimpse.redelivered;
                show(Browsed { number: glimpse.seq, message, properties, redelivered });
                shown += 1;
            }
            Ok(shown < browse.limit)
        })
    }
}
