//! Headers exchanges: a message matches a binding if its headers have all, or any, of the fields in
//! the binding's arguments. `x-match` decides: `all` (the default) and `any` pass over arguments
//! whose names begin with `x-`, `all-with-x` and `any-with-x` only over `x-match` itself. Every
//! binding is compared with every message, and the routing key is not used.

use hashbrown::HashMap;

use super::reached::Reached;
use crate::error::Error;
use crate::value::{Table, Value};

const MATCH: &str = "x-match";
const MODES: [&str; 4] = ["all", "any", "all-with-x", "any-with-x"];

/// Refuses arguments that can't be matched, in RabbitMQ's words.
pub(super) fn validate(arguments: &Table) -> Result<(), Error> {
    let refusal = match arguments.get(MATCH) {
        None => return Ok(()),
        Some(Value::Text(mode)) if MODES.contains(&mode.as_str()) => return Ok(()),
        Some(Value::Text(other)) => {
            format!("value <<\"{other}\">>; expected all, any, all-with-x, or any-with-x")
        }
        Some(other) => format!("type {}; expected longstr", other.type_name()),
    };
    Err(Error::precondition(format!("Invalid {MATCH} field {refusal}")))
}

/// Up to this number a scan of the headers beats a map of them.
const SCANNED: usize = 8;
/// Bytes of a value that are compared in one step.
const COMPARED: usize = 64;

/// The headers of a message, found by name at one cost for any number of them.
pub(super) enum Headers<'a> {
    Few(&'a Table),
    Many(HashMap<&'a str, &'a Value>),
}

impl<'a> Headers<'a> {
    pub(super) fn of(table: &'a Table) -> Self {
        if table.len() <= SCANNED {
            return Self::Few(table);
        }
        // The first one of a name counts.
        Self::Many(table.0.iter().rev().map(|(name, value)| (name.as_str(), value)).collect())
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        match self {
            Self::Few(table) => table.get(name),
            Self::Many(map) => map.get(name).copied(),
        }
    }
}

/// Whether a message with these headers matches the binding with these arguments. Without fields to
/// match, `all` is true and `any` is false. Each argument costs a step of `budget`; without a step
/// left nothing matches.
pub(super) fn matches(arguments: &Table, headers: &Headers<'_>, budget: &mut Reached) -> bool {
    // The argument with the mode is looked up among all.
    if !budget.charge(1 + arguments.len() / SCANNED) {
        return false;
    }
    let mode = arguments.get(MATCH).and_then(Value::as_text).unwrap_or("all");
    let with_x = mode.ends_with("-with-x");
    let counts = |name: &str| if with_x { name != MATCH } else { !name.starts_with("x-") };
    let any = mode.starts_with("any");
    for (name, wanted) in arguments.0.iter().filter(|(name, _)| counts(name)) {
        let (holds, steps) = holds(headers, name, wanted);
        if !budget.charge(steps) {
            return false;
        }
        if holds == any {
            return any;
        }
    }
    !any
}

/// Whether a header has the wanted value, and the steps of the comparison. A wanted null asks for
/// the field alone, with any value.
fn holds(headers: &Headers<'_>, name: &str, wanted: &Value) -> (bool, usize) {
    match headers.get(name) {
        None => (false, 1),
        Some(_) if *wanted == Value::Null => (true, 1),
        Some(value) => (same(value, wanted), 1 + wanted.heap_bytes() / COMPARED),
    }
}

/// Equality within a class of types: integers of all widths, floating point of both, text and
/// bytes. Values of two classes differ: 1, 1.0 and "1" are three values.
fn same(one: &Value, other: &Value) -> bool {
    if let (Some(one), Some(other)) = (one.as_integer(), other.as_integer()) {
        return one == other;
    }
    match (one, other) {
        (Value::F32(one), Value::F64(other)) | (Value::F64(other), Value::F32(one)) => f64::from(*one) == *other,
        (Value::Text(text), Value::Bytes(bytes)) | (Value::Bytes(bytes), Value::Text(text)) => text.as_bytes() == bytes,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    type Fields = Vec<(&'static str, Value)>;

    fn table(fields: &[(&str, Value)]) -> Table {
        Table(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn modes() {
        let one_two = [("a", Value::I32(1)), ("b", text("2"))];
        let all = ("x-match", text("all"));
        let any = ("x-match", text("any"));
        let all_x = ("x-match", text("all-with-x"));
        let any_x = ("x-match", text("any-with-x"));
        let a = one_two[0].clone();
        let b = one_two[1].clone();
        let wrong = ("a", Value::I32(9));
        let odd = ("x-odd", Value::I32(3));
        let cases: &[(&str, Fields, Fields, bool)] = &[
            ("all, all there", vec![all.clone(), a.clone(), b.clone()], one_two.to_vec(), true),
            ("all, one missing", vec![all.clone(), a.clone(), b.clone()], vec![a.clone()], false),
            ("all, one different", vec![all.clone(), a.clone(), b.clone()], vec![wrong.clone(), b.clone()], false),
            ("all, more than asked for", vec![all.clone(), a.clone()], one_two.to_vec(), true),
            ("all is the default", vec![a.clone(), b.clone()], vec![a.clone()], false),
            ("all, no fields", vec![all.clone()], vec![], true),
            ("no arguments", vec![], one_two.to_vec(), true),
            ("any, one there", vec![any.clone(), a.clone(), b.clone()], vec![b.clone()], true),
            ("any, one different", vec![any.clone(), a.clone()], vec![wrong], false),
            ("any, none there", vec![any.clone(), a.clone(), b.clone()], vec![], false),
            ("any, no fields", vec![any.clone()], one_two.to_vec(), false),
            ("all, x- is no field", vec![all, a.clone(), odd.clone()], vec![a.clone()], true),
            ("any, x- is no field", vec![any, b.clone(), odd.clone()], vec![odd.clone()], false),
            ("all-with-x, all there", vec![all_x.clone(), a.clone(), odd.clone()], vec![odd.clone(), a.clone()], true),
            ("all-with-x, x- missing", vec![all_x.clone(), a.clone(), odd.clone()], vec![a], false),
            ("all-with-x, x- different", vec![all_x.clone(), odd.clone()], vec![("x-odd", text("3"))], false),
            ("all-with-x, no fields", vec![all_x], vec![], true),
            ("any-with-x, only x- there", vec![any_x.clone(), b, odd.clone()], vec![odd.clone()], true),
            ("any-with-x, none there", vec![any_x.clone(), odd], vec![any_x.clone()], false),
            ("any-with-x, x-match is no field", vec![any_x.clone()], vec![any_x], false),
        ];
        for (what, arguments, headers, expected) in cases {
            let (arguments, headers) = (table(arguments), table(headers));
            assert_eq!(matched(&arguments, &headers), *expected, "{what}");
            // More headers than a scan looks at; the first one of a name counts.
            let more = (0..20).map(|number| (format!("other{number}"), Value::Null));
            let again = headers.0.iter().map(|(name, _)| (name.clone(), text("not the first")));
            let many = Table(headers.0.iter().cloned().chain(more).chain(again).collect());
            assert_eq!(matched(&arguments, &many), *expected, "{what}, among many headers");
        }
    }

    fn matched(arguments: &Table, headers: &Table) -> bool {
        matches(arguments, &Headers::of(headers), &mut Reached::within(u32::MAX))
    }

    #[test]
    fn comparisons_are_charged_by_what_they_look_at() {
        let names = |count: usize| Table((0..count).map(|number| (format!("n{number}"), Value::Null)).collect());
        let large = |byte| Table(vec![("n".to_owned(), Value::Bytes(vec![byte; 64_000]))]);
        let ignored = Table((0..16_000).map(|number| (format!("x-{number}"), Value::Null)).collect());
        for (arguments, headers, least) in
            [(names(1000), names(1000), 1000), (large(1), large(1), 1000), (ignored, names(1), 1000)]
        {
            let mut budget = Reached::within(u32::MAX);
            assert!(matches(&arguments, &Headers::of(&headers), &mut budget));
            let steps = u32::MAX - budget.left();
            assert!((least..3 * least).contains(&steps), "{steps} steps");
            let mut budget = Reached::within(least / 2);
            assert!(!matches(&arguments, &Headers::of(&headers), &mut budget));
            assert!(budget.is_spent());
        }
    }

    #[test]
    fn values() {
        let list = || Value::Array(vec![Value::I8(1)]);
        let cases: &[(Value, Value, bool)] = &[
            (Value::I8(5), Value::I64(5), true),
            (Value::U32(5), Value::I16(5), true),
            (Value::I32(5), Value::I32(6), false),
            (Value::I32(1), Value::F64(1.0), false),
            (Value::I32(1), text("1"), false),
            (Value::I32(1), Value::Bool(true), false),
            (Value::I64(1), Value::Timestamp(1), false),
            (Value::Timestamp(1), Value::Timestamp(1), true),
            (Value::F32(0.5), Value::F64(0.5), true),
            (Value::F64(0.5), Value::F32(0.25), false),
            (text("a"), Value::Bytes(b"a".to_vec()), true),
            (text("a"), text("A"), false),
            (Value::Bool(true), Value::Bool(true), true),
            (list(), list(), true),
            (list(), Value::Array(vec![]), false),
            (Value::Null, Value::I32(0), true),
            (Value::Null, Value::Null, true),
            (Value::I32(0), Value::Null, false),
        ];
        for (wanted, value, expected) in cases {
            let found = matched(&table(&[("a", wanted.clone())]), &table(&[("a", value.clone())]));
            assert_eq!(found, *expected, "wanted {wanted:?}, is {value:?}");
        }
        assert!(!matched(&table(&[("a", Value::Null)]), &table(&[("b", Value::Null)])), "null asks for the field");
    }

    #[test]
    fn x_match_is_validated() {
        let expected = "expected all, any, all-with-x, or any-with-x";
        let cases = [
            (None, None),
            (Some(text("all")), None),
            (Some(text("any")), None),
            (Some(text("all-with-x")), None),
            (Some(text("any-with-x")), None),
            (Some(text("none")), Some(format!("Invalid x-match field value <<\"none\">>; {expected}"))),
            (Some(text("any-with-y")), Some(format!("Invalid x-match field value <<\"any-with-y\">>; {expected}"))),
            (Some(Value::I32(1)), Some("Invalid x-match field type signedint; expected longstr".to_owned())),
        ];
        for (value, refusal) in cases {
            let arguments = Table(value.into_iter().map(|value| ("x-match".to_owned(), value)).collect());
            let expected = refusal.map_or(Ok(()), |text| Err(Error::new(ErrorKind::Precondition, text)));
            assert_eq!(validate(&arguments), expected);
        }
    }
}
