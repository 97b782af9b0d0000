//! A small STOMP client: text in, text out, so that a test reads like the conversation.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::server::{HANG, Server};

/// One connected session.
pub(crate) struct Stomp {
    socket: TcpStream,
    received: Vec<u8>,
}

impl Stomp {
    /// Logs in as guest.
    pub(crate) fn connect(server: &Server) -> Self {
        Self::connect_to(server.ports.stomp)
    }

    /// Logs in as guest at any port.
    pub(crate) fn connect_to(port: u16) -> Self {
        let mut client = Self::ask_to_connect(port);
        let answer = client.frame();
        assert!(answer.starts_with("CONNECTED\n"), "{answer}");
        client
    }

    /// Asks to log in as guest, and does not wait for the answer.
    pub(crate) fn ask_to_connect(port: u16) -> Self {
        Self::ask_to_connect_as(port, "guest")
    }

    /// Asks to log in as a user whose password is its name.
    pub(crate) fn ask_to_connect_as(port: u16, user: &str) -> Self {
        Self::connect_with(port, user, user)
    }

    /// Asks to log in with this passcode.
    pub(crate) fn connect_with(port: u16, user: &str, passcode: &str) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        let mut client = Self { socket, received: Vec::new() };
        client.send(&format!("CONNECT\naccept-version:1.2\nhost:/\nlogin:{user}\npasscode:{passcode}\n\n"));
        client
    }

    /// Sends a frame; the final NUL is added.
    pub(crate) fn send(&mut self, frame: &str) {
        self.socket.write_all(format!("{frame}\0").as_bytes()).unwrap();
    }

    /// Publishes a message and waits until the server says that it is stored.
    pub(crate) fn publish(&mut self, queue: &str, body: &str) {
        self.send(&format!("SEND\ndestination:/queue/{queue}\npersistent:true\nreceipt:p\n\n{body}"));
        let answer = self.frame();
        assert!(answer.starts_with("RECEIPT\n"), "{answer}");
    }

    /// Sends bytes, of which the server may refuse the end.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// The next frame; `None` if the server has closed without one.
    pub(crate) fn frame_or_end(&mut self) -> Option<String> {
        let mut buffer = Vec::new();
        let _ = self.socket.read_to_end(&mut buffer);
        self.received.append(&mut buffer);
        if self.received.is_empty() { None } else { Some(self.frame()) }
    }

    /// The next frame without its end.
    pub(crate) fn frame(&mut self) -> String {
        loop {
            let blank = self.received.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            self.received.drain(..blank);
            if let Some(end) = self.received.iter().position(|byte| *byte == 0) {
                let frame = self.received.drain(..=end).collect::<Vec<_>>();
                return String::from_utf8(frame[..end].to_vec()).unwrap();
            }
            let mut buffer = [0; 4096];
            let count = self.socket.read(&mut buffer).unwrap();
            assert!(count > 0, "the server closed, with this left: {:?}", String::from_utf8_lossy(&self.received));
            self.received.extend_from_slice(&buffer[..count]);
        }
    }

    /// Whether nothing comes for so long.
    pub(crate) fn is_silent(&mut self, time: Duration) -> bool {
        self.socket.set_read_timeout(Some(time)).unwrap();
        // Newlines may follow a frame.
        let has_frame = self.received.iter().any(|byte| !matches!(byte, b'\n' | b'\r'));
        let is_silent = !has_frame && self.socket.peek(&mut [0]).is_err();
        self.socket.set_read_timeout(Some(HANG)).unwrap();
        is_silent
    }

    /// Whether the server has closed, without further frames.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.socket.read(&mut [0; 64]), Ok(0))
    }
}
