//! Wills: at which ends of a connection they are sent, and when.

use std::time::Duration;

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
    let send = |seconds| scene.mqtt.delayed_wills().send(scene.test.now() + Duration::from_secs(seconds)).unwrap();
    for (delay, expiry, due) in [(5, 100, 5), (5, 3, 3), (0, 100, 0), (5, 0, 0)] {
        let (peer, _) = with_will(&scene, delay, expiry, Start::Clean);
        peer.drop_connection();
        if due > 0 {
            assert!(send(due - 1) > Duration::ZERO);
            assert_eq!(watcher.heard(), [""; 0], "{delay} {expiry}");
            send(due);
        }
        assert_eq!(watcher.heard(), ["PUBLISH wills/c gone"], "{delay} {expiry}");
    }
}

#[test]
fn a_client_that_comes_back_takes_its_will_away() {
    let scene = Scene::new();
    let mut watcher = watcher(&scene);
    let send = || scene.mqtt.delayed_wills().send(scene.test.now() + Duration::from_secs(60));
    let (peer, _) = with_will(&scene, 5, 100, Start::Clean);
    peer.drop_connection();
    let (peer, heard) = with_will(&scene, 5, 100, Start::Resumed);
    assert!(heard.starts_with("CONNACK present"), "{heard}");
    send();
    assert_eq!(watcher.heard(), [""; 0]);
    peer.drop_connection();
    // A new session ends the old one, whose will is due.
    let (_peer, heard) = with_will(&scene, 5, 100, Start::Clean);
    assert!(heard.starts_with("CONNACK success"), "{heard}");
    scene.mqtt.delayed_wills().send(scene.test.now());
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
        let send = |seconds| _ = scene.mqtt.delayed_wills().send(scene.test.now() + Duration::from_secs(seconds));
        (delay..delay + 10).for_each(|second| send(second.into()));
        assert_eq!(watcher.heard(), [""; 0], "{delay}");
        scene.broker.force_alarm("memory", broker::Switch::Off).unwrap();
        (10..20).for_each(|second| send((delay + second).into()));
        assert_eq!(watcher.heard(), ["PUBLISH wills/c gone"], "{delay}");
    }
}

/// [MQTT-3.1.2-14]
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
