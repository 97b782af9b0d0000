//! The settings of the disk's limits.

use broker::{DiskLimit, DiskLimits};

use super::ConfigError;
use super::reader::{Reader, declare};
use super::value::{self, Amount};

/// Where the disk alarm rises before the journal needs it to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disk {
    least_free: FreeLimit,
    most_stored: Amount,
}

/// What must stay free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FreeLimit {
    Amount(Amount),
    /// A multiple of the machine's memory, in thousandths.
    Memories(u32),
}

impl Disk {
    /// Whether there is a limit.
    pub(crate) fn is_limited(&self) -> bool {
        // A multiple of no memory would count as none.
        self.limits(u64::MAX) != DiskLimits::default()
    }

    /// The limits on a machine with so many bytes of memory.
    pub(crate) fn limits(&self, memory: u64) -> DiskLimits {
        let limit = |amount| match amount {
            Amount::Bytes(0) => DiskLimit::None,
            Amount::Bytes(bytes) => DiskLimit::Bytes(bytes),
            Amount::Share(share) => DiskLimit::Share(share),
        };
        let least_free = match self.least_free {
            FreeLimit::Amount(amount) => limit(amount),
            FreeLimit::Memories(times) => DiskLimit::Bytes(memory / 1000 * u64::from(times)),
        };
        DiskLimits { least_free, most_stored: limit(self.most_stored) }
    }

    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let least_free = reader.get(
            declare(
                "disk.free_limit",
                "amount",
                "0",
                "What must stay free on the disk: bytes, a share of the disk (`10 %`), or RabbitMQ's multiple of the \
                 machine's memory (`1.5 x memory`). Below it the disk alarm stops publishers. `0`: only the room that \
                 the journal needs is kept. That room is always kept, whatever this is.",
            ),
            free_limit,
        )?;
        let most_stored = reader.get(
            declare(
                "disk.limit",
                "amount",
                "0",
                "What the store may take: log, segments and messages that left memory, in bytes or as a share of the \
                 disk. Above it the disk alarm stops publishers. `0`: as much as there is.",
            ),
            value::amount,
        )?;
        Ok(Self { least_free, most_stored })
    }
}

fn free_limit(text: &str) -> Result<FreeLimit, String> {
    let memories = text.trim().strip_suffix("memory").map(str::trim).and_then(|text| text.strip_suffix('x'));
    let Some(memories) = memories.map(str::trim) else {
        return value::amount(text)
            .map(FreeLimit::Amount)
            .map_err(|error| format!("{error}, or a multiple of the memory as 1.5 x memory"));
    };
    match memories.parse::<f64>() {
        Ok(times) if (0.001..=1000.0).contains(&times) => Ok(FreeLimit::Memories((times * 1000.0).round() as u32)),
        _ => Err(format!("'{text}' is no multiple of the memory; write it as 1.5 x memory")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_all_forms() {
        let limits = |least_free, most_stored| DiskLimits { least_free, most_stored };
        for (free, most, expected) in [
            ("0", "0", DiskLimits::default()),
            ("2 GB", "90 %", limits(DiskLimit::Bytes(2_000_000_000), DiskLimit::Share(900))),
            ("10 %", "100 GiB", limits(DiskLimit::Share(100), DiskLimit::Bytes(100 << 30))),
            ("1.5 x memory", "0", limits(DiskLimit::Bytes(1500), DiskLimit::None)),
            ("2x memory", "0", limits(DiskLimit::Bytes(2000), DiskLimit::None)),
        ] {
            let disk = Disk { least_free: free_limit(free).unwrap(), most_stored: value::amount(most).unwrap() };
            assert_eq!(disk.limits(1000), expected, "{free} {most}");
        }
        for wrong in ["x memory", "-1 x memory", "memory", "1.5 x", "1e9 x memory", "nan x memory"] {
            assert!(free_limit(wrong).is_err(), "{wrong}");
        }
    }
}
