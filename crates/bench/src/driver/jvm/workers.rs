//! The workers of a run, asleep between the slices of their targets. A Java machine compiles what
//! it runs often; one that began again with each slice would be measured while it still compiles.
//! Each target has a worker of its own, so that what one client does to its machine is not
//! another's.

use std::cell::RefCell;
use std::rc::Rc;

use super::worker::Worker;
use bench_record::failure::Failure;

/// Whose worker it is, and what it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The target's name.
    pub(crate) target: String,
    pub(crate) class_path: String,
    /// The oldest Java that its client runs on.
    pub(crate) java: u32,
}

/// Those that sleep: in a read of their input, at most one for each target. Clones are one and the
/// same; the workers end when the last of these is dropped, or when this program ends in whatever
/// way, for then their input does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workers {
    asleep: Rc<RefCell<Vec<(Owner, Worker)>>>,
}

impl Workers {
    /// The worker of `owner`: the one that sleeps, or else, and where that one does not wake up,
    /// the one that `start` starts.
    pub(crate) fn wake(
        &self,
        owner: &Owner,
        start: impl FnOnce() -> Result<Worker, Failure>,
    ) -> Result<Worker, Failure> {
        let at = self.asleep.borrow().iter().position(|(of, _)| of == owner);
        let mut found = at.map(|at| self.asleep.borrow_mut().swap_remove(at).1);
        if found.as_mut().is_some_and(|worker| worker.wake().is_err()) {
            found = None;
        }
        found.map_or_else(start, Ok)
    }

    /// Lets a worker sleep until its owner's next slice. After a failure it is dropped instead:
    /// what is left in it of a load that did not end as it should is unknown.
    pub(crate) fn keep(&self, owner: Owner, worker: Worker) {
        let mut asleep = self.asleep.borrow_mut();
        asleep.retain(|(of, _)| of.target != owner.target);
        asleep.push((owner, worker));
    }

    /// The processes of those that sleep, but for that of `target`.
    pub(crate) fn others(&self, target: &str) -> Vec<u32> {
        let asleep = self.asleep.borrow();
        asleep.iter().filter(|(of, _)| of.target != target).map(|(_, worker)| worker.hello().pid).collect()
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// A worker that is a script: it answers the greeting and questions about the time until it is
    /// told `bye`, or to prepare.
    fn start() -> Result<Worker, Failure> {
        const SCRIPT: &str = r#"
            read -r line; echo '{"hello":{"v":1,"api":"jakarta","jvm":"17","pid":'$$',"heap":1}}'
            while read -r line; do case "$line" in
                *clock*) t=${line##*:}; t=${t%\}}; echo "{\"clock\":{\"t\":$t,\"nano\":$t}}";;
                *) exit 0;; esac; done"#;
        let mut command = std::process::Command::new("bash");
        command.args(["-c", SCRIPT]);
        // How well clocks can be compared depends on the machine's load, which is nothing that a
        // test decides.
        Worker::over(command, u64::MAX)
    }

    fn owner(target: &str, class_path: &str) -> Owner {
        Owner { target: target.to_owned(), class_path: class_path.to_owned(), java: 17 }
    }

    #[test]
    fn a_target_has_one_worker_for_all_of_its_slices() {
        let (workers, none) = (Workers::default(), || panic!("one sleeps already"));
        let (a, b) = (owner("a", "x"), owner("b", "x"));
        let first = workers.wake(&a, start).unwrap();
        let pid = first.hello().pid;
        workers.clone().keep(a.clone(), first);
        let second = workers.wake(&b, start).unwrap();
        assert_eq!((workers.others("b"), workers.others("a")), (vec![pid], vec![]));
        workers.keep(b, second);
        let again = workers.wake(&a, none).unwrap();
        assert_eq!(again.hello().pid, pid);
        workers.keep(a, again);
        // Another client than before takes the place of the one before.
        let other = owner("a", "y");
        let third = workers.wake(&other, start).unwrap();
        assert_ne!(third.hello().pid, pid);
        workers.keep(other, third);
        assert!(!workers.others("").contains(&pid) && workers.others("").len() == 2);
    }

    #[test]
    fn one_that_died_in_its_sleep_is_replaced() {
        let (workers, owner) = (Workers::default(), owner("a", "x"));
        let mut first = workers.wake(&owner, start).unwrap();
        let pid = first.hello().pid;
        first.tell(&crate::driver::jvm::protocol::Command::Bye).unwrap();
        workers.keep(owner.clone(), first);
        assert_ne!(workers.wake(&owner, start).unwrap().hello().pid, pid);
    }
}
