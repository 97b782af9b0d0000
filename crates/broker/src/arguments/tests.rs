//! Declarations and their results, text by text.

use super::UnknownArguments::{Accept, Refuse};
use super::dead_letters::DeadLetters;
use super::equivalence::{Declared, inequivalence};
use super::*;

const TEN_YEARS: i64 = 315_360_000_000;

fn table(fields: &[(&str, Value)]) -> Table {
    Table(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn up_to(priority: u8) -> Delivering {
    Delivering { max_priority: Some(priority), ..Delivering::default() }
}

fn refusal(text: &str) -> Result<QueueArguments, Error> {
    Err(Error::precondition(text))
}

/// The arguments of a quorum queue besides its type.
fn quorum(fields: &[(&str, Value)]) -> Table {
    let mut all = table(&[(QUEUE_TYPE, text("quorum"))]);
    all.0.extend(table(fields).0);
    all
}

#[test]
fn what_is_understood() {
    let classic = QueueArguments::default;
    let quorum_default =
        || QueueArguments { queue_type: QueueType::Quorum, delivery_limit: Some(20), ..QueueArguments::default() };
    let long = "k".repeat(255);
    let cases: &[(Table, QueueArguments)] = &[
        (table(&[]), classic()),
        (table(&[("owner", text("us")), ("X-upper", Value::Null)]), classic()),
        (table(&[(QUEUE_TYPE, text("classic"))]), classic()),
        (table(&[(QUEUE_TYPE, text(""))]), classic()),
        (table(&[(QUEUE_TYPE, text("undefined"))]), classic()),
        (
            table(&[
                ("x-max-priority", Value::I32(5)),
                ("x-delivery-limit", Value::I32(3)),
                ("x-single-active-consumer", Value::Bool(true)),
                ("x-dead-letter-strategy", text("at-least-once")),
                ("x-queue-mode", text("lazy")),
                ("x-quorum-initial-group-size", Value::I32(3)),
            ]),
            QueueArguments { delivering: up_to(5), delivery_limit: Some(3), single_active_consumer: true, ..classic() },
        ),
        (
            table(&[(QUEUE_TYPE, text("undefined")), ("x-delivery-limit", Value::I32(0))]),
            QueueArguments { delivery_limit: Some(0), ..classic() },
        ),
        (table(&[("x-message-ttl", Value::U8(0))]), QueueArguments { message_ttl: Some(0), ..classic() }),
        (
            table(&[
                ("x-message-ttl", Value::I64(TEN_YEARS)),
                ("x-expires", Value::I64(TEN_YEARS)),
                ("x-consumer-timeout", Value::I64(TEN_YEARS)),
            ]),
            QueueArguments {
                message_ttl: Some(315_360_000_000),
                disuse: Disuse { after: Some(315_360_000_000), only_empty: false },
                consumer_timeout: Some(315_360_000_000),
                ..classic()
            },
        ),
        (
            table(&[("x-expires", Value::I16(1)), ("x-expires-if-empty", Value::Bool(true))]),
            QueueArguments { disuse: Disuse { after: Some(1), only_empty: true }, ..classic() },
        ),
        (
            table(&[("x-expiry-routing-key", text("k")), ("x-expiry-exchange", text("e"))]),
            QueueArguments {
                dead_letters: Ways {
                    expired: Some(DeadLetters {
                        exchange: "e".to_owned(),
                        routing_key: Some("k".to_owned()),
                        is_rule: false,
                    }),
                    ..Ways::default()
                },
                ..classic()
            },
        ),
        (
            table(&[("x-max-length", Value::I32(0)), ("x-max-length-bytes", Value::U32(9))]),
            QueueArguments { max_length: Some(0), max_length_bytes: Some(9), ..classic() },
        ),
        (
            table(&[("x-max-length", Value::I32(1)), ("x-max-length", Value::I32(2))]),
            QueueArguments { max_length: Some(1), ..classic() },
        ),
        (table(&[("x-max-priority", Value::U8(255))]), QueueArguments { delivering: up_to(255), ..classic() }),
        (table(&[("x-max-priority", Value::I64(0))]), QueueArguments { delivering: up_to(1), ..classic() }),
        (table(&[("x-overflow", text("drop-head"))]), classic()),
        (
            table(&[("x-overflow", text("reject-publish"))]),
            QueueArguments { overflow: Overflow::RejectPublish, ..classic() },
        ),
        (
            table(&[("x-overflow", text("reject-publish-dlx")), ("x-queue-leader-locator", text("balanced"))]),
            QueueArguments { overflow: Overflow::RejectPublishDeadLetter, ..classic() },
        ),
        (
            table(&[
                ("x-dead-letter-routing-key", text(&long)),
                ("x-dead-letter-exchange", text("")),
                ("x-expiry-queue", text("")),
            ]),
            QueueArguments {
                dead_letters: Ways {
                    usual: Some(DeadLetters {
                        exchange: String::new(),
                        routing_key: Some(long.clone()),
                        is_rule: false,
                    }),
                    expired: None,
                    drops_expired: true,
                    made_for: None,
                },
                ..classic()
            },
        ),
        (table(&[("x-queue-mode", text("lazy")), ("x-queue-version", Value::I32(2))]), classic()),
        (table(&[("x-queue-mode", text("default")), ("x-queue-version", Value::I32(1))]), classic()),
        (table(&[("x-single-active-consumer", Value::Bool(false))]), classic()),
        (
            table(&[("x-single-active-consumer", Value::Bool(true)), ("x-consumer-timeout", Value::I32(0))]),
            QueueArguments { single_active_consumer: true, consumer_timeout: Some(0), ..classic() },
        ),
        (quorum(&[]), quorum_default()),
        (
            quorum(&[("x-delivery-limit", Value::I32(0))]),
            QueueArguments { delivery_limit: Some(0), ..quorum_default() },
        ),
        (quorum(&[("x-delivery-limit", Value::I32(-1))]), QueueArguments { delivery_limit: None, ..quorum_default() }),
        (
            quorum(&[("x-message-ttl", Value::I32(5)), ("x-expires", Value::I32(6))]),
            QueueArguments {
                message_ttl: Some(5),
                disuse: Disuse { after: Some(6), only_empty: false },
                ..quorum_default()
            },
        ),
        (
            quorum(&[
                ("x-quorum-initial-group-size", Value::I32(3)),
                ("x-dead-letter-strategy", text("at-least-once")),
                ("x-max-in-memory-length", Value::I32(0)),
            ]),
            quorum_default(),
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(QueueArguments::parse("q", "/", arguments, Refuse).as_ref(), Ok(expected), "{arguments:?}");
    }
}

#[test]
fn what_is_refused_and_how() {
    let long = text(&"k".repeat(256));
    let cases: &[(&str, Value, &str)] = &[
        (QUEUE_TYPE, text("stream"), ": not implemented yet"),
        (QUEUE_TYPE, text("mqtt"), ": \"unsupported queue type 'mqtt'\""),
        (
            "x-dead-letter-queue",
            text("{queue}"),
            ": a queue can't keep its own dead letters; expected more, such as DLQ.{queue}",
        ),
        ("x-dead-letter-queue", text("{queue}{queue}"), ": expected {queue} once"),
        (
            "x-expiry-queue",
            text("late"),
            ": expected {queue}, which stands for the name of the queue, as in EXP.{queue}; for one queue of all, set \
             x-expiry-exchange and x-expiry-routing-key",
        ),
        (
            "x-expiry-queue",
            text("{queue}"),
            ": a queue can't keep its own dead letters; expected more, such as EXP.{queue}",
        ),
        ("x-expiry-queue", Value::Bool(true), ": {unacceptable_type,bool}"),
        ("x-dead-letter-queue", Value::I32(1), ": {unacceptable_type,signedint}"),
        (QUEUE_TYPE, Value::I32(1), ": {unacceptable_type,signedint}"),
        ("x-message-ttl", Value::I32(-1), ": {value_negative,-1}"),
        ("x-message-ttl", Value::I64(TEN_YEARS + 1), ": {value_too_large,315360000001}"),
        ("x-message-ttl", text("10"), ": \"expected integer, got longstr\""),
        ("x-message-ttl", Value::F64(10.0), ": \"expected integer, got double\""),
        ("x-expires", Value::I32(0), ": {value_zero,0}"),
        ("x-expires", Value::I8(-5), ": {value_negative,-5}"),
        ("x-expires", Value::I64(i64::MAX), ": {value_too_large,9223372036854775807}"),
        ("x-max-length", Value::I32(-7), ": {value_negative,-7}"),
        ("x-max-length", Value::Null, ": \"expected integer, got void\""),
        ("x-max-length-bytes", Value::Bool(true), ": \"expected integer, got bool\""),
        ("x-overflow", text("drop-tail"), ": invalid_overflow"),
        ("x-overflow", Value::I32(1), ": {unacceptable_type,signedint}"),
        ("x-dead-letter-exchange", Value::I64(1), ": {unacceptable_type,long}"),
        ("x-dead-letter-exchange", long.clone(), ": 256 bytes are too long; at most 255 are allowed"),
        ("x-dead-letter-routing-key", text("k"), ": routing_key_but_no_dlx_defined"),
        ("x-dead-letter-routing-key", Value::Bytes(vec![255]), ": {unacceptable_type,binary}"),
        ("x-queue-mode", text("eager"), ": invalid_queue_mode"),
        ("x-queue-version", Value::I32(3), ": \"unsupported queue version '3'\""),
        ("x-max-priority", Value::I32(256), ": {max_value_exceeded,256}"),
        ("x-max-priority", Value::I32(-1), ": {value_negative,-1}"),
        ("x-max-priority", text("5"), ": \"expected integer, got longstr\""),
        ("x-single-active-consumer", text("true"), ": {unacceptable_type,longstr}"),
        ("x-queue-leader-locator", text("far-away"), ": invalid_queue_locator_arg"),
        ("x-queue-master-locator", Value::I32(1), ": {unacceptable_type,signedint}"),
        ("x-delivery-limit", text("3"), ": \"expected integer, got longstr\""),
        ("x-dead-letter-strategy", text("often"), ": invalid_dlx_strategy"),
        ("x-consumer-timeout", Value::I32(-3), ": {value_negative,-3}"),
        ("x-consumer-timeout", Value::I64(TEN_YEARS + 1), ": {value_too_large,315360000001}"),
        ("x-cache-ttl", Value::I64(TEN_YEARS + 1), ": {value_too_large,315360000001}"),
        ("x-delayed-retry-min", Value::I64(TEN_YEARS + 1), ": {value_too_large,315360000001}"),
        ("x-delayed-retry-multiplier", text("2"), ": has no effect without x-delayed-retry-type"),
        ("x-expiry-routing-key", text("k"), ": has no effect without x-expiry-exchange"),
        ("x-expiry-exchange", Value::I32(1), ": {unacceptable_type,signedint}"),
        ("x-expires-if-empty", text("true"), ": {unacceptable_type,longstr}"),
        ("x-max-age", text("1D"), " of queue type rabbit_classic_queue"),
        ("x-mesage-ttl", Value::I32(3), UNKNOWN),
    ];
    for (argument, value, what) in cases {
        let found = QueueArguments::parse("q", "/", &table(&[(argument, value.clone())]), Refuse);
        assert_eq!(found, refusal(&format!("invalid arg '{argument}' for queue 'q' in vhost '/'{what}")));
    }
    for argument in QUORUM.iter().filter(|argument| !CLASSIC.contains(argument)) {
        let classic = table(&[(QUEUE_TYPE, text("classic")), (argument, Value::I32(3))]);
        let what = format!("invalid arg '{argument}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue");
        assert_eq!(QueueArguments::parse("q", "/", &classic, Refuse), refusal(&what));
    }
    let of_quorum: &[(&str, Value, &str)] = &[
        ("x-delivery-limit", text("3"), ": \"expected integer, got longstr\""),
        ("x-dead-letter-strategy", text("often"), ": invalid_dlx_strategy"),
        ("x-quorum-initial-group-size", Value::I32(0), ": {value_zero,0}"),
        ("x-max-in-memory-bytes", Value::I32(-1), ": {value_negative,-1}"),
        ("x-delayed-retry-type", text("all"), ": delayed-retry-min is required when delayed-retry-type is all"),
        ("x-max-priority", Value::I32(10), " of queue type rabbit_quorum_queue"),
        ("x-queue-mode", text("lazy"), " of queue type rabbit_quorum_queue"),
        ("x-queue-version", Value::I32(2), " of queue type rabbit_quorum_queue"),
    ];
    for (argument, value, what) in of_quorum {
        let found = QueueArguments::parse("q", "v", &quorum(&[(argument, value.clone())]), Refuse);
        assert_eq!(found, refusal(&format!("invalid arg '{argument}' for queue 'q' in vhost 'v'{what}")));
    }
}

#[test]
fn no_name_of_an_argument_is_accepted_by_chance() {
    // Every argument that a type knows checks its value: none takes a list.
    for (queue_type, list) in [(QueueType::Classic, CLASSIC), (QueueType::Quorum, QUORUM)] {
        for argument in list.iter().filter(|argument| **argument != QUEUE_TYPE) {
            let arguments = table(&[(QUEUE_TYPE, text(queue_type.name())), (argument, Value::Array(vec![]))]);
            assert!(QueueArguments::parse("q", "/", &arguments, Refuse).is_err(), "{argument}");
        }
    }
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let mut deep = Value::Null;
    for _ in 0..40 {
        deep = Value::Array(vec![deep]);
    }
    let deep = table(&[("owner", deep)]);
    let text = "the arguments nest lists or tables deeper than 32 levels; flatten them";
    assert_eq!(QueueArguments::parse("q", "/", &deep, Refuse), refusal(text));
    let parsed = ExchangeArguments::parse(ExchangeKind::Direct, "x", "/", &deep, Refuse);
    assert_eq!(parsed, Err(Error::precondition(text)));
}

#[test]
fn where_unknown_arguments_are_accepted_nothing_else_is() {
    let slip = ("x-mesage-ttl", Value::I32(3));
    let parse = |fields: &[(&str, Value)]| QueueArguments::parse("q", "/", &table(fields), Accept);
    assert_eq!(parse(std::slice::from_ref(&slip)), Ok(QueueArguments::default()));
    let kind = |name| (QUEUE_TYPE, text(name));
    for (fields, what) in [
        (vec![slip.clone(), ("x-message-ttl", text("3"))], "'x-message-ttl'"),
        (vec![slip.clone(), ("x-max-age", text("1D"))], "'x-max-age'"),
        (vec![slip.clone(), kind("stream")], "not implemented yet"),
        (vec![slip.clone(), kind("quorum"), ("x-max-priority", Value::I32(3))], "'x-max-priority'"),
    ] {
        let refused = parse(&fields).map_err(|error| error.text);
        assert!(refused.as_ref().is_err_and(|text| text.contains(what)), "{refused:?}");
    }
    let other = ("alternate-exchange", Value::I32(3));
    let exchange = |fields: &[_]| ExchangeArguments::parse(ExchangeKind::Direct, "x", "/", &table(fields), Accept);
    assert!(exchange(std::slice::from_ref(&slip)).is_ok() && exchange(&[slip, other]).is_err());
}

#[test]
fn exchange_arguments() {
    use ExchangeKind::{ConsistentHash, Direct};

    let none = || ExchangeArguments { alternate: None, hash_on: HashOn::default(), remember: None, routes_as: Direct };
    let header = || ExchangeArguments { hash_on: HashOn::Header("h".to_owned()), routes_as: ConsistentHash, ..none() };
    let cases = [
        (Direct, table(&[]), Ok(none())),
        (Direct, table(&[("owner", text("us"))]), Ok(none())),
        (
            Direct,
            table(&[("alternate-exchange", text("ae"))]),
            Ok(ExchangeArguments { alternate: Some("ae".to_owned()), ..none() }),
        ),
        (
            Direct,
            table(&[("alternate-exchange", Value::I32(1))]),
            Err("invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'"),
        ),
        (
            Direct,
            table(&[("x-delayed-type", text("direct"))]),
            Err(
                "invalid arg 'x-delayed-type' for exchange 'x' in vhost '/': unknown; arguments of the application must \
                 not begin with x-, unless compat.unknown_arguments is accept",
            ),
        ),
        (ConsistentHash, table(&[("hash-header", text("h"))]), Ok(header())),
        // For another kind it is the application's.
        (Direct, table(&[("hash-header", text("h"))]), Ok(none())),
        (ConsistentHash, table(&[("hash-property", text("app_id"))]), Err("Unsupported property: app_id")),
    ];
    for (kind, arguments, expected) in cases {
        let parsed = ExchangeArguments::parse(kind, "x", "/", &arguments, Refuse);
        assert_eq!(parsed, expected.map_err(Error::precondition), "{kind:?} {arguments:?}");
    }
}

/// The result of a redeclaration of `q`: `None`, or the error without the words that all of them
/// share.
fn redeclared(existing: Declared<'_>, wanted: Declared<'_>) -> Option<String> {
    let error = inequivalence("q", "/", &existing, &wanted)?;
    assert_eq!(error.kind, crate::error::ErrorKind::Precondition);
    let rest = error.text.strip_prefix("inequivalent arg '").expect("all begin like this");
    Some(rest.replace("' for queue 'q' in vhost '/': received", ":"))
}

#[test]
fn queues_declared_again_with_other_flags() {
    let (none, ttl) = (table(&[]), table(&[("x-message-ttl", Value::I32(10))]));
    let existing = Declared { durable: true, auto_delete: false, arguments: &none };
    let cases = [
        (existing, None),
        // The order of the checks is durable, auto_delete, arguments.
        (
            Declared { durable: false, auto_delete: true, arguments: &ttl },
            Some("durable: 'false' but current is 'true'"),
        ),
        (
            Declared { auto_delete: true, arguments: &ttl, ..existing },
            Some("auto_delete: 'true' but current is 'false'"),
        ),
        (
            Declared { arguments: &ttl, ..existing },
            Some("x-message-ttl: the value '10' of type 'signedint' but current is none"),
        ),
    ];
    for (wanted, expected) in cases {
        assert_eq!(redeclared(existing, wanted).as_deref(), expected);
    }
}

#[test]
fn queues_declared_again_with_other_arguments() {
    let none = table(&[]);
    let ttl = |value| table(&[("x-message-ttl", value)]);
    let ten = || ttl(Value::I32(10));
    let classic = || table(&[(QUEUE_TYPE, text("classic"))]);
    let priority = ("x-max-priority", Value::I32(5));
    let limit = ("x-delivery-limit", Value::I32(3));
    let cases = [
        (ten(), ttl(Value::I64(10)), None),
        (ten(), none.clone(), Some("x-message-ttl: none but current is the value '10' of type 'signedint'")),
        (ten(), ttl(Value::I32(20)), Some("x-message-ttl: '20' but current is '10'")),
        (ten(), ttl(text("soon")), Some("x-message-ttl: 'soon' but current is '10'")),
        (
            ten(),
            ttl(text("10")),
            Some("x-message-ttl: the value '10' of type 'longstr' but current is the value '10' of type 'signedint'"),
        ),
        (none.clone(), classic(), None),
        (classic(), none.clone(), None),
        (classic(), quorum(&[]), Some("x-queue-type: 'quorum' but current is 'classic'")),
        (quorum(&[]), none.clone(), Some("x-queue-type: none but current is the value 'quorum' of type 'longstr'")),
        (
            none.clone(),
            table(std::slice::from_ref(&priority)),
            Some("x-max-priority: the value '5' of type 'signedint' but current is none"),
        ),
        // A quorum queue has no such argument, so it is not compared. A queue with the classic type
        // has no limit either.
        (quorum(&[]), quorum(&[priority]), None),
        (classic(), table(std::slice::from_ref(&limit)), None),
        (
            none.clone(),
            table(std::slice::from_ref(&limit)),
            Some("x-delivery-limit: the value '3' of type 'signedint' but current is none"),
        ),
        (table(std::slice::from_ref(&limit)), table(std::slice::from_ref(&limit)), None),
        (none, table(&[("owner", text("us")), ("x-unheard-of", Value::Null)]), None),
    ];
    for (existing, wanted, expected) in &cases {
        let [existing, wanted] =
            [existing, wanted].map(|arguments| Declared { durable: true, auto_delete: false, arguments });
        assert_eq!(redeclared(existing, wanted).as_deref(), *expected, "{existing:?} {wanted:?}");
    }
}

#[test]
fn exchanges_declared_again() {
    let none = table(&[]);
    let alternate = table(&[(ALTERNATE_EXCHANGE, text("ae"))]);
    let other = table(&[("owner", text("us"))]);
    let existing = DeclaredExchange {
        kind: ExchangeKind::Direct,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: &none,
    };
    let cases = [
        (existing, None),
        (DeclaredExchange { arguments: &other, ..existing }, None),
        (
            DeclaredExchange { kind: ExchangeKind::Fanout, durable: false, ..existing },
            Some(("type", "'fanout' but current is 'direct'")),
        ),
        (
            DeclaredExchange { durable: false, auto_delete: true, ..existing },
            Some(("durable", "'false' but current is 'true'")),
        ),
        (
            DeclaredExchange { auto_delete: true, internal: true, ..existing },
            Some(("auto_delete", "'true' but current is 'false'")),
        ),
        (DeclaredExchange { internal: true, ..existing }, Some(("internal", "'true' but current is 'false'"))),
        (
            DeclaredExchange { arguments: &alternate, ..existing },
            Some((ALTERNATE_EXCHANGE, "the value 'ae' of type 'longstr' but current is none")),
        ),
    ];
    for (wanted, expected) in cases {
        let expected = expected.map(|(key, rest)| {
            Error::precondition(format!("inequivalent arg '{key}' for exchange 'x' in vhost '/': received {rest}"))
        });
        assert_eq!(exchange_inequivalence("x", "/", &existing, &wanted), expected);
    }
    let header = table(&[("hash-header", text("h"))]);
    let hashing = DeclaredExchange { kind: ExchangeKind::ConsistentHash, ..existing };
    let wanted = DeclaredExchange { arguments: &header, ..hashing };
    let expected = "inequivalent arg 'hash-header' for exchange 'x' in vhost '/': received the value 'h' of type 'longstr' \
                    but current is none";
    assert_eq!(exchange_inequivalence("x", "/", &hashing, &wanted), Some(Error::precondition(expected)));
}

#[test]
fn each_argument_of_a_queue_takes_values_of_its_kind_only() {
    assert_eq!(
        (queue_argument("x-mesage-ttl"), queue_argument("x-priority"), queue_argument("owner")),
        (None, None, None)
    );
    // All others depend on the type, which is read before them.
    for argument in [CLASSIC, QUORUM, STREAM].concat().into_iter().filter(|argument| *argument != QUEUE_TYPE) {
        let kind = queue_argument(argument).unwrap();
        for (other, value) in [
            (ArgumentKind::Text, text("word")),
            (ArgumentKind::Number, Value::I64(1)),
            (ArgumentKind::Truth, Value::Bool(true)),
        ] {
            let taken = QueueArguments::default().take(argument, &value, &table(&[(argument, value.clone())]));
            assert!(other == kind || taken.is_err(), "{argument} is {kind:?} and takes {value:?}");
        }
    }
}

#[test]
fn how_a_queue_delivers_need_not_be_repeated() {
    let links = table(&[(STRICT_PRIORITY, Value::Bool(true)), (COUNT_RETURNS, Value::Bool(true))]);
    let declared = |arguments| Declared { durable: true, auto_delete: false, arguments };
    let none = table(&[]);
    let differs = |existing, wanted| inequivalence("q", "/", &declared(existing), &declared(wanted));
    assert_eq!(differs(&links, &links), None);
    assert_eq!(differs(&links, &none), None);
    let off = table(&[(STRICT_PRIORITY, Value::Bool(false))]);
    assert!(differs(&links, &off).is_some() && differs(&none, &links).is_some());
    let parsed = QueueArguments::parse("q", "/", &links, Refuse).unwrap();
    assert_eq!((parsed.ranks(), parsed.counts_returns()), (Ranks::Strict, true));
    let both = table(&[(STRICT_PRIORITY, Value::Bool(true)), ("x-max-priority", Value::I32(5))]);
    let text =
        "invalid arg 'x-strict-priority' for queue 'q' in vhost '/': contradicts x-max-priority: declare one of both";
    assert_eq!(QueueArguments::parse("q", "/", &both, Refuse), refusal(text));
}
