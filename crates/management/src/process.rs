//! Figures about this process that the operating system knows. Figures that it does not tell are
//! left out.

/// What `/proc` says about this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) max_files: Option<u64>,
}

impl Process {
    /// Reads the figures now.
    pub(crate) fn look() -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        Self {
            resident_bytes: resident_bytes(),
            open_files: std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64),
            max_files: max_files(&read("limits")),
        }
    }
}

/// Bytes of memory that this process has resident, if the system tells.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn max_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        assert_eq!(resident("Name:\thermod\nVmRSS:\t   12288 kB\nThreads:\t4\n"), Some(12_582_912));
        assert_eq!(resident(""), None);
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1048576              1048576              files\n";
        assert_eq!(max_files(limits), Some(1_048_576));
        assert_eq!(max_files("Max open files            unlimited            unlimited            files\n"), None);
    }
}
