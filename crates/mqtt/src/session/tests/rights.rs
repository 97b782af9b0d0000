//! Rights that are withdrawn from users with stored sessions.

use super::scene::{Peer, Scene, guest, will};
use crate::codec::{Connect, QoS, Reason, Version};

/// M26: CVE-2021-34434. Nor does what waits already, since no filter asks for it any more.
#[test]
fn nothing_comes_to_a_stored_session_that_its_user_may_not_read_any_more() {
    let scene = Scene::new();
    let (mut client, _) = scene.stored("c", 600);
    for filter in ["a/#", "b/#", "$share/g/a/1"] {
        client.subscribe(filter, QoS::AtLeastOnce);
    }
    client.subscribe("a/2", QoS::AtMostOnce);
    client.heard();
    client.drop_connection();
    let mut publisher = scene.v3("p");
    let mut publish = |body: &str| {
        ["a/2", "b/2"].into_iter().for_each(|topic| publisher.publish(1, topic, body));
        publisher.heard();
    };
    publish("before");
    scene.test.may_read_topics("guest", "^b");
    publish("after");
    let (mut client, is_present) = scene.stored("c", 600);
    let topics = |client: &mut Peer| {
        let heard = client.heard();
        heard.iter().map(|line| line.split(' ').skip(2).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert!(is_present);
    assert_eq!(topics(&mut client), ["b/2 before", "b/2 after"]);
    // The same while it is connected.
    scene.test.may_read_topics("guest", ".*");
    client.subscribe("a/#", QoS::AtLeastOnce);
    assert_eq!(client.heard(), ["SUBACK 0x01"]);
    scene.test.may_read_topics("guest", "^b");
    assert_eq!(client.heard(), ["DISCONNECT administrative action"]);
    publish("late");
    let (mut client, _) = scene.stored("c", 600);
    assert!(!topics(&mut client).contains(&"a/2 late".to_owned()));
    client.drop_connection();
    // A user that is deleted reads nothing, and neither does a later one of its name.
    scene.test.user("other", ".*", ".*", ".*");
    let bound = || {
        let bindings = scene.broker.bindings_to_queue("/", "mqtt-session.c.guest");
        bindings.iter().filter(|binding| !binding.source.is_empty()).count()
    };
    assert!(bound() > 0);
    scene.broker.delete_user("guest").unwrap();
    assert_eq!(bound(), 0);
}

/// Topic permissions are for filters, however a session keeps them.
#[test]
fn a_stored_session_may_have_filters_of_each_kind_that_its_user_may_read() {
    let scene = Scene::new();
    scene.test.may_read_topics("guest", "^a\\.");
    let (mut client, _) = scene.stored("c", 600);
    for (filter, reason) in [("a/1", "0x00"), ("$share/g/a/2", "0x00"), ("b/1", "0x87"), ("$share/g/b/2", "0x87")] {
        client.subscribe(filter, QoS::AtMostOnce);
        let heard = client.heard();
        assert!(heard.len() == 1 && heard[0].starts_with(&format!("SUBACK {reason}")), "{filter}: {heard:?}");
    }
    client.drop_connection();
    let (mut client, is_present) = scene.stored("c", 600);
    assert!(is_present);
    ["a/1", "a/2", "b/1"].into_iter().for_each(|topic| scene.v3("p").publish(1, topic, "x"));
    assert_eq!(client.heard().len(), 2);
}

/// The client's own name is one word of the key, whatever letters it has. A change of rights holds
/// the filters of clients that are away to their own names.
#[test]
fn a_topic_permission_may_name_the_client() {
    let scene = Scene::new();
    let mut user = scene.broker.authority().user("guest").unwrap();
    let own =
        auth::TopicPermission::new("guest", "/", "^dev\\.{client_id}\\.", "^(dev\\.{client_id}\\.|all$)").unwrap();
    user.topic_permissions.insert(("/".into(), "amq.topic".into()), own);
    scene.broker.put_user(user).unwrap();
    let ask = |id: &str, filter: &str| {
        let (mut client, _) = scene.stored(id, 600);
        client.subscribe(filter, QoS::AtLeastOnce);
        client.heard()[0].split(' ').nth(1).unwrap().to_owned()
    };
    for (id, filter, answer) in [
        ("one", "dev/one/#", "0x01"),
        ("one", "all", "0x01"),
        ("one", "dev/two/#", "0x87"),
        ("one", "dev/+/x", "0x87"),
        ("two.in", "dev/two.in/x", "0x01"),
        ("two.in", "dev/two/in/x", "0x87"),
        (".*", "dev/one/#", "0x87"),
        (".*", "dev/.*/x", "0x01"),
        ("+", "dev/+/x", "0x87"),
        ("*", "dev/+/x", "0x87"),
        ("#", "dev/#", "0x87"),
    ] {
        assert_eq!(ask(id, filter), answer, "{id} subscribes to {filter}");
    }
    // Publishes are held to it, too; MQTT 5 says why.
    let mut two = scene.v5("two");
    two.publish(1, "dev/two/x", "1");
    two.publish(2, "dev/one/x", "2");
    let heard = two.heard();
    assert!(heard[0].starts_with("PUBACK 1 no matching"), "{heard:?}");
    assert!(heard[1].starts_with("PUBACK 2 not authorized"), "{heard:?}");
    let mut user = scene.broker.authority().user("guest").unwrap();
    user.topic_permissions.insert(
        ("/".into(), "amq.topic".into()),
        auth::TopicPermission::new("guest", "/", ".*", "^dev\\.{client_id}\\.").unwrap(),
    );
    scene.broker.put_user(user).unwrap();
    for (id, filters) in [("one", vec!["dev.one.#"]), ("two.in", vec!["dev.two%2Ein.x"]), (".*", vec!["dev.%2E%2A.x"])]
    {
        let store = crate::session::store::Store::stored(
            &crate::session::claims::ClientKey { vhost: "/".into(), user: "guest".into(), client_id: id.into() },
            600,
        );
        let bindings = scene.broker.bindings_to_queue("/", &store.unwrap().queue);
        let kept: Vec<_> = bindings.iter().filter(|it| !it.source.is_empty()).map(|it| it.key.as_str()).collect();
        assert_eq!(kept, filters, "{id}");
    }
}

/// The name of a user is one level of its topics, whatever letters it has: for filters, publishes
/// and wills, and for filters of clients that are away.
#[test]
fn a_topic_permission_may_name_a_user_with_a_dot() {
    let scene = Scene::new();
    for (name, topic) in [("a.b", "own/a.b/x"), ("a", "own/a/b/x"), ("a%2Eb", "own/a%2Eb/x")] {
        scene.test.user(name, ".*", ".*", ".*");
        let set = |write: &str| {
            let mut user = scene.broker.authority().user(name).unwrap();
            let own = auth::TopicPermission::new(name, "/", write, "^own\\.{username}\\.").unwrap();
            user.topic_permissions.insert(("/".into(), "amq.topic".into()), own);
            scene.broker.put_user(user).unwrap();
        };
        set("^own\\.{username}\\.");
        let (mut client, _) = scene.stored_of(name, "c");
        for other in ["own/a.b/x", "own/a/b/x", "own/a%2Eb/x"] {
            let (subscribed, published) = if other == topic {
                ("SUBACK 0x01", "PUBACK 1 success")
            } else {
                ("SUBACK 0x87", "PUBACK 1 not authorized")
            };
            client.subscribe(other, QoS::AtLeastOnce);
            let heard = client.heard();
            assert!(heard.len() == 1 && heard[0].starts_with(subscribed), "{name} subscribes to {other}: {heard:?}");
            client.publish(1, other, "x");
            let heard = client.heard();
            assert!(heard.iter().any(|line| line.starts_with(published)), "{name} publishes to {other}: {heard:?}");
        }
        client.drop_connection();
        // The broker publishes a will with the same rights, when its client has gone.
        let mut watcher = scene.v3("watcher");
        watcher.subscribe("own/#", QoS::AtMostOnce);
        watcher.heard();
        let will = Some(will(topic, Default::default()));
        let connect = Connect { will, user: Some(name), password: Some(name.as_bytes()), ..guest(Version::V5, "w") };
        let (mut leaver, _) = scene.connect_with(&connect);
        leaver.disconnect(Reason::DisconnectWithWill);
        leaver.run();
        scene.test.housekeep();
        let heard = watcher.heard();
        assert!(heard.iter().any(|line| line.contains("gone")), "the will of {name}: {heard:?}");
        let key = crate::session::claims::ClientKey { vhost: "/".into(), user: name.into(), client_id: "c".into() };
        let queue = crate::session::store::Store::stored(&key, 600).unwrap().queue;
        let bound = || {
            let bindings = scene.broker.bindings_to_queue("/", &queue);
            bindings.iter().filter(|binding| !binding.source.is_empty()).count()
        };
        let before = bound();
        set(".*");
        assert_eq!((before, bound()), (1, 1), "{name} keeps what it has");
    }
}

#[test]
fn a_start_holds_filters_that_name_the_client_to_its_own_name() {
    let disk = testkit::sim_disk::SimDisk::new(1, 64 << 20);
    let scene = Scene::stepped_on(&disk);
    let mut user = scene.broker.authority().user("guest").unwrap();
    let own = auth::TopicPermission::new("guest", "/", ".*", "^dev\\.{client_id}\\.").unwrap();
    user.topic_permissions.insert(("/".into(), "amq.topic".into()), own);
    scene.broker.put_user(user).unwrap();
    let (mut client, _) = scene.resume("one");
    client.subscribe("dev/one/#", QoS::AtLeastOnce);
    client.run();
    scene.test.flush();
    assert_eq!(client.heard(), ["SUBACK 0x01"]);
    client.drop_connection();
    scene.test.flush();
    let scene = scene.restarted();
    let bindings = scene.broker.bindings_to_queue("/", "mqtt-session.one.guest");
    assert!(bindings.iter().any(|binding| binding.key == "dev.one.#"), "{bindings:?}");
}
