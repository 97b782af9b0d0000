//! Where a message goes whose link does not say it, an anonymous relay: by its own `to`.

use std::borrow::Cow;
use std::time::Instant;

use broker::{Client, Unroutable};
use hashbrown::HashSet;

use crate::codec::Symbols;
use crate::codec::error::condition;
use crate::dialect::Published;
use crate::session::address::{Address, TOPICS};
use crate::session::error::Failure;
use crate::session::target::ensure;
use crate::session::transactions::Reply;

/// How many queues of anonymous relays are remembered. Beyond that all are forgotten.
const KNOWN_QUEUES: usize = 1024;

/// Where one message goes.
pub(super) struct Route<'a> {
    pub(super) exchange: Cow<'a, str>,
    pub(super) key: Cow<'a, str>,
    pub(super) unroutable: Unroutable,
}

/// The anonymous relays of a connection.
#[derive(Default)]
pub(super) struct Relay {
    /// Queues that were found or made.
    known: HashSet<String>,
}

impl Relay {
    /// The route of a message that came without one.
    pub(super) fn route<'a>(
        &mut self,
        published: &Published<'a>,
        answer: Reply,
        client: &mut Client,
        now: Instant,
    ) -> Result<Route<'a>, Failure> {
        let subject = || Cow::Borrowed(published.subject.unwrap_or_default());
        let to = published.to.ok_or_else(|| {
            let text = "the link has no address, so each message must have one in its property `to`";
            Failure::new(condition::PRECONDITION_FAILED, text)
        })?;
        let capabilities = if published.to_topic { Symbols::of(&["topic"]) } else { Symbols::NONE };
        let (exchange, key, unroutable) = match Address::parse(to, capabilities)? {
            Address::Queue(name) => {
                // Its publisher has no other answer than the end of the link (Anonymous Terminus,
                // §2.2.2).
                if answer == Reply::Unwanted && !self.known.contains(&*name) {
                    client.check_recipient(&name, now)?;
                    self.remember(&name);
                }
                (Cow::Borrowed(""), name, Unroutable::Tell)
            }
            Address::LastingQueue(name) => {
                self.know(&name, client, now)?;
                (Cow::Borrowed(""), name, Unroutable::Tell)
            }
            Address::Exchange(name, key) => {
                let unroutable = if published.to_topic { Unroutable::Drop } else { Unroutable::Tell };
                (name, key.unwrap_or_else(subject), unroutable)
            }
            Address::Topic(name) => (Cow::Borrowed(TOPICS), name, Unroutable::Drop),
        };
        Ok(Route { exchange, key, unroutable })
    }

    /// Makes the queue of a plain name, once.
    fn know(&mut self, queue: &str, client: &mut Client, now: Instant) -> Result<(), Failure> {
        if self.known.contains(queue) {
            return Ok(());
        }
        ensure(client, queue, now)?;
        self.remember(queue);
        Ok(())
    }

    /// Remembers that a queue is there.
    fn remember(&mut self, queue: &str) {
        if self.known.len() >= KNOWN_QUEUES {
            self.known.clear();
        }
        self.known.insert(queue.to_owned());
    }
}
