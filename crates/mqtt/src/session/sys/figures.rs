//! The topics of `$SYS` and their values. Mosquitto's manual page has the names below
//! `$SYS/broker/`, EMQX's documentation those below `$SYS/brokers/NODE/`.

use std::time::Duration;

use broker::{Presence, Totals};

use super::{ROOT, Values};

/// Counters whose averages are shown.
const LOADS: [&str; 8] = [
    "messages/received",
    "messages/sent",
    "publish/received",
    "publish/sent",
    "publish/dropped",
    "bytes/received",
    "bytes/sent",
    "connections",
];

/// The spans of averages, in minutes.
const SPANS: [u32; 3] = [1, 5, 15];

/// The place of dead messages that a limit of length has pushed out, among their reasons.
const OVER_LENGTH: usize = 2;

/// Counters of the whole broker since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    received: u64,
    received_bytes: u64,
    sent: u64,
    dropped: u64,
    connections: u64,
    /// Connections that are open.
    connected: u64,
    /// Bytes of sockets, in and out.
    moved: (u64, u64),
}

impl Counts {
    pub(super) fn new(totals: &Totals, moved: (u64, u64)) -> Self {
        let Totals { churn, publishes, deliveries, deaths } = totals;
        let sent = [
            &deliveries.delivered_manual,
            &deliveries.delivered_auto,
            &deliveries.fetched_manual,
            &deliveries.fetched_auto,
        ];
        Self {
            received: publishes.received.get(),
            received_bytes: publishes.received_bytes.get(),
            sent: sent.iter().map(|counter| counter.get()).sum(),
            dropped: deliveries.unread_dropped.get() + deaths.lost[OVER_LENGTH].get(),
            connections: churn.connections_opened.get(),
            connected: churn.connections_opened.get().saturating_sub(churn.connections_closed.get()),
            moved,
        }
    }

    pub(super) fn connected(&self) -> u64 {
        self.connected
    }

    /// In the order of [`LOADS`].
    fn loads(&self) -> [u64; LOADS.len()] {
        let (bytes_in, bytes_out) = self.moved;
        [self.received, self.sent, self.received, self.sent, self.dropped, bytes_in, bytes_out, self.connections]
    }
}

/// Averages of growth per minute, in which what is longer ago weighs less, as in the load of Unix.
#[derive(Debug)]
pub(super) struct Loads {
    last: [u64; LOADS.len()],
    averages: [[f64; SPANS.len()]; LOADS.len()],
}

impl Loads {
    /// From these counters on.
    pub(super) fn new(counts: &Counts) -> Self {
        Self { last: counts.loads(), averages: Default::default() }
    }

    /// Takes in what the counters are after so long.
    pub(super) fn sample(&mut self, counts: &Counts, elapsed: Duration) {
        let minutes = elapsed.as_secs_f64() / 60.0;
        if minutes <= 0.0 {
            return;
        }
        let now = counts.loads();
        for ((averages, last), now) in self.averages.iter_mut().zip(self.last).zip(now) {
            let rate = now.saturating_sub(last) as f64 / minutes;
            for (average, span) in averages.iter_mut().zip(SPANS) {
                let kept = (-minutes / f64::from(span)).exp();
                *average = *average * kept + rate * (1.0 - kept);
            }
        }
        self.last = now;
    }
}

/// What a server is called.
#[derive(Debug, Clone)]
pub struct Host {
    /// The product.
    pub product: String,
    /// Its version.
    pub version: String,
    /// The name of the node.
    pub node: String,
}

/// Topics and values that are being made.
struct Making(Vec<(Box<str>, String)>);

impl Making {
    fn put(&mut self, topic: &str, value: impl ToString) {
        self.0.push((format!("{ROOT}/{topic}").into(), value.to_string()));
    }

    fn put_all(&mut self, under: &str, values: &[(&str, u64)]) {
        values.iter().for_each(|(topic, value)| self.put(&format!("{under}/{topic}"), value));
    }
}

/// What every user may read: the figures of some virtual hosts.
fn of_vhosts(host: &Host, up: Duration, presence: &Presence) -> Making {
    let mut made = Making(Vec::new());
    made.put("broker/version", format!("{} version {}", host.product, host.version));
    made.put("broker/uptime", format!("{} seconds", up.as_secs()));
    let Presence { connections, filters, left, messages } = presence;
    let away = left.offline_subscriptions;
    let stored = messages.ready + messages.unacked + left.retained.messages;
    made.put_all(
        "broker",
        &[
            ("clients/connected", *connections),
            ("clients/active", *connections),
            ("clients/disconnected", away),
            ("clients/inactive", away),
            ("clients/total", connections + away),
            ("subscriptions/count", *filters),
            ("retained messages/count", left.retained.messages),
            ("messages/stored", stored),
            ("store/messages/count", stored),
        ],
    );
    made
}

/// The figures of one virtual host.
pub(super) fn of_vhost(host: &Host, up: Duration, presence: &Presence) -> Values {
    of_vhosts(host, up, presence).0.into()
}

/// The figures of the broker. `most` connections were open at a time.
pub(super) fn of_broker(
    host: &Host,
    up: Duration,
    presence: &Presence,
    (counts, loads, most): (&Counts, &Loads, u64),
) -> Values {
    let mut made = of_vhosts(host, up, presence);
    let Counts { received, received_bytes, sent, dropped, moved: (bytes_in, bytes_out), .. } = *counts;
    made.put_all(
        "broker",
        &[
            ("clients/maximum", most),
            ("messages/received", received),
            ("messages/sent", sent),
            ("publish/messages/received", received),
            ("publish/messages/sent", sent),
            ("publish/messages/dropped", dropped),
            ("publish/bytes/received", received_bytes),
            ("bytes/received", bytes_in),
            ("bytes/sent", bytes_out),
        ],
    );
    for (name, averages) in LOADS.iter().zip(loads.averages) {
        for (span, average) in SPANS.iter().zip(averages) {
            made.put(&format!("broker/load/{name}/{span}min"), format!("{average:.2}"));
        }
    }
    made.put("brokers", &host.node);
    let node = format!("brokers/{}", host.node);
    made.put(&format!("{node}/version"), &host.version);
    made.put(&format!("{node}/sysdescr"), &host.product);
    made.put_all(
        &node,
        &[
            ("stats/connections/count", presence.connections),
            ("stats/connections/max", most),
            ("stats/subscriptions/count", presence.filters),
            ("stats/retained/count", presence.left.retained.messages),
            ("metrics/bytes/received", bytes_in),
            ("metrics/bytes/sent", bytes_out),
            ("metrics/messages/received", received),
            ("metrics/messages/sent", sent),
            ("metrics/messages/dropped", dropped),
        ],
    );
    made.0.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(received: u64) -> Counts {
        Counts { received, ..Counts::default() }
    }

    #[test]
    fn averages_come_to_the_rate_and_forget_it() {
        let mut loads = Loads::new(&received(1000));
        loads.sample(&received(5000), Duration::ZERO);
        assert_eq!(loads.averages[0], [0.0; 3], "no time has passed");
        for step in 1..=180 {
            loads.sample(&received(1000 + 100 * step), Duration::from_secs(10));
        }
        // 600 a minute, for half an hour.
        let [one, five, fifteen] = loads.averages[0];
        assert!((599.9..=600.0).contains(&one) && (598.0..599.9).contains(&five), "{one} {five}");
        assert!((515.0..525.0).contains(&fifteen), "1 - e^-2 of it: {fifteen}");
        for _ in 0..30 {
            loads.sample(&received(19_000), Duration::from_secs(10));
        }
        let [one, five, fifteen] = loads.averages[0];
        assert!(one < 5.0 && (215.0..225.0).contains(&five) && fifteen > 360.0, "{one} {five} {fifteen}");
    }
}
