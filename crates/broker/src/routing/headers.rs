//! Headers exchanges: a message goes where its headers hold all, or any, of the fields that the binding's arguments
//! name (`x-match`, by default `all`). Arguments whose names begin with `x-` are not fields to match. Every binding is
//! compared with every message; the routing key plays no part.

use crate::error::Error;
use crate::message::value::{Table, Value};

const MATCH: &str = "x-match";

/// Refuses what can't be matched by.
pub(super) fn validate(arguments: &Table) -> Result<(), Error> {
    let refusal = match arguments.get(MATCH) {
        None => return Ok(()),
        Some(Value::Text(mode)) => match mode.as_str() {
            "all" | "any" => return Ok(()),
            "all-with-x" | "any-with-x" => format!("'{mode}' is not implemented yet; use 'all' or 'any'"),
            other => format!("'{other}' is no way to match; use 'all' or 'any'"),
        },
        Some(_) => "it is not a text; use 'all' or 'any'".to_owned(),
    };
    Err(Error::precondition(format!("invalid arg '{MATCH}' of a binding: {refusal}")))
}

/// Whether a message with these headers goes where the binding with these arguments leads. Without fields to match,
/// `all` is true and `any` is false.
pub(super) fn matches(arguments: &Table, headers: &Table) -> bool {
    let mut fields = arguments.0.iter().filter(|(name, _)| !name.starts_with("x-"));
    if arguments.get(MATCH).and_then(Value::as_text) == Some("any") {
        fields.any(|(name, wanted)| holds(headers, name, wanted))
    } else {
        fields.all(|(name, wanted)| holds(headers, name, wanted))
    }
}

/// A wanted value of null asks for the field alone, whatever its value.
fn holds(headers: &Table, name: &str, wanted: &Value) -> bool {
    headers.get(name).is_some_and(|value| *wanted == Value::Null || same(value, wanted))
}

/// Equality within a class of types: integers of all widths, floating point of both, text and bytes. Values of two
/// classes differ: 1, 1.0 and "1" are three values.
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
            ("all, x- is no field", vec![all, a.clone(), odd.clone()], vec![a], true),
            ("any, x- is no field", vec![any, b, odd.clone()], vec![odd], false),
        ];
        for (what, arguments, headers, expected) in cases {
            assert_eq!(matches(&table(arguments), &table(headers)), *expected, "{what}");
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
            let found = matches(&table(&[("a", wanted.clone())]), &table(&[("a", value.clone())]));
            assert_eq!(found, *expected, "wanted {wanted:?}, is {value:?}");
        }
        assert!(!matches(&table(&[("a", Value::Null)]), &table(&[("b", Value::Null)])), "null asks for the field");
    }

    #[test]
    fn x_match_is_validated() {
        let cases = [
            (None, None),
            (Some(text("all")), None),
            (Some(text("any")), None),
            (Some(text("all-with-x")), Some("'all-with-x' is not implemented yet; use 'all' or 'any'")),
            (Some(text("any-with-x")), Some("'any-with-x' is not implemented yet; use 'all' or 'any'")),
            (Some(text("none")), Some("'none' is no way to match; use 'all' or 'any'")),
            (Some(Value::I32(1)), Some("it is not a text; use 'all' or 'any'")),
        ];
        for (value, refusal) in cases {
            let arguments = Table(value.into_iter().map(|value| ("x-match".to_owned(), value)).collect());
            let expected = match refusal {
                None => Ok(()),
                Some(text) => {
                    Err(Error::new(ErrorKind::Precondition, format!("invalid arg 'x-match' of a binding: {text}")))
                }
            };
            assert_eq!(validate(&arguments), expected);
        }
    }
}
