//! A point of a row: a value for each of some variables, as `size=64,copies=32`. No variable has
//! two values.

use std::collections::BTreeMap;

use bench_record::failure::{Context, Failure};

/// `AXIS=VALUE[,AXIS=VALUE]`
pub(super) fn read(text: &str) -> Result<BTreeMap<String, f64>, Failure> {
    let mut at = BTreeMap::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (axis, value) = pair.split_once('=').ok_or_else(|| Failure::new("a point is AXIS=VALUE"))?;
        if at.insert(axis.to_owned(), value.parse().context(value)?).is_some() {
            return Err(Failure::new(format!("{axis} has two values here: another point begins with its row again")));
        }
    }
    Ok(at)
}

/// True when a point has all values of `wanted`.
pub(super) fn is_at(point: &BTreeMap<String, f64>, wanted: &BTreeMap<String, f64>) -> bool {
    wanted.iter().all(|(axis, value)| point.get(axis) == Some(value))
}
