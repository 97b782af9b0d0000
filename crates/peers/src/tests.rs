//! Peers that are shell scripts go through their whole life: started, ready, refused twice, ended,
//! and nothing left.

use std::fs;

use super::instance::{Instance, start};
use super::*;

/// A directory with a peer called `fake`, whose two processes run these scripts.
fn place(first: &str, second: &str) -> (tempfile::TempDir, PeersDirectory) {
    let dir = tempfile::tempdir().unwrap();
    let place = PeersDirectory::find(Some(dir.path())).unwrap();
    let text = format!(
        r#"
        about = "a fake"
        durability = "d0"
        because = "it keeps nothing"
        ports = ["one", "two"]
        uris = ["amqp://127.0.0.1:{{{{port.one}}}}/v", "stomp://127.0.0.1:{{{{port.two}}}}"]
        values = {{ word = "plain" }}
        file = [{{ path = "etc/conf", text = "port={{{{port.one}}}} word={{{{word}}}}" }}]
        prepare = [{{ command = ["sh", "-c", "echo prepared > {{{{dir}}}}/prepared"] }}]
        [[process]]
        command = ["sh", "-c", '''{first}''']
        ready = {{ log = "first is up", seconds = 1 }}
        [[process]]
        command = ["sh", "-c", '''{second}''']
        env = {{ WORD = "{{{{word}}}}" }}
        ready = {{ log = "second is up: plain", seconds = 20 }}
        [variant.loud]
        about = "louder"
        durability = "d1"
        values = {{ word = "plain and loud" }}
        "#
    );
    fs::create_dir_all(place.recipes()).unwrap();
    fs::write(place.recipes().join("fake.toml"), text).unwrap();
    (dir, place)
}

fn wanted(place: &PeersDirectory, name: &str) -> Wanted {
    Wanted::find(name, &place.recipes()).unwrap()
}

const STAYS: &str = "echo first is up; sleep 60 & wait";
const STAYS_TOO: &str = "echo second is up: $WORD; exec sleep 60";

#[test]
fn what_is_said_of_a_target_leaves_out_where_it_is_today() {
    let cases = [
        ("own=amqp://me:secret@h:1/v,pid=2+3,type=quorum,durability=D3", "amqp v,type=quorum,durability=D3"),
        ("amqp://g:5", "amqp /"),
        ("stomp://h:1,consume=h:2,metrics=h:3/metrics", "stomp /,consume"),
        ("mq=jms:com.x.Factory?host=h&password=p,pid=4", "jms com.x.Factory"),
        ("r=rabbitmq/quorum,via=amqp10,durability=D2", "rabbitmq/quorum,via=amqp10,durability=D2"),
        ("hermod", "hermod"),
    ];
    for (text, said) in cases {
        assert_eq!(terms(text).unwrap(), said, "{text}");
    }
}

#[test]
fn a_peer_is_taken_by_what_is_asked_for_if_it_speaks_it() {
    let (_dir, place) = place(STAYS, STAYS_TOO);
    let schemes = ["amqp", "stomp", "jetstream"];
    let cases = [
        ("r=rabbitmq/quorum,durability=D2", Some("r=rabbitmq/quorum,durability=D2")),
        ("nats/synced,via=jetstream", Some("nats/synced,via=jetstream")),
        ("nats,via=nats", Some("nats")),
        ("artemis,via=openwire,durability=D3", Some("artemis,durability=D3")),
        ("openmq", None),
    ];
    for (text, taken) in cases {
        assert_eq!(spoken_at(&place, text, &schemes).unwrap().as_deref(), taken, "{text}");
    }
    let address = "a=amqp://h:1,pid=2";
    assert_eq!(spoken(address, &schemes).unwrap().as_deref(), Some(address));
    assert_eq!(spoken("a=openwire://h:1", &schemes).unwrap(), None);
}

#[test]
fn a_peer_is_started_shown_and_ended_with_all_that_it_started() {
    let (_dir, place) = place(STAYS, STAYS_TOO);
    let peer = start(&place, &wanted(&place, "fake/loud"), place.port_base()).unwrap();
    let data = place.data("fake.loud");
    let conf = fs::read_to_string(data.join("etc/conf")).unwrap();
    assert_eq!(conf, format!("port={} word=plain and loud", peer.ports["one"]));
    assert!(data.join("prepared").exists() && peer.is_up() && peer.resident() > 0);
    assert_ne!(peer.ports["one"], peer.ports["two"]);

    let again = start(&place, &wanted(&place, "fake/loud"), place.port_base()).unwrap_err().to_string();
    assert!(again.contains("is up already"), "{again}");
    let plain = start(&place, &wanted(&place, "fake"), place.port_base()).unwrap();
    assert!(plain.ports.values().all(|port| !peer.ports.values().any(|other| other == port)));
    assert_eq!(
        Instance::all(&place).unwrap().iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["fake", "fake/loud"]
    );

    let mut claimed = Vec::new();
    let (target, guard) = resolve_at(&place, "mine=fake/loud,via=stomp,type=quorum", &[], &mut claimed).unwrap();
    // The same run may measure it in another way too, and another run may not.
    drop(resolve_at(&place, "fake/loud", &[], &mut claimed).unwrap());
    let refused = resolve_at(&place, "fake/loud", &[], &mut Vec::new()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("is being measured by another run"), "{refused}");
    assert_eq!(guard.ready_seconds(), peer.ready_seconds);
    drop(guard);
    assert_eq!(
        (target.name.as_str(), target.scheme.as_str(), target.queue_type.as_deref()),
        ("mine", "stomp", Some("quorum"))
    );
    assert_eq!((target.software.peer.as_deref(), target.pids), (Some("fake/loud"), peer.pids()));
    assert!(peer.is_up(), "it was up before: a guard must not end it");
    let failure = resolve_at(&place, "fake,via=mqtt", &[], &mut Vec::new()).map(drop).unwrap_err().to_string();
    assert!(failure.contains("there are: amqp, stomp"), "{failure}");

    stop(&place, &["all".to_owned()]).unwrap();
    assert!(!peer.is_up() && !plain.is_up() && !data.exists() && Instance::all(&place).unwrap().is_empty());
    let failure = stop(&place, &["fake".to_owned()]).unwrap_err().to_string();
    assert!(failure.contains("was not started"), "{failure}");
}

#[test]
fn a_peer_that_does_not_come_up_leaves_a_reason_and_nothing_else() {
    for (first, second, part) in [
        ("echo disk on fire; exit 3", STAYS_TOO, "disk on fire"),
        (STAYS, "echo second has no memory", "second has no memory"),
        ("sleep 60", STAYS_TOO, "not ready after 1 s"),
    ] {
        let (_dir, place) = place(first, second);
        let failure = start(&place, &wanted(&place, "fake"), place.port_base()).unwrap_err().to_string();
        assert!(failure.starts_with("fake: ") && failure.contains(part), "{failure}");
        assert!(Instance::all(&place).unwrap().is_empty() && !place.data("fake").exists());
        assert!(place.log("fake").exists(), "the log stays");
    }
}
