//! The routes of messages: the default exchange, the four kinds, exchanges bound to exchanges.

use std::collections::BTreeSet;

use proptest::prelude::*;
use testkit::broker::Setup;
use testkit::script::Script;

use crate::check;

#[test]
fn the_default_exchange_leads_to_the_queue_that_the_key_names() {
    check(&[
        ("a queue q", "0 0"),
        ("a publish - q m1; publish - other m2; publish - q m3", ""),
        ("a get q no-ack", ":1=m1 left 1"),
        ("a get q no-ack", ":2=m3 left 0"),
        ("a get q no-ack", "empty"),
        ("a bind - k q", "403 operation not permitted on the default exchange"),
        ("a exchange - direct", "403 operation not permitted on the default exchange"),
        ("a delete-exchange -", "403 operation not permitted on the default exchange"),
        ("a passive-exchange -", "403 operation not permitted on the default exchange"),
    ]);
}

#[test]
fn each_kind_of_exchange_chooses_by_its_own_rule() {
    check(&[
        ("a queue d; queue f; queue t; queue h", "0 0, 0 0, 0 0, 0 0"),
        ("a exchange xd direct; exchange xf fanout; exchange xt topic; exchange xh headers", ""),
        ("a bind xd red d; bind xf - f; bind xt eu.*.# t; bind xh - h x-match=all colour=red n=1", ""),
        ("a publish xd red m1; publish xd blue m2", ""),
        ("a publish xf anything m3", ""),
        ("a publish xt eu.de m4; publish xt eu m5; publish xt eu.fr.paris m6; publish xt us.ny m7", ""),
        ("a publish xh - m8 colour=red n=1 z=2; publish xh - m9 colour=red; publish xh - m10 colour=red n=2", ""),
        ("a consume d d no-ack", "d:1=m1"),
        ("a consume f f no-ack", "f:2=m3"),
        ("a consume t t no-ack", "t:3=m4, t:4=m6"),
        ("a consume h h no-ack", "h:5=m8"),
    ]);
}

#[test]
fn a_queue_that_several_bindings_reach_gets_one_copy() {
    check(&[
        ("a queue q", "0 0"),
        ("a exchange x topic; bind x a.* q; bind x *.b q; bind x # q; bind x a.b q", ""),
        ("a publish x a.b m", ""),
        ("* counts q", "1 0"),
    ]);
}

#[test]
fn exchanges_lead_to_exchanges_and_circles_end() {
    check(&[
        ("a queue q; queue r", "0 0, 0 0"),
        ("a exchange x topic; exchange y fanout; exchange z direct", ""),
        ("a bind x # exchange:y; bind y - exchange:z; bind z k q; bind y - r; bind z k exchange:x", ""),
        ("a publish x k m", ""),
        ("* counts q", "1 0"),
        ("* counts r", "1 0"),
        ("a unbind y - exchange:z", ""),
        ("a publish x k m", ""),
        ("* counts q", "1 0"),
        ("* counts r", "2 0"),
        ("a bind x # exchange:none", "404 no exchange 'none' in vhost '/'"),
        ("a bind none # exchange:x", "404 no exchange 'none' in vhost '/'"),
    ]);
}

#[test]
fn routes_follow_changes_of_bindings_at_once() {
    check(&[
        ("a queue q; queue r", "0 0, 0 0"),
        ("a exchange x direct; bind x k q", ""),
        ("a publish x k m", ""),
        ("b bind x k r; unbind x k q", ""),
        ("a publish x k m", ""),
        ("* counts q", "1 0"),
        ("* counts r", "1 0"),
        ("b delete r", "1"),
        ("a publish x k m mandatory", "returned m"),
        ("b delete-exchange x", ""),
        ("a publish x k m", "404 no exchange 'x' in vhost '/'"),
    ]);
}

#[test]
fn an_unknown_or_internal_exchange_takes_nothing() {
    check(&[
        ("a publish none k m", "404 no exchange 'none' in vhost '/'"),
        ("a exchange x fanout internal; exchange y fanout; queue q; bind x - q; bind y - exchange:x", "0 0"),
        ("a publish x k m", "403 cannot publish to internal exchange 'x' in vhost '/'"),
        ("a publish y k m", ""),
        ("* counts q", "1 0"),
    ]);
}

#[test]
fn what_no_binding_takes_goes_to_the_alternate_exchange() {
    check(&[
        ("a queue q; queue lost", "0 0, 0 0"),
        ("a exchange ae fanout; exchange x direct alternate-exchange=ae; bind ae - lost; bind x k q", ""),
        ("a publish x k m; publish x other m mandatory", ""),
        ("* counts q", "1 0"),
        ("* counts lost", "1 0"),
        ("a publish x other m mandatory", ""),
        ("* counts lost", "2 0"),
        ("b bind x other q", ""),
        ("a publish x other m", ""),
        ("* counts lost", "2 0"),
        ("* counts q", "2 0"),
        // Without the alternate exchange the message is unroutable. That exchange may come back
        // later, and be internal.
        ("b unbind x other q; delete-exchange ae", ""),
        ("a publish x other m mandatory", "returned m"),
        ("b exchange ae fanout internal; bind ae - lost", ""),
        ("a publish x other m mandatory", ""),
        ("* counts lost", "3 0"),
        ("b delete lost", "3"),
        ("a publish x other m mandatory", "returned m"),
    ]);
}

#[test]
fn alternate_exchanges_form_chains_and_circles_end() {
    check(&[
        ("a queue q; queue r", "0 0, 0 0"),
        ("a exchange x topic alternate-exchange=y; exchange y headers alternate-exchange=z", ""),
        ("a exchange z direct alternate-exchange=x; exchange self fanout alternate-exchange=self", ""),
        ("a publish x k m mandatory; publish self k n mandatory", "returned m, returned n"),
        ("a bind z k q; publish x k m mandatory; publish y k m mandatory", ""),
        ("* counts q", "2 0"),
        ("a bind y - r x-match=all h=1; publish x k m; publish x k m h=1; publish x k m h=2", ""),
        ("* counts q", "4 0"),
        ("* counts r", "1 0"),
        // A binding to an exchange counts as a match, whatever is found there: only that one's
        // alternate counts.
        ("a exchange empty fanout; exchange half fanout alternate-exchange=z", ""),
        ("a exchange s fanout alternate-exchange=z; bind s - exchange:empty; publish s k m mandatory", "returned m"),
        ("a bind s - exchange:half; publish s k m mandatory", ""),
        ("* counts q", "5 0"),
        // As an alternate exchange the default exchange works as always.
        ("a exchange d direct alternate-exchange=; publish d r m mandatory; publish d none m mandatory", "returned m"),
        ("* counts r", "2 0"),
    ]);
}

#[test]
fn the_alternate_exchange_is_part_of_the_declaration_and_needs_rights() {
    let differs = "406 inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': received";
    check(&[
        ("* user writer .* ^x .*", ""),
        ("* user reader .* .* ^ae", ""),
        (
            "writer exchange x direct alternate-exchange=ae",
            "403 write access to exchange 'ae' in vhost '/' refused for user 'writer'",
        ),
        (
            "reader exchange x direct alternate-exchange=ae",
            "403 read access to exchange 'x' in vhost '/' refused for user 'reader'",
        ),
        ("a exchange x direct alternate-exchange=ae", ""),
        // An existing exchange is only compared, which needs the right to declare it.
        ("writer exchange x direct alternate-exchange=ae", ""),
        ("a exchange x direct", &format!("{differs} none but current is the value 'ae' of type 'longstr'")),
        ("a exchange x direct alternate-exchange=other", &format!("{differs} 'other' but current is 'ae'")),
        (
            "a exchange y direct alternate-exchange=5",
            "406 invalid type 'long' for arg 'alternate-exchange' in exchange 'y' in vhost '/'",
        ),
    ]);
}

#[test]
fn dead_letters_find_the_alternate_exchange_too() {
    check(&[
        ("a queue q x-dead-letter-exchange=x x-dead-letter-routing-key=k; queue lost", "0 0, 0 0"),
        ("a exchange ae fanout; bind ae - lost; exchange x direct alternate-exchange=ae", ""),
        ("a publish - q m; get q; reject 1", ":1=m left 0"),
        ("a get lost no-ack", ":2=m[q/rejected*1] left 0"),
    ]);
}

#[test]
fn copies_go_where_more_keys_lead() {
    check(&[
        ("a queue q; queue r; queue s", "0 0, 0 0, 0 0"),
        ("a publish - q m CC=r BCC=s", ""),
        ("* counts q", "1 0"),
        ("* counts r", "1 0"),
        ("* counts s", "1 0"),
        // Its route is not remembered for messages with the same key, and a remembered route is not
        // used for copies.
        ("a publish - q m; publish - q m; publish - q m CC=r,r,q", ""),
        ("* counts q", "4 0"),
        ("* counts r", "2 0"),
        ("* counts s", "1 0"),
        ("a publish - none m CC=none,other mandatory; publish - none m BCC=s mandatory", "returned m"),
        ("* counts s", "2 0"),
        // The first message with this key has copies, the second has none.
        ("a exchange d direct; bind d k q; bind d l r; publish d k m CC=l; publish d k m", ""),
        ("* counts q", "6 0"),
        ("* counts r", "3 0"),
        ("a exchange t topic; bind t *.x q; bind t a.# r; publish t b.x m CC=a.y BCC=a.z,c.x", ""),
        ("* counts q", "7 0"),
        ("* counts r", "4 0"),
        ("a exchange f fanout; bind f - q; publish f k m CC=l", ""),
        ("* counts q", "8 0"),
        // An exchange whose bindings match none of the keys passes all of them on.
        ("a exchange x direct alternate-exchange=d; publish x none m CC=l", ""),
        ("* counts r", "5 0"),
        ("a begin; tx-publish - q m BCC=r; commit", "committed"),
        ("* counts q", "9 0"),
        ("* counts r", "6 0"),
    ]);
}

#[test]
fn dead_letters_take_all_their_keys_along_unless_the_queue_gives_them_one() {
    check(&[
        (
            "a queue q x-dead-letter-exchange=d; queue p x-dead-letter-exchange=d x-dead-letter-routing-key=new",
            "0 0, 0 0",
        ),
        ("a queue own; queue cc; queue bcc; queue new x-dead-letter-exchange=d", "0 0, 0 0, 0 0, 0 0"),
        ("a exchange d direct; bind d q own; bind d k1 cc; bind d k2 bcc; bind d new new", ""),
        ("a publish - q m CC=k1 BCC=k2; get q; reject 1", ":1=m left 0"),
        ("* counts own", "1 0"),
        ("* counts cc", "1 0"),
        ("* counts bcc", "1 0"),
        ("a publish - p m CC=k1 BCC=k2; get p; reject 2", ":2=m left 0"),
        ("* counts new", "1 0"),
        // The other keys are forgotten for good.
        ("a get new; reject 3", ":3=m[p/rejected*1] left 0"),
        ("* counts new", "1 0"),
        ("* counts cc", "1 0"),
        ("* counts bcc", "1 0"),
    ]);
}

/// The history of a death has bounded room. A list of keys that would fill it must not cost the
/// message.
#[test]
fn a_dead_letter_with_very_many_keys_is_not_lost() {
    let keys: Vec<String> = (0..6000).map(|number| format!("key{number:07}")).collect();
    let publish = format!("a publish - q m CC={},r", keys.join(","));
    let mut setup = Setup::memory();
    setup.settings.limits.cc_keys = 10_000;
    Script::open(setup, None).check(&[
        ("a queue q x-dead-letter-exchange=d; queue r; queue dead; exchange d direct; bind d r dead", "0 0, 0 0, 0 0"),
        (&publish, ""),
        ("* counts r", "1 0"),
        ("a get q; reject 1", ":1=m left 0"),
        ("a get dead no-ack", ":2=m[q/rejected*1] left 0"),
    ]);
}

#[test]
fn a_hashing_exchange_brings_each_message_to_one_queue() {
    for kind in ["x-consistent-hash", "x-modulus-hash"] {
        let declare = format!("a exchange x {kind}; bind x 1 q; bind x 1 r; bind x 1 s");
        let publishes: Vec<String> = (0..60).map(|key| format!("publish x user.{key} {key} mandatory")).collect();
        let mut script = Script::memory();
        assert_eq!(script.say("a queue q; queue r; queue s"), "0 0, 0 0, 0 0");
        assert_eq!(script.say(&declare), "");
        let mut before = Vec::new();
        for round in 1..=3 {
            // Once by a new route, then by a remembered one.
            assert_eq!(script.say(&format!("a {}", publishes.join("; "))), "");
            let counts: Vec<u64> = ["q", "r", "s"]
                .iter()
                .map(|queue| script.say(&format!("* counts {queue}")).trim_end_matches(" 0").parse().unwrap())
                .collect();
            assert_eq!(counts.iter().sum::<u64>(), 60 * round);
            if round == 1 {
                assert!(counts.iter().all(|count| (8..=36).contains(count)), "{kind}: {counts:?}");
                before = counts;
            } else {
                assert_eq!(counts, before.iter().map(|count| count * round).collect::<Vec<_>>(), "{kind}");
            }
        }
        // Copies go where the message itself goes.
        assert_eq!(script.say("a publish x user.1 m CC=user.2,user.3,user.4,user.5,user.6"), "");
        let total: u64 = ["q", "r", "s"]
            .iter()
            .map(|queue| script.say(&format!("* counts {queue}")).trim_end_matches(" 0").parse::<u64>().unwrap())
            .sum();
        assert_eq!(total, 181, "{kind}");
    }
}

#[test]
fn hashing_exchanges_refuse_what_they_cannot_hash_or_weigh() {
    check(&[
        ("a queue q; exchange x x-consistent-hash", "0 0"),
        ("a bind x heavy q", "406 The binding key must be an integer: <<\"heavy\">>"),
        ("a bind x 0 q", "406 The binding key must be greater than 0"),
        ("a exchange y x-consistent-hash hash-property=app_id", "406 Unsupported property: app_id"),
        (
            "a exchange y x-consistent-hash hash-property=message_id hash-header=h",
            "406 hash-header and hash-property are mutually exclusive",
        ),
        ("a exchange y x-consistent-hash hash-header=h; bind y 5 q", ""),
        ("a publish y k m h=1 mandatory; publish y k m h=2 mandatory; publish y k m mandatory", ""),
        ("* counts q", "3 0"),
        (
            "a exchange y x-consistent-hash hash-header=g",
            "406 inequivalent arg 'hash-header' for exchange 'y' in vhost '/': received 'g' but current is 'h'",
        ),
        ("a exchange z x-random", "406 unknown exchange type 'x-random'"),
    ]);
}

/// Exchanges, bindings, and messages: exchange, key, and keys of copies.
#[derive(Debug, Clone)]
struct World {
    /// Type and alternate exchange of each; the last numbers are of missing ones.
    exchanges: Vec<(&'static str, Option<usize>)>,
    /// Source, key, and a queue or an exchange.
    bindings: Vec<(usize, &'static str, Result<usize, usize>)>,
    messages: Vec<(usize, &'static str, Vec<&'static str>)>,
}

const QUEUES: usize = 4;
const EXCHANGES: usize = 5;

fn world() -> impl Strategy<Value = World> {
    let keys = || prop::sample::select(vec!["a", "b", "c"]);
    let exchange = (prop::sample::select(vec!["direct", "fanout", "topic"]), prop::option::of(0..EXCHANGES + 1));
    let patterns = prop::sample::select(vec!["a", "b", "*", "#", "#.#.c"]);
    let destination = prop_oneof![(0..QUEUES).prop_map(Ok), (0..EXCHANGES).prop_map(Err)];
    let message = (0..EXCHANGES, keys(), prop::collection::vec(keys(), 0..3));
    (
        prop::collection::vec(exchange, EXCHANGES),
        prop::collection::vec((0..EXCHANGES, patterns, destination), 0..10),
        prop::collection::vec(message, 1..10),
    )
        .prop_map(|(exchanges, bindings, messages)| World { exchanges, bindings, messages })
}

impl World {
    /// The rules, by recursion.
    fn reach(&self, exchange: usize, keys: &[&str], seen: &mut BTreeSet<usize>, queues: &mut BTreeSet<usize>) {
        let Some((kind, alternate)) = self.exchanges.get(exchange) else { return };
        if !seen.insert(exchange) {
            return;
        }
        let takes = |pattern: &str, key: &str| match (*kind, pattern) {
            ("fanout", _) | ("topic", "*" | "#") => true,
            ("topic", "#.#.c") => key == "c",
            (_, literal) => literal == key,
        };
        let taking: Vec<_> = self
            .bindings
            .iter()
            .filter(|(source, pattern, _)| *source == exchange && keys.iter().any(|key| takes(pattern, key)))
            .collect();
        for (_, _, destination) in &taking {
            match destination {
                Ok(queue) => drop(queues.insert(*queue)),
                Err(exchange) => self.reach(*exchange, keys, seen, queues),
            }
        }
        if let (true, Some(alternate)) = (taking.is_empty(), alternate) {
            self.reach(*alternate, keys, seen, queues);
        }
    }

    fn declarations(&self) -> String {
        let queues = (0..QUEUES).map(|queue| format!("queue q{queue}"));
        let exchanges = self.exchanges.iter().enumerate().map(|(number, (kind, alternate))| {
            let alternate = alternate.map(|other| format!("alternate-exchange=x{other}")).unwrap_or_default();
            format!("exchange x{number} {kind} {alternate}")
        });
        let bindings = self.bindings.iter().map(|(source, key, destination)| match destination {
            Ok(queue) => format!("bind x{source} {key} q{queue}"),
            Err(exchange) => format!("bind x{source} {key} exchange:x{exchange}"),
        });
        queues.chain(exchanges).chain(bindings).collect::<Vec<_>>().join("; ")
    }
}

proptest! {
    #[test]
    fn messages_go_where_bindings_alternates_and_copies_say(world in world()) {
        let mut script = Script::memory();
        script.say(&format!("a {}", world.declarations()));
        let mut expected = [0; QUEUES];
        for (exchange, key, copies) in &world.messages {
            let mut queues = BTreeSet::new();
            let keys: Vec<_> = [*key].into_iter().chain(copies.iter().copied()).collect();
            world.reach(*exchange, &keys, &mut BTreeSet::new(), &mut queues);
            let copies = if copies.is_empty() { String::new() } else { format!("BCC={}", copies.join(",")) };
            let said = script.say(&format!("a publish x{exchange} {key} m mandatory {copies}"));
            prop_assert_eq!(said, if queues.is_empty() { "returned m" } else { "" });
            queues.iter().for_each(|queue| expected[*queue] += 1);
        }
        for (queue, count) in expected.iter().enumerate() {
            prop_assert_eq!(script.say(&format!("* counts q{queue}")), format!("{count} 0"), "q{}", queue);
        }
    }
    /// A client remembers its routes. It must look again whenever a new client would find others.
    #[test]
    fn a_remembered_route_is_the_one_that_a_new_client_finds(
        steps in prop::collection::vec((0..9_u8, 0..3_usize, 0..3_usize), 1..50)
    ) {
        let kinds = ["direct", "topic", "fanout alternate-exchange=x0"];
        let mut script = Script::memory();
        for (index, kind) in kinds.iter().enumerate() {
            script.say(&format!("o exchange x{index} {kind}; queue q{index}"));
        }
        for (number, (step, from, to)) in steps.into_iter().enumerate() {
            match step {
                0 => script.say(&format!("o queue q{to}")),
                1 => script.say(&format!("o delete q{to}")),
                2 => script.say(&format!("o bind x{from} k q{to}")),
                3 => script.say(&format!("o unbind x{from} k q{to}")),
                4 => script.say(&format!("o bind x{from} k exchange:x{to}")),
                5 => script.say(&format!("o unbind x{from} k exchange:x{to}")),
                6 => script.say(&format!("o exchange x{from} {}", kinds[from])),
                7 => script.say(&format!("o delete-exchange x{from}")),
                _ => String::new(),
            };
            for target in ["x0 k", "x1 k", "x2 k", "- q0", "- q1"] {
                let said = script.say(&format!("warm publish {target} m mandatory"));
                prop_assert_eq!(said, script.say(&format!("new{number} publish {target} m mandatory")), "{}", target);
            }
            for queue in 0..3 {
                let said = script.say(&format!("* counts q{queue}"));
                let ready: Option<u64> = said.strip_suffix(" 0").and_then(|ready| ready.parse().ok());
                prop_assert!(ready.is_none_or(|ready| ready % 2 == 0), "q{} has {}", queue, said);
            }
        }
    }
}
