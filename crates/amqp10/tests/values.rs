//! Values against vectors and against themselves: each vector as it is, cut and changed, and random
//! values written and read.

use amqp10::codec::{Budget, Elements, Encode, Value, ValueRef, read_value};
use amqp10::limits::{DEPTH, VALUES};
use proptest::prelude::*;
use wire::{DecodeError, Reader};

const VECTORS: &str = include_str!("vectors/values.txt");

fn read(bytes: &[u8]) -> Result<ValueRef<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let value = read_value(&mut reader, &mut Budget::default())?;
    assert!(reader.is_empty(), "a value of {bytes:02x?} ends too early");
    Ok(value)
}

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect(byte)).collect()
}

/// Bytes, sign and text of each vector.
fn vectors() -> Vec<(Vec<u8>, char, &'static str)> {
    let lines = VECTORS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let at = line.find(['=', '~', '!']).expect(line);
            (bytes_of(&line[..at]), line[at..].chars().next().expect(line), line[at + 1..].trim())
        })
        .collect()
}

#[test]
fn vectors_are_read_and_written() {
    for (bytes, sign, text) in vectors() {
        let shown = format!("{bytes:02x?} {sign} {text}");
        match read(&bytes) {
            Ok(value) => {
                assert_ne!(sign, '!', "{shown}: read as {value}");
                assert_eq!(value.to_string(), text, "{shown}");
                let written = Value::from(value).to_bytes();
                assert_eq!(written == bytes, sign == '=', "{shown}: written as {written:02x?}");
                assert_eq!(read(&written).unwrap().to_string(), text, "{shown}: written and read");
                let mut again = Vec::new();
                value.encode(&mut again);
                assert_eq!(read(&again).unwrap().to_string(), text, "{shown}: copied and read");
            }
            Err(error) => assert_eq!((sign, error.to_string().as_str()), ('!', text), "{shown}"),
        }
    }
}

#[test]
fn a_cut_value_is_refused_and_a_changed_one_breaks_nothing() {
    for (bytes, sign, _) in vectors() {
        for end in 0..bytes.len() {
            let cut = read_value(&mut Reader::new(&bytes[..end]), &mut Budget::default());
            assert!(sign == '!' || cut == Err(DecodeError::Truncated), "{:02x?} was read", &bytes[..end]);
        }
        for at in 0..bytes.len() {
            for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                if let Ok(value) = read_value(&mut Reader::new(&changed), &mut Budget::default()) {
                    let written = Value::from(value).to_bytes();
                    assert_eq!(read(&written).unwrap().to_string(), value.to_string());
                }
            }
        }
    }
}

#[test]
fn nesting_has_a_limit_whatever_nests() {
    let nested = |levels: usize, open: fn(Value) -> Value| (0..levels).fold(Value::Null, |inner, _| open(inner));
    let kinds: [fn(Value) -> Value; 4] = [
        |inner| Value::List(vec![inner]),
        |inner| Value::Map(vec![(Value::U8(0), inner)]),
        |inner| Value::Array(Elements::new(vec![inner]).unwrap()),
        |inner| Value::Described(Box::new((Value::U64(1), inner))),
    ];
    for open in kinds {
        assert!(read(&nested(DEPTH, open).to_bytes()).is_ok());
        assert_eq!(read(&nested(DEPTH + 1, open).to_bytes()), Err(DecodeError::Limit("values nest too deep")));
    }
}

/// A frame of nothing but the code of described values must not cost stack.
#[test]
fn a_million_descriptors_are_refused() {
    let bytes = vec![0; 1 << 20];
    assert_eq!(read_value(&mut Reader::new(&bytes), &mut Budget::default()), Err(DecodeError::Truncated));
    let whole = [bytes, vec![0x40; (1 << 20) + 1]].concat();
    assert_eq!(read(&whole), Err(DecodeError::Limit("values nest too deep")));
}

#[test]
fn the_number_of_values_has_a_limit() {
    let list = |count| Value::List(vec![Value::Null; count]).to_bytes();
    assert!(read(&list(VALUES - 1)).is_ok());
    assert_eq!(read(&list(VALUES)), Err(DecodeError::Limit("more values than one frame may hold")));
}

#[test]
fn elements_of_different_types_are_no_array() {
    let described = |inner| Value::Described(Box::new((Value::U64(1), inner)));
    for (values, expected) in [
        (vec![], true),
        (vec![Value::U8(1), Value::U8(2)], true),
        (vec![Value::U8(1), Value::I8(2)], false),
        (vec![described(Value::U8(1)), described(Value::U8(2))], true),
        (vec![described(Value::U8(1)), described(Value::Null)], false),
        (vec![described(described(Value::Null))], false),
    ] {
        assert_eq!(Elements::new(values.clone()).is_some(), expected, "{values:?}");
    }
}

#[test]
fn a_symbol_outside_ascii_is_written_with_question_marks() {
    let long = format!("é{}", "x".repeat(300));
    for (symbol, expected) in [("né", "n?".to_owned()), (&long, format!("?{}", "x".repeat(300)))] {
        let value = Value::Symbol(symbol.to_owned());
        assert_eq!(read(&value.to_bytes()), Ok(ValueRef::Symbol(&expected)));
        let array = Value::Array(Elements::new(vec![value]).unwrap()).to_bytes();
        let ValueRef::Array(array) = read(&array).unwrap() else { panic!("{symbol} is no array") };
        assert_eq!(array.iter().next(), Some(ValueRef::Symbol(&expected)));
    }
}

fn simple() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::U8),
        any::<u16>().prop_map(Value::U16),
        prop_oneof![any::<u32>(), 0..300u32].prop_map(Value::U32),
        prop_oneof![any::<u64>(), 0..300u64].prop_map(Value::U64),
        any::<i8>().prop_map(Value::I8),
        any::<i16>().prop_map(Value::I16),
        prop_oneof![any::<i32>(), -200..200i32].prop_map(Value::I32),
        prop_oneof![any::<i64>(), -200..200i64].prop_map(Value::I64),
        (-1e6f32..1e6).prop_map(Value::F32),
        (-1e6f64..1e6).prop_map(Value::F64),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<u32>().prop_map(Value::Char),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Value::Binary),
        ".{0,100}".prop_map(Value::Str),
        "[ -~]{0,300}".prop_map(Value::Symbol),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<Value> {
    let nested = |inner: BoxedStrategy<Value>| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::List),
            prop::collection::vec((inner.clone(), inner.clone()), 0..6).prop_map(Value::Map),
            // Of random values those are taken that are like the first.
            prop::collection::vec(inner.clone(), 0..40).prop_map(|values| {
                let alike = |value: &&Value| Elements::new(vec![values[0].clone(), (*value).clone()]).is_some();
                Value::Array(Elements::new(values.iter().filter(alike).cloned().collect()).expect("alike"))
            }),
            (inner.clone(), inner).prop_map(|parts| Value::Described(Box::new(parts))),
        ]
    };
    simple().prop_recursive(4, 64, 8, move |inner| nested(inner.boxed())).boxed()
}

proptest! {
    #[test]
    fn what_is_written_is_read(value in value()) {
        let bytes = value.to_bytes();
        let read = read(&bytes).unwrap();
        prop_assert_eq!(&Value::from(read), &value);
        let mut copied = Vec::new();
        read.encode(&mut copied);
        prop_assert_eq!(copied, bytes);
    }

    #[test]
    fn random_bytes_break_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(value) = read_value(&mut Reader::new(&bytes), &mut Budget::default()) {
            prop_assert_eq!(value.to_string(), read(&Value::from(value).to_bytes()).unwrap().to_string());
        }
    }
}
