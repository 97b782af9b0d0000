//! What processes used.

use serde::Serialize;

/// Ticks per second in `/proc/PID/stat` (`USER_HZ`, 100 on every Linux architecture).
pub const TICK_NS: u64 = 10_000_000;

/// What a process tree has used since its start.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Usage {
    /// Nanoseconds on a CPU, of all living threads.
    pub cpu_ns: u64,
    /// The same in ticks of 10 ms, ended threads and awaited children included.
    pub ticks_ns: u64,
    /// Context switches, voluntary and not, of all living threads.
    pub switches: u64,
    /// Resident memory, bytes.
    pub resident: u64,
    /// The most memory that was resident since the start, bytes. Of a tree the sum of each
    /// process's own peak.
    pub peak: Option<u64>,
    /// Bytes of the pages that it made dirty, to be written to disks. A file system that keeps
    /// large pieces of a file together counts whole pieces, however little of them changed.
    pub write_bytes: Option<u64>,
    /// Bytes that it gave to write calls. Those are of files; sockets mostly have calls of their
    /// own.
    pub wchar: Option<u64>,
    /// How many processes there are in the tree.
    pub processes: u64,
}

impl Usage {
    /// CPU nanoseconds used since `before`: the exact clock, unless threads that ended in between
    /// took more with them than the ticks are coarse.
    pub fn cpu_since(&self, before: &Self) -> u64 {
        let exact = self.cpu_ns.saturating_sub(before.cpu_ns);
        let ticks = self.ticks_ns.saturating_sub(before.ticks_ns);
        // Four counters of each process are whole ticks: its own time and its children's, for
        // itself and for the system.
        let coarse = 4 * TICK_NS * self.processes.max(1);
        if ticks > exact + coarse { ticks } else { exact }
    }

    /// Takes in another process. What one of them does not show is unknown of all.
    pub fn add(&mut self, one: &Self) {
        let both = |mine: Option<u64>, theirs: Option<u64>| Some(mine? + theirs?);
        *self = Self {
            cpu_ns: self.cpu_ns + one.cpu_ns,
            ticks_ns: self.ticks_ns + one.ticks_ns,
            switches: self.switches + one.switches,
            resident: self.resident + one.resident,
            peak: both(self.peak, one.peak),
            write_bytes: both(self.write_bytes, one.write_bytes),
            wchar: both(self.wchar, one.wchar),
            processes: self.processes + one.processes,
        };
    }
}
