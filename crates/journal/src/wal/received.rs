//! What a journal that follows another knows of the entries that it was sent: which files may still
//! be referenced, and which groups have not ended.
//!
//! Invariant: a file is not let go while its sender may reference a body in it, or while a group is
//! open that has a record in it or references a body in it. After a start nothing is let go before
//! the sender has said something of what it sends.

use std::collections::VecDeque;

use crate::group::Group;
use crate::log::LogId;

/// See the module.
#[derive(Default)]
pub(crate) struct Received {
    /// For each file of the sender that entries came from, the first file here that they lie in.
    files: VecDeque<(u32, u32)>,
    /// The sender has said that it references nothing any more of all that came before these.
    all_before_is_over: bool,
    /// The groups that have not ended, each with the oldest file that it needs.
    open: Vec<(LogId, Group, u32)>,
}

impl Received {
    /// An entry that lies in a file of the sender came, and lies in `here`.
    pub(crate) fn note(&mut self, sent_from: u32, here: u32) {
        if self.files.back().is_none_or(|(last, _)| *last < sent_from) {
            // What came before the start may lie in any file.
            let from_before = self.files.is_empty() && !self.all_before_is_over;
            self.files.push_back((sent_from, if from_before { 0 } else { here }));
        }
    }

    /// The sender will reference no body that it has in an older file than this one.
    pub(crate) fn forget_before(&mut self, file: u32) {
        while self.files.pop_front_if(|(from, _)| *from < file).is_some() {
            self.all_before_is_over = true;
        }
    }

    /// A group needs a file.
    pub(crate) fn needs(&mut self, log: LogId, group: Group, file: u32) {
        match self.open.iter_mut().find(|(of, open, _)| (*of, *open) == (log, group)) {
            Some((.., oldest)) => *oldest = file.min(*oldest),
            None => self.open.push((log, group, file)),
        }
    }

    /// A group has ended, or never will.
    pub(crate) fn end(&mut self, log: LogId, group: Group) {
        self.open.retain(|(of, open, _)| (*of, *open) != (log, group));
    }

    /// Whether no group of a log is open.
    pub(crate) fn is_whole(&self, log: LogId) -> bool {
        self.open.iter().all(|(of, ..)| *of != log)
    }

    /// Whether nothing that was sent, or is still to come, needs this file.
    pub(crate) fn lets_go(&self, file: u32) -> bool {
        let sent = self.files.front().map_or(self.all_before_is_over, |(_, first)| file < *first);
        sent && self.open.iter().all(|(.., oldest)| file < *oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_while_its_sender_may_reference_it() {
        let mut received = Received::default();
        assert!(!received.lets_go(0), "nothing was said yet");
        // Files 1 and 2 are from before; the first entry since lies in 2.
        received.note(7, 2);
        received.note(7, 2);
        received.note(8, 2);
        received.note(9, 4);
        let lets_go = |received: &Received| (0..6).filter(|file| received.lets_go(*file)).collect::<Vec<_>>();
        let table = [(6, vec![]), (7, vec![]), (8, vec![0, 1]), (9, vec![0, 1, 2, 3]), (10, vec![0, 1, 2, 3, 4, 5])];
        for (horizon, expected) in table {
            received.forget_before(horizon);
            assert_eq!(lets_go(&received), expected, "{horizon}");
        }
        received.note(10, 5);
        assert_eq!(lets_go(&received), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn an_open_group_keeps_the_files_that_it_needs() {
        let (log, other) = (LogId::SYSTEM, LogId::new(1).unwrap_or(LogId::SYSTEM));
        let Some(group) = Group::from_raw(3) else { panic!("3 is a number of groups") };
        let mut received = Received::default();
        received.note(7, 2);
        received.note(8, 9);
        received.forget_before(8);
        assert!(received.lets_go(8) && received.is_whole(log));
        received.needs(log, group, 6);
        received.needs(log, group, 4);
        received.needs(other, group, 5);
        assert!(received.lets_go(3) && !received.lets_go(4) && !received.is_whole(log));
        received.end(log, group);
        assert!(received.lets_go(4) && !received.lets_go(5) && received.is_whole(log) && !received.is_whole(other));
    }
}
