//! The lanes of a queue, one for each priority among its messages. The highest goes first, and each
//! keeps its own order.
//!
//! A sequence number begins with the number of its lane. So the log, the segments and recovery do
//! without priorities: that of an entry is as durable as its number. Each lane has its own pages,
//! position and delivery mark. Lane 0 has the messages without a priority of their own. The numbers
//! of the others have a sign: how far they are above lane 0 or below it. A queue without priorities
//! has lane 0 alone, and pays one look for the others.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use journal::{Address, Bits, Chunk, PAGE, Reference};

use crate::message::Message;
use crate::queue::filter::Cursor;
use crate::queue::lane::{Attendance, Away, Dropped, Entry, Indexed, Lane, Least, Piece, Placed, Purged, State, Swept};
use crate::queue::lane::{EntryPlace, Want};
use crate::queue::page::Page;
use crate::queue::{Returns, Task};

/// How many numbers each lane has: at a million messages a second they last for nine years.
const NUMBERS: u64 = 1 << 48;

/// The number of a lane: the bits of its distance above lane 0, negative for one below.
pub(crate) type LaneNumber = u16;

/// The lane at this distance above lane 0.
#[inline]
pub(crate) fn lane_above(normal: i16) -> LaneNumber {
    normal.cast_unsigned()
}

/// The distance of a lane above lane 0. The highest is delivered first.
#[inline]
pub(crate) fn height(lane: LaneNumber) -> i16 {
    lane.cast_signed()
}

/// The lane of a sequence number.
#[inline]
pub(crate) fn lane_of(seq: u64) -> LaneNumber {
    (seq / NUMBERS) as LaneNumber
}

/// The lane of a page.
fn lane_of_page(page: u64) -> LaneNumber {
    lane_of(page * PAGE)
}

/// The first number that a lane gives out. The one before it is never given out.
pub(crate) fn first_of(lane: LaneNumber) -> u64 {
    u64::from(lane) * NUMBERS + 1
}

/// How far a lane has come.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Position {
    /// The next sequence number.
    pub(crate) next: u64,
    /// The delivery mark.
    pub(crate) mark: u64,
}

/// How far the lanes of one queue have come, by the log.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    normal: Position,
    others: BTreeMap<LaneNumber, Position>,
}

impl Positions {
    /// The position of the lane that `seq` is in.
    pub(crate) fn of_mut(&mut self, seq: u64) -> &mut Position {
        match lane_of(seq) {
            0 => &mut self.normal,
            lane => self.others.entry(lane).or_default(),
        }
    }

    /// Each lane that has a position, with it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LaneNumber, Position)> {
        std::iter::once((0, self.normal)).chain(self.others.iter().map(|(lane, position)| (*lane, *position)))
    }

    /// The next sequence number of the lane that a page is in.
    pub(crate) fn next_of_page(&self, page: u64) -> u64 {
        match lane_of_page(page) {
            0 => self.normal.next,
            lane => self.others.get(&lane).map_or(0, |position| position.next),
        }
    }
}

/// How far a purge goes, once its first piece is done: for each lane, the page that grew then.
#[derive(Debug, Default)]
pub(crate) struct PurgeEnds(Vec<(LaneNumber, u64)>);

/// See the module.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Lane 0.
    normal: Lane,
    /// The others, the highest first.
    others: Vec<Lane>,
    /// How many of them are above lane 0.
    above: usize,
    least: Least,
    attendance: Attendance,
}

impl Lanes {
    pub(crate) fn new() -> Self {
        Self {
            normal: Lane::starting_at(first_of(0)),
            others: Vec::new(),
            above: 0,
            least: Least::default(),
            attendance: Attendance::default(),
        }
    }

    /// Lanes as recovery found them; see [`Lane::recovered`]. The pages are in order.
    pub(crate) fn recovered(
        mut pages: VecDeque<Box<Page>>,
        positions: Positions,
        mut returns: BTreeMap<u64, Returns>,
        indexed: Indexed,
    ) -> Self {
        let mut lanes = Self::new();
        for (number, Position { next, mark }) in positions.others.into_iter().rev() {
            let first = first_of(number);
            let own = pages.split_off(pages.partition_point(|page| lane_of_page(page.number) < number));
            let returns = returns.split_off(&first);
            lanes.others.push(Lane::recovered(own, next.max(first), mark, returns, indexed));
        }
        lanes.others.sort_by_key(|lane| Reverse(height(lane.number())));
        lanes.above = lanes.others.partition_point(|lane| height(lane.number()) > 0);
        let Position { next, mark } = positions.normal;
        lanes.normal = Lane::recovered(pages, next.max(first_of(0)), mark, returns, indexed);
        lanes
    }

    /// Lean pages must keep more of their entries.
    pub(crate) fn keep(&mut self, least: Least) {
        self.least = least;
        self.all_mut().for_each(|lane| lane.keep(least));
    }

    /// The lanes in the order in which they are delivered.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Lane> {
        let (above, below) = self.others.split_at(self.above);
        above.iter().chain(std::iter::once(&self.normal)).chain(below)
    }

    /// The lanes in the order in which they are delivered.
    pub(crate) fn all_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Lane> {
        let (above, below) = self.others.split_at_mut(self.above);
        above.iter_mut().chain(std::iter::once(&mut self.normal)).chain(below)
    }

    /// The lanes in the order of their numbers, which is that of their pages.
    fn in_order_of_numbers(&mut self) -> impl Iterator<Item = &mut Lane> {
        let (above, below) = self.others.split_at_mut(self.above);
        std::iter::once(&mut self.normal).chain(above.iter_mut().rev()).chain(below.iter_mut().rev())
    }

    /// The lane that has `at` lanes before it in the order of delivery.
    #[inline]
    fn nth_mut(&mut self, at: usize) -> Option<&mut Lane> {
        match at.cmp(&self.above) {
            Ordering::Less => self.others.get_mut(at),
            Ordering::Equal => Some(&mut self.normal),
            Ordering::Greater => self.others.get_mut(at - 1),
        }
    }

    /// The lane that an entry is in.
    #[inline]
    pub(crate) fn of_mut(&mut self, seq: u64) -> Option<&mut Lane> {
        match lane_of(seq) {
            0 => Some(&mut self.normal),
            number => self.others.iter_mut().find(|lane| lane.number() == number),
        }
    }

    /// The lane that an entry is in.
    fn of(&self, seq: u64) -> Option<&Lane> {
        self.all().find(|lane| lane.number() == lane_of(seq))
    }

    /// The lane that a page is in.
    fn of_page_mut(&mut self, page: u64) -> Option<&mut Lane> {
        self.of_mut(page * PAGE)
    }

    /// The lane of this number; a new one is made.
    #[inline]
    fn open(&mut self, number: LaneNumber) -> &mut Lane {
        if number == 0 {
            return &mut self.normal;
        }
        let at = self.others.partition_point(|lane| height(lane.number()) > height(number));
        if self.others.get(at).is_none_or(|lane| lane.number() != number) {
            let mut lane = Lane::starting_at(first_of(number));
            lane.keep(self.least);
            lane.begin_visit(self.attendance);
            self.others.insert(at, lane);
            self.above += usize::from(height(number) > 0);
        }
        &mut self.others[at]
    }

    /// A visit begins that may add entries.
    #[inline]
    pub(crate) fn begin_visit(&mut self, attendance: Attendance) {
        self.attendance = attendance;
        self.all_mut().for_each(|lane| lane.begin_visit(attendance));
    }

    /// The entries that this visit has added, (first, end) for each lane that got some, in the
    /// order of delivery.
    pub(crate) fn added(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.all().map(Lane::added).filter(|(first, end)| first < end)
    }

    /// How many lanes there are.
    pub(super) fn count(&self) -> usize {
        self.others.len() + 1
    }

    /// The entries that this visit has added to the lane with `at` lanes before it.
    pub(super) fn added_to(&mut self, at: usize) -> (u64, u64) {
        self.nth_mut(at).map_or((0, 0), |lane| lane.added())
    }

    /// Appends an entry to a lane and returns its sequence number.
    #[inline]
    pub(crate) fn push(&mut self, lane: LaneNumber, entry: Entry) -> u64 {
        #[cfg(feature = "sabotage")]
        let lane = if super::sabotage::armed("flat") { 0 } else { lane };
        self.open(lane).push(entry)
    }

    /// Number of ready entries.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.all().map(Lane::ready).sum()
    }

    /// Number of entries that are not done.
    pub(crate) fn live(&self) -> usize {
        self.all().map(Lane::live).sum()
    }

    /// Number of unsettled entries that are in the log.
    pub(crate) fn durable(&self) -> usize {
        self.all().map(Lane::durable).sum()
    }

    /// Number of ready entries whose message is away.
    #[inline]
    pub(crate) fn away(&self) -> usize {
        self.all().map(Lane::away).sum()
    }

    /// The memory of entries whose message is away, in bytes.
    #[inline]
    pub(crate) fn index_bytes(&self) -> usize {
        self.all().map(Lane::index_bytes).sum()
    }

    /// The entry with this number, unless it is done and forgotten, or its page is absent.
    #[inline]
    pub(crate) fn get_mut(&mut self, seq: u64) -> Option<&mut Entry> {
        self.of_mut(seq)?.get_mut(seq)
    }

    /// An entry, if memory has it at hand.
    pub(super) fn entry_of(&self, seq: u64) -> Option<&Entry> {
        self.of(seq)?.entry_of(seq)
    }

    /// The entry that is out and was published first.
    pub(super) fn oldest_out(&self) -> Option<&Entry> {
        let published = |entry: &&Entry| entry.message.as_ref().map(Message::published_at);
        self.all().filter_map(Lane::first_out).min_by_key(published)
    }

    /// The ready entry that is delivered next.
    #[inline]
    pub(crate) fn first_ready(&mut self) -> Option<u64> {
        if self.others.is_empty() {
            return self.normal.first_ready();
        }
        self.all_mut().find_map(Lane::first_ready)
    }

    /// The same entry behind its number and its place in its lane; `None` if its page is absent,
    /// too.
    #[inline]
    pub(crate) fn head(&mut self) -> Option<(u64, EntryPlace, &mut Entry)> {
        if self.others.is_empty() {
            return self.normal.head();
        }
        self.all_mut().find(|lane| lane.ready() > 0)?.head()
    }

    /// The first ready entry from `from` on and before `until`, in the order of delivery.
    pub(super) fn ready_between(&self, from: &Cursor, until: Option<&Cursor>) -> Option<u64> {
        self.all().find_map(|lane| {
            let end = until.map_or(u64::MAX, |until| until.of(lane.number()));
            lane.ready_from(from.of(lane.number())).filter(|seq| *seq < end)
        })
    }

    /// True when one of these entries, all of one lane, is ready.
    pub(super) fn has_ready(&self, numbers: &Range<u64>) -> bool {
        let first = self.of(numbers.start).and_then(|lane| lane.ready_from(numbers.start));
        first.is_some_and(|seq| seq < numbers.end)
    }

    /// True for an entry that is ready.
    pub(super) fn is_ready(&self, seq: u64) -> bool {
        self.of(seq).is_some_and(|lane| lane.is_ready(seq))
    }

    /// The data to read, up to `limit` bytes, for the messages of a ready entry and of those behind
    /// it in its lane.
    pub(super) fn away_from(&mut self, seq: u64, limit: usize) -> Away {
        self.of_mut(seq).map_or(Away::Nothing, |lane| lane.away_behind(seq, Want::Messages(limit)))
    }

    /// The first entry of the lane with `at` lanes before it, if it is known to have expired by
    /// `now`, in milliseconds since 1970.
    #[inline]
    pub(super) fn first_expired(&mut self, at: usize, now: u64) -> Option<u64> {
        let lane = self.nth_mut(at)?;
        if lane.head_expires_at() <= now { lane.first_ready() } else { None }
    }

    /// An entry was delivered.
    pub(crate) fn delivered(&mut self, seq: u64) {
        if let Some(lane) = self.of_mut(seq) {
            lane.mark.delivered(seq);
        }
    }

    /// See [`Lane::set`].
    #[inline]
    pub(crate) fn set(&mut self, seq: u64, state: State) -> Option<Message> {
        self.of_mut(seq)?.set(seq, state)
    }

    /// How to learn when a head of unknown age expires while its page stays as it is.
    pub(crate) fn peek(&mut self) -> Task {
        let mut unread = self.all_mut().filter_map(|lane| lane.ageless_head().map(|_| lane));
        let cold = |lane: &mut Lane| if lane.head_page().is_some_and(Page::is_hot) { None } else { Some(lane.peek()) };
        unread.find_map(cold).unwrap_or(Task::Nothing)
    }

    /// Bytes of the ready bodies, and the number of entries of unknown length.
    pub(crate) fn weight(&self) -> (u64, usize) {
        let lanes = self.all().map(Lane::weight);
        lanes.fold((0, 0), |(bytes, unread), (more, others)| (bytes + more, unread + others))
    }

    /// See [`Lane::drop_message`].
    pub(crate) fn drop_message(&mut self, seq: u64) -> Option<Dropped> {
        self.of_mut(seq)?.drop_message(seq)
    }

    /// See [`Lane::lean_down`].
    pub(crate) fn lean_down(&mut self, seq: u64) {
        if let Some(lane) = self.of_mut(seq) {
            lane.lean_down(seq);
        }
    }

    /// See [`Lane::sweep`]: the lanes that are delivered last give first.
    pub(crate) fn sweep(&mut self, excess: usize, kept: Option<u64>, room: usize) -> Swept {
        let mut all = Swept::default();
        for lane in self.all_mut().rev() {
            let picked: usize = all.picked.iter().map(|(_, message)| message.block().len()).sum();
            let gone = all.dropped.length + picked;
            let swept = lane.sweep(excess.saturating_sub(gone), kept, room.saturating_sub(picked));
            all.dropped.bytes += swept.dropped.bytes;
            all.dropped.length += swept.dropped.length;
            all.picked.extend(swept.picked);
            all.whole = swept.whole;
            if !swept.whole {
                break;
            }
        }
        all
    }

    /// See [`Lane::spill`].
    pub(crate) fn spill(&mut self, seq: u64, address: Address) -> bool {
        self.of_mut(seq).is_some_and(|lane| lane.spill(seq, address))
    }

    /// See [`Lane::relocate`].
    pub(crate) fn relocate(&mut self, one: &Reference, to: Address) -> bool {
        self.of_mut(one.seq).is_some_and(|lane| lane.relocate(one, to))
    }

    /// The data to read for `want`, of the first lane that lacks some.
    pub(crate) fn away_of(&mut self, want: Want) -> Away {
        for lane in self.all_mut() {
            match lane.away_of(want) {
                Away::Nothing => {}
                away => return away,
            }
        }
        Away::Nothing
    }

    /// See [`Lane::place`].
    pub(crate) fn place(&mut self, page: u64, chunks: &[Chunk], listed: Vec<Reference>) -> Placed {
        self.of_page_mut(page).map_or(Placed::Whole, |lane| lane.place(page, chunks, listed))
    }

    /// See [`Lane::absent_chunks_of`].
    pub(crate) fn absent_chunks_of(&mut self, page: u64) -> Option<Vec<Chunk>> {
        self.of_page_mut(page)?.absent_chunks_of(page)
    }

    /// See [`Lane::lies_at`].
    pub(crate) fn lies_at(&mut self, one: &Reference) -> bool {
        self.of_mut(one.seq).is_some_and(|lane| lane.lies_at(one))
    }

    /// See [`Lane::away_at`].
    pub(crate) fn away_at(&mut self, one: &Reference) -> Option<&mut Entry> {
        self.of_mut(one.seq)?.away_at(one)
    }

    /// The message of an entry that was away is in memory.
    pub(crate) fn returned(&mut self, seq: u64) {
        if let Some(lane) = self.of_mut(seq) {
            lane.returned();
        }
    }

    /// See [`Lane::referenced`].
    pub(crate) fn referenced(&self, file: u32, found: &mut Vec<Reference>) {
        self.all().for_each(|lane| lane.referenced(file, found));
    }

    /// See [`Lane::unsettled`].
    pub(crate) fn unsettled(&mut self, page: u64, bits: &mut Bits) {
        if let Some(lane) = self.of_page_mut(page) {
            lane.unsettled(page, bits);
        }
    }

    /// See [`Lane::stored`].
    pub(crate) fn stored(&mut self, page: u64, bits: &mut Bits) {
        if let Some(lane) = self.of_page_mut(page) {
            lane.stored(page, bits);
        }
    }

    /// See [`Lane::moved`].
    pub(crate) fn moved(&mut self, page: u64, from: &[u32], chunk: Chunk, entries: &[Reference]) -> u64 {
        self.of_page_mut(page).map_or(0, |lane| lane.moved(page, from, chunk, entries))
    }

    /// The first page from `number` on that has entries on disk.
    pub(crate) fn first_stored_page(&mut self, number: u64) -> Option<u64> {
        self.in_order_of_numbers().find_map(|lane| {
            let first = first_of(lane.number()) / PAGE;
            (first.max(number)..lane.next().div_ceil(PAGE)).find(|page| {
                let mut bits: Bits = [0; (PAGE / 64) as usize];
                lane.stored(*page, &mut bits);
                bits.iter().any(|word| *word != 0)
            })
        })
    }

    /// The first page from `number` on that has entries, of a queue without priorities.
    pub(crate) fn first_page(&self, number: u64) -> Option<u64> {
        self.normal.first_page(number)
    }

    /// See [`Lane::is_live`].
    pub(crate) fn is_live(&self, seq: u64) -> bool {
        self.all().find(|lane| lane.number() == lane_of(seq)).is_some_and(|lane| lane.is_live(seq))
    }

    /// The number of durable unsettled entries that have their bodies in each file.
    pub(crate) fn files(&self) -> BTreeMap<u32, u64> {
        let mut counts = BTreeMap::new();
        self.all().for_each(|lane| lane.count_files(&mut counts));
        counts
    }

    /// How often entries came back, where that counts.
    pub(crate) fn returns(&self) -> Vec<(u64, Returns)> {
        self.all().flat_map(Lane::returns).collect()
    }

    /// Takes ready entries out, `most` or somewhat more. `ends` is kept for the next piece.
    pub(crate) fn purge(&mut self, most: u64, ends: &mut PurgeEnds) -> Purged {
        let first = ends.0.is_empty();
        let mut all = Purged::default();
        for lane in self.all_mut().rev() {
            let most = most.saturating_sub(all.count);
            let piece = if first {
                ends.0.push((lane.number(), lane.last_page()));
                Piece::First { most }
            } else {
                let end = ends.0.iter().find(|(number, _)| *number == lane.number());
                // A lane that came meanwhile has no end, and nothing goes.
                Piece::Next { most, before: end.map_or(0, |(_, page)| *page) }
            };
            let purged = lane.purge(piece);
            all.has_more |= purged.has_more;
            all.count += purged.count;
            all.bytes += purged.bytes;
            all.length += purged.length;
            all.weight = (all.weight.0 + purged.weight.0, all.weight.1 + purged.weight.1);
            all.runs.extend(purged.runs);
            purged.freed.into_iter().for_each(|(file, count)| *all.freed.entry(file).or_default() += count);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Entry {
        Entry { message: Some(Message::moved()), state: State::Ready, ..Entry::gone() }
    }

    /// Lanes with one entry each, at these distances above lane 0.
    fn with_entries(heights: &[i16]) -> Lanes {
        let mut lanes = Lanes::new();
        for height in heights {
            lanes.push(lane_above(*height), ready());
        }
        lanes
    }

    #[test]
    fn lanes_below_the_usual_one_come_behind_it() {
        let mut lanes = with_entries(&[0, -1, 27, -4, 1, 255]);
        let order = |lanes: &Lanes| lanes.all().map(|lane| height(lane.number())).collect::<Vec<_>>();
        assert_eq!(order(&lanes), [255, 27, 1, 0, -1, -4]);
        let by_place: Vec<_> = (0..lanes.count()).map(|at| height(lane_of(lanes.added_to(at).0))).collect();
        assert_eq!(by_place, order(&lanes));
        let mut delivered = Vec::new();
        while let Some(seq) = lanes.first_ready() {
            delivered.push(height(lane_of(seq)));
            lanes.set(seq, State::Done);
        }
        assert_eq!(delivered, order(&lanes));
    }

    /// A walk over all pages goes on behind the page that it has.
    #[test]
    fn pages_are_gone_through_in_the_order_of_their_numbers() {
        let mut lanes = with_entries(&[-1, 3, 0, -4]);
        let numbers: Vec<_> = lanes.in_order_of_numbers().map(|lane| lane.number()).collect();
        assert!(numbers.is_sorted() && numbers.len() == 4, "{numbers:?}");
    }

    #[test]
    fn a_purge_in_pieces_takes_what_was_there_and_nothing_that_comes_meanwhile() {
        const MANY: u64 = 3 * PAGE + 100;
        let heights = [0, 2, -1];
        let mut lanes = Lanes::new();
        for height in heights {
            for _ in 0..MANY {
                lanes.push(lane_above(height), ready());
            }
        }
        // One is with a consumer.
        let out = first_of(lane_above(2)) + 5;
        lanes.set(out, State::Out);
        let (mut ends, mut gone, mut pieces) = (PurgeEnds::default(), Vec::new(), 0);
        loop {
            let purged = lanes.purge(PAGE, &mut ends);
            assert!(purged.count <= 5 * PAGE, "{} in one piece", purged.count);
            gone.extend(purged.runs.iter().flat_map(|(first, count)| *first..first + count));
            for _ in 0..PAGE / 2 {
                lanes.push(lane_above(2), ready());
            }
            lanes.push(lane_above(7), ready());
            pieces += 1;
            if !purged.has_more {
                break;
            }
        }
        assert!(pieces > 5, "{pieces}");
        gone.sort_unstable();
        let mut expected: Vec<u64> = heights
            .iter()
            .flat_map(|height| (first_of(lane_above(*height))..).take(MANY as usize))
            .filter(|number| *number != out)
            .collect();
        expected.sort_unstable();
        assert!(gone == expected, "{} of {}", gone.len(), expected.len());
        assert_eq!(lanes.ready() as u64, pieces * (PAGE / 2 + 1));
        assert_eq!(lanes.live() as u64, pieces * (PAGE / 2 + 1) + 1);
        let first = lanes.first_ready().expect("those that came meanwhile");
        assert_eq!(lane_of(first), lane_above(7));
        lanes.set(out, State::Ready);
    }

    #[test]
    fn lanes_that_were_recovered_are_in_the_same_order() {
        let mut positions = Positions::default();
        for height in [-1, 0, 5, -4] {
            *positions.of_mut(first_of(lane_above(height))) =
                Position { next: first_of(lane_above(height)) + 7, mark: 0 };
        }
        let mut lanes = Lanes::recovered(VecDeque::new(), positions, BTreeMap::new(), Indexed::Nowhere);
        let order = |lanes: &Lanes| lanes.all().map(|lane| height(lane.number())).collect::<Vec<_>>();
        assert_eq!(order(&lanes), [5, 0, -1, -4]);
        lanes.push(lane_above(-2), ready());
        assert_eq!(order(&lanes), [5, 0, -1, -2, -4]);
        assert_eq!(lanes.first_ready().map(|seq| height(lane_of(seq))), Some(-2));
    }
}
