//! Explanations: they say what the broker then does. A message goes where its explanation said, and
//! a policy changes what its preview said.

use std::collections::BTreeSet;

use broker::{ApplyTo, PolicyFit, PolicyKind, PolicySpec, Table, Value};
use testkit::broker::table_of;
use testkit::script::Script;
use testkit::sim_disk::Random;

use crate::seeds;

const WORDS: [&str; 3] = ["a", "b", "c"];

fn key(random: &mut Random, words: &[&str]) -> String {
    let count = 1 + random.below(3);
    (0..count).map(|_| words[random.below(words.len() as u64) as usize]).collect::<Vec<_>>().join(".")
}

/// Random exchanges of each type, bound to queues and to each other, some with alternates.
fn topology(script: &mut Script, random: &mut Random) {
    for queue in 0..6 {
        script.say(&format!("a queue q{queue}"));
    }
    let kinds = ["direct", "fanout", "topic", "headers", "x-modulus-hash"];
    for exchange in 0..5 {
        let kind = kinds[random.below(5) as usize];
        let alternate =
            if random.below(2) == 0 { format!(" alternate-exchange=e{}", random.below(5)) } else { String::new() };
        script.say(&format!("a exchange e{exchange} {kind}{alternate}"));
    }
    for _ in 0..12 {
        let (from, to) = (random.below(5), random.below(6));
        let to = if random.below(4) == 0 { format!("exchange:e{}", to % 5) } else { format!("q{to}") };
        let pattern = key(random, &["a", "b", "*", "#"]);
        let matched = ["", " x-match=any", " h=1", " x-match=any h=1 g=2"][random.below(4) as usize];
        script.say(&format!("a bind e{from} {pattern} {to}{matched}"));
    }
}

fn depths(script: &Script) -> Vec<(String, u64)> {
    script.broker().broker.queues().into_iter().map(|queue| (queue.name, queue.ready)).collect()
}

#[test]
fn a_message_goes_where_its_explanation_says() {
    for seed in seeds(0..60) {
        let mut random = Random::new(seed);
        let mut script = Script::memory();
        topology(&mut script, &mut random);
        for _ in 0..20 {
            let (exchange, key) = (format!("e{}", random.below(5)), key(&mut random, &WORDS));
            let headers = ["", "h=1", "g=2 h=2"][random.below(3) as usize];
            let explained = script.broker().broker.explain_route("/", &exchange, &key, &table_of(headers)).unwrap();
            let before = depths(&script);
            script.say(&format!("a publish {exchange} {key} x {headers}"));
            let after = depths(&script);
            let went: BTreeSet<String> = before
                .iter()
                .zip(&after)
                .filter(|(one, other)| one.1 < other.1)
                .map(|(_, one)| one.0.clone())
                .collect();
            let said: BTreeSet<String> = explained.queues.iter().cloned().collect();
            assert_eq!(went, said, "seed {seed}: {exchange} {key} {headers}: {explained:?}");
            // Each queue is reached by a binding that the explanation shows.
            for queue in &explained.queues {
                let shown =
                    |hop: &broker::RouteHop| hop.bindings.iter().any(|one| one.to_queue && one.destination == *queue);
                assert!(explained.hops.iter().any(shown), "seed {seed}: no way to {queue}: {explained:?}");
            }
        }
    }
}

#[test]
fn an_explanation_shows_the_ways_and_why_there_is_none() {
    let mut script = Script::memory();
    script.say(
        "a queue q; queue r; exchange t topic alternate-exchange=f; exchange f fanout; exchange i fanout internal",
    );
    script.say("a bind t a.* q; bind t a.# exchange:f; bind t b.# q; bind f - r");
    let explain =
        |exchange: &str, key: &str| script.broker().broker.explain_route("/", exchange, key, &Table::default());
    let found = explain("t", "a.b").unwrap();
    let keys: Vec<_> = found.hops[0].bindings.iter().map(|one| one.key.as_str()).collect();
    assert_eq!((keys.contains(&"a.*"), keys.contains(&"a.#"), keys.len()), (true, true, 2), "{found:?}");
    assert_eq!((found.queues, found.hops[1].exchange.as_str()), (vec!["q".to_owned(), "r".to_owned()], "f"));
    let found = explain("t", "c").unwrap();
    assert_eq!((found.hops[0].alternate.as_deref(), found.queues), (Some("f"), vec!["r".to_owned()]));
    assert_eq!(explain("", "q").unwrap().queues, ["q"]);
    assert_eq!(explain("", "none").unwrap().queues, [] as [String; 0]);
    assert!(explain("none", "k").unwrap().refused.is_some_and(|text| text.contains("no exchange 'none'")));
    assert!(explain("i", "k").unwrap().refused.is_some_and(|text| text.contains("internal exchange 'i'")));
    assert!(script.broker().broker.explain_route("none", "t", "k", &Table::default()).is_none());
}

fn policy(pattern: &str, priority: i64, definition: &str) -> PolicySpec {
    PolicySpec { pattern: pattern.into(), apply_to: ApplyTo::Queues, priority, definition: table_of(definition) }
}

#[test]
fn each_policy_says_why_it_applies_or_not() {
    let mut script = Script::memory();
    script.say("a queue orders x-max-length=9");
    let broker = &script.broker().broker;
    let operator = auth::Identity::operator("test");
    for (name, spec) in [
        ("first", policy("^ord", 5, "max-length=5")),
        ("second", policy("^ord", 1, "max-length=7")),
        ("other", policy("^x", 9, "max-length=1")),
        ("quorum", policy("^ord", 9, "delivery-limit=3")),
    ] {
        broker.set_policy("/", PolicyKind::User, name, spec, &operator).unwrap();
    }
    let found = broker.explain_policies("/", "orders").unwrap();
    let fit = |name: &str| found.verdicts.iter().find(|one| one.name == name).map(|one| one.fit.clone()).unwrap();
    assert_eq!(fit("first"), PolicyFit::Applies);
    assert_eq!(fit("second"), PolicyFit::Behind("first".into()));
    assert_eq!(fit("other"), PolicyFit::OtherName);
    assert_eq!(fit("quorum"), PolicyFit::ForeignSetting("delivery-limit".into()));
    assert_eq!(found.declared.get("x-max-length"), Some(&Value::I64(9)));
    assert_eq!(broker.queues()[0].policies.user.as_deref(), Some("first"), "the same as it is");
    assert!(broker.explain_policies("/", "none").is_none());
}

#[test]
fn a_preview_says_what_the_policy_then_does() {
    let mut script = Script::memory();
    script.say("a queue one; queue two; queue other; queue full x-max-length=1 x-overflow=reject-publish");
    for queue in ["one", "one", "one", "two", "other"] {
        script.say(&format!("a publish - {queue} m"));
    }
    let operator = auth::Identity::operator("test");
    let spec = policy("^(one|two|full)$", 0, "max-length=1");
    let broker = || &script.broker().broker;
    let preview = broker().preview_policy("/", PolicyKind::User, "p", Some(spec.clone())).unwrap();
    let named: Vec<_> = preview.queues.iter().map(|queue| (queue.queue.as_str(), queue.dropped)).collect();
    assert_eq!(named, [("one", 2), ("two", 0)], "{preview:?}");
    assert_eq!((preview.total, preview.dropped), (2, 2));
    let change = &preview.queues[0].changes[0];
    assert_eq!((change.0.as_str(), change.1.as_ref(), change.2.as_ref()), ("x-max-length", None, Some(&Value::I64(1))));
    assert_eq!(broker().queues().iter().map(|queue| queue.ready).sum::<u64>(), 5, "nothing is changed");
    broker().set_policy("/", PolicyKind::User, "p", spec, &operator).unwrap();
    let ready: u64 = broker().queues().iter().map(|queue| queue.ready).sum();
    assert_eq!(ready, 5 - preview.dropped);
    let cleared = broker().preview_policy("/", PolicyKind::User, "p", None).unwrap();
    assert_eq!((cleared.total, cleared.dropped), (2, 0));
    script.say("* tick 1000");
    let broker = || &script.broker().broker;
    let expires = |ttl: &str| {
        let preview = broker().preview_policy("/", PolicyKind::User, "t", Some(policy("^other$", 9, ttl))).unwrap();
        preview.queues.iter().map(|queue| queue.expires).collect::<Vec<_>>()
    };
    assert_eq!(expires("message-ttl=1001"), [false]);
    assert_eq!(expires("message-ttl=1000"), [true]);
    assert!(broker().preview_policy("/", PolicyKind::User, "p", Some(policy("(", 0, "max-length=1"))).is_err());
    assert!(broker().preview_policy("none", PolicyKind::User, "p", None).is_err());
}
