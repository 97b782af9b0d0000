//! What needs no directory. A real one is asked by `interop/ldap`.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, TcpListener};

use super::*;

fn directory(server: String) -> Directory {
    Directory {
        servers: vec![server],
        start_tls: StartTls::No,
        ca: None,
        timeout: Duration::from_millis(300),
        entry: Entry::Named(Template::of_name("uid=${username},o=x").unwrap()),
        account: None,
        groups: None,
        keep_rights: Duration::ZERO,
        refresh: None,
    }
}

fn ask(directory: Directory, user: &str, secret: &[u8]) -> No {
    let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Ldap::new(directory, None).unwrap().ask(Credentials { user, secret, from }).unwrap_err()
}

#[test]
fn passwords_are_sent_where_no_one_can_read_them() {
    for (url, start_tls, expected) in [
        ("ldaps://ldap.example:636", StartTls::No, ""),
        ("ldaps://ldap.example", StartTls::No, ""),
        ("ldap://ldap.example", StartTls::Yes, ""),
        ("ldap://127.0.0.1:389", StartTls::No, ""),
        ("ldap://[::1]/", StartTls::No, ""),
        ("ldap://ldap.example", StartTls::No, "could be read"),
        ("ldap://localhost.example", StartTls::No, "could be read"),
        ("ldaps://ldap.example", StartTls::Yes, "begins with TLS already"),
        ("ldapi:///", StartTls::No, "no server"),
        ("https://ldap.example", StartTls::No, "no server"),
        ("ldaps://a:b@ldap.example", StartTls::No, "no server"),
        ("ldaps://ldap.example/o=x", StartTls::No, "no server"),
        ("ldap.example", StartTls::No, "no server"),
    ] {
        let said = check_server(url, start_tls).err().unwrap_or_default();
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{url}: {said}");
    }
}

#[test]
fn an_empty_password_reaches_no_directory() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = format!("ldap://{}", listener.local_addr().unwrap());
    let ldap = Ldap::new(directory(server.clone()), None).unwrap();
    assert_eq!([&b""[..], b"a\0b", b"\xff", b"x"].map(|secret| ldap.takes(secret)), [false, false, false, true]);
    for (user, secret) in [("ada", &b""[..]), ("", b"x"), (" ", b"x"), (&"a".repeat(256), b"x"), ("ada", b"\xff")] {
        assert!(matches!(ask(directory(server.clone()), user, secret), No::Refused(_)), "{user}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_directory_that_does_not_answer_lets_no_one_in() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = format!("ldap://{}", silent.local_addr().unwrap());
    let said = ask(directory(server), "ada", b"x");
    assert_eq!(said, No::Unavailable("the directory takes longer than 300ms (auth_ldap.timeout)".to_owned()));
}

#[test]
fn a_directory_that_closes_or_speaks_nonsense_is_none() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = format!("ldap://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for answer in [&b""[..], b"HTTP/1.1 200 OK\r\n\r\n"] {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 512]);
            let _ = std::io::Write::write_all(&mut socket, answer);
        }
    });
    for _ in 0..2 {
        let said = ask(directory(server.clone()), "ada", b"x");
        assert!(matches!(&said, No::Unavailable(_)), "{said:?}");
    }
}

#[test]
fn spellings_that_a_directory_takes_for_the_same_are_the_same() {
    for user in ["ada l", " Ada  L ", "ADA\tL"] {
        assert_eq!(folded(user), "ada l");
    }
}

#[test]
fn groups_give_scopes_until_the_rights_end() {
    let ldap = Ldap::new(Directory { keep_rights: Duration::from_hours(1), ..directory("ldap://[::1]".into()) }, None)
        .unwrap();
    let words = ["tag:administrator", "read:*/*"].map(str::to_owned).into();
    let grant = ldap.grant("ada", &words).unwrap();
    assert!(grant.expires.is_some() && grant.tags == auth::Tags::new(["administrator"]));
    let many = (0..=auth::MOST_SCOPES).map(|number| format!("read:v/{number}")).collect();
    assert!(matches!(ldap.grant("ada", &many), Err(No::Refused(why)) if why.contains("2049 scopes")));
    assert_eq!(Ldap::new(directory("ldap://[::1]".into()), None).unwrap().grant("ada", &words).unwrap().expires, None);
}
