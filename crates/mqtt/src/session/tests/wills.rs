//! Wills: at which ends of a connection they are sent, and when.

use std::time::Duration;

use testkit::sim_disk::SimDisk;
use wire::CloseReason;

use super::scene::{Peer, Scene, guest, will};
use crate::codec::{Connect, PropertyBlock, PropertyId, QoS, Reason, Version};

#[derive(PartialEq, Eq)]
enum Start {
    Clean,
    Resumed,
}

/// A client of MQTT 5 with this will delay and session expiry, in seconds.
fn with_will(scene: &Scene, delay: u32, expiry: u32, start: Start) -> (Peer, String) {
    let (mut of_will, mut of_connect) = (PropertyBlock::default(), PropertyBlock::default());
    if delay > 0 {
        of_will.number(PropertyId::WillDelay, delay);
    }
    of_connect.number(PropertyId::SessionExpiry, expiry);
    let connect = Connect {
        will: Some(will("wills/c", of_will.as_properties())),
        properties: of_connect.as_properties(),
        clean_start: start == Start::Clean,
        keep_alive: 10,
        ..guest(Version::V5, "c")
    };
    scene.connect_with(&connect)
}

fn watcher(scene: &Scene) -> Peer {
    let mut watcher = scene.v3("watcher");
    watcher.subscribe("wills/#", QoS::AtMostOnce);
    assert_eq!(watcher.heard(), ["SUBACK 0x00"]);
    watcher
}

/// [MQTT-3.1.2-8], [MQTT-3.1.2-10]
#[test]
fn a_will_is_sent_unless_the_client_says_goodbye() {
    type Ends = fn(&mut Peer);
    let cases: [(&str, usize, Ends); 7] = [
        ("goodbye", 0, |peer| peer.disconnect(Reason::Success)),
        ("goodbye with the will", 1, |peer| peer.disconnect(Reason::DisconnectWithWill)),
        ("silence", 1, |peer| peer.pass(Duration::from_secs(16))),
        ("an error", 1, |peer| peer.driver.say(b"\xff\0")),
        ("an end of the socket", 1, |peer| peer.driver.connection.close(CloseReason::Gone, peer.driver.now)),
        ("an operator", 1, |peer| {
            peer.driver.connection.close(CloseReason::Forced("x".into()), peer.driver.now);
        }),
        ("the end of the server", 1, |peer| peer.driver.connection.close(CloseReason::Shutdown, peer.driver.now)),
    ];
    for (why, count, end) in cases {
        let scene = Scene::new();
        let mut watcher = watcher(&scene);
        let (mut peer, _) = with_will(&scene, 0, 0, Start::Clean);
        assert_eq!(watcher.heard().len(), 0);
        end(&mut peer);
        assert_eq!(watcher.heard(), vec!["PUBLISH wills/c gone".to_owned(); count], "{why}");
    }
}

/// [MQTT-3.1.3-9]; never early.
#[test]
fn a_delayed_will_waits_for_its_time_or_the_end_of_its_session() {
    let scene = Scene::new();
    let mut watcher = watcher(&scene);
    for (delay, expiry, due) in [(5, 100, 5), (5, 3, 3), (0, 100, 0), (5, 0, 0)] {
        let (peer, _) = with_will(&scene, delay, expiry, Start::Clean);
        peer.drop_connection();
        if due > 0 {
            scene.pass(due * 1000 - 1);
            assert_eq!(watcher.heard(), [""; 0], "{delay} {expiry}");
            scene.pass(1);
        }
        assert_eq!(watcher.heard(), ["PUBLISH wills/c gone"], "{delay} {expiry}");
    }
}

#[test]
fn a_client_that_comes_back_takes_its_will_away() {
    let scene = Scene::new();
    let mut watcher = watcher(&scene);
    let (peer, _) = with_will(&scene, 5, 100, Start::Clean);
    peer.drop_connection();
    let (peer, heard) = with_will(&scene, 5, 100, Start::Resumed);
    assert!(heard.starts_with("CONNACK present"), "{heard}");
    scene.pass(60_000);
    assert_eq!(watcher.heard(), [""; 0]);
    peer.drop_connection();
    // A new session ends the old one, whose will is published before it begins.
    let (_peer, heard) = with_will(&scene, 5, 100, Start::Clean);
    assert!(heard.starts_with("CONNACK success"), "{heard}");
    assert_eq!(watcher.heard(), ["PUBLISH wills/c gone"]);
}

#[test]
fn an_alarm_holds_wills_up() {
    for delay in [0, 5] {
        let scene = Scene::new();
        let mut watcher = watcher(&scene);
        let (peer, _) = with_will(&scene, delay, 100, Start::Clean);
        scene.broker.force_alarm("memory", broker::Switch::On).unwrap();
        peer.drop_connection();
        (0..20).for_each(|_| scene.pass(1000));
        assert_eq!(watcher.heard(), [""; 0], "{delay}");
        scene.broker.force_alarm("memory", broker::Switch::Off).unwrap();
        (0..2).for_each(|_| scene.pass(1000));
        assert_eq!(watcher.heard(), ["PUBLISH wills/c gone"], "{delay}");
    }
}

/// [MQTT-3.1.2-15]
#[test]
fn a_will_may_be_retained() {
    let scene = Scene::new();
    let last = crate::codec::Will { retain: true, ..will("wills/c", Default::default()) };
    let (peer, _) = scene.connect_with(&Connect { will: Some(last), ..guest(Version::V3_1_1, "c") });
    peer.drop_connection();
    let mut late = scene.v3("late");
    late.subscribe("wills/#", QoS::AtMostOnce);
    assert_eq!(late.heard(), ["SUBACK 0x00", "PUBLISH retain wills/c gone"]);
}

/// A client with this will, over a journal that is flushed as often as it takes.
fn with_flushed_will(scene: &Scene, client_id: &str, of_will: &PropertyBlock, expiry: u32) -> (Peer, String) {
    let mut of_connect = PropertyBlock::default();
    of_connect.number(PropertyId::SessionExpiry, expiry);
    let connect = Connect {
        will: Some(will("wills/c", of_will.as_properties())),
        properties: of_connect.as_properties(),
        clean_start: false,
        ..guest(Version::V5, client_id)
    };
    scene.connect_flushed(&connect)
}

fn delay(seconds: u32) -> PropertyBlock {
    let mut block = PropertyBlock::default();
    block.number(PropertyId::WillDelay, seconds);
    block
}

/// A stored session that watches, and what it is told once the broker is there again.
fn stored_watcher(scene: &Scene) {
    let (mut watcher, _) = scene.resume("watcher");
    watcher.subscribe("wills/#", QoS::AtLeastOnce);
    watcher.run();
    scene.test.flush();
    assert_eq!(watcher.heard(), ["SUBACK 0x01"]);
}

fn told(scene: &Scene) -> Vec<String> {
    let (mut watcher, _) = scene.resume("watcher");
    scene.test.flush();
    let heard = watcher.heard();
    heard.iter().filter_map(|line| line.find("wills/").map(|at| line[at..].to_owned())).collect()
}

/// MQTT 5 §3.1.2.5: the end of the server may put a will off, and does not lose it.
#[test]
fn wills_come_once_after_a_power_cut() {
    for seed in 1..=10 {
        let disk = SimDisk::new(seed, 64 << 20);
        let scene = Scene::stepped_on(&disk);
        stored_watcher(&scene);
        let at_once: Vec<_> = (0..3).map(|n| with_flushed_will(&scene, &format!("c{n}"), &delay(0), 60).0).collect();
        let (_later, _) = with_flushed_will(&scene, "later", &delay(5), 60);
        // CONNACK came when the wills were on disk.
        let scene = scene.after_cut(&disk);
        scene.test.flush();
        assert_eq!(told(&scene), ["wills/c gone"; 3], "seed {seed}");
        // Another cut neither says them again nor puts the last one off.
        scene.pass(3000);
        let scene = scene.after_cut(&disk);
        scene.pass(1999);
        assert_eq!(scene.broker.will_count("/").wills, 1, "seed {seed}");
        assert_eq!(told(&scene), ["wills/c gone"; 3], "they were not acknowledged");
        scene.pass(1);
        assert_eq!(told(&scene), ["wills/c gone"; 4]);
        assert_eq!(scene.broker.will_count("/").wills, 0);
        drop(at_once);
    }
}

#[test]
fn a_client_that_is_back_in_time_takes_its_will_away_after_a_cut_too() {
    for (returns, is_told) in [(true, false), (false, true)] {
        let disk = SimDisk::new(7, 64 << 20);
        let scene = Scene::stepped_on(&disk);
        stored_watcher(&scene);
        let (peer, _) = with_flushed_will(&scene, "c", &delay(5), 60);
        peer.drop_connection();
        scene.pass(2000);
        let scene = scene.after_cut(&disk);
        scene.pass(2999);
        assert_eq!(told(&scene), [""; 0], "the time before the cut counts");
        if returns {
            let (_peer, heard) = scene.resume("c");
            assert!(heard.starts_with("CONNACK present"), "{heard}");
            scene.pass(60_000);
        }
        scene.pass(1);
        assert_eq!(told(&scene).len(), usize::from(is_told));
    }
}

/// [MQTT-3.1.2-10]: the server closes once the will is gone for good.
#[test]
fn no_will_comes_after_a_goodbye_and_a_cut() {
    let disk = SimDisk::new(7, 64 << 20);
    let scene = Scene::stepped_on(&disk);
    stored_watcher(&scene);
    let (mut peer, _) = with_flushed_will(&scene, "c", &delay(0), 60);
    peer.disconnect(Reason::Success);
    peer.run();
    assert!(!matches!(peer.state(), wire::ReadState::Answered), "the end of the will is not on disk");
    scene.test.flush();
    peer.run();
    assert!(matches!(peer.state(), wire::ReadState::Answered));
    let scene = scene.after_cut(&disk);
    scene.pass(60_000);
    assert_eq!(told(&scene), [""; 0]);
}

/// MQTT 5 §3.1.2.5: a server that goes down may defer wills, and a delay goes on.
#[test]
fn a_stop_in_good_order_keeps_delays_and_publishes_the_rest() {
    let disk = SimDisk::new(7, 64 << 20);
    let scene = Scene::stepped_on(&disk);
    stored_watcher(&scene);
    for (client_id, seconds) in [("now", 0), ("later", 5)] {
        let (mut peer, _) = with_flushed_will(&scene, client_id, &delay(seconds), 60);
        peer.driver.connection.close(CloseReason::Shutdown, peer.driver.now);
    }
    scene.test.flush();
    assert_eq!(told(&scene), ["wills/c gone"]);
    let scene = scene.restarted();
    scene.pass(4999);
    assert_eq!(scene.broker.will_count("/"), broker::WillCount { wills: 1, waiting: 1, held_up: 0, in_memory: 0 });
    scene.pass(1);
    assert_eq!(scene.broker.will_count("/"), broker::WillCount::default());
}

/// The order of steps at CONNECT: one that is refused leaves nothing behind.
#[test]
fn a_will_that_its_user_may_not_publish_is_refused_at_once() {
    let scene = Scene::new();
    let connect = Connect {
        will: Some(will("wills/c", Default::default())),
        user: Some("reader"),
        password: Some(b"reader"),
        ..guest(Version::V5, "c")
    };
    let (_, heard) = scene.connect_with(&connect);
    assert!(heard.starts_with("CONNACK not authorized"), "{heard}");
    assert_eq!(scene.broker.will_count("/").wills, 0);
}

#[test]
fn a_will_counts_for_its_user_also_after_a_start() {
    let disk = SimDisk::new(7, 64 << 20);
    let scene = Scene::stepped_on(&disk);
    let before = scene.broker.user_declared_bytes("guest");
    let (mut peer, _) = with_flushed_will(&scene, "c", &delay(5), 0);
    let with_will = scene.broker.user_declared_bytes("guest") - before;
    assert!(with_will > 300, "{with_will}");
    peer.disconnect(Reason::Success);
    peer.run();
    scene.test.flush();
    assert_eq!(scene.broker.user_declared_bytes("guest"), before);
    let (_peer, _) = with_flushed_will(&scene, "d", &delay(5), 100);
    let scene = scene.after_cut(&disk);
    let before = scene.broker.user_declared_bytes("guest");
    scene.pass(5000);
    assert_eq!(scene.broker.will_count("/").wills, 0);
    assert_eq!(scene.broker.user_declared_bytes("guest"), before - with_will);
}
