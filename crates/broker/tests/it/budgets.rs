//! The cost of one message and of one turn: steps of routing, keys of copies, entries. A message
//! beyond it is refused, a turn ends there, and no queue gets a message twice.

use broker::{
    BindingSpec, Consume, Counter, Delivery, Error, ExchangeSpec, Flow, Outcome, Overview, Publish, SessionId,
    Settling, Table, Tags, Value,
};
use testkit::broker::{Setup, TestBroker};
use testkit::peer::{Peer, Seen, error_text};
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::{binding, durable_with, message};

const TOO_MUCH: &str = "406 routing this message takes more than 250000 steps";

/// A broker over memory with so many queues, which an exchange reaches by a key.
fn with_queues(setup: Setup, count: usize, exchange: &str, key: &str) -> (TestBroker, Peer) {
    let broker = TestBroker::open(setup);
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    for number in 0..count {
        let name = format!("q{number}");
        peer.client.declare_queue(&crate::durable(&name), broker.now()).expect("it may declare");
        peer.client.bind(&binding(exchange, key, &name), broker.now()).expect("it may bind");
    }
    peer.session(1);
    peer.client.end_turn(broker.now());
    (broker, peer)
}

fn publish(peer: &mut Peer, exchange: &str, key: &str, headers: &str) -> String {
    let session = peer.session(1);
    let copies = headers.contains("CC=");
    let publish = Publish { properties: headers.as_bytes(), copies, ..message(exchange, key, b"x") };
    peer.client.publish(session, publish).map_or_else(|error: Error| error_text(&error), |()| String::new())
}

fn keys(count: usize) -> String {
    format!("CC={}", (0..count).map(|number| format!("k{number}")).collect::<Vec<_>>().join(","))
}

/// Dead letters that went nowhere.
fn dropped(overview: &Overview) -> u64 {
    overview.totals.deaths.dead_letters_dropped.iter().map(Counter::get).sum()
}

#[test]
fn keys_of_copies_find_each_queue_once_and_are_refused_beyond_what_a_message_may_cost() {
    for exchange in ["amq.topic", "amq.direct"] {
        let (broker, mut peer) = with_queues(Setup::memory(), 2000, exchange, "k0");
        for queue in 0..2000 {
            let spec = binding(exchange, "k1", &format!("q{queue}"));
            peer.client.bind(&spec, broker.now()).expect("it may bind");
        }
        assert_eq!(publish(&mut peer, exchange, "k1", &keys(255)), "");
        peer.turn(&broker);
        assert_eq!(broker.broker.overview().messages.ready, 2000);
        for queue in 0..2000 {
            for key in 2..200 {
                let spec = binding(exchange, &format!("k{key}"), &format!("q{queue}"));
                peer.client.bind(&spec, broker.now()).expect("it may bind");
            }
        }
        let said = publish(&mut peer, exchange, "k1", &keys(255));
        assert!(said.starts_with(TOO_MUCH) && said.contains(exchange), "{said}");
        assert_eq!(publish(&mut peer, exchange, "k1", ""), "", "one key of it costs little");
        peer.turn(&broker);
        assert_eq!(broker.broker.overview().messages.ready, 4000);
    }
}

#[test]
fn more_keys_than_the_limit_are_refused_however_little_they_cost() {
    let (broker, mut peer) = with_queues(Setup::memory(), 1, "amq.direct", "k0");
    let said = "406 CC and BCC name more than 255 keys (limits.cc_keys), the most that one message may have";
    assert_eq!(publish(&mut peer, "amq.direct", "k", &keys(256)), said);
    assert_eq!(publish(&mut peer, "amq.direct", "k", &format!("{}\nB{}", keys(128), keys(128))), said);
    assert_eq!(publish(&mut peer, "amq.direct", "k", &format!("{}\nB{}", keys(128), keys(127))), "");
    peer.turn(&broker);
    assert_eq!(broker.broker.overview().messages.ready, 1);
}

#[test]
fn headers_and_arguments_are_compared_within_what_a_message_may_cost() {
    let (broker, mut peer) = with_queues(Setup::memory(), 1, "amq.fanout", "");
    let fields = |from: usize, count: usize| (from..from + count).map(|number| (format!("n{number}"), Value::I64(1)));
    let bind = |peer: &mut Peer, number: usize, count: usize| {
        let arguments = Table(fields(0, count).chain([(format!("x-{number}"), Value::Null)]).collect());
        let spec = BindingSpec { arguments, ..binding("amq.headers", "", "q0") };
        peer.client.bind(&spec, broker.now()).expect("it may bind");
    };
    (0..10).for_each(|number| bind(&mut peer, number, 800));
    let headers: Vec<_> = fields(0, 800).map(|(name, _)| format!("{name}=1")).collect();
    assert_eq!(publish(&mut peer, "amq.headers", "", &headers.join("\n")), "");
    peer.turn(&broker);
    assert_eq!(broker.broker.overview().messages.ready, 1);
    // None of them matches before its last comparison.
    peer.client.purge_queue("q0", broker.now()).expect("it may purge");
    (10..400).for_each(|number| bind(&mut peer, number, 800));
    let mut others = headers;
    others[799] = "n799=2".to_owned();
    let said = publish(&mut peer, "amq.headers", "", &others.join("\n"));
    assert!(said.starts_with(TOO_MUCH) && said.contains("amq.headers"), "{said}");
}

#[test]
fn patterns_are_walked_within_what_a_message_may_cost() {
    let (broker, mut peer) = with_queues(Setup::memory(), 1, "amq.topic", "none");
    for number in 0..1024 {
        let word = |place: usize| if number >> place & 1 == 0 { "a" } else { "*" };
        let begin: Vec<_> = (0..10).map(word).collect();
        let spec = binding("amq.topic", &format!("{}.#.b{number}", begin.join(".")), "q0");
        peer.client.bind(&spec, broker.now()).expect("it may bind");
    }
    let long = |last: &str| format!("{}.{last}", vec!["a"; 126].join("."));
    assert_eq!(publish(&mut peer, "amq.topic", &long("b7"), ""), "");
    let said = publish(&mut peer, "amq.topic", &long("b7"), &format!("CC={},{}", long("b8"), long("b9")));
    assert!(said.starts_with(TOO_MUCH) && said.contains("amq.topic"), "{said}");
    peer.turn(&broker);
    assert_eq!(broker.broker.overview().messages.ready, 1);
}

#[test]
fn dead_letters_that_would_cost_too_much_go_nowhere_and_are_counted() {
    let (broker, mut peer) = with_queues(Setup::memory(), 1, "amq.direct", "k");
    for key in 0..255 {
        for queue in 0..1001 {
            if key == 0 {
                let name = format!("d{queue}");
                peer.client.declare_queue(&crate::durable(&name), broker.now()).expect("it may declare");
            }
            let spec = binding("amq.topic", &format!("k{key}"), &format!("d{queue}"));
            peer.client.bind(&spec, broker.now()).expect("it may bind");
        }
    }
    let to_topic = ("x-dead-letter-exchange", Value::Text("amq.topic".into()));
    let dead = durable_with("dying", &[to_topic, ("x-message-ttl", Value::I64(0))]);
    peer.client.declare_queue(&dead, broker.now()).expect("it may declare");
    assert_eq!(publish(&mut peer, "", "dying", &keys(255)), "");
    peer.turn(&broker);
    let overview = broker.broker.overview();
    assert_eq!((overview.messages.ready, dropped(&overview)), (0, 1));
    assert_eq!(broker.broker.losses().last().map(|loss| loss.reason), Some("dead_letter_out_of_steps"));
}

fn purge(broker: &TestBroker, peer: &mut Peer, queue: &str) -> u64 {
    peer.client.purge_queue(queue, broker.now()).expect("it may purge").0
}

/// A queue whose messages die at once and go to each of 2 000 queues.
fn dying_into_many(mut setup: Setup, memory_limit: u64) -> (TestBroker, Peer) {
    setup.settings.memory_limit = memory_limit;
    let (broker, mut peer) = with_queues(setup, 2000, "amq.fanout", "");
    let to_all = ("x-dead-letter-exchange", Value::Text("amq.fanout".into()));
    let dead = durable_with("dying", &[to_all, ("x-message-ttl", Value::I64(0))]);
    peer.client.declare_queue(&dead, broker.now()).expect("it may declare");
    (broker, peer)
}

/// One turn's thousand publishes are a thousand entries; their dead letters are two million.
#[test]
fn dead_letters_of_a_turn_are_moved_in_runs_and_stop_where_memory_does() {
    const LIMIT: u64 = 4 << 20;
    let (broker, mut peer) = dying_into_many(Setup::memory(), LIMIT);
    let before = broker.broker.overview().memory.used;
    (0..1000).for_each(|_| assert_eq!(publish(&mut peer, "", "dying", ""), ""));
    peer.client.end_turn(broker.now());
    let mut ready = broker.broker.overview().messages.ready;
    assert!(ready <= 12_000, "{ready} in the turn");
    for _ in 0..50 {
        broker.housekeep();
        let overview = broker.broker.overview();
        assert!(overview.messages.ready <= ready + 12_000, "{ready}, then {}", overview.messages.ready);
        ready = overview.messages.ready;
    }
    let overview = broker.broker.overview();
    let run = 10_000 * (overview.memory.used - before) / overview.messages.ready;
    // One run has exceeded it, and there is one in each second.
    assert!(overview.alarms.memory && overview.memory.used <= LIMIT + 3 * run, "{} bytes", overview.memory.used);
    // When there is room again they go on, each into every queue.
    let mut moved = 0;
    for _ in 0..2000 {
        moved += (0..2000).map(|queue| purge(&broker, &mut peer, &format!("q{queue}"))).sum::<u64>();
        broker.housekeep();
        if moved >= 1000 * 2000 {
            break;
        }
    }
    assert_eq!(moved, 1000 * 2000);
    assert_eq!(dropped(&broker.broker.overview()), 0);
}

/// Nothing else makes room: the dead letters are all that fills the memory.
#[test]
fn dead_letters_that_alone_fill_the_memory_move_on_all_the_same() {
    let mut setup = Setup::memory();
    setup.settings.memory_limit = 4 << 20;
    let (broker, mut peer) = with_queues(setup, 2, "amq.fanout", "");
    let to_all = ("x-dead-letter-exchange", Value::Text("amq.fanout".into()));
    let spec = durable_with("dying", &[to_all, ("x-message-ttl", Value::I64(1000))]);
    peer.client.declare_queue(&spec, broker.now()).expect("it may declare");
    let session = peer.session(1);
    let body = vec![b'x'; 1 << 20];
    for _ in 0..5 {
        let publish = Publish { persistent: false, ..message("", "dying", &body) };
        peer.client.publish(session, publish).expect("it may publish");
    }
    peer.client.end_turn(broker.now());
    broker.broker.set_memory_limit(1 << 20);
    for _ in 0..10 {
        broker.setup.clock.advance(1000);
        broker.housekeep();
    }
    assert_eq!(broker.broker.overview().messages.ready, 10);
}

/// Five queues whose dead letters cannot move would each spend a part of a run. A run that has
/// moved nothing is followed by a rest.
#[test]
fn what_cannot_move_while_memory_is_full_lets_the_housekeeping_rest() {
    let (broker, mut peer) = dying_into_many(Setup::memory(), 1 << 30);
    for number in 0..6 {
        let to_all = ("x-dead-letter-exchange", Value::Text("amq.fanout".into()));
        let spec = durable_with(&format!("dying{number}"), &[to_all, ("x-message-ttl", Value::I64(1000))]);
        peer.client.declare_queue(&spec, broker.now()).expect("it may declare");
        assert_eq!(publish(&mut peer, "", &spec.name, ""), "");
    }
    peer.client.end_turn(broker.now());
    broker.broker.set_memory_limit(0);
    broker.setup.clock.advance(1000);
    // This fails when it never comes to rest.
    broker.flush();
    assert!(broker.broker.overview().messages.ready <= 12_000);
}

#[test]
fn dead_letters_that_wait_for_their_run_keep_their_order_and_are_overtaken_by_none() {
    let (broker, mut peer) = dying_into_many(Setup::memory(), 1 << 30);
    let session = peer.session(1);
    for number in 0..30 {
        let body = [number];
        peer.client.publish(session, message("", "dying", &body)).expect("it may publish");
        if number % 10 == 9 {
            peer.client.end_turn(broker.now());
        }
    }
    (0..10).for_each(|_| broker.housekeep());
    for queue in ["q0", "q1999"] {
        let mut bodies = Vec::new();
        let mut look = |delivery: &Delivery<'_>, _: u64| bodies.extend_from_slice(delivery.message.body());
        for _ in 0..31 {
            peer.client.get(session, queue, Settling::Auto, broker.now(), &mut look).expect("it may fetch");
        }
        assert_eq!(bodies, (0..30).collect::<Vec<u8>>());
    }
}

/// Two hundred queues of one fanout, each the first of a chain of ten: each copy has enough moves
/// for its chain.
#[test]
fn a_wide_first_hop_leaves_each_copy_a_chain_of_moves() {
    let (broker, mut peer) = with_queues(Setup::memory(), 1, "amq.direct", "end");
    let dies_into = |exchange: &str, key: &str| {
        [
            ("x-dead-letter-exchange", Value::Text(exchange.into())),
            ("x-dead-letter-routing-key", Value::Text(key.into())),
            ("x-message-ttl", Value::I64(0)),
        ]
    };
    for number in 0..2000 {
        let mut next = if number % 10 == 9 { "end".to_owned() } else { format!("c{}", number + 1) };
        let exchange = if number % 10 == 9 { "amq.direct" } else { "" };
        let spec = durable_with(&format!("c{number}"), &dies_into(exchange, &std::mem::take(&mut next)));
        peer.client.declare_queue(&spec, broker.now()).expect("it may declare");
        if number % 10 == 0 {
            peer.client.bind(&binding("amq.fanout", "", &spec.name), broker.now()).expect("it may bind");
        }
    }
    peer.client
        .declare_queue(&durable_with("first", &dies_into("amq.fanout", "")), broker.now())
        .expect("it may declare");
    assert_eq!(publish(&mut peer, "", "first", ""), "");
    peer.turn(&broker);
    assert_eq!((dropped(&broker.broker.overview()), purge(&broker, &mut peer, "q0")), (0, 200));
}

/// With a session each, four hundred messages that were refused for their steps cost their turn
/// nothing.
#[test]
fn a_refused_message_costs_its_turn_what_it_may_have_cost_the_broker() {
    let (broker, mut peer) = with_queues(Setup::memory(), 1, "amq.direct", "k");
    assert_eq!(publish(&mut peer, "amq.direct", "nobody", ""), "");
    assert!(!peer.client.is_turn_full());
    assert_eq!(publish(&mut peer, "none", "k", ""), "404 no exchange 'none' in vhost '/'");
    assert!(peer.client.is_turn_full());
    peer.client.end_turn(broker.now());
    assert!(!peer.client.is_turn_full());
}

/// A purge of a long queue once held up its thread to the end.
#[test]
fn a_long_purge_takes_several_turns_and_takes_nothing_that_comes_between() {
    const MANY: u64 = 50_000;
    let broker = TestBroker::open(Setup::memory());
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    let session = peer.session(1);
    peer.client.declare_queue(&crate::durable("q"), broker.now()).expect("it may declare");
    let publish = |peer: &mut Peer, count| {
        for _ in 0..count {
            peer.client.publish(session, message("", "q", b"x")).expect("it is taken");
            if peer.client.is_turn_full() {
                peer.client.end_turn(broker.now());
            }
        }
        peer.client.end_turn(broker.now());
    };
    publish(&mut peer, MANY);
    let mut other = Peer::attach(&broker, "guest").expect("it may attach");
    let of_other = other.session(1);
    let mut purging = peer.client.begin_purge("q", broker.now()).expect("it may purge");
    let mut turns = 0;
    let (count, _) = loop {
        turns += 1;
        let done = peer.client.go_on_purging(&mut purging);
        assert!(peer.client.is_turn_full() || done.is_some(), "it goes on to the end of its turn");
        if let Some(done) = done {
            break done;
        }
        other.client.publish(of_other, message("", "q", b"late")).expect("it is taken");
        other.client.end_turn(broker.now());
        peer.client.end_turn(broker.now());
    };
    assert!((4..=6).contains(&turns), "{turns} turns");
    assert_eq!(count, MANY);
    let left = peer.client.check_queue("q", broker.now()).expect("it is there").ready;
    assert_eq!(left, turns - 1, "what came between stays");
}

/// Thousands of purges, each of as many messages, once were one turn: of all that a turn does only
/// what is published had a cost.
#[test]
fn what_takes_many_entries_at_once_costs_its_turn_as_many() {
    const MANY: u64 = 10_000;
    let broker = TestBroker::open(Setup::memory());
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    let session = peer.session(1);
    for name in ["purged", "deleted", "acknowledged", "recovered"] {
        peer.client.declare_queue(&crate::durable(name), broker.now()).expect("it may declare");
        for _ in 0..MANY {
            peer.client.publish(session, message("", name, b"x")).expect("it is taken");
        }
        peer.client.end_turn(broker.now());
        peer.turn(&broker);
        assert!(!peer.client.is_turn_full(), "{name}");
        match name {
            "purged" => assert_eq!(peer.client.purge_queue(name, broker.now()).expect("it may purge").0, MANY),
            "deleted" => {
                assert_eq!(
                    peer.client.delete_queue(name, broker::DeleteIf::ALWAYS, broker.now()).expect("it may delete").0,
                    MANY
                );
            }
            taken => {
                peer.consume(&broker, 0, Consume { source: taken.into(), ..Consume::default() });
                let last = peer.drain(&broker).into_iter().filter_map(|seen| match seen {
                    Seen::Delivery(delivery) => Some(delivery.tag),
                    _ => None,
                });
                let last = last.max().expect("there are deliveries");
                match taken {
                    "acknowledged" => {
                        peer.client.settle(session, Tags::UpTo(last), &Outcome::Accepted).expect("they are unsettled");
                    }
                    _ => drop(peer.client.recover(session, broker.now())),
                }
            }
        }
        assert!(peer.client.is_turn_full(), "{name}");
        peer.client.end_turn(broker.now());
    }
}

/// While memory is full, dead letters to one queue go on: they take no more memory than they free.
#[test]
fn a_full_memory_holds_no_dead_letter_back_that_goes_to_one_queue() {
    let (broker, mut peer) = with_queues(Setup::memory(), 1, "amq.direct", "dead");
    let arguments = [
        ("x-dead-letter-exchange", Value::Text("amq.direct".into())),
        ("x-dead-letter-routing-key", Value::Text("dead".into())),
        ("x-message-ttl", Value::I64(1000)),
    ];
    peer.client.declare_queue(&durable_with("dying", &arguments), broker.now()).expect("it may declare");
    (0..100).for_each(|_| assert_eq!(publish(&mut peer, "", "dying", ""), ""));
    peer.client.end_turn(broker.now());
    broker.broker.set_memory_limit(0);
    broker.setup.clock.advance(2000);
    broker.housekeep();
    assert_eq!(purge(&broker, &mut peer, "q0"), 100);
}

/// Publishes one byte to a fan-out again and again; returns the turns that it took.
fn flood(broker: &TestBroker, peer: &mut Peer, publishes: usize) -> usize {
    let mut turns = 0;
    for _ in 0..publishes {
        assert_eq!(publish(peer, "amq.fanout", "", ""), "");
        if peer.client.is_turn_full() {
            peer.client.end_turn(broker.now());
            assert!(!peer.client.is_turn_full(), "the next turn begins with nothing");
            turns += 1;
        }
    }
    peer.client.end_turn(broker.now());
    turns
}

#[test]
fn a_turn_ends_at_ten_thousand_entries_however_few_messages_they_are_of() {
    let (broker, mut peer) = with_queues(Setup::memory(), 2000, "amq.fanout", "");
    assert_eq!(flood(&broker, &mut peer, 53), 10, "five messages for each");
    peer.turn(&broker);
    assert_eq!(broker.broker.overview().messages.ready, 53 * 2000);
}

#[test]
fn changes_of_the_tables_end_a_turn_however_small_they_are() {
    let (broker, mut peer) = with_queues(Setup::memory(), 1, "amq.fanout", "");
    let mut changes = 0;
    while !peer.client.is_turn_full() {
        let spec = binding("amq.direct", "again", "q0");
        peer.client.bind(&spec, broker.now()).expect("it may bind");
        peer.client.unbind(&spec, broker.now()).expect("it may unbind");
        changes += 2;
    }
    assert_eq!(changes, 626, "16 entries each");
}

/// Ten thousand fetches, each with a visit of its queue, were once one turn.
#[test]
fn fetches_end_a_turn_whether_or_not_there_is_a_message() {
    let (broker, mut peer) = with_queues(Setup::memory(), 1, "amq.fanout", "");
    let session = peer.session(1);
    (0..300).for_each(|_| assert_eq!(publish(&mut peer, "", "q0", ""), ""));
    peer.turn(&broker);
    peer.client.end_turn(broker.now());
    let (mut fetches, mut messages) = (0, 0);
    while !peer.client.is_turn_full() {
        peer.client.get(session, "q0", Settling::Auto, broker.now(), &mut |_, _| messages += 1).expect("it may fetch");
        fetches += 1;
    }
    assert_eq!((fetches, messages), (625, 300), "16 entries each");
}

#[test]
fn a_binding_that_a_queue_finds_among_many_costs_more_to_remove() {
    let (broker, mut peer) = with_queues(Setup::memory(), 1, "amq.fanout", "");
    let spec = |key: usize| binding("amq.direct", &format!("k{key}"), "q0");
    (1..1600).for_each(|key| _ = peer.client.bind(&spec(key), broker.now()).expect("it may bind"));
    peer.client.end_turn(broker.now());
    let mut pairs = 0;
    while !peer.client.is_turn_full() {
        peer.client.unbind(&spec(1), broker.now()).expect("it may unbind");
        peer.client.bind(&spec(1), broker.now()).expect("it may bind");
        pairs += 1;
    }
    assert_eq!(pairs, 76, "16 each, and 100 to look among 1600");
}

/// The queue once looked through all its bindings for each that the exchange had.
#[test]
fn an_exchange_takes_its_bindings_with_it_and_no_others() {
    let (broker, mut peer) = with_queues(Setup::memory(), 2, "amq.fanout", "");
    let exchange = ExchangeSpec { name: "x".into(), kind: "direct".into(), durable: true, ..ExchangeSpec::default() };
    peer.client.declare_exchange(&exchange, broker.now()).expect("it may declare");
    for (queue, key) in [("q0", "a"), ("q1", "a"), ("q0", "b"), ("q1", "b")] {
        for exchange in ["x", "amq.direct"] {
            peer.client.bind(&binding(exchange, key, queue), broker.now()).expect("it may bind");
        }
    }
    peer.client.end_turn(broker.now());
    peer.client.delete_exchange("x", broker::DeleteIf::ALWAYS, broker.now()).expect("it may delete");
    peer.client.declare_exchange(&exchange, broker.now()).expect("it may declare");
    for (exchange, key, ready) in [("x", "a", 0), ("x", "b", 0), ("amq.direct", "a", 2), ("amq.direct", "b", 4)] {
        assert_eq!(publish(&mut peer, exchange, key, ""), "");
        peer.turn(&broker);
        assert_eq!(broker.broker.overview().messages.ready, ready, "{exchange} {key}");
    }
}

#[test]
fn a_flood_of_copies_stops_where_memory_does() {
    const LIMIT: u64 = 4 << 20;
    let mut setup = Setup::memory();
    setup.settings.memory_limit = LIMIT;
    let (broker, mut peer) = with_queues(setup, 2000, "amq.fanout", "");
    let before = broker.broker.overview().memory.used;
    flood(&broker, &mut peer, 1000);
    let overview = broker.broker.overview();
    assert!(overview.alarms.memory);
    // The entries of one turn are not foreseen, and after it the alarm lets nothing in.
    let turn = 10_000 * (overview.memory.used - before) / overview.messages.ready;
    assert!(overview.memory.used <= LIMIT + 2 * turn, "{} bytes, {turn} in a turn", overview.memory.used);
    assert!(overview.messages.ready < 1000 * 2000);
    // When there is room again the parked ones come, each to every queue.
    let mut looks = 0;
    while broker.broker.overview().alarms.memory || peer.client.parked(peer.sessions[&1]) {
        for queue in 0..2000 {
            peer.client.purge_queue(&format!("q{queue}"), broker.now()).expect("it may purge");
        }
        peer.client.end_turn(broker.now());
        broker.housekeep();
        let mut seen = Vec::new();
        peer.drain_some(&broker, &mut seen);
        assert!(broker.broker.overview().messages.ready <= 12_000, "one look brings a turn at most");
        looks += 1;
        assert!(looks < 1000, "they come");
    }
    assert!(looks > 50, "{looks}");
}

#[test]
fn a_transaction_of_too_many_copies_is_refused_whole() {
    let (broker, mut peer) = with_queues(Setup::memory(), 2000, "amq.fanout", "");
    let session = peer.session(1);
    let transaction = peer.client.begin(session);
    for _ in 0..501 {
        peer.client.publish_in(transaction, session, message("amq.fanout", "", b"x")).expect("it is small");
    }
    let error = peer.client.commit(transaction, broker.now()).expect_err("a million copies and more");
    assert_eq!(
        error_text(&error),
        "406 transaction has more than 1000000 messages, those of each queue counted; commit in smaller pieces"
    );
    peer.turn(&broker);
    assert_eq!(broker.broker.overview().messages.ready, 0);
}

/// Eight queues whose messages die at once, each into all others.
fn circle(setup: Setup) -> (TestBroker, Peer) {
    let broker = TestBroker::open(setup);
    let mut peer = Peer::attach(&broker, "guest").expect("it may attach");
    for number in 0..8 {
        let to_all = ("x-dead-letter-exchange", Value::Text("amq.fanout".into()));
        let spec = durable_with(&format!("q{number}"), &[to_all, ("x-message-ttl", Value::I64(0))]);
        peer.client.declare_queue(&spec, broker.now()).expect("it may declare");
        peer.client.bind(&binding("amq.fanout", "", &spec.name), broker.now()).expect("it may bind");
    }
    peer.session(1);
    (broker, peer)
}

/// Eight queues whose messages die at once, each into all of them. Without a bound one message
/// takes every order of the eight: 109 600 moves.
#[test]
fn dead_letters_do_not_multiply_beyond_their_share() {
    let (broker, mut peer) = circle(Setup::memory());
    assert_eq!(publish(&mut peer, "", "q0", ""), "");
    peer.turn(&broker);
    let overview = broker.broker.overview();
    let moves: u64 = overview.totals.deaths.dead_lettered.iter().map(Counter::get).sum();
    assert!((49..=257).contains(&moves), "{moves} moves");
    assert!(dropped(&overview) > 0 && overview.messages.ready == 0);
    assert!(broker.broker.losses().iter().any(|loss| loss.reason == "dead_letter_out_of_moves"));
}

/// They filled the memory, and while it was full one run in a second moved them on. So the alarm
/// outlasted the attack by up to an hour, and stopped everybody's publishers.
#[test]
fn what_multiplies_ends_before_more_of_it_begins() {
    for (disk, count) in [(None, 5_000), (Some(SimDisk::new(1, 1 << 30)), 1_000)] {
        let mut setup = disk.as_ref().map_or_else(Setup::memory, |disk| Setup::stepped(disk, 256 << 20));
        setup.settings.memory_limit = 1 << 30;
        let (broker, mut peer) = circle(setup);
        let session = peer.session(1);
        for _ in 0..count {
            let publish = Publish { persistent: disk.is_some(), ..message("", "q0", b"x") };
            peer.client.publish(session, publish).expect("it may publish");
        }
        peer.client.end_turn(broker.now());
        let waiting = broker.broker.overview().memory.used;
        broker.broker.set_memory_limit(waiting / 2);
        let mut runs = 0;
        // No time passes.
        while broker.broker.overview().memory.used > 0 {
            broker.housekeep();
            if disk.is_some() {
                broker.flush();
            }
            let used = broker.broker.overview().memory.used;
            runs += 1;
            assert!(used <= waiting && runs < 5000, "{used} bytes of {waiting} after {runs} runs");
        }
        // The messages themselves, and no more than their share.
        let moves: u64 = broker.broker.overview().totals.deaths.dead_lettered.iter().map(Counter::get).sum();
        assert!((count * 49..=count * 257).contains(&moves), "{moves} moves");
    }
}

/// Dead letters that come faster than they go would fill the memory.
#[test]
fn a_publisher_waits_while_the_dead_letters_of_its_queue_do() {
    let (broker, mut peer) = circle(Setup::memory());
    let mut other = Peer::attach(&broker, "guest").expect("it may attach");
    other.client.declare_queue(&crate::durable("other"), broker.now()).expect("it may declare");
    (0..20_000).for_each(|_| assert_eq!(publish(&mut peer, "", "q0", ""), ""));
    peer.client.end_turn(broker.now());
    for (peer, queue, flow) in [(&mut peer, "q0", Flow::Pause), (&mut other, "other", Flow::Run)] {
        assert_eq!(publish(peer, "", queue, ""), "");
        peer.client.end_turn(broker.now());
        assert_eq!(peer.client.flow(), flow, "{queue}");
    }
    let mut runs = 0;
    while peer.client.flow() == Flow::Pause {
        broker.housekeep();
        runs += 1;
        assert!(runs < 5000, "{:?}", broker.broker.overview());
    }
    assert!(runs > 10 && !broker.broker.overview().alarms.memory, "{runs} runs");
}

/// A commit to such queues went on, and so did a publish with another one behind it.
#[test]
fn no_commit_and_no_other_publish_passes_by_the_wait_for_dead_letters() {
    type Act = fn(&mut Peer, SessionId, &TestBroker, &str);
    let acts: [(&str, Act); 2] = [
        ("commit", |peer, session, broker, queue| {
            let transaction = peer.client.begin(session);
            peer.client.publish_in(transaction, session, message("", queue, b"x")).expect("it is small");
            peer.client.commit(transaction, broker.now()).expect("it is taken");
        }),
        ("another publish", |peer, _, broker, queue| {
            assert_eq!(publish(peer, "", queue, ""), "");
            peer.client.flush(broker.now());
            assert_eq!(publish(peer, "", "other", ""), "");
        }),
    ];
    for (what, act) in acts {
        let (broker, mut peer) = circle(Setup::memory());
        let mut other = Peer::attach(&broker, "guest").expect("it may attach");
        other.client.declare_queue(&crate::durable("other"), broker.now()).expect("it may declare");
        (0..20_000).for_each(|_| assert_eq!(publish(&mut peer, "", "q0", ""), ""));
        peer.client.end_turn(broker.now());
        let mut late = Peer::attach(&broker, "guest").expect("it may attach");
        for (peer, queue, flow) in [(&mut late, "q0", Flow::Pause), (&mut other, "other", Flow::Run)] {
            let session = peer.session(1);
            act(peer, session, &broker, queue);
            peer.client.end_turn(broker.now());
            // It is told of its commit, and no dead letters have moved meanwhile.
            peer.drain_some(&broker, &mut Vec::new());
            assert_eq!(peer.client.flow(), flow, "{what} {queue}");
        }
    }
}

/// Work that is retried after a pause in a queue with expiry goes on for ever: a consumer rejects
/// it each time.
#[test]
fn a_loop_with_a_rejection_in_it_has_no_end() {
    let mut script = Script::memory();
    let declared = "a queue work x-dead-letter-exchange= x-dead-letter-routing-key=pause; \
                    queue pause x-message-ttl=0 x-dead-letter-exchange= x-dead-letter-routing-key=work";
    assert_eq!(script.say(declared), "0 0, 0 0");
    assert_eq!(script.say("a publish - work m"), "");
    for round in 1..=12_000 {
        let said = script.say("a get work");
        assert!(said.starts_with(&format!(":{round}=m")), "{said}");
        assert_eq!(script.say(&format!("a reject {round}")), "");
    }
}
