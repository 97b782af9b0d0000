//! Selectors: any text is either refused at a position within it, or is a selector whose NOT is its
//! opposite.

use selector::{Lookup, Selector, Value};

/// Properties whose types depend only on the first byte of their names, so that inputs reach all
/// types.
struct ByName;

impl Lookup for ByName {
    fn get(&self, name: &str) -> Value<'_> {
        match name.bytes().next().unwrap_or_default() % 6 {
            0 => Value::Null,
            1 => Value::Bool(true),
            2 => Value::Int(-1),
            3 => Value::Int(i64::MAX),
            4 => Value::Float(0.5),
            _ => Value::text("a%_'12"),
        }
    }
}

/// The input is the text of a selector; bytes that are not UTF-8 are replaced.
pub(super) fn selector(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let selector = match Selector::parse(&text) {
        Ok(Some(selector)) => selector,
        Ok(None) => return,
        Err(error) => {
            let places = 1..=text.chars().count() + 1;
            assert!(places.contains(&error.position), "an error at character {} of none", error.position);
            assert!(!error.reason.is_empty());
            return;
        }
    };
    let truth = selector.evaluate(&ByName);
    let (prefix, condition) = match text.strip_prefix("convert_string_expressions:") {
        Some(condition) => ("convert_string_expressions:", condition),
        None => ("", &*text),
    };
    // The opposite is longer, so it may exceed a limit.
    if let Ok(Some(opposite)) = Selector::parse(&format!("{prefix}NOT ({condition})")) {
        assert_eq!(opposite.evaluate(&ByName), truth.map(|truth| !truth), "NOT is no opposite");
    }
}
