//! One end of a link: credit, and what waits or is half here.
//!
//! Delivery counts are serial numbers of 32 bits: they wrap, so they are compared by difference.

use std::collections::VecDeque;

use crate::client::send::Message;
use crate::codec::performative::{Flow, Role};
use crate::delivery::Assembly;

/// A link of ours.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) stage: Stage,
    pub(super) end: End,
}

/// Whether a link is still wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// We have attached; the peer has, or will.
    Attached,
    /// We have detached, and the peer has not.
    Detaching,
}

/// Which end it is.
#[derive(Debug)]
pub(super) enum End {
    Sender(Sender),
    Receiver(Receiver),
}

impl Link {
    pub(super) fn role(&self) -> Role {
        match self.end {
            End::Sender(_) => Role::Sender,
            End::Receiver(_) => Role::Receiver,
        }
    }
}

/// The end that sends.
#[derive(Debug, Default)]
pub(super) struct Sender {
    pub(super) delivery_count: u32,
    pub(super) credit: u32,
    /// Numbers given to messages.
    pub(super) numbered: u64,
    /// Messages without credit, in order.
    pub(super) waiting: VecDeque<Message>,
    pub(super) waiting_bytes: usize,
}

impl Sender {
    /// Takes the credit of a flow (part 2, §2.6.7).
    pub(super) fn take_credit(&mut self, flow: &Flow<'_>) {
        let Some(credit) = flow.link_credit else { return };
        // A receiver that has not seen our attach yet counts from our first count, which is 0.
        let on_the_way = self.delivery_count.wrapping_sub(flow.delivery_count.unwrap_or(0));
        self.credit = credit.saturating_sub(on_the_way);
    }

    #[inline]
    pub(super) fn count(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(1);
        self.credit -= 1;
    }

    /// Gives up what is left of the credit.
    pub(super) fn give_up(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(self.credit);
        self.credit = 0;
    }
}

/// The end that receives.
#[derive(Debug)]
pub(super) struct Receiver {
    delivery_count: u32,
    credit: u32,
    draining: bool,
    pub(super) assembly: Assembly,
}

impl Receiver {
    pub(super) fn new(max_message_size: usize) -> Self {
        Self { delivery_count: 0, credit: 0, draining: false, assembly: Assembly::new(max_message_size) }
    }

    /// The count from which the sender begins.
    pub(super) fn begin_at(&mut self, initial_delivery_count: u32) {
        self.delivery_count = initial_delivery_count;
    }

    pub(super) fn credit(&self) -> u32 {
        self.credit
    }

    pub(super) fn grant(&mut self, credit: u32) {
        self.credit = credit;
        self.draining = false;
    }

    pub(super) fn begin_drain(&mut self) {
        self.draining = true;
    }

    /// Counts a delivery that is whole or given up.
    #[inline]
    pub(super) fn count(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
    }

    /// Takes the sender's count of a flow. True if that ends a drain.
    pub(super) fn take_count(&mut self, flow: &Flow<'_>) -> bool {
        let Some(count) = flow.delivery_count else { return false };
        let given_up = count.wrapping_sub(self.delivery_count);
        self.delivery_count = count;
        self.credit = self.credit.saturating_sub(given_up);
        self.credit == 0 && std::mem::take(&mut self.draining)
    }

    pub(super) fn state(&self, flow: Flow<'static>) -> Flow<'static> {
        Flow { delivery_count: Some(self.delivery_count), link_credit: Some(self.credit), drain: self.draining, ..flow }
    }
}

/// How far the serial number `to` is ahead of `from`; nothing if it is behind.
pub(super) fn ahead(to: u32, from: u32) -> u32 {
    u32::try_from(to.wrapping_sub(from) as i32).unwrap_or(0)
}
