//! A lane: the entries of a queue in order, in pages, each entry ready, out with a consumer, dying,
//! hidden or done.
//!
//! An entry is found by its sequence number, so settling out of order and requeuing to its place
//! change one bit. A page whose entries are all done gives its memory back, also in the middle. An
//! entry that is ready and on disk may be *away*: only the disk has its message. Whole pages of
//! such entries shrink to a few bytes for each entry, or none.

use std::collections::{BTreeMap, VecDeque};

use journal::{Address, Bits, Chunk, PAGE, Reference};

use crate::message::Message;
use crate::queue::delivery_mark::Mark;
use crate::queue::entries::Entries;
use crate::queue::lanes::{LaneNumber, first_of, lane_of};
use crate::queue::page::{Memo, NOT_KNOWN, Page, SIZE, bit_of};
use crate::queue::rare::Rare;
use crate::queue::{Returns, Task};

pub(super) use crate::queue::page::PLACE_COST;
pub(crate) use crate::queue::page::{Entry, Placed, State};

mod evict;
mod purge;
mod shown;
mod weight;

pub(crate) use evict::{Dropped, Swept};
pub(crate) use purge::{Piece, Purged, Runs};
pub(crate) use weight::Coming;

/// The memory of an entry in a hot page while its message is away, in bytes.
const AWAY_COST: usize = size_of::<Entry>();
/// The assumed length of a message of unknown length, in bytes.
const LIKELY_LENGTH: usize = 1024;

/// Entries in order.
#[derive(Debug)]
pub(crate) struct Lane {
    pages: VecDeque<Box<Page>>,
    spare: Option<Box<Page>>,
    next: u64,
    /// No entry before this one is ready.
    cursor: u64,
    ready: usize,
    hidden: usize,
    live: usize,
    /// How many of its entries are in the log.
    durable: usize,
    /// Ready entries whose message is away.
    away: usize,
    /// The memory that these take, in bytes.
    index_bytes: usize,
    paged: Paged,
    /// The sweep goes on below this page.
    swept: u64,
    /// How far deliveries may have gone.
    pub(super) mark: Mark,
    /// The number of a message that was read only for its age, and when it expires, in milliseconds
    /// since 1970.
    pub(super) peeked: Option<Box<(u64, u64)>>,
    fresh: Fresh,
}

/// Where a hot page has an entry, until entries come or go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryPlace {
    /// Index of the page.
    page: usize,
    at: usize,
}

/// Whether indexes may list numbers of a queue.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Indexed {
    #[default]
    Nowhere,
    Partly,
}

/// The parts of a lane that its pages leave out.
#[derive(Debug, Default)]
struct Paged {
    memo: Memo,
    indexed: Indexed,
    least: Least,
}

/// The least that memory keeps of a page that it frees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Least {
    /// A bit for each entry.
    #[default]
    Bits,
    /// Hot pages stay hot, and lean ones know where each body lies.
    Places,
}

/// The entries that a visit adds.
#[derive(Debug)]
struct Fresh {
    /// The first number that it gives out.
    first: u64,
    /// Their references carry the mark past them.
    rides: bool,
}

/// Whether a queue has consumers in a visit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Attendance {
    #[default]
    Unattended,
    Attended,
}

/// The kind of data to read for a lane's ready entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// The messages of those that are away, until they are about so many bytes.
    Messages(usize),
    /// When the entries of unknown age expire, likewise, up to the first one of known age.
    Ages(usize),
    /// The lengths of the entries of unknown length, likewise.
    Weights(usize),
    /// Only the place of the first one.
    Head,
}

/// The data to read from the disk for a [`Want`].
#[derive(Debug)]
pub(crate) enum Away {
    Nothing,
    /// First the chunks of this page, to know where its entries lie.
    Index(u64),
    /// These messages.
    Messages(Vec<Reference>),
}

impl Lane {
    /// An empty lane whose first entry will get sequence number `next`.
    pub(crate) fn starting_at(next: u64) -> Self {
        Self {
            pages: VecDeque::new(),
            spare: None,
            next,
            cursor: next,
            ready: 0,
            hidden: 0,
            live: 0,
            durable: 0,
            away: 0,
            index_bytes: 0,
            paged: Paged::default(),
            swept: u64::MAX,
            mark: Mark::starting_at(0),
            peeked: None,
            fresh: Fresh { first: next, rides: false },
        }
    }

    /// A lane as recovery found it: pages in order, none of them hot or empty. Entries below `mark`
    /// count as delivered, and `returns` says how often entries came back.
    pub(crate) fn recovered(
        pages: VecDeque<Box<Page>>,
        next: u64,
        mark: u64,
        returns: BTreeMap<u64, Returns>,
        indexed: Indexed,
    ) -> Self {
        // A page that is not hot takes no more entries. A page with settled numbers in an index is
        // not restarted either.
        let next = if indexed == Indexed::Partly { next.next_multiple_of(PAGE) } else { next };
        let next = pages.back().map_or(next, |last| next.max((last.number + 1) * PAGE));
        let mut lane = Self::starting_at(next);
        for page in &pages {
            lane.live += page.live;
            // Spilled bodies did not survive.
            lane.durable += page.live;
            lane.index_bytes += page.cost();
        }
        (lane.ready, lane.away) = (lane.live, lane.live);
        lane.cursor = pages.front().map_or(next, |page| page.start());
        let returns = if returns.is_empty() { Rare::default() } else { Rare::of(returns) };
        lane.paged.memo = Memo { mark, returns };
        lane.mark = Mark::starting_at(mark);
        lane.paged.indexed = indexed;
        lane.pages = pages;
        lane
    }

    /// Lean pages must keep more of their entries.
    pub(crate) fn keep(&mut self, least: Least) {
        self.paged.least = least;
    }

    /// Which one of its queue's lanes it is.
    #[inline]
    pub(crate) fn number(&self) -> LaneNumber {
        lane_of(self.next)
    }

    /// The sequence number of the next entry.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The next sequence number, and the mark in the log, for a restatement.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.next, self.mark.said())
    }

    /// The next sequence number, and the end of the real deliveries, for a clean stop.
    pub(crate) fn last_position(&self) -> (u64, u64) {
        (self.next, self.mark.delivered_to())
    }

    /// Begins a visit that may add entries. With consumers the references may carry the delivery
    /// mark past themselves, if no older entry waits above the mark. Such an entry would be
    /// delivered on the strength of a record that may still be lost.
    #[inline]
    pub(super) fn begin_visit(&mut self, attendance: Attendance) {
        let is_attended = attendance == Attendance::Attended;
        let rides = is_attended && (self.mark.at() >= self.next || !self.has_waiting());
        self.fresh = Fresh { first: self.next, rides };
    }

    /// The entries that this visit has added: the first number, and the one behind the last.
    #[inline]
    pub(super) fn added(&self) -> (u64, u64) {
        (self.fresh.first, self.next)
    }

    /// The mark for the references of this visit's entries. If it rides on them, none waits for a
    /// mark of its own.
    pub(super) fn mark_of_added(&mut self) -> u64 {
        if self.fresh.rides {
            self.mark.raise(self.next);
        }
        self.mark.said()
    }

    /// Number of ready entries.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Number of ready entries whose message is away.
    #[inline]
    pub(crate) fn away(&self) -> usize {
        self.away
    }

    /// The memory of entries whose message is away, in bytes.
    #[inline]
    pub(crate) fn index_bytes(&self) -> usize {
        self.index_bytes
    }

    /// Appends an entry and returns its sequence number.
    pub(crate) fn push(&mut self, entry: Entry) -> u64 {
        let seq = self.next;
        self.next += 1;
        let fits = match self.pages.back_mut() {
            Some(page) if page.live == 0 => {
                page.restart(seq);
                true
            }
            Some(page) => bit_of(seq) != 0 && page.first.wrapping_add(page.entries.len() as u64) == seq,
            None => false,
        };
        if !fits {
            self.open_page(seq);
        }
        let ready = entry.state == State::Ready;
        self.durable += usize::from(entry.is_durable());
        self.hidden += usize::from(entry.state == State::Hidden);
        if let Some(page) = self.pages.back_mut() {
            page.push(entry);
            page.live += 1;
            if ready {
                page.set_ready(bit_of(seq));
            }
        }
        self.live += 1;
        if ready {
            if self.ready == 0 {
                self.cursor = seq;
            }
            self.ready += 1;
        }
        seq
    }

    fn open_page(&mut self, seq: u64) {
        let page = match self.spare.take() {
            Some(mut page) => {
                page.restart(seq);
                page
            }
            None => {
                let mut page = Box::new(Page::new(seq));
                page.entries = Entries::short();
                page
            }
        };
        self.pages.reserve_exact(usize::from(self.pages.is_empty()));
        self.pages.push_back(page);
    }

    /// The place of an entry, whose page is made hot if its places are known.
    #[inline]
    pub(crate) fn find(&mut self, seq: u64) -> Option<EntryPlace> {
        let index = self.last_starting_by(seq)?;
        self.find_in(index, seq)
    }

    /// The same in the page at `index`, which is the last one that starts at `seq` or before.
    #[inline]
    fn find_in(&mut self, index: usize, seq: u64) -> Option<EntryPlace> {
        let page = &self.pages[index];
        // Far beyond the entries for a page that is not hot.
        let at = seq.wrapping_sub(page.first) as usize;
        if at < page.entries.len() {
            return Some(EntryPlace { page: index, at });
        }
        self.thaw(index, seq)?;
        Some(EntryPlace { page: index, at: (seq - self.pages[index].first) as usize })
    }

    /// Makes a lean page hot, if it has an entry of this number.
    #[cold]
    fn thaw(&mut self, index: usize, seq: u64) -> Option<()> {
        let page = &mut self.pages[index];
        let inside = page.number == seq / PAGE && page.ready.has(bit_of(seq));
        if !inside || page.is_hot() || page.is_absent() {
            return None;
        }
        self.index_bytes -= page.cost();
        page.thaw(&mut self.paged.memo);
        self.index_bytes += page.live * AWAY_COST;
        Some(())
    }

    /// The last page that starts at `seq` or before. Nearly all work is at the head: the first page
    /// is tried first.
    #[inline]
    fn last_starting_by(&self, seq: u64) -> Option<usize> {
        let number = seq / PAGE;
        match self.pages.get(1) {
            Some(second) if second.number <= number => {
                self.pages.partition_point(|page| page.number <= number).checked_sub(1)
            }
            _ => self.pages.front().is_some_and(|first| first.number <= number).then_some(0),
        }
    }

    fn page_mut(&mut self, number: u64) -> Option<&mut Box<Page>> {
        let index = self.pages.binary_search_by_key(&number, |page| page.number).ok()?;
        self.pages.get_mut(index)
    }

    /// The entry with this number, unless it is done and forgotten, or its page is absent.
    pub(crate) fn get_mut(&mut self, seq: u64) -> Option<&mut Entry> {
        let place = self.find(seq)?;
        self.entry_at(place)
    }

    /// The entry at a place that [`Lane::find`] returned.
    #[inline]
    pub(crate) fn entry_at(&mut self, place: EntryPlace) -> Option<&mut Entry> {
        self.pages[place.page].entries.get_mut(place.at)
    }

    /// The first ready entry.
    pub(crate) fn first_ready(&mut self) -> Option<u64> {
        self.cursor = self.ready_from(self.cursor)?;
        Some(self.cursor)
    }

    /// The first ready entry, behind its number and its place; `None` if its page is absent, too.
    #[inline]
    pub(crate) fn head(&mut self) -> Option<(u64, EntryPlace, &mut Entry)> {
        let (page, head) = self.page_ready_from(self.cursor)?;
        self.cursor = head;
        let place = self.find_in(page, head)?;
        Some((head, place, self.entry_at(place)?))
    }

    /// The first ready entry from this number on.
    #[inline]
    pub(super) fn ready_from(&self, from: u64) -> Option<u64> {
        self.page_ready_from(from).map(|(_, seq)| seq)
    }

    /// The same, behind the index of its page.
    #[inline]
    fn page_ready_from(&self, from: u64) -> Option<(usize, u64)> {
        if self.ready == 0 {
            return None;
        }
        let from = from.max(self.cursor);
        for index in self.last_starting_by(from).unwrap_or(0)..self.pages.len() {
            let page = &self.pages[index];
            let bit = from.saturating_sub(page.start()) as usize;
            if let Some(bit) = page.first_ready(bit) {
                return Some((index, page.start() + bit as u64));
            }
        }
        None
    }

    /// True for an entry that is ready.
    pub(super) fn is_ready(&self, seq: u64) -> bool {
        let page = self.last_starting_by(seq).map(|index| &self.pages[index]);
        page.is_some_and(|page| page.number == seq / PAGE && page.ready.has(bit_of(seq)))
    }

    /// Moves an entry to another state; `Done` returns its message. Nothing happens to an entry
    /// that is gone.
    pub(crate) fn set(&mut self, seq: u64, state: State) -> Option<Message> {
        let place = self.find(seq)?;
        self.set_at(place, seq, state)
    }

    /// The same for the entry at the place that [`Lane::find`] returned for it.
    pub(crate) fn set_at(&mut self, place: EntryPlace, seq: u64, state: State) -> Option<Message> {
        let EntryPlace { page: index, at } = place;
        let page = &mut self.pages[index];
        let entry = page.entries.get_mut(at)?;
        let before = entry.state;
        if before == state || before == State::Done {
            return None;
        }
        entry.state = state;
        let away = usize::from(entry.message.is_none());
        self.hidden -= usize::from(before == State::Hidden);
        self.hidden += usize::from(state == State::Hidden);
        let mut message = None;
        if state == State::Done {
            message = entry.message.take();
            let file = entry.address.map_or(0, |address| address.file);
            self.durable = self.durable.saturating_sub(usize::from(entry.is_durable()));
            page.live -= 1;
            self.live -= 1;
            if page.is_listed() {
                page.unlist(file);
            }
        }
        if before == State::Ready {
            page.clear_ready(bit_of(seq));
            self.ready -= 1;
            self.away -= away;
            self.index_bytes -= away * AWAY_COST;
        }
        if state == State::Ready {
            page.set_ready(bit_of(seq));
            self.cursor = if self.ready == 0 { seq } else { self.cursor.min(seq) };
            self.ready += 1;
            self.away += away;
            self.index_bytes += away * AWAY_COST;
        }
        if page.live == 0 {
            self.reclaim(index);
        } else if state == State::Done {
            page.trim(at);
        }
        message
    }

    /// Gives back the memory of a page whose entries are all done. The last page stays: it restarts
    /// at the next push.
    fn reclaim(&mut self, index: usize) {
        if index + 1 == self.pages.len() {
            return;
        }
        if index > 0 {
            self.pages.remove(index);
            return;
        }
        while self.pages.len() > 1 && self.pages[0].live == 0 {
            self.spare = self.pages.pop_front();
        }
    }

    /// Gives back the spare memory of an empty lane.
    pub(crate) fn shrink(&mut self) {
        self.spare = None;
        // A page with settled numbers in an index stays known as such while it may restart.
        if self.live == 0 && self.pages.back().is_none_or(|page| !page.chunked) {
            self.pages = VecDeque::new();
        }
    }

    /// True when an entry waits to be delivered, now or when its group ends.
    fn has_waiting(&self) -> bool {
        self.ready > 0 || self.hidden > 0
    }

    /// The first ready entry, if its age is unknown.
    pub(crate) fn ageless_head(&mut self) -> Option<u64> {
        let head = self.first_ready()?;
        let unaged = self.pages.get(self.last_starting_by(head)?)?.is_unaged(head);
        (unaged && self.peeked.as_ref().is_none_or(|peeked| peeked.0 != head)).then_some(head)
    }

    /// The page of the first ready entry.
    pub(super) fn head_page(&mut self) -> Option<&Page> {
        let head = self.first_ready()?;
        self.pages.get(self.last_starting_by(head)?).map(Box::as_ref)
    }

    /// When the first ready entry expires, as far as that is known, in milliseconds since 1970.
    #[inline]
    pub(crate) fn head_expires_at(&mut self) -> u64 {
        let Some(head) = self.first_ready() else { return u64::MAX };
        let page = self.last_starting_by(head).map(|index| &self.pages[index]);
        let entry = page.and_then(|page| page.entries.get(usize::try_from(head.checked_sub(page.first)?).ok()?));
        let known = entry.map_or(NOT_KNOWN, |entry| entry.expires_at);
        match self.peeked.as_deref() {
            _ if known != NOT_KNOWN => known,
            Some((seq, expires_at)) if *seq == head => *expires_at,
            _ => u64::MAX,
        }
    }

    /// The time to live has changed: `die_at` says when a message expires.
    pub(super) fn age_anew(&mut self, die_at: &dyn Fn(&Message) -> u64) {
        self.peeked = None;
        self.pages.iter_mut().for_each(|page| page.age_anew(die_at));
    }

    /// How to learn when the first ready entry expires while its page stays as it is.
    pub(crate) fn peek(&mut self) -> Task {
        let Some(seq) = self.first_ready() else { return Task::Nothing };
        let Some(index) = self.last_starting_by(seq) else { return Task::Nothing };
        let page = &mut self.pages[index];
        Task::Peek { seq, place: page.reference_of(seq) }
    }

    /// The body of a transient entry was spilled to `address`; false unless it is ready and in
    /// memory.
    pub(crate) fn spill(&mut self, seq: u64, address: Address) -> bool {
        let entry = self
            .get_mut(seq)
            .filter(|entry| entry.state == State::Ready && entry.address.is_none() && entry.message.is_some());
        entry.map(|entry| entry.address = Some(address)).is_some()
    }

    /// The body of an entry lies at `to` now; false if it no longer lies where `one` says.
    pub(crate) fn relocate(&mut self, one: &Reference, to: Address) -> bool {
        self.page_mut(one.seq / PAGE).is_some_and(|page| page.relocate(one, to))
    }

    /// The data to read for `want`. Pages become hot on the way where that takes no reading.
    pub(crate) fn away_of(&mut self, want: Want) -> Away {
        let Some(head) = self.first_ready() else { return Away::Nothing };
        self.away_behind(head, want)
    }

    /// The same from `head` on, a ready entry.
    pub(super) fn away_behind(&mut self, head: u64, want: Want) -> Away {
        let limit = match want {
            Want::Messages(limit) | Want::Ages(limit) | Want::Weights(limit) => limit,
            Want::Head => 0,
        };
        let (mut wanted, mut bytes) = (Vec::new(), 0);
        let start = self.last_starting_by(head).unwrap_or(0);
        for index in start..self.pages.len() {
            if self.pages[index].ready_count == 0 {
                continue;
            }
            if self.pages[index].is_absent() {
                if !wanted.is_empty() {
                    break;
                }
                return Away::Index(self.pages[index].number);
            }
            if want == Want::Head {
                return Away::Nothing;
            }
            if let Some(first) = self.pages[index].first_ready(0) {
                self.find(self.pages[index].start() + first as u64);
            }
            let page = &self.pages[index];
            for bit in page.ready.iter() {
                let seq = page.start() + bit as u64;
                if seq < head {
                    continue;
                }
                let Some(entry) = page.entries.get((seq - page.first) as usize) else { continue };
                match want {
                    Want::Ages(_) if !entry.is_unaged() => return messages(wanted),
                    Want::Weights(_) if !entry.is_unweighed() => continue,
                    _ => {}
                }
                let (None, Some(address)) = (&entry.message, entry.address) else { continue };
                wanted.push(Reference { seq, address, length: entry.length });
                bytes += if entry.length == 0 { LIKELY_LENGTH } else { entry.length as usize };
                if bytes >= limit {
                    return messages(wanted);
                }
            }
        }
        messages(wanted)
    }

    /// Makes an absent page hot from the lists of `chunks`.
    pub(crate) fn place(&mut self, number: u64, chunks: &[Chunk], listed: Vec<Reference>) -> Placed {
        let Ok(index) = self.pages.binary_search_by_key(&number, |page| page.number) else { return Placed::Whole };
        let page = &mut self.pages[index];
        if !page.is_absent() {
            return Placed::Whole;
        }
        let cost = page.cost();
        let placed = page.place(chunks, listed, &mut self.paged.memo);
        if placed == Placed::Whole {
            self.index_bytes -= cost;
            self.index_bytes += page.live * AWAY_COST;
        }
        placed
    }

    /// The chunks of a page, if it is absent.
    pub(crate) fn absent_chunks_of(&mut self, number: u64) -> Option<Vec<Chunk>> {
        self.page_mut(number).filter(|page| page.is_absent()).map(|page| page.chunks())
    }

    /// True when the body of an unsettled entry lies at this address. For an absent page it is true
    /// when one of its chunks is in that segment.
    pub(crate) fn lies_at(&mut self, one: &Reference) -> bool {
        match self.page_mut(one.seq / PAGE).filter(|page| page.is_absent()) {
            Some(page) => page.chunks().iter().any(|chunk| chunk.segment == one.address.file),
            None => {
                let entry = self.get_mut(one.seq).filter(|entry| entry.state != State::Done);
                entry.is_some_and(|entry| entry.address == Some(one.address))
            }
        }
    }

    /// A ready entry that is away, if its body still lies where it was read.
    pub(crate) fn away_at(&mut self, one: &Reference) -> Option<&mut Entry> {
        self.get_mut(one.seq).filter(|entry| {
            entry.state == State::Ready && entry.message.is_none() && entry.address == Some(one.address)
        })
    }

    /// The message of an entry that was away is in memory.
    pub(crate) fn returned(&mut self) {
        self.away -= 1;
        self.index_bytes -= AWAY_COST;
    }

    /// The first page from `number` on that has entries.
    pub(crate) fn first_page(&self, number: u64) -> Option<u64> {
        let from = self.pages.partition_point(|page| page.number < number);
        self.pages.range(from..).find(|page| page.live > 0).map(|page| page.number)
    }

    /// True for a number whose entry is not done.
    pub(crate) fn is_live(&self, seq: u64) -> bool {
        let page = self.pages.binary_search_by_key(&(seq / PAGE), |page| page.number);
        page.is_ok_and(|index| self.pages[index].is_live(seq))
    }

    /// Adds the entries that are not done and whose bodies lie in `file`.
    pub(crate) fn referenced(&self, file: u32, found: &mut Vec<Reference>) {
        self.pages.iter().for_each(|page| page.referenced(file, found));
    }

    /// Sets the bits of the durable entries of a page that are not done.
    pub(crate) fn unsettled(&mut self, number: u64, bits: &mut Bits) {
        if let Some(page) = self.page_mut(number) {
            page.unsettled(bits);
        }
    }

    /// Sets the bits of the entries of a page that are on disk and not done.
    pub(crate) fn stored(&mut self, number: u64, bits: &mut Bits) {
        if let Some(page) = self.page_mut(number) {
            page.stored(bits);
        }
    }

    /// The bodies of a page that lay in one of the files `from` lie in `chunk` now. Returns how
    /// many of them are still needed.
    pub(crate) fn moved(&mut self, number: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64 {
        self.paged.indexed = Indexed::Partly;
        let Ok(index) = self.pages.binary_search_by_key(&number, |page| page.number) else {
            // A purge gave the page back while its chunk was written, and the page still takes
            // entries.
            if number == self.next / PAGE && bit_of(self.next) != 0 {
                let mut page = Box::new(Page::new(self.next));
                page.chunked = true;
                self.pages.push_back(page);
            }
            return 0;
        };
        let page = &mut self.pages[index];
        let count = page.moved(from, chunk, entries);
        if !page.is_hot() {
            self.lean_page(index);
        }
        count
    }

    /// The settled numbers that an index may still list, in runs.
    pub(crate) fn settled_runs(&self) -> Vec<(u64, u64)> {
        let mut runs = Runs::default();
        if self.paged.indexed == Indexed::Nowhere {
            return runs.0;
        }
        let first = first_of(self.number());
        let mut from = first;
        for page in &self.pages {
            runs.add(from, page.start());
            from = page.start().max(first);
            let end = (page.start() + PAGE).min(self.next);
            if page.chunked {
                let mut live = [0; SIZE / 64];
                page.unsettled(&mut live);
                from = runs.add_gaps(from, page.start(), &live);
                runs.add(from, end);
            }
            from = end;
        }
        runs.add(from, self.next);
        runs.0
    }

    /// Counts the durable unsettled entries that have their bodies in each file.
    pub(crate) fn count_files(&self, counts: &mut BTreeMap<u32, u64>) {
        self.pages.iter().for_each(|page| page.count_files(counts));
    }

    /// How often entries came back, where that counts.
    pub(crate) fn returns(&self) -> Vec<(u64, Returns)> {
        let hot = self.pages.iter().flat_map(|page| (page.first..).zip(page.entries.iter()));
        let hot = hot.filter(|(_, entry)| entry.state != State::Done && !entry.returns.is_none() && entry.is_durable());
        let mut all: Vec<_> = hot.map(|(seq, entry)| (seq, entry.returns)).collect();
        all.extend(self.paged.memo.returns.iter().map(|(seq, returns)| (*seq, *returns)));
        all
    }
}

fn messages(wanted: Vec<Reference>) -> Away {
    if wanted.is_empty() { Away::Nothing } else { Away::Messages(wanted) }
}

#[cfg(test)]
mod tests;
