//! What goes over a connection, in both directions, without a socket.

use super::*;

fn publishing(acks: Acks, most_bytes: usize, most_messages: u32) -> Option<Publishing> {
    Some(Publishing { topic: "t".to_owned(), confirms: acks == Acks::All, most_bytes, most_messages })
}

fn consuming(ack_every: u64) -> Option<Consuming> {
    let acks = AckCount::new(ack_every);
    Some(Consuming { topic: "t".to_owned(), group: "g".to_owned(), acks, most_bytes: 100, next: 0 })
}

/// The kinds of requests that wait in the output, with the count of messages or the offset that
/// each is about.
fn sent(talk: &mut KafkaTalk) -> Vec<String> {
    let bytes = talk.output().take();
    let (mut rest, mut kinds) = (bytes.as_slice(), Vec::new());
    while let Some((request, length)) = decode(rest).unwrap() {
        // The number of the request's kind and its version stand where an answer has its
        // correlation.
        let tail = |back: usize| u64::from(rest[length - back]);
        kinds.push(match request.correlation >> 16 {
            0 => format!("produce {}", Records::new(&rest[14 + 12 + 8 + 4 + 3 + 12..length]).count()),
            1 => format!("fetch from {}", tail(5)),
            8 => format!("commit {}", tail(3)),
            other => panic!("request {other}"),
        });
        rest = &rest[length..];
    }
    kinds
}

/// An answer with this body.
fn answer(correlation: u32, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    [&(4 + body.len() as u32).to_be_bytes(), &correlation.to_be_bytes(), body.as_slice()].concat()
}

const PARTITION: &[u8] = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0";

/// The answer to a Produce or a commit.
fn done(correlation: u32, code: u8) -> Vec<u8> {
    answer(correlation, &[PARTITION, &[0, code]])
}

/// The answer to a Fetch: a batch with these bodies from `offset` on.
fn batch(correlation: u32, offset: u64, bodies: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut open = OpenBatch::begin("t", 0, Acks::None, 0, &mut out);
    bodies.iter().for_each(|body| open.push(body, &mut out));
    let from = out.len() - open.length(&out);
    open.end(&mut out);
    let mut records = out.split_off(from);
    records[..8].copy_from_slice(&offset.to_be_bytes());
    let length = if bodies.is_empty() { 0 } else { records.len() };
    let length_bytes = (length as u32).to_be_bytes();
    answer(correlation, &[&[0; 4], PARTITION, &[0; 2], &[0; 16], &[0; 4], &length_bytes, &records[..length]])
}

fn events(talk: &mut KafkaTalk, input: &[u8]) -> Vec<String> {
    let mut events = Vec::new();
    let used = talk.receive(input, &mut |event| events.push(format!("{event:?}"))).unwrap();
    assert_eq!(used, input.len());
    events
}

fn delivery(body: &[u8]) -> String {
    format!("{:?}", Event::Delivery { body, redelivered: false })
}

#[test]
fn what_is_published_between_two_writes_shares_batches_and_their_confirms() {
    let mut talk = KafkaTalk::new(publishing(Acks::All, 1000, 3), None);
    for body in [b"a", b"b", b"c", b"d"] {
        talk.publish(body).unwrap();
    }
    let waiting = talk.waiting();
    assert_eq!((talk.output().len(), sent(&mut talk)), (waiting, vec!["produce 3".to_owned(), "produce 1".to_owned()]));
    talk.publish(b"e").unwrap();
    assert_eq!(sent(&mut talk), ["produce 1"]);
    let confirm = |upto, accepted| format!("{:?}", Event::Confirm { upto, multiple: true, accepted });
    let both = [done(1, 0), done(2, 10)].concat();
    assert_eq!(events(&mut talk, &both), [confirm(3, true), confirm(4, false)]);
    assert_eq!(events(&mut talk, &done(3, 0)), [confirm(5, true)]);
}

#[test]
fn a_batch_is_bounded_by_bytes_and_unconfirmed_ones_await_nothing() {
    let mut talk = KafkaTalk::new(publishing(Acks::None, 1, u32::MAX), None);
    talk.publish(b"a").unwrap();
    talk.publish(b"b").unwrap();
    assert_eq!(sent(&mut talk), ["produce 1", "produce 1"]);
    assert!(talk.receive(&done(1, 0), &mut |_| {}).unwrap_err().to_string().contains("another question"));
    let mut talk = KafkaTalk::new(publishing(Acks::None, 200, u32::MAX), None);
    (0..5).try_for_each(|_| talk.publish(&[7; 40])).unwrap();
    assert_eq!(sent(&mut talk), ["produce 2", "produce 2", "produce 1"]);
}

#[test]
fn offsets_are_committed_when_due_and_before_more_is_asked_for() {
    let mut talk = KafkaTalk::new(None, consuming(2));
    talk.fetch_now();
    assert_eq!(sent(&mut talk), ["fetch from 0"]);
    let input = batch(1, 0, &[b"a", b"b", b"c"]);
    for cut in 0..input.len() {
        assert_eq!(talk.receive(&input[..cut], &mut |_| panic!("{cut}")).unwrap(), 0);
    }
    assert_eq!(events(&mut talk, &input), [delivery(b"a"), delivery(b"b"), delivery(b"c")]);
    assert_eq!(sent(&mut talk), ["commit 2", "fetch from 3"]);
    talk.settle().unwrap();
    talk.settle().unwrap();
    assert_eq!(sent(&mut talk), ["commit 3"]);
    // Silence, then a batch of which a part is known.
    let input = [done(2, 0), batch(3, 3, &[]), done(4, 0), batch(5, 2, &[b"c", b"d"])].concat();
    assert_eq!(events(&mut talk, &input), [delivery(b"d")]);
    assert_eq!(sent(&mut talk), ["fetch from 3", "fetch from 4"]);
    assert!(talk.publish(b"x").is_err());
    let mut each = KafkaTalk::new(None, consuming(1));
    each.fetch_now();
    events(&mut each, &batch(1, 0, &[b"a", b"b", b"c"]));
    assert_eq!(sent(&mut each), ["fetch from 0", "commit 3", "fetch from 3"]);
}

#[test]
fn who_answers_asks_for_more_behind_its_answer() {
    let mut far = KafkaTalk::new(publishing(Acks::None, 1000, u32::MAX), consuming(0));
    far.fetch_now();
    assert_eq!(sent(&mut far), ["fetch from 0"]);
    assert_eq!(events(&mut far, &batch(1, 0, &[b"a"])), [delivery(b"a")]);
    assert_eq!(sent(&mut far), [] as [String; 0]);
    far.publish(b"a").unwrap();
    assert_eq!(sent(&mut far), ["produce 1", "fetch from 1"]);
    assert_eq!(events(&mut far, &batch(3, 1, &[])), [] as [String; 0]);
    assert_eq!(sent(&mut far), ["fetch from 1"]);
    let mut near = KafkaTalk::new(publishing(Acks::All, 1000, u32::MAX), consuming(0));
    near.fetch_after_publish();
    assert_eq!(sent(&mut near), [] as [String; 0]);
    near.publish(b"a").unwrap();
    assert_eq!(sent(&mut near), ["produce 1", "fetch from 0"]);
}

#[test]
fn what_a_broker_refuses_is_named() {
    let mut talk = KafkaTalk::new(None, consuming(1));
    talk.fetch_now();
    let refused = answer(1, &[&[0; 4], PARTITION, &[0, 1], &[0; 16], &[0; 4], &[0; 4]]);
    let failure = talk.receive(&refused, &mut |_| {}).unwrap_err().to_string();
    assert!(failure.contains("OFFSET_OUT_OF_RANGE (1)"), "{failure}");
    let mut talk = KafkaTalk::new(None, consuming(1));
    talk.fetch_now();
    events(&mut talk, &batch(1, 0, &[b"a"]));
    let failure = talk.receive(&done(2, 16), &mut |_| {}).unwrap_err().to_string();
    assert!(failure.contains("OffsetCommit") && failure.contains("NOT_COORDINATOR"), "{failure}");
}
