//! Conversations in the protocol of lines, as data: who speaks, what it says, and what it hears.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::{Protocol, ReadState, Recognition};

use super::Lines;
use crate::broker::{Setup, TestBroker};
use crate::driver::Driver;
use crate::sim_disk::SimDisk;

/// A step: the peer, its lines with `;` between them, and the lines that it hears. The peer `*`
/// flushes the journal. A peer that is new logs in as `guest` first, or with its own first line.
type Step = (&'static str, &'static str, &'static [&'static str]);

struct Talk {
    test: TestBroker,
    peers: BTreeMap<&'static str, Driver>,
}

impl Talk {
    fn new(setup: Setup) -> Self {
        Self { test: TestBroker::open(setup), peers: BTreeMap::new() }
    }

    fn stepped() -> Self {
        Self::new(Setup::stepped(&SimDisk::new(1, 64 << 20), 16 << 20))
    }

    fn check(&mut self, steps: &[Step]) {
        for (at, (who, says, hears)) in steps.iter().enumerate() {
            if *who == "*" {
                self.test.flush();
                continue;
            }
            let peer = self.peers.entry(who).or_insert_with(|| {
                let mut peer = Driver::accept(&Lines::new(self.test.broker.clone()), self.test.now());
                if !says.starts_with("login") && !says.starts_with('!') {
                    peer.say(b"login guest guest\n");
                    assert_eq!(hear(&mut peer, 1), ["ok"]);
                }
                peer
            });
            for line in says.trim_start_matches('!').split(';').filter(|line| !line.is_empty()) {
                peer.input.extend_from_slice(format!("{line}\n").as_bytes());
            }
            peer.run();
            assert_eq!(hear(peer, hears.len()), *hears, "step {at}: {who} {says}");
        }
    }
}

/// The lines that have come, once there are `least`.
fn hear(peer: &mut Driver, least: usize) -> Vec<String> {
    peer.run();
    while peer.output.iter().filter(|byte| **byte == b'\n').count() < least {
        peer.wait();
    }
    let heard = String::from_utf8(std::mem::take(&mut peer.output)).unwrap();
    heard.lines().map(str::to_owned).collect()
}

#[test]
fn a_message_goes_from_a_publisher_to_a_consumer() {
    Talk::new(Setup::memory()).check(&[
        ("a", "queue q", &["queue q"]),
        ("b", "consume q c 10", &[]),
        ("a", "publish - q one;publish 1 q two", &["accepted to 1"]),
        ("b", "", &["c 1 one", "c 2 two"]),
        ("b", "settle 1 2 accepted;bye", &["bye"]),
        ("c", "consume q d 1", &[]),
    ]);
}

#[test]
fn each_numbered_publish_has_exactly_one_answer_in_order() {
    let mut talk = Talk::stepped();
    talk.test.user("reader", ".*", "^$", ".*");
    talk.check(&[
        ("a", "queue q", &[]),
        ("*", "", &[]),
        ("a", "", &["queue q"]),
        ("a", "publish 1 q x;publish 2 nowhere y;publish 7 q z", &[]),
        ("*", "", &[]),
        ("a", "", &["accepted to 1", "unroutable 2", "accepted to 7"]),
        ("r", "login reader reader", &["ok"]),
        ("r", "publish 1 q x;publish - q y", &["refused 1 AccessRefused", "error AccessRefused"]),
    ]);
}

#[test]
fn a_window_bounds_what_is_unsettled_and_what_is_released_comes_again_in_its_place() {
    Talk::new(Setup::memory()).check(&[
        ("a", "queue q", &["queue q"]),
        ("a", "publish - q 1;publish - q 2;publish - q 3", &[]),
        ("b", "consume q c 2", &["c 1 1", "c 2 2"]),
        ("b", "settle 1 1 released", &["c 3 1 again"]),
        ("b", "settle 2 3 accepted", &["c 4 3"]),
        ("b", "settle 4 4 rejected;cancel c", &["cancelled c"]),
        ("b", "consume q e 1", &[]),
    ]);
}

#[test]
fn granted_credit_counts_down_and_is_drained() {
    Talk::new(Setup::memory()).check(&[
        ("a", "queue q", &["queue q"]),
        ("a", "publish - q 1;publish - q 2;publish - q 3", &[]),
        ("b", "consume q c -;grant c 1", &["c 1 1"]),
        ("b", "settle 1 1 accepted;grant c 1", &["c 2 2"]),
        ("b", "drain c 5", &["c 3 3", "drained c 4"]),
        ("a", "publish - q 4", &[]),
        ("b", "drain c 0", &["drained c 0"]),
        ("b", "grant c 1", &["c 4 4"]),
    ]);
}

#[test]
fn a_reader_reads_on_where_its_credit_ended_and_takes_nothing() {
    Talk::new(Setup::memory()).check(&[
        ("a", "queue q", &["queue q"]),
        ("a", "publish - q 1;publish - q 2;publish - q 3", &[]),
        ("b", "browse q r 0", &[]),
        ("b", "grant r 2", &["r 1 1", "r 2 2"]),
        ("c", "consume q c 1", &["c 1 1"]),
        ("b", "grant r 2", &["r 3 3", "cancelled r"]),
        ("c", "settle 1 1 accepted", &["c 2 2"]),
    ]);
}

#[test]
fn a_durable_subscription_keeps_what_comes_while_its_client_is_away() {
    Talk::new(Setup::memory()).check(&[
        ("a", "subscribe me news a.* c 10", &["subscribed c"]),
        ("p", "publish 1 topic/a.b one", &["accepted to 1"]),
        ("a", "", &["c 1 one"]),
        ("b", "subscribe me news a.* c 10", &["error AccessRefused"]),
        ("a", "settle 1 1 accepted;bye", &["bye"]),
        ("p", "publish 2 topic/a.c two;publish 3 topic/b.c three", &["accepted to 2", "unroutable 3"]),
        // What waits is delivered in the turn that subscribes, and the answer waits for its record.
        ("d", "subscribe me news a.* e 10", &["e 1 two", "subscribed e"]),
        ("d", "settle 1 1 accepted;cancel e", &["cancelled e"]),
        ("d", "unsubscribe me news", &["unsubscribed news"]),
        ("p", "publish 4 topic/a.b four", &["unroutable 4"]),
        ("d", "unsubscribe me news", &["unsubscribed news"]),
    ]);
}

#[test]
fn a_shared_subscription_gives_each_message_to_one_of_its_consumers() {
    Talk::new(Setup::memory()).check(&[
        ("a", "subscribe - work t c 1", &["subscribed c"]),
        ("b", "subscribe - work t d 1", &["subscribed d"]),
        ("p", "publish - topic/t 1;publish - topic/t 2;publish - topic/t 3", &[]),
        ("a", "", &["c 1 1"]),
        ("b", "", &["d 1 2"]),
        ("a", "settle 1 1 accepted", &["c 2 3"]),
        ("a", "nonsense", &["error no request nonsense"]),
        ("b", "settle 1 1 accepted", &["d 2 3 again"]),
    ]);
}

#[test]
fn what_a_closed_connection_held_goes_to_others() {
    Talk::new(Setup::memory()).check(&[
        ("a", "queue q", &["queue q"]),
        ("b", "consume q c 1", &[]),
        ("a", "publish - q x", &[]),
        ("b", "", &["c 1 x"]),
        ("d", "consume q e 1", &[]),
        ("b", "nonsense", &["error no request nonsense"]),
        ("d", "", &["e 1 x again"]),
    ]);
}

#[test]
fn a_fence_waits_for_the_settlements_before_it() {
    let mut talk = Talk::stepped();
    talk.check(&[
        ("a", "queue q", &[]),
        ("*", "", &[]),
        ("a", "consume q c 1;publish - q x", &["queue q", "c 1 x"]),
        ("a", "settle 1 1 accepted;bye", &[]),
        ("*", "", &[]),
        ("a", "", &["bye"]),
    ]);
    assert_eq!(talk.peers["a"].state(), ReadState::Answered);
}

#[test]
fn strangers_get_no_further_than_the_log_in() {
    let mut talk = Talk::new(Setup::memory());
    talk.check(&[
        ("a", "!queue q", &["error log in first"]),
        ("b", "login guest wrong", &["error refused"]),
        ("c", "!", &[]),
    ]);
    talk.peers.get_mut("c").unwrap().pass(Duration::from_secs(11));
    talk.check(&[("c", "", &["error late"])]);
}

#[test]
fn its_first_bytes_tell() {
    let test = TestBroker::open(Setup::memory());
    let lines = Lines::new(test.broker.clone());
    for (first, expected) in [
        ("", Recognition::Incomplete),
        ("log", Recognition::Incomplete),
        ("login a", Recognition::Yes),
        ("AMQP", Recognition::No),
    ] {
        assert_eq!(lines.recognise(first.as_bytes()), expected, "{first}");
    }
}

/// A protocol needs nothing else to note something on what it gives back.
#[test]
fn what_a_consumer_noted_comes_with_the_next_delivery() {
    Talk::new(Setup::memory()).check(&[
        ("a", "queue q;consume q c 1;publish - q one", &["queue q", "c 1 one"]),
        ("a", "settle 1 1 modified why=slow by=a", &["c 2 one again why=slow by=a"]),
        ("a", "settle 2 2 failed why=slower", &["c 3 one again by=a why=slower"]),
        ("a", "settle 3 3 released", &["c 4 one again by=a why=slower"]),
        ("a", "settle 4 4 accepted;publish - q two", &["c 5 two"]),
    ]);
}

#[test]
fn a_subscriber_gets_the_retained_message_of_each_topic_before_live_ones() {
    Talk::new(Setup::memory()).check(&[
        ("p", "publish - retained/a.b old;publish - retained/a.b one;publish 1 retained/c two", &["accepted to 1"]),
        ("s", "subscribe me n # t 10 retained", &["t 1 one retained", "t 2 two retained", "subscribed t"]),
        ("p", "publish - retained/c three;publish - topic/c four", &[]),
        ("s", "", &["t 3 three", "t 4 four"]),
        ("u", "subscribe you n a.* t 10", &["subscribed t"]),
        ("u", "subscribe you m a.* v 10 all", &["error no subscription all"]),
    ]);
}

#[test]
fn a_listener_without_a_queue_gets_what_it_asked_for_and_nothing_is_kept_for_it() {
    let mut talk = Talk::new(Setup::memory());
    talk.check(&[
        ("p", "publish - retained/a.b old", &[]),
        ("s", "listen a.* t", &["t 1 old retained"]),
        (
            "p",
            "publish 1 topic/a.b one;publish 2 topic/a.c two;publish 3 topic/b three",
            &["accepted to 2", "unroutable 3"],
        ),
        ("s", "", &["t 2 one", "t 3 two"]),
        ("s", "cancel t", &["cancelled t"]),
        ("p", "publish 4 topic/a.b four", &["unroutable 4"]),
    ]);
    assert_eq!(talk.test.broker.queues().len(), 0);
}
