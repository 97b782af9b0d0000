//! What the broker adds, hides and takes away, in the eyes of each consumer, of HTTP and of
//! `hermod browse`: they all see the same.

use std::collections::BTreeMap;
use std::path::Path;

use broker::{Id, Properties, Table, Value, seconds_of_ms};
use serde_json::{Value as Json, json};

use super::{Answer, Asks, SPEAKERS, Speaker, amqp091, headers, samples, with_headers};
use crate::api::GUEST;
use crate::server::{Server, hermod, run, until};

/// The headers of a message, and its expiration, as JSON.
type Shown = BTreeMap<String, Json>;

/// A way to look at the first message of a queue without taking it.
struct Viewer<'a> {
    name: &'static str,
    /// Whether it sees headers as text, and no lists.
    text_only: bool,
    look: Box<dyn FnMut(&str) -> Shown + 'a>,
}

fn viewers<'a>(server: &'a Server, dir: &'a Path) -> Vec<Viewer<'a>> {
    let speakers = with_headers().iter().map(|row| {
        let mut speaker = (row.connect)(server);
        let look = move |queue: &str| browsed(&mut *speaker, queue);
        Viewer { name: row.name, text_only: row.text_only, look: Box::new(look) }
    });
    let http = Viewer { name: "HTTP", text_only: false, look: Box::new(|queue| got(server, queue)) };
    let command = Viewer { name: "hermod browse", text_only: false, look: Box::new(|queue| listed(dir, queue)) };
    speakers.chain([http, command]).collect()
}

/// As a consumer that browses sees it.
fn browsed(speaker: &mut dyn Speaker, queue: &str) -> Shown {
    let properties = speaker.consume(queue, Asks::Browsing, 1, Answer::Accept).remove(0).properties;
    let fields = properties.headers.0.iter().map(|(name, value)| (name.clone(), as_json(value)));
    let expiration = properties.expiration.map(|ms| ("expiration".to_owned(), json!(ms.to_string())));
    fields.chain(expiration).collect()
}

/// As HTTP's get shows it.
fn got(server: &Server, queue: &str) -> Shown {
    let asked = json!({ "count": 1, "ackmode": "ack_requeue_true", "encoding": "auto" }).to_string();
    let path = format!("/api/queues/%2F/{}/get", queue.replace(' ', "%20"));
    let reply = server.send("POST", &path, &format!("{GUEST}Content-Type: application/json\r\n"), &asked);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let rows: Json = serde_json::from_str(&reply.body).unwrap();
    let properties = &rows[0]["properties"];
    shown(&properties["headers"], &properties["expiration"])
}

/// As `hermod browse` shows it.
fn listed(dir: &Path, queue: &str) -> Shown {
    let (code, stdout, stderr) = run(hermod("browse", dir).args([queue, "--json"]));
    assert_eq!(code, 0, "{stderr}");
    let rows: Json = serde_json::from_str(&stdout).unwrap();
    shown(&rows[0]["headers"], &rows[0]["properties"]["expiration"])
}

fn shown(headers: &Json, expiration: &Json) -> Shown {
    let fields = headers.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
    let text = expiration.as_u64().map_or(expiration.clone(), |ms| json!(ms.to_string()));
    fields.chain((!text.is_null()).then(|| ("expiration".to_owned(), text))).collect()
}

fn as_json(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!(text),
        Value::Array(list) => list.iter().map(as_json).collect(),
        Value::Table(table) => table.0.iter().map(|(name, value)| (name.clone(), as_json(value))).collect(),
        Value::Timestamp(time) => json!(time / 1000),
        Value::Null => Json::Null,
        Value::Bool(truth) => json!(truth),
        Value::F32(number) => json!(number),
        Value::F64(number) => json!(number),
        Value::Decimal { scale, value } => json!(f64::from(*value) / 10_f64.powi((*scale).into())),
        Value::Bytes(bytes) => json!(bytes.escape_ascii().to_string()),
        number => json!(number.as_integer().unwrap()),
    }
}

/// Checks what every viewer sees of the first message in `queue`. `expected` has the headers, null
/// for those that must not be there.
fn check(viewers: &mut [Viewer<'_>], queue: &str, expected: &[(&str, Json)]) {
    for viewer in viewers {
        let seen = (viewer.look)(queue);
        for (name, value) in expected {
            let is_list = value.is_array();
            let expected = match (viewer.text_only, value) {
                (true, Json::Number(number)) => Some(json!(number.to_string())),
                (true, _) if is_list => None,
                (_, Json::Null) => None,
                _ => Some(value.clone()),
            };
            // A publisher whose headers are text made a text of a number.
            let value = seen.get(*name).cloned();
            let is_text = value.as_ref().and_then(Json::as_str).is_some_and(|text| text == expected_text(&expected));
            assert!(value == expected || is_text, "{}, {queue}: {name} is {value:?} of {seen:?}", viewer.name);
        }
    }
}

fn expected_text(expected: &Option<Json>) -> String {
    expected.as_ref().map_or_else(String::new, Json::to_string)
}

fn list(keys: &[&str]) -> Value {
    Value::Array(keys.iter().map(|key| Value::Text((*key).to_owned())).collect())
}

/// HTTP's get and `hermod browse` once showed `BCC`, and the time to live that a dead letter had
/// before it died.
#[test]
fn all_see_the_same_of_a_message_with_copies_a_delay_and_a_death() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut declarer = amqp091::Amqp091::connect(&server);
    let mut viewers = viewers(&server, dir.path());
    for row in with_headers().iter().chain(SPEAKERS.iter().filter(|row| !row.chooses)) {
        let queue = format!("shown from {}", row.name);
        declarer.declare(&queue);
        declarer.bind(&queue, &queue);
        let mut publisher = (row.connect)(&server);
        let number = |number| Value::I32(number);
        let mut fields = vec![("n", number(1)), ("x-delay", number(1)), ("AMQ_SCHEDULED_DELAY", number(1))];
        if !row.text_only {
            fields.extend([("CC", list(&["copy"])), ("BCC", list(&["blind"]))]);
        }
        publisher.publish(&queue, &Properties { expiration: Some(600_000), ..headers(&fields) }, b"body");
        let copies = if row.text_only { Json::Null } else { json!(["copy"]) };
        until("the message is due", || {
            let (code, stdout, _) = run(hermod("browse", dir.path()).args([&queue, "--json"]));
            code == 0 && stdout.contains("body")
        });
        check(
            &mut viewers,
            &queue,
            &[
                ("n", json!(1)),
                ("CC", copies),
                ("BCC", Json::Null),
                ("x-delay", json!(-1)),
                ("expiration", json!("600000")),
                ("x-first-death-queue", Json::Null),
            ],
        );
        declarer.consume(&queue, Asks::All, 1, Answer::Reject);
        until("the dead letter", || {
            let (code, stdout, _) = run(hermod("browse", dir.path()).args(["dead", "--json"]));
            code == 0 && stdout.contains("body")
        });
        check(
            &mut viewers,
            "dead",
            &[
                ("n", json!(1)),
                ("CC", Json::Null),
                ("BCC", Json::Null),
                ("x-delay", json!(-1)),
                ("expiration", Json::Null),
                ("x-first-death-queue", json!(queue)),
                ("x-first-death-reason", json!("rejected")),
                ("x-last-death-exchange", json!(if row.chooses { "" } else { "amq.topic" })),
            ],
        );
        let death = &listed(dir.path(), "dead")["x-death"][0];
        assert_eq!((&death["original-expiration"], &death["count"]), (&json!("600000"), &json!(1)), "{queue}");
        declarer.consume("dead", Asks::All, 1, Answer::Accept);
    }
}

/// `hermod browse` once did not show how often a message had come back.
#[test]
fn all_see_how_often_a_message_came_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut declarer = amqp091::Amqp091::connect(&server);
    let mut viewers = viewers(&server, dir.path());
    for row in with_headers() {
        let queue = format!("counted from {}", row.name);
        declarer.declare_counting(&queue);
        (row.connect)(&server).publish(&queue, &headers(&[("x-acquired-count", Value::I32(9))]), b"body");
        declarer.consume(&queue, Asks::All, 1, Answer::Requeue);
        let back = |server: &Server| got(server, &queue).contains_key("x-acquired-count");
        until("the message is back", || back(&server));
        // HTTP's get gives the message back, too, so that the count depends on who looked before.
        for viewer in &mut viewers {
            let seen = (viewer.look)(&queue);
            let count =
                seen.get("x-acquired-count").map(|count| count.as_str().map_or(count.to_string(), str::to_owned));
            let count = count.and_then(|count| count.parse::<u64>().ok());
            assert!(count.is_some_and(|count| count < 9), "{}, {queue}: {seen:?}", viewer.name);
        }
    }
}

/// All that a viewer sees of a message, as text: properties by the names of AMQP 0-9-1, then
/// headers.
type All = BTreeMap<String, String>;

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn all_of(properties: &Properties) -> All {
    let p = properties;
    let id = |id: &Option<Id>| id.as_ref().and_then(Id::as_text).map(|text| text.into_owned());
    let fields = [
        ("content_type", p.content_type.clone()),
        ("content_encoding", p.content_encoding.clone()),
        ("delivery_mode", p.persistent.then(|| "2".to_owned())),
        ("priority", p.priority.map(|number| number.to_string())),
        ("correlation_id", id(&p.correlation_id)),
        ("reply_to", p.reply_to.clone()),
        ("expiration", p.expiration.map(|ms| ms.to_string())),
        ("message_id", id(&p.message_id)),
        ("timestamp", p.timestamp.map(|time| seconds_of_ms(time).to_string())),
        ("type", p.kind.clone()),
        ("user_id", p.user_id.clone()),
        ("app_id", p.app_id.clone()),
    ];
    let mut all: All = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    for (name, value) in &p.headers.0 {
        // JSON has a name once, and shows the first.
        all.entry(format!("header {name}")).or_insert_with(|| plain(&as_json(value)));
    }
    all
}

fn all_of_json(properties: &Json, headers: &Json) -> All {
    let named = |prefix: &'static str, fields: &Json| {
        let fields = fields.as_object().cloned().unwrap_or_default();
        fields.into_iter().map(move |(name, value)| (format!("{prefix}{name}"), plain(&value)))
    };
    let is_header = |name: &str| ["headers", "hermod_headers"].contains(&name);
    named("", properties).filter(|(name, _)| !is_header(name)).chain(named("header ", headers)).collect()
}

/// How a message is published.
enum Way {
    Protocol(Box<dyn Speaker>),
    /// Published in AMQP 0-9-1, shown by HTTP's get, and published again over HTTP as it was shown.
    ShownByGet,
    /// The same, shown by `hermod browse`.
    ShownByBrowse,
}

/// Publishes over HTTP the properties that the first message of `from` has by this way. Takes it.
fn publish_again(server: &Server, dir: &Path, way: &Way, from: &str, queue: &str) {
    let [by_http, by_browse] = rows(server, dir, from);
    let mut properties = match way {
        Way::ShownByBrowse => by_browse["properties"].clone(),
        _ => by_http["properties"].clone(),
    };
    if matches!(way, Way::ShownByBrowse) {
        properties["headers"] = by_browse["headers"].clone();
    }
    let message =
        json!({ "routing_key": queue, "properties": properties, "payload": "body", "payload_encoding": "string" });
    let headers = format!("{GUEST}Content-Type: application/json\r\n");
    let reply = server.send("POST", "/api/exchanges/%2F/amq.default/publish", &headers, &message.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// One field of each type that AMQP 0-9-1 has. Those of the second list have no text in STOMP.
fn typed() -> [Properties; 2] {
    let fields = [("in", Value::U8(1)), ("it", Value::Text("x".to_owned()))];
    let table = Table(fields.map(|(name, value)| (name.to_owned(), value)).into());
    let texts = [
        ("i8", Value::I8(-1)),
        ("u8", Value::U8(255)),
        ("i16", Value::I16(i16::MIN)),
        ("u16", Value::U16(u16::MAX)),
        ("i32", Value::I32(i32::MIN)),
        ("u32", Value::U32(u32::MAX)),
        ("i64", Value::I64(i64::MIN)),
        ("f32", Value::F32(0.5)),
        ("f64", Value::F64(-0.25)),
        ("decimal", Value::Decimal { scale: 1, value: 125 }),
        ("time", Value::Timestamp(1_700_000_000_000)),
        ("truth", Value::Bool(false)),
        ("text", Value::Text("\u{fc}: \\".to_owned())),
    ];
    let others = [
        ("null", Value::Null),
        ("bytes", Value::Bytes(vec![0xff, 0])),
        ("list", Value::Array(vec![Value::I32(1), Value::Table(table.clone())])),
        ("table", Value::Table(table)),
    ];
    [headers(&texts), headers(&others)]
}

/// Every way in, with every way to look: protocols, HTTP and `hermod browse`. HTTP once lost the
/// order of headers, those whose names repeat, and types that JSON lacks.
#[test]
fn every_property_and_every_type_is_the_same_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut declarer = amqp091::Amqp091::connect(&server);
    let mut speakers: Vec<_> = with_headers().iter().map(|row| (row.text_only, (row.connect)(&server))).collect();
    let protocols = with_headers().iter().map(|row| (row.name, row.text_only, Way::Protocol((row.connect)(&server))));
    let again = [("HTTP's get", false, Way::ShownByGet), ("hermod browse", false, Way::ShownByBrowse)];
    let mut publishers: Vec<_> = protocols.chain(again).collect();
    declarer.declare("copied");
    let [texts, others] = typed();
    let messages = samples().into_iter().chain([texts]).map(|properties| (properties, true)).chain([(others, false)]);
    for (number, (properties, has_texts)) in messages.enumerate() {
        for (name, from_text, publisher) in &mut publishers {
            if *from_text && !has_texts {
                continue;
            }
            let queue = format!("all{number}");
            declarer.declare(&queue);
            match publisher {
                Way::Protocol(publisher) => publisher.publish(&queue, &properties, b"body"),
                way => {
                    declarer.publish("copied", &properties, b"body");
                    publish_again(&server, dir.path(), way, "copied", &queue);
                    declarer.consume("copied", Asks::All, 1, Answer::Accept);
                }
            }
            let expected = all_of(&properties);
            let [by_http, by_browse] = looked_at(&server, dir.path(), &queue);
            assert_eq!(by_http, expected, "HTTP, from {name}");
            assert_eq!(by_browse, expected, "hermod browse, from {name}");
            for (text_only, speaker) in &mut speakers {
                let seen = speaker.consume(&queue, Asks::Browsing, 1, Answer::Accept).remove(0).properties;
                let mut expected = expected.clone();
                if *text_only && !has_texts {
                    expected.clear();
                }
                assert_eq!(all_of(&seen), expected, "{queue}, from {name}");
                if !*text_only && !*from_text {
                    assert_eq!(seen, properties, "{queue}, from {name}");
                }
            }
            declarer.consume(&queue, Asks::All, 1, Answer::Accept);
        }
    }
}

/// The first message of a queue as HTTP's get and `hermod browse` show it.
fn looked_at(server: &Server, dir: &Path, queue: &str) -> [All; 2] {
    let [by_http, by_browse] = rows(server, dir, queue);
    [
        all_of_json(&by_http["properties"], &by_http["properties"]["headers"]),
        all_of_json(&by_browse["properties"], &by_browse["headers"]),
    ]
}

fn rows(server: &Server, dir: &Path, queue: &str) -> [Json; 2] {
    let asked = json!({ "count": 1, "ackmode": "ack_requeue_true", "encoding": "auto" }).to_string();
    let headers = format!("{GUEST}Content-Type: application/json\r\n");
    let reply = server.send("POST", &format!("/api/queues/%2F/{queue}/get"), &headers, &asked);
    let by_http: Json = serde_json::from_str(&reply.body).unwrap();
    let (code, stdout, stderr) = run(hermod("browse", dir).args([queue, "--json"]));
    assert_eq!(code, 0, "{stderr}");
    let by_browse: Json = serde_json::from_str(&stdout).unwrap();
    [by_http[0].clone(), by_browse[0].clone()]
}
