//! The facts that the log has of a queue, as bytes both ways. `docs/formats/facts.md` draws them.

use journal::{Appender, Group, Owner};

use crate::encoding::{Malformed, Reader, write_bytes, write_text, write_varint};
use crate::queue::{
    Bound, EntryAnnotations, Keyed, Queue, Reason, Remains, RememberedId, Returns, SETTLED_BEFORE, Span, reason_code,
};
use crate::store::facts::{
    ANNOTATIONS, BIND, BUCKET, DYING, DYING_RUNS, KEYED, QueueFact, RETURNS, RETURNS_RUNS, SEEN, log_accounted,
    log_pair, log_position, log_retry, table_bytes,
};
use crate::store::runs::log_valued;
use crate::value::Table;

/// Ids or keys in one fact at most, in the restatement of a bundle.
const IDS_TOGETHER: usize = 128;

impl Queue {
    /// Its declaration, as logged. It counts for this user.
    pub(crate) fn fact(&self, vhost: Owner, declared_by: Option<&str>) -> QueueFact {
        QueueFact {
            vhost,
            name: self.name.to_string(),
            auto_delete: self.auto_delete,
            arguments: self.declared.clone(),
            declared_by: declared_by.map(str::to_owned),
        }
    }
}

/// Logs a binding to `destination`, or its end.
pub(crate) fn log_binding(
    appender: &mut Appender<'_>,
    group: Option<Group>,
    destination: Owner,
    kind: u8,
    bound: &Bound,
) {
    let mut bytes = Vec::new();
    write_varint(&mut bytes, bound.exchange);
    write_text(&mut bytes, &bound.key);
    table_bytes(&mut bytes, &bound.arguments);
    appender.fact(group, destination, kind, &[&bytes]);
}

pub(crate) fn read_binding(bytes: &[u8]) -> Result<Bound, Malformed> {
    let mut reader = Reader::new(bytes);
    let bound = Bound { exchange: reader.varint()?, key: reader.text()?.into(), arguments: reader.table()? };
    reader.end()?;
    Ok(bound)
}

pub(crate) fn log_returns(appender: &mut Appender<'_>, queue: Owner, seq: u64, returns: Returns) {
    if let Some(both) = returns.both() {
        log_pair(appender, queue, RETURNS, seq, both);
    }
    log_pair(appender, queue, RETURNS, seq, returns.counted().into());
}

pub(crate) fn log_dying(appender: &mut Appender<'_>, queue: Owner, seq: u64, reason: Reason) {
    log_pair(appender, queue, DYING, seq, reason_code(reason).into());
}

/// Logs all that consumers noted on an entry.
pub(crate) fn log_annotations(appender: &mut Appender<'_>, queue: Owner, seq: u64, annotations: &Table) {
    let mut bytes = Vec::new();
    write_varint(&mut bytes, seq);
    table_bytes(&mut bytes, annotations);
    appender.fact(None, queue, ANNOTATIONS, &[&bytes]);
}

/// Reads the number of an entry, and what was noted on it.
pub(crate) fn read_annotations(bytes: &[u8]) -> Result<(u64, Table), Malformed> {
    let mut reader = Reader::new(bytes);
    let noted = (reader.varint()?, reader.table()?);
    reader.end()?;
    Ok(noted)
}

/// Logs the bucket `owner` of a queue.
pub(crate) fn log_bucket(appender: &mut Appender<'_>, owner: Owner, queue: Owner, span: Span) {
    let mut bytes = Vec::with_capacity(21);
    [queue, span.begins, span.exponent.into()].into_iter().for_each(|number| write_varint(&mut bytes, number));
    appender.fact(None, owner, BUCKET, &[&bytes]);
}

/// Reads the queue of a bucket, and its span.
pub(crate) fn read_bucket(bytes: &[u8]) -> Result<(Owner, Span), Malformed> {
    let mut reader = Reader::new(bytes);
    let (queue, begins, exponent) = (reader.varint()?, reader.varint()?, reader.varint()?);
    let exponent = u32::try_from(exponent).ok().filter(|exponent| *exponent < u64::BITS);
    let exponent = exponent.ok_or_else(|| reader.malformed("a span that is too long"))?;
    reader.end()?;
    Ok((queue, Span { begins, exponent }))
}

/// Logs ids of a bundle, each with its place, that a queue remembers for a scope.
pub(crate) fn log_seen(
    appender: &mut Appender<'_>,
    group: Option<Group>,
    bundle: Owner,
    (queue, scope): (Owner, Owner),
    ids: &[(u64, &RememberedId)],
) {
    for part in ids.chunks(IDS_TOGETHER) {
        let mut bytes = Vec::with_capacity(32 + part.iter().map(|(_, kept)| 24 + kept.id.len()).sum::<usize>());
        [queue, scope].into_iter().for_each(|number| write_varint(&mut bytes, number));
        for (place, kept) in part {
            [*place, kept.number, kept.until].into_iter().for_each(|number| write_varint(&mut bytes, number));
            write_bytes(&mut bytes, &kept.id);
        }
        appender.fact(group, bundle, SEEN, &[&bytes]);
    }
}

/// Ids of a bundle, as logged.
pub(crate) struct SeenFact {
    pub(crate) queue: Owner,
    pub(crate) scope: Owner,
    /// Each with its place.
    pub(crate) ids: Vec<(u64, RememberedId)>,
}

/// Reads ids of a bundle.
pub(crate) fn read_seen(bytes: &[u8]) -> Result<SeenFact, Malformed> {
    let mut reader = Reader::new(bytes);
    let (queue, scope, mut ids) = (reader.varint()?, reader.varint()?, Vec::new());
    while !reader.is_empty() {
        let (place, number, until) = (reader.varint()?, reader.varint()?, reader.varint()?);
        ids.push((place, RememberedId { id: reader.bytes()?.into(), number, until, durable: true }));
    }
    Ok(SeenFact { queue, scope, ids })
}

/// Logs keys of a bundle, each with its place.
pub(crate) fn log_keyed(
    appender: &mut Appender<'_>,
    group: Option<Group>,
    bundle: Owner,
    queue: Owner,
    keys: &[(u64, &Keyed)],
) {
    for part in keys.chunks(IDS_TOGETHER) {
        appender.fact(group, bundle, KEYED, &[&keyed_bytes(queue, part)]);
    }
}

fn keyed_bytes(queue: Owner, keys: &[(u64, &Keyed)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(10 + keys.iter().map(|(_, keyed)| 20 + keyed.key.len()).sum::<usize>());
    write_varint(&mut bytes, queue);
    for (place, keyed) in keys {
        [*place, keyed.number].into_iter().for_each(|number| write_varint(&mut bytes, number));
        write_bytes(&mut bytes, &keyed.key);
    }
    bytes
}

/// Reads keys of a bundle: the queue, and each key with its place.
pub(crate) fn read_keyed(bytes: &[u8]) -> Result<(Owner, Vec<(u64, Keyed)>), Malformed> {
    let mut reader = Reader::new(bytes);
    let (queue, mut keys) = (reader.varint()?, Vec::new());
    while !reader.is_empty() {
        let (place, number) = (reader.varint()?, reader.varint()?);
        keys.push((place, Keyed { key: reader.bytes()?.into(), number, durable: true }));
    }
    Ok((queue, keys))
}

/// The facts of one lane of a queue in a restatement.
#[derive(Debug)]
pub(crate) struct LaneFacts {
    /// The next sequence number, and the delivery mark.
    pub(crate) position: (u64, u64),
    /// The pages that are accounted for, in runs.
    pub(crate) accounted: Vec<(u64, u64)>,
    /// The numbers that are settled, in runs.
    pub(crate) settled: Vec<(u64, u64)>,
}

impl LaneFacts {
    fn log(&self, appender: &mut Appender<'_>, queue: Owner) {
        log_position(appender, queue, self.position.0, self.position.1);
        let both = !self.accounted.is_empty() && !self.settled.is_empty();
        // The two belong together: numbers that the log no longer says to be settled would be
        // missed.
        let group = both.then(|| appender.begin_group());
        if !self.accounted.is_empty() {
            // Before the settled numbers: those of pages about which nothing is known are dropped.
            log_accounted(appender, group, queue, self.position.0, &self.accounted);
        }
        if !self.settled.is_empty() {
            appender.settle_counted(group, queue, SETTLED_BEFORE, &self.settled, &mut std::iter::empty());
        }
        if let Some(group) = group {
            appender.end_group(group);
        }
    }
}

/// Logs everything about a queue except its declaration and its entries.
pub(crate) fn log_state(
    appender: &mut Appender<'_>,
    queue: Owner,
    bound: &[Bound],
    lanes: &[LaneFacts],
    remains: &Remains<'_>,
) {
    for lane in lanes {
        lane.log(appender, queue);
    }
    for bound in bound {
        log_binding(appender, None, queue, BIND, bound);
    }
    // In front of the numbers that an earlier version reads alone.
    let both = remains.returns.iter().filter_map(|(seq, returns)| Some((*seq, returns.both()?)));
    log_valued(appender, queue, RETURNS_RUNS, both);
    let counted = remains.returns.iter().map(|(seq, returns)| (*seq, u64::from(returns.counted())));
    log_valued(appender, queue, RETURNS_RUNS, counted);
    let decided = remains.decided.iter().map(|(seq, code)| (*seq, u64::from(*code)));
    log_valued(appender, queue, DYING_RUNS, decided);
    for (seq, due) in &remains.waiting {
        log_retry(appender, queue, *seq, *due);
    }
    for (seq, annotations) in remains.annotations.into_iter().flat_map(EntryAnnotations::iter) {
        log_annotations(appender, queue, seq, annotations);
    }
    remains.exactly_once.into_iter().for_each(|all| all.log(appender, queue));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_stored_in_these_bytes_and_a_cut_within_one_is_noticed() {
        let keyed = |key: &str, number| Keyed { key: key.as_bytes().into(), number, durable: true };
        let keys = [(0, keyed("a", 1)), (300, keyed("longer", (1 << 48) + 5))];
        let bytes = keyed_bytes(7, &keys.each_ref().map(|(place, keyed)| (*place, keyed)));
        assert_eq!(bytes, b"\x07\0\x01\x01a\xac\x02\x85\x80\x80\x80\x80\x80\x40\x06longer");
        // The log has the length of the fact, and keys go to its end.
        let whole = [(1, 0), (5, 1), (bytes.len(), 2)];
        for end in 0..=bytes.len() {
            let expected = whole.iter().find(|(at, _)| *at == end).map(|(_, count)| (7, keys[..*count].to_vec()));
            assert_eq!(read_keyed(&bytes[..end]).ok(), expected, "cut at {end}");
        }
    }
}
