//! How a data directory is laid out: its folders, the names of its files, and what the number of a
//! file says.
//!
//! Invariant: every file has exactly one name, and that name leads back to its number.

/// The version of the format on disk.
pub const FORMAT: u16 = 2;
/// The oldest version that is still read.
pub(crate) const OLDEST_FORMAT: u16 = 1;

/// Whether this version reads what was written in `format`.
pub(crate) fn is_read(format: u16) -> bool {
    (OLDEST_FORMAT..=FORMAT).contains(&format)
}

/// The folder of the log files. A segment that was adopted stays in it.
pub(crate) const WAL: &str = "wal";
/// The folder of copied segments and of all indexes.
pub(crate) const COLD: &str = "cold";
/// The folder of the files that end with the process.
pub(crate) const SPILL: &str = "spill";
/// All folders of a journal.
pub(crate) const FOLDERS: [&str; 3] = [WAL, COLD, SPILL];
/// The file whose lock says that the directory is in use.
pub(crate) const LOCK: &str = "LOCK";
/// The file that marks a directory as a journal's.
pub(crate) const MARKER: &str = "FORMAT";
/// Names that may lie in a data directory that has no journal yet.
pub(crate) const HARMLESS: [&str; 3] = [LOCK, "lost+found", "cluster"];

/// The number of no file: bodies that only a lost index knew lie there.
pub const LOST: u32 = u32::MAX;

/// The bit that tells the numbers of copied segments from generations of log files.
pub(crate) const COPIED: u32 = 1 << 31;

/// Whether `file` is the number of a copied segment.
pub(crate) fn is_copied(file: u32) -> bool {
    file & COPIED != 0
}

/// The two highest bits tell the numbers of spilled files from generations of log files and from
/// copied segments.
pub(crate) const SPILLED: u32 = COPIED | 1 << 30;

/// Whether `file`, of an [`Address`](crate::Address), is one of those that end with the process:
/// see [`crate::Journal::spill`].
#[inline]
pub fn is_spilled(file: u32) -> bool {
    file & SPILLED == SPILLED && file != LOST
}

/// The name of the file in slot `number`.
pub(crate) fn slot_name(number: u32) -> String {
    format!("{WAL}/{number:04}.wal")
}

/// The slot of a file name, if it is that of a log file.
pub(crate) fn slot_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(WAL)?.strip_prefix('/')?.strip_suffix(".wal")?;
    let number = digits.parse().ok()?;
    (slot_name(number) == name).then_some(number)
}

/// The name of the file of copied segment `number`.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{COLD}/{number:08x}.seg")
}

/// The name of the index of segment `number`.
pub(crate) fn index_name(number: u32) -> String {
    format!("{COLD}/{number:08x}.idx")
}

/// The number in the name of a file that ends with `suffix`, if that is the name this journal
/// gives.
fn number_in(name: &str, suffix: &str, name_of: fn(u32) -> String) -> Option<u32> {
    let digits = name.strip_prefix(COLD)?.strip_prefix('/')?.strip_suffix(suffix)?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    (name_of(number) == name).then_some(number)
}

/// The segment whose file has this name.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    number_in(name, ".seg", segment_name)
}

/// The segment whose index has this name.
pub(crate) fn index_number(name: &str) -> Option<u32> {
    number_in(name, ".idx", index_name)
}

/// Whether this is the name of a spilled file.
pub(crate) fn is_spilled_name(name: &str) -> bool {
    name.strip_prefix(SPILL).is_some_and(|rest| rest.starts_with('/'))
}

/// The name of spilled file `number`.
pub(crate) fn spilled_name(number: u32) -> String {
    format!("{SPILL}/{number:08x}.tmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_one_name_each() {
        for number in [0, 7, 9999, 12345] {
            assert_eq!(slot_number(&slot_name(number)), Some(number));
        }
        for name in ["wal/1.wal", "wal/00001.wal", "wal/+001.wal", "0001.wal", "wal/0001.tmp", "LOCK"] {
            assert_eq!(slot_number(name), None, "{name}");
        }
    }
}
