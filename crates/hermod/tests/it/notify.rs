//! What a service manager is told, at a real socket of the kind that systemd has.

use std::os::unix::net::UnixDatagram;

use crate::server::{HANG, Ports, Server, serve};
use crate::stomp::Stomp;

/// The socket of a service manager.
struct Socket(UnixDatagram);

impl Socket {
    /// The next message with this line. Those before it are returned, too.
    fn until(&self, line: &str) -> Vec<String> {
        let mut told = Vec::new();
        let mut bytes = [0; 4096];
        loop {
            let read = self.0.recv(&mut bytes).unwrap_or_else(|error| panic!("no {line}: {error}; {told:?}"));
            told.push(String::from_utf8(bytes[..read].to_vec()).unwrap());
            if told.last().is_some_and(|last| last.lines().any(|one| one == line)) {
                return told;
            }
        }
    }
}

fn has(told: &[String], line: &str) -> bool {
    told.iter().flat_map(|one| one.lines()).any(|one| one.starts_with(line))
}

#[test]
fn a_manager_is_told_of_the_start_the_service_its_life_and_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (data, socket) = (dir.path().join("data"), dir.path().join("notify"));
    let manager = Socket(UnixDatagram::bind(&socket).unwrap());
    manager.0.set_read_timeout(Some(HANG)).unwrap();
    std::fs::create_dir(&data).unwrap();
    for start in ["new", "again"] {
        let ports = Ports::free();
        let mut command = serve(&data, ports);
        command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "400000").env_remove("WATCHDOG_PID");
        let server = Server::spawn(&mut command, ports);
        let told = manager.until("READY=1");
        assert!(
            has(&told, "STATUS=opening") || has(&told, "STATUS=reading") || has(&told, "STATUS=taking"),
            "{told:?}"
        );
        assert!(has(&told, "EXTEND_TIMEOUT_USEC="), "{told:?}");
        assert!(has(&told, "STATUS=Hermod ") && !has(&told, "STOPPING=1"), "{told:?}");
        assert_eq!(server.get("/health/ready").0, 200);
        Stomp::connect(&server).publish("q", start);
        for _ in 0..3 {
            manager.until("WATCHDOG=1");
        }
        server.signal("TERM");
        let told = manager.until("STOPPING=1");
        assert!(!has(&told, "READY=1"), "{told:?}");
        assert_eq!(server.wait().0, Some(0));
    }
}

#[test]
fn without_a_manager_or_its_socket_the_broker_serves() {
    let dir = tempfile::tempdir().unwrap();
    let ports = Ports::free();
    let mut command = serve(&dir.path().join("data"), ports);
    command.env("NOTIFY_SOCKET", dir.path().join("gone")).env("WATCHDOG_USEC", "no number");
    let server = Server::spawn(&mut command, ports);
    assert_eq!(server.get("/health/ready").0, 200);
}
