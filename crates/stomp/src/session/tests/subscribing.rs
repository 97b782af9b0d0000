//! Subscriptions that outlive their connection, temporary queues, and the headers of clients of
//! ActiveMQ and Artemis.

use broker::{Table, Value};

use super::{Peer, Scene, check, talk};

/// The MESSAGE of subscription `id` with the message id `number`-`tag`.
fn message(id: &str, number: u32, tag: u32, destination: &str, body: &str) -> String {
    format!(
        "MESSAGE\nsubscription:{id}\nmessage-id:S-{number}-{tag}\ndestination:{destination}\nredelivered:false\n\n{body}"
    )
}

fn hears(peer: &mut Peer, say: &str, expected: &[String]) {
    peer.say(say);
    assert_eq!(peer.heard(), expected, "after {say:?}");
}

#[test]
fn a_durable_subscription_keeps_what_comes_while_nobody_is_there() {
    // The headers that start it, and the ones that end it for good.
    for (client, subscribe, end) in [
        (None, "durable:true", "durable:true"),
        (None, "persistent:true", "durable:true"),
        (None, "durable:true\nx-queue-name:mine", "durable:true\nx-queue-name:mine"),
        (Some("me"), "activemq.subscriptionName:news", "activemq.subscriptionName:news"),
        (Some("me"), "durable-subscription-name:news", "durable-subscription-name:news"),
        (Some("me"), "durable-subscriber-name:news", "durable-subscription-name:news"),
    ] {
        let scene = Scene::new();
        let connect = || match client {
            Some(client) => scene.connect_client(client, "1.2"),
            None => scene.connect("1.2"),
        };
        let subscribe = format!("SUBSCRIBE\nid:1\ndestination:/topic/a.*\n{subscribe}\n\n\0");
        let mut publisher = scene.connect("1.2");
        let mut one = connect();
        hears(&mut one, &subscribe, &[]);
        hears(&mut one, "DISCONNECT\n\n\0", &[]);
        drop(one);
        publisher.say("SEND\ndestination:/topic/a.b\n\nmissed\0SEND\ndestination:/topic/c\n\nother\0");
        let mut two = connect();
        hears(&mut two, &subscribe, &[message("1", 0, 1, "/topic/a.b", "missed")]);
        let unsubscribe = format!("UNSUBSCRIBE\nid:1\n{end}\nreceipt:r\n\n\0");
        hears(&mut two, &unsubscribe, &["RECEIPT\nreceipt-id:r".to_owned()]);
        assert!(scene.broker.queues().is_empty(), "{subscribe}");
    }
}

#[test]
fn a_durable_subscription_ends_by_its_name_alone() {
    let scene = Scene::new();
    let mut one = scene.connect_client("me", "1.1");
    hears(&mut one, "SUBSCRIBE\nid:1\ndestination:/topic/a\nactivemq.subscriptionName:news\n\n\0", &[]);
    let mut two = scene.connect_client("me", "1.1");
    two.say("SUBSCRIBE\nid:1\ndestination:/topic/a\nactivemq.subscriptionName:news\n\n\0");
    assert!(two.heard()[0].contains("in exclusive use"), "one consumer at a time");
    hears(&mut one, "DISCONNECT\n\n\0", &[]);
    drop(one);
    assert_eq!(scene.broker.queues().len(), 1);
    let mut three = scene.connect_client("me", "1.1");
    let end = "UNSUBSCRIBE\nid:x\nactivemq.subscriptionName:news\nreceipt:1\n\n\0";
    hears(&mut three, end, &["RECEIPT\nreceipt-id:1".to_owned()]);
    assert!(scene.broker.queues().is_empty());
}

/// The queues of both would be called alike. They once had one in common.
#[test]
fn names_that_run_together_are_told_apart() {
    let scene = Scene::new();
    let subscribe =
        |name: &str| format!("SUBSCRIBE\nid:1\ndestination:/topic/a\nactivemq.subscriptionName:{name}\n\n\0");
    let mut one = scene.connect_client("a.b", "1.2");
    hears(&mut one, &subscribe("c"), &[]);
    let mut two = scene.connect_client("a", "1.2");
    two.say(&subscribe("b.c"));
    assert!(two.heard()[0].contains("belongs to subscription 'c' of client 'a.b'"));
    let mut three = scene.connect_client("a", "1.2");
    let end = "UNSUBSCRIBE\nid:x\nactivemq.subscriptionName:b.c\nreceipt:1\n\n\0";
    hears(&mut three, end, &["RECEIPT\nreceipt-id:1".to_owned()]);
    assert_eq!(scene.broker.queues().len(), 1, "the other one stays");
}

#[test]
fn subscriptions_of_rabbitmqs_words_are_shared_and_told_apart_by_id_and_topic() {
    let scene = Scene::new();
    let (mut one, mut two) = (scene.connect("1.2"), scene.connect("1.2"));
    for peer in [&mut one, &mut two] {
        hears(peer, "SUBSCRIBE\nid:1\ndestination:/topic/a\ndurable:true\n\n\0", &[]);
    }
    hears(&mut two, "SUBSCRIBE\nid:2\ndestination:/exchange/amq.topic/a\ndurable:true\nauto-delete:true\n\n\0", &[]);
    let queues = scene.broker.queues();
    assert_eq!(queues.iter().filter(|queue| queue.declared.durable && !queue.declared.exclusive).count(), 2);
    one.say("SEND\ndestination:/topic/a\n\nx\0SEND\ndestination:/topic/a\n\ny\0");
    two.run();
    assert_eq!((one.heard().len(), two.heard().len()), (1, 3));
}

#[test]
fn the_arguments_of_queues_are_headers_of_whoever_declares_one() {
    let (text, number) = (|text: &str| Value::Text(text.to_owned()), Value::I64);
    let cases: &[(&str, &[(&str, Value)])] = &[
        (
            "x-message-groups:true\nx-group-buckets:8",
            &[("x-message-groups", Value::Bool(true)), ("x-group-buckets", number(8))],
        ),
        (
            "x-message-deduplication:true\nx-cache-size:10\nx-cache-ttl:1000",
            &[
                ("x-message-deduplication", Value::Bool(true)),
                ("x-cache-size", number(10)),
                ("x-cache-ttl", number(1000)),
            ],
        ),
        ("x-last-value-key:5", &[("x-last-value-key", text("5"))]),
        ("x-consumer-timeout:60000", &[("x-consumer-timeout", number(60_000))]),
        (
            "x-delayed-retry-type:all\nx-delayed-retry-min:1000",
            &[("x-delayed-retry-type", text("all")), ("x-delayed-retry-min", number(1000))],
        ),
        (
            "x-queue-type:quorum\nx-delivery-limit:3",
            &[("x-queue-type", text("quorum")), ("x-delivery-limit", number(3))],
        ),
        ("x-queue-mode:lazy\nx-queue-version:2", &[("x-queue-mode", text("lazy")), ("x-queue-version", number(2))]),
    ];
    let declared = |frame: &str| {
        let scene = Scene::new();
        hears(&mut scene.connect("1.2"), frame, &[]);
        scene.broker.queues().remove(0).declared.arguments
    };
    for (headers, arguments) in cases {
        let expected = Table(arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect());
        assert_eq!(declared(&format!("SUBSCRIBE\nid:1\ndestination:/queue/a\n{headers}\n\n\0")), expected);
        assert_eq!(declared(&format!("SEND\ndestination:/queue/a\n{headers}\n\nx\0")), expected);
    }
    // These headers belong to the message.
    let own = "SEND\ndestination:/queue/a\nx-cache-ttl:1000\nx-deduplication-header:7\nx-mesage-ttl:1\n\nx\0";
    assert_eq!(declared(own), Table::default());
}

#[test]
fn a_selector_of_a_topic_subscription_keeps_nothing_else() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    let subscribe = "SUBSCRIBE\nid:1\ndestination:/topic/a\nselector:n > 1\n\n\0";
    peer.say(subscribe);
    peer.say("SEND\ndestination:/topic/a\nn:1\n\nx\0SEND\ndestination:/topic/a\nn:2\n\ny\0");
    assert_eq!(peer.heard().len(), 1);
    assert_eq!(scene.broker.queues()[0].ready, 0);
}

#[test]
fn whoever_is_asked_answers_to_the_queue_of_whoever_asked() {
    let scene = Scene::new();
    let (mut server, mut client) = (scene.connect("1.2"), scene.connect("1.2"));
    talk(&mut server, &[("SUBSCRIBE\nid:s\ndestination:/queue/rpc\n\n\0", &[])]);
    for (turn, text) in ["one", "two"].iter().enumerate() {
        client.say(&format!("SEND\ndestination:/queue/rpc\nreply-to:/temp-queue/r\n\n{text}\0"));
        server.run();
        let asked = server.heard();
        let reply_to = asked[0].lines().find_map(|line| line.strip_prefix("reply-to:")).unwrap();
        assert!(reply_to.starts_with("/reply-queue/amq.gen-"), "{asked:?}");
        server.say(&format!("SEND\ndestination:{reply_to}\n\nanswer {text}\0"));
        client.run();
        let heard = client.heard();
        let head = format!("MESSAGE\nsubscription:/temp-queue/r\nmessage-id:S-0-{}\n", turn + 1);
        assert!(
            heard.len() == 1 && heard[0].starts_with(&head) && heard[0].ends_with(&format!("answer {text}")),
            "{heard:?}"
        );
    }
    drop(client);
    scene.test.housekeep();
    assert_eq!(scene.broker.queues().len(), 1);
    // The connection that asked has ended: the reply is unroutable, and nothing breaks.
    talk(&mut server, &[("SEND\ndestination:/reply-queue/gone\nreceipt:1\n\nx\0", &["RECEIPT\nreceipt-id:1"])]);
}

#[test]
fn a_client_of_activemq_subscribes_to_its_temporary_queue_itself() {
    let scene = Scene::new();
    let mut client = scene.connect("1.2");
    let mut server = scene.connect("1.2");
    talk(&mut client, &[("SUBSCRIBE\nid:r\ndestination:/temp-queue/mine\n\n\0", &[])]);
    client.say("SEND\ndestination:/queue/rpc\nreply-to:/temp-queue/mine\n\nask\0SEND\ndestination:/temp-queue/mine\n\nmyself\0");
    server.say("SUBSCRIBE\nid:s\ndestination:/queue/rpc\n\n\0");
    let asked = server.heard();
    let reply_to = asked[0].lines().find_map(|line| line.strip_prefix("reply-to:")).unwrap();
    server.say(&format!("SEND\ndestination:{reply_to}\n\nanswer\0"));
    client.run();
    let heard = client.heard();
    assert!(heard.iter().all(|frame| frame.starts_with("MESSAGE\nsubscription:r\n")), "{heard:?}");
    assert_eq!(heard.iter().map(|frame| frame.rsplit('\n').next().unwrap()).collect::<Vec<_>>(), ["myself", "answer"]);
    // It is exclusive to this connection.
    let queue = reply_to.trim_start_matches("/reply-queue/").to_owned();
    server.say(&format!("SUBSCRIBE\nid:t\ndestination:/amq/queue/{queue}\n\n\0"));
    assert!(server.heard()[0].contains("resource_locked"));
}

#[test]
fn a_temporary_queue_is_what_its_headers_ask_for() {
    let scene = Scene::new();
    let mut client = scene.connect("1.2");
    talk(
        &mut client,
        &[("SUBSCRIBE\nid:a\ndestination:/temp-queue/mine\nack:client\nprefetch-count:1\nx-max-length:2\n\n\0", &[])],
    );
    let queue = scene.broker.queues().remove(0);
    assert_eq!(queue.declared.arguments.get("x-max-length"), Some(&Value::I64(2)));
    // The same SUBSCRIBE again uses the same queue; one with other headers is refused.
    talk(&mut client, &[("SUBSCRIBE\nid:b\ndestination:/temp-queue/mine\nx-max-length:2\n\n\0", &[])]);
    client.say("SUBSCRIBE\nid:c\ndestination:/temp-queue/mine\nx-max-length:3\n\n\0");
    assert!(client.heard()[0].contains("inequivalent arg 'x-max-length'"));
    drop(client);
    scene.test.housekeep();
    assert_eq!(scene.broker.queues().len(), 0, "it goes with its connection");
}

#[test]
fn clients_of_activemq_and_artemis_find_their_destinations() {
    let message = |number: u32, destination: &str| message("s", number, number + 1, destination, "x");
    check(&[
        (
            "SUBSCRIBE\nid:s\ndestination:queue://a\n\n\0SEND\ndestination:jms.queue.a\n\nx\0",
            &[&message(0, "/queue/a")],
        ),
        ("UNSUBSCRIBE\nid:s\n\n\0SUBSCRIBE\nid:s\ndestination:b.>\nsubscription-type:MULTICAST\n\n\0", &[]),
        ("SEND\ndestination:b.c.d\ndestination-type:MULTICAST\n\nx\0", &[&message(1, "/topic/b.c.d")]),
        ("UNSUBSCRIBE\nid:s\n\n\0SUBSCRIBE\nid:s\ndestination:topic://c\nno-local:false\n\n\0", &[]),
        ("SEND\ndestination:jms.topic.c\n\nx\0", &[&message(2, "/topic/c")]),
        (
            "SEND\ndestination:d\ndestination-type:ANYCAST\n\nx\0SUBSCRIBE\nid:t\ndestination:/queue/d\nactivemq.exclusive:true\n\n\0",
            &[&message(3, "/queue/d").replace("subscription:s", "subscription:t")],
        ),
    ]);
}

#[test]
fn a_subscription_may_leave_out_what_its_own_connection_sends() {
    let scene = Scene::new();
    let (mut one, mut other) = (scene.connect("1.2"), scene.connect("1.2"));
    for (header, destination) in [("no-local", "/topic/t"), ("activemq.noLocal", "/exchange/amq.fanout")] {
        one.say(&format!("SUBSCRIBE\nid:s\ndestination:{destination}\n{header}:true\n\n\0"));
        one.say(&format!("SEND\ndestination:{destination}\n\nown\0"));
        assert!(one.heard().is_empty(), "{header}");
        assert_eq!(scene.broker.queues()[0].ready, 0, "what it does not get is not kept for it");
        other.say(&format!("SEND\ndestination:{destination}\n\nother\0"));
        one.run();
        let heard = one.heard();
        assert_eq!(heard.len(), 1, "{header}: {heard:?}");
        assert!(heard[0].ends_with("\n\nother"), "{heard:?}");
        one.say("UNSUBSCRIBE\nid:s\n\n\0");
    }
    // Others get it from a queue, and its headers do not say who sent it.
    one.say("SUBSCRIBE\nid:s\ndestination:/queue/a\nno-local:true\n\n\0SEND\ndestination:/queue/a\n\nown\0");
    assert!(one.heard().is_empty());
    other.say("SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0");
    assert_eq!(other.heard(), [message("s", 0, 1, "/queue/a", "own")]);
}

/// Whatever connection they came by, and wherever they waited.
#[test]
fn a_durable_subscription_may_leave_out_what_its_own_client_sends() {
    let scene = Scene::new();
    let subscribe = "SUBSCRIBE\nid:s\ndestination:/topic/t\ndurable-subscription-name:n\nno-local:true\n\n\0";
    let send = |body: &str| format!("SEND\ndestination:/topic/t\n\n{body}\0");
    let mut first = scene.connect_client("me", "1.2");
    first.say(&format!("{subscribe}{}", send("own")));
    assert!(first.heard().is_empty());
    first.say("DISCONNECT\n\n\0");
    // It sends on without a consumer, and so does another client.
    let mut between = scene.connect_client("me", "1.2");
    between.say(&send("own too"));
    scene.connect_client("you", "1.2").say(&send("yours"));
    scene.connect("1.2").say(&send("of no client"));
    between.say("DISCONNECT\n\n\0");
    let mut last = scene.connect_client("me", "1.2");
    last.say(&format!("{subscribe}{}", send("own again")));
    last.run();
    let bodies: Vec<_> =
        last.heard().iter().filter_map(|frame| frame.rsplit("\n\n").next().map(str::to_owned)).collect();
    assert_eq!(bodies, ["yours", "of no client"]);
}

#[test]
fn a_subscription_gets_retained_messages_if_it_asks_for_them() {
    let scene = Scene::new();
    let (mut one, mut other) = (scene.connect("1.2"), scene.connect("1.2"));
    one.say("SEND\ndestination:/topic/a.b\nx-retain:true\n\nkept\0SEND\ndestination:/topic/a.b\n\nlive\0");
    one.say("SEND\ndestination:/exchange/amq.fanout\nx-retain:true\n\nfan\0");
    for (destination, body) in [("/topic/a.*", "kept"), ("/topic/#", "kept"), ("/exchange/amq.fanout", "fan")] {
        other.say(&format!("SUBSCRIBE\nid:s\ndestination:{destination}\nx-retained:true\n\n\0"));
        let heard = other.heard();
        assert_eq!(heard.len(), 1, "{destination}: {heard:?}");
        assert!(heard[0].contains("\nx-retained:true\n") && heard[0].ends_with(&format!("\n\n{body}")), "{heard:?}");
        other.say("UNSUBSCRIBE\nid:s\n\n\0SUBSCRIBE\nid:t\ndestination:/topic/#\n\n\0UNSUBSCRIBE\nid:t\n\n\0");
        assert!(other.heard().is_empty());
    }
}

#[test]
fn a_message_may_live_for_ten_years() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    for ms in [5_184_000_000, 315_360_000_000] {
        let expires = scene.client().unix_ms() + ms;
        for header in [format!("expiration:{ms}"), format!("expires:{expires}")] {
            peer.say(&format!("SEND\ndestination:/queue/a\n{header}\n\nx\0"));
            assert!(peer.heard().is_empty(), "{header}");
        }
        scene.test.setup.clock.advance(ms - 1);
        peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\n\n\0UNSUBSCRIBE\nid:s\n\n\0");
        let heard = peer.heard();
        assert_eq!(heard.len(), 2, "{ms}: {heard:?}");
        assert!(heard[0].contains(&format!("\nexpiration:{ms}\n")), "{heard:?}");
        assert!(heard[1].contains(&format!("\nexpires:{expires}\n")), "{heard:?}");
        scene.test.setup.clock.advance(1);
        peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0UNSUBSCRIBE\nid:s\n\n\0");
        assert_eq!(peer.heard().len(), 0, "{ms}");
    }
}

#[test]
fn a_time_of_death_counts_from_1970() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    let now = scene.client().unix_ms();
    for (expires, there) in [(now - 1, false), (now + 100, true), (0, true)] {
        peer.say(&format!("SEND\ndestination:/queue/a\nexpires:{expires}\n\n{expires}\0"));
        assert_eq!(scene.broker.queues()[0].ready, u64::from(there), "{expires}");
        peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0UNSUBSCRIBE\nid:s\n\n\0");
        assert_eq!(peer.heard().len(), usize::from(there), "{expires}");
    }
}

/// What it has already stays.
#[test]
fn a_durable_subscription_gets_nothing_that_its_user_may_not_read_any_more() {
    let scene = Scene::new();
    let mut one = scene.connect_client("me", "1.2");
    for (id, topic) in [(1, "a"), (2, "b")] {
        let subscribe =
            format!("SUBSCRIBE\nid:{id}\ndestination:/topic/{topic}\ndurable-subscription-name:{topic}\n\n\0");
        hears(&mut one, &subscribe, &[]);
    }
    hears(&mut one, "DISCONNECT\n\n\0", &[]);
    drop(one);
    let ready = || {
        let queues = scene.broker.queues();
        let mut ready: Vec<_> = queues.iter().map(|queue| (queue.name.to_string(), queue.ready)).collect();
        ready.sort_unstable();
        ready.into_iter().map(|(_, ready)| ready).collect::<Vec<_>>()
    };
    let mut publisher = scene.connect("1.2");
    let both = "SEND\ndestination:/topic/a\n\n1\0SEND\ndestination:/topic/b\n\n1\0";
    hears(&mut publisher, both, &[]);
    assert_eq!(ready(), [1, 1]);
    scene.test.may_read_topics("guest", "^b$");
    hears(&mut publisher, both, &[]);
    assert_eq!(ready(), [1, 2]);
}
