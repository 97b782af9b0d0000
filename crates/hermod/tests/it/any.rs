//! One port for everything: each protocol of the real program, as it is, within TLS, in a
//! WebSocket, and in one within TLS.

use std::io::{Read, Write};
use std::net::TcpStream;

use mqtt::codec::{Connect, Packet, Version, encode};
use serde_json::json;
use testkit::certificates::Issuer;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Message, client};

use crate::api::{GUEST, json};
use crate::server::{HANG, Server, free_port};
use crate::tls::{BOTH, STOMP, close, connect_to};

/// A connection of either kind.
trait Socket: Read + Write {}
impl<S: Read + Write> Socket for S {}

/// What a client opens with, what the answer begins with, and its subprotocol.
fn openings() -> [(Vec<u8>, &'static [u8], &'static str); 4] {
    let mut connect = Vec::new();
    let hello = Connect {
        clean_start: true,
        client_id: "one",
        user: Some("guest"),
        password: Some(b"guest"),
        ..Connect::default()
    };
    encode(&Packet::Connect(Connect { version: Version::V3_1_1, ..hello }), Version::V3_1_1, &mut connect);
    [
        (b"AMQP\0\0\x09\x01".to_vec(), b"\x01\0\0", "amqp"),
        (b"AMQP\x03\x01\0\0".to_vec(), b"AMQP\x03\x01\0\0", "amqp"),
        (STOMP.to_vec(), b"CONNECTED", "v12.stomp"),
        (connect, b"\x20\x02\0\0", "mqtt"),
    ]
}

#[test]
fn one_port_serves_every_protocol_however_it_is_wrapped() {
    let folder = tempfile::tempdir().unwrap();
    close(folder.path());
    let issuer = Issuer::new("tests");
    let issued = issuer.server();
    let file = folder.path().join("both.pem");
    std::fs::write(&file, format!("{}{}", issued.certificate, issued.key)).unwrap();
    let port = free_port();
    // Protocols whose ports are closed are served here.
    let text = format!("[[listeners]]\nprotocols = 'any'\nport = {port}\ncertificates = '{}'\n", file.display());
    let config = folder.path().join("h.toml");
    std::fs::write(&config, text).unwrap();
    let server = Server::start(&folder.path().join("data"), &["--config", config.to_str().unwrap(), "--ports-mqtt=0"]);
    let line = server.start.iter().find(|line| line.contains("amqp/amqp10/stomp/mqtt")).unwrap();
    assert!(line.contains("TLS or none, WebSocket or none"), "{line}");
    let socket = |is_tls: bool| -> Box<dyn Socket> {
        if is_tls {
            return Box::new(connect_to("localhost", &issuer, port, &BOTH));
        }
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        Box::new(socket)
    };
    for (sent, expected, subprotocol) in openings() {
        for is_tls in [false, true] {
            let mut bare = socket(is_tls);
            bare.write_all(&sent).unwrap();
            let mut answer = vec![0; expected.len()];
            bare.read_exact(&mut answer).unwrap();
            assert_eq!(answer, expected, "{subprotocol}");
            let rows = json(&server, "/api/connections", GUEST);
            assert!(rows.as_array().unwrap().iter().all(|row| row["ssl"] == json!(is_tls)), "{rows}");
            drop(bare);
            for name in [Some(subprotocol), None] {
                let mut request = "ws://localhost/any/path".into_client_request().unwrap();
                if let Some(name) = name {
                    request.headers_mut().insert("sec-websocket-protocol", name.parse().unwrap());
                }
                let mut web = client(request, socket(is_tls)).unwrap_or_else(|error| panic!("{error}")).0;
                web.send(Message::binary(sent.clone())).unwrap();
                let answer = web.read().unwrap();
                assert_eq!(answer.is_text(), subprotocol == "v12.stomp", "{answer:?}");
                assert!(answer.into_data().starts_with(expected), "{subprotocol} {is_tls}");
            }
        }
    }
    let answer = {
        let mut socket = socket(false);
        socket.write_all(b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        let _ = socket.read_to_string(&mut answer);
        answer
    };
    assert!(answer.starts_with("HTTP/1.1 426") && answer.contains("have ports of their own"), "{answer}");
}
