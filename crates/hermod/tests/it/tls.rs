//! The TLS listeners of the real program, their certificates, and what happens when these change.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use testkit::certificates::{Issued, Issuer};

use crate::server::{HANG, Ports, Server, run, serve};

pub(crate) type Client = StreamOwned<ClientConnection, TcpStream>;

/// Closes a folder to other users, so that keys in it are closed.
pub(crate) fn close(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
}

/// Writes the files and returns the flags that name them.
fn install(folder: &Path, issued: &Issued) -> Vec<String> {
    close(folder);
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, &issued.certificate).unwrap();
    std::fs::write(&key, &issued.key).unwrap();
    vec![format!("--tls-certificate={}", certificate.display()), format!("--tls-key={}", key.display())]
}

fn start(folder: &Path, issuer: &Issuer, more: &[&str]) -> Server {
    start_on(Ports::free(), folder, issuer, more)
}

fn start_on(ports: Ports, folder: &Path, issuer: &Issuer, more: &[&str]) -> Server {
    let mut flags = install(folder, &issuer.server());
    for (name, port) in [("amqps", ports.amqps), ("stomps", ports.stomps), ("https", ports.https)] {
        flags.push(format!("--ports-{name}={port}"));
    }
    flags.push("--ports-mqtts=0".to_owned());
    let flags: Vec<_> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Server::start_on(ports, &folder.join("data"), &flags)
}

fn connect(issuer: &Issuer, port: u16, versions: &[&'static SupportedProtocolVersion]) -> Client {
    connect_to("localhost", issuer, port, versions)
}

/// A client that asks for this name.
pub(crate) fn connect_to(
    name: &str,
    issuer: &Issuer,
    port: u16,
    versions: &[&'static SupportedProtocolVersion],
) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(issuer.pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), socket)
}

/// The first bytes of the answer; an error if there is no handshake.
pub(crate) fn ask(socket: &mut Client, request: &[u8], length: usize) -> std::io::Result<Vec<u8>> {
    socket.write_all(request)?;
    let mut answer = vec![0; length];
    socket.read_exact(&mut answer)?;
    Ok(answer)
}

const AMQP: &[u8] = b"AMQP\0\0\x09\x01";
pub(crate) const STOMP: &[u8] = b"CONNECT\naccept-version:1.2\nlogin:guest\npasscode:guest\n\n\0";
pub(crate) const BOTH: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];

#[test]
fn every_protocol_is_served_within_tls_of_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new("tests");
    let server = start(folder.path(), &issuer, &[]);
    let Ports { amqps, stomps, .. } = server.ports;
    assert!(server.start.iter().any(|line| line.contains("listening for amqps on")), "{:?}", server.start);
    for version in BOTH {
        let mut socket = connect(&issuer, amqps, &[version]);
        assert_eq!(ask(&mut socket, AMQP, 1).unwrap(), [1], "a method frame");
        let mut socket = connect(&issuer, stomps, &[version]);
        assert_eq!(ask(&mut socket, STOMP, 9).unwrap(), b"CONNECTED");
    }
}

#[test]
fn a_connection_within_tls_is_shown_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new("tests");
    let server = start(folder.path(), &issuer, &[]);
    for (version, protocol, exchange) in
        [(&rustls::version::TLS13, "tlsv1.3", "any"), (&rustls::version::TLS12, "tlsv1.2", "ecdhe_ecdsa")]
    {
        let mut socket = connect(&issuer, server.ports.stomps, &[version]);
        assert_eq!(ask(&mut socket, STOMP, 9).unwrap(), b"CONNECTED");
        let (_, body) = server.ask("GET", "/api/connections", "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n");
        let rows: serde_json::Value = serde_json::from_str(&body).unwrap();
        let port = socket.sock.local_addr().unwrap().port();
        let row = rows.as_array().unwrap().iter().find(|row| row["peer_port"] == port).unwrap();
        assert_eq!(
            (&row["ssl"], row["ssl_protocol"].as_str(), row["ssl_key_exchange"].as_str()),
            (&serde_json::Value::Bool(true), Some(protocol), Some(exchange)),
            "{row}"
        );
        assert!(row["ssl_cipher"].as_str().unwrap().starts_with("aes_"), "{row}");
    }
    let check = |within: &str| {
        let path = format!("/api/health/checks/certificate-expiration/{within}");
        server.ask("GET", &path, "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n").0
    };
    assert_eq!((check("1/days"), check("3000/years")), (200, 503));
}

#[test]
fn metrics_are_served_within_tls_while_another_peer_dawdles() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new("tests");
    let server = start(folder.path(), &issuer, &[]);
    let _silent = TcpStream::connect(("127.0.0.1", server.ports.https)).unwrap();
    let mut socket = connect(&issuer, server.ports.https, &BOTH);
    let request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(ask(&mut socket, request, 15).unwrap(), b"HTTP/1.1 200 OK");
}

#[test]
fn a_protocol_is_not_reached_through_the_port_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new("tests");
    let server = start_on(Ports { amqp: 0, ..Ports::free() }, folder.path(), &issuer, &[]);
    let mut plain = TcpStream::connect(("127.0.0.1", server.ports.stomp)).unwrap();
    plain.write_all(AMQP).unwrap();
    let mut answer = [0; 5];
    plain.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ERROR");
    let mut socket = connect(&issuer, server.ports.stomps, &BOTH);
    assert_eq!(ask(&mut socket, AMQP, 5).unwrap(), b"ERROR");
}

#[test]
fn old_versions_are_refused_where_the_setting_says() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new("tests");
    let server = start(folder.path(), &issuer, &["--tls-least-version=1.3"]);
    let refused = ask(&mut connect(&issuer, server.ports.amqps, &[&rustls::version::TLS12]), AMQP, 1);
    assert!(refused.is_err());
    server.until_logged("TLS handshake failed");
    assert!(ask(&mut connect(&issuer, server.ports.amqps, &[&rustls::version::TLS13]), AMQP, 1).is_ok());
}

#[test]
fn certificates_change_while_connections_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let server = start(folder.path(), &old, &[]);
    let mut early = connect(&old, server.ports.stomps, &BOTH);
    assert_eq!(ask(&mut early, STOMP, 9).unwrap(), b"CONNECTED");
    install(folder.path(), &new.server());
    for name in ["cert.pem", "key.pem"] {
        let file = std::fs::File::options().write(true).open(folder.path().join(name)).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(2)).unwrap();
    }
    assert!(ask(&mut connect(&new, server.ports.amqps, &BOTH), AMQP, 1).is_ok());
    assert!(ask(&mut connect(&old, server.ports.amqps, &BOTH), AMQP, 1).is_err());
    server.until_logged("the TLS certificate was read again");
    // On SIGHUP, too. If the files are invalid, the last valid ones stay in use.
    server.signal("HUP");
    server.until_logged("the TLS certificate was read again");
    std::fs::write(folder.path().join("key.pem"), "nothing").unwrap();
    server.signal("HUP");
    server.until_logged("there is no private key in it");
    assert!(ask(&mut connect(&new, server.ports.amqps, &BOTH), AMQP, 1).is_ok());
    let mut rest = vec![0; 4096];
    let _ = early.read(&mut rest).unwrap();
    early.write_all(b"DISCONNECT\nreceipt:bye\n\n\0").unwrap();
    let count = early.read(&mut rest).unwrap();
    assert!(String::from_utf8_lossy(&rest[..count]).contains("receipt-id:bye"));
}

#[test]
fn a_server_that_cannot_use_its_certificate_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new("tests");
    let mut flags = install(folder.path(), &issuer.server());
    std::fs::write(folder.path().join("key.pem"), issuer.server().key).unwrap();
    flags.push("--log-level=error".to_owned());
    let (code, _, stderr) = run(serve(&folder.path().join("data"), Ports::free()).args(&flags));
    assert_eq!(code, 78, "{stderr}");
    assert!(stderr.contains("the key does not belong to the first certificate in"), "{stderr}");
}

/// The command line trusts the authorities of `--ca-file` alone, and sends no password to others.
#[test]
fn the_command_line_asks_over_tls_a_broker_whose_certificate_it_trusts() {
    let dir = tempfile::tempdir().unwrap();
    let (issuer, other) = (Issuer::new("ours"), Issuer::new("theirs"));
    let server = start(dir.path(), &issuer, &[]);
    let url = format!("https://localhost:{}", server.ports.https);
    for (issuer, code, words) in [(&issuer, 0, ""), (&other, 69, "no answer from https://localhost")] {
        let file = dir.path().join("ca.pem");
        std::fs::write(&file, issuer.pem()).unwrap();
        let mut command = crate::remote::program(dir.path());
        let (found, _, stderr) = run(command.args(["--url", &url, "--ca-file"]).arg(&file).arg("queues"));
        assert!(found == code && stderr.contains(words), "{found}: {stderr}");
    }
}
