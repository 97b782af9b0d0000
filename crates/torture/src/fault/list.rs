//! All faults by name.

use super::{
    Scene, Stop, clock, copy, crowd, damage, delays, full, gone, inject, large, limits, names, objects, power, store,
    sweep, torn,
};

/// One fault.
pub(super) struct Fault {
    pub(super) name: &'static str,
    /// What it breaks, in a line.
    pub(super) what: &'static str,
    /// Returns the figure of a run.
    pub(super) run: fn(&Scene) -> Result<String, Stop>,
}

const fn fault(name: &'static str, what: &'static str, run: fn(&Scene) -> Result<String, Stop>) -> Fault {
    Fault { name, what, run }
}

/// In the order in which `all` runs them.
pub(super) const FAULTS: [Fault; 38] = [
    fault("F1-tmpfs", "the log fills a tmpfs of 64 MiB", full::tmpfs),
    fault("F1-ext4", "the log fills an ext4 image of 256 MiB", full::ext4),
    fault("F1-foreign", "a foreign file eats the last byte of a tmpfs", full::foreign_tmpfs),
    fault("F1-foreign-ext4", "a foreign file eats the last byte of an ext4 image", full::foreign_ext4),
    fault("F2-once", "one fdatasync fails with EIO", inject::flush_once),
    fault("F2-ever", "every fdatasync fails with EIO from the n-th on", inject::flush_forever),
    fault("F3-eio", "one write fails with EIO", inject::write_once),
    fault("F3-enospc", "every write fails with ENOSPC from the n-th on", inject::write_without_room),
    fault("F3-lie", "one write claims 512 bytes and writes nothing", inject::write_lies),
    fault("F5", "a read fails with EIO while the broker recovers", inject::read_fails),
    fault("D2", "death at the n-th system call of a script, for each n", sweep::sweep),
    fault("F6", "one bit of a stopped broker's data directory is flipped", damage::flip),
    fault("F7", "a file of the data directory is cut, missing, swapped, doubled or stale", damage::spoil),
    fault("D3", "power cuts: what was not flushed is gone, wholly or in part", power::cut),
    fault("D4", "power cuts that take names: of files made, adopted, merged, removed", names::lose),
    fault("D4-deaf", "the same on a disk that flushes no folder, which must be seen", names::deaf),
    fault("D6", "each confirm is held against the flushes of the disk", power::audit),
    fault("F2-lost", "one flush fails and its bytes are lost, then the power", power::flush_loses),
    fault("F3-short", "every other write is short", power::short_writes),
    fault("F4", "every flush takes 200 ms", power::slow),
    fault("D5", "the last write of the log is cut at every length", torn::tear),
    fault("D8", "death while queues are declared and deleted", objects::kill),
    fault("F8", "128 MiB of memory and a queue that grows", limits::memory),
    fault("F8-set", "the same with the limit told to the broker", limits::memory_set),
    fault("F9", "256 file descriptors and more connections than that", limits::descriptors),
    fault("F10", "the process is stopped for some seconds under load", limits::stopped),
    fault("F13-gone", "the disk answers everything with EIO, then the power is cut", power::gone),
    fault("F13-detached", "the mount of the data directory is detached", gone::detached),
    fault("D10", "a backup is taken under load", copy::backup),
    fault("F11", "the calendar jumps under load: an hour, a year, a second each second", clock::jumps),
    fault("F13-readonly", "the file system of the data directory becomes read-only", gone::read_only),
    fault("L3", "a backlog of small messages in 128 MiB of memory", store::backlog),
    fault("L4", "a consumer that takes a message a second beside nine that take all", crowd::slow_consumer),
    fault("L5", "one exchange copies to a thousand queues", crowd::fan_out),
    fault("L7", "messages of 16 MiB over eight connections at once", large::few),
    fault("L7-many", "over forty connections, in 512 MiB of memory", large::many),
    fault("L9", "the oldest message stays unsettled while a log's size passes many times over", store::oldest_stays),
    fault(
        "L10",
        "a million messages that are not due for hours, and others that come due by the thousand",
        delays::delayed,
    ),
];

/// The faults with these names.
pub(super) fn choose(names: &[String]) -> Result<Vec<&'static Fault>, String> {
    let mut chosen = Vec::new();
    for name in names {
        let fits = |fault: &&Fault| {
            let rest = fault.name.strip_prefix(name.as_str());
            name == "all" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let exact: Vec<&Fault> = FAULTS.iter().filter(|fault| fault.name == name).collect();
        let found = if exact.is_empty() { FAULTS.iter().filter(fits).collect() } else { exact };
        if found.is_empty() {
            return Err(format!("there is no fault `{name}`; `cargo torture fault list` shows them"));
        }
        chosen.extend(found);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_or_end_at_a_dash() {
        let names = |asked: &str| choose(&[asked.to_owned()]).map(|found| found.len()).ok();
        assert_eq!(names("F1-foreign"), Some(1));
        assert!(names("F1").is_some_and(|count| count > 2));
        assert_eq!(names("F"), None);
        assert_eq!(names("all"), Some(FAULTS.len()));
        for (number, fault) in FAULTS.iter().enumerate() {
            assert!(FAULTS[..number].iter().all(|other| other.name != fault.name), "{} is there twice", fault.name);
        }
    }
}
