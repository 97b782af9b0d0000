//! The resources of the machine, or of the container that the server runs in.

use std::path::Path;

/// Assumed if the machine does not tell its memory.
const ASSUMED_MEMORY: u64 = 4 << 30;

/// Bytes of memory of this machine, or of this container if that is less.
pub(crate) fn memory() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let total = meminfo_total(&read("/proc/meminfo")).unwrap_or(ASSUMED_MEMORY);
    let groups = read("/proc/self/cgroup");
    // Each group in the hierarchy has a limit of its own, down from the root as this process sees
    // it. Version 2 has one tree; version 1 has one for each controller.
    let version_2 = limits_above(group(&groups, ""), "/sys/fs/cgroup", "memory.max", &read);
    let version_1 = limits_above(group(&groups, "memory"), "/sys/fs/cgroup/memory", "memory.limit_in_bytes", &read);
    version_2.into_iter().chain(version_1).fold(total, u64::min)
}

/// The limits of a group and of all groups above it, each in the file `name`.
fn limits_above(group: Option<&str>, root: &str, name: &str, read: &dyn Fn(&str) -> String) -> Vec<u64> {
    let above = Path::new(group.unwrap_or("/")).ancestors().filter_map(Path::to_str);
    above.filter_map(|group| limit(&read(&format!("{root}{}/{name}", group.trim_end_matches('/'))))).collect()
}

/// The name of the machine.
#[cfg(unix)]
pub(crate) fn name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// The name is not read on this system.
#[cfg(not(unix))]
pub(crate) fn name() -> String {
    "localhost".to_owned()
}

/// How many files and sockets this process may have open. Raises the limit to the most that is
/// allowed.
#[cfg(unix)]
pub(crate) fn descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let allowed = getrlimit(Resource::Nofile);
    // If this is refused, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, maximum: allowed.maximum });
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// This system has no such limit.
#[cfg(not(unix))]
pub(crate) fn descriptors() -> usize {
    usize::MAX
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn meminfo_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The path of this process in the tree of `controller`, which has no name in version 2. Lines are
/// `NUMBER:CONTROLLER,CONTROLLER:PATH`.
fn group<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        assert_eq!(meminfo_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(meminfo_total("MemTotal: much\n"), None);
        let groups = "4:cpu,memory:/box\n1:name=systemd:/a\n0::/system.slice/hermod.service\n";
        assert_eq!(group(groups, ""), Some("/system.slice/hermod.service"));
        assert_eq!((group(groups, "memory"), group(groups, "blkio")), (Some("/box"), None));
        assert_eq!((limit("536870912\n"), limit("max\n"), limit("")), (Some(536_870_912), None, None));
        assert!(memory() > 0);
    }

    #[test]
    fn the_least_limit_may_be_that_of_a_group_above() {
        let read = |path: &str| match path {
            "/top/a/b/max" => "300".to_owned(),
            "/top/a/max" => "200".to_owned(),
            "/top/max" => "max".to_owned(),
            _ => String::new(),
        };
        assert_eq!(limits_above(Some("/a/b"), "/top", "max", &read), [300, 200]);
        assert!(limits_above(None, "/top", "max", &read).is_empty());
    }
}
