//! A web service that answers, that is slow, that lies, and that is not there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use auth::{Actor, Resource, Right};

use super::*;

/// Reads a request: its first line and its body.
fn request(socket: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(socket);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
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
    (first.trim_end().to_owned(), String::from_utf8(body).unwrap())
}

/// A service that gives each of these answers to one request. What it was asked comes by the
/// channel.
fn serve(answers: Vec<String>) -> (Address, Receiver<(String, String)>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}/auth/user", listener.local_addr().unwrap());
    let (sender, asked) = channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = sender.send(request(&socket));
            let _ = socket.write_all(answer.as_bytes());
        }
    });
    (Address::parse(&address).unwrap(), asked)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn backend(address: Address, method: Method) -> Http {
    Http::new(address, method, None, Duration::from_millis(500)).unwrap()
}

fn ask(backend: &Http, user: &str, password: &str) -> Result<Vouched, No> {
    backend.ask(Credentials { user, secret: password.as_bytes(), from: Ipv4Addr::LOCALHOST.into() })
}

#[test]
fn name_and_password_are_parameters_of_either_method() {
    let (address, asked) = serve(vec![ok("allow"); 2]);
    let vouched = ask(&backend(address.clone(), Method::Get), "a b", "p&w=é").unwrap();
    assert_eq!((&*vouched.grant.user, vouched.grant.backend, vouched.grant.expires), ("a b", "http", None));
    let (line, body) = asked.recv().unwrap();
    assert!(line.starts_with("GET /auth/user?username=a%20b&password=p%26w%3D%C3%A9 ") && body.is_empty(), "{line}");
    ask(&backend(address, Method::Post), "a b", "p&w=é").unwrap();
    let (line, body) = asked.recv().unwrap();
    assert_eq!(line, "POST /auth/user HTTP/1.1");
    assert!(
        ["username=a+b&password=p%26w%3D%C3%A9", "username=a%20b&password=p%26w%3D%C3%A9"].contains(&&*body),
        "{body}"
    );
}

#[test]
fn only_allow_lets_in() {
    for (answer, expected) in [
        (ok("allow"), Ok(())),
        (ok("ALLOW administrator management"), Ok(())),
        (ok(" allow\r\n"), Ok(())),
        (ok("allow").replace("200 OK", "201 Created"), Ok(())),
        (ok("deny"), Err("the service denies it")),
        (ok("deny wrong password"), Err("the service denies it")),
        (ok("allowed"), Err("neither allow nor deny")),
        (ok("{\"result\": \"allow\"}"), Err("neither allow nor deny")),
        (ok(""), Err("neither allow nor deny")),
        (ok(&"allow ".repeat(4000)), Err("more than 16384 bytes")),
        ("HTTP/1.1 500 Oops\r\nContent-Length: 5\r\nConnection: close\r\n\r\nallow".to_owned(), Err("answered 500")),
        ("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_owned(), Err("answered 204")),
        (
            "HTTP/1.1 302 Found\r\nLocation: /allow\r\nContent-Length: 5\r\nConnection: close\r\n\r\nallow".to_owned(),
            Err("answered 302"),
        ),
        ("allow\r\n\r\n".to_owned(), Err("/auth/user: ")),
        (String::new(), Err("/auth/user: ")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nallow".to_owned(), Err("/auth/user: ")),
    ] {
        let (address, _asked) = serve(vec![answer.clone()]);
        expect_outcome(&ask(&backend(address, Method::Get), "u", "s3cret"), expected, &answer[..answer.len().min(80)]);
    }
}

fn expect_outcome(outcome: &Result<Vouched, No>, expected: Result<(), &str>, answer: &str) {
    match (outcome, expected) {
        (Ok(_), Ok(())) => {}
        (Err(No::Refused(why) | No::Unavailable(why)), Err(part)) => {
            assert!(why.contains(part) && !why.contains("s3cret"), "{answer}: {why}");
            let denied = matches!(outcome, Err(No::Refused(_)));
            assert_eq!(denied, part == "the service denies it", "{answer}: {why}");
        }
        (outcome, _) => unreachable!("{answer}: {outcome:?}"),
    }
}

#[test]
fn a_service_that_is_slow_or_away_lets_no_one_in_and_holds_up_for_a_bounded_time() {
    // One that accepts and says nothing, and one that goes on saying a little.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let dripping = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address =
        |listener: &TcpListener| Address::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let addresses = [address(&silent), address(&dripping), address(&gone)];
    drop(gone);
    thread::spawn(move || {
        let (mut socket, _) = dripping.accept().unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n";
        let drops = head.bytes().chain(std::iter::repeat(b'a'));
        for byte in drops.take(5000) {
            if socket.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    for (address, part) in addresses.into_iter().zip(["auth_http.timeout", "auth_http.timeout", "can't be"]) {
        let begun = Instant::now();
        let outcome = ask(&backend(address, Method::Post), "u", "s3cret");
        let Err(No::Unavailable(why)) = outcome else { panic!("{outcome:?}") };
        assert!(why.contains(part), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(20), "it hangs");
    }
    drop(silent);
}

#[test]
fn without_a_name_or_text_nothing_is_asked() {
    let (address, asked) = serve(Vec::new());
    let backend = backend(address, Method::Get);
    assert!(matches!(ask(&backend, "", "x"), Err(No::Refused(_))));
    assert!(!backend.takes(&[0xff]) && backend.takes("é".as_bytes()));
    assert!(asked.recv().is_err());
    assert!(!format!("{backend:?}").contains("agent"));
}

/// RabbitMQ's example of such a service is what users have: it must understand each question.
#[test]
fn rights_are_asked_with_rabbitmqs_parameters() {
    let tags = Tags::new(["management", "audit"]);
    let named = Actor::new("ada", Some("sensor/1"));
    let ask = |actor, about| Asked { actor, tags: &tags, from: Ipv4Addr::LOCALHOST.into(), vhost: "a b", about };
    let (queue, exchange) = (Resource::queue("q&1"), Resource::exchange(""));
    let topic = About::Topic { exchange: "amq.topic", key: "a.#", right: Right::Read };
    for (path, asked, expected) in [
        ("/vhost", ask(Actor::new("ada", None), About::Vhost), &["ip=127.0.0.1"][..]),
        (
            "/resource",
            ask(Actor::new("ada", None), About::Resource(queue, Right::Configure)),
            &["name=q&1", "permission=configure", "resource=queue"],
        ),
        (
            "/resource",
            ask(named, About::Resource(exchange, Right::Write)),
            &["client_id=sensor/1", "name=amq.default", "permission=write", "resource=exchange"],
        ),
        (
            "/topic",
            ask(named, topic),
            &[
                "client_id=sensor/1",
                "name=amq.topic",
                "permission=read",
                "resource=topic",
                "routing_key=a.#",
                "variable_map.client_id=sensor/1",
                "variable_map.username=ada",
                "variable_map.vhost=a b",
            ],
        ),
    ] {
        for method in [Method::Get, Method::Post] {
            for (answer, allowed) in [("allow", true), ("deny", false), ("Deny: not yours", false)] {
                let (users, seen) = serve(vec![ok(answer)]);
                let outcome = judge(&users, method).decide(&asked);
                let (line, body) = seen.recv().unwrap();
                let (target, query) = line
                    .split(' ')
                    .nth(1)
                    .unwrap()
                    .split_once('?')
                    .unwrap_or_else(|| (line.split(' ').nth(1).unwrap(), body.as_str()));
                assert_eq!(target, path);
                let mut wanted: Vec<_> = expected.iter().map(ToString::to_string).collect();
                wanted.extend(["tags=audit management", "username=ada", "vhost=a b"].map(str::to_owned));
                wanted.sort();
                assert_eq!(decoded(query), wanted, "{path} by {method:?}");
                match answer {
                    "Deny: not yours" => assert!(outcome.unwrap_err().contains("neither allow nor deny")),
                    _ => assert_eq!(outcome, Ok(allowed)),
                }
            }
        }
    }
}

/// A service with paths of its own for rights.
fn with_rights(users: &Address, method: Method) -> Http {
    let path = |path: &str| Address::parse(&users.as_str().replace("/auth/user", path)).unwrap();
    let paths = RightsPaths { vhost: path("/vhost"), resource: path("/resource"), topic: path("/topic") };
    backend(users.clone(), method).with_rights(paths)
}

fn judge(users: &Address, method: Method) -> Arc<dyn Judge> {
    with_rights(users, method).judge().unwrap()
}

/// The parameters, in order of their names.
fn decoded(query: &str) -> Vec<String> {
    let mut found = Vec::new();
    for pair in query.replace('+', "%20").split('&') {
        let mut bytes = Vec::new();
        let mut rest = pair.bytes();
        while let Some(byte) = rest.next() {
            let hex = |rest: &mut std::str::Bytes<'_>| char::from(rest.next().unwrap()).to_digit(16).unwrap() as u8;
            bytes.push(if byte == b'%' { hex(&mut rest) << 4 | hex(&mut rest) } else { byte });
        }
        found.push(String::from_utf8(bytes).unwrap());
    }
    found.sort();
    found
}

#[test]
fn tags_are_those_of_the_service_where_it_says_what_one_may_do() {
    let (users, _asked) = serve(vec![ok("allow administrator  audit"); 2]);
    assert_eq!(ask(&backend(users.clone(), Method::Get), "u", "p").unwrap().grant.tags, Tags::default());
    let tags = ask(&with_rights(&users, Method::Get), "u", "p").unwrap().grant.tags;
    assert_eq!(tags, Tags::new(["administrator", "audit"]));
    assert!(backend(users, Method::Get).judge().is_none());
}
