//! A fixed script of operations against a tiny log, so that its files are made, rolled, recycled
//! and removed; with what each answer has promised about queues. The broker may die at any step.

use super::catalog::Catalog;
use super::hand::{Publisher, Taker};
use crate::server::{Launch, Sizes};
use crate::stage::Stage;
use crate::talk::{Broken, Control, Protocol};
use crate::topology::{FAN, FAN_A, FAN_B, PLAIN, WORK, straight};

/// The log of the script: eight files that hardly hold its largest message.
const LOG: [(&str, &str); 3] = [
    ("HERMOD_JOURNAL_MAX_BYTES", "2MiB"),
    ("HERMOD_JOURNAL_FILE_BYTES", "256KiB"),
    ("HERMOD_LIMITS_MAX_MESSAGE_SIZE", "128KiB"),
];
/// How often the log is filled and emptied.
const ROUNDS: usize = 8;
/// Messages of one step, and the publishes that wait for a confirm at a time.
const STEP: u64 = 12;
const WINDOW: usize = 4;
const BODY: usize = 3000;

/// A server with the log of the script.
pub(super) fn launch() -> Launch {
    let variables = LOG.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Launch { variables, ..Launch::plain(Sizes::Default) }
}

/// Runs the script until its end or until the broker dies.
pub(super) fn run(stage: &Stage, catalog: &mut Catalog) -> Result<(), Broken> {
    let mut control = Control::open(stage.ports.amqp)?;
    control.declare()?;
    catalog.load_is_declared();
    let mut amqp = Publisher::open(stage, Protocol::Amqp)?;
    let mut stomp = Publisher::open(stage, Protocol::Stomp)?;
    for round in 0..ROUNDS {
        let name = format!("fault.script.{round}");
        catalog.declare(&mut control, &name)?;
        amqp.publish_all(straight(PLAIN), STEP, BODY, WINDOW)?;
        stomp.publish_all(FAN, STEP, BODY, WINDOW)?;
        amqp.publish_all(straight(WORK), STEP / 3, 4 * BODY, 1)?;
        // One message stays in each queue, and is behind all others when the next round begins.
        for (queue, protocol, count) in [
            (PLAIN, Protocol::Amqp, STEP - 1),
            (FAN_A, Protocol::Stomp, STEP - 1),
            (FAN_B, Protocol::Amqp, STEP - 1),
            (WORK, Protocol::Stomp, STEP / 3),
        ] {
            Taker::open(stage, protocol, queue)?.accept(count)?;
        }
        if round % 2 == 1 {
            catalog.delete(&mut control, &name)?;
        }
    }
    Ok(())
}
