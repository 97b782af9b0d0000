//! Redriven dead letters: their queues and their order, and that none is lost, doubled, or moves in
//! a circle.

use broker::{Browse, RedriveMode};
use testkit::broker::Setup;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;

/// A queue `q` that is bound to `orders` by keys `k` and `l`, and whose dead letters go to `dead`.
const DECLARE: &str = "a queue dead durable; queue q durable x-dead-letter-exchange= x-dead-letter-routing-key=dead; \
                       exchange orders direct durable; bind orders k q; bind orders l q";
const DECLARED: &str = "0 0, 0 0";

/// Publishes three messages to `orders`, and has them rejected.
const DIE: [(&str, &str); 3] = [
    ("a publish orders k 1 persistent n=1; publish orders l 2 persistent n=2; publish orders k 3 n=3", ""),
    ("a prefetch 0; consume q c", "c:1=1, c:2=2, c:3=3"),
    ("a reject 3 multiple; cancel c", "cancelled"),
];

fn dead(steps: &[(&str, &str)]) {
    let mut all = vec![(DECLARE, DECLARED)];
    all.extend(DIE);
    all.extend_from_slice(steps);
    check(&all);
}

#[test]
fn dead_letters_go_back_to_the_queue_that_they_died_in() {
    dead(&[
        ("* counts dead", "3 0"),
        ("* browse dead", "1 2 3"),
        ("* redrive dead dry-run", "3 0 0 0"),
        ("* counts dead", "3 0"),
        ("* redrive dead", "3 0 0 0"),
        ("* counts dead", "0 0"),
        ("a consume q c", "c:4=1[q/rejected*1], c:5=2[q/rejected*1], c:6=3[q/rejected*1]"),
        // Their deaths go on counting.
        ("a reject 6 multiple", ""),
        ("a get dead no-ack", ":7=1[q/rejected*2] left 2"),
        ("* redrive dead", "2 0 0 0"),
        ("a", "c:8=2[q/rejected*2], c:9=3[q/rejected*2]"),
    ]);
}

#[test]
fn some_of_them_go_back() {
    dead(&[
        ("* redrive dead x-selector=n>1 limit=1", "1 0 0 0"),
        ("* browse q", "2"),
        ("* browse dead", "1 3"),
        ("* redrive dead x-selector=n", "0 0 0 0"),
        ("* redrive dead limit=0", "0 0 0 0"),
        ("* browse dead limit=1", "1"),
        ("* browse dead x-selector=n=3", "3"),
        (
            "* redrive dead x-selector=n>",
            "406 invalid selector at character 3: the selector ends; expected a property's name, a literal or an opening parenthesis",
        ),
        ("* redrive none", "404 no queue 'none' in vhost '/'"),
        ("* browse none", "404 no queue 'none' in vhost '/'"),
    ]);
}

#[test]
fn what_never_died_or_has_no_home_stays() {
    dead(&[
        ("a publish - dead new", ""),
        ("a delete q", "0"),
        // Through its exchange a message reaches the queue that is bound there now.
        ("a queue other durable; bind orders k other", "0 0"),
        ("* redrive dead", "2 1 1 0"),
        ("* browse other", "1 3"),
        ("* browse dead", "2 new"),
        ("a get other", ":4=1[q/rejected*1] left 1"),
    ]);
}

#[test]
fn a_full_queue_takes_nothing_back() {
    check(&[
        (
            "a queue dead durable; queue q durable x-max-length=1 x-overflow=reject-publish x-dead-letter-exchange= \
             x-dead-letter-routing-key=dead",
            "0 0, 0 0",
        ),
        ("a publish - q 1 persistent; get q", ":1=1 left 0"),
        ("a reject 1; publish - q 2 persistent", ""),
        ("* redrive dead", "0 0 0 1"),
        ("a get q no-ack", ":2=2 left 0"),
        ("* redrive dead", "1 0 0 0"),
        ("* browse q", "1"),
    ]);
}

/// Messages that were about to go back did not count.
#[test]
fn what_goes_back_together_fits_into_its_queue() {
    for limit in ["x-max-length=2", "x-max-length-bytes=2"] {
        let declare = format!(
            "a queue dead durable; queue q durable {limit} x-overflow=reject-publish x-dead-letter-exchange= \
             x-dead-letter-routing-key=dead"
        );
        check(&[
            (&declare, "0 0, 0 0"),
            ("a publish - q 1 persistent; publish - q 2; get q; get q", ":1=1 left 1, :2=2 left 0"),
            ("a reject 2 multiple; publish - q 3 persistent", ""),
            ("* counts dead", "2 0"),
            ("* redrive dead dry-run", "1 0 0 1"),
            ("* redrive dead", "1 0 0 1"),
            ("* counts q", "2 0"),
            ("* browse dead", "2"),
        ]);
    }
}

/// Messages that had gone back did not count while they were not durable.
#[test]
fn what_is_not_seen_yet_takes_its_place() {
    for limit in ["x-max-length=2", "x-max-length-bytes=2"] {
        let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
        let declare = format!(
            "a queue dead durable; queue q durable {limit} x-overflow=reject-publish x-dead-letter-exchange= \
             x-dead-letter-routing-key=dead"
        );
        script.check(&[
            (&declare, "0 0, 0 0"),
            ("a publish - q 1 persistent; publish - q 2 persistent; get q; get q", ":1=1 left 1, :2=2 left 0"),
            ("a reject 2 multiple; publish - q 3 persistent", ""),
        ]);
        let browse = Browse { vhost: "/", queue: "dead", selector: "", limit: 1 };
        let redriven = [1, 0].map(|_| script.broker().broker.redrive(&browse, RedriveMode::Move, &|| true).unwrap());
        assert_eq!(redriven.map(|one| (one.moved, one.refused)), [(1, 0), (0, 1)], "{limit}");
        script.check(&[("* flush", ""), ("* counts q", "2 0"), ("* browse dead", "2")]);
    }
}

#[test]
fn what_dies_again_at_once_is_not_taken_again() {
    check(&[
        (
            "a queue dead durable; queue q durable x-message-ttl=0 x-dead-letter-exchange= x-dead-letter-routing-key=dead",
            "0 0, 0 0",
        ),
        ("a publish - q 1 persistent; publish - q 2 persistent", ""),
        ("* browse dead", "1 2"),
        ("* redrive dead", "2 0 0 0"),
        ("* browse dead", "1 2"),
        ("a get dead", ":1=1[q/expired*2] left 1"),
    ]);
}

/// A page is made small again when a walk has left it, while its last entries have not moved yet.
#[test]
fn all_of_a_queue_goes_back_that_memory_does_not_hold() {
    let count = 5000;
    let disk = SimDisk::new(1, 64 << 20);
    let mut setup = Setup::stepped(&disk, 4 << 20);
    setup.settings.memory_budget = 100;
    let mut script = Script::open(setup, Some(disk));
    let declare =
        "a queue dead durable; queue q durable x-message-ttl=1 x-dead-letter-exchange= x-dead-letter-routing-key=dead";
    script.check(&[(declare, "0 0, 0 0")]);
    for turn in 0..count / 100 {
        let publishes: Vec<_> = (0..100).map(|at| format!("publish - q {} persistent", turn * 100 + at)).collect();
        script.check(&[(&format!("a {}", publishes.join("; ")), ""), ("* tick 1", ""), ("* background", "")]);
    }
    script.check(&[("* restart", ""), ("* background", ""), ("* counts dead", &format!("{count} 0"))]);
    assert_eq!(script.say("* browse dead limit=10000").split(' ').count(), count);
    script.check(&[("* redrive dead", &format!("{count} 0 0 0")), ("* counts dead", "0 0")]);
    script.check(&[("* counts q", &format!("{count} 0"))]);
}

/// The message that is not persistent dies with the crash.
#[test]
fn a_redrive_survives_a_power_cut_whole_or_not_at_all() {
    for (flushed, dead, back) in [(true, "0 0", "2 0"), (false, "2 0", "0 0")] {
        let disk = SimDisk::new(1, 64 << 20);
        let mut script = Script::stepped(&disk, 8 << 20);
        script.check(&[(DECLARE, DECLARED)]);
        script.check(&DIE);
        let broker = &script.broker().broker;
        let browse = broker::Browse { vhost: "/", queue: "dead", selector: "", limit: u64::MAX };
        assert_eq!(broker.redrive(&browse, RedriveMode::Move, &|| true).unwrap().moved, 3);
        if flushed {
            script.check(&[("* flush", "")]);
        }
        script.check(&[("* cut", ""), ("* counts dead", dead), ("* counts q", back)]);
    }
}
