//! The places of keys, by count and by comparison; the hashed values; and the refused weights and
//! arguments.

use super::*;
use crate::message::cc::Copies;
use crate::message::properties::Properties;

const KEYS: u64 = 20_000;

type Fields = Vec<(&'static str, Value)>;
/// Makes a message from a number.
type Make = fn(u64) -> Properties;

fn consistent(weights: &[(u64, u64)]) -> Consistent {
    let mut consistent = Consistent::default();
    weights.iter().for_each(|(id, weight)| consistent.add(*weight, Destination::Queue(*id)));
    consistent
}

fn by_properties(consistent: &Consistent, key: &str, properties: &Properties) -> Vec<Destination> {
    let mut into = Reached::within(1000);
    consistent.route(&Envelope::new(key, Copies::None, &|| Some(properties.clone())), &mut into);
    into.take()
}

/// The queue of each key.
fn queues(consistent: &Consistent) -> Vec<u64> {
    let queue = |key: u64| match by_properties(consistent, &format!("user.{key}"), &Properties::default())[..] {
        [Destination::Queue(id)] => id,
        ref other => panic!("one queue for each key, not {other:?}"),
    };
    (0..KEYS).map(queue).collect()
}

fn count(queues: &[u64], id: u64) -> u64 {
    queues.iter().filter(|queue| **queue == id).count() as u64
}

/// Within a tenth. Keys and hashes are fixed, so the result is no matter of luck.
#[track_caller]
fn assert_near(count: u64, expected: u64) {
    assert!(count.abs_diff(expected) * 10 <= expected, "{count} should be near {expected}");
}

#[test]
fn keys_are_shared_out_by_weight() {
    let equal = queues(&consistent(&[(1, 1), (2, 1), (7, 1), (1000, 1)]));
    for id in [1, 2, 7, 1000] {
        assert_near(count(&equal, id), KEYS / 4);
    }
    let weighted = queues(&consistent(&[(1, 1), (2, 2), (3, 5)]));
    for (id, weight) in [(1, 1), (2, 2), (3, 5)] {
        assert_near(count(&weighted, id), KEYS * weight / 8);
    }
    assert_eq!(queues(&consistent(&[(1, 1000), (2, 3000)])), queues(&consistent(&[(1, 1), (2, 3)])));
}

#[test]
fn a_new_queue_takes_its_share_and_moves_nothing_else() {
    let ten: Vec<(u64, u64)> = (1..=10).map(|id| (id, 1)).collect();
    let before = queues(&consistent(&ten));
    let after = queues(&consistent(&[&ten[..], &[(11, 1)]].concat()));
    let moved: Vec<u64> = before.iter().zip(&after).filter(|(one, other)| one != other).map(|(_, to)| *to).collect();
    assert_near(moved.len() as u64, KEYS / 11);
    assert!(moved.iter().all(|to| *to == 11));
    for id in 1..=10 {
        let taken = before.iter().zip(&after).filter(|(from, to)| **from == id && **to == 11).count() as u64;
        assert!((100..=260).contains(&taken), "{taken} of about 182 keys came from queue {id}");
    }
}

#[test]
fn the_order_of_bindings_and_their_past_make_no_difference() {
    let one = consistent(&[(1, 2), (2, 1), (3, 1)]);
    let mut other = consistent(&[(9, 4), (3, 1), (1, 1), (2, 3), (1, 1)]);
    other.remove(2, Destination::Queue(2));
    other.remove(4, Destination::Queue(9));
    other.remove(1, Destination::Queue(5));
    assert_eq!(queues(&one), queues(&other));
    for (id, weight) in [(1, 2), (2, 1), (3, 1)] {
        other.remove(weight, Destination::Queue(id));
    }
    assert_eq!(by_properties(&other, "k", &Properties::default()), []);
}

/// Changed hashes would scatter the messages of one key over two queues. The expected places were
/// computed apart from this code.
#[test]
fn the_hashes_never_change() {
    assert_eq!(digest(b""), 0xF52A_15E9_A9B5_E89B);
    assert_eq!(digest(b"user.1"), 0x1710_348D_9690_AC1F);
    let three = consistent(&[(1, 1), (2, 1), (3, 1)]);
    assert_eq!(queues(&three)[..12], [1, 2, 2, 2, 2, 2, 1, 2, 3, 3, 1, 1]);
    let mut modulus = Modulus::default();
    [3, 5, 9].into_iter().for_each(|id| modulus.add(Destination::Queue(id)));
    let route = |key| {
        let mut into = Reached::within(1);
        modulus.route(&format!("user.{key}"), &mut into);
        into.take()
    };
    let found: Vec<_> = (0..12).flat_map(route).collect();
    assert_eq!(found, [5, 3, 5, 3, 3, 3, 5, 3, 9, 9, 9, 5].map(Destination::Queue));
}

#[test]
fn a_logarithm_is_one() {
    for number in [1, 2, 3, 5, 7, 1000, 1 << 40, (1 << 53) - 1, 1 << 53] {
        let error = (logarithm(number) - (number as f64).ln()).abs();
        assert!(error < 1e-6, "{number}: {error}");
    }
}

#[test]
fn what_is_hashed_is_what_was_asked_for() {
    let header = |value| Properties { headers: Table(vec![("h".into(), value)]), ..Properties::default() };
    let cases: Vec<(HashOn, Make)> = vec![
        (HashOn::Header("h".into()), |n| Properties {
            headers: Table(vec![("h".into(), Value::Text(n.to_string()))]),
            ..Properties::default()
        }),
        (HashOn::CorrelationId, |n| Properties { correlation_id: Some(n.to_string().into()), ..Properties::default() }),
        (HashOn::MessageId, |n| Properties { message_id: Some(n.to_string().into()), ..Properties::default() }),
        (HashOn::Timestamp, |n| Properties { timestamp: Some(1000 * n as i64), ..Properties::default() }),
    ];
    for (on, properties) in cases {
        let mut exchange = Consistent::new(on.clone());
        (1..=4).for_each(|id| exchange.add(1, Destination::Queue(id)));
        let mut reached: Vec<_> = (0..100).flat_map(|n| by_properties(&exchange, "same", &properties(n))).collect();
        reached.sort();
        reached.dedup();
        assert_eq!(reached.len(), 4, "{on:?} spreads");
        for n in 0..100 {
            let one = by_properties(&exchange, "one", &properties(n));
            assert_eq!(one, by_properties(&exchange, "other", &properties(n)), "{on:?}: the key plays no part");
        }
        assert_eq!(by_properties(&exchange, "k", &Properties::default()).len(), 1, "{on:?} without it");
    }
    let mut exchange = Consistent::new(HashOn::Header("h".into()));
    (1..=100).for_each(|id| exchange.add(1, Destination::Queue(id)));
    let place = |value| by_properties(&exchange, "k", &header(value));
    assert_eq!(place(Value::I8(5)), place(Value::I64(5)), "integers are one class");
    assert_eq!(place(Value::Text("a".into())), place(Value::Bytes(b"a".to_vec())));
    assert_ne!(place(Value::Bool(true)), place(Value::Bool(false)));
}

#[test]
fn arguments_that_contradict_or_ask_for_too_much_are_refused() {
    let text = |text: &str| Value::Text(text.to_owned());
    let cases: Vec<(Fields, Result<HashOn, &str>)> = vec![
        (vec![], Ok(HashOn::RoutingKey)),
        (vec![("hash-header", text("h"))], Ok(HashOn::Header("h".into()))),
        (vec![("hash-property", text("correlation_id"))], Ok(HashOn::CorrelationId)),
        (vec![("hash-property", text("message_id"))], Ok(HashOn::MessageId)),
        (vec![("hash-property", text("timestamp"))], Ok(HashOn::Timestamp)),
        (vec![("hash-property", text("app_id"))], Err("Unsupported property: app_id")),
        (
            vec![("hash-header", text("h")), ("hash-property", text("message_id"))],
            Err("hash-header and hash-property are mutually exclusive"),
        ),
        (vec![("hash-header", Value::I32(1))], Err("hash-header must be a text")),
        (vec![("hash-property", Value::Bool(true))], Err("hash-property must be a text")),
    ];
    for (arguments, expected) in cases {
        let table = Table(arguments.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        assert_eq!(HashOn::of(&table), expected.map_err(str::to_owned), "{table:?}");
    }
}

#[test]
fn weights_are_positive_integers() {
    let integer = |key: &str| Err(format!("The binding key must be an integer: <<\"{key}\">>"));
    let positive = || Err("The binding key must be greater than 0".to_owned());
    let large = || Err("The binding key must not be greater than 4294967295".to_owned());
    let cases = [
        ("1", Ok(1)),
        ("+10", Ok(10)),
        ("007", Ok(7)),
        ("4294967295", Ok(4_294_967_295)),
        ("4294967296", large()),
        ("99999999999999999999999999", large()),
        ("0", positive()),
        ("-1", positive()),
        ("-99999999999999999999999999", positive()),
        ("", integer("")),
        ("+", integer("+")),
        ("a", integer("a")),
        ("1.5", integer("1.5")),
        (" 1", integer(" 1")),
        ("+-1", integer("+-1")),
    ];
    for (key, expected) in cases {
        assert_eq!(weight(key).map_err(|error| error.text), expected, "{key:?}");
    }
}

#[test]
fn a_modulus_spreads_evenly_and_knows_no_order() {
    let mut modulus = Modulus::default();
    for id in [5, 3, 9, 3] {
        modulus.add(Destination::Queue(id));
    }
    let route = |modulus: &Modulus, key: u64| {
        let mut into = Reached::within(1);
        modulus.route(&format!("user.{key}"), &mut into);
        into.take()
    };
    let all: Vec<_> = (0..KEYS).map(|key| route(&modulus, key)).collect();
    for id in [3, 5, 9] {
        let share = all.iter().filter(|one| **one == [Destination::Queue(id)]).count() as u64;
        assert_near(share, KEYS / 3);
    }
    let mut again = Modulus::default();
    for id in [9, 4, 5, 3] {
        again.add(Destination::Queue(id));
        route(&again, 1);
    }
    again.remove(Destination::Queue(4));
    again.remove(Destination::Queue(4));
    assert_eq!((0..KEYS).map(|key| route(&again, key)).collect::<Vec<_>>(), all);
    modulus.remove(Destination::Queue(3));
    assert_eq!((0..KEYS).map(|key| route(&modulus, key)).collect::<Vec<_>>(), all, "one of two bindings is left");
    for id in [3, 5, 9] {
        modulus.remove(Destination::Queue(id));
    }
    assert_eq!(route(&modulus, 1), []);
}
