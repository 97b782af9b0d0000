//! The mailbox of a connection, bounded in bytes: queues and the broker put deliveries and notices
//! into it.
//!
//! A full mailbox makes its consumers not ready. Entries then stay in their queues, and the mailbox
//! remembers which consumers were passed by. It is locked last: under a queue's lock, never the
//! other way round.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use parking_lot::Mutex;

use crate::error::Error;
use crate::memory::ledger::{Account, Held};
use crate::message::Message;
use crate::queue::{Past, Returns};

/// Consumers that have gone and stay noted.
pub(crate) const FORGOTTEN_MAX: usize = 64;

/// A message on its way to a consumer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The consumer, by its number within the client.
    pub(crate) consumer: u32,
    pub(crate) past: Past,
    pub(crate) returns: Returns,
    pub(crate) seq: u64,
    pub(crate) message: Message,
}

impl Outgoing {
    /// True for a message without a queue: no entry of a queue has this number.
    #[inline]
    pub(crate) fn has_no_queue(&self) -> bool {
        self.seq == 0
    }
}

/// A transaction of a client; never reused within the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransactionId(pub u64);

/// All other events that a client gets.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The queue under this consumer is gone.
    Cancelled { consumer: u32 },
    /// The queue has nothing more for this consumer, and took back its unused credit.
    Drained { consumer: u32, unused: u64 },
    /// A transaction is durable and visible, or could not be made so.
    Committed { transaction: TransactionId, result: Result<(), Error> },
}

#[derive(Debug, Default)]
struct Inbox {
    outgoing: Vec<Outgoing>,
    notices: Vec<Notice>,
    /// Consumers that queues passed by, each once, in the order in which they try again.
    passed: VecDeque<u32>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inbox: Mutex<Inbox>,
    bytes: AtomicUsize,
    limit: usize,
    passed_by: AtomicBool,
    /// Retained messages wait until there is room.
    feed_waits: AtomicBool,
    /// Counts messages without a queue that are not read.
    account: Option<Arc<Account>>,
    /// Messages for subscribers without a queue that did not fit.
    dropped: AtomicU64,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new(limit: usize, waker: Waker) -> Self {
        Self {
            inbox: Mutex::default(),
            bytes: AtomicUsize::new(0),
            limit,
            passed_by: AtomicBool::new(false),
            feed_waits: AtomicBool::new(false),
            account: None,
            dropped: AtomicU64::new(0),
            waker,
        }
    }

    /// The same, which counts messages without a queue that are not read.
    pub(crate) fn counted(limit: usize, account: &Arc<Account>, waker: Waker) -> Self {
        let mut mailbox = Self::new(limit, waker);
        mailbox.account = Some(Arc::clone(account));
        mailbox
    }

    /// Puts in messages that have no queue, until `most` bytes lie here or memory is short, in the
    /// broker or for this client. Returns how many.
    fn deliver_without_queue(
        &self,
        consumer: u32,
        messages: impl ExactSizeIterator<Item = Message>,
        most: usize,
    ) -> usize {
        let (before, account) = (self.bytes(), self.account.as_deref());
        if account.is_some_and(Account::is_full) {
            return 0;
        }
        let (mut outgoing, mut bytes) = (Vec::with_capacity(messages.len()), 0);
        for message in messages {
            let all = bytes + message.cost();
            if before + bytes >= most || account.is_some_and(|account| !account.has_room(all)) {
                break;
            }
            bytes = all;
            let (past, returns) = (Past::Fresh, Returns::default());
            outgoing.push(Outgoing { consumer, past, returns, seq: 0, message });
        }
        let count = outgoing.len();
        if count > 0 {
            account.into_iter().for_each(|account| account.hold(Held::Replies, bytes));
            self.deliver(&mut outgoing, bytes);
        }
        count
    }

    /// Messages without a queue were taken out, of so many bytes.
    pub(crate) fn replies_taken(&self, bytes: usize) {
        self.account.iter().for_each(|account| account.let_go(Held::Replies, bytes));
    }

    /// How many bytes may still be put in. An empty mailbox always takes at least one delivery.
    ///
    /// It has one order with [`Mailbox::pass_by`] and [`Mailbox::handed_on`]. If a queue passes by
    /// while the mailbox empties, at least one side sees the other.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes.load(Ordering::SeqCst))
    }

    /// Leaves no room from here on: its client goes.
    pub(crate) fn shut(&self) {
        self.bytes.fetch_add(self.limit, Ordering::SeqCst);
    }

    /// Notes a consumer for which a queue found no room.
    pub(crate) fn pass_by(&self, consumer: u32) {
        self.inbox.lock().passed.push_back(consumer);
        self.passed_by.store(true, Ordering::SeqCst);
    }

    /// The consumer that tries again first.
    pub(crate) fn next_passed(&self) -> Option<u32> {
        self.inbox.lock().passed.pop_front()
    }

    /// A consumer has gone. Where most that are noted are not `there`, those are forgotten.
    pub(crate) fn forget_passed(&self, count: usize, there: &dyn Fn(u32) -> bool) {
        let mut inbox = self.inbox.lock();
        if inbox.passed.len() > 2 * count + FORGOTTEN_MAX {
            inbox.passed.retain(|consumer| there(*consumer));
        }
    }

    /// Some consumers that were passed by have not tried again: [`Mailbox::take_passed_by`] is true
    /// once more.
    pub(crate) fn leave_passed(&self) {
        if !self.inbox.lock().passed.is_empty() {
            self.passed_by.store(true, Ordering::SeqCst);
        }
    }

    /// True once after a queue passed by, when there is room again.
    pub(crate) fn take_passed_by(&self) -> bool {
        self.room() > self.limit / 2
            && self.passed_by.load(Ordering::SeqCst)
            && self.passed_by.swap(false, Ordering::SeqCst)
    }

    /// True once after retained messages had to wait, when half of the room is free again.
    #[inline]
    pub(crate) fn take_feed_waits(&self) -> bool {
        self.feed_waits.load(Ordering::Relaxed)
            && self.room() > self.limit / 2
            && self.feed_waits.swap(false, Ordering::SeqCst)
    }

    /// Moves `outgoing` in and wakes the connection.
    pub(crate) fn deliver(&self, outgoing: &mut Vec<Outgoing>, bytes: usize) {
        {
            let mut inbox = self.inbox.lock();
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            if inbox.outgoing.is_empty() {
                std::mem::swap(&mut inbox.outgoing, outgoing);
            } else {
                inbox.outgoing.append(outgoing);
            }
        }
        self.waker.wake_by_ref();
    }

    pub(crate) fn notify(&self, notice: Notice) {
        self.inbox.lock().notices.push(notice);
        self.waker.wake_by_ref();
    }

    /// Takes everything; `outgoing` and `notices` must be empty and become the mailbox's next
    /// buffers.
    pub(crate) fn take(&self, outgoing: &mut Vec<Outgoing>, notices: &mut Vec<Notice>) {
        let mut inbox = self.inbox.lock();
        std::mem::swap(&mut inbox.outgoing, outgoing);
        std::mem::swap(&mut inbox.notices, notices);
    }

    /// Takes everything and appends it to earlier deliveries and notices.
    pub(crate) fn take_more(&self, outgoing: &mut Vec<Outgoing>, notices: &mut Vec<Notice>) {
        let mut inbox = self.inbox.lock();
        outgoing.append(&mut inbox.outgoing);
        notices.append(&mut inbox.notices);
    }

    /// Its client rests: gives back what is kept for the next ones.
    pub(crate) fn rest(&self) {
        let mut inbox = self.inbox.lock();
        if inbox.outgoing.is_empty() && inbox.notices.is_empty() && inbox.passed.is_empty() {
            *inbox = Inbox::default();
        }
    }

    /// Makes room: `bytes` of the deliveries have been handed on.
    pub(crate) fn handed_on(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Messages for subscribers without a queue that were dropped, since too much was unread.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Whose consumer one is, and what its client calls it: for reports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Called {
    /// The number of its client.
    pub(crate) client: u64,
    /// Its protocol's number for its session.
    pub(crate) session: u32,
    pub(crate) tag: Arc<str>,
}

/// A consumer of a client that needs no queue: of direct replies, or of a subscriber's filters.
#[derive(Debug)]
pub(crate) struct MailboxConsumer {
    /// Routes to it may be remembered for longer than its client is there.
    mailbox: Weak<Mailbox>,
    consumer: u32,
    /// Bytes that may lie in the mailbox before more is dropped.
    most: usize,
    called: Called,
}

impl MailboxConsumer {
    pub(crate) fn new(mailbox: &Arc<Mailbox>, consumer: u32, most: usize, called: Called) -> Self {
        Self { mailbox: Arc::downgrade(mailbox), consumer, most, called }
    }

    /// Whose it is.
    pub(crate) fn called(&self) -> &Called {
        &self.called
    }

    /// The bytes that lie in the mailbox, if nothing more can be handed over.
    pub(crate) fn unread(&self) -> Option<usize> {
        let bytes = self.mailbox.upgrade()?.bytes();
        (bytes >= self.most).then_some(bytes)
    }

    /// Its number within the client.
    pub(crate) fn consumer(&self) -> u32 {
        self.consumer
    }

    /// Hands messages over, and returns how many. The others are dropped: its client has gone or
    /// leaves too much unread.
    pub(crate) fn deliver(&self, messages: impl ExactSizeIterator<Item = Message>) -> usize {
        let mailbox = self.mailbox.upgrade();
        mailbox.map_or(0, |mailbox| mailbox.deliver_without_queue(self.consumer, messages, self.most))
    }

    /// The same for messages that the client has asked for at once: their bytes are not bounded
    /// here, and the caller asks [`MailboxConsumer::has_room`] before.
    pub(crate) fn deliver_piece(&self, messages: impl ExactSizeIterator<Item = Message>) -> usize {
        let mailbox = self.mailbox.upgrade();
        mailbox.map_or(0, |mailbox| mailbox.deliver_without_queue(self.consumer, messages, usize::MAX))
    }

    /// Whether more can be handed over now; if not, [`Mailbox::take_feed_waits`] tells when to ask
    /// again. `None` when its client has gone.
    pub(crate) fn has_room(&self) -> Option<bool> {
        let mailbox = self.mailbox.upgrade()?;
        let has_room = mailbox.bytes() < self.most;
        if !has_room {
            mailbox.feed_waits.store(true, Ordering::SeqCst);
        }
        Some(has_room)
    }

    /// So many messages were dropped.
    pub(crate) fn note_dropped(&self, count: u64) {
        if let Some(mailbox) = self.mailbox.upgrade() {
            mailbox.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn notify(&self, notice: Notice) {
        if let Some(mailbox) = self.mailbox.upgrade() {
            mailbox.notify(notice);
        }
    }

    /// Whether it belongs to the client with this mailbox.
    pub(crate) fn is_of(&self, mailbox: &Arc<Mailbox>) -> bool {
        std::ptr::eq(self.mailbox.as_ptr(), Arc::as_ptr(mailbox))
    }
}

impl Drop for Mailbox {
    /// Messages without a queue that are left in it go with it.
    fn drop(&mut self) {
        self.account.iter().for_each(|account| account.let_go(Held::Replies, account.of(Held::Replies)));
    }
}
