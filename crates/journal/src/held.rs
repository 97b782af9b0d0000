//! Records of groups that have not ended: what a journal that follows keeps until the end has come.
//!
//! Invariant: what is kept is in memory alone, and is found again at a start, since the records are
//! in the log. Bodies are in no group, so a reference takes eight bytes.

use std::collections::BTreeMap;

use crate::group::Group;
use crate::log::LogId;
use crate::record::{Kind, Record, runs};
use crate::replay::Replay;
use crate::{Address, Owner};

/// One record, with the bodies that it references.
#[derive(Debug)]
pub(crate) enum Held {
    Reference {
        owner: Owner,
        first_seq: u64,
        mark: u64,
        bodies: Vec<Address>,
    },
    Settled {
        owner: Owner,
        reason: u8,
        runs: Vec<(u64, u64)>,
    },
    Fact {
        owner: Owner,
        kind: u8,
        bytes: Box<[u8]>,
    },
    Dropped {
        owner: Owner,
    },
    /// One that says nothing of an owner.
    Nothing,
}

impl Held {
    pub(crate) fn new(record: &Record<'_>, bodies: Vec<Address>) -> Self {
        match record.kind {
            Kind::Reference { owner, first_seq, mark, .. } => Self::Reference { owner, first_seq, mark, bodies },
            Kind::Settled { owner, reason, runs: packed } => {
                Self::Settled { owner, reason, runs: runs(packed).collect() }
            }
            Kind::Fact { owner, kind, bytes } => Self::Fact { owner, kind, bytes: bytes.into() },
            Kind::Dropped { owner } => Self::Dropped { owner },
            Kind::Body { .. } | Kind::GroupEnd { .. } | Kind::LogEnd { .. } => Self::Nothing,
        }
    }

    /// The oldest file that it references a body in.
    pub(crate) fn oldest(&self) -> Option<u32> {
        match self {
            Self::Reference { bodies, .. } => bodies.iter().map(|body| body.file).min(),
            _ => None,
        }
    }
}

/// Gives a record that stands to `replay`.
pub(crate) fn deliver(held: Held, replay: &mut (impl Replay + ?Sized)) {
    match held {
        Held::Reference { owner, first_seq, mark, bodies } => replay.reference(owner, first_seq, mark, &bodies),
        Held::Settled { owner, reason, runs } => replay.settled(owner, reason, &runs),
        Held::Fact { owner, kind, bytes } => replay.fact(owner, kind, &bytes),
        Held::Dropped { owner } => replay.dropped(owner),
        Held::Nothing => {}
    }
}

/// The records of one group.
#[derive(Debug)]
struct OpenGroup {
    term: u64,
    /// The oldest file that it has a record in, or references a body in.
    oldest: u32,
    records: Vec<Held>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct HeldGroups(BTreeMap<(LogId, Group), OpenGroup>);

impl HeldGroups {
    /// Keeps a record of a group of a log's term, which lies in `file`.
    pub(crate) fn add(&mut self, (log, term, group): (LogId, u64, Group), held: Held, file: u32) {
        let file = held.oldest().map_or(file, |oldest| oldest.min(file));
        let new = || OpenGroup { term, oldest: file, records: Vec::new() };
        let open = self.0.entry((log, group)).or_insert_with(new);
        if open.term != term {
            // That of an earlier term never ended.
            *open = new();
        }
        open.oldest = open.oldest.min(file);
        open.records.push(held);
    }

    /// A group has ended: its records stand.
    pub(crate) fn end(&mut self, log: LogId, group: Group, replay: &mut (impl Replay + ?Sized)) {
        let records = self.0.remove(&(log, group)).map(|open| open.records);
        records.into_iter().flatten().for_each(|held| deliver(held, replay));
    }

    /// Forgets the groups of a log, and names them.
    pub(crate) fn take_of(&mut self, log: LogId) -> Vec<Group> {
        self.0.extract_if(.., |(of, _), _| *of == log).map(|((_, group), _)| group).collect()
    }

    /// Forgets all but those of each log's last term.
    pub(crate) fn retain_last(&mut self, term_of: impl Fn(LogId) -> Option<u64>) {
        self.0.retain(|(log, _), open| term_of(*log) == Some(open.term));
    }

    /// Gives each group with the oldest file that it needs.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(LogId, Group, u32)) {
        self.0.iter().for_each(|((log, group), open)| visit(*log, *group, open.oldest));
    }
}
