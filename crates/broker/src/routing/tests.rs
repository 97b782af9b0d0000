//! The bindings of an exchange as a whole, for each kind.

use super::*;
use crate::error::ErrorKind;
use crate::message::value::Value;

const KINDS: [ExchangeKind; 4] =
    [ExchangeKind::Direct, ExchangeKind::Fanout, ExchangeKind::Topic, ExchangeKind::Headers];

fn binding(destination: Destination, key: &str, arguments: &[(&str, Value)]) -> Binding {
    let fields = arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Binding { destination, key: key.to_owned(), arguments: Table(fields) }
}

fn to_queue(id: u64, key: &str) -> Binding {
    binding(Destination::Queue(id), key, &[])
}

fn route(bindings: &Bindings, key: &str, headers: &Table) -> Vec<Destination> {
    let mut into = Vec::new();
    bindings.route(key, &mut || Some(headers.clone()), &mut into);
    into.sort();
    into.dedup();
    into
}

fn insert_all(bindings: &mut Bindings, all: &[Binding]) {
    for binding in all {
        assert_eq!(bindings.insert(binding.clone()), Ok(true), "{binding:?}");
    }
}

#[test]
fn kinds_by_name() {
    for kind in KINDS {
        assert_eq!(ExchangeKind::parse(kind.name()), Some(kind));
    }
    for unknown in ["", "Direct", "x-delayed-message", "match"] {
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
        let mut bindings = Bindings::new(*kind);
        insert_all(&mut bindings, &all);
        assert_eq!(route(&bindings, key, headers), *expected, "{kind:?} {key:?}");
    }
}

#[test]
fn headers_are_asked_for_once_and_only_where_they_matter() {
    for kind in KINDS {
        let mut bindings = Bindings::new(kind);
        let mut calls = 0;
        bindings.route(
            "k",
            &mut || {
                calls += 1;
                None
            },
            &mut Vec::new(),
        );
        assert_eq!(calls, 0, "{kind:?} without bindings");
        insert_all(&mut bindings, &[to_queue(1, "k"), to_queue(2, "k")]);
        let mut into = Vec::new();
        bindings.route(
            "k",
            &mut || {
                calls += 1;
                None
            },
            &mut into,
        );
        assert_eq!(calls, usize::from(kind == ExchangeKind::Headers), "{kind:?}");
        assert_eq!(into.len(), 2, "{kind:?}: no headers are like empty ones");
    }
}

#[test]
fn a_binding_is_destination_key_and_arguments() {
    for kind in KINDS {
        let (p, q) = (("p", Value::I32(1)), ("q", Value::F64(f64::NAN)));
        let plain = to_queue(1, "k");
        let with = binding(Destination::Queue(1), "k", &[p.clone(), q.clone()]);
        let reordered = binding(Destination::Queue(1), "k", &[q, p]);
        let mut bindings = Bindings::new(kind);
        insert_all(&mut bindings, &[plain.clone(), with.clone(), to_queue(1, "l"), to_queue(2, "k")]);
        assert_eq!(bindings.insert(plain.clone()), Ok(false));
        assert_eq!(bindings.insert(reordered.clone()), Ok(false), "{kind:?}: order of arguments is no difference");
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
        let inserted = Bindings::new(kind).insert(odd).map_err(|error| error.kind);
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
        let mut bindings = Bindings::new(kind);
        assert_eq!(bindings.insert(deep.clone()).map_err(|error| error.kind), Err(ErrorKind::Precondition));
        assert!(!bindings.contains(&deep) && !bindings.remove(&deep) && bindings.is_empty());
    }
}

#[test]
fn a_destination_goes_with_its_bindings() {
    for kind in KINDS {
        let mut bindings = Bindings::new(kind);
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

/// Would not end in reasonable time if one removal looked at all bindings.
#[test]
fn a_hundred_thousand_bindings_come_and_go() {
    const COUNT: u64 = 100_000;
    for kind in KINDS {
        // Many destinations on one key, and one destination with many keys.
        let mut bindings = Bindings::new(kind);
        for id in 0..COUNT {
            assert_eq!(bindings.insert(to_queue(id, "same.key")), Ok(true));
        }
        for id in 0..COUNT {
            assert_eq!(bindings.remove_destination(Destination::Queue(id)).len(), 1);
        }
        assert!(bindings.is_empty());
        for id in 0..COUNT {
            assert_eq!(bindings.insert(to_queue(7, &format!("key.{id}"))), Ok(true));
        }
        assert_eq!(bindings.remove_destination(Destination::Queue(7)).len(), COUNT as usize);
        assert_eq!(route(&bindings, "key.5", &Table::default()), [], "{kind:?}");
    }
}
