//! The scrub: it finds what does not read back, tells of it once, keeps its pace, and sees no
//! damage where there is none.

use std::sync::Arc;
use std::time::Duration;

use journal::{Damage, Disk, Journal, Stepper};
use testkit::sim_disk::{Random, SimDisk};

use crate::queues::{Queues, check, live_on, rest, step};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A journal with adopted and copied segments, at rest.
fn full(seed: u64) -> (SimDisk, Journal, Stepper, Arc<Queues>) {
    let mut random = Random::new(seed);
    let disk = SimDisk::new(seed, 8 << 20);
    let (journal, stepper, queues) = step(&disk);
    (0..200).for_each(|_| live_on(&journal, &stepper, &queues, &mut random));
    rest(&stepper);
    assert_eq!((journal.stats().segments.scrubbed_bytes, stepper.scrub(DAY)), (0, None), "off unless it is asked for");
    journal.scrub(1 << 20);
    (disk, journal, stepper, queues)
}

/// Scrubs from `now` on to the end of the round. Gives when that was.
fn round(journal: &Journal, stepper: &Stepper, now: Duration) -> Duration {
    let (before, mut now) = (journal.stats().segments.scrub_rounds, now);
    while journal.stats().segments.scrub_rounds == before {
        now = stepper.scrub(now).unwrap();
    }
    now
}

#[test]
fn a_round_reads_every_segment_at_its_pace_once_a_day() {
    let (_, journal, stepper, queues) = full(1);
    let stats = journal.stats();
    assert!(stats.segments.files > 5, "{stats:?}");
    let mut now = Duration::ZERO;
    while journal.stats().segments.scrub_rounds == 0 {
        let (before, due) = (journal.stats().segments.scrubbed_bytes, stepper.scrub(now).unwrap());
        assert!(due >= now);
        // Before it is due nothing is read.
        let read = journal.stats().segments.scrubbed_bytes;
        assert!(due == now || stepper.scrub((now + due) / 2) == Some(due));
        assert_eq!(journal.stats().segments.scrubbed_bytes, read);
        assert!(due == DAY || (due - now).as_micros() == u128::from(read - before) * 1_000_000 / (1 << 20));
        now = due;
    }
    let read = journal.stats().segments.scrubbed_bytes;
    assert!(read > stats.segments.live_bytes && read < stats.segments.bytes * 11 / 10, "{read} {stats:?}");
    assert_eq!(now, DAY, "the next round begins a day after the first");
    now = round(&journal, &stepper, now);
    assert_eq!((now, journal.stats().segments.scrubbed_bytes), (2 * DAY, 2 * read));
    assert_eq!((journal.take_damages(), journal.stats().segments.damaged), (Vec::new(), 0));
    check(&journal, &queues);
}

/// The files in the folder of the segments, with their lengths.
fn files(disk: &SimDisk) -> Vec<(String, usize)> {
    let names = disk.names().into_iter().filter(|name| name.starts_with("cold/"));
    names.map(|name| (disk.bytes(&name).len(), name)).map(|(length, name)| (name, length)).collect()
}

#[test]
fn a_flipped_bit_anywhere_in_a_segment_is_told_once_and_by_name() {
    let mut random = Random::new(5);
    let mut tried = 0;
    for (at, (name, length)) in files(&full(2).0).into_iter().enumerate() {
        for _ in 0..6 {
            let (disk, journal, stepper, _) = full(2);
            // Of the first block of a copied segment the header alone says something.
            let byte = match random.below(length as u64) {
                padding @ 32..4096 if name.ends_with(".seg") => padding % 32,
                byte => byte,
            };
            disk.flip_bit(&name, byte * 8 + random.below(8));
            let now = round(&journal, &stepper, Duration::ZERO);
            let damages = journal.take_damages();
            assert_eq!(damages.len(), 1, "{at} {name}: {damages:?}");
            assert_eq!(damages[0].file, name);
            assert!(damages[0].offset < length as u64 && damages[0].entries.is_none(), "{damages:?}");
            round(&journal, &stepper, now);
            assert_eq!((journal.take_damages(), journal.stats().segments.damaged), (Vec::new(), 1));
            tried += 1;
        }
    }
    assert!(tried > 60, "{tried}");
}

#[test]
fn damage_in_an_adopted_file_is_told_where_it_lies() {
    let (disk, journal, _, _) = full(3);
    let slots: Vec<_> = files(&disk).into_iter().filter_map(|(name, _)| slot_of(&disk, &name)).collect();
    assert!(slots.len() > 3);
    drop(journal);
    for slot in slots {
        // The header of the file, a batch's header, and what it says of itself.
        for byte in [0, 20, 4096, 4096 + 70, 4096 + 140] {
            let (disk, journal, stepper, _) = full(3);
            disk.flip_bit(&slot, byte * 8 + 3);
            round(&journal, &stepper, Duration::ZERO);
            let damages = journal.take_damages();
            let [Damage { file, offset, .. }] = &damages[..] else { panic!("{slot} {byte}: {damages:?}") };
            assert_eq!((file, *offset), (&slot, byte / 4096 * 4096));
        }
    }
}

/// The log file that an index of an adopted segment speaks of.
fn slot_of(disk: &SimDisk, index: &str) -> Option<String> {
    let number = u32::from_str_radix(index.strip_prefix("cold/")?.strip_suffix(".idx")?, 16).ok()?;
    let bytes = disk.bytes(index);
    let slot = u32::from_le_bytes(bytes[24..28].try_into().ok()?);
    (number < 1 << 31).then(|| format!("wal/{slot:04}.wal"))
}

#[test]
fn what_is_missing_or_cut_is_damage_and_the_round_goes_on() {
    for cut in [None, Some(100), Some(5000)] {
        let (disk, journal, stepper, _) = full(4);
        let names: Vec<_> = files(&disk).into_iter().map(|(name, _)| name).collect();
        let segments: Vec<_> = names.iter().filter(|name| name.ends_with(".seg")).collect();
        let index = names.iter().find(|name| slot_of(&disk, name).is_some()).unwrap();
        for name in [segments[0], index] {
            match cut {
                None => disk.remove(name).unwrap(),
                Some(cut) => {
                    let bytes = disk.bytes(name);
                    disk.replace(name, &bytes[..cut.min(bytes.len() - 1)]);
                }
            }
        }
        let whole = journal.stats().segments.files - 2;
        round(&journal, &stepper, Duration::ZERO);
        let mut told: Vec<_> = journal.take_damages().into_iter().map(|damage| damage.file).collect();
        told.sort_unstable();
        let mut expected = [segments[0].clone(), index.clone()];
        expected.sort_unstable();
        assert_eq!(told, expected);
        assert_eq!(journal.stats().segments.damaged, 2);
        assert!(whole > 2);
    }
}

#[test]
fn segments_that_come_and_go_are_never_taken_for_damaged() {
    let (mut bytes, mut rounds, mut merges) = (0, 0, 0);
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let disk = SimDisk::new(seed, 8 << 20);
        let mut now = Duration::ZERO;
        for _ in 0..3 {
            let (journal, stepper, queues) = step(&disk);
            journal.scrub(1 << 30);
            for _ in 0..150 {
                live_on(&journal, &stepper, &queues, &mut random);
                if random.chance(2) {
                    // Most goes at once: what is left is merged.
                    let gone = queues.all().into_iter().filter(|(_, one)| one.seq % 6 != 0);
                    gone.for_each(|(owner, one)| queues.settle(&journal, owner, one.seq));
                }
                for _ in 0..random.below(4) {
                    stepper.scrub(now);
                    now += if random.chance(10) { DAY } else { Duration::from_millis(1) };
                }
            }
            if random.chance(30) {
                queues.all().iter().for_each(|(owner, one)| queues.settle(&journal, *owner, one.seq));
            }
            now = round(&journal, &stepper, now + DAY);
            assert_eq!(journal.take_damages(), [], "seed {seed}");
            check(&journal, &queues);
            let stats = journal.stats();
            bytes += stats.segments.scrubbed_bytes;
            rounds += stats.segments.scrub_rounds;
            merges += stats.segments.merges;
            if random.chance(50) {
                disk.power_cut();
            } else {
                journal.close().unwrap();
            }
            drop((journal, stepper));
            disk.restart();
        }
    }
    assert!(bytes > 20 << 20 && rounds > 200 && merges > 20, "{bytes} {rounds} {merges}");
}
