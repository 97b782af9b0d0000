//! SEND and SUBSCRIBE: which subscribers a message reaches, and how they see it.

use broker::{Confirm, Publish, QueueSpec, Unroutable};
use testkit::broker::TextDialect;
use testkit::driver::Reading;

use super::{Scene, check, talk};
use crate::Settings;
use crate::codec::Trailer;

#[test]
fn a_queue_is_declared_by_whoever_comes_first() {
    check(&[
        ("SEND\ndestination:/queue/a\n\none\0SEND\ndestination:a\n\ntwo\0", &[]),
        (
            "SUBSCRIBE\nid:s\ndestination:/amq/queue/a\n\n\0",
            &[
                "MESSAGE\nsubscription:s\nmessage-id:S-0-1\ndestination:/queue/a\nredelivered:false\n\none",
                "MESSAGE\nsubscription:s\nmessage-id:S-0-2\ndestination:/queue/a\nredelivered:false\n\ntwo",
            ],
        ),
        (
            "SUBSCRIBE\nid:t\ndestination:/queue/b%2Fc\n\n\0SEND\ndestination:/queue/b%2Fc\n\nx\0",
            &["MESSAGE\nsubscription:t\nmessage-id:S-1-3\ndestination:/queue/b%2Fc\nredelivered:false\n\nx"],
        ),
    ]);
}

#[test]
fn topics_reach_every_subscription_that_matches() {
    let scene = Scene::new();
    let (mut one, mut two) = (scene.connect("1.2"), scene.connect("1.1"));
    talk(
        &mut one,
        &[("SUBSCRIBE\nid:1\ndestination:/topic/a.*\n\n\0SUBSCRIBE\nid:2\ndestination:/topic/#\n\n\0", &[])],
    );
    talk(&mut two, &[("SUBSCRIBE\nid:3\ndestination:/exchange/amq.topic/a.b\n\n\0", &[])]);
    two.say("SEND\ndestination:/topic/a.b\nx:y\n\nhi\0");
    let seen = |id, number| {
        format!(
            "MESSAGE\nsubscription:{id}\nmessage-id:S-{number}-1\ndestination:/topic/a.b\nredelivered:false\nx:y\n\nhi"
        )
    };
    assert_eq!(two.heard(), [seen(3, 0)]);
    one.run();
    let mut heard = one.heard();
    heard.sort();
    assert_eq!(heard.len(), 2);
    assert!(heard[0].contains("subscription:1") && heard[1].contains("subscription:2"), "{heard:?}");
    talk(&mut two, &[("SEND\ndestination:/topic/c\n\nx\0", &[])]);
    one.run();
    assert_eq!(one.heard().len(), 1);
    let queues = scene.broker.queues();
    assert!(
        queues.iter().all(|queue| queue.declared.exclusive && queue.declared.auto_delete && !queue.declared.durable)
    );
    drop((one, two));
    scene.test.housekeep();
    assert!(scene.broker.queues().is_empty());
}

#[test]
fn a_named_topic_queue_is_shared() {
    let scene = Scene::new();
    let (mut one, mut two) = (scene.connect("1.2"), scene.connect("1.2"));
    for peer in [&mut one, &mut two] {
        talk(peer, &[("SUBSCRIBE\nid:1\ndestination:/topic/a\nx-queue-name:shared\n\n\0", &[])]);
    }
    one.say("SEND\ndestination:/topic/a\n\n1\0SEND\ndestination:/topic/a\n\n2\0");
    two.run();
    assert_eq!((one.heard().len(), two.heard().len()), (1, 1));
}

#[test]
fn headers_arrive_as_they_were_sent() {
    let scene = Scene::new();
    let (mut old, mut new) = (scene.connect("1.0"), scene.connect("1.2"));
    talk(&mut old, &[("SUBSCRIBE\ndestination: /queue/a\n\n\0", &[])]);
    talk(&mut new, &[("SUBSCRIBE\nid:s\ndestination:/queue/b\n\n\0", &[])]);
    old.say(
        "SEND\ndestination:/queue/b\npersistent:true\npriority:7\nx: back\\slash\nx:again\nsubscription:no\nack:no\n\
         redelivered:no\nreceipt:1\n\nhi\0",
    );
    assert_eq!(old.heard(), ["RECEIPT\nreceipt-id:1"]);
    new.run();
    assert_eq!(
        new.heard(),
        [
            "MESSAGE\nsubscription:s\nmessage-id:S-0-1\ndestination:/queue/b\nredelivered:false\npersistent:true\npriority:7\n\
         x:back\\slash\n\nhi"
        ]
    );
    new.say("SEND\ndestination:/queue/a\nx:two\\nlines\\\\\ncontent-type:text/plain\n\nhi\0");
    old.run();
    assert_eq!(
        old.heard(),
        [
            "MESSAGE\nmessage-id:S-0-1\ndestination:/queue/a\nredelivered:false\nx:two lines\\\ncontent-type:text/plain\n\nhi"
        ]
    );
}

#[test]
fn bodies_of_any_size_and_content_arrive_whole() {
    let mut peer = Scene::new().connect("1.2");
    peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0");
    for size in [0, 1, 4095, 4096, 40_000, 300_000, 3_000_000] {
        let body = "\0x".repeat(size / 2);
        peer.say(&format!("SEND\ndestination:/queue/a\ncontent-length:{}\n\n{body}\0", body.len()));
        let heard = peer.heard();
        let end = match body.len() {
            0 => "redelivered:false".to_owned(),
            length if length > 200 => format!("{length} bytes"),
            _ => body,
        };
        assert!(heard.len() == 1 && heard[0].ends_with(&end), "{size}");
    }
    peer.say(&format!("SEND\ndestination:/queue/a\ncontent-length:{}\n\n", 17 << 20));
    assert!(peer.heard()[0].contains("the body is longer than 16777216 bytes"));
}

#[test]
fn messages_of_other_protocols_are_shown_in_headers() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0");
    let mut client = scene.client();
    let session = client.open_session(1);
    let publish = Publish {
        exchange: "",
        routing_key: "a",
        dialect: TextDialect::ID,
        properties: b"foreign=a:b",
        persistent: false,
        priority: None,
        expiration: None,
        body: b"hi".as_slice().into(),
        confirm: Confirm::None,
        unroutable: Unroutable::Drop,
        copies: false,
        instructed: false,
    };
    client.publish(session, publish).unwrap();
    client.flush(scene.test.now());
    peer.run();
    assert_eq!(
        peer.heard(),
        ["MESSAGE\nsubscription:s\nmessage-id:S-0-1\ndestination:/queue/a\nredelivered:false\nforeign:a:b\n\nhi"]
    );
}

#[test]
fn a_dead_letter_tells_of_its_death() {
    let mut peer = Scene::new().connect("1.2");
    peer.say("SUBSCRIBE\nid:d\ndestination:/queue/dead\n\n\0");
    peer.say(
        "SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\nx-dead-letter-exchange:\nx-dead-letter-routing-key:dead\n\n\0",
    );
    peer.say(
        "SEND\ndestination:/queue/a\nx-dead-letter-exchange:\nx-dead-letter-routing-key:dead\nexpiration:60000\n\nhi\0",
    );
    let heard = peer.heard();
    assert!(heard.len() == 1 && heard[0].contains("\nexpiration:60000"), "{heard:?}");
    peer.say("NACK\nid:S-1-1\nrequeue:false\n\n\0");
    let heard = peer.heard();
    assert!(heard.len() == 1 && heard[0].starts_with("MESSAGE\nsubscription:d\n"), "{heard:?}");
    for line in ["\nx-first-death-queue:a", "\nx-first-death-reason:rejected", "\ndestination:/queue/dead"] {
        assert!(heard[0].contains(line), "{heard:?}");
    }
    assert!(!heard[0].contains("\nexpiration:"), "{heard:?}");
}

#[test]
fn a_slow_reader_leaves_its_messages_in_the_queue() {
    let scene = Scene::new();
    let (mut reader, mut writer) = (scene.connect("1.2"), scene.connect("1.2"));
    reader.say("SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0");
    reader.driver.reading = Reading::Nothing;
    let body = "x".repeat(100_000);
    for _ in 0..100 {
        writer.say(&format!("SEND\ndestination:/queue/a\n\n{body}\0"));
        reader.run();
    }
    assert!(reader.driver.connection.output().len() < 1 << 20);
    assert!(scene.broker.queues()[0].ready > 50);
    // Work that is due meanwhile is done, so that the driver need not call again at once.
    let later = reader.driver.connection.deadline().unwrap();
    reader.driver.connection.tick(later);
    assert!(reader.driver.connection.deadline().is_some_and(|next| next > later));
    reader.driver.reading = Reading::Everything;
    reader.run();
    assert_eq!(reader.heard().len(), 100);
}

/// Any client can send to an exclusive queue, because replies are sent to such queues. Only the
/// owner can do anything else with it.
#[test]
fn an_exclusive_queue_of_another_connection_is_sent_to_and_nothing_else() {
    let scene = Scene::new();
    let mut owner = scene.client();
    let now = std::time::Instant::now();
    let spec = QueueSpec { name: "own".to_owned(), exclusive: true, ..QueueSpec::default() };
    owner.declare_queue(&spec, now).unwrap();
    let messages = || scene.broker.queues().iter().find(|queue| queue.name == "own").unwrap().ready;
    let mut peer = scene.connect("1.2");
    let destinations = ["/amq/queue/own", "/reply-queue/own", "/queue/own", "own", "queue://own"];
    for (at, destination) in (1..).zip(destinations) {
        for transaction in ["", "transaction:t\n"] {
            let (begin, commit) = match transaction {
                "" => ("", ""),
                _ => ("BEGIN\ntransaction:t\n\n\0", "COMMIT\ntransaction:t\n\n\0"),
            };
            peer.say(&format!("{begin}SEND\ndestination:{destination}\n{transaction}receipt:r\n\nx\0{commit}"));
            assert_eq!(peer.heard(), ["RECEIPT\nreceipt-id:r"], "{destination}");
        }
        assert_eq!(messages(), 2 * at, "{destination}");
    }
    for refused in [
        "SUBSCRIBE\nid:s\ndestination:/amq/queue/own\n\n\0",
        "SUBSCRIBE\nid:s\ndestination:/queue/own\n\n\0",
        "SUBSCRIBE\nid:s\ndestination:/topic/k\nx-queue-name:own\n\n\0",
        "SEND\ndestination:/queue/own\ndurable:false\n\nx\0",
    ] {
        let mut peer = scene.connect("1.2");
        peer.say(refused);
        assert!(peer.heard()[0].starts_with("ERROR\nmessage:resource_locked\n"), "{refused:?}");
    }
    assert_eq!(messages(), 10);
}

/// A client that reads one byte more than a frame has must not take that byte from the next frame.
#[test]
fn a_line_feed_comes_behind_every_frame_unless_it_is_not_wanted() {
    for trailer in [Trailer::LineFeed, Trailer::None] {
        let scene = Scene::new().with_settings(Settings { trailer, ..Settings::default() });
        let mut peer = scene.accept();
        peer.say("CONNECT\naccept-version:1.2\nlogin:guest\npasscode:guest\n\n\0");
        let mut frames = vec![loop {
            peer.run();
            match peer.raw() {
                nothing if nothing.is_empty() => std::thread::yield_now(),
                connected => break connected,
            }
        }];
        let large = "x".repeat(100_000);
        for (said, starts) in [
            ("SUBSCRIBE\nid:s\ndestination:/queue/a\nreceipt:1\n\n\0".to_owned(), "RECEIPT\n"),
            ("SEND\ndestination:/queue/a\n\nsmall\0".to_owned(), "MESSAGE\n"),
            (format!("SEND\ndestination:/queue/a\n\n{large}\0"), "MESSAGE\n"),
            ("NONSENSE\n\n\0".to_owned(), "ERROR\n"),
        ] {
            peer.say(&said);
            let heard = peer.raw();
            assert!(heard.starts_with(starts), "{heard:?}");
            frames.push(heard);
        }
        for frame in frames {
            let end = if trailer == Trailer::LineFeed { "\0\n" } else { "\0" };
            assert!(frame.strip_suffix(end).is_some_and(|frame| !frame.contains('\0')), "{trailer:?}: {frame:?}");
        }
    }
}
