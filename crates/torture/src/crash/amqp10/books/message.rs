//! One message: where it may be, and what it may come with.
//!
//! What a client has seen and the broker has not answered is undone by a kill, or not: so there are
//! two sets of places, and of notes, for now and for behind a kill. What comes first behind a kill
//! was on disk.

use super::{Fate, Marks, Place, Whereabouts};

/// A message by its number. What goes to several subscriptions is a message for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    number: u64,
    /// Where it was sent to.
    origin: Place,
}

impl Key {
    /// The key of a message that is there.
    pub(super) fn of(place: Place, number: u64) -> Self {
        // What is dead was sent to the queue before.
        let origin = if place == Place::Dead { Place::Work } else { place };
        Self { number, origin }
    }
}

/// What is known of it.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) may: Whereabouts,
    /// Where it may be behind a kill, if it is there at all.
    lasts: Whereabouts,
    /// Whether the broker has answered that it has it.
    promised: bool,
    /// Whether nothing of it was seen since a kill.
    recovered: bool,
    /// Counts deliveries and settlements: an answer to an earlier one says nothing any more.
    pub(super) revision: u32,
    /// The connection that has it.
    pub(super) holder: Option<u64>,
    /// A transaction of which it is not known whether it was committed.
    pub(super) doubt: Option<u64>,
    /// Where it came from last, or was sent to.
    last: Place,
    /// All places that it came from.
    seen: Whereabouts,
    /// Failures: at least, and at most.
    failures: (u32, u32),
    /// Losses of its place so far, each of which may be one more failure.
    losses: u32,
    /// What may be noted on it now.
    notes: Vec<u64>,
    /// What may be noted on it behind a kill: the last note that was answered, and those since.
    lasting: Vec<u64>,
}

impl Message {
    pub(super) fn new(place: Place, may: Whereabouts, losses: u32) -> Self {
        let here = Whereabouts::at(place);
        Self {
            may,
            lasts: if may.has(here) { here } else { may },
            promised: false,
            recovered: false,
            revision: 0,
            holder: None,
            doubt: None,
            last: place,
            seen: Whereabouts(0),
            failures: (0, 0),
            losses,
            notes: vec![0],
            lasting: vec![0],
        }
    }

    /// The broker has answered that it has it.
    pub(super) fn promise(&mut self, place: Place) {
        self.promised = true;
        // What has come meanwhile is known better.
        if self.revision == 0 {
            self.may = Whereabouts::at(place);
            self.lasts = self.may;
        }
    }

    /// Whether it may come from there.
    pub(super) fn judge(&self, place: Place, marks: Marks, losses: u32) -> Result<(), String> {
        let here = Whereabouts::at(place);
        if !self.may.has(here) {
            return Err("it can't be there".to_owned());
        }
        if let Some(holder) = self.holder {
            return Err(format!("connection {holder} has it"));
        }
        if marks.first && self.seen.has(here) {
            return Err("it is no first delivery".to_owned());
        }
        let (least, most) = (self.failures.0, self.failures.1 + losses.saturating_sub(self.losses));
        // Behind a death the count begins with 0 again.
        if place == self.last && !(least..=most).contains(&marks.failures) {
            return Err(format!("{least} to {most} deliveries have failed"));
        }
        if !self.notes.contains(&marks.note) {
            return Err(format!("one of {:?} is noted on it", self.notes));
        }
        Ok(())
    }

    /// It has come.
    pub(super) fn come(&mut self, place: Place, marks: Marks, losses: u32, connection: u64) {
        self.may = Whereabouts::at(place);
        self.lasts = if self.recovered { self.may } else { self.lasts.or(self.may) };
        if std::mem::take(&mut self.recovered) {
            self.promised = true;
            self.lasting = vec![marks.note];
        }
        self.revision += 1;
        self.holder = Some(connection);
        self.last = place;
        self.seen = self.seen.or(self.may);
        self.failures = (marks.failures, marks.failures);
        self.losses = losses;
        self.notes = vec![marks.note];
    }

    /// It is about to be settled.
    pub(super) fn let_go(&mut self, place: Place, fate: Fate) {
        self.revision += 1;
        self.holder = None;
        match fate {
            Fate::Accepted => self.may = self.may.or(Whereabouts::GONE),
            Fate::Rejected | Fate::Elsewhere => self.may = self.may.or(place.behind()),
            Fate::Released => {}
            // A wide count is no promise: see `killed`.
            Fate::Failed => self.failures.1 += 1,
            Fate::Noted(number) => {
                self.notes.push(number);
                self.lasting.push(number);
            }
        }
        self.lasts = self.lasts.or(self.may);
    }

    /// A settlement is for good, whatever came of the message since.
    pub(super) fn answered(&mut self, place: Place, fate: Fate) {
        match fate {
            Fate::Accepted => self.lasts = Whereabouts::GONE,
            Fate::Rejected | Fate::Elsewhere => self.lasts = self.lasts.without(Whereabouts::at(place)),
            Fate::Noted(number) => {
                if let Some(at) = self.lasting.iter().position(|other| *other == number) {
                    self.lasting.drain(..at);
                }
            }
            Fate::Released | Fate::Failed => {}
        }
    }

    /// The broker was killed. It promises that what it has answered is settled, and not that it
    /// knows how often a message failed.
    pub(super) fn killed(&mut self) {
        self.failures.0 = 0;
        self.notes.clone_from(&self.lasting);
        self.recovered = true;
        if self.doubt.is_none() {
            self.may = if self.promised { self.lasts } else { self.lasts.or(Whereabouts::GONE) };
        }
    }

    /// It is settled for good.
    pub(super) fn settled(&mut self, place: Place, fate: Fate) {
        match fate {
            Fate::Accepted => self.may = Whereabouts::GONE,
            Fate::Rejected | Fate::Elsewhere => self.may = place.behind(),
            Fate::Released => {}
            Fate::Failed => self.failures.0 += 1,
            Fate::Noted(number) => self.notes = vec![number],
        }
    }

    /// A commit with it is asked for.
    pub(super) fn be_in_doubt(&mut self, id: u64, may: Whereabouts) {
        self.may = may;
        self.lasts = may;
        self.holder = None;
        self.doubt = Some(id);
        self.may_have_failed();
    }

    /// It is known whether its transaction was committed.
    pub(super) fn be_sure(&mut self, may: Whereabouts) {
        self.may = may;
        self.lasts = may;
        self.promised = true;
        self.holder = None;
        self.doubt = None;
    }

    /// If it was taken in a transaction that is rolled back, that is one failure more.
    pub(super) fn may_have_failed(&mut self) {
        self.failures.1 += u32::from(self.revision > 0);
    }

    /// The broker has rolled that transaction back.
    pub(super) fn has_failed(&mut self) {
        self.failures.0 += u32::from(self.revision > 0);
    }
}
