//! What the machine, or the container that the server runs in, has to offer.

use std::path::Path;

/// Taken for the memory of a machine that does not tell.
const ASSUMED_MEMORY: u64 = 4 << 30;

/// Bytes of memory of this machine, or of this container where that is less.
pub(crate) fn memory() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let total = meminfo_total(&read("/proc/meminfo")).unwrap_or(ASSUMED_MEMORY);
    let group = cgroup_path(&read("/proc/self/cgroup")).unwrap_or("/").to_owned();
    // Every group above has a limit of its own, down from the root as this process sees it.
    let limits = Path::new(&group).ancestors().filter_map(|group| {
        let group = group.to_str()?.trim_end_matches('/');
        limit(&read(&format!("/sys/fs/cgroup{group}/memory.max")))
    });
    let version_1 = limit(&read("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    limits.chain(version_1).fold(total, u64::min)
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn meminfo_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn cgroup_path(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
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
        assert_eq!(
            cgroup_path("1:name=systemd:/a\n0::/system.slice/hermod.service\n"),
            Some("/system.slice/hermod.service")
        );
        assert_eq!((limit("536870912\n"), limit("max\n"), limit("")), (Some(536_870_912), None, None));
        assert!(memory() > 0);
    }
}
