//! What the broker adds, hides and takes away, in the eyes of each consumer, of HTTP and of
//! `hermod browse`: they all see the same.

use std::collections::BTreeMap;
use std::path::Path;

use broker::{Properties, Value};
use serde_json::{Value as Json, json};

use super::{Answer, Asks, SPEAKERS, Speaker, amqp091, headers};
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
    let speakers = SPEAKERS.iter().map(|row| {
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
    for row in &SPEAKERS {
        let queue = format!("shown from {}", row.name);
        declarer.declare(&queue);
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
                ("x-last-death-exchange", json!("")),
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
    for row in &SPEAKERS {
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
