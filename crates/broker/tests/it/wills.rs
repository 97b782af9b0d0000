//! Wills: what clients leave for the ends of their connections, over crashes and while the log
//! turns; published once.

use std::task::Waker;
use std::time::Duration;

use broker::{Client, ErrorKind, Publish, Returned, Switch, WillCount, WillKept};
use testkit::broker::Setup;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::message;

const RING: u64 = 4 << 20;
const SMALL: u64 = 1 << 20;

fn attach(script: &Script) -> Client {
    script.broker().attach("guest", Waker::noop().clone()).unwrap()
}

fn persistent<'a>(key: &'a str, body: &'a [u8]) -> Publish<'a> {
    message("amq.topic", key, body)
}

fn count(script: &Script) -> WillCount {
    script.broker().broker.will_count("/")
}

/// A durable queue that gets all wills.
fn watched(disk: &SimDisk, ring: u64) -> Script {
    let mut script = Script::stepped(disk, ring);
    script.check(&[("* flush", ""), ("s queue q durable; bind amq.topic # q", "0 0")]);
    script
}

#[test]
fn a_cut_leaves_a_will_or_its_publication() {
    for seed in 1..=10 {
        let disk = SimDisk::new(seed, 64 << 20);
        let mut script = watched(&disk, RING);
        let mut client = attach(&script);
        client.leave_will("c", &persistent("w", b"gone"), Duration::ZERO).unwrap();
        script.broker().flush();
        let now = script.broker().now();
        client.will_is_due("c", Duration::ZERO, now);
        assert_eq!(count(&script).wills, 0);
        if seed % 2 == 0 {
            script.broker().try_flush();
        }
        script.say("* cut");
        script.broker().flush();
        assert_eq!((count(&script).wills, script.say("* counts q")), (0, "1 0".to_owned()), "seed {seed}");
        drop(client);
    }
}

#[test]
fn wills_stay_while_the_log_turns_and_those_that_were_taken_back_stay_away() {
    let disk = SimDisk::new(7, 64 << 20);
    let mut script = watched(&disk, SMALL);
    let mut client = attach(&script);
    for number in 0..20 {
        let (name, hour) = (format!("c{number}"), Duration::from_secs(3600));
        client.leave_will(&name, &persistent("w", name.as_bytes()), hour).unwrap();
        if number % 2 == 1 {
            client.withdraw_will(&name);
        }
    }
    script.check(&[("p queue busy durable", "0 0")]);
    for round in 0..1500 {
        script.check(&[("p publish - busy x persistent size=2000", "")]);
        script.say("p purge busy");
        script.say("* background");
        if round == 1000 {
            // From here on they are due in an hour.
            script.say("* cut");
            assert_eq!(count(&script), WillCount { wills: 10, waiting: 10, held_up: 0, in_memory: 0 });
        }
    }
    assert!(script.broker().broker.overview().journal.written_bytes > SMALL, "the log has turned");
    script.say("* cut");
    assert_eq!(count(&script), WillCount { wills: 10, waiting: 10, held_up: 0, in_memory: 0 });
    assert_eq!(script.say("* counts q"), "0 0");
    script.say("* tick 3600000");
    script.broker().flush();
    assert_eq!((count(&script).wills, script.say("* counts q")), (0, "10 0".to_owned()));
    drop(client);
}

#[test]
fn a_client_that_is_back_has_its_will_published_or_taken_away() {
    for (returned, passed, told) in
        [(Returned::Resumes, 0, 0), (Returned::Resumes, 5000, 1), (Returned::Begins, 0, 1), (Returned::Begins, 5000, 1)]
    {
        let mut script = Script::open(Setup::memory(), None);
        script.check(&[("s queue q durable; bind amq.topic # q", "0 0")]);
        let mut client = attach(&script);
        client.leave_will("c", &persistent("w", b"gone"), Duration::from_secs(60)).unwrap();
        let now = script.broker().now();
        client.will_is_due("c", Duration::from_secs(5), now);
        script.broker().setup.clock.advance(passed);
        client.returned("c", returned, now);
        assert_eq!((count(&script).wills, script.say("* counts q")), (0, format!("{told} 0")));
        // The next one is another.
        client.leave_will("c", &persistent("w", b"again"), Duration::ZERO).unwrap();
        assert_eq!(count(&script), WillCount { wills: 1, waiting: 0, held_up: 0, in_memory: 0 });
    }
}

/// They are shown with their client, also when it is back with another will, until the alarm has
/// passed or they are removed.
#[test]
fn wills_that_an_alarm_holds_up_are_counted_shown_and_removed() {
    for removed in [false, true] {
        let mut script = Script::open(Setup::memory(), None);
        script.check(&[("s queue q durable; bind amq.topic # q", "0 0")]);
        let shown = |script: &Script| {
            let broker = &script.broker().broker;
            let rows = broker.some_wills("/", &broker.will_names("/"));
            rows.iter().map(|will| (will.due.is_some(), will.held_up, will.kept)).collect::<Vec<_>>()
        };
        let mut client = attach(&script);
        client.leave_will("c", &persistent("w", b"gone"), Duration::ZERO).unwrap();
        assert_eq!(shown(&script), [(false, 0, WillKept::Log)]);
        script.broker().broker.force_alarm("memory", Switch::On).unwrap();
        let now = script.broker().now();
        client.will_is_due("c", Duration::ZERO, now);
        assert_eq!(count(&script), WillCount { wills: 1, waiting: 0, held_up: 1, in_memory: 0 });
        assert_eq!(shown(&script), [(true, 1, WillKept::Log)]);
        client.returned("c", Returned::Begins, now);
        assert_eq!(shown(&script), [(true, 1, WillKept::Log)]);
        client.leave_will("c", &persistent("w", b"again"), Duration::ZERO).unwrap();
        assert_eq!(count(&script), WillCount { wills: 2, waiting: 0, held_up: 1, in_memory: 0 });
        assert_eq!(shown(&script), [(false, 1, WillKept::Log)]);
        if removed {
            client.remove_will("guest", "c").unwrap();
            assert_eq!(shown(&script), []);
        }
        script.broker().broker.force_alarm("memory", Switch::Off).unwrap();
        script.say("* tick 1000");
        let (left, told) = if removed { (0, "0 0") } else { (1, "1 0") };
        assert_eq!((count(&script).wills, count(&script).held_up), (left, 0));
        assert_eq!(script.say("* counts q"), told);
    }
}

/// A user that is gone says nothing more, and one that may not publish to the topic is refused.
#[test]
fn what_a_user_may_publish_is_asked_twice() {
    let mut script = Script::open(Setup::memory(), None);
    script.check(&[("s queue q durable; bind amq.topic # q", "0 0")]);
    let test = script.broker();
    test.user("alice", ".*", ".*", ".*");
    test.user("reader", ".*", "", ".*");
    let mut reader = test.attach("reader", Waker::noop().clone()).unwrap();
    let refused = reader.leave_will("r", &persistent("w", b""), Duration::ZERO).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::AccessRefused);
    let unknown = Publish { exchange: "none", ..persistent("w", b"") };
    assert_eq!(reader.leave_will("r", &unknown, Duration::ZERO).unwrap_err().kind, ErrorKind::NotFound);
    let mut alice = test.attach("alice", Waker::noop().clone()).unwrap();
    alice.leave_will("a", &persistent("w", b"gone"), Duration::ZERO).unwrap();
    test.user("alice", ".*", "", ".*");
    alice.will_is_due("a", Duration::ZERO, test.now());
    assert_eq!((count(&script).wills, script.say("* counts q")), (0, "0 0".to_owned()));
}

/// What a vhost had ends with it, and nothing is written behind its end.
#[test]
fn wills_end_with_their_vhost() {
    let disk = SimDisk::new(7, 64 << 20);
    let mut script = Script::stepped(&disk, RING);
    let test = script.broker();
    test.broker.put_vhost("v", &broker::VhostSpec::default()).unwrap();
    let identity = auth::Identity::operator("op");
    let mut client = test.broker.attach_unlisted(identity, "v", "test", Waker::noop().clone()).unwrap();
    client.leave_will("c", &persistent("w", b"gone"), Duration::from_secs(5)).unwrap();
    assert_eq!(test.broker.will_count("v").wills, 1);
    test.broker.delete_vhost("v").unwrap();
    client.will_is_due("c", Duration::ZERO, test.now());
    drop(client);
    script.say("* cut");
    assert_eq!(script.broker().broker.will_count("v").wills, 0);
}
