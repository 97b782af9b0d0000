//! Attacks by what the log must keep.

use std::time::Instant;

use amqp091::codec::Table;
use amqp091::codec::methods::{QueueDeclare, QueueDelete};
use amqp091::codec::table::{Value, encode_fields};

use super::super::peer::{CHANNEL, Peer};
use super::{Ground, PATIENCE};

/// Declarations that wait for their answers.
const WINDOW: u64 = 50;
/// The text that each of them has among its arguments.
const TEXT: usize = 15_000;

/// A9: declares until it is refused, deletes everything, and begins again.
pub(super) fn declarations(ground: &Ground) -> Result<(), String> {
    let mut peer = ground.peer()?;
    let arguments = encode_fields(&[("low".to_owned(), Value::Str(vec![b'x'; TEXT]))]);
    let arguments = Table::new(&arguments).map_err(|error| error.to_string())?;
    ground.begin();
    let mut names: Vec<String> = Vec::new();
    while ground.goes_on() {
        let (goal, first) = (peer.heard.answers + WINDOW, names.len());
        names.extend((0..WINDOW).map(|_| format!("low.d{}", ground.number())));
        for queue in &names[first..] {
            peer.send(CHANNEL, QueueDeclare { queue, durable: true, arguments, ..QueueDeclare::default() });
        }
        if !peer.until(Instant::now() + PATIENCE, |heard| heard.answers >= goal || !heard.closed.is_empty())? {
            return Err(format!("no answers within {PATIENCE:?}"));
        }
        if peer.heard.closed.is_empty() {
            ground.count("declared", WINDOW);
        } else {
            ground.count("times refused", peer.reopen()?);
            delete(ground, &mut peer, &names)?;
            names.clear();
        }
    }
    Ok(())
}

fn delete(ground: &Ground, peer: &mut Peer, names: &[String]) -> Result<(), String> {
    let goal = peer.heard.answers + names.len() as u64;
    for queue in names {
        peer.send(CHANNEL, QueueDelete { queue, ..QueueDelete::default() });
    }
    if !peer.until(Instant::now() + PATIENCE, |heard| heard.answers >= goal)? {
        return Err(format!("no deletes within {PATIENCE:?}"));
    }
    ground.count("deleted", names.len() as u64);
    Ok(())
}
