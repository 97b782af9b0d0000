//! The lane against a naive model, a sorted map of all entries that are not done. Meanwhile entries
//! leave memory, their bodies are moved into segments, and both come back.

use std::collections::{BTreeMap, BTreeSet};

use journal::{Address, is_spilled};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::message::{Arena, Head};
use crate::queue::Past;
use crate::queue::bitmap::Bitmap;

/// Numbers whose bodies lie in one file.
const FILE: u64 = 700;

/// Where the body of a new entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    Log,
    Memory,
}

/// How the bodies of a file leave the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// They are copied into a segment.
    Copied,
    /// The file becomes a segment where it lies.
    Adopted,
}

/// An entry of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Item {
    state: State,
    /// The file of its body, if it is durable or was spilled.
    file: Option<u32>,
    returns: u32,
    past: Past,
}

impl Item {
    fn is_durable(&self) -> bool {
        self.file.is_some_and(|file| !is_spilled(file))
    }
}

#[derive(Debug, Clone)]
enum Step {
    Push(State, Home),
    Deliver(u8),
    Change(u16, u8),
    ComeBack(u16),
    Sweep(u16),
    Spill(u16, u16),
    SpillAnew(u16),
    LeanDown(u16),
    /// The bodies of one file leave the log.
    Evacuate {
        pick: u16,
        leave: Leave,
    },
    /// Only the first half of that: the bodies are copied, and the lane is told later.
    Copy {
        pick: u16,
        leave: Leave,
    },
    Tell,
    Merge,
    Load(u8),
    Purge,
}

/// A file or segment whose bodies are copied: itself, its successor, and its entries by page.
type Leaving = (u32, u32, BTreeMap<u64, Vec<Reference>>);

fn home() -> impl Strategy<Value = Home> {
    select(vec![Home::Log, Home::Memory])
}

fn leave() -> impl Strategy<Value = Leave> {
    select(vec![Leave::Copied, Leave::Adopted])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (select(vec![State::Ready, State::Hidden]), home()).prop_map(|(state, home)| Step::Push(state, home)),
        4 => any::<u8>().prop_map(Step::Deliver),
        6 => (any::<u16>(), 0..4u8).prop_map(|(pick, state)| Step::Change(pick, state)),
        2 => any::<u16>().prop_map(Step::ComeBack),
        4 => any::<u16>().prop_map(Step::Sweep),
        4 => any::<(u16, u16)>().prop_map(|(excess, room)| Step::Spill(excess, room)),
        1 => any::<u16>().prop_map(Step::SpillAnew),
        4 => any::<u16>().prop_map(Step::LeanDown),
        3 => (any::<u16>(), leave()).prop_map(|(pick, leave)| Step::Evacuate { pick, leave }),
        2 => (any::<u16>(), leave()).prop_map(|(pick, leave)| Step::Copy { pick, leave }),
        2 => Just(Step::Tell),
        1 => Just(Step::Merge),
        4 => any::<u8>().prop_map(Step::Load),
        1 => Just(Step::Purge),
    ]
}

fn message(seq: u64) -> Message {
    let head = Head { persistent: true, routing_key: "q", ..Head::EMPTY };
    Arena::default().add(&head, &seq.to_le_bytes())
}

fn entry(seq: u64, state: State, file: Option<u32>) -> Entry {
    Entry {
        message: Some(message(seq)),
        address: file.map(|file| Address { file, offset: seq as u32 }),
        expires_at: u64::MAX,
        length: 0,
        returns: Returns::default(),
        besides: None,
        past: Past::Fresh,
        state,
    }
}

fn files_of(lane: &Lane) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    lane.count_files(&mut counts);
    counts
}

struct World {
    lane: Lane,
    model: BTreeMap<u64, Item>,
    /// The index of each segment.
    indexes: BTreeMap<u32, Vec<Reference>>,
    segments: u32,
    leaving: Option<Leaving>,
}

impl World {
    fn new(start: u64) -> Self {
        Self {
            lane: Lane::starting_at(start),
            model: BTreeMap::new(),
            indexes: BTreeMap::new(),
            segments: 1 << 31,
            leaving: None,
        }
    }

    /// Sweeps, and spills the picked messages.
    fn spill(&mut self, excess: usize, room: usize) {
        let swept = self.lane.sweep(excess, None, room);
        let picked: usize = swept.picked.iter().map(|(_, message)| message.block().len()).sum();
        let last = swept.picked.last().map_or(0, |(_, message)| message.block().len());
        assert!(picked.saturating_sub(last) < room.max(1), "{picked} bytes were picked, and there was room for {room}");
        for (seq, _) in swept.picked {
            let item = self.model.get_mut(&seq).unwrap();
            assert_eq!((item.state, item.file), (State::Ready, None));
            let file = 3 << 30 | (seq / FILE) as u32;
            item.file = Some(file);
            let address = Address { file, offset: seq as u32 };
            assert!(self.lane.spill(seq, address) && !self.lane.spill(seq, address));
            assert!(self.lane.drop_message(seq).is_some());
            self.lane.lean_down(seq);
        }
    }

    /// All of a spilled file goes to another one.
    fn spill_anew(&mut self, pick: u16) {
        let files: BTreeSet<u32> =
            self.model.values().filter_map(|item| item.file).filter(|file| is_spilled(*file)).collect();
        let Some(file) = files.iter().nth(pick as usize % files.len().max(1)).copied() else { return };
        for one in self.referenced(file).into_values().flatten() {
            let to = Address { file: file | 1 << 20, ..one.address };
            assert!(self.lane.relocate(&one, to));
            assert!(file == to.file || !self.lane.relocate(&one, to), "it lies there no more");
            self.model.get_mut(&one.seq).unwrap().file = Some(to.file);
        }
    }

    fn pick(&self, pick: u16) -> Option<u64> {
        self.model.keys().nth(pick as usize % self.model.len().max(1)).copied()
    }

    fn push(&mut self, state: State, home: Home) {
        let seq = self.lane.next();
        let file = (home == Home::Log).then_some((seq / FILE) as u32 + 1);
        assert_eq!(self.lane.push(entry(seq, state, file)), seq);
        assert!(self.model.insert(seq, Item { state, file, returns: 0, past: Past::Fresh }).is_none());
    }

    /// Reads as the pager does, until so many bytes from the head on are in memory.
    fn load(&mut self, bytes: usize) {
        for _ in 0..100 {
            match self.lane.away_of(Want::Messages(bytes)) {
                Away::Nothing => return,
                Away::Index(page) => self.place(page),
                Away::Messages(wanted) => {
                    for one in wanted {
                        assert_eq!(u64::from(one.address.offset), one.seq, "the place is that of the entry");
                        assert_eq!(one.length as usize, message(one.seq).block().len());
                        self.lane.away_at(&one).expect("it has just been asked for").message = Some(message(one.seq));
                        self.lane.returned();
                    }
                    return;
                }
            }
        }
        panic!("loading does not come to an end");
    }

    fn place(&mut self, page: u64) {
        let chunks = self.lane.absent_chunks_of(page).expect("the page is absent");
        let mut listed = Vec::new();
        for chunk in &chunks {
            listed.extend(self.indexes[&chunk.segment].iter().filter(|one| one.seq / PAGE == page));
        }
        assert_eq!(self.lane.place(page, &chunks, listed), Placed::Whole, "the chunks list every entry");
    }

    fn deliver(&mut self, bytes: u8) {
        let expected = self.model.iter().find(|(_, item)| item.state == State::Ready).map(|(seq, _)| *seq);
        assert_eq!(self.lane.first_ready(), expected);
        let Some(seq) = expected else { return };
        if self.lane.get_mut(seq).is_none_or(|entry| entry.message.is_none()) {
            self.load(bytes.into());
        }
        let item = self.model.get_mut(&seq).unwrap();
        let entry = self.lane.get_mut(seq).expect("it is there again");
        assert_eq!(entry.message.as_ref().map(|message| message.body().to_vec()), Some(seq.to_le_bytes().to_vec()));
        assert_eq!((entry.returns.counted(), entry.past), (item.returns, item.past));
        item.state = State::Out;
        self.lane.set(seq, State::Out);
    }

    fn change(&mut self, pick: u16, state: State) {
        let Some(seq) = self.pick(pick) else { return };
        if self.lane.get_mut(seq).is_none() {
            self.place(seq / PAGE);
        }
        self.lane.set(seq, state);
        if state == State::Done {
            self.model.remove(&seq);
        } else {
            self.model.get_mut(&seq).unwrap().state = state;
        }
    }

    fn come_back(&mut self, pick: u16) {
        let Some(seq) = self.pick(pick).filter(|seq| self.model[seq].state == State::Out) else { return };
        let entry = self.lane.get_mut(seq).expect("what is out is in a hot page");
        let how = if pick.is_multiple_of(2) { Past::Failed } else { Past::Returned };
        entry.past = entry.past.max(how);
        let past = entry.past;
        entry.returns.add_counted();
        self.lane.set(seq, State::Ready);
        let item = self.model.get_mut(&seq).unwrap();
        (item.state, item.returns, item.past) = (State::Ready, item.returns + 1, past);
    }

    /// The live entries of a file, by page, as the journal asks for them.
    fn referenced(&self, file: u32) -> BTreeMap<u64, Vec<Reference>> {
        let mut found = Vec::new();
        self.lane.referenced(file, &mut found);
        let expected: Vec<_> =
            self.model.iter().filter(|(_, item)| item.file == Some(file)).map(|(seq, _)| *seq).collect();
        assert_eq!(found.iter().map(|one| one.seq).collect::<Vec<_>>(), expected);
        let mut pages: BTreeMap<u64, Vec<Reference>> = BTreeMap::new();
        found.into_iter().for_each(|one| pages.entry(one.seq / PAGE).or_default().push(one));
        pages
    }

    fn evacuate(&mut self, pick: u16, leave: Leave) {
        self.copy(pick, leave);
        self.tell();
    }

    fn copy(&mut self, pick: u16, leave: Leave) {
        self.tell();
        let files: BTreeSet<u32> =
            self.model.values().filter_map(|item| item.file).filter(|file| *file < 1 << 31).collect();
        let Some(file) = files.iter().nth(pick as usize % files.len().max(1)).copied() else { return };
        if self.indexes.contains_key(&file) {
            return;
        }
        let segment = if leave == Leave::Adopted { file } else { self.segment() };
        self.leaving = Some((file, segment, self.referenced(file)));
    }

    fn tell(&mut self) {
        let Some((file, segment, pages)) = self.leaving.take() else { return };
        for (page, entries) in pages {
            self.move_page(page, &[file], segment, entries);
        }
    }

    fn segment(&mut self) -> u32 {
        self.segments += 1;
        self.segments
    }

    fn move_page(&mut self, page: u64, from: &[u32], segment: u32, mut entries: Vec<Reference>) {
        entries.iter_mut().for_each(|one| one.address.file = segment);
        let chunk = Chunk { segment, block: 0, count: entries.len() as u32 };
        let live = entries.iter().filter(|one| self.model.contains_key(&one.seq)).count() as u64;
        assert_eq!(self.lane.moved(page, from, chunk, &entries), live);
        for one in &entries {
            self.model.entry(one.seq).and_modify(|item| item.file = Some(segment));
        }
        self.indexes.entry(segment).or_default().extend(entries);
    }

    /// All segments become one, without their settled entries.
    fn merge(&mut self) {
        self.tell();
        let old = std::mem::take(&mut self.indexes);
        let from: Vec<u32> = old.keys().copied().collect();
        let mut pages: BTreeMap<u64, Vec<Reference>> = BTreeMap::new();
        for one in old.into_values().flatten() {
            let entries = pages.entry(one.seq / PAGE).or_default();
            let mut bits = [0; SIZE / 64];
            self.lane.unsettled(one.seq / PAGE, &mut bits);
            if Bitmap::of(&bits).has(bit_of(one.seq)) && self.model[&one.seq].file == Some(one.address.file) {
                entries.push(one);
            }
        }
        let segment = self.segment();
        for (page, entries) in pages.into_iter().filter(|(_, entries)| !entries.is_empty()) {
            self.move_page(page, &from, segment, entries);
        }
    }

    fn purge(&mut self) {
        let before = self.model.clone();
        self.model.retain(|_, item| item.state != State::Ready);
        let purged = self.lane.purge(Piece::First { most: u64::MAX });
        assert_eq!(purged.count as usize, before.len() - self.model.len());
        let mut freed: BTreeMap<u32, u64> = BTreeMap::new();
        for item in before.values().filter(|item| item.state == State::Ready) {
            item.file.into_iter().for_each(|file| *freed.entry(file).or_default() += 1);
        }
        assert_eq!(purged.freed, freed);
        let inside = |seq: &u64| purged.runs.iter().any(|(first, count)| (*first..first + count).contains(seq));
        assert!(before.iter().all(|(seq, item)| inside(seq) == (item.state == State::Ready)), "{:?}", purged.runs);
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Push(state, home) => self.push(state, home),
            Step::Deliver(bytes) => self.deliver(bytes),
            Step::Change(pick, state) => {
                self.change(pick, [State::Ready, State::Out, State::Dying, State::Done][state as usize]);
            }
            Step::ComeBack(pick) => self.come_back(pick),
            Step::Sweep(excess) => drop(self.lane.sweep(excess as usize * 8, None, 0)),
            Step::Spill(excess, room) => self.spill(excess as usize * 8, room.into()),
            Step::SpillAnew(pick) => self.spill_anew(pick),
            Step::LeanDown(pick) => self.pick(pick).into_iter().for_each(|seq| self.lane.lean_down(seq)),
            Step::Evacuate { pick, leave } => self.evacuate(pick, leave),
            Step::Copy { pick, leave } => self.copy(pick, leave),
            Step::Tell => self.tell(),
            Step::Merge => self.merge(),
            Step::Load(bytes) => self.load(bytes.into()),
            Step::Purge => self.purge(),
        }
    }

    fn check(&mut self) {
        let ready = self.model.values().filter(|item| item.state == State::Ready).count();
        assert_eq!((self.lane.live(), self.lane.ready()), (self.model.len(), ready));
        let durable = self.model.values().filter(|item| item.file.is_some_and(|file| !is_spilled(file))).count();
        assert_eq!(self.lane.durable(), durable);
        let mut files: BTreeMap<u32, u64> = BTreeMap::new();
        self.model.values().filter_map(|item| item.file).for_each(|file| *files.entry(file).or_default() += 1);
        assert_eq!(files_of(&self.lane), files);
        let returns = self.lane.returns().into_iter().map(|(seq, returns)| (seq, returns.counted()));
        let returns: BTreeMap<u64, u32> = returns.collect();
        for (seq, item) in self.model.iter().filter(|(_, item)| item.is_durable()) {
            assert_eq!(returns.get(seq).copied().unwrap_or(0), item.returns);
        }
        self.check_settled();
    }

    /// Settled numbers that an index lists are said again; numbers that are live and durable are
    /// not.
    fn check_settled(&self) {
        let runs = self.lane.settled_runs();
        let settled = |seq: u64| {
            let at = runs.partition_point(|(first, _)| *first <= seq);
            at > 0 && runs[at - 1].0 + runs[at - 1].1 > seq
        };
        assert!(!self.model.iter().any(|(seq, item)| item.is_durable() && settled(*seq)));
        let listed = self.indexes.values().flatten().map(|one| one.seq);
        assert!(listed.filter(|seq| !self.model.contains_key(seq)).all(settled), "{runs:?}");
    }

    /// Everything comes out in order, and then nothing is left.
    fn drain(&mut self) {
        let all: Vec<u64> = self.model.keys().copied().collect();
        for seq in all {
            if self.model[&seq].state != State::Ready {
                self.lane.set(seq, State::Done);
                self.model.remove(&seq);
            }
        }
        while !self.model.is_empty() {
            self.deliver(255);
            let Some(seq) = self.model.iter().find(|(_, item)| item.state == State::Out).map(|(seq, _)| *seq) else {
                continue;
            };
            assert!(self.lane.set(seq, State::Done).is_some());
            self.model.remove(&seq);
        }
        assert_eq!((self.lane.away(), self.lane.index_bytes()), (0, 0));
        assert_eq!(files_of(&self.lane), BTreeMap::new());
    }
}

proptest! {
    #[test]
    fn behaves_like_a_sorted_map(start in 1u64..5000, fill in 0usize..9000, steps in prop::collection::vec(step(), 0..200)) {
        let mut world = World::new(start);
        (0..fill).for_each(|_| world.push(State::Ready, Home::Log));
        for step in steps {
            world.apply(&step);
            world.check();
        }
        world.drain();
        world.check();
    }
}

/// Purged messages came back after a restart. The purge had given back the page, and the numbers
/// that an index lists of it were taken for unlisted ones.
#[test]
fn what_is_purged_while_its_bodies_are_copied_stays_settled() {
    let mut world = World::new(1);
    (1..=100).for_each(|_| world.push(State::Ready, Home::Log));
    world.copy(0, Leave::Copied);
    world.purge();
    world.tell();
    world.push(State::Ready, Home::Log);
    world.check();
    world.drain();
    world.check();
}

#[test]
fn a_short_queue_takes_little_memory_however_much_passes() {
    let mut lane = Lane::starting_at(1);
    lane.push(entry(1, State::Ready, None));
    for seq in 2..5 * PAGE {
        lane.push(entry(seq, State::Ready, None));
        lane.set(seq - 1, State::Done);
        let kept: usize = lane.pages.iter().chain(&lane.spare).map(|page| page.entries.capacity()).sum();
        assert!(kept <= 400, "{kept} entries are kept in memory for one, at {seq}");
    }
    assert_eq!(lane.first_ready(), Some(5 * PAGE - 1));
    // What was given back is gone, and what is behind it is not.
    assert!(!lane.is_live(5 * PAGE - 100) && lane.set(5 * PAGE - 100, State::Done).is_none());
    assert!(lane.is_live(5 * PAGE - 1));
}

#[test]
fn one_old_entry_does_not_keep_the_memory_of_what_came_after() {
    let mut lane = Lane::starting_at(1);
    let old = lane.push(entry(1, State::Ready, None));
    for seq in 2..20 * PAGE {
        lane.push(entry(seq, State::Ready, None));
        lane.set(seq, State::Done);
    }
    let kept: usize = lane.pages.iter().map(|page| page.entries.capacity()).sum();
    assert!(kept <= 3 * SIZE && lane.pages.len() <= 3, "{kept} entries are kept in memory for one");
    assert_eq!(lane.first_ready(), Some(old));
}

#[test]
fn a_backlog_shrinks_to_a_few_bytes_for_each_entry_and_then_to_none() {
    let mut world = World::new(1);
    let pages = 5;
    (1..pages * PAGE).for_each(|_| world.push(State::Ready, Home::Log));
    world.push(State::Ready, Home::Log);
    while !world.lane.sweep(usize::MAX, None, 0).whole {}
    let lean = world.lane.index_bytes();
    assert!(lean < 13 * 5 * SIZE, "{lean} bytes");
    for _ in 0..=pages * PAGE / FILE {
        world.evacuate(0, Leave::Copied);
    }
    let absent = world.lane.index_bytes();
    assert!(absent < 1000 * 5, "{absent} bytes");
    world.check();
    world.drain();
}

/// The lane after a recovery: lean where the log has bodies, absent where segments have all.
fn put(bits: &mut Bits, bit: usize) {
    bits[bit / 64] |= 1 << (bit % 64);
}

#[test]
fn a_recovered_lane_delivers_in_order_and_gives_out_new_numbers() {
    let reference = |seq: u64| Reference { seq, address: Address { file: 9, offset: seq as u32 }, length: 38 };
    let chunk = Chunk { segment: 9, block: 0, count: 3 };
    let mut first = [0; SIZE / 64];
    let mut second = first;
    [5, 70, 4095].iter().for_each(|bit| put(&mut first, *bit));
    [0, 1].iter().for_each(|bit| put(&mut second, *bit));
    let place = |offset| crate::queue::BodyPlace { address: Address { file: 3, offset }, length: 0 };
    let pages = [
        Page::absent(0, first, vec![crate::queue::Listed { chunk, live: 3 }]),
        Page::lean(1, second, vec![place(1), place(2)], Vec::new()),
    ];
    let mut four = Returns::default();
    (0..4).for_each(|_| four.add_counted());
    let mut lane =
        Lane::recovered(pages.map(Box::new).into(), PAGE + 2, 71, BTreeMap::from([(70, four)]), Indexed::Partly);
    assert_eq!((lane.next(), lane.ready(), lane.live()), (2 * PAGE, 5, 5));
    assert_eq!(files_of(&lane), BTreeMap::from([(9, 3), (3, 2)]));
    assert_eq!(lane.first_ready(), Some(5));
    assert!(lane.get_mut(5).is_none() && lane.ageless_head().is_some());
    assert_eq!(lane.place(0, &[chunk], vec![reference(5)]), Placed::Wrong, "an index that lists too little");
    assert_eq!(lane.place(0, &[chunk], [4095, 5, 6, 70].map(reference).into()), Placed::Whole);
    let seen: Vec<_> = [5, 70, 4095, 4096, 4097]
        .iter()
        .map(|seq| lane.get_mut(*seq).map(|entry| (entry.past.is_redelivered(), entry.returns.counted())))
        .collect();
    assert_eq!(seen, [Some((true, 0)), Some((true, 4)), Some((false, 0)), Some((false, 0)), Some((false, 0))]);
    assert_eq!(lane.push(entry(2 * PAGE, State::Ready, None)), 2 * PAGE);
    assert_eq!(lane.settled_runs(), [(1, 4), (6, 64), (71, 4024)], "and nothing of pages that no index lists");
}

/// The pager reads the lists of chunks without the lock. A merge that came in between has moved the
/// bodies and removes the old segments. A queue stopped for good at a body that was no longer
/// there, until the next start.
#[test]
fn lists_of_chunks_that_were_merged_meanwhile_are_no_places() {
    let at =
        |segment: u32, seq: u64| Reference { seq, address: Address { file: segment, offset: seq as u32 }, length: 38 };
    let chunk = |segment| Chunk { segment, block: 0, count: 2 };
    let mut bits = [0; SIZE / 64];
    [5, 6].iter().for_each(|bit| put(&mut bits, *bit));
    let page = Page::absent(0, bits, vec![crate::queue::Listed { chunk: chunk(9), live: 2 }]);
    let mut lane = Lane::recovered([Box::new(page)].into(), 7, 0, BTreeMap::new(), Indexed::Partly);
    let read = vec![at(9, 5), at(9, 6)];
    assert!(lane.lies_at(&at(9, 5)), "what can't be read there is damage");
    assert_eq!(lane.moved(0, &[9], chunk(10), &[at(10, 5), at(10, 6)]), 2);
    assert!(!lane.lies_at(&at(9, 5)), "what can't be read there any more is not");
    assert_eq!(lane.place(0, &[chunk(9)], read), Placed::Moved);
    assert!(lane.get_mut(5).is_none());
    assert_eq!(lane.place(0, &[chunk(10)], vec![at(10, 5), at(10, 6)]), Placed::Whole);
    assert_eq!(files_of(&lane), BTreeMap::from([(10, 2)]));
    assert!(lane.lies_at(&at(10, 5)) && !lane.lies_at(&at(9, 5)));
}

/// Lean pages know where spilled messages lie too. A spilled entry among durable ones is settled
/// for a restart. It must not be taken for one that an index should list.
#[test]
fn spilled_entries_shrink_with_their_page_and_are_none_of_the_logs_business() {
    let mut world = World::new(1);
    (1..=2 * PAGE).for_each(|seq| world.push(State::Ready, if seq % 2 == 0 { Home::Log } else { Home::Memory }));
    world.evacuate(0, Leave::Copied);
    world.spill(usize::MAX, usize::MAX);
    let lean = world.lane.index_bytes();
    assert!(lean < 13 * 2 * SIZE, "{lean} bytes");
    let mut bits = [0; SIZE / 64];
    world.lane.unsettled(1, &mut bits);
    assert_eq!(Bitmap::of(&bits).count(), SIZE / 2);
    world.lane.stored(1, &mut bits);
    assert_eq!(Bitmap::of(&bits).count(), SIZE);
    world.check();
    world.drain();
}
