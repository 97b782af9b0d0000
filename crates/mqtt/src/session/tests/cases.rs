//! Cases that people reported of other brokers and clients; `docs/conformance.md` lists them.

use std::time::Duration;

use testkit::sim_disk::SimDisk;
use wire::ReadState;

use super::scene::{Peer, Scene, guest, will};
use crate::Settings;
use crate::codec::{
    Connect, Options, Packet, PacketId, Properties, PropertyBlock, PropertyId, Publish, QoS, Reason, Version, Will,
};

const NONE: [&str; 0] = [];

/// The properties of a CONNECT: these numbers.
fn numbers(all: &[(PropertyId, u32)]) -> PropertyBlock {
    let mut block = PropertyBlock::default();
    all.iter().for_each(|(id, number)| _ = block.number(*id, *number));
    block
}

/// A client that goes on with its session, if it has one.
fn resuming<'c>(client_id: &'c str, block: &'c PropertyBlock) -> Connect<'c> {
    Connect { clean_start: false, properties: block.as_properties(), ..guest(Version::V5, client_id) }
}

/// Connects while another connection has the identifier, which ends for it.
fn take_over(scene: &Scene, old: &mut Peer, connect: &Connect<'_>) -> (Peer, Vec<String>) {
    let mut new = scene.accept();
    new.connect(connect);
    let mut heard = Vec::new();
    while heard.is_empty() {
        old.run();
        scene.test.flush();
        heard = new.heard();
        // Other threads check passwords and end sessions.
        std::thread::sleep(Duration::from_millis(1));
    }
    (new, heard)
}

/// Publishes with quality 1 and these properties.
fn publish(peer: &mut Peer, id: u16, topic: &str, properties: Properties<'_>) {
    let (qos, id) = (QoS::AtLeastOnce, PacketId::new(id));
    peer.publish_with(Publish { qos, id, topic, properties, ..Publish::default() });
}

/// M1: MQTT 5 §3.1.4, the will comes before CONNACK, and so before all that the newcomer says.
#[test]
fn the_will_of_a_connection_that_is_taken_over_comes_first() {
    let scene = Scene::new();
    let mut watcher = scene.v3("watcher");
    watcher.subscribe("s", QoS::AtLeastOnce);
    watcher.heard();
    let offline = Will { retain: true, payload: b"offline", ..will("s", Properties::NONE) };
    let connect = Connect { will: Some(offline), ..guest(Version::V5, "d") };
    let mut old = scene.connect_with(&connect).0;
    for _ in 0..50 {
        let mut new = scene.accept();
        // In one segment.
        new.connect(&connect);
        new.retain("s", "online");
        new.run();
        old.driver.wait();
        old.run();
        assert!(new.wait()[0].starts_with("CONNACK success"));
        let heard: Vec<_> =
            watcher.heard().iter().map(|line| line.split(' ').next_back().unwrap().to_owned()).collect();
        assert_eq!(heard, ["offline", "online"]);
        old = new;
        (1..=1000).for_each(|id| watcher.puback(id, Reason::Success));
    }
    let mut late = scene.v3("late");
    late.subscribe("s", QoS::AtMostOnce);
    assert_eq!(late.heard(), ["SUBACK 0x00", "PUBLISH retain s online"]);
}

/// M2: [MQTT-3.1.3-9]
#[test]
fn a_will_that_was_taken_away_never_comes() {
    let scene = Scene::new();
    let mut watcher = scene.v3("watcher");
    watcher.subscribe("w", QoS::AtMostOnce);
    watcher.heard();
    let (of_will, of_connect) = (numbers(&[(PropertyId::WillDelay, 1)]), numbers(&[(PropertyId::SessionExpiry, 600)]));
    let connect = |payload: &'static [u8]| Connect {
        will: Some(Will { payload, ..will("w", of_will.as_properties()) }),
        ..resuming("c", &of_connect)
    };
    scene.connect_with(&connect(b"A")).0.drop_connection();
    scene.pass(300);
    let (mut peer, _) = scene.connect_with(&connect(b"B"));
    peer.disconnect(Reason::DisconnectWithWill);
    peer.heard();
    scene.pass(900);
    assert_eq!(watcher.heard(), NONE);
    scene.pass(100);
    scene.pass(60_000);
    assert_eq!(watcher.heard(), ["PUBLISH w B"]);
}

/// M4: [MQTT-3.8.3-3], also of a will.
#[test]
fn a_client_is_not_told_of_its_own_death() {
    let scene = Scene::new();
    let mut other = scene.v3("other");
    other.subscribe("s", QoS::AtLeastOnce);
    let block = numbers(&[(PropertyId::SessionExpiry, 600)]);
    let connect = Connect { will: Some(will("s", Properties::NONE)), ..resuming("c", &block) };
    let (mut peer, _) = scene.connect_with(&connect);
    let options = Options { qos: QoS::AtLeastOnce, no_local: true, ..Options::default() };
    peer.subscribe_with(&[("s", options)], Properties::NONE);
    peer.heard();
    peer.drop_connection();
    assert_eq!(other.heard(), ["SUBACK 0x01", "PUBLISH 1 s gone"]);
    assert_eq!(scene.connect_with(&connect).0.heard(), NONE);
}

/// M5: [MQTT-3.2.2-3]; SUBACK and UNSUBACK come when the change is on disk.
#[test]
fn what_was_acknowledged_holds_after_a_power_cut() {
    for seed in 1..=10 {
        let disk = SimDisk::new(seed, 64 << 20);
        let mut scene = Scene::stepped_on(&disk);
        for is_there in [true, false] {
            let (mut client, _) = scene.resume("c");
            if is_there {
                client.subscribe("t", QoS::AtLeastOnce)
            } else {
                client.unsubscribe("t")
            }
            assert_eq!(client.heard(), NONE);
            scene.test.flush();
            assert_eq!(client.heard().len(), 1);
            drop(client);
            scene = scene.after_cut(&disk);
            let (mut client, answer) = scene.resume("c");
            assert!(answer.starts_with("CONNACK present"), "{answer}");
            let mut publisher = scene.v3("p");
            publisher.publish(1, "t", "1");
            scene.test.flush();
            assert_eq!(client.heard().len(), usize::from(is_there), "seed {seed}");
            client.puback(1, Reason::Success);
            client.run();
            scene.test.flush();
            drop((client, publisher));
        }
    }
}

/// M6: [3.1.1: MQTT-3.1.2-6]
#[test]
fn a_clean_session_is_gone_after_a_crash() {
    let disk = SimDisk::new(1, 64 << 20);
    let scene = Scene::stepped_on(&disk);
    let mut client = scene.v3("c");
    client.subscribe("t", QoS::AtLeastOnce);
    scene.test.flush();
    assert_eq!(client.heard(), ["SUBACK 0x01"]);
    drop(client);
    let scene = scene.after_cut(&disk);
    assert_eq!(scene.queues(), NONE);
    scene.v3("p").publish(1, "t", "1");
    let (_, answer) = scene.resume("c");
    assert!(answer.starts_with("CONNACK success"), "{answer}");
}

/// M7: [MQTT-3.1.2-4]
#[test]
fn a_clean_start_leaves_a_large_backlog_behind() {
    let scene = Scene::new();
    let (mut client, _) = scene.stored("c", 600);
    client.subscribe("t", QoS::AtLeastOnce);
    client.heard();
    client.drop_connection();
    let mut publisher = scene.v3("p");
    for id in 1..=20_000 {
        publisher.publish(id, "t", "old");
        if id % 200 == 0 {
            publisher.heard();
        }
    }
    let block = numbers(&[(PropertyId::SessionExpiry, 600)]);
    let (mut client, answer) = scene.connect_with(&Connect { clean_start: true, ..resuming("c", &block) });
    assert!(answer.starts_with("CONNACK success"), "{answer}");
    client.subscribe("t", QoS::AtLeastOnce);
    publisher.publish(1, "t", "new");
    assert_eq!(client.heard(), ["SUBACK 0x01", "PUBLISH 1 t new"]);
}

/// M8: MQTT 5 §4.9, the receive maximum is that of the connection.
#[test]
fn each_connection_has_a_window_of_its_own() {
    let scene = Scene::new();
    let connect = |most| {
        let block = numbers(&[(PropertyId::SessionExpiry, 600), (PropertyId::ReceiveMaximum, most)]);
        scene.connect_with(&resuming("c", &block)).0
    };
    let mut client = connect(20);
    client.subscribe("t", QoS::AtLeastOnce);
    let mut publisher = scene.v3("p");
    (1..=10).for_each(|id| publisher.publish(id, "t", &id.to_string()));
    assert_eq!(client.heard().len(), 11);
    client.drop_connection();
    let mut client = connect(3);
    assert_eq!(client.heard(), ["PUBLISH 1 dup t 1", "PUBLISH 2 dup t 2", "PUBLISH 3 dup t 3"]);
    client.puback(1, Reason::Success);
    assert_eq!(client.heard(), ["PUBLISH 4 dup t 4"]);
    client.drop_connection();
    assert_eq!(connect(20).heard().len(), 9);
}

/// M9: [MQTT-3.1.3-2], identifiers are not folded, trimmed or normalised.
#[test]
fn similar_identifiers_are_different_sessions() {
    let disk = SimDisk::new(1, 64 << 20);
    let scene = Scene::stepped_on(&disk);
    let ids = ["Dev1", "dev1", "dev1 ", "\u{e9}", "e\u{301}", "a.b", "a/b", "a%2Fb", "a%2Eb"];
    for (at, id) in ids.iter().enumerate() {
        let (mut client, answer) = scene.resume(id);
        assert!(answer.starts_with("CONNACK success"), "{id}: {answer}");
        client.subscribe(&at.to_string(), QoS::AtLeastOnce);
        client.run();
        scene.test.flush();
        assert_eq!(client.heard(), ["SUBACK 0x01"], "{id}");
    }
    let scene = scene.after_cut(&disk);
    let mut publisher = scene.v3("p");
    (0..ids.len()).for_each(|at| publisher.publish(at as u16 + 1, &at.to_string(), "1"));
    scene.test.flush();
    for (at, id) in ids.iter().enumerate() {
        let (mut client, answer) = scene.resume(id);
        assert!(answer.starts_with("CONNACK present"), "{id}: {answer}");
        assert_eq!(client.heard(), [format!("PUBLISH 1 {at} 1")], "{id}");
    }
}

/// M10: [MQTT-3.2.2-3]
#[test]
fn all_sessions_are_there_when_everybody_comes_back() {
    let disk = SimDisk::new(1, 64 << 20);
    let scene = Scene::stepped_on(&disk);
    let ids: Vec<String> = (0..60).map(|number| format!("c{number}")).collect();
    for id in &ids {
        let (mut client, _) = scene.resume(id);
        client.subscribe("t", QoS::AtLeastOnce);
        client.run();
        scene.test.flush();
    }
    let mut publisher = scene.v3("p");
    (1..=5).for_each(|id| publisher.publish(id, "t", &id.to_string()));
    scene.test.flush();
    drop(publisher);
    let scene = scene.after_cut(&disk);
    let mut peers: Vec<_> = ids.iter().map(|id| scene.resume(id)).collect();
    let block = numbers(&[(PropertyId::SessionExpiry, 600)]);
    for (at, (peer, answer)) in peers.iter_mut().enumerate() {
        assert!(answer.starts_with("CONNACK present"), "{at}: {answer}");
        if at % 10 < 3 {
            let (newer, heard) = take_over(&scene, peer, &resuming(&ids[at], &block));
            assert!(heard[0].starts_with("CONNACK present"), "{at}: {heard:?}");
            assert_eq!(
                (heard.len() - 1 + {
                    *peer = newer;
                    peer.heard().len()
                }),
                5,
                "{at}: {heard:?}"
            );
        } else {
            assert_eq!(peer.heard().len(), 5, "{at}");
        }
    }
}

/// M11: [MQTT-4.3.3-4]
#[test]
fn a_repeated_pubrec_is_answered_and_delivers_nothing() {
    let scene = Scene::new();
    let (mut client, _) = scene.stored("c", 600);
    client.subscribe("t", QoS::ExactlyOnce);
    scene.v3("p").publish_with(Publish {
        qos: QoS::ExactlyOnce,
        id: PacketId::new(9),
        topic: "t",
        ..Publish::default()
    });
    client.heard();
    (0..3).for_each(|_| client.answer(Packet::PubRec, 1, Reason::Success));
    assert_eq!(client.heard(), ["PUBREL 1 success"; 3]);
    client.answer(Packet::PubRec, 1, Reason::Success);
    assert_eq!(client.heard(), ["PUBREL 1 success"]);
    client.answer(Packet::PubComp, 1, Reason::Success);
    client.answer(Packet::PubRec, 1, Reason::Success);
    assert_eq!(client.heard(), ["PUBREL 1 packet identifier not found"]);
    assert_eq!(client.state(), ReadState::Read);
}

/// M12: [MQTT-3.8.4-3], §4.9: quality 0 is outside of the window.
#[test]
fn a_full_window_does_not_stop_quality_0() {
    let scene = Scene::new();
    let block = numbers(&[(PropertyId::ReceiveMaximum, 5)]);
    let (mut client, _) = scene.connect_with(&resuming("c", &block));
    let mut publisher = scene.v3("p");
    let mut publish = |count| {
        (1..=count).for_each(|id| publisher.publish(id, "t", "1"));
        publisher.run();
    };
    client.subscribe("t", QoS::AtLeastOnce);
    publish(5);
    assert_eq!(client.heard().len(), 6);
    client.subscribe("t", QoS::AtMostOnce);
    publish(50);
    let heard = client.heard();
    assert_eq!((heard.len(), heard[50].as_str()), (51, "PUBLISH t 1"));
    (1..=5).for_each(|id| client.puback(id, Reason::Success));
    client.subscribe("t", QoS::AtLeastOnce);
    publish(50);
    assert_eq!(client.heard().len(), 1 + 5);
    // Each makes room for the next.
    (6..=50).for_each(|id| client.puback(id, Reason::Success));
    assert_eq!(client.heard().len(), 45);
}

/// M13: MQTT 5 §2.2.1, identifiers of the two directions are independent.
#[test]
fn a_client_may_use_the_identifier_that_the_server_uses() {
    type Step = fn(&mut Peer);
    let publish: Step = |peer| {
        let (qos, id) = (QoS::ExactlyOnce, PacketId::new(1));
        peer.publish_with(Publish { qos, id, topic: "t", payload: b"mine", ..Publish::default() });
    };
    let steps: [(Step, [&str; 2]); 4] = [
        (|peer| peer.answer(Packet::PubRec, 1, Reason::Success), ["PUBREL 1 success", ""]),
        (publish, ["PUBREC 1 success", "PUBLISH 2 t mine"]),
        (|peer| peer.answer(Packet::PubComp, 1, Reason::Success), ["", ""]),
        (|peer| peer.answer(Packet::PubRel, 1, Reason::Success), ["PUBCOMP 1 success", ""]),
    ];
    // The order within each handshake stays.
    for order in [[0, 1, 2, 3], [0, 1, 3, 2], [0, 2, 1, 3], [1, 0, 2, 3], [1, 0, 3, 2], [1, 3, 0, 2]] {
        let scene = Scene::new();
        let mut client = scene.v5("c");
        client.subscribe("t", QoS::ExactlyOnce);
        let mut other = scene.v5("p");
        other.publish_with(Publish { qos: QoS::ExactlyOnce, id: PacketId::new(7), topic: "t", ..Publish::default() });
        assert_eq!(client.heard().len(), 2);
        for at in order {
            let (step, expected) = steps[at];
            step(&mut client);
            let mut heard = client.heard();
            heard.sort();
            let mut expected: Vec<_> = expected.into_iter().filter(|line| !line.is_empty()).collect();
            expected.sort_unstable();
            assert_eq!(heard, expected, "{order:?}, step {at}");
        }
        client.answer(Packet::PubRec, 2, Reason::Success);
        assert_eq!(client.heard(), ["PUBREL 2 success"]);
    }
}

/// M14: MQTT 5 §3.3.4, §4.8.2
#[test]
fn a_member_of_a_group_gets_its_own_subscription_identifier() {
    let scene = Scene::new();
    let mut members: Vec<_> = (1..=2).map(|number| scene.v5(&format!("m{number}"))).collect();
    for (member, number) in members.iter_mut().zip(1..) {
        let block = numbers(&[(PropertyId::SubscriptionId, number)]);
        let options = Options { qos: QoS::AtLeastOnce, ..Options::default() };
        member.subscribe_with(&[("$share/g/a", options)], block.as_properties());
        assert_eq!(member.heard(), ["SUBACK 0x01"]);
    }
    let mut publisher = scene.v3("p");
    (1..=20).for_each(|id| publisher.publish(id, "a", "1"));
    for (member, number) in members.iter_mut().zip(1..) {
        let heard = member.heard();
        assert_eq!(heard.len(), 10);
        assert!(heard.iter().all(|line| line.ends_with(&format!(" SubscriptionId={number}"))), "{heard:?}");
    }
}

/// M15: MQTT 5 §4.8.2, the filter belongs to the group's identity.
#[test]
fn groups_of_one_name_on_other_filters_are_other_groups() {
    let scene = Scene::new();
    let mut members: Vec<_> = ["$share/g/x/#", "$share/g/y/#", "$share/g/+/1"]
        .iter()
        .map(|filter| {
            let mut member = scene.v5(filter);
            member.subscribe(filter, QoS::AtMostOnce);
            assert_eq!(member.heard(), ["SUBACK 0x00"]);
            member
        })
        .collect();
    let mut publisher = scene.v3("p");
    ["x/1", "y/1", "x/2"].iter().for_each(|topic| publisher.publish(0, topic, "m"));
    let heard: Vec<_> = members.iter_mut().map(Peer::heard).collect();
    assert_eq!(heard[0], ["PUBLISH x/1 m", "PUBLISH x/2 m"]);
    assert_eq!(heard[1], ["PUBLISH y/1 m"]);
    assert_eq!(heard[2], ["PUBLISH x/1 m", "PUBLISH y/1 m"]);
}

/// M16: [MQTT-4.7.2-1] looks at the filter behind the name of the group.
#[test]
fn a_wildcard_of_a_group_matches_no_topic_of_the_server() {
    let scene = Scene::new();
    let filters = ["$dev/1/#", "$share/g/#", "$share/g/+/1/x", "$share/h/$dev/#", "#"];
    let mut members: Vec<_> = filters
        .iter()
        .map(|filter| {
            let mut member = scene.v5(filter);
            member.subscribe(filter, QoS::AtLeastOnce);
            assert_eq!(member.heard(), ["SUBACK 0x01"]);
            member
        })
        .collect();
    let mut publisher = scene.v3("p");
    publisher.publish(1, "$dev/1/x", "$");
    publisher.publish(2, "dev/1/x", "d");
    publisher.run();
    let got = |line: &String| line.starts_with("PUBLISH").then(|| line.split(' ').next_back().unwrap().to_owned());
    let heard: Vec<Vec<String>> =
        members.iter_mut().map(|member| member.heard().iter().filter_map(got).collect()).collect();
    assert_eq!(heard, [vec!["$"], vec!["d"], vec!["d"], vec!["$"], vec!["d"]]);
}

/// M17: a group has one queue, so what its members left waits for any of them.
#[test]
fn one_member_gets_the_whole_backlog_of_its_group() {
    let scene = Scene::new();
    for id in ["a", "b"] {
        let (mut member, _) = scene.stored(id, 600);
        member.subscribe("$share/g/t", QoS::AtLeastOnce);
        assert_eq!(member.heard(), ["SUBACK 0x01"]);
        member.drop_connection();
    }
    let mut publisher = scene.v3("p");
    (1..=100).for_each(|id| publisher.publish(id, "t", "1"));
    publisher.run();
    assert_eq!(scene.stored("a", 600).0.heard().len(), 100);
}

/// M18: MQTT 5 §3.3.1.3, retained messages are sent on SUBSCRIBE.
#[test]
fn retained_messages_do_not_come_again_with_a_connection() {
    let scene = Scene::new();
    let mut publisher = scene.v3("p");
    for topic in ["a/1", "a/2", "a/3"] {
        let (qos, id) = (QoS::AtLeastOnce, Some(PacketId::MIN));
        publisher.publish_with(Publish { qos, id, retain: true, topic, payload: b"1", ..Publish::default() });
    }
    publisher.run();
    let (mut client, _) = scene.stored("c", 600);
    client.subscribe("a/#", QoS::AtLeastOnce);
    assert_eq!(client.heard().len(), 4);
    (1..=2).for_each(|id| client.puback(id, Reason::Success));
    client.run();
    let block = numbers(&[(PropertyId::SessionExpiry, 600)]);
    let (mut client, heard) = take_over(&scene, &mut client, &resuming("c", &block));
    assert_eq!(heard.len() - 1 + client.heard().len(), 1, "{heard:?}");
    client.puback(3, Reason::Success);
    client.drop_connection();
    assert_eq!(scene.stored("c", 600).0.heard(), NONE);
}

/// M19: MQTT 5 §4.7.2, topics of the server are the server's.
#[test]
fn clients_cannot_publish_what_the_server_says() {
    let scene = Scene::new();
    let mut watcher = scene.v3("watcher");
    watcher.subscribe("$SYS/#", QoS::AtLeastOnce);
    watcher.heard();
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let mut client = scene.v5("c");
        let id = (qos != QoS::AtMostOnce).then_some(PacketId::MIN);
        client.publish_with(Publish { qos, id, retain: true, topic: "$SYS/x", payload: b"1", ..Publish::default() });
        assert_eq!(client.heard(), ["DISCONNECT topic name invalid"]);
    }
    let connect = Connect { will: Some(will("$SYS/x", Properties::NONE)), ..guest(Version::V5, "w") };
    let (_, heard) = scene.connect_with(&connect);
    assert!(heard.starts_with("CONNACK topic name invalid"), "{heard}");
    assert_eq!(watcher.heard(), NONE);
}

/// M20: [MQTT-3.3.2-7]
#[test]
fn aliases_end_with_their_connection() {
    let scene = Scene::new();
    let block = numbers(&[
        (PropertyId::SessionExpiry, 600),
        (PropertyId::TopicAliasMaximum, 10),
        (PropertyId::ReceiveMaximum, 2),
    ]);
    let connect = resuming("c", &block);
    let (mut client, _) = scene.connect_with(&connect);
    client.subscribe("#", QoS::AtLeastOnce);
    let mut publisher = scene.v3("p");
    (1..=2).for_each(|id| publisher.publish(id, "a/long/topic", "1"));
    assert_eq!(client.heard()[1..], ["PUBLISH 1 a/long/topic 1 TopicAlias=1", "PUBLISH 2  1 TopicAlias=1"]);
    client.drop_connection();
    let (mut client, _) = scene.connect_with(&connect);
    assert_eq!(client.heard(), ["PUBLISH 1 dup a/long/topic 1 TopicAlias=1", "PUBLISH 2 dup  1 TopicAlias=1"]);
}

/// M21: MQTT 5 §4.13.2 with §3.3.2.3.4, a refused publish has set its alias.
#[test]
fn an_alias_is_set_by_a_message_that_is_refused() {
    let scene = Scene::new();
    scene.test.user("weak", "^mqtt-.*", "^mqtt-.*", "^mqtt-.*");
    let (mut client, _) =
        scene.connect_with(&Connect { user: Some("weak"), password: Some(b"weak"), ..guest(Version::V5, "w") });
    let block = numbers(&[(PropertyId::TopicAlias, 1)]);
    for (id, topic) in [(1, "a"), (2, "")] {
        publish(&mut client, id, topic, block.as_properties());
        let heard = client.heard();
        assert!(heard.len() == 1 && heard[0].starts_with(&format!("PUBACK {id} not authorized")), "{heard:?}");
    }
    let mut client = scene.v5("c");
    for (id, topic) in [(1, "b"), (2, "")] {
        publish(&mut client, id, topic, block.as_properties());
        assert_eq!(client.heard(), [format!("PUBACK {id} no matching subscribers")]);
    }
}

/// M22: MQTT 5 §3.1.4, §3.1.3.2.2: a session without an expiry ends with its connection, and the
/// delay of its will with it.
#[test]
fn a_session_that_ends_with_its_connection_leaves_its_will_at_once_and_nothing_else() {
    let scene = Scene::new();
    let mut watcher = scene.v3("watcher");
    watcher.subscribe("w", QoS::AtMostOnce);
    watcher.heard();
    let (none, delay) = (PropertyBlock::default(), numbers(&[(PropertyId::WillDelay, 30)]));
    let connect = Connect { will: Some(will("w", delay.as_properties())), ..resuming("s", &none) };
    let (mut old, _) = scene.connect_with(&connect);
    old.subscribe("a", QoS::AtLeastOnce);
    old.heard();
    let block = numbers(&[(PropertyId::SessionExpiry, 60)]);
    let (mut new, heard) = take_over(&scene, &mut old, &resuming("s", &block));
    assert!(heard[0].starts_with("CONNACK success"), "{heard:?}");
    assert_eq!(watcher.heard(), ["PUBLISH w gone"]);
    scene.v3("p").publish(1, "a", "1");
    assert_eq!(new.heard(), NONE);
}

/// M23: MQTT 5 §3.3.2.3.6, what is empty is not left out.
#[test]
fn empty_properties_are_kept() {
    let scene = Scene::new();
    let mut block = PropertyBlock::default();
    block.text(PropertyId::ContentType, "").binary(PropertyId::CorrelationData, b"").pair("", "");
    let (mut queued, _) = scene.stored("queued", 600);
    let mut live = scene.v5("live");
    for client in [&mut queued, &mut live] {
        client.subscribe("t", QoS::AtLeastOnce);
        client.heard();
    }
    queued.drop_connection();
    let mut publisher = scene.v5("p");
    let retain =
        Publish { retain: true, topic: "t", payload: b"1", properties: block.as_properties(), ..Publish::default() };
    publisher.publish_with(Publish { qos: QoS::AtLeastOnce, id: PacketId::new(1), ..retain });
    publisher.run();
    let mut late = scene.v5("late");
    late.subscribe("t", QoS::AtLeastOnce);
    let (mut queued, _) = scene.stored("queued", 600);
    for client in [&mut queued, &mut live, &mut late] {
        let heard = client.heard();
        let last = heard.last().unwrap();
        assert!(last.ends_with(" t 1 ContentType= CorrelationData= :"), "{heard:?}");
    }
}

/// M24: MQTT 3.1 has no flag for a session, and is otherwise as 3.1.1.
#[test]
fn old_clients_have_their_own_connack() {
    let scene = Scene::new();
    let id = "an-identifier-of-30-characters";
    let connect = Connect { clean_start: false, ..guest(Version::V3_1, id) };
    for round in 0..2 {
        let mut peer = scene.accept();
        peer.connect(&connect);
        while peer.driver.output.len() < 4 {
            peer.driver.wait();
        }
        assert_eq!(peer.driver.output[..4], *b"\x20\x02\0\0", "{round}");
        peer.driver.output.drain(..4);
        peer.subscribe("t", QoS::AtLeastOnce);
        let heard = peer.heard();
        assert_eq!(heard.iter().filter(|line| line.starts_with("PUBLISH")).count(), round, "{heard:?}");
        peer.drop_connection();
        scene.v3("p").publish(1, "t", "1");
    }
    let mut peer = scene.accept();
    peer.connect(&guest(Version::V3_1, ""));
    assert_eq!(peer.driver.output, b"\x20\x02\0\x02");
}

/// M25: MQTT 5 §3.1.2.9; an empty name is not the absence of one.
#[test]
fn half_of_a_log_in_is_not_another_one() {
    let default_login = Some(("guest".to_owned(), "guest".to_owned()));
    let scene = Scene::with(Settings { default_login, ..Settings::default() });
    let of = |version, user, password| Connect { user, password, ..guest(version, "c") };
    for (connect, is_let_in) in [
        (of(Version::V3_1_1, Some("guest"), None), false),
        (of(Version::V3_1_1, Some(""), Some(&b"guest"[..])), false),
        (of(Version::V5, None, Some(b"token")), false),
        (of(Version::V5, Some(""), Some(b"")), false),
        (of(Version::V5, None, None), true),
        (Connect { will: Some(will("w", Properties::NONE)), ..of(Version::V5, Some("guest"), Some(b"guest")) }, true),
    ] {
        let (peer, heard) = scene.connect_with(&connect);
        assert_eq!(heard.starts_with("CONNACK success"), is_let_in, "{connect:?}: {heard}");
        assert!(is_let_in || heard.starts_with("CONNACK bad user name or password"), "{connect:?}: {heard}");
        peer.drop_connection();
    }
}

/// M27: nothing caps a keep-alive, so a client that cannot be told of a cap is not cut by one.
#[test]
fn a_client_has_the_keep_alive_that_it_says() {
    for (version, keep_alive) in [(Version::V3_1_1, 120), (Version::V3_1_1, 0), (Version::V5, 0)] {
        let scene = Scene::new();
        let (mut peer, heard) = scene.connect_with(&Connect { keep_alive, ..guest(version, "c") });
        assert!(!heard.contains("ServerKeepAlive"), "{heard}");
        for _ in 0..5 {
            peer.pass(Duration::from_secs(100));
            peer.say(&Packet::PingReq);
            assert_eq!(peer.heard(), ["PINGRESP"], "{version:?} {keep_alive}");
        }
    }
}

/// M28: a client that answers many together gets as many as it says that it takes.
#[test]
fn the_receive_maximum_of_a_client_is_used_in_full() {
    let scene = Scene::new();
    let block = numbers(&[(PropertyId::ReceiveMaximum, 1000)]);
    for (connect, expected) in [(resuming("new", &block), 1000), (guest(Version::V3_1_1, "old"), 256)] {
        let (mut client, _) = scene.connect_with(&connect);
        client.subscribe("t", QoS::AtLeastOnce);
        assert_eq!(client.heard(), ["SUBACK 0x01"]);
        let mut publisher = scene.v3("p");
        for id in 1..=2000 {
            publisher.publish(id, "t", "1");
            if id % 100 == 0 {
                publisher.heard();
            }
        }
        assert_eq!(client.heard().len(), expected);
        client.drop_connection();
        publisher.drop_connection();
    }
}

/// M29: a dead letter has the identifier of the subscription that gets it, and no RETAIN.
#[test]
fn a_dead_letter_carries_nothing_of_its_first_subscription() {
    let scene = Scene::new();
    let text = |text: &str| broker::Value::Text(text.to_owned());
    let arguments = broker::Table(vec![
        ("x-dead-letter-exchange".to_owned(), text("amq.topic")),
        ("x-dead-letter-routing-key".to_owned(), text("dead.a")),
    ]);
    let mut owner = scene.client();
    let now = scene.test.now();
    let spec = broker::QueueSpec { name: "q".to_owned(), durable: true, arguments, ..broker::QueueSpec::default() };
    owner.declare_queue(&spec, now).unwrap();
    owner
        .bind(
            &broker::BindingSpec {
                source: "amq.topic".to_owned(),
                destination: broker::DestinationName::Queue("q".to_owned()),
                key: "live".to_owned(),
                arguments: broker::Table::default(),
            },
            now,
        )
        .unwrap();
    let mut watcher = scene.v5("watcher");
    let block = numbers(&[(PropertyId::SubscriptionId, 1)]);
    let options = Options { qos: QoS::AtLeastOnce, ..Options::default() };
    watcher.subscribe_with(&[("dead/#", options)], block.as_properties());
    let mut publisher = scene.v5("p");
    let expiry = numbers(&[(PropertyId::MessageExpiry, 1)]);
    publish(&mut publisher, 1, "live", expiry.as_properties());
    publisher.run();
    scene.test.setup.clock.advance(2_000);
    scene.test.housekeep();
    let deaths = "x-first-death-queue:q x-first-death-reason:expired x-first-death-exchange:amq.topic \
                  x-last-death-queue:q x-last-death-reason:expired x-last-death-exchange:amq.topic";
    assert_eq!(watcher.heard(), ["SUBACK 0x01".to_owned(), format!("PUBLISH 1 dead/a  {deaths} SubscriptionId=1")]);
}

/// M30: [MQTT-4.4.0-1], [MQTT-4.6.0-5]
#[test]
fn nothing_is_lost_when_a_session_is_taken_over_again_and_again() {
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let scene = Scene::new();
        let block = numbers(&[(PropertyId::SessionExpiry, 600)]);
        let connect = resuming("s", &block);
        let (mut client, _) = scene.connect_with(&connect);
        client.subscribe("t", qos);
        client.heard();
        let mut publisher = scene.v5("p");
        let (mut got, mut taken, mut heard) = (Vec::new(), std::collections::BTreeSet::new(), Vec::new());
        for number in 1..=400_u16 {
            publisher.publish_with(Publish {
                qos,
                id: PacketId::new(number),
                topic: "t",
                payload: number.to_string().as_bytes(),
                ..Publish::default()
            });
            publisher.answer(Packet::PubRel, number, Reason::Success);
            publisher.heard();
            heard.extend(client.heard());
            let (mut last, is_taken_over) = (0, number % 20 == 7);
            for line in heard.drain(..) {
                let words: Vec<_> = line.split(' ').collect();
                let id: u16 = words[1].parse().unwrap_or_default();
                match words[0] {
                    "PUBLISH" => {
                        let payload: u16 = words[words.len() - 1].parse().unwrap();
                        let is_new = if qos == QoS::AtLeastOnce { !got.contains(&payload) } else { taken.insert(id) };
                        assert!(is_new || words[2] == "dup", "{line}");
                        if is_new {
                            assert!(payload > last, "{line}");
                            (last, _) = (payload, got.push(payload));
                        }
                        // Every other one is answered by the next connection.
                        if !is_taken_over || number % 2 == 0 {
                            let packet = if qos == QoS::AtLeastOnce { Packet::PubAck } else { Packet::PubRec };
                            client.answer(packet, id, Reason::Success);
                        }
                    }
                    "PUBREL" => {
                        taken.remove(&id);
                        client.answer(Packet::PubComp, id, Reason::Success);
                    }
                    _ => {}
                }
            }
            if is_taken_over {
                (client, heard) = take_over(&scene, &mut client, &connect);
                assert!(heard[0].starts_with("CONNACK present"), "{heard:?}");
            }
        }
        got.sort_unstable();
        assert_eq!(got, (1..=400).collect::<Vec<_>>(), "{qos:?}");
    }
}
