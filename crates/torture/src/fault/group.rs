//! A control group of Linux that gives a broker little memory, for one run.

use std::path::PathBuf;
use std::time::Duration;

use super::Stop;

/// The folder of the memory limits, in the first version of control groups.
const GROUPS: &str = "/sys/fs/cgroup/memory";

/// A control group that is removed when it is dropped.
pub(super) struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel forgets a process some time after its end.
        let gone = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            std::fs::remove_dir(&self.0).is_ok()
        });
        if !gone {
            eprintln!("{} stays", self.0.display());
        }
    }
}

impl Group {
    /// An empty group with so many bytes of memory; where that is not permitted, the fault is
    /// skipped.
    pub(super) fn with_memory(bytes: u64) -> Result<Self, Stop> {
        let folder = PathBuf::from(GROUPS).join(format!("hermod-fault-{}", std::process::id()));
        std::fs::create_dir(&folder)
            .map_err(|error| Stop::Skipped(format!("cannot make {}: {error}", folder.display())))?;
        let group = Self(folder);
        let limit = group.0.join("memory.limit_in_bytes");
        std::fs::write(&limit, bytes.to_string())
            .map_err(|error| Stop::Skipped(format!("{}: {error}", limit.display())))?;
        Ok(group)
    }

    /// What becomes the server inside the group.
    pub(super) fn wrapper(&self) -> Vec<String> {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        ["sh", "-c", &enter, "sh"].map(str::to_owned).to_vec()
    }

    /// The most memory that was in use, with the file cache.
    pub(super) fn peak(&self) -> u64 {
        let peak = std::fs::read_to_string(self.0.join("memory.max_usage_in_bytes")).unwrap_or_default();
        peak.trim().parse().unwrap_or(0)
    }
}
