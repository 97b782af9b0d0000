//! Browsing the ready messages of a queue for an operator, without taking any.
//!
//! Messages that only the disk has are read without a lock and not kept. Expired ones are shown
//! while they are there.

use std::sync::Arc;

use journal::Reference;
use selector::Selector;

use crate::broker::Broker;
use crate::engine::Engine;
use crate::error::Error;
use crate::message::Message;
use crate::message::properties::Properties;
use crate::message::selected::Selected;
use crate::queue::{Glimpse, Queue, Step};

/// A message in a queue.
#[derive(Debug)]
pub struct Browsed {
    /// Its number in the queue, which rises within each priority.
    pub number: u64,
    /// The message.
    pub message: Message,
    /// Its properties, with the broker's annotations of a dead letter.
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
        let (queue, selector) = engine.find(browse)?;
        let mut shown = 0;
        engine.walk(&queue, selector.as_ref(), wanted, &mut |glimpse, message| {
            if shown < browse.limit {
                let properties = engine.dialects.read_message(&message)?;
                let redelivered = glimpse.redelivered;
                show(Browsed { number: glimpse.seq, message, properties, redelivered });
                shown += 1;
            }
            Ok(shown < browse.limit)
        })
    }
}

impl Engine {
    /// The queue and the selector of a request.
    pub(crate) fn find(&self, browse: &Browse<'_>) -> Result<(Arc<Queue>, Option<Selector>), Error> {
        let selector = Selector::parse(browse.selector).map_err(|error| Error::precondition(error.to_string()))?;
        let vhost = self.catalog.vhost(browse.vhost);
        let vhost = vhost.ok_or_else(|| Error::not_found(format!("no vhost '{}'", browse.vhost)))?;
        let queue = vhost.tables.read().queue(browse.queue).cloned();
        let no_queue = || Error::not_found(format!("no queue '{}' in vhost '{}'", browse.queue, browse.vhost));
        Ok((queue.ok_or_else(no_queue)?, selector))
    }

    /// Passes every selected ready message to `each`, in order, while both want more.
    pub(crate) fn walk(
        &self,
        queue: &Arc<Queue>,
        selector: Option<&Selector>,
        wanted: &dyn Fn() -> bool,
        each: &mut dyn FnMut(&Glimpse, Message) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut walk = queue.walk(self);
        while wanted() {
            let begun = walk.clone();
            let entries = match queue.step(&mut walk, self) {
                Step::End => break,
                Step::Place(page) => {
                    self.place(queue, page).map_err(Error::internal)?;
                    continue;
                }
                Step::Entries(entries) => entries,
            };
            let count = entries.len();
            let read = self.with_messages(queue, entries)?;
            if read.len() < count {
                walk = begun;
                read.iter().for_each(|(glimpse, _)| walk.pass(glimpse.seq));
            }
            for (glimpse, message) in read {
                let selected =
                    Selected { message: &message, dialects: &self.dialects, redelivered: glimpse.redelivered };
                let is_wanted = selector.is_none_or(|selector| selector.matches(&selected));
                if is_wanted && !each(&glimpse, message)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads messages that only the disk has, up to the first that has left its place meanwhile.
    /// The log moves bodies, and such a message lies elsewhere if it is still there.
    fn with_messages(&self, queue: &Queue, entries: Vec<Glimpse>) -> Result<Vec<(Glimpse, Message)>, Error> {
        let wanted: Vec<Reference> = entries.iter().filter_map(|glimpse| glimpse.place).collect();
        let mut read = self.read_all_messages(queue, &wanted)?.into_iter().peekable();
        let mut found = Vec::with_capacity(entries.len());
        for mut glimpse in entries {
            let fresh = read.next_if(|(one, _)| one.seq == glimpse.seq).map(|(_, message)| message);
            let Some(message) = glimpse.message.take().or(fresh) else { break };
            found.push((glimpse, message));
        }
        Ok(found)
    }
}
