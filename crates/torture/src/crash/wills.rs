//! Clients of MQTT with wills, over kills of the broker.
//!
//! A will whose CONNECT was answered comes at least once, when its client goes without a word or is
//! cut off by the death of the broker. None comes once the broker has closed a connection whose
//! client said goodbye.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mqtt::codec::{Connect, Notice, Packet, PropertyBlock, PropertyId, QoS, Reason, Will};

use super::mqtt::{Heard, Link, PATIENCE, SILENCE, hear, lock};
use crate::random::Random;
use crate::stage::Stage;
use crate::talk::Broken;

const TOPIC: &str = "torture/wills";
const WATCHER: &str = "torture-wills";
/// Clients that are connected at a time.
const CLIENTS: usize = 8;
/// Percent of the wills that wait a second.
const DELAYED: u64 = 30;
/// Percent of the clients that say goodbye.
const GOODBYES: u64 = 40;

/// What became of the wills, each a number.
#[derive(Debug, Default)]
struct Seen {
    last: u64,
    /// They must come.
    owed: BTreeSet<u64>,
    /// They must not come.
    withdrawn: BTreeSet<u64>,
    come: BTreeSet<u64>,
    again: u64,
}

/// The load, and what it has seen.
#[derive(Debug, Default)]
pub(crate) struct WillLoad {
    port: u16,
    seen: Mutex<Seen>,
}

impl WillLoad {
    pub(crate) fn new(port: u16) -> Self {
        Self { port, ..Self::default() }
    }

    /// Begins the session that watches.
    pub(crate) fn subscribe(&self) -> Result<(), String> {
        let begun = Link::open(self.port, WATCHER).and_then(|mut link| link.subscribe(TOPIC, QoS::AtLeastOnce));
        begun.map_err(|broken: Broken| format!("wills: {broken}"))
    }

    /// Clients come and go, until the broker dies, or until then.
    pub(crate) fn play(&self, stage: &Stage, random: &mut Random, until: Instant) {
        let mut clients: Vec<(u64, Link)> = Vec::new();
        while !stage.is_dying() && Instant::now() < until {
            let done = if clients.len() < CLIENTS {
                self.come(random).map(|client| clients.push(client))
            } else {
                let client = clients.swap_remove(random.below(CLIENTS as u64) as usize);
                if random.chance(GOODBYES) { self.say_goodbye(client, stage) } else { Ok(()) }
            };
            match done {
                Ok(()) => {}
                Err(Broken::Lost(_)) => std::thread::sleep(Duration::from_millis(20)),
                Err(broken @ Broken::Refused(_)) => return stage.report("wills", &broken),
            }
        }
    }

    /// A client comes, and leaves a will that is owed from here on.
    fn come(&self, random: &mut Random) -> Result<(u64, Link), Broken> {
        let number = {
            let mut seen = lock(&self.seen);
            seen.last += 1;
            seen.last
        };
        let (payload, client_id) = (number.to_string(), format!("torture-will-{number}"));
        let (mut of_will, mut of_connect) = (PropertyBlock::default(), PropertyBlock::default());
        if random.chance(DELAYED) {
            of_will.number(PropertyId::WillDelay, 1);
            of_connect.number(PropertyId::SessionExpiry, 5);
        }
        let (qos, properties, payload) = (QoS::AtLeastOnce, of_will.as_properties(), payload.as_bytes());
        let will = Will { qos, retain: false, properties, topic: TOPIC, payload };
        let link = Link::open_with(
            self.port,
            &Connect {
                client_id: &client_id,
                clean_start: true,
                will: Some(will),
                properties: of_connect.as_properties(),
                ..Connect::default()
            },
        )?;
        lock(&self.seen).owed.insert(number);
        Ok((number, link))
    }

    /// A client takes its will away. It knows that for sure only when the broker has closed the
    /// connection, and not by its death.
    fn say_goodbye(&self, (number, mut link): (u64, Link), stage: &Stage) -> Result<(), Broken> {
        lock(&self.seen).owed.remove(&number);
        link.say(&Packet::Disconnect(Notice::plain(Reason::Success)))?;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Err(Broken::Lost(_)) = hear(&mut link) {
                if !stage.is_dying() {
                    lock(&self.seen).withdrawn.insert(number);
                }
                return Ok(());
            }
        }
        Err(Broken::Refused(format!("the connection of client {number} was not closed after its DISCONNECT")))
    }

    /// The broker lives: what is owed comes, and nothing that was taken away.
    pub(crate) fn settle(&self) -> Result<(), String> {
        self.settle_all().map_err(|broken| format!("wills: {broken}"))
    }

    fn settle_all(&self) -> Result<(), Broken> {
        let mut seen = lock(&self.seen);
        let mut link = Link::open(self.port, WATCHER)?;
        let (begin, mut last) = (Instant::now(), Instant::now());
        while (!seen.owed.is_subset(&seen.come) && begin.elapsed() < PATIENCE) || last.elapsed() < SILENCE {
            if let Some(Heard::Publish(_, id, number)) = hear(&mut link)? {
                seen.again += u64::from(!seen.come.insert(number));
                id.map_or(Ok(()), |id| link.answer(Packet::PubAck, id))?;
                last = Instant::now();
            }
        }
        let missing: Vec<_> = seen.owed.difference(&seen.come).take(10).collect();
        let wrong: Vec<_> = seen.withdrawn.intersection(&seen.come).take(10).collect();
        if missing.is_empty() && wrong.is_empty() {
            return Ok(());
        }
        Err(Broken::Refused(format!(
            "of {} wills that are owed {missing:?} did not come; of {} that were taken away {wrong:?} came",
            seen.owed.len(),
            seen.withdrawn.len()
        )))
    }
}

impl std::fmt::Display for WillLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Seen { owed, withdrawn, again, .. } = &*lock(&self.seen);
        write!(
            f,
            "wills: {} owed, each came ({again} came again), {} taken away, none came",
            owed.len(),
            withdrawn.len()
        )
    }
}
