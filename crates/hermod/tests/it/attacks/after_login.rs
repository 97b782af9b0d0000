//! What users can do to other users.

use super::*;
use crate::api::GUEST;
use crate::server::until;

/// Declares a queue with these bytes as its arguments.
fn declare_with(client: &mut Amqp, arguments: &[u8]) {
    // Built by hand, because the encoder of this program can't make such tables.
    let mut payload = vec![0, 50, 0, 10, 0, 0, 1, b'q', 0];
    payload.extend((arguments.len() as u32).to_be_bytes());
    payload.extend(arguments);
    let mut bytes = vec![1, 0, 1];
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes.push(0xCE);
    shove(&mut client.socket, &bytes);
}

fn nested(depth: usize) -> Vec<u8> {
    let mut table = Vec::new();
    for _ in 0..depth {
        let mut outer = b"\x01aF".to_vec();
        outer.extend((table.len() as u32).to_be_bytes());
        outer.extend(table);
        table = outer;
    }
    table
}

#[test]
fn tables_are_neither_deep_nor_long() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let canary = Canary::start(&server);
    let mut arrays = b"\x01aA".to_vec();
    arrays.extend(100_000_u32.to_be_bytes());
    arrays.extend([b'V'; 100_000]);
    let mut lying = b"\x01aS".to_vec();
    lying.extend(u32::MAX.to_be_bytes());
    for arguments in [nested(100), nested(15_000), arrays, lying] {
        let mut client = Amqp::open(server.ports.amqp);
        declare_with(&mut client, &arguments);
        client.expect_close(502);
    }
    for headers in ["a:b\n".repeat(1_000_000), "a".repeat(1_000_000)] {
        let mut client = socket(server.ports.stomp);
        shove(
            &mut client,
            format!("CONNECT\nlogin:guest\npasscode:guest\n\n\0SEND\ndestination:/queue/q\n{headers}").as_bytes(),
        );
        let said = String::from_utf8(last_words(&mut client)).unwrap();
        assert!(said.contains("ERROR\n") || said.is_empty(), "{said}");
    }
    canary.stop();
}

#[test]
fn bodies_are_as_long_as_they_were_said_to_be_and_no_longer_than_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--limits-max-message-size=1MiB"]);
    let canary = Canary::start(&server);
    let before = resident(&server);
    let publish = |size: u64, body: &[u8]| {
        let mut client = Amqp::open(server.ports.amqp);
        let mut bytes = Vec::new();
        Method::from(BasicPublish { routing_key: "q", ..Default::default() }).encode(1, &mut bytes);
        frame::encode_header(&mut bytes, 1, size, &[0, 0]);
        frame::encode_body(&mut bytes, 1, 131_072, body);
        shove(&mut client.socket, &bytes);
        client
    };
    publish(10, &[0; 20]).expect_close(501);
    for size in [1 << 43, u64::MAX] {
        let said = publish(size, &[0; 20]).method();
        assert!(said.contains("Close { reply_code: 501") || said.contains("Close { reply_code: 406"), "{size}: {said}");
    }
    for length in ["content-length:99999999999999999999\n", "content-length:-5\n", "content-length:2000000\n", ""] {
        let mut client = Stomp::connect(&server);
        client.send_raw(format!("SEND\ndestination:/queue/q\n{length}\n").as_bytes());
        for _ in 0..40 {
            client.send_raw(&[b'x'; 65536]);
        }
        assert!(client.frame_or_end().is_none_or(|frame| frame.starts_with("ERROR\n")), "{length}");
    }
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 48 * 1024, "{grown} KiB");
    assert_eq!(metric(&server, "rabbitmq_queues "), 1, "the canary's");
    canary.stop();
}

#[test]
fn what_one_client_can_have_is_limited_and_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let flags =
        ["--limits-channel-max=10", "--limits-consumers-per-channel=5", "--limits-queues=20", "--limits-bindings=30"];
    let server = Server::start(folder.path(), &flags);
    for _ in 0..2 {
        let mut client = Amqp::open(server.ports.amqp);
        let names: Vec<_> = (0..30).map(|number| format!("x{number}")).collect();
        let mut made = 0;
        for queue in &names {
            client.send(1, QueueDeclare { queue, exclusive: true, ..Default::default() });
            let said = client.method();
            if said.starts_with("ChannelClose { reply_code: 406") {
                client.send(1, ChannelCloseOk {});
                client.send(1, ChannelOpen::default());
                client.expect("ChannelOpenOk");
                break;
            }
            assert!(said.starts_with("QueueDeclareOk"), "{said}");
            made += 1;
        }
        assert_eq!(made, 20);
        bind_to_the_limit(&mut client, 30);
        for number in 0..6 {
            client.send(1, BasicConsume { queue: "x0", ..Default::default() });
            client.expect(if number < 5 { "BasicConsumeOk" } else { "ConnectionClose { reply_code: 530" });
        }
        drop(client);
        let mut client = Amqp::open(server.ports.amqp);
        client.send(11, ChannelOpen::default());
        client.expect("ConnectionClose { reply_code: 5");
        drop(client);
        until("what it had is gone", || metric(&server, "rabbitmq_queues ") == 0);
    }
}

/// Binds queue `x0` to two exchanges in turn until the limit of bindings is reached. Half of them
/// are deleted with an exchange, which makes room for as many.
fn bind_to_the_limit(client: &mut Amqp, limit: usize) {
    let declare = |client: &mut Amqp, exchange| {
        client.send(1, ExchangeDeclare { exchange, kind: "direct", ..Default::default() });
        client.expect("ExchangeDeclareOk");
    };
    let bind = |client: &mut Amqp, exchange, number: usize, answer: &str| {
        let routing_key = &format!("k{number}");
        client.send(1, QueueBind { queue: "x0", exchange, routing_key, ..Default::default() });
        client.expect(answer);
    };
    let text = format!("PRECONDITION_FAILED - limit of {limit} bindings is reached");
    let refused = &format!("ChannelClose {{ reply_code: 406, reply_text: {text:?}");
    let reopen = |client: &mut Amqp| {
        client.send(1, ChannelCloseOk {});
        client.send(1, ChannelOpen::default());
        client.expect("ChannelOpenOk");
    };
    declare(client, "even");
    declare(client, "odd");
    (0..limit).for_each(|number| bind(client, ["even", "odd"][number % 2], number, "QueueBindOk"));
    // Repeating a binding adds none.
    bind(client, "even", 0, "QueueBindOk");
    for exchange in ["even", "odd"] {
        bind(client, exchange, limit + 1, refused);
        reopen(client);
    }
    client.send(1, ExchangeDelete { exchange: "odd", ..Default::default() });
    client.expect("ExchangeDeleteOk");
    (limit..limit + limit / 2).for_each(|number| bind(client, "even", number, "QueueBindOk"));
    bind(client, "even", 0, "QueueBindOk");
    bind(client, "even", limit * 2, refused);
    reopen(client);
}

#[test]
fn who_reads_nothing_is_closed_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--tcp-write-timeout=1s"]);
    let mut client = Stomp::connect(&server);
    let body = "x".repeat(60_000);
    for _ in 0..600 {
        client.send(&format!("SEND\ndestination:/queue/deep\n\n{body}"));
    }
    client.publish("deep", "last");
    let canary = Canary::start(&server);
    let before = resident(&server);
    // So few that the data for each does not fit into the buffers of the kernel.
    let mut slow: Vec<_> = (0..2).map(|_| Stomp::connect(&server)).collect();
    for client in &mut slow {
        client.send("SUBSCRIBE\nid:s\ndestination:/queue/deep\nack:client\nprefetch-count:1000\n\n");
    }
    until("the slow ones are gone", || metric(&server, "rabbitmq_connections ") == 2);
    canary.stop();
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 48 * 1024, "{grown} KiB for two readers of 36 MB");
    until("their messages are back", || metric(&server, "rabbitmq_queue_messages_unacked ") == 0);
    let (_, queues) = server.ask("GET", "/metrics/per-object", GUEST);
    assert!(queues.contains("rabbitmq_queue_messages_ready{vhost=\"/\",queue=\"deep\"} 601\n"), "{queues}");
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let round = |count: usize| {
        for number in 0..count {
            let mut client = Amqp::open(server.ports.amqp);
            client.send(1, QueueDeclare { exclusive: true, ..Default::default() });
            client.expect("QueueDeclareOk");
            match number % 3 {
                0 => {
                    client.send(0, ConnectionClose { reply_code: 200, ..Default::default() });
                    client.expect("ConnectionCloseOk");
                }
                // The connection ends without a close.
                1 => drop(client),
                _ => shove(&mut client.socket, &[1, 0]),
            }
        }
        until("all gone", || metric(&server, "rabbitmq_connections ") + metric(&server, "rabbitmq_queues ") == 0);
    };
    round(50);
    let (files, memory) = (open_files(&server), resident(&server));
    round(600);
    let (more_files, more_memory) = (open_files(&server), resident(&server));
    assert!(more_files <= files + 3, "{files} files, then {more_files}");
    assert!(more_memory < memory + 8 * 1024, "{memory} KiB, then {more_memory}");
    let (_, metrics) = server.get("/metrics");
    // One line for each connection would be hundreds more.
    assert!(metrics.lines().count() < 500, "{} lines of metrics", metrics.lines().count());
}
