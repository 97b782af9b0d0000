//! Dead-letter queues that a rule names: when they are made and when they go, what bounds them, and
//! that no message is lost where they can't be made.

use auth::Identity;
use broker::{
    ApplyTo, Cause, Counter, DEAD_LETTERS_DROPPED, PolicyKind, PolicySpec, QueueSpec, Standing, Value, VhostLimits,
};
use testkit::broker::{Setup, TestBroker, table_of};
use testkit::peer::Peer;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;
use crate::restart::{ALL, check_each};

/// Why a message dies.
enum Reason {
    Rejected,
    Expired,
}

const RULE: &str = "x-dead-letter-queue=DLQ.{queue}";

fn limit_queues(script: &mut Script, queues: Option<u64>) {
    script.broker().broker.limit_vhost("/", VhostLimits { connections: None, queues }).unwrap();
    script.broker().flush();
}

fn policy(definition: &str) -> PolicySpec {
    PolicySpec { pattern: String::new(), apply_to: ApplyTo::Queues, priority: 0, definition: table_of(definition) }
}

#[test]
fn the_first_dead_letter_makes_the_queue_and_the_last_look_ends_it() {
    check(&[
        (&format!("a queue q durable {RULE}; queue r durable x-message-ttl=1000 {RULE}"), "0 0, 0 0"),
        ("* counts DLQ.q", "none"),
        ("a publish - q 1 persistent; publish - q 2; get q; get q", ":1=1 left 1, :2=2 left 0"),
        ("a reject 1", ""),
        ("* counts DLQ.q", "1 0"),
        ("a reject 2", ""),
        ("a get DLQ.q; get DLQ.q", ":3=1[q/rejected*1] left 1, :4=2[q/rejected*1] left 0"),
        // It is not the application's to know how the queue came to be.
        ("a queue DLQ.q durable", "0 0"),
        ("a ack 4 multiple", ""),
        ("* counts DLQ.q", "0 0"),
        ("a publish - r 3 persistent", ""),
        ("* tick 1001", ""),
        ("* counts DLQ.r", "1 0"),
        // An empty one goes with its queue, another once it is empty.
        ("a delete q; delete r", "0, 0"),
        ("* counts DLQ.q", "none"),
        ("* counts DLQ.r", "1 0"),
        ("a get DLQ.r", ":5=3[r/expired*1] left 0"),
        ("* counts DLQ.r", "0 1"),
        ("a ack 5", ""),
        ("* counts DLQ.r", "none"),
    ]);
}

#[test]
fn a_queue_that_is_used_stays_when_its_own_ends() {
    check(&[
        (&format!("a queue q durable {RULE}; publish - q 1 persistent; get q"), "0 0, :1=1 left 0"),
        ("a reject 1", ""),
        ("a consume DLQ.q c", "c:2=1[q/rejected*1]"),
        ("a ack 2; delete q", "0"),
        ("* counts DLQ.q", "0 0"),
        ("a cancel c", "cancelled"),
        ("* counts DLQ.q", "none"),
        // One that is bound is in use, too, and so is one that was there before.
        (&format!("a queue q durable {RULE}; publish - q 1 persistent; get q"), "0 0, :3=1 left 0"),
        ("a reject 3", ""),
        ("a bind amq.direct k DLQ.q; purge DLQ.q; delete q", "1, 0"),
        ("* counts DLQ.q", "0 0"),
        (&format!("a queue DLQ.p durable; queue p durable {RULE}; publish - p 1; get p"), "0 0, 0 0, :4=1 left 0"),
        ("a reject 4; purge DLQ.p; delete p", "1, 0"),
        ("* counts DLQ.p", "0 0"),
    ]);
}

#[test]
fn it_survives_a_restart_with_what_it_holds_and_goes_afterwards() {
    let declare = format!("a queue q durable {RULE}");
    check_each(
        ALL,
        &[
            (declare.as_str(), "0 0"),
            ("a publish - q 1 persistent; get q", ":1=1 left 0"),
            ("a reject 1", ""),
            ("* counts DLQ.q", "1 0"),
            ("* END", ""),
            ("* counts q", "0 0"),
            ("* counts DLQ.q", "1 0"),
            ("a delete q", "0"),
            ("* END", ""),
            ("a get DLQ.q", ":1=1[q/rejected*1] left 0"),
            ("a ack 1", ""),
            ("* counts DLQ.q", "none"),
            ("* END", ""),
            ("* counts DLQ.q", "none"),
        ],
    );
}

/// A definition may name it before the queue that it was made for.
#[test]
fn one_that_is_declared_first_waits_for_its_queue() {
    let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
    script.check(&[
        ("a queue DLQ.q durable x-dead-letters-of=q", "0 0"),
        ("* counts DLQ.q", "0 0"),
        (&format!("a queue q durable {RULE}"), "0 0"),
        ("* restart", ""),
        ("* counts DLQ.q", "0 0"),
        // Without its queue, a start ends it: it was cut off, or never needed.
        ("a queue DLQ.other durable x-dead-letters-of=other", "0 0"),
        ("* restart", ""),
        ("* counts DLQ.other", "none"),
        ("* counts DLQ.q", "0 0"),
    ]);
}

#[test]
fn a_transient_queue_has_a_transient_one() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut script = Script::stepped(&disk, 8 << 20);
    script.check(&[
        (&format!("a queue q {RULE}; publish - q 1 persistent; get q"), "0 0, :1=1 left 0"),
        ("a reject 1", ""),
        ("* counts DLQ.q", "1 0"),
        ("* restart", ""),
        ("* counts DLQ.q", "none"),
    ]);
}

#[test]
fn dead_letters_wait_where_the_queue_cant_be_made() {
    let setups: [(Setup, Option<SimDisk>); 2] = {
        let (plain, small) = (SimDisk::new(1, 64 << 20), SimDisk::new(1, 64 << 20));
        let mut without_memory = Setup::stepped(&small, 8 << 20);
        without_memory.settings.memory_budget = 100;
        [(Setup::stepped(&plain, 8 << 20), Some(plain)), (without_memory, Some(small))]
    };
    for (setup, disk) in setups {
        let mut script = Script::open(setup, disk);
        script.check(&[
            (&format!("a queue q durable {RULE}"), "0 0"),
            ("a publish - q 1 persistent; publish - q 2 persistent; get q; get q", ":1=1 left 1, :2=2 left 0"),
        ]);
        limit_queues(&mut script, Some(1));
        script.check(&[("a reject 2 multiple", ""), ("* counts DLQ.q", "none"), ("* tick 5000", "")]);
        let found = script.broker().broker.diagnose("/", "q").unwrap();
        assert_eq!(found.causes().next(), Some(Cause::DeadLettersWait), "{found:?}");
        let why = "cannot declare queue 'DLQ.q': queue limit in vhost '/' (1) is reached";
        assert_eq!(found.unmade.as_deref(), Some(why));
        // What was decided survives, and is no consumer's any more.
        script.check(&[("* restart", ""), ("a get q", "empty"), ("* counts DLQ.q", "none")]);
        limit_queues(&mut script, None);
        script.check(&[
            ("* tick 1001", ""),
            ("* tick 1", ""),
            ("a get DLQ.q; get DLQ.q", ":1=1[q/rejected*1] left 1, :2=2[q/rejected*1] left 0"),
        ]);
        let found = script.broker().broker.diagnose("/", "q").unwrap();
        assert!(found.unmade.is_none() && found.causes().all(|cause| cause != Cause::DeadLettersWait));
    }
}

#[test]
fn a_policy_gives_the_rule_but_for_queues_that_it_made() {
    let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
    let operator = Identity::operator("test");
    script.check(&[("a queue q durable; queue x durable; queue own durable x-dead-letter-exchange=", "0 0, 0 0, 0 0")]);
    let spec = policy("dead-letter-queue=DLQ.{queue}");
    script.broker().broker.set_policy("/", PolicyKind::User, "p", spec, &operator).unwrap();
    script.broker().flush();
    script.check(&[
        ("a publish - q 1 persistent; get q", ":1=1 left 0"),
        ("a reject 1", ""),
        ("a get DLQ.q", ":2=1[q/rejected*1] left 0"),
        // It dies here for good.
        ("a reject 2", ""),
        ("* counts DLQ.q", "0 0"),
        ("* counts DLQ.DLQ.q", "none"),
        // What a queue says of its dead letters counts more: this one is its own dead-letter queue.
        ("a publish - own 1; get own", ":3=1 left 0"),
        ("a reject 3", ""),
        ("* counts own", "1 0"),
        ("* counts DLQ.own", "none"),
    ]);
    let explained = script.broker().broker.explain_policies("/", "q").unwrap();
    assert_eq!(explained.arguments.get("x-dead-letter-queue"), Some(&Value::Text("DLQ.{queue}".to_owned())));
    let made = script.broker().broker.explain_policies("/", "DLQ.q").unwrap();
    assert_eq!(made.arguments.get("x-dead-letter-queue"), None);
    assert_eq!(made.declared.get("x-dead-letters-of"), Some(&Value::Text("q".to_owned())));
}

#[test]
fn a_name_that_no_queue_can_have_is_refused_or_keeps_the_message() {
    let long = "q".repeat(252);
    let mut script = Script::memory();
    let refused = script.say(&format!("a queue {long} durable {RULE}"));
    assert!(refused.contains("its name of 256 bytes is longer than 255"), "{refused}");
    let refused = script.say("a/2 queue q.x durable x-dead-letter-queue=am{queue}");
    assert!(refused.contains("reserved prefix 'amq.*'"), "{refused}");
    script.check(&[(&format!("a/3 queue {long} durable; publish - {long} 1; get {long}"), "0 0, :1=1 left 0")]);
    let spec = policy("dead-letter-queue=DLQ.{queue}");
    script.broker().broker.set_policy("/", PolicyKind::User, "p", spec, &Identity::operator("test")).unwrap();
    script.check(&[("a/3 reject 1", "")]);
    let found = script.broker().broker.diagnose("/", &long).unwrap();
    assert!(found.unmade.is_some_and(|why| why.contains("longer than 255")), "the message waits");
}

#[test]
fn what_expires_has_a_queue_of_its_own() {
    let both = format!("{RULE} x-expiry-queue=EXP.{{queue}} x-message-ttl=1000");
    check_each(
        ALL,
        &[
            (&format!("a queue q durable {both}"), "0 0"),
            ("a publish - q 1 persistent; publish - q 2 persistent; get q", ":1=1 left 1"),
            ("a reject 1", ""),
            ("* counts EXP.q", "none"),
            ("* tick 1001", ""),
            ("* counts q", "0 0"),
            ("* END", ""),
            ("* counts DLQ.q", "1 0"),
            ("* counts EXP.q", "1 0"),
            // One is empty and goes with its queue, the other once it is empty.
            ("a purge DLQ.q; delete q", "1, 0"),
            ("* counts DLQ.q", "none"),
            ("* END", ""),
            ("a get EXP.q", ":1=2[q/expired*1] left 0"),
            ("a ack 1", ""),
            ("* counts EXP.q", "none"),
        ],
    );
    check(&[
        // The rule alone: what is rejected is gone.
        ("a queue q durable x-expiry-queue={queue}.late x-message-ttl=1000", "0 0"),
        ("a publish - q 1 persistent; publish - q 2 persistent; get q", ":1=1 left 1"),
        ("a reject 1", ""),
        ("* tick 1001", ""),
        ("a get q.late", ":2=2[q/expired*1] left 0"),
        (
            "a queue r x-expiry-queue=EXP.{queue} x-expiry-exchange=amq.fanout",
            "406 invalid arg 'x-expiry-queue' for queue 'r' in vhost '/': contradicts x-expiry-exchange: declare one of both",
        ),
        (
            "a/2 queue r x-expiry-queue=amq.{queue}",
            "406 no dead-letter queue can be made for queue 'r': queue name 'amq.r' contains reserved prefix 'amq.*'",
        ),
        (
            "a/3 queue q durable x-message-ttl=1000",
            "406 inequivalent arg 'x-expiry-queue' for queue 'q' in vhost '/': received none but current is the value '{queue}.late' of type 'longstr'",
        ),
    ]);
}

/// ActiveMQ's `processExpired="false"`: what expires is no dead letter, and what is rejected is.
#[test]
fn an_empty_rule_drops_what_expires_and_nothing_else() {
    let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
    let dead = "x-dead-letter-exchange= x-dead-letter-routing-key=dead";
    let queue = format!("a queue q durable x-message-ttl=1000 {dead} x-expiry-queue=; queue dead durable");
    script.check(&[
        (queue.as_str(), "0 0, 0 0"),
        ("a publish - q 1 persistent", ""),
        ("* tick 1001", ""),
        ("* counts q", "0 0"),
        ("* counts dead", "0 0"),
        ("a publish - q 2 persistent", ""),
        ("a get q", ":1=2 left 0"),
        ("a reject 1", ""),
        ("a get dead", ":2=2[q/rejected*1] left 0"),
        (
            "a queue r x-expiry-queue= x-expiry-exchange=amq.fanout",
            "406 invalid arg 'x-expiry-queue' for queue 'r' in vhost '/': contradicts x-expiry-exchange: \
             declare one of both",
        ),
    ]);
}

/// None overtakes another, so what was rejected waits for the queue of what expired before.
#[test]
fn all_wait_for_the_queue_that_cant_be_made() {
    let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
    script.check(&[
        (&format!("a queue q durable {RULE} x-expiry-queue=EXP.{{queue}} x-message-ttl=1000"), "0 0"),
        ("a publish - q 1 persistent; get q; reject 1", ":1=1 left 0"),
        ("* counts DLQ.q", "1 0"),
        ("a publish - q 2 persistent; publish - q 3 persistent; get q", ":2=2 left 1"),
    ]);
    limit_queues(&mut script, Some(2));
    script.check(&[("* tick 1001", ""), ("a reject 2", ""), ("* counts DLQ.q", "1 0"), ("* tick 5000", "")]);
    let found = script.broker().broker.diagnose("/", "q").unwrap();
    let why = "cannot declare queue 'EXP.q': queue limit in vhost '/' (2) is reached";
    assert_eq!(found.unmade.as_deref(), Some(why));
    limit_queues(&mut script, None);
    script.check(&[("* tick 1001", ""), ("* tick 1", ""), ("* counts DLQ.q", "2 0"), ("* counts EXP.q", "1 0")]);
    assert!(script.broker().broker.diagnose("/", "q").unwrap().unmade.is_none());
}

/// A rule that is taken away lets those go that waited for its queue.
#[test]
fn what_waits_for_a_queue_goes_another_way_once_the_policy_says_so() {
    let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
    let operator = Identity::operator("test");
    let set = |script: &mut Script, definition: &str| {
        let outcome = script.broker().broker.set_policy("/", PolicyKind::User, "p", policy(definition), &operator);
        outcome.unwrap();
        script.broker().flush();
    };
    script.check(&[("a queue q durable x-message-ttl=1000; queue late durable", "0 0, 0 0")]);
    set(&mut script, "expiry-queue=EXP.{queue}");
    limit_queues(&mut script, Some(2));
    script.check(&[("a publish - q 1 persistent", ""), ("* tick 1001", ""), ("* counts EXP.q", "none")]);
    let explained = script.broker().broker.explain_policies("/", "q").unwrap();
    assert_eq!(explained.arguments.get("x-expiry-queue"), Some(&Value::Text("EXP.{queue}".to_owned())));
    set(&mut script, "expiry-exchange= expiry-routing-key=late");
    script.check(&[("* tick 1001", ""), ("* tick 1", ""), ("a get late", ":1=1[q/expired*1] left 0")]);
    assert!(script.broker().broker.diagnose("/", "q").unwrap().unmade.is_none());
    // A queue that a rule made takes no rule, and what a queue says of itself counts more.
    set(&mut script, "expiry-queue=EXP.{queue} message-ttl=1000");
    limit_queues(&mut script, None);
    script.check(&[
        ("a publish - q 2 persistent; queue own durable x-expiry-exchange= x-expiry-routing-key=late", "0 0"),
        ("* tick 1001", ""),
        ("* counts EXP.q", "1 0"),
        ("* tick 1001", ""),
        ("* counts EXP.q", "0 0"),
        ("* counts EXP.EXP.q", "none"),
        ("a publish - own 3 persistent", ""),
        ("* tick 1001", ""),
        ("* counts EXP.own", "none"),
    ]);
}

/// A mistake in a name loses messages, so it is counted, and named.
#[test]
fn what_finds_nothing_is_counted_for_its_queue_and_told() {
    for (arguments, exchange, key, reason) in [
        ("x-dead-letter-exchange=dlx", "dlx", None, Reason::Rejected),
        ("x-dead-letter-exchange=amq.direct", "amq.direct", Some("q"), Reason::Rejected),
        ("x-dead-letter-exchange= x-dead-letter-routing-key=dead", "", Some("dead"), Reason::Rejected),
        ("x-message-ttl=1000 x-expiry-exchange= x-expiry-routing-key=late", "", Some("late"), Reason::Expired),
        ("x-message-ttl=1000 x-expiry-exchange=late", "late", None, Reason::Expired),
    ] {
        let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
        script.check(&[
            (&format!("a queue q durable {arguments}; publish - q 1 persistent; publish - q 2"), "0 0"),
            ("* counts q targetless", "0"),
        ]);
        match reason {
            Reason::Rejected => {
                script.check(&[("a get q; get q", ":1=1 left 1, :2=2 left 0"), ("a reject 2 multiple", "")])
            }
            Reason::Expired => script.check(&[("* tick 1001", "")]),
        }
        script.check(&[("* counts q", "0 0"), ("* counts q targetless", "2")]);
        let broker = &script.broker().broker;
        let found = broker.diagnose("/", "q").unwrap();
        assert!(
            found.causes().any(|cause| cause == Cause::NoTarget) && found.standing() == Standing::Empty,
            "{found:?}"
        );
        let missing = found.missing.expect("the last one is known");
        assert_eq!((missing.exchange.as_str(), missing.routing_key.as_deref()), (exchange, key), "{arguments}");
        let deaths = broker.overview().totals.deaths;
        assert_eq!(deaths.dead_letters_dropped.each_ref().map(Counter::get), [2, 0, 0, 0]);
        assert!(broker.losses().iter().all(|loss| loss.reason == DEAD_LETTERS_DROPPED[0]));
        // It is told for a while.
        script.check(&[("* tick 600000", "")]);
        let found = script.broker().broker.diagnose("/", "q").unwrap();
        assert!(found.causes().all(|cause| cause != Cause::NoTarget) && found.missing.is_some());
    }
}

/// What ends in a circle has a target, and so has what is dropped without a way.
#[test]
fn a_circle_lacks_no_target() {
    let mut script = Script::stepped(&SimDisk::new(1, 64 << 20), 8 << 20);
    script.check(&[
        ("a queue q x-message-ttl=1000 x-dead-letter-exchange=; queue p x-message-ttl=1000", "0 0, 0 0"),
        ("a publish - q 1; publish - p 2", ""),
        ("* tick 1001", ""),
        ("* counts q", "0 0"),
        ("* counts q targetless", "0"),
        ("* counts p targetless", "0"),
    ]);
    let deaths = script.broker().broker.overview().totals.deaths;
    assert_eq!(deaths.dead_letters_dropped.each_ref().map(Counter::get), [0, 1, 0, 0]);
}

/// The rule of a policy takes the rights of a declaration with it, and so does the declaration.
#[test]
fn whoever_has_queues_made_may_declare_them() {
    let broker = TestBroker::open(Setup::memory());
    broker.user("alice", "^(mine|DLQ\\.mine)$", ".*", ".*");
    let mut alice = Peer::attach(&broker, "alice").unwrap();
    let mut guest = Peer::attach(&broker, "guest").unwrap();
    guest.client.declare_queue(&crate::durable("ours"), broker.now()).unwrap();
    let spec = |name: &str, rule: &str| {
        let arguments = table_of(&format!("x-dead-letter-queue={rule}"));
        QueueSpec { name: name.to_owned(), durable: true, arguments, ..QueueSpec::default() }
    };
    let refused = alice.client.declare_queue(&spec("mine", "other.{queue}"), broker.now()).unwrap_err();
    assert!(refused.text.contains("configure access to queue 'other.mine'"), "{}", refused.text);
    alice.client.declare_queue(&spec("mine", "DLQ.{queue}"), broker.now()).unwrap();
    let author =
        broker.broker.authority().verify("alice", b"alice", std::net::Ipv4Addr::LOCALHOST.into(), broker.now());
    let author = author.unwrap();
    let set = |pattern: &str| {
        let spec = PolicySpec { pattern: pattern.to_owned(), ..policy("dead-letter-queue=DLQ.{queue}") };
        broker.broker.set_policy("/", PolicyKind::User, "p", spec, &author)
    };
    set("^mine$").unwrap();
    let refused = set("").unwrap_err();
    assert!(refused.text.contains("configure access to queue 'DLQ.ours'"), "{}", refused.text);
    let spec = policy("expiry-queue=EXP.{queue}");
    let refused = broker.broker.set_policy("/", PolicyKind::User, "p", spec, &author).unwrap_err();
    assert!(refused.text.contains("configure access to queue 'EXP."), "{}", refused.text);
}
