//! What is refused, with which name, and what a refusal leaves behind.

use std::time::Duration;

use wire::ReadState;

use super::{Scene, talk};

#[test]
fn every_refusal_names_what_it_refuses() {
    for (frame, words) in [
        ("SEND\n\nx\0", "SEND must include a 'destination' header"),
        ("SEND\ndestination:/temp-queue/a\n\nx\0", "this connection has no temporary queue 'a'"),
        ("SEND\ndestination:a\ndestination-type:BOTH\n\nx\0", "ANYCAST or MULTICAST"),
        (
            "SEND\ndestination:/queue/a\nexpires:soon\n\nx\0",
            "header 'expires' must be a time in milliseconds since 1970, ten years ahead at most, not 'soon'",
        ),
        (
            "SEND\ndestination:/queue/a\nexpires:9223372036854775807\n\nx\0",
            "ten years ahead at most, not '9223372036854775807'",
        ),
        (
            "SEND\ndestination:/queue/a\nexpiration:315360000001\n\nx\0",
            "header 'expiration' must be a number of milliseconds, ten years at most, not '315360000001'",
        ),
        ("SEND\ndestination:/queue/a\nx-message-ttl:315360000001\n\nx\0", "{value_too_large,315360000001}"),
        ("SEND\ndestination:/queue/a\nx-consumer-timeout:315360000001\n\nx\0", "{value_too_large,315360000001}"),
        (
            "SEND\ndestination:/queue/a\nAMQ_SCHEDULED_DELAY:315360000001\n\nx\0",
            "must be a number of milliseconds, ten years at most, not longstr '315360000001'",
        ),
        (
            "SEND\ndestination:/queue/a\n_AMQ_SCHED_DELIVERY:9000000000000\n\nx\0",
            "must be a time in milliseconds since 1970, ten years ahead at most, not longstr '9000000000000'",
        ),
        ("SEND\ndestination:/amq/queue/none\n\nx\0", "no queue 'none' in vhost '/'"),
        ("SEND\ndestination:/exchange/none/k\n\nx\0", "no exchange 'none' in vhost '/'"),
        ("SEND\ndestination:/queue/a\nmessage-id:1\n\nx\0", "'message-id' is not allowed on 'SEND'"),
        ("SEND\ndestination:/queue/a\nreply-to:/temp-queue/\n\nx\0", "header 'reply-to' must be"),
        ("SEND\ndestination:/queue/a\nAMQ_SCHEDULED_CRON:1\n\nx\0", "AMQ_SCHEDULED_CRON"),
        ("SEND\ndestination:/queue/a\npriority:high\n\nx\0", "header 'priority' must be"),
        ("SEND\ndestination:/queue/a\nuser-id:other\n\nx\0", "authenticated user was 'guest'"),
        ("SEND\ndestination:/queue/a\ntransaction:t\n\nx\0", "Invalid transaction identifier: 't'"),
        ("SEND\ndestination:/queue/a\ndurable:maybe\n\nx\0", "header 'durable' must be true or false"),
        ("SEND\ndestination:/queue/a\nx-message-ttl:soon\n\nx\0", "header 'x-message-ttl' must be a number"),
        ("SEND\ndestination:/queue/a\nx-max-priority:999\n\nx\0", "x-max-priority"),
        ("SUBSCRIBE\nid:s\n\n\0", "SUBSCRIBE must include a 'destination' header"),
        ("SUBSCRIBE\nid:s\ndestination:/amq/queue/none\n\n\0", "no queue 'none' in vhost '/'"),
        ("SUBSCRIBE\nid:s\ndestination:/exchange/none\n\n\0", "no exchange 'none' in vhost '/'"),
        ("SUBSCRIBE\nid:s\ndestination:/topic/a\nno-local:true\ndurable:true\n\n\0", "a 'client-id' header"),
        (
            "SUBSCRIBE\nid:s\ndestination:/topic/a\nx-retained:yes\n\n\0",
            "header 'x-retained' must be true, new or false",
        ),
        ("SUBSCRIBE\nid:s\ndestination:/queue/a\nx-retained:true\n\n\0", "'x-retained' is for a topic or an exchange"),
        ("SEND\ndestination:/topic/a\nx-retain:yes\n\nx\0", "header 'x-retain' must be true or false"),
        ("SUBSCRIBE\nid:s\ndestination:/queue/a\nno-local:yes\n\n\0", "header 'no-local' must be true or false"),
        ("SUBSCRIBE\ndestination:/topic/a\ndurable:true\n\n\0", "Durable subscriptions require a unique Id"),
        ("SUBSCRIBE\nid:s\ndestination:/topic/a\nactivemq.subscriptionName:n\n\n\0", "a 'client-id' header"),
        ("UNSUBSCRIBE\nid:s\ndurable-subscription-name:n\n\n\0", "a 'client-id' header"),
        ("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:sometimes\n\n\0", "auto, client or client-individual"),
        ("SUBSCRIBE\nid:s\ndestination:/queue/a\nprefetch-count:-1\n\n\0", "header 'prefetch-count'"),
        ("SUBSCRIBE\nid:s\ndestination:/queue/a\nx-mesage-ttl:1\n\n\0", "header 'x-mesage-ttl' of SUBSCRIBE"),
        ("SUBSCRIBE\nid:s\ndestination:/topic/a\nx-selector:a = 1\n\n\0", "header 'x-selector' of SUBSCRIBE"),
        ("SUBSCRIBE\nid:s\ndestination:/queue/a\nx-cache-ttl:1\n\n\0", "header 'x-cache-ttl' of SUBSCRIBE"),
        (
            "SUBSCRIBE\nid:s\ndestination:/queue/a\nx-message-groups:yes\n\n\0",
            "'x-message-groups' must be true or false",
        ),
        ("SUBSCRIBE\nid:s\ndestination:/queue/a\nx-group-buckets:8\n\n\0", "has no effect without x-message-groups"),
        ("SUBSCRIBE\nid:s\ndestination:/queue/a\nx-max-age:1D\n\n\0", "invalid arg 'x-max-age' for queue 'a'"),
        ("SUBSCRIBE\nid:s\ndestination:/temp-queue/a\nexclusive:false\n\n\0", "header 'exclusive' must be"),
        (
            "SUBSCRIBE\nid:s\ndestination:/temp-queue/a\nx-max-length:many\n\n\0",
            "header 'x-max-length' must be a number",
        ),
        ("UNSUBSCRIBE\n\n\0", "UNSUBSCRIBE must include a 'destination' or 'id' header"),
        ("BEGIN\n\n\0", "BEGIN must include a 'transaction' header"),
        ("COMMIT\ntransaction:t\n\n\0", "Invalid transaction identifier: 't'"),
        ("ABORT\ntransaction:t\n\n\0", "Invalid transaction identifier: 't'"),
        ("CONNECT\n\n\0", "has opened its session already"),
        ("MESSAGE\n\n\0", "only a server sends MESSAGE"),
        ("SEND\nnocolon\n\n\0", "has no colon"),
    ] {
        let mut peer = Scene::new().connect("1.2");
        peer.say(frame);
        let heard = peer.heard();
        assert!(heard.len() == 1 && heard[0].starts_with("ERROR\n"), "{frame:?}: {heard:?}");
        assert!(heard[0].contains(words), "{frame:?}: {heard:?}");
        assert_eq!(peer.state(), ReadState::Answered);
    }
}

#[test]
fn a_subscription_id_is_used_once() {
    let mut peer = Scene::new().connect("1.2");
    peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0SUBSCRIBE\nid:s\ndestination:/queue/b\nreceipt:1\n\n\0");
    let heard = peer.heard();
    assert!(heard[0].starts_with("ERROR\nmessage:Duplicated subscription identifier\nreceipt-id:1\n"), "{heard:?}");
}

#[test]
fn a_body_that_stops_coming_ends_its_connection() {
    for (length, arrived) in [("content-length:1000\n", 900), ("content-length:100000\n", 900), ("", 900), ("", 90_000)]
    {
        let mut peer = Scene::new().connect("1.2");
        peer.say(&format!("SEND\ndestination:/queue/a\n{length}\n{}", "x".repeat(arrived)));
        peer.pass(Duration::from_secs(59));
        assert_eq!(peer.state(), ReadState::Read, "{length}{arrived}");
        peer.pass(Duration::from_secs(1));
        let heard = peer.heard().join("\n");
        assert!(heard.contains("has arrived for 60 s (limits.body_timeout)"), "{length}{arrived}: {heard}");
        assert_eq!(peer.state(), ReadState::Answered);
    }
}

#[test]
fn what_came_before_a_refused_frame_has_happened() {
    let scene = Scene::new();
    let mut peer = scene.connect("1.2");
    peer.say("SEND\ndestination:/queue/a\n\nx\0SEND\n\ny\0SEND\ndestination:/queue/a\n\nz\0");
    assert_eq!(peer.state(), ReadState::Answered);
    assert_eq!(scene.broker.queues()[0].ready, 1);
}

#[test]
fn permissions_are_the_brokers() {
    let scene = Scene::new();
    talk(&mut scene.connect("1.2"), &[("SEND\ndestination:/queue/a\n\nx\0", &[])]);
    let mut reader = scene.connect_as("reader", "1.2");
    reader.say("SUBSCRIBE\nid:s\ndestination:/amq/queue/a\n\n\0");
    assert_eq!(reader.heard().len(), 1);
    reader.say("SEND\ndestination:/queue/a\nreceipt:1\n\nx\0");
    let heard = reader.heard();
    assert!(heard[0].starts_with("ERROR\nmessage:access_refused\nreceipt-id:1\n"), "{heard:?}");
}

#[test]
fn a_queue_with_other_properties_is_refused() {
    let scene = Scene::new();
    talk(&mut scene.connect("1.2"), &[("SEND\ndestination:/queue/a\nx-message-ttl:60000\n\nx\0", &[])]);
    let mut peer = scene.connect("1.2");
    peer.say("SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0");
    let heard = peer.heard();
    assert!(heard[0].contains("message:precondition_failed") && heard[0].contains("x-message-ttl"), "{heard:?}");
}
