//! Repairing a queue: finds unreadable messages, and settles them only when an operator accepts the
//! loss.
//!
//! Invariants: a look changes nothing durable, and no readable message is given up. Everything is
//! read without a lock, page by page, while the queue is in use.

use std::sync::Arc;

use journal::{PAGE, Reference};

use crate::broker::Broker;
use crate::engine::Engine;
use crate::message::Message;
use crate::queue::arrival::Work;
use crate::queue::{Queue, Visit};

/// How many messages are read at once.
const READ_AT_ONCE: usize = 64;
/// How often a page is looked at again because its chunks were merged meanwhile.
const ATTEMPTS: usize = 16;

/// The result of a repair of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repair {
    /// Messages that were read.
    pub read: u64,
    /// Messages that could not be read.
    pub unreadable: u64,
    /// The first and the last of their numbers.
    pub numbers: (u64, u64),
    /// How many of them were given up.
    pub given_up: u64,
}

/// The fate of unreadable messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairMode {
    /// They stay.
    Look,
    /// They are settled, and their queue goes on.
    AcceptLoss,
}

impl Broker {
    /// Reads every message of a queue that only the disk has. `None` if there is no such queue.
    /// Takes as long as the disk needs for the whole queue.
    pub fn repair(&self, vhost: &str, queue: &str, mode: RepairMode) -> Option<Repair> {
        let vhost = self.engine.catalog.vhost(vhost)?;
        let queue = vhost.tables.read().queue(queue).cloned()?;
        Some(repair(&self.engine, &queue, mode))
    }
}

fn repair(engine: &Engine, queue: &Arc<Queue>, mode: RepairMode) -> Repair {
    let mut repair = Repair { read: 0, unreadable: 0, numbers: (u64::MAX, 0), given_up: 0 };
    let mut work = Vec::new();
    for bucket in queue.buckets() {
        repair_pages(engine, &bucket, mode, &mut repair, &mut work);
    }
    repair_pages(engine, queue, mode, &mut repair, &mut work);
    if repair.unreadable == 0 {
        repair.numbers = (0, 0);
    }
    if repair.given_up == repair.unreadable {
        engine.damages.lost.lock().remove(&queue.id);
        // The queue stopped at one of them.
        let now = engine.clock.unix_ms();
        queue.repaired(&mut Visit { context: engine, now, work: &mut work });
    }
    engine.run_work(&mut work);
    repair
}

fn repair_pages(engine: &Engine, queue: &Arc<Queue>, mode: RepairMode, repair: &mut Repair, work: &mut Vec<Work>) {
    let mut next = 0;
    while let Some(page) = queue.page_from(next, engine) {
        next = page + 1;
        let (read, unreadable) = look_through(engine, queue, page);
        repair.read += read;
        repair.unreadable += unreadable.len() as u64;
        for one in &unreadable {
            repair.numbers = (repair.numbers.0.min(one.seq), repair.numbers.1.max(one.seq));
        }
        if mode == RepairMode::AcceptLoss {
            let now = engine.clock.unix_ms();
            repair.given_up += queue.give_up(&unreadable, &mut Visit { context: engine, now, work });
        }
        queue.leave_page(page, engine);
    }
}

/// Reads a page of a queue: the number of readable messages, and the unreadable ones.
fn look_through(engine: &Engine, queue: &Arc<Queue>, page: u64) -> (u64, Vec<Reference>) {
    for _ in 0..ATTEMPTS {
        let Some(chunks) = queue.absent_chunks_of(page, engine) else { break };
        let mut listed = Vec::new();
        for chunk in &chunks {
            let before = listed.len();
            if engine.journal.read_chunk(*chunk, page, &mut listed).is_err() {
                listed.truncate(before);
            }
        }
        if queue.place_what_is_listed(page, &chunks, listed, engine) {
            break;
        }
    }
    let (mut read, mut unreadable) = (0, Vec::new());
    for piece in queue.on_disk(page, engine).unwrap_or_default().chunks(READ_AT_ONCE) {
        let all = engine.journal.read_all(piece);
        let whole = |block| Message::from_stored(block).is_ok();
        if all.is_ok_and(|blocks| blocks.into_iter().all(whole)) {
            read += piece.len() as u64;
            continue;
        }
        for one in piece {
            let readable = engine.journal.read(one.address).is_ok_and(whole);
            // A message that was moved meanwhile is read when it is needed.
            if readable || !queue.lies_at(one, engine) {
                read += 1;
            } else {
                unreadable.push(*one);
            }
        }
    }
    debug_assert!(unreadable.iter().all(|one| one.seq / PAGE == page));
    (read, unreadable)
}
