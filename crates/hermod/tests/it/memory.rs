//! Memory that messages have left goes back to the system. Only the GNU allocator must be told.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::time::{Duration, Instant};

use crate::attacks::resident;
use crate::server::{Server, hermod, run};
use crate::stomp::Stomp;

/// Without that, a burst of 200 MiB stays with the process: the allocator keeps small blocks, and
/// memory is not short.
#[test]
fn memory_of_a_burst_goes_back_when_it_has_been_spare_for_a_while() {
    const MESSAGES: usize = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--durability", "memory"]);
    let mut client = Stomp::connect(&server);
    let body = "x".repeat(10_000);
    for _ in 1..MESSAGES {
        client.send(&format!("SEND\ndestination:/queue/burst\n\n{body}"));
    }
    client.publish("burst", &body);
    let full = resident(&server);
    assert!(full > 200_000, "the burst is in memory: {full} KiB");
    let (code, said, why) = run(hermod("queues", dir.path()).args(["purge", "burst"]));
    assert_eq!((code, said.as_str()), (0, "20000 messages dropped\n"), "{why}");

    let purged = Instant::now();
    while resident(&server) > 50_000 {
        assert!(purged.elapsed() < Duration::from_secs(120), "{} KiB are still there", resident(&server));
        std::thread::sleep(Duration::from_millis(200));
    }
}
