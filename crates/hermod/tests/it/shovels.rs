//! Shovels between two servers: nothing is lost and the order is kept, whatever is killed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::amqp091::client::Received;
use broker::{Properties, Table, Value};
use serde_json::{Value as Json, json};
use shovel::{About, Ended, Job, Network, Order, Reach, State, Status, Translate, Translated};
use tokio::sync::watch;

use crate::api::{GUEST, json};
use crate::matrix::amqp091::Amqp091;
use crate::matrix::{Answer, Asks, Speaker};
use crate::server::{HANG, Ports, Server, hermod, run, until};

const ABOUT: About<'static> = About { vhost: "/", name: "test", cluster: "test" };

/// Both ends of these shovels speak one protocol.
struct Untranslated;

impl Translate for Untranslated {
    fn to_amqp10(&self, _: &Received<'_>) -> Result<Vec<u8>, String> {
        Err("it came by AMQP 0-9-1".to_owned())
    }

    fn to_amqp091<'m>(&self, _: &'m [u8]) -> Result<Translated<'m>, String> {
        Err("it came by AMQP 1.0".to_owned())
    }
}

/// A shovel on a thread of its own.
struct Running {
    order: watch::Sender<Order>,
    status: Arc<Status>,
    thread: std::thread::JoinHandle<Ended>,
}

impl Running {
    fn start(definition: Json) -> Self {
        let spec = shovel::parse(definition.as_object().unwrap(), ABOUT).unwrap();
        let (order, told) = watch::channel(Order::Go);
        let status = Arc::<Status>::default();
        let dial = Arc::new(Network { reach: Reach::Anywhere });
        let job = Job { spec, dial, translate: Arc::new(Untranslated), status: status.clone() };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(shovel::run(job, told))
        });
        Self { order, status, thread }
    }

    /// Waits until the figures are as wanted.
    fn until(&self, wanted: impl Fn(&shovel::Figures) -> bool) {
        let begun = Instant::now();
        while !wanted(&self.status.figures()) {
            assert!(begun.elapsed() < HANG, "{:?}", self.status.figures());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn end(self) -> Ended {
        self.order.send_replace(Order::End);
        self.thread.join().unwrap()
    }
}

fn uri(ports: Ports) -> String {
    format!("amqp://guest:guest@127.0.0.1:{}", ports.amqp)
}

fn definition(from: Ports, to: Ports) -> Json {
    json!({
        "src-uri": uri(from), "src-queue": "q", "src-prefetch-count": 50,
        "dest-uri": uri(to), "dest-queue": "moved", "reconnect-delay": 1,
    })
}

/// Publishes these numbers.
fn fill(server: &Server, queue: &str, numbers: std::ops::Range<usize>) {
    let mut client = Amqp091::connect(server);
    client.declare_counting(queue);
    let persistent = Properties { persistent: true, ..Properties::default() };
    numbers.for_each(|number| client.publish(queue, &persistent, number.to_string().as_bytes()));
}

/// The numbers in a queue, in its order.
fn numbers(server: &Server, queue: &str, count: usize) -> Vec<usize> {
    let seen = Amqp091::connect(server).consume(queue, Asks::All, count, Answer::Accept);
    seen.iter().map(|message| String::from_utf8(message.body.clone()).unwrap().parse().unwrap()).collect()
}

/// How many messages of a queue are ready.
fn depth(server: &Server, queue: &str) -> usize {
    Amqp091::connect(server).count(queue)
}

#[test]
fn all_messages_move_in_order_and_the_shovel_ends_when_told() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [from, to] = [Server::start(dirs[0].path(), &[]), Server::start(dirs[1].path(), &[])];
    fill(&from, "q", 0..300);
    let running = Running::start(definition(from.ports, to.ports));
    running.until(|figures| figures.moved == 300 && figures.on_their_way == 0);
    running.until(|figures| figures.left == Some(0) && figures.state == State::Running);
    fill(&from, "q", 300..310);
    running.until(|figures| figures.moved == 310);
    assert_eq!(running.end(), Ended::Told);
    assert_eq!((depth(&from, "q"), depth(&to, "moved")), (0, 310), "nothing came twice");
    assert_eq!(numbers(&to, "moved", 310), (0..310).collect::<Vec<_>>());
}

#[test]
fn a_kill_of_either_side_loses_nothing_and_keeps_the_order() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [mut from, mut to] = [Server::start(dirs[0].path(), &[]), Server::start(dirs[1].path(), &[])];
    const COUNT: usize = 600;
    fill(&from, "q", 0..COUNT);
    let running = Running::start(definition(from.ports, to.ports));
    for round in 1..=4 {
        running.until(|figures| figures.moved >= round * 60);
        let (killed, dir) = if round % 2 == 0 { (&mut from, dirs[0].path()) } else { (&mut to, dirs[1].path()) };
        let ports = killed.ports;
        killed.signal("KILL");
        // The old handle waits for the end of the old process.
        let old = std::mem::replace(killed, Server::start_on(Ports::free(), tempfile::tempdir().unwrap().path(), &[]));
        old.wait();
        *killed = Server::start_on(ports, dir, &[]);
    }
    running.until(|figures| figures.left == Some(0) && figures.on_their_way == 0);
    assert_eq!(running.end(), Ended::Told);
    assert_eq!(depth(&from, "q"), 0);
    let count = depth(&to, "moved");
    let mut highest = 0;
    for number in numbers(&to, "moved", count) {
        assert!(number <= highest, "{number} came before {highest}");
        highest = highest.max(number + 1);
    }
    assert_eq!(highest, COUNT, "of {count} messages");
}

#[test]
fn messages_move_by_amqp_10_too() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [from, to] = [Server::start(dirs[0].path(), &[]), Server::start(dirs[1].path(), &[])];
    fill(&from, "q", 0..300);
    fill(&to, "moved", 0..0);
    let running = Running::start(json!({
        "src-protocol": "amqp10", "src-uri": uri(from.ports), "src-address": "/queues/q", "src-prefetch-count": 50,
        "dest-protocol": "amqp10", "dest-uri": uri(to.ports), "dest-address": "/queues/moved",
    }));
    running.until(|figures| figures.moved == 300);
    running.until(|figures| figures.left == Some(0));
    fill(&from, "q", 300..310);
    running.until(|figures| figures.moved == 310);
    assert_eq!(running.end(), Ended::Told);
    assert_eq!(numbers(&to, "moved", 310), (0..310).collect::<Vec<_>>());
}

#[test]
fn what_has_no_place_to_go_stays() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [from, to] = [Server::start(dirs[0].path(), &[]), Server::start(dirs[1].path(), &[])];
    fill(&from, "q", 0..10);
    let definition = |to: Ports, key: &str| {
        json!({
            "src-uri": uri(from.ports), "src-queue": "q", "src-delete-after": "queue-length",
            "dest-uri": uri(to), "dest-exchange": "amq.direct", "dest-exchange-key": key, "reconnect-delay": 0,
        })
    };
    let running = Running::start(definition(to.ports, "nowhere"));
    let Ended::Failed(why) = running.thread.join().unwrap() else { panic!("it did not fail") };
    assert!(why.contains("no queue for a message: 312 NO_ROUTE") && why.contains("'nowhere'"), "{why}");
    assert_eq!(depth(&from, "q"), 10);
    fill(&to, "kept", 0..0);
    let mut definition = definition(to.ports, "kept");
    definition["dest-exchange"] = json!("");
    let running = Running::start(definition);
    assert_eq!(running.thread.join().unwrap(), Ended::Complete);
    assert_eq!((depth(&from, "q"), depth(&to, "kept")), (0, 10));
}

/// The row of a shovel in the list of RabbitMQ's API.
fn state(server: &Server, name: &str) -> Json {
    let rows = json(server, "/api/shovels", GUEST);
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).cloned();
    row.unwrap_or_else(|| panic!("no shovel {name}: {rows}"))
}

fn put(server: &Server, name: &str, headers: &str, value: &Json) -> (u16, String) {
    let path = format!("/api/parameters/shovel/%2F/{name}");
    let reply = server.send("PUT", &path, headers, &json!({ "value": value }).to_string());
    (reply.status, reply.body)
}

#[test]
fn a_shovel_is_set_over_http_and_outlives_a_kill_until_it_is_cleared() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    fill(&server, "q", 0..20);
    let here = json!({"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "moved"});
    assert_eq!(put(&server, "s", GUEST, &here).0, 201);
    until("the messages have moved", || state(&server, "s")["forwarded"] == 20);
    let row = state(&server, "s");
    let fields = ["state", "phase", "src_queue", "dest_queue", "src_protocol", "author", "type"];
    let shown = fields.map(|field| row[field].as_str().unwrap_or_default().to_owned());
    assert_eq!(shown, ["running", "running", "q", "moved", "amqp091", "guest", "dynamic"]);
    server.signal("KILL");
    server.wait();
    let server = Server::start(dir.path(), &[]);
    fill(&server, "q", 20..30);
    // What the kill took of the acknowledgements comes a second time.
    until("the shovel goes on", || depth(&server, "moved") >= 30 && depth(&server, "q") == 0);
    let there = json(&server, "/api/parameters/shovel/%2F/s", GUEST);
    assert_eq!(there["value"]["src-queue"], "q");
    assert_eq!(server.ask("DELETE", "/api/parameters/shovel/%2F/s", GUEST).0, 204);
    until("it has ended", || json(&server, "/api/connections", GUEST) == json!([]));
    fill(&server, "q", 30..31);
    let moved = depth(&server, "moved");
    assert_eq!(depth(&server, "q"), 1);
    assert_eq!(json(&server, "/api/shovels", GUEST), json!([]));
    server.signal("TERM");
    assert_eq!(server.wait().0, Some(0));
    let server = Server::start(dir.path(), &[]);
    assert_eq!(json(&server, "/api/parameters", GUEST), json!([]), "a cleared one stays cleared");
    let mut numbers = numbers(&server, "moved", moved);
    let mut seen = HashSet::new();
    numbers.retain(|number| seen.insert(*number));
    assert_eq!(numbers, (0..30).collect::<Vec<_>>());
}

#[test]
fn a_shovel_that_has_moved_all_clears_itself() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    fill(&server, "q", 0..20);
    let once = json!({
        "src-uri": "amqp://", "src-queue": "q", "src-delete-after": 15, "dest-uri": "amqp://", "dest-queue": "moved",
        "dest-add-forward-headers": true,
    });
    assert_eq!(put(&server, "once", GUEST, &once).0, 201);
    until("it has cleared itself", || json(&server, "/api/parameters/shovel", GUEST) == json!([]));
    until("the rest is back", || depth(&server, "q") == 5);
    assert_eq!(depth(&server, "moved"), 15);
    let seen = Amqp091::connect(&server).consume("moved", Asks::All, 1, Answer::Accept);
    let trail = format!("{:?}", seen[0].properties.headers);
    assert!(trail.contains("x-shovelled") && trail.contains("once"), "{trail}");
}

#[test]
fn an_end_in_this_broker_speaks_the_protocol_of_the_other_one() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [from, to] = [Server::start(dirs[0].path(), &[]), Server::start(dirs[1].path(), &[])];
    fill(&from, "q", 0..20);
    fill(&to, "to/here", 0..0);
    let bring = json!({
        "src-protocol": "amqp10", "src-uri": uri(from.ports), "src-address": "/queues/q",
        "dest-uri": "amqp://", "dest-queue": "to/here", "dest-predeclared": true,
        "dest-add-forward-headers": true, "dest-add-timestamp-header": true,
    });
    assert_eq!(put(&to, "bring", GUEST, &bring).0, 201);
    until("all have come", || depth(&to, "to/here") == 20);
    let row = state(&to, "bring");
    assert_eq!([&row["src_protocol"], &row["dest_protocol"]], ["amqp10", "amqp10"]);
    let mut client = Amqp091::connect(&to);
    let seen = client.consume("to/here", Asks::All, 20, Answer::Accept);
    let bodies: Vec<_> = seen.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect();
    assert_eq!(bodies, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
    let told = format!("{:?}", seen[0].properties.headers);
    for annotation in ["x-opt-shovelled-by", "x-opt-shovel-name", "x-opt-shovelled-timestamp"] {
        assert!(told.contains(annotation), "{told}");
    }
}

/// What a message says of itself, in all protocols.
fn told() -> Properties {
    let some = |text: &str| Some(text.to_owned());
    Properties {
        content_type: some("text/plain"),
        headers: Table(vec![("h".to_owned(), Value::I32(1))]),
        persistent: true,
        priority: Some(7),
        correlation_id: Some("c".into()),
        reply_to: some("answers"),
        message_id: Some("m".into()),
        kind: some("k"),
        app_id: some("a"),
        ..Properties::default()
    }
}

#[test]
fn a_shovel_takes_messages_from_one_protocol_to_the_other() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [from, to] = [Server::start(dirs[0].path(), &[]), Server::start(dirs[1].path(), &[])];
    fill(&to, "by-10", 0..0);
    let (there_10, there_091) = (
        json!({"dest-protocol": "amqp10", "dest-address": "/queues/by-10"}),
        json!({
            "src-protocol": "amqp10", "src-address": "/queues/r", "dest-queue": "by-091", "dest-queue-args": {"x-max-length": 1000},
        }),
    );
    for (name, queue, rest, arrives, protocols) in [
        ("up", "q", there_10, "by-10", ["amqp091", "amqp10"]),
        ("down", "r", there_091, "by-091", ["amqp10", "amqp091"]),
    ] {
        Amqp091::connect(&from).declare_counting(queue);
        Amqp091::connect(&from).publish(queue, &told(), b"first");
        fill(&from, queue, 0..40);
        let mut definition = json!({"src-uri": "amqp://", "dest-uri": uri(to.ports)});
        definition.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        if name == "up" {
            definition["src-queue"] = json!(queue);
        }
        assert_eq!(put(&from, name, GUEST, &definition).0, 201);
        until("all have come", || state(&from, name)["forwarded"] == 41);
        let row = state(&from, name);
        assert_eq!([&row["src_protocol"], &row["dest_protocol"]], protocols);
        let seen = Amqp091::connect(&to).consume(arrives, Asks::All, 41, Answer::Accept);
        assert_eq!((depth(&from, queue), &*seen[0].body), (0, &b"first"[..]));
        let mut properties = seen[0].properties.clone();
        properties.headers.0.retain(|(header, _)| !header.starts_with("x-"));
        assert_eq!(properties, told(), "{name}");
        let bodies: Vec<_> =
            seen[1..].iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect();
        assert_eq!(bodies, (0..40).map(|number| number.to_string()).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_shovel_may_do_what_its_user_may() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let say = |arguments: &[&str]| {
        let done = run(hermod(arguments[0], dir.path()).args(&arguments[1..]));
        assert_eq!(done.0, 0, "{arguments:?} {done:?}");
    };
    say(&["users", "add", "bo", "--password", "pw", "--tags", "management"]);
    say(&["permissions", "set", "bo", "", "", "^q$"]);
    fill(&server, "q", 0..5);
    fill(&server, "kept", 0..0);
    let bo = "Authorization: Basic Ym86cHc=\r\nContent-Type: application/json\r\n";
    let here = json!({
        "src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "kept", "reconnect-delay": 1,
    });
    assert_eq!(put(&server, "s", bo, &here).0, 401, "it takes the tag policymaker");
    say(&["users", "set-tags", "bo", "policymaker"]);
    assert_eq!(put(&server, "s", bo, &here).0, 201);
    let reason = |name: &str| state(&server, name)["reason"].as_str().unwrap_or_default().to_owned();
    until("it is refused", || reason("s").contains("ACCESS_REFUSED"));
    say(&["permissions", "set", "bo", "^kept$", "", "^(q|kept)$"]);
    until("it still may not publish", || reason("s").contains("amq.default"));
    say(&["permissions", "set", "bo", "", "amq.default", "^(q|kept)$"]);
    until("it moves", || depth(&server, "kept") == 5);
    // Being local is a credential, which it must not get by the network.
    let mut around = here.clone();
    around["src-uri"] = json!(format!("amqp://guest:guest@localhost:{}", server.ports.amqp));
    assert_eq!(put(&server, "around", bo, &around).0, 201);
    until("it is not connected", || reason("around").contains("not an address that this user's shovels"));
    around["src-uri"] = json!("amqps://h?cacertfile=/etc/passwd");
    let (status, refused) = put(&server, "around", bo, &around);
    assert!(status == 400 && refused.contains("only users with the tag"), "{refused}");
    // A user that is gone takes its shovels' rights along.
    say(&["users", "delete", "bo"]);
    fill(&server, "q", 5..6);
    until("it has stopped", || reason("s").contains("'bo' is not a user") || reason("s").contains("refused"));
    assert_eq!((depth(&server, "q"), depth(&server, "kept")), (1, 5));
}

#[test]
fn passwords_are_in_exports_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let away = json!({
        "src-uri": "amqp://u:hidden@192.0.2.1", "src-queue": "q", "dest-uri": ["amqp://u:hidden@192.0.2.1/v"], "dest-queue": "q",
    });
    assert_eq!(put(&server, "away", GUEST, &away).0, 201);
    let (_, listed, _) = run(&mut hermod("shovels", dir.path()));
    let paths = ["/api/parameters", "/api/parameters/shovel/%2F/away", "/api/shovels", "/hermod/v1/audit"];
    let mut shown: Vec<String> = paths.iter().map(|path| server.ask("GET", path, GUEST).1).collect();
    shown.push(listed);
    shown.push(put(&server, "away", GUEST, &json!({"src-uri": "amqp://u:hidden@h?x=1"})).1);
    assert!(shown[0].contains("amqp://192.0.2.1:5672"), "{shown:?}");
    for text in &shown {
        assert!(!text.contains("hidden"), "{text}");
    }
    let document = json(&server, "/api/definitions", GUEST);
    assert_eq!(document["parameters"][0]["value"], away);
    let other_dir = tempfile::tempdir().unwrap();
    let other = Server::start(other_dir.path(), &[]);
    let mut strange = document.clone();
    strange["parameters"][0]["value"]["color"] = json!("red");
    let reply = other.send("POST", "/api/definitions", GUEST, &strange.to_string());
    assert!(reply.status == 400 && reply.body.contains("color is not a field"), "{}", reply.body);
    assert_eq!(other.send("POST", "/api/definitions", GUEST, &document.to_string()).status, 204);
    assert_eq!(json(&other, "/api/definitions", GUEST)["parameters"], document["parameters"]);
    for server in [server, other] {
        server.signal("TERM");
        let (code, log) = server.wait();
        assert!(code == Some(0) && !log.iter().any(|line| line.contains("hidden")), "{log:?}");
    }
}

#[test]
fn a_migration_brings_queues_with_their_messages_and_ends_with_none_left() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [from, to] = [Server::start(dirs[0].path(), &[]), Server::start(dirs[1].path(), &[])];
    for queue in ["one", "two"] {
        fill(&from, queue, 0..50);
    }
    let origin = [format!("amqp://127.0.0.1:{}", from.ports.amqp), format!("http://127.0.0.1:{}", from.ports.http)];
    let migrate = |arguments: &[&str]| {
        let mut command = hermod("migrate", dirs[1].path());
        command.args(arguments);
        if ["plan", "start"].contains(&arguments[0]) {
            command.args(["--from", &origin[0], "--api", &origin[1]]);
        }
        let (code, out, error) = run(&mut command);
        (code, out + &error)
    };
    let (code, said) = migrate(&["plan"]);
    assert!(code == 0 && said.contains("2 queues with 100 messages would be moved; nothing has changed"), "{said}");
    assert!(json(&to, "/api/queues", GUEST) == json!([]) && json(&to, "/api/shovels", GUEST) == json!([]));
    let (code, said) = migrate(&["cut-over"]);
    assert!(code != 0 && said.contains("no migration runs here"), "{said}");
    // Started twice, as one that was interrupted is.
    for _ in 0..2 {
        let (code, said) = migrate(&["start"]);
        assert!(code == 0 && said.contains("are being moved"), "{said}");
    }
    until("all have come", || depth(&to, "one") == 50 && depth(&to, "two") == 50);
    fill(&from, "one", 50..60);
    let (code, said) = migrate(&["cut-over", "--timeout", "60"]);
    assert!(code == 0 && said.contains("2 queues are empty there"), "{said}");
    assert_eq!(json(&to, "/api/shovels", GUEST), json!([]));
    assert_eq!((depth(&from, "one"), depth(&from, "two")), (0, 0));
    assert_eq!(numbers(&to, "one", 60), (0..60).collect::<Vec<_>>());
    assert_eq!(numbers(&to, "two", 50), (0..50).collect::<Vec<_>>());
}
