//! Confirmed messages survive a kill of the server.

use crate::server::Server;
use crate::stomp::Stomp;

#[test]
fn a_stored_message_survives_a_kill_and_an_acknowledged_one_stays_gone() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let server = Server::start(dir.path(), &[]);
        let mut client = Stomp::connect(&server);
        if round > 0 {
            client.send("SUBSCRIBE\nid:0\ndestination:/queue/kept\nack:client-individual\n\n");
            let message = client.frame();
            assert!(
                message.starts_with("MESSAGE\n") && message.ends_with(&format!("\n\nround {}", round - 1)),
                "{message}"
            );
            let id = message.lines().find_map(|line| line.strip_prefix("ack:")).unwrap();
            client.send(&format!("ACK\nid:{id}\nreceipt:a\n\n"));
            assert!(client.frame().starts_with("RECEIPT\n"));
            client.send("UNSUBSCRIBE\nid:0\nreceipt:u\n\n");
            assert!(client.frame().starts_with("RECEIPT\n"));
        }
        client.publish("kept", &format!("round {round}"));
        server.signal("KILL");
        assert_eq!(server.wait().0, None);
    }
}

/// After the deletion, everything that is written to the log would be lost with the process. So the
/// server ends, and says why.
#[cfg(unix)]
#[test]
fn a_server_whose_log_is_deleted_ends_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    Stomp::connect(&server).publish("kept", "m");
    let log = dir.path().join("wal/0000.wal");
    std::fs::remove_file(log).unwrap();
    let (code, said) = server.wait();
    assert_eq!(code, Some(74), "{said:?}");
    assert!(said.iter().any(|line| line.contains("wal/0000.wal was deleted")), "{said:?}");
}

#[test]
fn memory_durability_keeps_nothing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let server = Server::start(dir.path(), &["--durability", "memory"]);
        assert!(
            server.start.iter().any(|line| line.contains("durability memory: nothing is written")),
            "{:?}",
            server.start
        );
        let (_, metrics) = server.get("/metrics");
        assert!(metrics.contains("\nrabbitmq_queue_messages_ready 0\n"), "{metrics}");
        Stomp::connect(&server).publish("q", "m");
        // After a kill, the next server must work with what is left.
        server.signal("KILL");
        server.wait();
    }
    let server = Server::start(dir.path(), &[]);
    server.signal("TERM");
    assert_eq!(server.wait().0, Some(0), "the directory is as good as new for another class");
}
