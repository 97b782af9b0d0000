//! Tasks: what they move, copy and delete, over restarts and crashes, at a rate, and until they are
//! told to stop or stop themselves.

use std::task::Waker;
use std::time::{Duration, Instant};

use auth::Identity;
use broker::{TaskCounts, TaskKind, TaskSpec, TaskState, TaskTarget};
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

const QUEUES: &str = "a queue q durable; queue other durable; exchange orders direct durable; bind orders k other";
const DECLARED: &str = "0 0, 0 0";
const FIVE: &str = "a publish - q 1 persistent n=1; publish - q 2 n=2; publish - q 3 persistent n=3; \
                    publish - q 4 persistent n=4; publish - q 5 persistent n=5";

fn spec(kind: TaskKind) -> TaskSpec {
    let (queue, selector, author) = ("q".to_owned(), String::new(), "guest".to_owned());
    TaskSpec { kind, queue, target: None, selector, limit: None, rate: None, author, undo: None }
}

fn to_queue(kind: TaskKind, queue: &str) -> TaskSpec {
    TaskSpec { target: Some(TaskTarget::Queue(queue.to_owned())), ..spec(kind) }
}

fn through(kind: TaskKind, exchange: &str, key: Option<&str>) -> TaskSpec {
    let (name, routing_key) = (exchange.to_owned(), key.map(str::to_owned));
    TaskSpec { target: Some(TaskTarget::Exchange { name, routing_key }), ..spec(kind) }
}

fn operator() -> Identity {
    Identity::operator("test")
}

fn taken(taken: u64) -> TaskCounts {
    TaskCounts { taken, ..TaskCounts::default() }
}

/// A broker with five messages in queue `q`.
fn five(disk: &SimDisk) -> Script {
    let mut script = Script::stepped(disk, 8 << 20);
    script.check(&[(QUEUES, DECLARED), (FIVE, ""), ("* flush", "")]);
    script
}

fn start(script: &Script, spec: TaskSpec) -> String {
    script.broker().broker.start_task("/", spec, &operator()).unwrap().0.to_string()
}

/// Takes the tasks forward until none runs.
fn finish(script: &Script) {
    let mut now = Instant::now();
    for _ in 0..1000 {
        let Some(due) = script.broker().broker.run_tasks(now, Waker::noop()) else { return };
        now = now.max(due);
        script.broker().flush();
    }
    panic!("the tasks do not end");
}

fn last(script: &Script) -> (TaskState, TaskCounts) {
    let tasks = script.broker().broker.tasks("/").unwrap();
    (tasks[0].state.clone(), tasks[0].counts)
}

#[test]
fn messages_move_copy_and_go_in_their_order() {
    let selected = TaskSpec { selector: "n > 1".into(), limit: Some(3), ..to_queue(TaskKind::Move, "other") };
    let some = TaskSpec { selector: "n = 1 OR n = 4".into(), ..spec(TaskKind::Delete) };
    for (spec, count, left, arrived) in [
        (to_queue(TaskKind::Move, "other"), 5, "", "1 2 3 4 5"),
        (selected, 3, "1 5", "2 3 4"),
        (to_queue(TaskKind::Copy, "other"), 5, "1 2 3 4 5", "1 2 3 4 5"),
        (through(TaskKind::Move, "orders", Some("k")), 5, "", "1 2 3 4 5"),
        (through(TaskKind::Copy, "orders", Some("k")), 5, "1 2 3 4 5", "1 2 3 4 5"),
        (through(TaskKind::Move, "", Some("other")), 5, "", "1 2 3 4 5"),
        (some, 2, "2 3 5", ""),
        (spec(TaskKind::Delete), 5, "", ""),
    ] {
        let mut script = five(&SimDisk::new(1, 64 << 20));
        let what = format!("{spec:?}");
        let planned = script.broker().broker.plan_task("/", &spec, &operator(), &|| true).unwrap();
        script.check(&[("* counts q", "5 0"), ("* counts other", "0 0")]);
        start(&script, spec);
        finish(&script);
        assert_eq!((planned, last(&script)), (taken(count), (TaskState::Done, taken(count))), "{what}");
        script.check(&[("* browse q", left), ("* browse other", arrived)]);
        // What was persistent is so still, and what left does not come back.
        let lasting = |all: &str| all.split(' ').filter(|one| *one != "2").collect::<Vec<_>>().join(" ");
        script.check(&[("* restart", ""), ("* browse q", &lasting(left)), ("* browse other", &lasting(arrived))]);
        assert_eq!(last(&script), (TaskState::Done, taken(count)), "{what}");
    }
}

#[test]
fn a_purge_that_keeps_and_a_deletion_that_keeps_can_be_undone() {
    for (kind, is_left) in [(TaskKind::Purge, true), (TaskKind::DeleteQueue, false)] {
        let mut script = five(&SimDisk::new(1, 64 << 20));
        script.say("b get q");
        start(&script, TaskSpec { undo: Some("{}".into()), ..to_queue(kind, "other") });
        finish(&script);
        // The first one is with a client.
        assert_eq!(last(&script), (TaskState::Done, taken(4)), "{kind:?}");
        assert_eq!(script.broker().broker.has_queue("/", "q"), is_left, "{kind:?}");
        script.check(&[("* restart", ""), ("* browse other", "3 4 5")]);
        assert_eq!(script.broker().broker.has_queue("/", "q"), is_left, "{kind:?}");
        let task = script.broker().broker.tasks("/").unwrap().remove(0);
        assert_eq!((task.spec.kind, task.spec.undo.as_deref()), (kind, Some("{}")));
        script.say("a queue q durable");
        let back = TaskSpec { queue: "other".into(), ..to_queue(TaskKind::Restore, "q") };
        start(&script, back);
        finish(&script);
        assert_eq!((last(&script).0, script.broker().broker.has_queue("/", "other")), (TaskState::Done, false));
        script.check(&[("* browse q", if is_left { "1 3 4 5" } else { "3 4 5" })]);
    }
}

#[test]
fn a_queue_whose_messages_find_no_place_is_not_deleted() {
    let mut script = five(&SimDisk::new(1, 64 << 20));
    script.check(&[("a queue small durable x-max-length=2 x-overflow=reject-publish", "0 0")]);
    start(&script, to_queue(TaskKind::DeleteQueue, "small"));
    finish(&script);
    let why = "3 messages found no place, so queue 'q' is not deleted".to_owned();
    assert_eq!(last(&script), (TaskState::Stopped(why), TaskCounts { taken: 2, refused: 3, ..TaskCounts::default() }));
    script.check(&[("* browse q", "3 4 5"), ("* browse small", "1 2")]);
}

#[test]
fn what_has_nowhere_to_go_stays() {
    let mut script = five(&SimDisk::new(1, 64 << 20));
    // No binding has this key, and what would come back to the queue itself does not move.
    for spec in [through(TaskKind::Move, "orders", None), through(TaskKind::Copy, "", None)] {
        start(&script, spec);
        finish(&script);
        assert_eq!(last(&script), (TaskState::Done, TaskCounts { homeless: 5, ..TaskCounts::default() }));
    }
    script.check(&[("a queue small durable x-max-length=2 x-overflow=reject-publish", "0 0")]);
    start(&script, to_queue(TaskKind::Move, "small"));
    finish(&script);
    assert_eq!(last(&script), (TaskState::Done, TaskCounts { taken: 2, refused: 3, ..TaskCounts::default() }));
    script.check(&[("* browse q", "3 4 5"), ("* browse small", "1 2")]);
}

#[test]
fn a_task_says_why_it_can_not_begin() {
    let script = five(&SimDisk::new(1, 64 << 20));
    let broker = &script.broker().broker;
    script.broker().user("reader", "", "", ".*");
    script.broker().user("owner", ".*", ".*", ".*");
    let refused = |spec: TaskSpec, author: &Identity| broker.start_task("/", spec, author).unwrap_err().to_string();
    let user = |name: &str| {
        let (from, now) = (std::net::Ipv4Addr::LOCALHOST.into(), script.broker().now());
        broker.authority().verify(name, name.as_bytes(), from, now).unwrap()
    };
    let (operator, reader, owner) = (operator(), user("reader"), user("owner"));
    let selector = TaskSpec { selector: "n >".into(), ..spec(TaskKind::Delete) };
    for (spec, author, expected) in [
        (to_queue(TaskKind::Move, "q"), &operator, "can't be sent to the same queue"),
        (to_queue(TaskKind::Copy, "none"), &operator, "no queue 'none' in vhost '/' to send messages to"),
        (through(TaskKind::Move, "none", None), &operator, "no exchange 'none' in vhost '/' to send messages to"),
        (spec(TaskKind::Move), &operator, "move needs a target"),
        (to_queue(TaskKind::Delete, "other"), &operator, "delete takes no target"),
        (TaskSpec { queue: "none".into(), ..spec(TaskKind::Delete) }, &operator, "no queue 'none' in vhost '/'"),
        (selector, &operator, "invalid selector"),
        (to_queue(TaskKind::Move, "other"), &reader, "write"),
        (spec(TaskKind::Redrive), &owner, "only users with the tag 'administrator'"),
    ] {
        let said = refused(spec, author);
        assert!(said.contains(expected), "'{said}' should say '{expected}'");
    }
    assert_eq!(broker.tasks("/").unwrap(), []);
    let name = start(&script, to_queue(TaskKind::Copy, "other"));
    let said = refused(spec(TaskKind::Delete), &operator);
    assert!(said.contains(&format!("task {name} (copy) takes messages from queue 'q'")), "{said}");
}

#[test]
fn a_task_keeps_to_its_rate() {
    let mut script = five(&SimDisk::new(1, 64 << 20));
    start(&script, TaskSpec { rate: Some(2), ..to_queue(TaskKind::Move, "other") });
    let (broker, begun) = (script.broker().broker.clone(), Instant::now());
    let counts: Vec<u64> = [0, 250, 499, 500, 999, 1000, 1600]
        .map(|ms| {
            let due = broker.run_tasks(begun + Duration::from_millis(ms), Waker::noop()).unwrap();
            script.broker().flush();
            assert!(due <= begun + Duration::from_millis(ms + 500), "it would come late after {ms} ms");
            last(&script).1.taken
        })
        .into();
    assert_eq!(counts, [1, 1, 1, 2, 2, 3, 4]);
    script.check(&[("* browse q", "5"), ("* browse other", "1 2 3 4")]);
}

#[test]
fn a_cancelled_task_ends_and_what_moved_stays_moved() {
    let mut script = five(&SimDisk::new(1, 64 << 20));
    let name = start(&script, TaskSpec { rate: Some(1), ..to_queue(TaskKind::Move, "other") });
    let broker = script.broker().broker.clone();
    broker.run_tasks(Instant::now(), Waker::noop());
    broker.cancel_task("/", &name, &operator()).unwrap();
    finish(&script);
    assert_eq!(last(&script), (TaskState::Cancelled, taken(1)));
    script.check(&[("* browse q", "2 3 4 5"), ("* restart", ""), ("* browse q", "3 4 5"), ("* browse other", "1")]);
    assert_eq!(last(&script), (TaskState::Cancelled, taken(1)));
    let again = script.broker().broker.cancel_task("/", &name, &operator()).unwrap_err().to_string();
    assert!(again.contains("has ended"), "{again}");
}

#[test]
fn a_task_ends_with_its_queue() {
    let mut script = five(&SimDisk::new(1, 64 << 20));
    start(&script, TaskSpec { rate: Some(1), ..to_queue(TaskKind::Move, "other") });
    script.broker().broker.run_tasks(Instant::now(), Waker::noop());
    script.check(&[("a delete q", "4")]);
    finish(&script);
    assert_eq!(last(&script), (TaskState::Stopped("queue 'q' was deleted".into()), taken(1)));
}

#[test]
fn a_task_ends_with_its_vhost() {
    let mut script = five(&SimDisk::new(1, 64 << 20));
    start(&script, TaskSpec { rate: Some(1), ..to_queue(TaskKind::Copy, "other") });
    script.broker().broker.run_tasks(Instant::now(), Waker::noop());
    script.broker().broker.delete_vhost("/").unwrap();
    finish(&script);
    script.check(&[("* restart", "")]);
    assert!(script.broker().broker.tasks("/").is_err());
}

/// The power fails after some steps of a move or a copy, flushed or not. No message is lost, none
/// comes twice, and the task goes on to its end.
#[test]
fn a_crash_neither_loses_nor_doubles_what_a_task_moves() {
    for kind in [TaskKind::Move, TaskKind::Copy] {
        for seed in 1..=40 {
            let disk = SimDisk::new(seed, 64 << 20);
            let mut script = Script::stepped(&disk, 8 << 20);
            script.check(&[(QUEUES, DECLARED)]);
            let all: Vec<String> = (1..=6).map(|n| n.to_string()).collect();
            let publish: Vec<String> = all.iter().map(|n| format!("publish - q {n} persistent")).collect();
            script.check(&[(&format!("a {}", publish.join("; ")), ""), ("* flush", "")]);
            start(&script, TaskSpec { rate: Some(1), ..to_queue(kind, "other") });
            script.broker().flush();
            let mut now = Instant::now();
            for step in 0..seed % 6 {
                now = script.broker().broker.run_tasks(now, Waker::noop()).map_or(now, |due| now.max(due));
                if step % 2 == seed % 2 {
                    script.broker().flush();
                }
            }
            script.check(&[("* cut", "")]);
            finish(&script);
            let expected = all.join(" ");
            let left = if kind == TaskKind::Move { "" } else { &*expected };
            script.check(&[("* browse q", left), ("* browse other", &expected)]);
            assert_eq!(last(&script), (TaskState::Done, taken(6)), "{kind:?} {seed}");
        }
    }
}

#[test]
fn a_redrive_stops_when_most_of_it_dies_again() {
    let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
    script.check(&[
        (
            "a queue dead durable; queue orders durable x-dead-letter-exchange= x-dead-letter-routing-key=dead",
            "0 0, 0 0",
        ),
        ("a prefetch 0; consume orders c", ""),
    ]);
    for n in 1..=300 {
        script.say(&format!("a publish - orders {n} persistent"));
    }
    script.check(&[("* flush", "")]);
    script.say("a");
    script.check(&[("a reject 300 multiple", ""), ("* flush", ""), ("* counts dead", "300 0")]);
    start(&script, TaskSpec { queue: "dead".into(), ..spec(TaskKind::Redrive) });
    let (broker, mut now) = (script.broker().broker.clone(), Instant::now());
    while let Some(due) = broker.run_tasks(now, Waker::noop()) {
        now = now.max(due);
        script.broker().flush();
        // The consumer rejects all that it gets.
        let tag = script.say("a").rsplit(':').next().and_then(|last| last.split('=').next().map(str::to_owned));
        if let Some(tag) = tag.filter(|tag| !tag.is_empty()) {
            script.say(&format!("a reject {tag} multiple"));
            script.broker().flush();
        }
    }
    let (state, counts) = last(&script);
    let TaskState::Stopped(reason) = state else { panic!("it ended as {state:?}") };
    assert!(reason.starts_with("queue 'orders' dead-letters most of what comes"), "{reason}");
    assert!((100..=200).contains(&counts.taken), "{counts:?}");
    script.check(&[("* counts dead", "300 0")]);
}
