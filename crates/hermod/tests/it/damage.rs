//! Damaged data directories, and the report of `hermod verify`.

use std::path::{Path, PathBuf};

use crate::server::{Ports, Server, hermod, run, serve};
use crate::stomp::Stomp;

/// A log so small that most of a backlog moves out of it.
const SMALL: [&str; 6] =
    ["--journal-max-bytes", "2MiB", "--journal-file-bytes", "256KiB", "--limits-max-message-size", "64KiB"];

/// A data directory with a queue of `count` messages, whose broker has stopped.
fn stopped(count: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &SMALL);
    let mut client = Stomp::connect(&server);
    for number in 0..count {
        client.publish("orders", &format!("{number:04}{}", "x".repeat(4096)));
    }
    drop(client);
    server.signal("TERM");
    assert_eq!(server.wait().0, Some(0));
    dir
}

fn verify(dir: &Path) -> (i32, String, String) {
    run(hermod("verify", dir).arg(dir))
}

/// The first file of the folder by name.
fn first_in(dir: &Path, folder: &str, extension: &str) -> PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(dir.join(folder)).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort();
    files[0].clone()
}

fn flip(file: &Path, byte: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[byte] ^= 0x20;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_whole_directory_is_counted() {
    let dir = stopped(3);
    let (code, stdout, stderr) = verify(dir.path());
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains(": whole\n") && stdout.contains("/\torders\t3\t0\n"), "{stdout}");
    let (code, stdout, _) = run(hermod("verify", dir.path()).arg("--json"));
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &report["whole"], &report["queues"][0]["messages"]), (0, &true.into(), &3.into()));
}

#[test]
fn what_is_damaged_is_named_and_goes_with_code_65() {
    let dir = stopped(3);
    flip(&first_in(dir.path(), "wal", "wal"), 4096 + 200);
    let (code, stdout, stderr) = verify(dir.path());
    assert_eq!(code, 65, "{stdout}");
    assert!(stdout.contains("damaged: wal/0000.wal at byte 4096: batch 1 had been flushed"), "{stdout}");
    assert!(stderr.contains("is damaged: ") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn a_damaged_backlog_is_named_by_its_queue() {
    let dir = stopped(1000);
    let index = first_in(dir.path(), "cold", "idx");
    let whole = std::fs::read(&index).unwrap();
    flip(&index, 600);
    let (code, stdout, _) = verify(dir.path());
    assert_eq!(code, 65);
    assert!(stdout.contains("(queue 'orders' in vhost '/', numbers "), "{stdout}");
    // If an index is missing, only the log knows that it existed.
    std::fs::remove_file(&index).unwrap();
    let (code, stdout, _) = verify(dir.path());
    assert_eq!(code, 65, "{stdout}");
    assert!(stdout.contains("messages of queue 'orders' in vhost '/', numbers "), "{stdout}");
    std::fs::write(&index, whole).unwrap();
    assert_eq!(verify(dir.path()).0, 0);
}

#[test]
fn a_damaged_backlog_stops_its_queue_alone_and_is_repaired_only_when_the_loss_is_accepted() {
    let dir = stopped(1000);
    std::fs::remove_file(first_in(dir.path(), "cold", "idx")).unwrap();
    let server = Server::start(dir.path(), &SMALL);
    let mut client = Stomp::connect(&server);
    client.publish("others", "on we go");
    let (_, queues, _) = run(&mut hermod("queues", dir.path()));
    assert!(queues.contains("/\torders\tclassic\tdurable,damaged\t1000\t"), "{queues}");
    assert!(queues.contains("/\tothers\tclassic\tdurable\t1\t"), "{queues}");
    assert!(server.get("/metrics").1.contains("hermod_queues_damaged 1\n"));
    let repair = |flags: &[&str]| run(hermod("repair", dir.path()).arg("orders").args(flags));
    let (code, told, stderr) = repair(&[]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{told}");
    assert!(told.contains(" messages can't be read, numbers ") && told.contains("nothing was changed"), "{told}");
    assert_eq!(repair(&[]).1, told);
    let (code, done, _) = repair(&["--accept-loss"]);
    assert!(code == 0 && done.contains(" messages given up, numbers "), "{done}");
    let (_, queues, _) = run(&mut hermod("queues", dir.path()));
    assert!(!queues.contains("damaged"), "{queues}");
    assert!(repair(&[]).1.contains("none is lost"));
    let (code, _, stderr) = run(hermod("repair", dir.path()).args(["orders", "--vhost", "none"]));
    assert_eq!((code, stderr.as_str()), (66, "hermod: there is no queue 'orders' in vhost 'none'\n"));
}

#[test]
fn a_damaged_log_is_ended_before_its_damage_only_when_its_file_is_named() {
    let dir = stopped(5);
    let log = first_in(dir.path(), "wal", "wal");
    let bytes = std::fs::read(&log).unwrap();
    let batches = bytes.chunks(4096).enumerate().filter(|(_, block)| block.starts_with(b"HJba"));
    let third = batches.map(|(at, _)| at * 4096).nth(4).unwrap();
    flip(&log, third + 30);
    let start = |flags: &[&str]| run(serve(dir.path(), Ports::free()).args(flags));
    for flags in [&[][..], &["--accept-damage", "wal/0001.wal"]] {
        let (code, _, stderr) = start(flags);
        assert_eq!(code, 65, "{stderr}");
        assert!(stderr.lines().last().unwrap().contains("wal/0000.wal is damaged at byte "), "{stderr}");
    }
    let server = Server::start(dir.path(), &["--accept-damage", "wal/0000.wal"]);
    assert!(
        server.start.iter().any(|line| line.contains("the log ends in wal/0000.wal at byte ")),
        "{:?}",
        server.start
    );
    Stomp::connect(&server).publish("orders", "again");
    server.signal("TERM");
    assert_eq!(server.wait().0, Some(0));
    assert_eq!(verify(dir.path()).0, 0);
}

#[test]
fn what_is_no_data_directory_or_in_use_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, stderr) = verify(&dir.path().join("none"));
    assert_eq!((code, stderr.lines().count()), (66, 1), "{stderr}");
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing is made");
    let _server = Server::start(dir.path(), &[]);
    assert_eq!(verify(dir.path()).0, 75);
}
