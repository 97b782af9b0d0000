//! Byte vectors of every field type, hostile tables, and round trips.

use proptest::prelude::*;

use super::*;

/// A table with one field `k` of these value bytes.
fn with_value(value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 2) as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&[1, b'k']);
    bytes.extend_from_slice(value);
    bytes
}

fn vectors() -> Vec<(&'static [u8], Value)> {
    vec![
        (b"t\x01", Value::Bool(true)),
        (b"t\x00", Value::Bool(false)),
        (b"b\xff", Value::I8(-1)),
        (b"B\xff", Value::U8(255)),
        (b"s\xff\xfe", Value::I16(-2)),
        (b"u\xff\xfe", Value::U16(65534)),
        (b"I\xff\xff\xff\xfd", Value::I32(-3)),
        (b"i\xff\xff\xff\xfd", Value::U32(4_294_967_293)),
        (b"l\xff\xff\xff\xff\xff\xff\xff\xfc", Value::I64(-4)),
        (b"L\xff\xff\xff\xff\xff\xff\xff\xfc", Value::I64(-4)),
        (b"f\x3f\xc0\x00\x00", Value::F32(1.5)),
        (b"d\x40\x04\x00\x00\x00\x00\x00\x00", Value::F64(2.5)),
        (b"D\x02\x00\x00\x01\x3a", Value::Decimal { scale: 2, value: 314 }),
        (b"S\x00\x00\x00\x02hi", Value::from("hi")),
        (b"x\x00\x00\x00\x02\x00\xff", Value::Bytes(vec![0, 255])),
        (b"A\x00\x00\x00\x03t\x01V", Value::Array(vec![Value::Bool(true), Value::Void])),
        (b"T\x00\x00\x00\x00\x00\x00\x00\x05", Value::Timestamp(5)),
        (b"F\x00\x00\x00\x03\x01aV", Value::Table(vec![("a".to_owned(), Value::Void)])),
        (b"V", Value::Void),
    ]
}

#[test]
fn every_type_decodes_encodes_and_fails_at_every_cut() {
    for (bytes, value) in vectors() {
        let table_bytes = with_value(bytes);
        let table = decode_table(&table_bytes).expect("a valid table");
        assert_eq!(table.get("k").map(|found| found.to_value()), Some(value.clone()));
        if bytes[0] != b'L' {
            assert_eq!(encode_fields(&table.to_fields()), table.as_bytes(), "{value:?}");
        }
        for cut in 0..table_bytes.len() {
            assert_eq!(decode_table(&table_bytes[..cut]), Err(DecodeError::Truncated), "{value:?} cut at {cut}");
        }
        // The same cuts with lengths that match the rest: truncation inside a complete frame.
        for cut in 1..table.as_bytes().len() {
            assert!(Table::new(&table.as_bytes()[..cut]).is_err(), "{value:?} cut at {cut}");
        }
    }
}

#[test]
fn malformed_tables_are_refused() {
    let table: &[(&[u8], DecodeError)] = &[
        (b"\x01kZ", DecodeError::Malformed("unknown type octet of a field value")),
        (b"\x01\xffV", DecodeError::Malformed("a field name is not UTF-8")),
        (b"\x01kS\xff\xff\xff\xff", DecodeError::Truncated),
        (b"\x01kF\x00\x00\x00\x02\x01a", DecodeError::Truncated),
        (b"\x01kA\x00\x00\x00\x01t", DecodeError::Truncated),
    ];
    for (bytes, error) in table {
        assert_eq!(Table::new(bytes), Err(*error), "{bytes:?}");
    }
}

/// `levels` tables or arrays inside each other.
fn nested(levels: usize, kind: u8) -> Vec<u8> {
    let mut value = b"V".to_vec();
    for _ in 0..levels {
        let named = kind == b'F';
        let inner = if named { [b"\x01k".as_slice(), &value].concat() } else { value };
        value = [&[kind], (inner.len() as u32).to_be_bytes().as_slice(), &inner].concat();
    }
    [b"\x01k".as_slice(), &value].concat()
}

#[test]
fn depth_is_limited() {
    for kind in [b'F', b'A'] {
        assert!(Table::new(&nested(TABLE_DEPTH, kind)).is_ok());
        let error = DecodeError::Limit("field tables nest too deep");
        assert_eq!(Table::new(&nested(TABLE_DEPTH + 1, kind)), Err(error));
        assert_eq!(Table::new(&nested(10_000, kind)), Err(error));
    }
}

#[test]
fn the_number_of_values_is_limited_across_tables_and_arrays() {
    let error = Err(DecodeError::Limit("a frame's field tables hold too many values"));
    assert!(Table::new(&b"\x00V".repeat(TABLE_ELEMENTS)).is_ok());
    assert_eq!(Table::new(&b"\x00V".repeat(TABLE_ELEMENTS + 1)), error);
    let mut array = b"\x00A".to_vec();
    array.extend_from_slice(&(TABLE_ELEMENTS as u32).to_be_bytes());
    array.extend_from_slice(&b"V".repeat(TABLE_ELEMENTS));
    assert_eq!(Table::new(&array), error, "the array itself counts too");
}

#[test]
fn the_first_of_equal_names_counts() {
    let bytes = b"\x01kt\x01\x01kt\x00";
    let table = Table::new(bytes).expect("a valid table");
    assert_eq!(table.get("k").and_then(|value| value.as_bool()), Some(true));
    assert_eq!(table.get("other"), None);
    assert_eq!(table.iter().count(), 2);
}

#[test]
fn integers_are_one_class_and_text_is_not_one() {
    for (bytes, expected) in [
        (b"B\x0a".as_slice(), Some(10)),
        (b"I\x00\x00\x00\x0a", Some(10)),
        (b"l\xff\xff\xff\xff\xff\xff\xff\xff", Some(-1)),
        (b"S\x00\x00\x00\x0210", None),
        (b"T\x00\x00\x00\x00\x00\x00\x00\x05", None),
    ] {
        let bytes = with_value(bytes);
        assert_eq!(decode_table(&bytes).ok().and_then(|t| t.get("k")).and_then(|v| v.as_integer()), expected);
    }
}

#[test]
fn long_names_are_cut_at_a_character() {
    let name = "é".repeat(200);
    let bytes = encode_fields(&[(name, Value::Void)]);
    let table = Table::new(&bytes).expect("a valid table");
    assert_eq!(table.iter().next().map(|(name, _)| name.len()), Some(254));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<u8>().prop_map(Value::U8),
        any::<i16>().prop_map(Value::I16),
        any::<u16>().prop_map(Value::U16),
        any::<i32>().prop_map(Value::I32),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        (-1e9f32..1e9).prop_map(Value::F32),
        (-1e18f64..1e18).prop_map(Value::F64),
        (any::<u8>(), any::<u32>()).prop_map(|(scale, value)| Value::Decimal { scale, value }),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::Str),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
        any::<u64>().prop_map(Value::Timestamp),
        Just(Value::Void),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::vec(("[a-z-]{0,12}", inner), 0..6).prop_map(Value::Table),
        ]
    })
}

proptest! {
    #[test]
    fn tables_round_trip(fields in proptest::collection::vec(("[a-zA-Z0-9é-]{0,20}", any_value()), 0..8)) {
        let bytes = encode_fields(&fields);
        let table = Table::new(&bytes).expect("what we encode is valid");
        prop_assert_eq!(table.to_fields(), fields);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(table) = decode_table(&bytes) {
            let again = encode_fields(&table.to_fields());
            prop_assert_eq!(again.len(), table.as_bytes().len());
        }
    }
}
