//! Every operation with every combination of permissions on its objects, compared with a table.
//! RabbitMQ's STOMP plugin turns a frame into AMQP operations. The table has the permissions that
//! RabbitMQ documents for these operations.

use auth::{Cost, PasswordHash, Permission, User};
use testkit::rights::{cases, wrong};

use super::Scene;

/// An object that is not declared is looked up first, which needs any one permission on it.
const ANY_ON_Q: &str = "read queue q|write queue q|configure queue q";
const ANY_ON_E: &str = "read exchange e|write exchange e|configure exchange e";
const ANY_ON_TOPIC: &str = "read exchange amq.topic|write exchange amq.topic|configure exchange amq.topic";

/// A frame and the permissions that it needs. `#` stands for the number of the case. The queue `q`
/// and the exchange `e` exist; the queue `n` does not; `a` is an exchange for dead letters.
const TABLE: [(&str, &[&str]); 10] = [
    ("SEND\ndestination:/queue/n#\nreceipt:r\n\nm\0", &["configure queue n", "write exchange amq.default"]),
    ("SEND\ndestination:/queue/q#\nreceipt:r\n\nm\0", &["configure queue q", "write exchange amq.default"]),
    ("SEND\ndestination:/amq/queue/q#\nreceipt:r\n\nm\0", &["write exchange amq.default"]),
    ("SEND\ndestination:/exchange/e#/k\nreceipt:r\n\nm\0", &["write exchange e"]),
    ("SEND\ndestination:/topic/k\nreceipt:r\n\nm\0", &["write exchange amq.topic"]),
    ("SUBSCRIBE\nid:s\ndestination:/queue/q#\nreceipt:r\n\n\0", &["configure queue q", "read queue q"]),
    ("SUBSCRIBE\nid:s\ndestination:/amq/queue/q#\nreceipt:r\n\n\0", &[ANY_ON_Q, "read queue q"]),
    (
        "SUBSCRIBE\nid:s\ndestination:/exchange/e#/k\nx-queue-name:n#\nreceipt:r\n\n\0",
        &[ANY_ON_E, "configure queue n", "write queue n", "read queue n", "read exchange e"],
    ),
    (
        "SUBSCRIBE\nid:s\ndestination:/topic/k\nx-queue-name:n#\nreceipt:r\n\n\0",
        &[ANY_ON_TOPIC, "configure queue n", "write queue n", "read queue n", "read exchange amq.topic"],
    ),
    (
        "SUBSCRIBE\nid:s\ndestination:/queue/n#\nx-dead-letter-exchange:a#\nreceipt:r\n\n\0",
        &["configure queue n", "read queue n", "write exchange a"],
    ),
];

fn disagreements(scene: &Scene, next: &mut usize, frame: &str, needs: &[&str]) -> Vec<String> {
    let mut admin = scene.client();
    let mut found = Vec::new();
    for case in cases(needs, next) {
        let number = case.number();
        prepare(&mut admin, number);
        let cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };
        let mut user = User::new("someone", Some(PasswordHash::create(b"someone", [1; 16], cost).unwrap()));
        user.permissions.insert("/".into(), case.permission());
        scene.broker.authority().put(user).unwrap();
        let mut peer = scene.connect_as("someone", "1.2");
        peer.say(&frame.replace('#', &number.to_string()));
        let said = peer.wait_for_frames().remove(0);
        let refused = said.starts_with("ERROR\nmessage:access_refused");
        let disagreement = case.disagrees("someone", if refused { Err(&said) } else { Ok(&said) });
        found.extend(disagreement.map(|text| format!("{frame:?}: {text}")));
    }
    found
}

/// Declares the objects of a case.
fn prepare(admin: &mut broker::Client, number: usize) {
    let now = std::time::Instant::now();
    for exchange in ["e", "a"] {
        let spec =
            broker::ExchangeSpec { name: format!("{exchange}{number}"), kind: "topic".into(), ..Default::default() };
        admin.declare_exchange(&spec, now).unwrap();
    }
    let spec = broker::QueueSpec { name: format!("q{number}"), durable: true, ..Default::default() };
    admin.declare_queue(&spec, now).unwrap();
}

#[test]
fn each_frame_needs_the_rights_that_are_documented_and_no_others() {
    let scene = Scene::new();
    let mut cases = 0;
    for (frame, needs) in TABLE {
        assert_eq!(disagreements(&scene, &mut cases, frame, needs), Vec::<String>::new());
    }
    assert!(cases > 300, "{cases} cases");
}

/// Without this the test above could pass whatever the broker does.
#[test]
fn a_wrong_line_of_the_table_is_found() {
    let mut cases = 0;
    for (frame, needs) in TABLE {
        let scene = Scene::new();
        for place in 0..needs.len() {
            let needs = wrong(needs, place);
            let needs: Vec<_> = needs.iter().map(String::as_str).collect();
            assert_ne!(disagreements(&scene, &mut cases, frame, &needs), Vec::<String>::new(), "{frame:?}");
        }
    }
}

/// Changes the user `reader` as an operator does.
fn change_reader(scene: &Scene, change: impl FnOnce(&mut User)) {
    let change = |user: &mut User| {
        change(user);
        Ok(())
    };
    scene.broker.change_user("reader", change).unwrap();
}

#[test]
fn a_subscription_and_a_connection_end_with_the_rights_that_they_came_with() {
    let subscribe = ["SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0", "SUBSCRIBE\nid:s\ndestination:/topic/t\n\n\0"];
    for (frame, unreadable) in subscribe.into_iter().zip(["^q$", "^amq[.]topic$"]) {
        let scene = Scene::new();
        let all = |user: &mut User| drop(user.permissions.insert("/".into(), Permission::full()));
        change_reader(&scene, all);
        let mut peer = scene.connect_as("reader", "1.2");
        peer.say(frame);
        assert_eq!(peer.heard(), Vec::<String>::new());
        let others = Permission::new(".*", ".*", &format!("^(?!{unreadable})")).unwrap();
        change_reader(&scene, |user| drop(user.permissions.insert("/".into(), others)));
        peer.run();
        let heard = peer.heard().remove(0);
        assert!(heard.starts_with("ERROR\nmessage:Server cancelled subscription\n"), "{frame:?}: {heard}");
        let mut peer = scene.connect_as("reader", "1.2");
        change_reader(&scene, |user| drop(user.permissions.remove("/")));
        peer.run();
        let heard = peer.heard().remove(0);
        assert!(heard.starts_with("ERROR\nmessage:Connection forced\n"), "{heard}");
        assert!(heard.ends_with("user 'reader' has no access to vhost '/' any more"), "{heard}");
    }
}
