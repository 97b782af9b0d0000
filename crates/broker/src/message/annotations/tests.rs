//! Deaths as they are counted, shown and stored.

use proptest::prelude::*;

use super::Reason::{DeliveryLimit, Expired, MaxLength, Rejected};
use super::*;

/// Deaths in the order in which they happened.
type Steps<'a> = &'a [(&'a str, Reason)];

/// Queue, reason and count of each death, as they stand in the annotations.
type Counts<'a> = &'a [(&'a str, Reason, u64)];

fn death(queue: &str, reason: Reason) -> Death {
    Death {
        queue: queue.to_owned(),
        reason,
        exchange: "x".to_owned(),
        routing_keys: vec!["k".to_owned()],
        count: 1,
        time: 1_700_000_000,
        original_expiration: None,
    }
}

fn place(queue: &str, reason: Reason) -> Option<DeathPlace> {
    Some(DeathPlace { queue: queue.to_owned(), reason, exchange: "x".to_owned() })
}

fn annotations(deaths: Steps<'_>) -> Annotations {
    let mut annotations = Annotations::default();
    for (queue, reason) in deaths {
        annotations.record(death(queue, *reason));
    }
    annotations
}

#[test]
fn deaths_are_counted_by_queue_and_reason_newest_first() {
    let cases: &[(Steps<'_>, Counts<'_>)] = &[
        (&[("a", Expired)], &[("a", Expired, 1)]),
        (&[("a", Expired), ("a", Expired)], &[("a", Expired, 2)]),
        (&[("a", Expired), ("b", MaxLength)], &[("b", MaxLength, 1), ("a", Expired, 1)]),
        (&[("a", Expired), ("a", Rejected)], &[("a", Rejected, 1), ("a", Expired, 1)]),
        (&[("a", Rejected), ("b", Expired), ("a", Rejected)], &[("a", Rejected, 2), ("b", Expired, 1)]),
        (
            &[("a", DeliveryLimit), ("b", Expired), ("c", Expired), ("b", Expired)],
            &[("b", Expired, 2), ("c", Expired, 1), ("a", DeliveryLimit, 1)],
        ),
    ];
    for (steps, expected) in cases {
        let annotations = annotations(steps);
        let found: Vec<_> =
            annotations.deaths.iter().map(|death| (death.queue.as_str(), death.reason, death.count)).collect();
        assert_eq!(found, *expected);
        assert_eq!(annotations.first, place(steps[0].0, steps[0].1));
        assert_eq!(annotations.last, steps.last().and_then(|(queue, reason)| place(queue, *reason)));
    }
}

#[test]
fn a_repeated_death_tells_of_the_first_but_the_last_place_of_the_last() {
    let mut annotations = Annotations::default();
    annotations.record(Death { original_expiration: Some(500), ..death("q", Expired) });
    annotations.record(Death {
        exchange: "other".into(),
        routing_keys: vec![],
        time: 1_800_000_000,
        ..death("q", Expired)
    });
    assert_eq!(annotations.deaths, [Death { count: 2, original_expiration: Some(500), ..death("q", Expired) }]);
    assert_eq!(annotations.first, place("q", Expired));
    assert_eq!(annotations.last.map(|place| place.exchange), Some("other".to_owned()));
}

#[test]
fn cycles_are_automatic_or_none() {
    let cases: &[(Steps<'_>, &str, bool)] = &[
        (&[], "a", false),
        (&[("a", Expired)], "b", false),
        (&[("a", Expired)], "a", true),
        (&[("a", MaxLength)], "a", true),
        (&[("a", DeliveryLimit)], "a", true),
        (&[("a", Rejected)], "a", false),
        (&[("a", Expired), ("b", Expired)], "a", true),
        (&[("a", Expired), ("b", Rejected)], "a", false),
        (&[("a", Rejected), ("b", Expired)], "a", false),
        // A message is rejected, waits in a retry queue and expires back: that may go on for ever.
        (&[("work", Rejected), ("retry", Expired), ("work", Rejected), ("retry", Expired)], "work", false),
        // The rejection came before the death in the target, so it is not part of the cycle.
        (&[("b", Rejected), ("a", Expired)], "a", true),
        (&[("a", Rejected), ("a", Expired)], "a", true),
    ];
    for (deaths, target, expected) in cases {
        assert_eq!(annotations(deaths).cycles().contains(target), *expected, "{deaths:?} to {target}");
    }
}

#[test]
fn what_a_client_brought_along_to_an_earlier_version_makes_no_cycle() {
    let mut again = Annotations { carried: 2, ..annotations(&[("a", Expired), ("b", Expired)]) };
    assert!(!again.cycles().contains("a") && !again.cycles().contains("b"));
    again.record(death("b", Expired));
    assert_eq!(again.deaths[0].count, 2, "the count goes on");
    assert!(again.cycles().contains("b"), "it died in b since it was published");
    assert!(!again.cycles().contains("a"));
    again.record(death("c", MaxLength));
    again.record(death("a", Expired));
    assert!(again.cycles().contains("a") && again.cycles().contains("b") && again.cycles().contains("c"));
    assert_eq!(again.first, place("a", Expired), "the first death of all stays the first");
}

#[test]
fn headers_have_known_names_and_types() {
    let mut annotations = annotations(&[("q1", Rejected)]);
    annotations.record(Death { original_expiration: Some(2500), exchange: String::new(), ..death("q2", Expired) });
    let entry = |count, reason: &str, queue: &str, exchange: &str| {
        vec![
            ("count".to_owned(), Value::I64(count)),
            ("reason".to_owned(), text(reason)),
            ("queue".to_owned(), text(queue)),
            ("time".to_owned(), Value::Timestamp(1_700_000_000_000)),
            ("exchange".to_owned(), text(exchange)),
            ("routing-keys".to_owned(), Value::Array(vec![text("k")])),
        ]
    };
    let mut newest = entry(1, "expired", "q2", "");
    newest.push(("original-expiration".to_owned(), text("2500")));
    let deaths = vec![Value::Table(Table(newest)), Value::Table(Table(entry(1, "rejected", "q1", "x")))];
    let expected = [
        ("x-death", Value::Array(deaths)),
        ("x-first-death-queue", text("q1")),
        ("x-first-death-reason", text("rejected")),
        ("x-first-death-exchange", text("x")),
        ("x-last-death-queue", text("q2")),
        ("x-last-death-reason", text("expired")),
        ("x-last-death-exchange", text("")),
    ];
    assert_eq!(annotations.headers(), expected);
    assert_eq!(Annotations::default().headers(), []);
}

#[test]
fn the_durable_form_has_known_bytes() {
    let mut annotations = annotations(&[("q", Expired)]);
    annotations.deaths[0].time = 300;
    annotations.deaths[0].original_expiration = Some(5);
    let mut bytes = Vec::new();
    annotations.encode(&mut bytes);
    let place = [1, b'q', 2, 1, b'x'];
    let expected =
        [&[1][..], &place, &[1, 1, b'k'], &[1], &[0xac, 2], &[1, 5], &[0], &[1], &place, &[1], &place].concat();
    assert_eq!(bytes, expected);
    assert_eq!(Annotations::decode(&bytes), Ok(annotations));

    let mut unknown_reason = bytes.clone();
    unknown_reason[3] = 5;
    let mut carries_too_many = bytes.clone();
    carries_too_many[14] = 2;
    let mut longer = bytes.clone();
    longer.extend([0, 0, 0]);
    for (what, bad) in [("reason", unknown_reason), ("carried", carries_too_many), ("longer", longer)] {
        assert!(Annotations::decode(&bad).is_err(), "{what}");
    }
}

#[test]
fn moves_are_shared_out_and_written_down() {
    let mut one = annotations(&[("q", Expired)]);
    assert!(one.share_moves(4));
    assert_eq!(one.moves_left, Some((MOVES - 4) / 4));
    let mut bytes = Vec::new();
    one.encode(&mut bytes);
    assert_eq!(Annotations::decode(&bytes), Ok(one.clone()));
    // The annotations of an earlier version have all moves.
    let old = &bytes[..bytes.len() - 1];
    assert_eq!(Annotations::decode(old), Ok(Annotations { moves_left: None, ..one.clone() }));

    for (left, halvings) in [(None, 0), (Some(MOVES - 1), 0), (Some(MOVES / 2), 1), (Some(2), 7), (Some(0), 8)] {
        one.moves_left = left;
        assert_eq!(one.halvings(), halvings, "{left:?}");
    }
    one.moves_left = Some(10_000);
    assert_eq!(one.halvings(), 0, "an earlier version had more moves");

    one.moves_left = Some(3);
    assert!(!one.share_moves(4), "it may not make more than are left");
    assert!(one.share_moves(3));
    assert!(!one.share_moves(1));
    one.record(death("r", Rejected));
    assert!(one.share_moves(100_000), "a rejection is somebody's doing: anything may follow it");
    assert_eq!(one.moves_left, Some(LEAST_MOVES), "each copy goes on through a chain of queues");
    one.carry();
    assert_eq!(one.moves_left, None);
}

#[test]
fn what_was_said_is_of_the_newest_death_and_bounded() {
    for moves_left in [None, Some(7)] {
        let mut one = Annotations { moves_left, ..annotations(&[("q", Rejected)]) };
        one.say(&"ä".repeat(SAID_MAX));
        assert_eq!(one.said.as_ref().map(String::len), Some(SAID_MAX - 1));
        let mut bytes = Vec::new();
        one.encode(&mut bytes);
        assert_eq!(Annotations::decode(&bytes), Ok(one.clone()));
        let shown = one.headers().pop();
        assert_eq!(shown, Some(("x-last-death-description", text(one.said.as_deref().unwrap_or_default()))));
        one.record(death("r", Rejected));
        assert_eq!(one.said, None);
    }
}

#[test]
fn notes_are_stored_behind_what_was_said_and_a_cut_is_noticed() {
    for (said, moves_left) in [(None, None), (Some("no"), None), (None, Some(7)), (Some("no"), Some(7))] {
        let mut one = Annotations { moves_left, said: said.map(str::to_owned), ..annotations(&[("q", Rejected)]) };
        let mut before = Vec::new();
        one.encode(&mut before);
        one.noted.set("x-opt-a", text("b"));
        let mut bytes = Vec::new();
        one.encode(&mut bytes);
        let placeholders = if moves_left.is_none() && said.is_none() { 11 } else { usize::from(said.is_none()) };
        assert_eq!(bytes[before.len() + placeholders..], *b"\x01\x07x-opt-a\x0d\x01b");
        assert_eq!(Annotations::decode(&bytes), Ok(one));
        for end in before.len() + placeholders + 1..bytes.len() {
            assert!(Annotations::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }
}

fn any_death() -> impl Strategy<Value = Death> {
    let names = ("[a-c]", "[x-z]?", prop::collection::vec("[k-m.]{0,3}", 0..3));
    (names, 0..4usize, any::<u64>(), any::<u64>(), any::<Option<u64>>()).prop_map(
        |((queue, exchange, routing_keys), reason, count, time, original_expiration)| Death {
            queue,
            reason: Reason::ALL[reason],
            exchange,
            routing_keys,
            count,
            time,
            original_expiration,
        },
    )
}

proptest! {
    #[test]
    fn marks_round_trip(
        before in prop::collection::vec(any_death(), 0..6),
        after in prop::collection::vec(any_death(), 0..6),
    ) {
        let mut annotations = Annotations::default();
        before.into_iter().for_each(|death| annotations.record(death));
        annotations.carried = annotations.deaths.len();
        after.into_iter().for_each(|death| annotations.record(death));

        let mut bytes = Vec::new();
        annotations.encode(&mut bytes);
        prop_assert_eq!(Annotations::decode(&bytes), Ok(annotations.clone()));
        for cut in 0..bytes.len() {
            prop_assert!(Annotations::decode(&bytes[..cut]).is_err(), "cut at {}", cut);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Annotations::decode(&bytes);
    }
}
