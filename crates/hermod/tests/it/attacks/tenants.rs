//! What an ordinary user can make the broker do with few bytes. Each attack is refused or ends in
//! bounded pieces, and another client goes on meanwhile. Each runs with one thread for all
//! connections, which a long turn would stop, and with three.

use super::*;

/// A server with this many I/O threads, a client that attacks it, and a client that works.
fn house(threads: usize, data: &std::path::Path) -> (Server, Amqp, Canary) {
    let server = Server::start(data, &[&format!("--io-threads={threads}")]);
    let (attacker, canary) = (Amqp::open(server.ports.amqp), Canary::start(&server));
    (server, attacker, canary)
}

/// Declares transient queues, and binds each with these keys.
fn declare(attacker: &mut Amqp, count: usize, exchange: &str, keys: &[&str]) {
    for number in 0..count {
        let queue = &format!("q{number}");
        attacker.send(1, QueueDeclare { queue, nowait: true, ..Default::default() });
        for routing_key in keys {
            attacker.send(1, QueueBind { queue, exchange, routing_key, nowait: true, ..Default::default() });
        }
    }
    attacker.send(1, QueueDeclare { queue: "q0", passive: true, ..Default::default() });
    attacker.expect("QueueDeclareOk");
}

/// The encoded properties of a message with these headers only.
fn headers(fields: &[(String, Value)]) -> Vec<u8> {
    let fields = encode_fields(fields);
    let mut properties = vec![0x20, 0];
    properties.extend(u32::try_from(fields.len()).unwrap().to_be_bytes());
    properties.extend(fields);
    properties
}

fn publish(attacker: &mut Amqp, exchange: &str, key: &str, properties: &[u8], count: usize) {
    let mut bytes = Vec::new();
    for _ in 0..count {
        Method::from(BasicPublish { exchange, routing_key: key, ..Default::default() }).encode(1, &mut bytes);
        frame::encode_header(&mut bytes, 1, 1, properties);
        frame::encode_body(&mut bytes, 1, 131_072, b"x");
    }
    shove(&mut attacker.socket, &bytes);
}

/// Expects a close of the channel with this in its text, and opens the channel again.
fn refused(attacker: &mut Amqp, part: &str) {
    let said = attacker.method();
    assert!(said.starts_with("ChannelClose { reply_code: 406,") && said.contains(part), "{said}");
    attacker.send(1, ChannelCloseOk {});
    attacker.send(1, ChannelOpen::default());
    attacker.expect("ChannelOpenOk");
}

fn copies(keys: impl Iterator<Item = String>) -> Vec<u8> {
    headers(&[("CC".to_owned(), Value::Array(keys.map(|key| Value::Str(key.into_bytes())).collect()))])
}

#[test]
fn one_message_has_no_more_keys_and_finds_no_more_queues_than_it_may() {
    for threads in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let (server, mut attacker, canary) = house(threads, folder.path());
        declare(&mut attacker, 1000, "amq.topic", &["#"]);
        let before = resident(&server);
        publish(&mut attacker, "amq.topic", "", &copies((0..21_000).map(|_| String::new())), 1);
        refused(&mut attacker, "CC and BCC name more than 255 keys (limits.cc_keys)");
        publish(&mut attacker, "amq.topic", "", &copies((0..255).map(|key| format!("k{key}"))), 1);
        refused(&mut attacker, "routing this message takes more than 250000 steps");
        assert!(resident(&server) < before + 20_000, "{} kB, before {before} kB", resident(&server));
        canary.stop();
    }
}

#[test]
fn headers_and_patterns_are_matched_within_bounds() {
    for threads in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let (_server, mut attacker, canary) = house(threads, folder.path());
        attacker.send(1, QueueDeclare { queue: "q0", ..Default::default() });
        attacker.expect("QueueDeclareOk");
        let fields = |count: usize| (0..count).map(|number| (format!("n{number}"), Value::Void));
        for number in 0..200 {
            let own = (format!("x-{number}"), Value::Void);
            let arguments = encode_fields(&fields(1400).chain([own]).collect::<Vec<_>>());
            let arguments = Table::new(&arguments).unwrap();
            let bind =
                QueueBind { queue: "q0", exchange: "amq.headers", nowait: true, arguments, ..Default::default() };
            attacker.send(1, bind);
        }
        let mut others: Vec<_> = fields(10_000).collect();
        // A binding's arguments are compared in the order of their names: the last of these misses.
        others.retain(|(name, _)| name != "n999");
        publish(&mut attacker, "amq.headers", "", &headers(&others), 1);
        refused(&mut attacker, "the last of them at exchange 'amq.headers'");
        for number in 0..1024 {
            let words = (0..10).map(|place| if number >> place & 1 == 0 { "a" } else { "*" });
            let key = format!("{}.#.b{number}", words.collect::<Vec<_>>().join("."));
            let bind =
                QueueBind { queue: "q0", exchange: "amq.topic", routing_key: &key, nowait: true, ..Default::default() };
            attacker.send(1, bind);
        }
        let long = |last: usize| format!("{}.b{last}", ["a"; 120].join("."));
        publish(&mut attacker, "amq.topic", &long(0), &copies((1..200).map(long)), 1);
        refused(&mut attacker, "the last of them at exchange 'amq.topic'");
        canary.stop();
    }
}

#[test]
fn a_flood_of_copies_is_taken_in_turns_and_counted() {
    for threads in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let (server, mut attacker, canary) = house(threads, folder.path());
        declare(&mut attacker, 2000, "amq.fanout", &[""]);
        let (before, counted) = (resident(&server), metric(&server, "hermod_queued_memory_bytes"));
        publish(&mut attacker, "amq.fanout", "", &[0, 0], 500);
        attacker.send(1, QueueDeclare { queue: "q1999", passive: true, ..Default::default() });
        attacker.expect("QueueDeclareOk { queue: \"q1999\", message_count: 500,");
        let grown = (resident(&server) - before) * 1024;
        let counted = metric(&server, "hermod_queued_memory_bytes") - counted;
        assert!(grown < counted + counted / 4 + (16 << 20), "grown by {grown} bytes, {counted} of them counted");
        canary.stop();
    }
}

/// Messages that expire at once: each is dead-lettered to two thousand queues, and through eight
/// queues whose dead letters go to all eight.
#[test]
fn dead_letters_of_a_flood_come_in_pieces_and_do_not_multiply() {
    for threads in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let (server, mut attacker, canary) = house(threads, folder.path());
        declare(&mut attacker, 2000, "amq.fanout", &[""]);
        attacker.send(1, ExchangeDeclare { exchange: "circle", kind: "fanout", nowait: true, ..Default::default() });
        let names = (0..8).map(|number| format!("d{number}")).collect::<Vec<_>>();
        for (queue, exchange) in names.iter().map(|name| (name.as_str(), "circle")).chain([("dying", "amq.fanout")]) {
            let to = ("x-dead-letter-exchange".to_owned(), Value::Str(exchange.into()));
            let arguments = encode_fields(&[to, ("x-message-ttl".to_owned(), Value::I32(0))]);
            let arguments = Table::new(&arguments).unwrap();
            attacker.send(1, QueueDeclare { queue, nowait: true, arguments, ..Default::default() });
            attacker.send(1, QueueBind { queue, exchange: "circle", nowait: true, ..Default::default() });
        }
        attacker.send(1, QueueUnbind { queue: "dying", exchange: "circle", ..Default::default() });
        attacker.expect("QueueUnbindOk");
        let dropped = "hermod_dropped_total{reason=\"dead_letter_out_of_moves\"}";
        publish(&mut attacker, "", "dying", &[0, 0], 200);
        publish(&mut attacker, "", "d0", &[0, 0], 5);
        // All have arrived in the last queue, once each, and the messages in the cycle have ended.
        let end = std::time::Instant::now() + HANG;
        let mut said = String::new();
        while !said.contains("message_count: 200,") || metric(&server, dropped) == 0 {
            assert!(std::time::Instant::now() < end, "{said}");
            std::thread::sleep(std::time::Duration::from_millis(20));
            attacker.send(1, QueueDeclare { queue: "q1999", passive: true, ..Default::default() });
            said = attacker.method();
        }
        canary.stop();
    }
}
