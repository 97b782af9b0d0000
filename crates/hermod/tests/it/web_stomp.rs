//! STOMP over WebSockets, on the ports of the program: the queues are the same as over other ports,
//! and pages from other sites are refused.

use std::net::TcpStream;

use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::server::{HANG, Ports, Server};
use crate::stomp::Stomp;

fn page(port: u16, origin: &str) -> Result<WebSocket<TcpStream>, String> {
    let mut request = format!("ws://127.0.0.1:{port}/ws").into_client_request().unwrap();
    request.headers_mut().insert("origin", origin.parse().unwrap());
    request.headers_mut().insert("sec-websocket-protocol", "v10.stomp, v11.stomp, v12.stomp".parse().unwrap());
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    let (socket, response) = client(request, socket).map_err(|error| error.to_string())?;
    assert_eq!(response.headers()["sec-websocket-protocol"], "v12.stomp");
    Ok(socket)
}

/// The next frame; WebSocket messages may split frames anywhere.
fn frame(socket: &mut WebSocket<TcpStream>) -> String {
    let mut text = String::new();
    while !text.contains('\0') {
        text.push_str(socket.read().unwrap().to_text().unwrap());
    }
    text.trim_start().to_owned()
}

#[test]
fn a_page_speaks_with_everybody_else() {
    let dir = tempfile::tempdir().unwrap();
    let port = Ports::free().amqps;
    let server = Server::start(dir.path(), &["--ports-web-stomp", &port.to_string()]);
    assert!(server.start.iter().any(|line| line.contains(&format!("listening for web-stomp on 127.0.0.1:{port}"))));

    assert!(page(port, "https://evil.example").unwrap_err().contains("403"));
    let mut page = page(port, "http://127.0.0.1:8080").unwrap();
    page.send(Message::text("CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0")).unwrap();
    assert!(frame(&mut page).starts_with("CONNECTED\n"));
    page.send(Message::text("SUBSCRIBE\nid:1\ndestination:/queue/from\nreceipt:s\n\n\0")).unwrap();
    assert!(frame(&mut page).starts_with("RECEIPT\n"));

    let mut other = Stomp::connect(&server);
    other.publish("from", "gr\u{fc}\u{df}e");
    let message = frame(&mut page);
    assert!(message.starts_with("MESSAGE\n") && message.contains("gr\u{fc}\u{df}e"), "{message}");

    page.send(Message::text("SEND\ndestination:/queue/to\npersistent:true\nreceipt:p\n\nhello\0")).unwrap();
    assert!(frame(&mut page).starts_with("RECEIPT\n"));
    other.send("SUBSCRIBE\nid:1\ndestination:/queue/to\n\n");
    assert!(other.frame().contains("hello"));

    page.send(Message::text("DISCONNECT\nreceipt:bye\n\n\0")).unwrap();
    assert!(frame(&mut page).contains("receipt-id:bye"));
    assert!(page.read().unwrap().is_close(), "the server says goodbye");
    server.signal("TERM");
    assert_eq!(server.wait().0, Some(0));
}
