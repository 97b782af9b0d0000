//! Facts about many entries of a queue at once: the numbers with one common value, in runs.
//!
//! A restatement has facts about a backlog for every file that leaves the log. So a fact about an
//! entry must cost far less than the entry did: a run of any length is two varints. No fact is
//! about more than [`ENTRIES_PER_FACT`] entries, which bounds the allocation of its reader.

use std::collections::BTreeMap;

use journal::{Appender, Owner};

use crate::encoding::{Malformed, Reader, write_varint};

/// The most entries of one fact.
const ENTRIES_PER_FACT: u64 = 1 << 16;

/// One fact: a value, and the runs (first number, count) of the entries that have it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Valued {
    pub(crate) value: u64,
    pub(crate) runs: Vec<(u64, u64)>,
}

impl Valued {
    /// The entries' numbers.
    pub(crate) fn entries(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|(first, count)| *first..first + count)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 + 3 * self.runs.len());
        write_varint(&mut bytes, self.value);
        let mut end = 0;
        for (first, count) in &self.runs {
            write_varint(&mut bytes, first - end);
            write_varint(&mut bytes, *count);
            end = first + count;
        }
        bytes
    }
}

/// Logs a fact of `kind` for each value among `entries`, which are numbers and their values;
/// several facts if there are many entries.
pub(crate) fn log_valued(
    appender: &mut Appender<'_>,
    queue: Owner,
    kind: u8,
    entries: impl Iterator<Item = (u64, u64)>,
) {
    for valued in in_runs(entries) {
        appender.fact(None, queue, kind, &[&valued.encode()]);
    }
}

fn in_runs(entries: impl Iterator<Item = (u64, u64)>) -> Vec<Valued> {
    let mut numbers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (seq, value) in entries {
        numbers.entry(value).or_default().push(seq);
    }
    let mut facts = Vec::new();
    for (value, mut numbers) in numbers {
        numbers.sort_unstable();
        for numbers in numbers.chunks(ENTRIES_PER_FACT as usize) {
            let mut runs: Vec<(u64, u64)> = Vec::new();
            for seq in numbers {
                match runs.last_mut() {
                    Some((first, count)) if *first + *count == *seq => *count += 1,
                    _ => runs.push((*seq, 1)),
                }
            }
            facts.push(Valued { value, runs });
        }
    }
    facts
}

/// Reads such a fact.
pub(crate) fn read_valued(bytes: &[u8]) -> Result<Valued, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut valued = Valued { value: reader.varint()?, runs: Vec::new() };
    let (mut end, mut entries) = (0_u64, 0_u64);
    while !reader.is_empty() {
        let (gap, count) = (reader.varint()?, reader.varint()?);
        entries = entries.saturating_add(count);
        if entries > ENTRIES_PER_FACT {
            return Err(reader.malformed("a fact about too many entries"));
        }
        let run = end.checked_add(gap).and_then(|first| Some((first, first.checked_add(count)?)));
        let Some((first, behind)) = run else { return Err(reader.malformed("a number beyond 64 bits")) };
        valued.runs.push((first, count));
        end = behind;
    }
    Ok(valued)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_any_length_costs_a_few_bytes() {
        let facts = in_runs((1_000_000..1_050_000).map(|seq| (seq, 1)));
        assert_eq!(facts, [Valued { value: 1, runs: vec![(1_000_000, 50_000)] }]);
        assert!(facts[0].encode().len() <= 8);
    }

    #[test]
    fn entries_are_gathered_by_value_whatever_their_order() {
        let facts = in_runs([(9, 2), (4, 1), (5, 1), (8, 2), (7, 1)].into_iter());
        let expected = [Valued { value: 1, runs: vec![(4, 2), (7, 1)] }, Valued { value: 2, runs: vec![(8, 2)] }];
        assert_eq!(facts, expected);
        assert_eq!(facts.iter().map(|fact| read_valued(&fact.encode()).unwrap()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn more_entries_than_a_fact_may_name_take_several() {
        let count = ENTRIES_PER_FACT * 2 + 1;
        let facts = in_runs((0..count).map(|number| (number * 2, 7)));
        assert_eq!(facts.len(), 3);
        let read: Vec<_> = facts.iter().map(|fact| read_valued(&fact.encode()).unwrap()).collect();
        assert!(read.iter().flat_map(Valued::entries).eq((0..count).map(|number| number * 2)));
    }

    #[test]
    fn no_bytes_make_the_reader_believe_in_more_than_a_fact_may_name() {
        let whole = Valued { value: 300, runs: vec![(5, 1), (1 << 40, 300)] }.encode();
        for cut in 0..whole.len() {
            // Cut behind the value or behind a run, it is a shorter fact.
            if let Ok(valued) = read_valued(&whole[..cut]) {
                assert!(valued.runs.len() < 2, "{cut}");
            }
        }
        for (gap, count) in [(0, ENTRIES_PER_FACT + 1), (0, u64::MAX), (u64::MAX, 1)] {
            let mut bytes = vec![1];
            write_varint(&mut bytes, gap);
            write_varint(&mut bytes, count);
            assert!(read_valued(&bytes).is_err(), "{gap} {count}");
        }
    }
}
