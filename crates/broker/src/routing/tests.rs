//! The bindings of an exchange as a whole, for each kind.

use super::*;
use crate::error::ErrorKind;
use crate::message::cc::Copies;
use crate::message::properties::Properties;
use crate::value::{Table, Value};

/// The kinds that take any binding key; the keys of the others are weights.
const KINDS: [ExchangeKind; 5] =
    [ExchangeKind::Direct, ExchangeKind::Fanout, ExchangeKind::Topic, ExchangeKind::Headers, ExchangeKind::ModulusHash];

/// The kinds among them that choose destinations by key or headers.
const CHOOSING: [ExchangeKind; 4] =
    [ExchangeKind::Direct, ExchangeKind::Fanout, ExchangeKind::Topic, ExchangeKind::Headers];

fn bindings_of(kind: ExchangeKind) -> Bindings {
    Bindings::new(kind, HashOn::default(), &Tally::default())
}

fn binding(destination: Destination, key: &str, arguments: &[(&str, Value)]) -> Binding {
    let fields = arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Binding { destination, key: key.into(), arguments: Table(fields) }
}

fn to_queue(id: u64, key: &str) -> Binding {
    binding(Destination::Queue(id), key, &[])
}

fn route(bindings: &Bindings, key: &str, headers: &Table) -> Vec<Destination> {
    let mut into = Reached::within(STEPS);
    let read = || Some(Properties { headers: headers.clone(), ..Properties::default() });
    bindings.route(&Envelope::new(key, Copies::None, &read), &mut into);
    let mut found = into.take();
    found.sort();
    found
}

/// Adds a binding: false when it was there already.
fn insert(bindings: &mut Bindings, binding: Binding, limit: u64) -> Result<bool, Error> {
    let admitted = bindings.admit(binding, limit)?;
    let is_new = admitted.is_some();
    admitted.into_iter().for_each(|admitted| bindings.add(admitted));
    Ok(is_new)
}

fn insert_all(bindings: &mut Bindings, all: &[Binding]) {
    for binding in all {
        assert_eq!(insert(bindings, binding.clone(), u64::MAX), Ok(true), "{binding:?}");
    }
}

#[test]
fn kinds_by_name() {
    for kind in ExchangeKind::ALL {
        assert_eq!(ExchangeKind::parse(kind.name()), Some(kind));
    }
    for unknown in ["", "Direct", "x-recent-history", "match"] {
        assert_eq!(ExchangeKind::parse(unknown), None);
    }
}

#[test]
fn each_kind_routes_its_way() {
    let all = [
        to_queue(1, "a.b"),
        to_queue(2, "a.*"),
        binding(Destination::Exchange(1), "#", &[]),
        binding(Destination::Queue(3), "a.b", &[("x-match", Value::Text("any".into())), ("h", Value::I32(1))]),
    ];
    let (q1, q2, q3, x1) =
        (Destination::Queue(1), Destination::Queue(2), Destination::Queue(3), Destination::Exchange(1));
    let with_header = Table(vec![("h".to_owned(), Value::U8(1))]);
    let none = Table::default();
    let cases: &[(ExchangeKind, &str, &Table, &[Destination])] = &[
        (ExchangeKind::Direct, "a.b", &none, &[q1, q3]),
        (ExchangeKind::Direct, "a.*", &none, &[q2]),
        (ExchangeKind::Direct, "a.c", &none, &[]),
        (ExchangeKind::Fanout, "anything", &none, &[q1, q2, q3, x1]),
        (ExchangeKind::Topic, "a.b", &none, &[q1, q2, q3, x1]),
        (ExchangeKind::Topic, "a.c", &none, &[q2, x1]),
        (ExchangeKind::Topic, "", &none, &[x1]),
        // A binding without fields to match takes every message.
        (ExchangeKind::Headers, "a.b", &none, &[q1, q2, x1]),
        (ExchangeKind::Headers, "", &with_header, &[q1, q2, q3, x1]),
    ];
    for (kind, key, headers, expected) in cases {
        let mut bindings = bindings_of(*kind);
        insert_all(&mut bindings, &all);
        assert_eq!(route(&bindings, key, headers), *expected, "{kind:?} {key:?}");
    }
}

#[test]
fn properties_are_read_once_and_only_where_they_matter() {
    let cases = [
        (ExchangeKind::Direct, HashOn::RoutingKey, 0),
        (ExchangeKind::Fanout, HashOn::RoutingKey, 0),
        (ExchangeKind::Topic, HashOn::RoutingKey, 0),
        (ExchangeKind::Headers, HashOn::RoutingKey, 1),
        (ExchangeKind::ConsistentHash, HashOn::RoutingKey, 0),
        (ExchangeKind::ConsistentHash, HashOn::Header("h".to_owned()), 1),
        (ExchangeKind::ConsistentHash, HashOn::MessageId, 1),
        (ExchangeKind::ModulusHash, HashOn::RoutingKey, 0),
    ];
    for (kind, hash_on, expected) in cases {
        let mut bindings = Bindings::new(kind, hash_on, &Tally::default());
        assert_eq!(bindings.are_by_key(), expected == 0, "{kind:?}");
        let reads = std::cell::Cell::new(0);
        let read = || {
            reads.set(reads.get() + 1);
            None
        };
        bindings.route(&Envelope::new("1", Copies::None, &read), &mut Reached::within(STEPS));
        assert_eq!(reads.get(), 0, "{kind:?} without bindings");
        insert_all(&mut bindings, &[to_queue(1, "1"), to_queue(2, "1")]);
        let mut into = Reached::within(STEPS);
        bindings.route(&Envelope::new("1", Copies::None, &read), &mut into);
        assert_eq!(reads.get(), expected, "{kind:?}");
        let one = matches!(kind, ExchangeKind::ConsistentHash | ExchangeKind::ModulusHash);
        assert_eq!(into.take().len(), if one { 1 } else { 2 }, "{kind:?}: no properties are like empty ones");
    }
}

#[test]
fn all_keys_of_a_message_count_where_keys_choose() {
    let list = |keys: &[&str]| Value::Array(keys.iter().map(|key| Value::Text((*key).to_owned())).collect());
    let headers = Table(vec![("CC".to_owned(), list(&["b.x", "b.x"])), ("BCC".to_owned(), list(&["c"]))]);
    let read = || Some(Properties { headers: headers.clone(), ..Properties::default() });
    let all = [to_queue(1, "a"), to_queue(2, "b.x"), to_queue(3, "*.x"), to_queue(4, "c"), to_queue(5, "d")];
    for (kind, copied, alone) in [
        (ExchangeKind::Direct, &[1, 2, 4][..], &[1][..]),
        (ExchangeKind::Topic, &[1, 2, 3, 4], &[1]),
        (ExchangeKind::Fanout, &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]),
        (ExchangeKind::Headers, &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]),
    ] {
        let mut bindings = bindings_of(kind);
        insert_all(&mut bindings, &all);
        for (copies, expected) in [(Copies::Named, copied), (Copies::None, alone), (Copies::Spent, alone)] {
            let mut into = Reached::within(STEPS);
            bindings.route(&Envelope::new("a", copies, &read), &mut into);
            let mut into = into.take();
            into.sort();
            let expected: Vec<_> = expected.iter().map(|id| Destination::Queue(*id)).collect();
            assert_eq!(into, expected, "{kind:?} {copies:?}");
        }
    }
}

#[test]
fn only_consistent_hash_exchanges_want_weights_for_keys() {
    let keys = [("0", false), ("x", false), ("", false), ("3", true)];
    for kind in ExchangeKind::ALL {
        for (key, good) in keys {
            let mut bindings = bindings_of(kind);
            let inserted = insert(&mut bindings, to_queue(1, key), u64::MAX).map_err(|error| error.kind);
            let refused = kind == ExchangeKind::ConsistentHash && !good;
            assert_eq!(inserted, if refused { Err(ErrorKind::Precondition) } else { Ok(true) }, "{kind:?} {key:?}");
            assert_eq!(bindings.is_empty(), refused);
        }
    }
}

#[test]
fn a_destination_of_a_hashing_exchange_goes_with_all_its_bindings() {
    for kind in [ExchangeKind::ConsistentHash, ExchangeKind::ModulusHash] {
        let mut bindings = bindings_of(kind);
        insert_all(&mut bindings, &[to_queue(1, "1"), to_queue(1, "20"), to_queue(2, "1")]);
        assert_eq!(bindings.remove_destination(Destination::Queue(1)).len(), 2);
        for key in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(route(&bindings, key, &Table::default()), [Destination::Queue(2)], "{kind:?}");
        }
        assert!(bindings.remove(&to_queue(2, "1")));
        assert_eq!(route(&bindings, "a", &Table::default()), []);
    }
}

#[test]
fn a_binding_is_destination_key_and_arguments() {
    for kind in CHOOSING {
        let (p, q) = (("p", Value::I32(1)), ("q", Value::F64(f64::NAN)));
        let plain = to_queue(1, "k");
        let with = binding(Destination::Queue(1), "k", &[p.clone(), q.clone()]);
        let reordered = binding(Destination::Queue(1), "k", &[q, p]);
        let mut bindings = bindings_of(kind);
        insert_all(&mut bindings, &[plain.clone(), with.clone(), to_queue(1, "l"), to_queue(2, "k")]);
        assert_eq!(insert(&mut bindings, plain.clone(), u64::MAX), Ok(false));
        assert_eq!(
            insert(&mut bindings, reordered.clone(), u64::MAX),
            Ok(false),
            "{kind:?}: order of arguments is no difference"
        );
        assert_eq!((bindings.len(), bindings.iter().count()), (4, 4));

        assert!(bindings.remove(&reordered));
        assert!(!bindings.contains(&with) && bindings.contains(&plain));
        assert!(!bindings.remove(&with));
        assert!(!bindings.remove(&to_queue(9, "k")));
        assert!(!bindings.remove(&to_queue(1, "m")));
        assert!(
            route(&bindings, "k", &Table::default()).contains(&Destination::Queue(1)),
            "{kind:?}: the other one is left"
        );
        assert!(bindings.remove(&plain) && bindings.remove(&to_queue(1, "l")) && bindings.remove(&to_queue(2, "k")));
        assert!(bindings.is_empty());
        assert_eq!(route(&bindings, "k", &Table::default()), []);
    }
}

#[test]
fn only_headers_exchanges_mind_x_match() {
    for kind in KINDS {
        let odd = binding(Destination::Queue(1), "k", &[("x-match", Value::Text("some".into()))]);
        let inserted = insert(&mut bindings_of(kind), odd, u64::MAX).map_err(|error| error.kind);
        let expected = if kind == ExchangeKind::Headers { Err(ErrorKind::Precondition) } else { Ok(true) };
        assert_eq!(inserted, expected, "{kind:?}");
    }
}

#[test]
fn arguments_nested_too_deep_are_refused() {
    let mut deep = Value::Null;
    for _ in 0..40 {
        deep = Value::Array(vec![deep]);
    }
    let deep = binding(Destination::Queue(1), "k", &[("a", deep)]);
    for kind in KINDS {
        let mut bindings = bindings_of(kind);
        assert_eq!(
            insert(&mut bindings, deep.clone(), u64::MAX).map_err(|error| error.kind),
            Err(ErrorKind::Precondition)
        );
        assert!(!bindings.contains(&deep) && !bindings.remove(&deep) && bindings.is_empty());
    }
}

#[test]
fn a_destination_goes_with_its_bindings() {
    for kind in CHOOSING {
        let mut bindings = bindings_of(kind);
        let exchange = binding(Destination::Exchange(1), "a", &[]);
        insert_all(&mut bindings, &[to_queue(1, "a"), to_queue(1, "a.#"), to_queue(2, "a"), exchange.clone()]);
        let mut removed = bindings.remove_destination(Destination::Queue(1));
        removed.sort_by(|one, other| one.key.cmp(&other.key));
        assert_eq!(removed, [to_queue(1, "a"), to_queue(1, "a.#")], "{kind:?}");
        assert_eq!(bindings.remove_destination(Destination::Queue(1)), []);
        assert_eq!(bindings.len(), 2);
        assert_eq!(route(&bindings, "a", &Table::default()), [Destination::Queue(2), Destination::Exchange(1)]);
        assert!(bindings.contains(&exchange));
    }
}

#[test]
fn bindings_are_counted_for_all_exchanges_together() {
    let tally = Tally::default();
    let mut all = KINDS.map(|kind| Bindings::new(kind, HashOn::default(), &tally));
    for bindings in &mut all {
        for (key, inserted) in [("a", true), ("a", false), ("b", true), ("c", true)] {
            assert_eq!(insert(bindings, to_queue(1, key), u64::MAX), Ok(inserted));
        }
        assert_eq!(insert(bindings, to_queue(2, "a"), u64::MAX), Ok(true));
    }
    assert_eq!(tally.count(), 20);
    let [first, second, rest @ ..] = &mut all;
    assert_eq!(insert(first, to_queue(1, "a"), 20), Ok(false), "it is there already");
    let refused = insert(first, to_queue(3, "a"), 20).map_err(|error| error.text);
    assert_eq!(refused, Err("limit of 20 bindings is reached".to_owned()));
    assert!(first.remove(&to_queue(1, "a")) && !first.remove(&to_queue(1, "a")));
    assert_eq!(second.remove_destination(Destination::Queue(1)).len(), 3);
    assert_eq!(tally.count(), 16);
    assert_eq!(insert(first, to_queue(3, "a"), 17), Ok(true));
    rest.iter_mut().for_each(|bindings| drop(bindings.remove_destination(Destination::Queue(2))));
    assert_eq!(tally.count(), 14);
    drop(all);
    assert_eq!(tally.count(), 0);
}

/// Would not end in reasonable time if a removal looked at all bindings.
#[test]
fn a_hundred_thousand_bindings_come_and_go() {
    const COUNT: u64 = 100_000;
    for kind in KINDS {
        // Many destinations on one key, and one destination with many keys.
        let mut bindings = bindings_of(kind);
        for id in 0..COUNT {
            assert_eq!(insert(&mut bindings, to_queue(id, "same.key"), u64::MAX), Ok(true));
        }
        for id in 0..COUNT {
            assert_eq!(bindings.remove_destination(Destination::Queue(id)).len(), 1);
        }
        assert!(bindings.is_empty());
        for id in 0..COUNT {
            assert_eq!(insert(&mut bindings, to_queue(7, &format!("key.{id}")), u64::MAX), Ok(true));
        }
        assert_eq!(bindings.remove_destination(Destination::Queue(7)).len(), COUNT as usize);
        assert_eq!(route(&bindings, "key.5", &Table::default()), [], "{kind:?}");
    }
}
