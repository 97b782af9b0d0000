//! A page of a lane: 4096 consecutive sequence numbers, and as much of their entries as memory
//! keeps.
//!
//! A *hot* page has an entry for each number, and only in hot pages entries change one by one. A
//! *lean* page knows the place of each body. An *absent* page knows only which entries there are;
//! the indexes of its chunks have the rest. Invariant: all live entries of a page that is not hot
//! are ready and on disk. Those of an absent page are durable, and its chunks list every one of
//! them.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use journal::{Address, Bits, Chunk, PAGE, Reference};

use crate::message::Message;
use crate::queue::Returns;
use crate::queue::bitmap::Bitmap;
use crate::queue::entries::{CHUNK, Entries};
use crate::queue::rare::Rare;

/// Entries in a page.
pub(super) const SIZE: usize = PAGE as usize;
/// The memory of a page that is not hot, besides its places and its bits, in bytes.
const PAGE_COST: usize = size_of::<Page>() + 48;
/// A number beyond all that are ever given out.
const FAR: u64 = 1 << 62;
/// Stands for an unknown time of expiry: so late that it never counts as a real one.
pub(super) const NOT_KNOWN: u64 = u64::MAX - 1;
/// The memory of one place of a lean page, in bytes.
pub(super) const PLACE_COST: usize = size_of::<BodyPlace>();

/// The states of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for a consumer.
    Ready,
    /// Outgoing to a consumer.
    Out,
    /// Came back, and is not delivered again before its due time.
    Waiting,
    /// Leaves for another queue. Never delivered from here again.
    Dying,
    /// Part of a group that has not ended: no consumer sees it yet.
    Hidden,
    /// Gone.
    Done,
}

/// How many bytes a stored message has besides its body, in two bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Besides(NonZeroU16);

impl Besides {
    /// From here on whole units count, and the remainder counts as the body's.
    const MANY: usize = 1 << 15;
    const UNIT: usize = 256;

    /// Never zero: a stored message always has a head.
    fn of(message: &Message) -> Option<Self> {
        let bytes = message.block().len() - message.body().len();
        let units = Self::MANY + (bytes / Self::UNIT).min(Self::MANY - 1);
        NonZeroU16::new(if bytes < Self::MANY { bytes } else { units } as u16).map(Self)
    }

    fn bytes(self) -> u32 {
        let coded = usize::from(self.0.get());
        let bytes = if coded < Self::MANY { coded } else { (coded - Self::MANY) * Self::UNIT };
        bytes as u32
    }
}

/// What may have happened to an entry before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Past {
    /// It was never delivered.
    Fresh,
    /// It came back, and none of its deliveries failed. It may now come after later ones.
    Returned,
    /// A delivery of it failed, or may have failed: this is not known of an earlier run.
    Failed,
}

impl Past {
    /// True when it may have been delivered before.
    #[inline]
    pub(crate) fn is_redelivered(self) -> bool {
        self != Self::Fresh
    }

    /// How many deliveries of it failed, as far as that is known.
    #[inline]
    pub(crate) fn failures(self, returns: Returns) -> u32 {
        // A queue that does not count returns knows no more than that there was one.
        if returns.is_none() { u32::from(self == Self::Failed) } else { returns.counted() }
    }
}

/// One message in one queue.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The message; `None` once the entry is done, and while only the disk has it.
    pub(crate) message: Option<Message>,
    /// Where its body lies in the journal, if it is durable or was spilled.
    pub(crate) address: Option<Address>,
    /// When it expires, in milliseconds since 1970. `u64::MAX` is never, and [`NOT_KNOWN`] is
    /// unknown.
    pub(crate) expires_at: u64,
    /// Bytes of the stored message while only the disk has it; 0 if unknown.
    pub(crate) length: u32,
    /// How often it was delivered and came back.
    pub(crate) returns: Returns,
    /// Bytes of the stored message besides its body while only the disk has it; `None` if unknown.
    pub(crate) besides: Option<Besides>,
    pub(crate) past: Past,
    pub(crate) state: State,
}

// Most of the memory of a short message.
const _: () = assert!(size_of::<Entry>() <= 64);

impl Entry {
    /// Stands for a number without an entry.
    pub(crate) fn gone() -> Self {
        Self {
            message: None,
            address: None,
            expires_at: u64::MAX,
            length: 0,
            returns: Returns::default(),
            besides: None,
            past: Past::Fresh,
            state: State::Done,
        }
    }

    /// True when it is in the log, and so is there after a restart.
    #[inline]
    pub(crate) fn is_durable(&self) -> bool {
        self.address.is_some_and(|address| !address.is_spilled())
    }

    /// Bytes of its body, as far as they are known.
    pub(crate) fn weight(&self) -> u64 {
        let (length, besides) = match &self.message {
            Some(message) => (message.block().len() as u32, Besides::of(message)),
            None => (self.length, self.besides),
        };
        besides.map_or(0, |besides| u64::from(length.saturating_sub(besides.bytes())))
    }

    /// True when it has expired. With a time to live of zero a message may be delivered on arrival,
    /// but not after a return.
    #[inline]
    pub(crate) fn is_too_old(&self, now: u64) -> bool {
        self.expires_at < now || (self.past.is_redelivered() && self.expires_at <= now)
    }

    /// True when only the disk has the message, and its time of expiry is unknown.
    pub(crate) fn is_unaged(&self) -> bool {
        self.message.is_none() && self.expires_at == NOT_KNOWN
    }

    /// True when only the disk has the message, and the length of its body is unknown.
    pub(crate) fn is_unweighed(&self) -> bool {
        self.message.is_none() && self.besides.is_none()
    }

    /// Notes the figures of its message before that leaves memory, or when it was read for them
    /// alone.
    pub(crate) fn note(&mut self, message: &Message) {
        self.length = message.block().len() as u32;
        self.besides = Besides::of(message);
    }

    /// True when memory needs only its place. Its returns are noted for a restart as well, which
    /// only a durable entry sees.
    fn is_plain(&self) -> bool {
        let away = self.state == State::Ready && self.message.is_none();
        away && self.address.is_some_and(|address| self.returns.is_none() || !address.is_spilled())
    }
}

/// Where a body lies, and its length (0 if unknown).
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyPlace {
    pub(crate) address: Address,
    pub(crate) length: u32,
}

/// The places of a page's entries, in order. The entries are the ready ones.
#[derive(Debug)]
struct Lean {
    places: Vec<BodyPlace>,
    /// The lowest and the highest file among them, or wider.
    files: (u32, u32),
}

impl Lean {
    fn new(places: Vec<BodyPlace>) -> Self {
        let mut files = (u32::MAX, 0);
        for place in &places {
            files = (files.0.min(place.address.file), files.1.max(place.address.file));
        }
        Self { places, files }
    }
}

/// The result of making an absent page hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It is hot, or was no longer absent.
    Whole,
    /// It has other chunks now.
    Moved,
    /// Its chunks do not list all of its entries.
    Wrong,
}

#[derive(Debug)]
enum Content {
    Hot,
    Lean(Box<Lean>),
    Absent,
}

/// A chunk that lists entries of this page, and how many of them are live.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) chunk: Chunk,
    pub(crate) live: u64,
}

/// The state that the pages of a lane share.
#[derive(Debug, Default)]
pub(super) struct Memo {
    /// Every recovered entry below it counts as delivered before.
    pub(super) mark: u64,
    /// How often entries came back, where these are not in a hot page.
    pub(super) returns: Rare<BTreeMap<u64, Returns>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Page {
    pub(super) number: u64,
    /// The number of the first of `entries`; out of reach while the page is not hot.
    pub(super) first: u64,
    pub(super) entries: Entries,
    /// Entries that are not done.
    pub(super) live: usize,
    pub(super) ready: Bitmap,
    pub(super) ready_count: usize,
    content: Content,
    chunks: Vec<Listed>,
    /// Some index may still list settled numbers of this page.
    pub(super) chunked: bool,
    /// Entries that came back without a failure. Used only while the page is not hot.
    returned: Option<Box<Bitmap>>,
    /// Entries of which a delivery failed. Used only while the page is not hot.
    failed: Option<Box<Bitmap>>,
    /// No entry expires. Used only while the page is not hot.
    timeless: bool,
}

pub(super) fn bit_of(seq: u64) -> usize {
    (seq % PAGE) as usize
}

impl Page {
    pub(super) fn new(first: u64) -> Self {
        Self {
            number: first / PAGE,
            first,
            entries: Entries::default(),
            live: 0,
            ready: Bitmap::default(),
            ready_count: 0,
            content: Content::Hot,
            chunks: Vec::new(),
            chunked: false,
            returned: None,
            failed: None,
            timeless: false,
        }
    }

    /// Some index may list settled numbers of this page, whether or not it lists live ones.
    pub(crate) fn note_chunks(&mut self) {
        self.chunked = true;
    }

    /// A recovered page: the place of each of its entries, in order. `chunks` list those that lie
    /// in segments.
    pub(crate) fn lean(number: u64, members: Bits, places: Vec<BodyPlace>, chunks: Vec<Listed>) -> Self {
        let mut page = Self::cold(number, members, chunks);
        page.content = Content::Lean(Box::new(Lean::new(places)));
        page
    }

    /// A recovered page whose entries all lie in segments.
    pub(crate) fn absent(number: u64, members: Bits, chunks: Vec<Listed>) -> Self {
        Self::cold(number, members, chunks)
    }

    fn cold(number: u64, members: Bits, chunks: Vec<Listed>) -> Self {
        let mut page = Self::new(number * PAGE);
        page.first = FAR;
        page.ready = Bitmap::of(&members);
        page.ready_count = page.ready.count();
        page.live = page.ready_count;
        page.content = Content::Absent;
        page.chunked = !chunks.is_empty();
        page.chunks = chunks;
        page
    }

    /// Appends an entry to a hot page.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        self.first += self.entries.make_room() as u64;
        self.entries.push(entry);
    }

    /// Gives back the first chunks once all of their entries are done, as the entry at `at` is.
    /// Otherwise a queue that keeps a few messages while many pass would have room for thousands,
    /// which no figure counts.
    #[inline]
    pub(super) fn trim(&mut self, at: usize) {
        if (at + 1).is_multiple_of(CHUNK) {
            self.trim_now();
        }
    }

    fn trim_now(&mut self) {
        let is_done = |entry: &Entry| entry.state == State::Done;
        // Looked at from its end first: where entries go in order, that tells most of the time.
        while self.entries.full_head().is_some_and(|chunk| chunk.iter().rev().all(is_done)) {
            self.entries.drop_head();
            self.first += CHUNK as u64;
        }
    }

    /// Begins again with this number. Everything in the page must be done.
    #[inline]
    pub(super) fn restart(&mut self, first: u64) {
        debug_assert!(self.live == 0 && self.ready_count == 0);
        if self.number != first / PAGE {
            self.number = first / PAGE;
            self.chunked = false;
            self.ready.clear_all();
        }
        self.first = first;
        self.entries.clear();
        self.chunks.clear();
    }

    pub(super) fn start(&self) -> u64 {
        self.number * PAGE
    }

    pub(super) fn is_hot(&self) -> bool {
        matches!(self.content, Content::Hot)
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self.content, Content::Absent)
    }

    /// Its memory while it is not hot, in bytes.
    pub(super) fn cost(&self) -> usize {
        match &self.content {
            Content::Hot => 0,
            Content::Lean(lean) => PAGE_COST + self.ready.heap_bytes() + lean.places.len() * PLACE_COST,
            Content::Absent => PAGE_COST + self.ready.heap_bytes(),
        }
    }

    pub(super) fn first_ready(&self, from: usize) -> Option<usize> {
        if self.ready_count == 0 { None } else { self.ready.next(from) }
    }

    pub(super) fn set_ready(&mut self, bit: usize) {
        self.ready.put(bit);
        self.ready_count += 1;
    }

    pub(super) fn clear_ready(&mut self, bit: usize) {
        self.ready.clear(bit);
        self.ready_count -= 1;
    }

    /// True when it is unknown whether this ready entry expires.
    pub(super) fn is_unaged(&self, seq: u64) -> bool {
        if !self.is_hot() {
            return !self.timeless;
        }
        let entry = seq.checked_sub(self.first).and_then(|at| self.entries.get(at as usize));
        entry.is_some_and(Entry::is_unaged)
    }

    /// Bytes of its ready bodies, and the number of entries of unknown length.
    pub(super) fn weight(&self) -> (u64, usize) {
        if !self.is_hot() {
            return (0, self.live);
        }
        let ready = self.entries.iter().filter(|entry| entry.state == State::Ready);
        ready.fold((0, 0), |(bytes, unknown), entry| {
            (bytes + entry.weight(), unknown + usize::from(entry.is_unweighed()))
        })
    }

    /// The time to live has changed: `die_at` says when a message expires. For entries that only
    /// the disk has it is unknown again.
    pub(super) fn age_anew(&mut self, die_at: &dyn Fn(&Message) -> u64) {
        self.timeless = false;
        for entry in self.entries.iter_mut() {
            entry.expires_at = entry.message.as_ref().map_or(NOT_KNOWN, die_at);
        }
    }

    /// Makes a lean page hot.
    pub(super) fn thaw(&mut self, memo: &mut Memo) {
        if let Content::Lean(lean) = std::mem::replace(&mut self.content, Content::Hot) {
            self.hydrate(lean.places.into_iter(), memo);
        }
    }

    /// Makes an absent page hot from the lists of `chunks`. Nothing happens if they do not list
    /// every entry, or are no longer its chunks.
    pub(super) fn place(&mut self, chunks: &[Chunk], mut listed: Vec<Reference>, memo: &mut Memo) -> Placed {
        // After a merge the places in an older list are wrong.
        if !self.chunks.iter().map(|listed| listed.chunk).eq(chunks.iter().copied()) {
            return Placed::Moved;
        }
        listed.retain(|one| one.seq / PAGE == self.number && self.ready.has(bit_of(one.seq)));
        listed.sort_unstable_by_key(|one| one.seq);
        listed.dedup_by_key(|one| one.seq);
        if listed.len() != self.live {
            return Placed::Wrong;
        }
        self.hydrate(listed.iter().map(|one| BodyPlace { address: one.address, length: one.length }), memo);
        Placed::Whole
    }

    /// Makes entries of the ready numbers, with these places.
    fn hydrate(&mut self, places: impl Iterator<Item = BodyPlace>, memo: &mut Memo) {
        let start = self.start();
        let (returned, failed) = (self.returned.take(), self.failed.take());
        let has = |bits: &Option<Box<Bitmap>>, bit| bits.as_ref().is_some_and(|bits| bits.has(bit));
        self.content = Content::Hot;
        let first = self.ready.next(0).unwrap_or(0);
        self.first = start + first as u64;
        let mut entries = Entries::default();
        for (bit, place) in self.ready.iter().zip(places) {
            let seq = start + bit as u64;
            (entries.len()..bit - first).for_each(|_| entries.push(Entry::gone()));
            entries.push(Entry {
                address: Some(place.address),
                length: place.length,
                returns: memo.returns.made_mut().and_then(|all| all.remove(&seq)).unwrap_or_default(),
                expires_at: if self.timeless { u64::MAX } else { NOT_KNOWN },
                past: match seq < memo.mark || has(&failed, bit) {
                    true => Past::Failed,
                    false if has(&returned, bit) => Past::Returned,
                    false => Past::Fresh,
                },
                state: State::Ready,
                ..Entry::gone()
            });
        }
        self.entries = entries;
    }

    /// Makes a hot page lean if all its entries are ready, durable and away.
    pub(super) fn lean_down(&mut self, memo: &mut Memo) -> bool {
        let live = || self.entries.iter().filter(|entry| entry.state != State::Done);
        if !self.is_hot() || self.live == 0 || self.ready_count != self.live || !live().all(Entry::is_plain) {
            return false;
        }
        self.timeless = live().all(|entry| entry.expires_at == u64::MAX);
        let mut places = Vec::with_capacity(self.live);
        let (mut returned, mut failed) = (Bitmap::default(), Bitmap::default());
        for (seq, entry) in (self.first..).zip(self.entries.iter()) {
            let (State::Ready, Some(address)) = (entry.state, entry.address) else { continue };
            places.push(BodyPlace { address, length: entry.length });
            match entry.past {
                Past::Returned if seq >= memo.mark => returned.put(bit_of(seq)),
                Past::Failed if seq >= memo.mark => failed.put(bit_of(seq)),
                _ => {}
            }
            if !entry.returns.is_none() {
                memo.returns.insert(seq, entry.returns);
            }
        }
        self.returned = (!returned.is_empty()).then(|| Box::new(returned));
        self.failed = (!failed.is_empty()).then(|| Box::new(failed));
        self.content = Content::Lean(Box::new(Lean::new(places)));
        self.entries = Entries::default();
        self.first = FAR;
        true
    }

    /// Makes a lean page absent if its chunks list all its entries.
    pub(super) fn forget_places(&mut self) -> bool {
        let listed: u64 = self.chunks.iter().map(|listed| listed.live).sum();
        let forgets = matches!(self.content, Content::Lean(_)) && listed == self.live as u64;
        if forgets {
            self.content = Content::Absent;
        }
        forgets
    }

    /// Everything in the page is done.
    pub(super) fn clear(&mut self) {
        self.ready = Bitmap::default();
        (self.ready_count, self.live) = (0, 0);
        self.content = Content::Hot;
        self.entries = Entries::default();
        self.first = self.start();
        self.chunks = Vec::new();
        (self.returned, self.failed) = (None, None);
    }

    /// True when chunks list entries of it.
    #[inline]
    pub(super) fn is_listed(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// The chunks that list entries of it.
    pub(super) fn chunks(&self) -> Vec<Chunk> {
        self.chunks.iter().map(|listed| listed.chunk).collect()
    }

    /// An entry whose body lay in `file` is done.
    #[cold]
    pub(super) fn unlist(&mut self, file: u32) {
        if let Some(listed) = self.chunks.iter_mut().find(|listed| listed.chunk.segment == file) {
            listed.live = listed.live.saturating_sub(1);
        }
        self.chunks.retain(|listed| listed.live > 0);
    }

    /// Counts the durable unsettled entries that have their bodies in each file.
    pub(super) fn count_files(&self, counts: &mut BTreeMap<u32, u64>) {
        let mut count = |file: u32, more: u64| *counts.entry(file).or_default() += more;
        match &self.content {
            Content::Hot => {
                let live = self.entries.iter().filter(|entry| entry.state != State::Done);
                live.filter_map(|entry| entry.address).for_each(|address| count(address.file, 1));
            }
            Content::Lean(lean) => lean.places.iter().for_each(|place| count(place.address.file, 1)),
            Content::Absent => self.chunks.iter().for_each(|listed| count(listed.chunk.segment, listed.live)),
        }
    }

    /// Adds the entries that are not done and whose bodies lie in `file`.
    pub(super) fn referenced(&self, file: u32, found: &mut Vec<Reference>) {
        match &self.content {
            Content::Hot => {
                for (seq, entry) in (self.first..).zip(self.entries.iter()) {
                    let Some(address) = entry.address else { continue };
                    if entry.state == State::Done || address.file != file {
                        continue;
                    }
                    let length = entry.message.as_ref().map_or(entry.length, |message| message.block().len() as u32);
                    found.push(Reference { seq, address, length });
                }
            }
            Content::Lean(lean) if (lean.files.0..=lean.files.1).contains(&file) => {
                for (bit, place) in self.ready.iter().zip(&lean.places) {
                    if place.address.file == file {
                        let seq = self.start() + bit as u64;
                        found.push(Reference { seq, address: place.address, length: place.length });
                    }
                }
            }
            Content::Lean(_) | Content::Absent => {}
        }
    }

    /// Sets the bits of the unsettled entries with an address that `counts` is true of.
    fn mark(&self, counts: impl Fn(Address) -> bool, bits: &mut Bits) {
        let mut set = |bit: usize| bits[bit / 64] |= 1 << (bit % 64);
        match &self.content {
            Content::Hot => {
                for (seq, entry) in (self.first..).zip(self.entries.iter()) {
                    if entry.state != State::Done && entry.address.is_some_and(&counts) {
                        set(bit_of(seq));
                    }
                }
            }
            Content::Lean(lean) => {
                let places = self.ready.iter().zip(&lean.places);
                places.filter(|(_, place)| counts(place.address)).for_each(|(bit, _)| set(bit));
            }
            Content::Absent => *bits = self.ready.bits(),
        }
    }

    /// Sets the bits of the durable entries that are not done.
    pub(super) fn unsettled(&self, bits: &mut Bits) {
        self.mark(|address| !address.is_spilled(), bits);
    }

    /// Sets the bits of the unsettled entries that are on disk, durable or not.
    pub(super) fn stored(&self, bits: &mut Bits) {
        self.mark(|_| true, bits);
    }

    /// The body of an entry lies at `to` now; false if it no longer lies where `one` says.
    pub(super) fn relocate(&mut self, one: &Reference, to: Address) -> bool {
        let place = self.place_mut(one.seq).filter(|(address, _)| **address == one.address);
        let Some((address, _)) = place else { return false };
        *address = to;
        if let Content::Lean(lean) = &mut self.content {
            lean.files = (lean.files.0.min(to.file), lean.files.1.max(to.file));
        }
        true
    }

    /// Bodies that lay in one of the files `from` lie in `chunk` now. Returns how many of their
    /// entries are live.
    pub(super) fn moved(&mut self, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64 {
        self.chunked = true;
        let mut count = 0;
        let mut left: Vec<u32> = Vec::new();
        for one in entries {
            let Some((address, length)) = self.place_mut(one.seq) else {
                count += u64::from(self.is_absent() && self.ready.has(bit_of(one.seq)));
                continue;
            };
            if !from.contains(&address.file) {
                continue;
            }
            left.push(address.file);
            (*address, *length) = (one.address, one.length);
            count += 1;
        }
        if self.is_absent() {
            // The chunks of such files are moved as a whole.
            self.chunks.retain(|listed| !from.contains(&listed.chunk.segment));
        }
        if self.is_listed() {
            left.into_iter().for_each(|file| self.unlist(file));
        }
        if let Content::Lean(lean) = &mut self.content {
            lean.files = (lean.files.0.min(chunk.segment), lean.files.1.max(chunk.segment));
        }
        if count > 0 {
            self.chunks.push(Listed { chunk, live: count });
        }
        count
    }

    /// True for a number whose entry is not done.
    pub(super) fn is_live(&self, seq: u64) -> bool {
        if !self.is_hot() {
            return self.ready.has(bit_of(seq));
        }
        let entry = seq.checked_sub(self.first).and_then(|at| self.entries.get(at as usize));
        entry.is_some_and(|entry| entry.state != State::Done)
    }

    /// The place of the body of a live entry, if it is known.
    pub(super) fn reference_of(&mut self, seq: u64) -> Option<Reference> {
        self.place_mut(seq).map(|(address, length)| Reference { seq, address: *address, length: *length })
    }

    /// The place of the body of a live entry, and its length.
    fn place_mut(&mut self, seq: u64) -> Option<(&mut Address, &mut u32)> {
        match &mut self.content {
            Content::Hot => {
                let entry = self.entries.get_mut(usize::try_from(seq.checked_sub(self.first)?).ok()?)?;
                let live = entry.state != State::Done;
                entry.address.as_mut().filter(|_| live).map(|address| (address, &mut entry.length))
            }
            Content::Lean(lean) => {
                let bit = bit_of(seq);
                let place = self.ready.has(bit).then(|| lean.places.get_mut(self.ready.rank(bit))).flatten()?;
                Some((&mut place.address, &mut place.length))
            }
            Content::Absent => None,
        }
    }
}
