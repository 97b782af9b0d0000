//! Round trips, known bytes, every cut and bad bytes of the durable encoding.

use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;

fn table_of(fields: &[(&str, Value)]) -> Table {
    Table(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn encoded(table: &Table) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_table(&mut bytes, table).expect("nested less than the limit");
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Table, Malformed> {
    let mut reader = Reader::new(bytes);
    let table = reader.table()?;
    reader.end()?;
    Ok(table)
}

/// A table with lists and tables nested to `depth`, the outermost table included.
fn nested(depth: usize, within: fn(Value) -> Value) -> Table {
    let mut inner = Value::Null;
    for _ in 1..depth {
        inner = within(inner);
    }
    table_of(&[("a", inner)])
}

#[test]
fn varints_have_known_bytes() {
    let cases: &[(u64, &[u8])] = &[
        (0, &[0]),
        (1, &[1]),
        (127, &[0x7f]),
        (128, &[0x80, 1]),
        (300, &[0xac, 2]),
        (u64::from(u32::MAX), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
    ];
    for (number, bytes) in cases {
        let mut written = Vec::new();
        write_varint(&mut written, *number);
        assert_eq!(written, *bytes, "{number}");
        let mut reader = Reader::new(bytes);
        assert_eq!(reader.varint(), Ok(*number));
        assert_eq!(reader.end(), Ok(()));
        for cut in 0..bytes.len() {
            assert!(Reader::new(&bytes[..cut]).varint().is_err(), "{number} cut at {cut}");
        }
    }
}

#[test]
fn fields_have_known_bytes_and_no_cut_is_accepted() {
    let cases: &[(Value, &[u8])] = &[
        (Value::Null, &[0]),
        (Value::Bool(false), &[1]),
        (Value::Bool(true), &[2]),
        (Value::I8(-1), &[3, 0xff]),
        (Value::U8(200), &[4, 200]),
        (Value::I16(-2), &[5, 0xfe, 0xff]),
        (Value::U16(0x0102), &[6, 2, 1]),
        (Value::I32(1), &[7, 1, 0, 0, 0]),
        (Value::U32(u32::MAX), &[8, 0xff, 0xff, 0xff, 0xff]),
        (Value::I64(-1), &[9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        (Value::F32(1.0), &[10, 0, 0, 0x80, 0x3f]),
        (Value::F64(1.0), &[11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]),
        (Value::Decimal { scale: 2, value: 314 }, &[12, 2, 0x3a, 1, 0, 0]),
        (Value::Text("hé".to_owned()), &[13, 3, b'h', 0xc3, 0xa9]),
        (Value::Bytes(vec![0, 0xff]), &[14, 2, 0, 0xff]),
        (Value::Timestamp(-1), &[22, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        (Value::Decimal32([1, 2, 3, 4]), &[23, 1, 2, 3, 4]),
        (Value::Decimal64([5; 8]), &[24, 5, 5, 5, 5, 5, 5, 5, 5]),
        (Value::Decimal128([6; 16]), &[25, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6]),
        (Value::U64(2), &[18, 2, 0, 0, 0, 0, 0, 0, 0]),
        (Value::Uuid([7; 16]), &[19, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]),
        (Value::Symbol("s".to_owned()), &[20, 1, b's']),
        (Value::Char('\u{e9}'), &[21, 0xe9, 0, 0, 0]),
        (Value::Array(vec![Value::Null, Value::Bool(true)]), &[16, 2, 0, 2]),
        (Value::Table(table_of(&[("k", Value::U8(7))])), &[17, 1, 1, b'k', 4, 7]),
    ];
    for (value, bytes) in cases {
        let table = table_of(&[("n", value.clone())]);
        let written = encoded(&table);
        assert_eq!(written, [&[1, 1, b'n'], *bytes].concat(), "{value:?}");
        assert_eq!(decoded(&written).as_ref(), Ok(&table));
        for cut in 0..written.len() {
            assert!(decoded(&written[..cut]).is_err(), "{value:?} cut at {cut}");
        }
    }
}

/// Earlier versions stored times in seconds.
#[test]
fn times_in_seconds_are_read() {
    for (seconds, time) in [(1u64, 1000), (u64::MAX, i64::MAX)] {
        let stored = [&[1, 1, b'n', 15][..], &seconds.to_le_bytes()].concat();
        assert_eq!(decoded(&stored), Ok(table_of(&[("n", Value::Timestamp(time))])));
        assert!((0..stored.len()).all(|cut| decoded(&stored[..cut]).is_err()));
    }
}

#[test]
fn bad_bytes_are_located() {
    let cases: &[(&str, &[u8], usize)] = &[
        ("unknown tag", &[1, 1, b'n', 26], 3),
        ("a surrogate is no character", &[1, 1, b'n', 21, 0, 0xd8, 0, 0], 3),
        ("name past the end", &[1, 9, b'n'], 1),
        ("name is not UTF-8", &[1, 1, 0xff, 0], 1),
        ("text is not UTF-8", &[1, 1, b'n', 13, 1, 0xff], 4),
        ("more than 64 bits", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], 0),
        ("length that no memory holds", &[1, 1, b'n', 14, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 4),
        ("count that no memory holds", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 10),
        ("bytes after the end", &[0, 0], 1),
    ];
    for (what, bytes, at) in cases {
        match decoded(bytes) {
            Err(malformed) => assert_eq!(malformed.at, *at, "{what}: {malformed}"),
            Ok(table) => panic!("{what}: read as {table:?}"),
        }
    }
    assert_eq!(Reader::new(&[2]).bool().map_err(|malformed| malformed.at), Err(0));
}

#[test]
fn nesting_is_limited_both_ways() {
    let in_list = |inner| Value::Array(vec![inner]);
    let in_table = |inner| Value::Table(table_of(&[("a", inner)]));
    for within in [in_list, in_table as fn(Value) -> Value] {
        let deepest = nested(DEPTH_LIMIT, within);
        assert_eq!(decoded(&encoded(&deepest)), Ok(deepest));

        let mut bytes = b"kept".to_vec();
        let refused = write_table(&mut bytes, &nested(DEPTH_LIMIT + 1, within));
        assert_eq!(refused.map_err(|error| error.kind), Err(ErrorKind::Precondition));
        assert_eq!(bytes, b"kept", "a refused table leaves nothing behind");
    }
    // One level more than the limit, which no writer writes.
    let mut lists = vec![1, 1, b'a'];
    lists.extend([tag::ARRAY, 1].repeat(DEPTH_LIMIT));
    lists.push(tag::NULL);
    let mut tables = vec![1, 1, b'a'];
    tables.extend([tag::TABLE, 1, 1, b'a'].repeat(DEPTH_LIMIT));
    tables.push(tag::NULL);
    for bytes in [lists, tables] {
        assert_eq!(decoded(&bytes).map_err(|malformed| malformed.what), Err("fields nested too deep"));
    }
}

#[test]
fn optional_numbers() {
    for number in [None, Some(0), Some(u64::MAX)] {
        let mut bytes = Vec::new();
        write_optional_varint(&mut bytes, number);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.optional_varint(), Ok(number));
        assert_eq!(reader.end(), Ok(()));
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<u8>().prop_map(Value::U8),
        any::<i16>().prop_map(Value::I16),
        any::<u16>().prop_map(Value::U16),
        any::<i32>().prop_map(Value::I32),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        // NaN does not equal itself, so it can't be compared here.
        any::<f32>().prop_filter("comparable", |n| !n.is_nan()).prop_map(Value::F32),
        any::<f64>().prop_filter("comparable", |n| !n.is_nan()).prop_map(Value::F64),
        (any::<u8>(), any::<u32>()).prop_map(|(scale, value)| Value::Decimal { scale, value }),
        ".{0,8}".prop_map(Value::Text),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(Value::Bytes),
        any::<i64>().prop_map(Value::Timestamp),
        any::<u64>().prop_map(Value::U64),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        ".{0,8}".prop_map(Value::Symbol),
        any::<char>().prop_map(Value::Char),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            any_table(inner).prop_map(Value::Table),
        ]
    })
}

fn any_table(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Table> {
    prop::collection::vec((".{0,6}", value), 0..4).prop_map(Table)
}

proptest! {
    #[test]
    fn tables_round_trip(table in any_table(any_value())) {
        let bytes = encoded(&table);
        prop_assert_eq!(decoded(&bytes), Ok(table));
        for cut in 0..bytes.len() {
            prop_assert!(decoded(&bytes[..cut]).is_err(), "cut at {}", cut);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = decoded(&bytes);
    }

    #[test]
    fn scalars_round_trip(number: u64, truth in any::<bool>(), text in ".{0,20}") {
        let mut bytes = Vec::new();
        write_varint(&mut bytes, number);
        bytes.push(truth.into());
        write_text(&mut bytes, &text);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.varint(), Ok(number));
        prop_assert_eq!(reader.bool(), Ok(truth));
        prop_assert_eq!(reader.text(), Ok(text.as_str()));
        prop_assert_eq!(reader.end(), Ok(()));
    }
}
