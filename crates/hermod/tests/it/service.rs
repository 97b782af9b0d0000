//! A web service that decides about each operation: what it is asked over which protocol, how long
//! its answers count, and which users wait when it hangs. The service is the test.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use amqp091::codec::methods::{
    BasicConsume, ChannelCloseOk, ChannelOpen, ConnectionOpen, ConnectionTuneOk, ExchangeDeclare, QueueBind,
    QueueDeclare, QueueDelete,
};
use amqp091::codec::table::encode_fields;
use amqp091::codec::{Table, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use crate::api::GUEST;
use crate::attacks::Amqp;
use crate::server::{HANG, Server, until};
use crate::stomp::Stomp;

/// What the service does, and what it was asked.
#[derive(Default)]
struct State {
    asked: Mutex<Vec<String>>,
    denied: Mutex<HashSet<&'static str>>,
    /// Questions with `slow` in them wait while this is false.
    open: Mutex<bool>,
    opened: Condvar,
}

impl State {
    /// Lets in who says its own name in its password. Allows what begins with `own`, and the
    /// predeclared exchanges.
    fn answer(&self, path: &str, parameters: &[(String, String)]) -> &'static str {
        let value = |wanted: &str| {
            let found = parameters.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        let shown = parameters.iter().filter(|(name, _)| name != "password");
        let shown: Vec<_> = shown.map(|(name, value)| format!("{name}={value}")).collect();
        self.asked.lock().unwrap().push(format!("{path} {}", shown.join(" ")));
        if value("name").contains("slow") {
            drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
        }
        let denied = |text: &str| self.denied.lock().unwrap().contains(text);
        let may = |name: &str| (name.starts_with("own") || name.starts_with("amq.")) && !denied(name);
        let allows = match path {
            "/user" if value("username").starts_with("admin") => return "allow administrator",
            "/user" => value("password") == format!("of {}", value("username")),
            "/vhost" => value("vhost") == "/" && !denied("/"),
            "/resource" => may(value("name")),
            "/topic" => may(value("routing_key")),
            other => unreachable!("{other}"),
        };
        if allows { "allow" } else { "deny not yours" }
    }

    fn serve(&self, socket: TcpStream) {
        let mut reader = BufReader::new(socket.try_clone().unwrap());
        let mut socket = socket;
        loop {
            let (mut first, mut length) = (String::new(), 0);
            if reader.read_line(&mut first).unwrap_or(0) == 0 {
                return;
            }
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let Some((name, value)) = line.trim_end().split_once(':') else { break };
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let target = first.split(' ').nth(1).unwrap();
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let body = String::from_utf8(body).unwrap();
            let answer = self.answer(path, &form(if query.is_empty() { &body } else { query }));
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
            if socket.write_all(head.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// The parameters of a form.
fn form(text: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| {
        let (mut bytes, mut out) = (text.bytes(), Vec::new());
        while let Some(byte) = bytes.next() {
            out.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                    u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                byte => byte,
            });
        }
        String::from_utf8(out).unwrap()
    };
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

struct Service {
    port: u16,
    state: Arc<State>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (port, state) = (listener.local_addr().unwrap().port(), Arc::new(State::default()));
        let serving = Arc::clone(&state);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let state = Arc::clone(&serving);
                std::thread::spawn(move || state.serve(socket.unwrap()));
            }
        });
        Self { port, state }
    }

    /// A server that asks it, and users of its own besides.
    fn server(&self, flags: &[&str]) -> (Server, TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["user", "vhost", "resource", "topic"]
            .map(|path| format!("--auth-http-{path}-path=http://127.0.0.1:{}/{path}", self.port));
        let mut all: Vec<_> = paths.iter().map(String::as_str).collect();
        all.push("--auth-backends=http,internal");
        all.extend(flags);
        let server = Server::start(&dir.path().join("data"), &all);
        (server, dir)
    }

    /// How often it was asked something with these words in it.
    fn count(&self, words: &[&str]) -> usize {
        let asked = self.state.asked.lock().unwrap();
        asked.iter().filter(|asked| words.iter().all(|word| asked.contains(word))).count()
    }

    fn open(&self) {
        *self.state.open.lock().unwrap() = true;
        self.state.opened.notify_all();
    }

    fn deny(&self, name: &'static str) {
        self.state.denied.lock().unwrap().insert(name);
    }
}

fn open(server: &Server, user: &str, password: &str) -> Amqp {
    let mut client = entering(server, user, password, "/");
    client.expect("ConnectionOpenOk");
    client.send(1, ChannelOpen::default());
    client.expect("ChannelOpenOk");
    client
}

/// A client that has logged in, and asks to enter a vhost.
fn entering(server: &Server, user: &str, password: &str, virtual_host: &'static str) -> Amqp {
    let mut client = Amqp::started(server.ports.amqp);
    client.start_ok("PLAIN", format!("\0{user}\0{password}").as_bytes());
    client.expect("ConnectionTune");
    client.send(0, ConnectionTuneOk { channel_max: 10, frame_max: 131_072, heartbeat: 0 });
    client.send(0, ConnectionOpen { virtual_host, ..Default::default() });
    client
}

fn declare(client: &mut Amqp, queue: &'static str) -> String {
    client.send(1, QueueDeclare { queue, durable: true, ..Default::default() });
    client.method()
}

#[test]
fn a_service_decides_about_vhost_resource_and_routing_key() {
    let service = Service::start();
    let (server, _dir) = service.server(&[]);
    let mut client = open(&server, "ada", "of ada");
    assert_eq!(service.count(&["/vhost username=ada vhost=/ ip=127.0.0.1 tags="]), 1);
    assert!(declare(&mut client, "own.1").starts_with("QueueDeclareOk"));
    assert_eq!(
        service.count(&["/resource username=ada vhost=/ resource=queue name=own.1 permission=configure tags="]),
        1
    );
    for (routing_key, expected) in [("own.key", "QueueBindOk"), ("their.key", "ChannelClose { reply_code: 403")] {
        client.send(1, QueueBind { queue: "own.1", exchange: "amq.topic", routing_key, ..Default::default() });
        client.expect(expected);
    }
    let asked = "/topic username=ada vhost=/ resource=topic name=amq.topic permission=read routing_key=own.key \
                 variable_map.username=ada variable_map.vhost=/ tags=";
    assert_eq!(service.count(&[asked]), 1);
    let mut client = open(&server, "ada", "of ada");
    let refused = declare(&mut client, "theirs");
    assert!(refused.contains("403") && refused.contains("refused for user 'ada'"), "{refused}");
    entering(&server, "ada", "of ada", "other").expect("ConnectionClose { reply_code: 530");
    // Over STOMP: what is published counts, too.
    let mut stomp = Stomp::connect_with(server.ports.stomp, "bob", "of bob");
    assert!(stomp.frame().starts_with("CONNECTED\n"));
    stomp.send("SEND\ndestination:/exchange/amq.topic/own.key\nreceipt:1\n\nhello");
    assert!(stomp.frame().starts_with("RECEIPT\n"));
    assert_eq!(service.count(&["/topic username=bob", "permission=write routing_key=own.key"]), 1);
    stomp.send("SEND\ndestination:/exchange/amq.topic/theirs\nreceipt:2\n\nhello");
    let error = stomp.frame();
    assert!(error.starts_with("ERROR\n") && error.contains("refused for user 'bob'"), "{error}");
    let mut stranger = Stomp::connect_with(server.ports.stomp, "bob", "guessed");
    assert!(stranger.frame().starts_with("ERROR\n"));
    // The users of this broker are asked nothing about.
    let mut guest = open(&server, "guest", "guest");
    assert!(declare(&mut guest, "theirs").starts_with("QueueDeclareOk"));
    assert_eq!(service.count(&["/resource", "username=guest"]), 0);
}

/// What a declaration needs beside its own name is decided under a lock, where nothing may wait.
#[test]
fn dead_letters_and_alternates_need_the_rights_that_the_service_gives() {
    let service = Service::start();
    let (server, _dir) = service.server(&[]);
    for (exchange, expected) in [("own.dead", "QueueDeclareOk"), ("their.dead", "ChannelClose { reply_code: 403")] {
        let mut client = open(&server, "ada", "of ada");
        let fields = encode_fields(&[("x-dead-letter-exchange".to_owned(), Value::Str(exchange.as_bytes().to_vec()))]);
        let arguments = Table::new(&fields).unwrap();
        client.send(1, QueueDeclare { queue: "own.q", durable: true, arguments, ..Default::default() });
        client.expect(expected);
        if expected == "QueueDeclareOk" {
            let mut guest = open(&server, "guest", "guest");
            guest.send(1, QueueDelete { queue: "own.q", ..Default::default() });
            guest.expect("QueueDeleteOk");
        }
        let fields = encode_fields(&[("alternate-exchange".to_owned(), Value::Str(exchange.as_bytes().to_vec()))]);
        let (mut client, arguments) = (open(&server, "ada", "of ada"), Table::new(&fields).unwrap());
        let exchange = if expected == "QueueDeclareOk" { "own.x" } else { "own.y" };
        client.send(1, ExchangeDeclare { exchange, kind: "fanout", arguments, ..Default::default() });
        client.expect(&expected.replace("Queue", "Exchange"));
    }
}

#[test]
fn an_answer_counts_for_a_time_and_not_for_longer() {
    let service = Service::start();
    let (server, _dir) = service.server(&["--auth-cache-ttl=2s"]);
    let mut stomp = Stomp::connect_with(server.ports.stomp, "ada", "of ada");
    assert!(stomp.frame().starts_with("CONNECTED\n"));
    let mut publish = || {
        stomp.send("SEND\ndestination:/exchange/amq.direct/key\nreceipt:1\n\nhello");
        stomp.frame()
    };
    (0..100).for_each(|_| assert!(publish().starts_with("RECEIPT\n")));
    let asked = service.count(&["/resource", "name=amq.direct"]);
    assert!(asked <= 3, "{asked} questions about 100 messages");
    service.deny("amq.direct");
    let mut last = String::new();
    until("it is refused", || {
        last = publish();
        !last.starts_with("RECEIPT\n")
    });
    assert!(last.contains("write access to exchange 'amq.direct' in vhost '/' refused"), "{last}");
}

/// Declares a queue over HTTP, from any thread.
fn put(port: u16, path: &str, headers: &str) -> String {
    let (mut socket, document) = (TcpStream::connect(("127.0.0.1", port)).unwrap(), "{\"durable\":true}");
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}");
    socket.write_all(format!("{head}Content-Length: {}\r\n\r\n{document}", document.len()).as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// With more questions under way than there are threads for them.
#[test]
fn a_service_that_hangs_holds_up_its_own_users_alone() {
    let service = Service::start();
    let (server, _dir) = service.server(&["--auth-threads=2", "--auth-http-timeout=25s"]);
    let mut held: Vec<_> = (0..6).map(|_| open(&server, "ada", "of ada")).collect();
    for client in &mut held {
        client.send(1, QueueDeclare { queue: "own.slow", durable: true, ..Default::default() });
    }
    until("it hangs", || service.count(&["name=own.slow"]) == 2);
    let admin = format!("Authorization: Basic {}\r\n", STANDARD.encode("admin:x"));
    std::thread::scope(|scope| {
        // Over HTTP they hang, too.
        let held: Vec<_> = (0..4)
            .map(|_| {
                let (admin, port) = (admin.clone(), server.ports.http);
                scope.spawn(move || put(port, "/api/queues/%2F/own.slow", &admin))
            })
            .collect();
        // As long as they do, all others go on: over AMQP, over STOMP, and over HTTP.
        let mut guest = open(&server, "guest", "guest");
        for _ in 0..50 {
            assert!(declare(&mut guest, "q").starts_with("QueueDeclareOk"));
        }
        Stomp::connect(&server).publish("q", "hello");
        assert_eq!(server.send("PUT", "/api/queues/%2F/r", GUEST, "{\"durable\":true}").status, 201);
        assert_eq!(server.ask("GET", "/api/queues", GUEST).0, 200);
        assert_eq!(service.count(&["username=ada", "name=own.slow"]), 2, "the others wait");
        service.open();
        let statuses: Vec<_> = held.into_iter().map(|held| held.join().unwrap()).collect();
        let are_put = |answer: &String| answer.starts_with("HTTP/1.1 201") || answer.starts_with("HTTP/1.1 204");
        assert!(statuses.iter().all(are_put), "{statuses:?}");
    });
    for client in &mut held {
        client.expect("QueueDeclareOk");
    }
    // An answer for one connection of a user counts for all.
    assert!(service.count(&["username=ada", "name=own.slow"]) <= 3);
}

#[test]
fn a_service_that_is_away_allows_nothing_and_says_so() {
    let service = Service::start();
    let (server, _dir) = service.server(&["--auth-http-timeout=200ms"]);
    let mut client = open(&server, "ada", "of ada");
    assert!(declare(&mut client, "own.1").starts_with("QueueDeclareOk"));
    let begun = Instant::now();
    client.send(1, QueueDeclare { queue: "own.slow", ..Default::default() });
    client.expect("ChannelClose { reply_code: 403");
    assert!(begun.elapsed() < HANG / 2, "it waits for {:?}", begun.elapsed());
    let line = server.until_logged("rights can't be asked for");
    assert!(line.contains("/resource") && line.contains("auth_http.timeout"), "{line}");
    // Who was let in before goes on with what it knows.
    client.send(1, ChannelCloseOk {});
    client.send(1, ChannelOpen::default());
    client.expect("ChannelOpenOk");
    client.send(1, BasicConsume { queue: "own.1", ..Default::default() });
    client.expect("ChannelClose { reply_code: 403");
    service.open();
    std::thread::sleep(Duration::from_millis(1100));
    let mut client = open(&server, "ada", "of ada");
    client.send(1, BasicConsume { queue: "own.1", ..Default::default() });
    client.expect("BasicConsumeOk");
}

/// The tags that the service gives let a user into the HTTP API, where it has the same rights.
#[test]
fn over_http_the_service_decides_as_well() {
    let service = Service::start();
    let (server, _dir) = service.server(&[]);
    let admin = format!("Authorization: Basic {}\r\n", STANDARD.encode("admin:x"));
    let put = |path: &str| server.send("PUT", path, &admin, "{\"durable\":true}").status;
    assert_eq!((put("/api/queues/%2F/own.q"), put("/api/queues/%2F/theirs")), (201, 401));
    assert_eq!(service.count(&["/resource username=admin", "name=theirs", "tags=administrator"]), 1);
    let (status, queues) = server.ask("GET", "/api/queues", &admin);
    assert!(status == 200 && queues.contains("own.q"), "{queues}");
    let plain = format!("Authorization: Basic {}\r\n", STANDARD.encode("ada:of ada"));
    assert_eq!(server.ask("GET", "/api/queues", &plain).0, 401, "without a tag");
    let mut client = open(&server, "ada", "of ada");
    assert!(declare(&mut client, "own.q").starts_with("QueueDeclareOk"));
    let explained = server.ask("GET", "/api/explain/access?user=ada&vhost=%2F&kind=queue&name=theirs", GUEST);
    assert!(explained.1.contains("the web service that the user comes from denies it"), "{explained:?}");
}
