//! Settings that a running server applies on SIGHUP, and settings that wait for the next start.

use crate::api::{GUEST, json};
use crate::attacks::Amqp;
use crate::server::{Server, until};

/// How many channels the server offers.
fn offered(server: &Server) -> String {
    let mut client = Amqp::started(server.ports.amqp);
    client.start_ok("PLAIN", b"\0guest\0guest");
    client.method()
}

#[test]
fn settings_are_taken_up_at_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("h.toml"), dir.path().join("data"));
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("[limits]\nchannel_max = 5\n");
    let server = Server::start(&data, &["--config", file.to_str().unwrap()]);
    assert!(offered(&server).starts_with("ConnectionTune { channel_max: 5,"));
    write("loopback_users = ['nobody']\n[limits]\nchannel_max = 7\nuser_memory = '9 MiB'\nqueues = 3\n");
    server.signal("HUP");
    let wanted = [
        "loopback_users is nobody",
        "limits.channel_max is 7",
        "limits.user_memory is 9 MiB",
        "limits.queues is 3 from the next start on",
    ];
    let mut told = String::new();
    while !wanted.iter().all(|words| told.contains(words)) {
        told += &server.until_logged("SIGHUP: ");
    }
    assert!(offered(&server).starts_with("ConnectionTune { channel_max: 7,"));
    let shown = || json(&server, "/api/config/effective", GUEST);
    until("the settings in force", || shown()["limits.channel_max"]["value"] == "7");
    assert_ne!(shown()["limits.queues"]["value"], "3", "it waits for the next start");
    // Limits of memory and disk move the alarms at once.
    let node = || json(&server, "/api/nodes", GUEST)[0].clone();
    assert_eq!((&node()["disk_free_alarm"], &node()["disk_free_limit"]), (&false.into(), &0.into()));
    write("disk.free_limit = '100 %'\nmemory.limit = '1.5 %'\n[limits]\nchannel_max = 7\n");
    let usual = node()["mem_limit"].as_f64().unwrap();
    server.signal("HUP");
    until("the disk alarm", || node()["disk_free_alarm"] == true);
    assert!(node()["disk_free_limit"].as_u64().unwrap() > node()["disk_free"].as_u64().unwrap());
    let ratio = usual / node()["mem_limit"].as_f64().unwrap();
    assert!((ratio - 40.0 / 1.5).abs() < 0.1, "a share of the same memory, {ratio}");
    write("disk.limit = 1\n[limits]\nchannel_max = 7\n");
    server.signal("HUP");
    until("the other limit", || node()["disk_free_limit"] == 0);
    assert_eq!(node()["disk_free_alarm"], true, "the log takes more than one byte");
    write("[limits]\nchannel_max = 7\n");
    server.signal("HUP");
    until("the end of the alarm", || node()["disk_free_alarm"] == false);
    // An invalid file changes nothing.
    write("[limits]\nchannel_max = 0\n");
    server.signal("HUP");
    server.until_logged("the settings stay as they are");
    assert!(offered(&server).starts_with("ConnectionTune { channel_max: 7,"));
    // Back to the value at the start.
    write("[limits]\nchannel_max = 5\n");
    server.signal("HUP");
    until("the old limit", || offered(&server).starts_with("ConnectionTune { channel_max: 5,"));
}

/// As logrotate does it: the file is moved away, then the server is told.
#[test]
fn the_log_is_in_a_file_too_and_one_that_was_moved_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let (log, moved, data) = (dir.path().join("hermod.log"), dir.path().join("moved"), dir.path().join("data"));
    let file = dir.path().join("h.toml");
    std::fs::write(&file, "").unwrap();
    let server = Server::start(&data, &["--log-file", log.to_str().unwrap(), "--config", file.to_str().unwrap()]);
    let has = |path: &std::path::Path, words: &str| std::fs::read_to_string(path).unwrap_or_default().contains(words);
    until("the start in the file", || has(&log, "Server start"));
    std::fs::rename(&log, &moved).unwrap();
    // Also while the settings can't be read.
    std::fs::write(&file, "no_such = 1\n").unwrap();
    server.signal("HUP");
    server.until_logged("SIGHUP: there is no TLS certificate");
    until("a new file", || log.exists());
    server.signal("TERM");
    until("the end in the file", || has(&log, "Server stopped"));
    assert!(!has(&moved, "Server stopped"));
}
