//! Listeners of `[[listeners]]`: behind proxies, with certificates by name, for metrics alone, and
//! below a path.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use testkit::certificates::Issuer;

use crate::api::{GUEST, json};
use crate::server::{HANG, Server, free_port, hermod, run, serve};
use crate::tls::{BOTH, STOMP, ask, close, connect_to};

fn start(folder: &Path, listeners: &str, flags: &[&str]) -> Server {
    let file = folder.join("h.toml");
    std::fs::write(&file, listeners).unwrap();
    Server::start(&folder.join("data"), &[&["--config", file.to_str().unwrap()], flags].concat())
}

fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    socket
}

/// What comes after this was sent, to the end.
fn exchange(port: u16, sent: &str) -> String {
    let mut socket = connect(port);
    let _ = socket.write_all(sent.as_bytes());
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(port: u16, path: &str, headers: &str) -> String {
    exchange(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"))
}

fn first(socket: &mut TcpStream, count: usize) -> String {
    let mut answer = vec![0; count];
    socket.read_exact(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn behind_a_proxy_the_client_is_the_one_in_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let (stomp, http) = (free_port(), free_port());
    let listeners = format!(
        "[[listeners]]\nname = 'proxied'\nprotocols = 'stomp'\nport = {stomp}\nproxy_protocol = '127.0.0.0/8'\n\
         [[listeners]]\nname = 'web'\nprotocols = 'http'\nport = {http}\nproxy_protocol = ['127.0.0.1', '10.0.0.0/8']\n"
    );
    let server = start(folder.path(), &listeners, &[]);
    let command = |arguments: &[&str]| {
        let done = run(hermod(arguments[0], &folder.path().join("data")).args(&arguments[1..]));
        assert_eq!(done.0, 0, "{arguments:?} {done:?}");
    };
    command(&["users", "add", "app", "--password", "pw"]);
    command(&["permissions", "set", "app", ".*", ".*", ".*"]);
    let there = "PROXY TCP4 10.9.8.7 10.0.0.1 4242 61613\r\n";
    let connect_frame = |user: &str, password: &str| {
        format!("CONNECT\naccept-version:1.2\nhost:/\nlogin:{user}\npasscode:{password}\n\n\0")
    };
    let mut client = connect(stomp);
    client.write_all(format!("{there}{}", connect_frame("app", "pw")).as_bytes()).unwrap();
    assert_eq!(first(&mut client, 9), "CONNECTED");
    let rows = json(&server, "/api/connections", GUEST);
    assert_eq!((&rows[0]["peer_host"], &rows[0]["peer_port"]), (&json!("10.9.8.7"), &json!(4242)), "{rows}");
    // The rule of loopback users is about the client, not about its proxy.
    let refused = exchange(stomp, &format!("{there}{}", connect_frame("guest", "guest")));
    assert!(refused.starts_with("ERROR"), "{refused}");
    let line = server.until_logged("login refused");
    assert!(line.contains("10.9.8.7"), "{line}");
    let line = format!("PROXY TCP4 127.0.0.1 127.0.0.1 4242 61613\r\n{}", connect_frame("guest", "guest"));
    let mut local = connect(stomp);
    local.write_all(line.as_bytes()).unwrap();
    assert_eq!(first(&mut local, 9), "CONNECTED");
    // Without a header nothing is served, by no protocol.
    assert_eq!(exchange(stomp, &connect_frame("app", "pw")), "");
    let line = server.until_logged("connection refused");
    assert!(line.contains("does not begin with a header of the PROXY protocol"), "{line}");
    let refused = |count: u64| {
        let (status, metrics) = server.get("/metrics");
        let expected = format!("hermod_connections_refused_total{{reason=\"proxy_protocol\"}} {count}\n");
        assert!(status == 200 && metrics.contains(&expected), "{count}");
    };
    refused(1);
    assert_eq!(get(http, "/health/live", ""), "");
    refused(2);
    // HTTP sees the same client.
    let asked = |header: &str, authorization: &str| {
        let head = format!("GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{authorization}\r\n");
        exchange(http, &format!("{header}{head}"))
    };
    assert!(asked("PROXY UNKNOWN\r\n", GUEST).starts_with("HTTP/1.1 200"));
    assert!(asked(there, GUEST).starts_with("HTTP/1.1 401"), "guest is not here");
}

#[test]
fn a_listener_serves_what_it_says_and_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let [metrics, web, stomp] = [(); 3].map(|()| free_port());
    let listeners = format!(
        "[[listeners]]\nname = 'watch'\nprotocols = 'metrics'\nport = {metrics}\n\
         [[listeners]]\nname = 'console'\nprotocols = 'http'\nport = {web}\npath_prefix = '/mq'\n\
         [[listeners]]\nname = 'few'\nprotocols = 'stomp'\nport = {stomp}\nmax_connections = 1\n"
    );
    let server = start(folder.path(), &listeners, &[]);
    let status = |answer: &str| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    for (port, path, expected) in [
        (metrics, "/metrics", "200"),
        (metrics, "/health/ready", "200"),
        (metrics, "/api/overview", "404"),
        (metrics, "/login", "404"),
        (web, "/mq/health/live", "200"),
        (web, "/mq/api/overview", "200"),
        (web, "/api/overview", "404"),
        (web, "/mqx/api/overview", "404"),
        (metrics, "/docs/", "404"),
        (web, "/mq/docs/", "200"),
    ] {
        let answer = get(port, path, GUEST);
        assert_eq!(status(&answer), expected, "{path}: {answer}");
    }
    // A packed page of the manual comes as it is.
    let mut packed = connect(web);
    let ask = "GET /mq/docs/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n";
    packed.write_all(ask.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    packed.read_to_end(&mut bytes).unwrap();
    let body = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(bytes[body..body + 2], [0x1f, 0x8b], "no gzip: {}", String::from_utf8_lossy(&bytes[..body]));
    let page = get(web, "/mq/login", "");
    let paths = [" href=\"/mq/", " src=\"/mq/", " action=\"/mq/login\""];
    assert!(paths.iter().all(|path| page.contains(path)) && !page.contains(" href=\"/api"), "{page}");
    let style = page.split("href=\"").find(|rest| rest.contains(".css")).unwrap().split('"').next().unwrap();
    assert_eq!(status(&get(web, style, "")), "200", "{style}");
    assert!(get(web, "/mq/", "").contains("location: /mq/login"), "{}", get(web, "/mq/", ""));

    let one = connect(stomp);
    let line = server.start.iter().find(|line| line.contains("listening for stomp") && line.contains("at most 1 conn"));
    assert!(line.is_some(), "{:?}", server.start);
    let mut more = connect(stomp);
    assert_eq!(more.read(&mut [0; 1]).unwrap_or(0), 0);
    assert!(server.until_logged("connection refused").contains("max_connections"));
    drop(one);

    let overview = json(&server, "/api/overview", GUEST);
    let rows = overview["listeners"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["hermod"]["name"] == name).unwrap_or(&Value::Null);
    assert_eq!((&row("watch")["port"], &row("watch")["protocol"]), (&json!(metrics), &json!("metrics")));
    assert_eq!(row("console")["hermod"]["terms"], json!(["below /mq"]));
    assert_eq!(row("ports.amqp")["port"], json!(server.ports.amqp));
    let (_, shown, _) = run(&mut hermod("status", &folder.path().join("data")));
    assert!(shown.contains(&format!("metrics 127.0.0.1:{metrics}")), "{shown}");
    // A change waits for the next start, and is told.
    std::fs::write(folder.path().join("h.toml"), listeners.replace("'/mq'", "'/other'")).unwrap();
    server.signal("HUP");
    server.until_logged("[[listeners]] are other ones from the next start on");
}

#[test]
fn a_client_gets_the_certificate_of_the_name_that_it_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    close(folder.path());
    let issuer = Issuer::new("tests");
    for name in ["shop.example", "mq.example"] {
        let issued = issuer.server_named(name);
        std::fs::write(folder.path().join(name), format!("{}{}", issued.certificate, issued.key)).unwrap();
    }
    let port = free_port();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let listeners = format!(
        "[[listeners]]\nname = 'named'\nprotocols = 'stomp'\nport = {port}\ncertificates = ['{}', '{}']\n",
        file("shop.example"),
        file("mq.example")
    );
    let server = start(folder.path(), &listeners, &[]);
    assert!(server.start.iter().any(|line| line.contains("listening for stomps") && line.contains("(TLS)")));
    for name in ["shop.example", "mq.example"] {
        let mut socket = connect_to(name, &issuer, port, &BOTH);
        assert_eq!(ask(&mut socket, STOMP, 9).unwrap(), b"CONNECTED", "{name}");
    }
    // Another name gets the first, which the client refuses.
    let mut socket = connect_to("other.example", &issuer, port, &BOTH);
    assert!(ask(&mut socket, STOMP, 9).is_err());
    // New files are taken at SIGHUP, those of others included.
    let other = Issuer::new("others");
    let issued = other.server_named("mq.example");
    std::fs::write(file("mq.example"), format!("{}{}", issued.certificate, issued.key)).unwrap();
    server.signal("HUP");
    server.until_logged("the TLS certificate was read again");
    let mut socket = connect_to("mq.example", &other, port, &BOTH);
    assert_eq!(ask(&mut socket, STOMP, 9).unwrap(), b"CONNECTED");
}

#[test]
fn what_cannot_be_opened_is_named_with_its_listener() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let file = folder.path().join("h.toml");
    std::fs::write(&file, format!("[[listeners]]\nname = 'own'\nprotocols = 'amqp'\nport = {port}\n")).unwrap();
    let mut command = serve(&folder.path().join("data"), crate::server::Ports::free());
    let (code, _, told) = run(command.arg("--config").arg(&file));
    assert_eq!(code, 71, "{told}");
    assert!(told.contains(&format!("{}:2: own: port {port} is in use", file.display())), "{told}");
}
