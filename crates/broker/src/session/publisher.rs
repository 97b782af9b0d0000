//! The publishing side of a client: the messages of the turn that it gathers, and the turn's cost
//! and time. All that a client asks for counts in the cost.

use journal::Ticket;

use crate::catalog::versions::Basis;
use crate::clock::Clock;
use crate::engine::bounds::TURN_ENTRIES;
use crate::message::body::Body;
use crate::message::publisher::PublisherId;
use crate::message::{Arena, Head, Message};
use crate::queue::arrival::Arrival;

/// The publishing side of a client.
#[derive(Default)]
pub(super) struct Publisher {
    arena: Arena,
    arrivals: Vec<Arrival>,
    /// Those of the turn that are retained, each with what its route depends on.
    retained: Vec<(u32, Basis)>,
    /// Number of the turn that is being gathered.
    turn: u64,
    /// The cost of the turn so far, in entries.
    cost: usize,
    /// The calendar time of the turn in milliseconds since 1970; 0 until it is read.
    ms: u64,
    /// This turn has copies of traced messages.
    traced: bool,
    /// The client is not read before this ticket is durable.
    lag_ticket: Ticket,
    /// It has published to queues whose dead letters wait.
    behind_dead_letters: bool,
    /// Its identity, since it has named its client, or asked for consumers that leave its messages
    /// out.
    own: Option<PublisherId>,
}

impl Publisher {
    /// True if it has published to queues whose dead letters wait.
    #[inline]
    pub(super) fn is_behind_dead_letters(&self) -> bool {
        self.behind_dead_letters
    }

    pub(super) fn wait_for_dead_letters(&mut self) {
        self.behind_dead_letters = true;
    }

    pub(super) fn forget_dead_letters(&mut self) {
        self.behind_dead_letters = false;
    }

    #[inline]
    pub(super) fn write(&mut self, head: &Head<'_>, body: Body<'_>) -> Message {
        self.arena.add_body(head, body)
    }

    /// The client's identity. `None`: its messages have none.
    #[inline]
    pub(super) fn own(&self) -> Option<PublisherId> {
        self.own
    }

    /// From here on the client's messages have its identity.
    pub(super) fn show_own(&mut self, client: u64, now: u64) -> PublisherId {
        *self.own.get_or_insert_with(|| PublisherId::new(client, now))
    }

    /// The same, with the identity of this client.
    pub(super) fn show_client(&mut self, name: &str) {
        self.own = Some(PublisherId::named(name));
    }

    /// The arena of the client's messages. Copies of traced messages go into it too.
    pub(super) fn arena_for_copies(&mut self) -> &mut Arena {
        &mut self.arena
    }

    /// The calendar time of this turn, read once.
    #[inline]
    pub(super) fn time(&mut self, clock: &dyn Clock) -> u64 {
        if self.ms == 0 {
            self.ms = clock.unix_ms();
        }
        self.ms
    }

    /// The next turn has a time of its own.
    #[inline]
    pub(super) fn forget_time(&mut self) {
        self.ms = 0;
    }

    /// What the client asks for costs this turn so many entries.
    #[inline]
    pub(super) fn add_cost(&mut self, entries: usize) {
        self.cost += entries;
    }

    /// The next turn begins with no cost.
    #[inline]
    pub(super) fn forget_cost(&mut self) {
        self.cost = 0;
    }

    /// True when the turn has gathered as much as it may.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.cost >= TURN_ENTRIES
    }

    /// Adds an arrival without its message to the turn, and writes that. Returns its place among
    /// the arrivals.
    ///
    /// The arrival has its place before the body is copied. To move it afterwards would read back
    /// what was written in other pieces, and wait until the processor has stored the body.
    #[inline]
    pub(super) fn write_arrival(&mut self, arrival: Arrival, head: &Head<'_>, body: Body<'_>, cost: usize) -> u32 {
        let index = self.gather(arrival, cost);
        let arrival = &mut self.arrivals[index as usize];
        match body {
            Body::Borrowed(body) => arrival.bring(self.arena.add(head, body)),
            gathered @ Body::Gathered(_) => arrival.bring(self.arena.add_body(head, gathered)),
        }
        index
    }

    /// The arrival at `index`.
    #[inline]
    pub(super) fn arrival_mut(&mut self, index: u32) -> &mut Arrival {
        &mut self.arrivals[index as usize]
    }

    /// Adds an arrival to the turn. Returns its place among the arrivals.
    #[inline]
    pub(super) fn gather(&mut self, arrival: Arrival, cost: usize) -> u32 {
        self.cost += cost;
        let index = self.arrivals.len() as u32;
        self.arrivals.push(arrival);
        index
    }

    /// The arrival at `index` becomes a retained message.
    pub(super) fn note_retained(&mut self, index: u32, basis: Basis) {
        self.retained.push((index, basis));
    }

    /// The arrivals of the turn that become retained messages.
    pub(super) fn retained(&self) -> impl Iterator<Item = &Message> {
        self.retained.iter().map(|(index, _)| self.arrivals[*index as usize].message())
    }

    /// Takes the list of these, if there are any.
    #[inline]
    pub(super) fn take_retained(&mut self) -> Option<Vec<(u32, Basis)>> {
        (!self.retained.is_empty()).then(|| std::mem::take(&mut self.retained))
    }

    /// These become none.
    pub(super) fn forget_retained(&mut self) {
        self.retained.clear();
    }

    #[inline]
    pub(super) fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    #[inline]
    pub(super) fn take_arrivals(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.arrivals)
    }

    /// Keeps the room of the last turn's arrivals for those of the next one.
    #[inline]
    pub(super) fn keep_room(&mut self, mut arrivals: Vec<Arrival>) {
        arrivals.clear();
        self.arrivals = arrivals;
    }

    /// Gives back what is kept for the next turn.
    pub(super) fn rest(&mut self) {
        if self.arrivals.is_empty() {
            self.arena = Arena::default();
            self.arrivals = Vec::new();
            self.retained = Vec::new();
        }
    }

    /// What was gathered becomes a turn, with the next number. It carries the traced copies.
    #[inline]
    pub(super) fn begin_flush(&mut self) {
        self.turn += 1;
        self.traced = false;
    }

    /// The number of the turn that was flushed last.
    #[inline]
    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// The turn has a copy of a traced message.
    pub(super) fn note_traced(&mut self) {
        self.traced = true;
    }

    /// True when copies of traced messages wait for the flush.
    #[inline]
    pub(super) fn has_traced(&self) -> bool {
        self.traced
    }

    /// Pauses the client until this ticket is durable.
    pub(super) fn pace(&mut self, ticket: Ticket) {
        self.lag_ticket = ticket;
    }

    /// The client is not read before this ticket is durable.
    #[inline]
    pub(super) fn lag_ticket(&self) -> Ticket {
        self.lag_ticket
    }
}
