//! CPU time, context switches, memory and written bytes of process trees, read from `/proc`.
//!
//! CPU time comes from the scheduler's nanoseconds (`schedstat`), since the ticks of `stat` are 10
//! ms long; ticks are kept beside it because they alone still count threads that have ended.

use bench_record::usage::{TICK_NS, Usage};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The usage of `roots` and all their descendants; none where there is no `/proc` or no such
/// process.
pub fn usage(roots: &[u32]) -> Option<Usage> {
    let mut tree = descendants(roots).into_iter().filter_map(of_process);
    let mut total = tree.next()?;
    tree.for_each(|one| total.add(&one));
    Some(total)
}

/// The usage of this program alone, without its children.
pub fn own_usage() -> Option<Usage> {
    of_process(std::process::id())
}

/// `roots` and every process below them.
pub fn descendants(roots: &[u32]) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Some(fields) = stat_fields(pid)
        {
            children.entry(fields[1] as u32).or_default().push(pid);
        }
    }
    let mut tree: Vec<u32> = Vec::new();
    let mut todo = roots.to_vec();
    while let Some(pid) = todo.pop() {
        if !tree.contains(&pid) {
            tree.push(pid);
            todo.extend(children.get(&pid).into_iter().flatten());
        }
    }
    tree
}

/// True while a process runs or has threads that are still ending; remains that no parent has taken
/// away do not count. Without `/proc` nothing is known to run.
pub fn is_alive(pid: u32) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    threads > 1 || !matches!(state, Some('Z' | 'X') | None)
}

/// What one thread has used. The system cuts names after 15 bytes, so that several threads of one
/// process may share one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTime {
    /// Its name.
    pub name: String,
    /// Nanoseconds of CPU that it used.
    pub cpu_ns: u64,
}

/// The time of each thread, by its number: one of its own in the whole system.
pub type ThreadTimes = HashMap<u32, ThreadTime>;

/// All threads of this program: who was busy.
pub fn own_threads() -> ThreadTimes {
    threads(std::process::id())
}

/// The calling thread, and what it has used so far.
pub fn this_thread() -> Option<(u32, ThreadTime)> {
    thread(&fs::read_link("/proc/thread-self").map(|place| Path::new("/proc").join(place)).ok()?)
}

/// All threads of any process.
pub fn threads(pid: u32) -> ThreadTimes {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|entry| thread(&entry.path())).collect()
}

fn thread(task: &Path) -> Option<(u32, ThreadTime)> {
    let number = task.file_name()?.to_str()?.parse().ok()?;
    let name = fs::read_to_string(task.join("comm")).ok()?.trim().to_owned();
    Some((number, ThreadTime { name, cpu_ns: on_cpu(task)? }))
}

/// The numbers of `/proc/PID/stat` from the state (read as 0) on.
fn stat_fields(pid: u32) -> Option<Vec<u64>> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Vec<u64>> {
    // The name in parentheses may itself hold spaces and parentheses.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<u64> = rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    (fields.len() > 21).then_some(fields)
}

fn of_process(pid: u32) -> Option<Usage> {
    let fields = stat_fields(pid)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    // Only the owner of a process and root may read it.
    let written = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let mut usage = Usage {
        ticks_ns: fields[11..15].iter().sum::<u64>() * TICK_NS,
        processes: 1,
        resident: sum_of(&status, "VmRSS:") * 1024,
        peak: number_after(&status, "VmHWM:").map(|kib| kib * 1024),
        write_bytes: number_after(&written, "write_bytes:"),
        wchar: number_after(&written, "wchar:"),
        ..Usage::default()
    };
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        usage.cpu_ns += on_cpu(&task.path()).unwrap_or(0);
        usage.switches +=
            fs::read_to_string(task.path().join("status")).map_or(0, |text| sum_of(&text, "ctxt_switches:"));
    }
    Some(usage)
}

fn on_cpu(task: &Path) -> Option<u64> {
    fs::read_to_string(task.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
}

/// The number on the line of `text` that begins with `label`.
fn number_after(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(label)?.split_whitespace().next()?.parse().ok())
}

/// The sum of the numbers on the lines of `text` that contain `label`.
fn sum_of(text: &str, label: &str) -> u64 {
    let numbers =
        text.lines().filter_map(|line| line.split_once(label)?.1.split_whitespace().next()?.parse::<u64>().ok());
    numbers.sum()
}

/// CPU time of the whole machine since its start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine {
    /// Nanoseconds in which a CPU did anything.
    pub busy_ns: u64,
    /// Nanoseconds that a hypervisor gave to others.
    pub steal_ns: u64,
}

/// Reads the machine's CPU time; none where there is no `/proc/stat`.
pub fn machine() -> Option<Machine> {
    parse_machine(&fs::read_to_string("/proc/stat").ok()?)
}

fn parse_machine(text: &str) -> Option<Machine> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
    Some(Machine { busy_ns: (at(0) + at(1) + at(2) + at(5) + at(6)) * TICK_NS, steal_ns: at(7) * TICK_NS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::usage::TICK_NS;

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let line = "42 (a) b (c)) S 7 1 1 0 -1 4194560 1 2 3 4 100 50 5 6 20 0 3 0 99 1000 200 300";
        let fields = parse_stat(line).unwrap();
        assert_eq!((fields[1], &fields[11..15]), (7, &[100, 50, 5, 6][..]));
        assert!(parse_stat("42 (x) S 7").is_none());
    }

    #[test]
    fn labelled_numbers_are_summed() {
        let text = "Name:\tx\nVmRSS:\t  2048 kB\nvoluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!((sum_of(text, "VmRSS:"), sum_of(text, "ctxt_switches:")), (2048, 13));
    }

    #[test]
    fn a_label_is_the_whole_beginning_of_its_line() {
        let text = "wchar: 7\nwrite_bytes: 4096\ncancelled_write_bytes: 1\nVmHWM:\t  12 kB\nVmSwap: x\n";
        let cases = [("wchar:", Some(7)), ("write_bytes:", Some(4096)), ("VmHWM:", Some(12)), ("VmSwap:", None)];
        for (label, number) in cases {
            assert_eq!(number_after(text, label), number, "{label}");
        }
        assert_eq!(number_after("cancelled_write_bytes: 1\n", "write_bytes:"), None);
    }

    #[test]
    fn what_one_process_hides_is_unknown_of_the_tree() {
        let open = Usage { resident: 1, peak: Some(2), write_bytes: Some(3), wchar: Some(4), ..Usage::default() };
        let mut tree = open;
        tree.add(&open);
        assert_eq!((tree.resident, tree.peak, tree.write_bytes, tree.wchar), (2, Some(4), Some(6), Some(8)));
        tree.add(&Usage { write_bytes: None, ..open });
        assert_eq!((tree.resident, tree.peak, tree.write_bytes, tree.wchar), (3, Some(6), None, Some(12)));
    }

    #[test]
    fn the_machine_line_is_split_into_busy_and_stolen() {
        let machine = parse_machine("cpu  10 1 5 1000 7 2 3 4 0 0\ncpu0 1 2 3\n").unwrap();
        assert_eq!((machine.busy_ns, machine.steal_ns), (21 * TICK_NS, 4 * TICK_NS));
    }

    #[test]
    fn ticks_only_win_when_threads_have_ended() {
        let before = Usage::default();
        let second = 1_000_000_000;
        let cases = [
            (second, second, 1, second),
            (second, second + 4 * TICK_NS, 1, second),
            (second, second + 5 * TICK_NS, 1, second + 5 * TICK_NS),
            (second, second + 5 * TICK_NS, 2, second),
            // A quarter of a second, and all who worked in it are gone.
            (0, second / 10, 1, second / 10),
        ];
        for (cpu_ns, ticks_ns, processes, expected) in cases {
            assert_eq!(Usage { cpu_ns, ticks_ns, processes, ..before }.cpu_since(&before), expected);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn remains_of_a_process_are_not_alive() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_alive(child.id()) && is_alive(std::process::id()));
        child.kill().unwrap();
        while is_alive(child.id()) {}
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_found_and_a_missing_one_is_not() {
        let own = usage(&[std::process::id()]).unwrap();
        assert!(own.cpu_ns > 0 && own.resident > 0 && own.processes >= 1);
        // Without the children that other tests have just now: one that is ending has no peak any
        // more.
        let alone = own_usage().unwrap();
        assert!(alone.peak.is_some_and(|peak| peak >= alone.resident / 2), "{alone:?}");
        assert!(usage(&[u32::MAX - 1]).is_none());
        assert!(!own_threads().is_empty());
    }
}
