//! A seeded simulation of the journal: random work on small files that are recycled all the time,
//! on a disk that loses, tears and refuses writes; after each fault the journal is opened again and
//! compared with a model.
//!
//! `JOURNAL_SEEDS` sets how many seeds are run; `JOURNAL_SEED` runs one (`7`) or a range of them
//! (`300..2000`) only.

mod copy;
mod following;
mod life;
mod memory;
mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};

use life::{Run, Totals};

fn seeds() -> std::ops::Range<u64> {
    chosen().unwrap_or_else(|| {
        let count = std::env::var("JOURNAL_SEEDS").ok().and_then(|text| text.parse().ok());
        0..count.unwrap_or(2000)
    })
}

/// The seeds that are to be run, and no others.
fn chosen() -> Option<std::ops::Range<u64>> {
    let wanted = std::env::var("JOURNAL_SEED").ok()?;
    let number = |text: &str| text.parse::<u64>().expect("JOURNAL_SEED is a number, or a range such as 300..2000");
    Some(match wanted.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&wanted)..number(&wanted) + 1,
    })
}

#[test]
fn nothing_durable_is_ever_lost_and_nothing_else_appears() {
    let mut totals = Totals::default();
    for seed in seeds() {
        let outcome = catch_unwind(AssertUnwindSafe(|| Run::new(seed).run(&mut totals)));
        assert!(outcome.is_ok(), "seed {seed} failed: run it alone with JOURNAL_SEED={seed}");
    }
    println!("{totals:?}");
    if seeds().count() >= 1000 {
        totals.assert_everything_was_tried();
    }
}

#[test]
fn a_disk_that_lies_about_flushes_is_caught() {
    // To a reader of confirms this is the same as confirming before the flush: the simulation must
    // see it.
    let caught = (0..60).filter(|seed| {
        let mut run = Run::new(*seed);
        run.lie_about_flushes();
        catch_unwind(AssertUnwindSafe(|| run.run(&mut Totals::default()))).is_err()
    });
    let caught = caught.count();
    assert!(caught > 30, "only {caught} of 60 lying disks were caught");
}
