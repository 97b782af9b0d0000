//! A walk through the ready messages of a queue, for browsing and redriving: it takes none.
//!
//! Messages that only the disk has are read without a lock and not kept.

use std::sync::Arc;

use journal::Reference;
use selector::Selector;

use crate::engine::Engine;
use crate::error::Error;
use crate::message::Message;
use crate::message::selected::Selected;
use crate::queue::{Glimpse, Queue, Step, Walk};

impl Engine {
    /// The queue and the selector of a request.
    pub(crate) fn find(
        &self,
        vhost: &str,
        queue: &str,
        selector: &str,
    ) -> Result<(Arc<Queue>, Option<Selector>), Error> {
        let selector = Selector::parse(selector).map_err(|error| Error::precondition(error.to_string()))?;
        let known = self.catalog.vhost(vhost).ok_or_else(|| Error::not_found(format!("no vhost '{vhost}'")))?;
        let no_queue = || Error::not_found(format!("no queue '{queue}' in vhost '{vhost}'"));
        Ok((known.queue(queue).ok_or_else(no_queue)?, selector))
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
        while wanted() && self.walk_on(queue, selector, (&mut walk, usize::MAX), each)? {}
        Ok(())
    }

    /// A step of a walk, which reads no more than about so many bytes of messages, but one message
    /// in any case. False when there are no more, or `each` wants no more.
    pub(crate) fn walk_on(
        &self,
        queue: &Arc<Queue>,
        selector: Option<&Selector>,
        (walk, most): (&mut Walk, usize),
        each: &mut dyn FnMut(&Glimpse, Message) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let begun = walk.clone();
        let mut entries = match queue.step(walk, self) {
            Step::End => return Ok(false),
            Step::Place(page) => {
                self.place(queue, page).map_err(Error::internal)?;
                return Ok(true);
            }
            Step::Entries(entries) => entries,
        };
        let count = entries.len();
        entries.truncate(fitting(&entries, most));
        let read = self.with_messages(queue, entries)?;
        if read.len() < count {
            *walk = begun;
            read.iter().for_each(|(glimpse, _)| walk.pass(glimpse.seq));
        }
        for (glimpse, message) in read {
            let selected = Selected { message: &message, dialects: &self.dialects, redelivered: glimpse.redelivered };
            let is_wanted = selector.is_none_or(|selector| selector.matches(&selected));
            if is_wanted && !each(&glimpse, message)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads messages that only the disk has, up to the first that has left its place meanwhile.
    /// The log moves bodies, and such a message lies elsewhere if it is still there.
    pub(crate) fn with_messages(&self, queue: &Queue, entries: Vec<Glimpse>) -> Result<Vec<(Glimpse, Message)>, Error> {
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

/// How many of these entries have together no more bytes than so many; one at least.
fn fitting(entries: &[Glimpse], most: usize) -> usize {
    let mut bytes = 0_usize;
    let beyond = entries.iter().position(|glimpse| {
        bytes = bytes.saturating_add(glimpse.bytes());
        bytes > most
    });
    beyond.map_or(entries.len(), |beyond| beyond.max(1))
}
