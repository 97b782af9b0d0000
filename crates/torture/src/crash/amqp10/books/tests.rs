//! Good histories pass, and every history that was spoilt is flagged.

use super::*;

/// One step of a history. Deliveries are `(place, number, failures, first, note)`.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send(Place),
    SendIn(Place),
    Accepted(Place, u64),
    Come(Place, u64, u32, bool, u64),
    /// Settled, and the answer came.
    Done(Place, u64, Fate),
    /// Settled, and no answer came.
    Asked(Place, u64, Fate),
    Begin,
    AcceptIn(Place, u64),
    AskCommit,
    Committed,
    /// Asked for and answered.
    RolledBack,
    Left,
    Killed,
    Finish,
}

use Fate::{Accepted as Accept, Elsewhere, Failed, Noted, Rejected, Released};
use Place::{Dead, Left as L, Own, Right as R, Shared, Work};
use Step::*;

/// Plays it. Numbers are given out from 1; a transaction takes one.
fn play(steps: &[Step]) -> Result<(), String> {
    let mut books = Books::default();
    let mut id = 0;
    for step in steps {
        match *step {
            Send(place) => drop(books.send(&[place], None)),
            SendIn(place) => drop(books.send(&[place], Some(id))),
            Accepted(place, number) => books.accepted(&[place], number),
            Come(place, number, failures, first, note) => {
                books.delivered(1, place, number, Marks { failures, first, note })?;
            }
            Done(place, number, fate) => {
                let ticket = books.settle(place, number, fate).unwrap();
                books.echoed(ticket);
            }
            Asked(place, number, fate) => drop(books.settle(place, number, fate)),
            Begin => id = books.begin(1),
            AcceptIn(place, number) => books.accept_in(id, place, number),
            AskCommit => books.ask_commit(id),
            Committed => books.committed(id),
            RolledBack => {
                let undone = books.ask_rollback(id);
                books.rolled_back(&undone);
            }
            Left => books.left(1, &PLACES),
            Killed => {
                books.left(1, &PLACES);
                books.killed();
            }
            Finish => books.finish()?,
        }
    }
    Ok(())
}

/// A message of each kind, as it should be.
const GOOD: &[&[Step]] = &[
    &[Send(Work), Accepted(Work, 1), Come(Work, 1, 0, true, 0), Done(Work, 1, Accept), Killed, Finish],
    // Not answered: it may be there, or not.
    &[Send(Work), Killed, Finish],
    &[Send(Work), Killed, Come(Work, 1, 0, true, 0), Done(Work, 1, Accept), Finish],
    // What was asked and not answered may have happened.
    &[Send(Own), Accepted(Own, 1), Come(Own, 1, 0, true, 0), Asked(Own, 1, Accept), Killed, Finish],
    &[
        Send(Own),
        Accepted(Own, 1),
        Come(Own, 1, 0, true, 0),
        Asked(Own, 1, Accept),
        Killed,
        Come(Own, 1, 1, false, 0),
        Done(Own, 1, Accept),
        Finish,
    ],
    // Failures and notes.
    &[
        Send(Shared),
        Accepted(Shared, 1),
        Come(Shared, 1, 0, true, 0),
        Done(Shared, 1, Failed),
        Come(Shared, 1, 1, false, 0),
        Done(Shared, 1, Released),
        Come(Shared, 1, 1, false, 0),
        Done(Shared, 1, Noted(5)),
        Come(Shared, 1, 1, false, 5),
        Asked(Shared, 1, Noted(6)),
        Killed,
        Come(Shared, 1, 2, false, 6),
        Left,
        Come(Shared, 1, 3, false, 6),
        Done(Shared, 1, Accept),
        Finish,
    ],
    // What was seen and never answered may be undone by a kill: a note, and a count.
    &[
        Send(Own),
        Come(Own, 1, 0, true, 0),
        Done(Own, 1, Noted(4)),
        Come(Own, 1, 0, false, 4),
        Asked(Own, 1, Noted(5)),
        Come(Own, 1, 0, false, 5),
        Asked(Own, 1, Failed),
        Come(Own, 1, 1, false, 5),
        Killed,
        Come(Own, 1, 0, false, 4),
        Done(Own, 1, Accept),
        Finish,
    ],
    // So may a message that was never answered.
    &[Send(Own), Come(Own, 1, 0, true, 0), Killed, Finish],
    // And a death: it is in its queue again, or dead.
    &[
        Send(Work),
        Accepted(Work, 1),
        Come(Work, 1, 0, true, 0),
        Asked(Work, 1, Rejected),
        Come(Dead, 1, 0, true, 0),
        Asked(Dead, 1, Failed),
        Killed,
        Come(Work, 1, 0, false, 0),
        Done(Work, 1, Rejected),
        Come(Dead, 1, 0, false, 0),
        Done(Dead, 1, Accept),
        Finish,
    ],
    // Sent to a connection that was dropped a moment ago.
    &[Left, Send(Own), Accepted(Own, 1), Come(Own, 1, 1, false, 0), Done(Own, 1, Accept), Finish],
    // Death.
    &[
        Send(Work),
        Accepted(Work, 1),
        Come(Work, 1, 0, true, 0),
        Done(Work, 1, Failed),
        Come(Work, 1, 1, false, 0),
        Done(Work, 1, Rejected),
        Come(Dead, 1, 0, true, 0),
        Done(Dead, 1, Accept),
        Finish,
    ],
    &[
        Send(Work),
        Accepted(Work, 1),
        Come(Work, 1, 0, true, 0),
        Asked(Work, 1, Elsewhere),
        Killed,
        Come(Work, 1, 1, false, 0),
        Done(Work, 1, Elsewhere),
        Come(Dead, 1, 1, true, 0),
        Done(Dead, 1, Rejected),
        Finish,
    ],
    // A move from one queue to another, committed; number 2 is the transaction's.
    &[
        Send(L),
        Accepted(L, 1),
        Come(L, 1, 0, true, 0),
        Begin,
        SendIn(R),
        AcceptIn(L, 1),
        AskCommit,
        Committed,
        Come(R, 3, 0, true, 0),
        Done(R, 3, Accept),
        Finish,
    ],
    // Rolled back.
    &[
        Send(L),
        Accepted(L, 1),
        Come(L, 1, 0, true, 0),
        Begin,
        SendIn(R),
        AcceptIn(L, 1),
        RolledBack,
        Come(L, 1, 1, false, 0),
        Done(L, 1, Accept),
        Finish,
    ],
    // Killed before the commit.
    &[
        Send(L),
        Accepted(L, 1),
        Come(L, 1, 0, true, 0),
        Begin,
        SendIn(R),
        AcceptIn(L, 1),
        Killed,
        Come(L, 1, 1, false, 0),
        Done(L, 1, Accept),
        Finish,
    ],
    // Killed within the commit: it happened.
    &[
        Send(L),
        Accepted(L, 1),
        Come(L, 1, 0, true, 0),
        Begin,
        SendIn(R),
        SendIn(R),
        AcceptIn(L, 1),
        AskCommit,
        Killed,
        Come(R, 3, 0, true, 0),
        Done(R, 3, Accept),
        Come(R, 4, 0, true, 0),
        Done(R, 4, Accept),
        Finish,
    ],
    // It did not.
    &[
        Send(L),
        Accepted(L, 1),
        Come(L, 1, 0, true, 0),
        Begin,
        SendIn(R),
        AcceptIn(L, 1),
        AskCommit,
        Killed,
        Come(L, 1, 1, false, 0),
        Done(L, 1, Accept),
        Finish,
    ],
    // A transaction that only took, or only sent, leaves nothing behind in one of both cases.
    &[Send(L), Accepted(L, 1), Come(L, 1, 0, true, 0), Begin, AcceptIn(L, 1), AskCommit, Killed, Finish],
    &[Begin, SendIn(R), SendIn(L), AskCommit, Killed, Finish],
];

/// The same, spoilt in one place.
const SPOILT: &[(&str, &[Step])] = &[
    ("was never sent", &[Come(Work, 1, 0, true, 0)]),
    ("was never sent", &[Send(Work), Come(Own, 1, 0, true, 0)]),
    ("missed", &[Send(Work), Accepted(Work, 1), Finish]),
    ("missed", &[Send(Own), Accepted(Own, 1), Killed, Finish]),
    ("missed", &[Send(Work), Accepted(Work, 1), Come(Work, 1, 0, true, 0), Done(Work, 1, Rejected), Finish]),
    ("missed", &[Send(Own), Accepted(Own, 1), Come(Own, 1, 0, true, 0), Done(Own, 1, Released), Finish]),
    // What has come since a kill is on disk.
    ("missed", &[Send(Own), Killed, Come(Own, 1, 0, true, 0), Killed, Finish]),
    ("missed", &[Send(Own), Come(Own, 1, 0, true, 0), Accepted(Own, 1), Killed, Finish]),
    // A death that the broker had answered.
    (
        "can't be there",
        &[
            Send(Work),
            Accepted(Work, 1),
            Come(Work, 1, 0, true, 0),
            Done(Work, 1, Rejected),
            Killed,
            Come(Work, 1, 0, false, 0),
        ],
    ),
    // Accepted, and the broker had said so.
    (
        "can't be there",
        &[Send(Work), Come(Work, 1, 0, true, 0), Done(Work, 1, Accept), Killed, Come(Work, 1, 1, false, 0)],
    ),
    ("can't be there", &[Send(Work), Come(Work, 1, 0, true, 0), Done(Work, 1, Elsewhere), Come(Work, 1, 0, false, 0)]),
    ("can't be there", &[Send(Work), Come(Work, 1, 0, true, 0), Done(Work, 1, Accept), Come(Dead, 1, 0, true, 0)]),
    ("gone since a drain", &[Send(Work), Finish, Come(Work, 1, 0, true, 0)]),
    ("has it", &[Send(Work), Come(Work, 1, 0, true, 0), Come(Work, 1, 0, false, 0)]),
    ("no first", &[Send(Work), Come(Work, 1, 0, true, 0), Done(Work, 1, Released), Come(Work, 1, 0, true, 0)]),
    // Counts: one too many, one too few, one that a kill took away.
    ("0 to 0", &[Send(Work), Come(Work, 1, 0, true, 0), Done(Work, 1, Released), Come(Work, 1, 1, false, 0)]),
    ("1 to 1", &[Send(Work), Come(Work, 1, 0, true, 0), Done(Work, 1, Failed), Come(Work, 1, 0, false, 0)]),
    ("1 to 2", &[Send(Work), Come(Work, 1, 0, true, 0), Done(Work, 1, Failed), Left, Come(Work, 1, 0, false, 0)]),
    ("1 to 1", &[Begin, Send(L), Come(L, 2, 0, true, 0), AcceptIn(L, 2), RolledBack, Come(L, 2, 0, false, 0)]),
    ("noted", &[Send(Own), Come(Own, 1, 0, true, 0), Done(Own, 1, Noted(5)), Killed, Come(Own, 1, 1, false, 0)]),
    ("noted", &[Send(Own), Come(Own, 1, 0, true, 7)]),
    (
        "noted",
        &[
            Send(Own),
            Come(Own, 1, 0, true, 0),
            Asked(Own, 1, Noted(5)),
            Come(Own, 1, 0, false, 5),
            Asked(Own, 1, Released),
            Come(Own, 1, 0, false, 0),
        ],
    ),
    // Visible before its commit, or in spite of a rollback or a kill.
    ("can't be there", &[Begin, SendIn(R), Come(R, 2, 0, true, 0)]),
    ("can't be there", &[Begin, SendIn(R), RolledBack, Come(R, 2, 0, true, 0)]),
    ("can't be there", &[Begin, SendIn(R), Killed, Come(R, 2, 0, true, 0)]),
    // Committed, and lost or back.
    ("missed", &[Begin, SendIn(R), AskCommit, Committed, Killed, Finish]),
    (
        "can't be there",
        &[Begin, Send(L), Come(L, 2, 0, true, 0), AcceptIn(L, 2), AskCommit, Committed, Come(L, 2, 1, false, 0)],
    ),
    // Half of one: one message sent of two, or what was taken beside what was sent.
    ("missed", &[Begin, SendIn(R), SendIn(L), AskCommit, Killed, Come(R, 2, 0, true, 0), Done(R, 2, Accept), Finish]),
    (
        "can't be there",
        &[
            Begin,
            Send(L),
            Come(L, 2, 0, true, 0),
            AcceptIn(L, 2),
            SendIn(R),
            AskCommit,
            Killed,
            Come(R, 3, 0, true, 0),
            Come(L, 2, 1, false, 0),
        ],
    ),
    (
        "can't be there",
        &[
            Begin,
            Send(L),
            Come(L, 2, 0, true, 0),
            AcceptIn(L, 2),
            SendIn(R),
            AskCommit,
            Killed,
            Come(L, 2, 1, false, 0),
            Come(R, 3, 0, true, 0),
        ],
    ),
    // Neither what was sent nor what was taken.
    (
        "neither",
        &[Send(L), Accepted(L, 1), Come(L, 1, 0, true, 0), Begin, SendIn(R), AcceptIn(L, 1), AskCommit, Killed, Finish],
    ),
];

#[test]
fn good_histories_pass() {
    for (at, history) in GOOD.iter().enumerate() {
        assert_eq!(play(history), Ok(()), "{at}");
    }
}

#[test]
fn every_spoilt_history_is_flagged() {
    for (expected, history) in SPOILT {
        let Err(found) = play(history) else { panic!("{expected}: {history:?} passed") };
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

#[test]
fn an_answer_that_is_read_late_says_nothing_new() {
    let mut books = Books::default();
    let number = books.send(&[Work], None);
    books.delivered(1, Work, number, Marks { first: true, ..Marks::default() }).unwrap();
    let ticket = books.settle(Work, number, Rejected).unwrap();
    // Another connection has it from the other queue before this one reads the answer.
    books.delivered(2, Dead, number, Marks { first: true, ..Marks::default() }).unwrap();
    let taken = books.settle(Dead, number, Accept).unwrap();
    books.echoed(taken);
    books.echoed(ticket);
    books.accepted(&[Work], number);
    assert_eq!(books.finish(), Ok(()));
}
