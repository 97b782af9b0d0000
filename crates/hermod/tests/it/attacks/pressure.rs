//! How much memory HTTP takes while its clients are many, slow, or strangers.

use super::*;
use crate::api::GUEST;

/// Queues with long names and arguments: a list of them is larger than the buffers of the kernel.
const QUEUES: usize = 8000;

fn with_queues(server: &Server) {
    let queue = |number: usize| {
        format!(
            r#"{{"name":"{0}{number}","vhost":"/","durable":false,"auto_delete":false,
                "arguments":{{"x-dead-letter-exchange":"{0}","x-dead-letter-routing-key":"{0}"}}}}"#,
            "q".repeat(200)
        )
    };
    let queues: Vec<_> = (0..QUEUES).map(queue).collect();
    let document = format!(r#"{{"queues":[{}]}}"#, queues.join(","));
    let headers = format!("{GUEST}Content-Type: application/json\r\n");
    let reply = server.send("POST", "/api/definitions", &headers, &document);
    assert_eq!(reply.status, 204, "{}", reply.body);
}

/// Connections that have sent this request and read only the first bytes of the answer, which are
/// returned.
fn askers(server: &Server, count: usize, path: &str) -> Vec<(TcpStream, String)> {
    let ask = |_| {
        let mut socket = socket(server.ports.http);
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{GUEST}\r\n");
        shove(&mut socket, request.as_bytes());
        socket
    };
    let mut asked: Vec<_> = (0..count).map(ask).collect();
    let first = |mut socket: TcpStream| {
        let mut status = [0; 12];
        socket.read_exact(&mut status).unwrap();
        (socket, String::from_utf8(status.to_vec()).unwrap())
    };
    asked.drain(..).map(first).collect()
}

#[test]
fn unread_answers_take_little_and_others_are_served_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--tcp-write-timeout=1h"]);
    with_queues(&server);
    let whole = server.ask("GET", "/api/queues", GUEST).1;
    assert!(whole.len() > 6 << 20 && whole.matches("\"name\":").count() == QUEUES);
    let before = resident(&server);
    // A list is made as it is read.
    let lists = askers(&server, 50, "/api/queues");
    assert!(lists.iter().all(|(_, status)| status == "HTTP/1.1 200"));
    for path in ["/health/live", "/health/ready", "/health/writable", "/metrics", "/api/health/checks/is-in-service"] {
        assert_eq!(server.get(path).0, 200, "{path}");
    }
    assert_eq!(server.ask("GET", "/api/whoami", GUEST).0, 200);
    drop(lists);
    // Of a sorted list the names are held, and it is refused beyond a user's share.
    let sorted = askers(&server, 50, "/api/queues?sort=name");
    let refused = sorted.iter().filter(|(_, status)| status == "HTTP/1.1 503").count();
    assert!(refused > 10 && refused < 50, "{refused} of 50 are told to come again, of {} bytes each", whole.len());
    assert_eq!(server.get("/health/live").0, 200);
    crate::server::until("they are counted", || counted(&server, "hermod_http_memory_bytes") > 16 << 20);
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 100 * 1024, "{grown} KiB for a hundred answers of {} bytes", whole.len());
    drop(sorted);
    crate::server::until("room again", || server.ask("GET", "/api/queues?sort=name", GUEST).0 == 200);
    let overview: serde_json::Value = serde_json::from_str(&server.ask("GET", "/api/overview", GUEST).1).unwrap();
    let kept = overview["hermod"]["memory_kept"].as_u64().unwrap();
    let declared = counted(&server, "hermod_declarations_memory_bytes");
    assert!(kept >= declared && kept < 64 << 20, "{kept} {declared}");
}

#[test]
fn buffers_of_strangers_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut strangers: Vec<_> = (0..20).map(|_| socket(server.ports.stomp)).collect();
    strangers.iter_mut().for_each(|socket| shove(socket, b"CONNECT\nlogin:guest\n"));
    let now = || counted(&server, "hermod_strangers_memory_bytes");
    crate::server::until("they are counted", || now() >= 20 * 512);
    drop(strangers);
    crate::server::until("they are gone", || now() == 0);
}

/// A figure among the metrics.
fn counted(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").1;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("{name} is missing in {text}"))
}

#[test]
fn an_answer_that_is_hardly_read_ends() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--tcp-write-timeout=1s"]);
    with_queues(&server);
    let files = open_files(&server);
    let mut held = askers(&server, 4, "/api/queues");
    // Reading a byte now and then does not keep a connection.
    crate::server::until("they are given up", || {
        held.iter_mut().for_each(|(socket, _)| drop(socket.read(&mut [0])));
        open_files(&server) <= files
    });
}

#[test]
fn strangers_are_held_to_small_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let port = crate::server::Ports::free().amqps.to_string();
    let server = Server::start(folder.path(), &["--ports-web-stomp", &port, "--limits-pending-per-address=2000"]);
    let port = port.parse().unwrap();
    let before = resident(&server);
    let upgrade = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n";
    // One mebibyte is announced, and 600 kB of it are sent.
    let message = [&[0x82, 0xFF, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0][..], &[b'x'; 600_000]].concat();
    let web: Vec<_> = (0..60)
        .map(|_| {
            let mut socket = socket(port);
            shove(&mut socket, upgrade);
            let mut answer = [0; 12];
            socket.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 101");
            shove(&mut socket, &message);
            socket
        })
        .collect();
    let connect = format!("CONNECT\nlogin:guest\n{}", format!("h:{}\n", "x".repeat(6000)).repeat(20));
    let mut stomp: Vec<_> = (0..60).map(|_| socket(server.ports.stomp)).collect();
    stomp.iter_mut().for_each(|socket| shove(socket, connect.as_bytes()));
    for socket in &mut stomp {
        assert!(last_words(socket).starts_with(b"ERROR\n"));
    }
    let mut http: Vec<_> = (0..60).map(|_| socket(server.ports.http)).collect();
    let request = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "y".repeat(100_000));
    http.iter_mut().for_each(|socket| shove(socket, request.as_bytes()));
    for socket in &mut http {
        let said = last_words(socket);
        assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 431"), "{}", said.escape_ascii());
    }
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 180 * 64 + 8 * 1024, "{grown} KiB for 180 strangers");
    drop(web);
}

#[test]
fn a_document_of_a_stranger_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut client = socket(server.ports.http);
    let head = "PUT /api/users/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n";
    shove(&mut client, head.as_bytes());
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401", "before a byte of it has come");
}
