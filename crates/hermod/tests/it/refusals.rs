//! A server that cannot start says why in one line, and its exit code tells scripts the reason.

use std::net::TcpListener;
use std::process::Command;

use crate::server::{Ports, Server, hermod, run, serve};

#[test]
fn a_taken_port() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (code, _, stderr) = run(&mut serve(dir.path(), Ports { http: port, ..Ports::free() }));
    assert_eq!(code, 71, "{stderr}");
    assert_eq!(
        stderr,
        format!(
            "hermod: port {port} is in use at 127.0.0.1; stop the program that holds it, or move all ports with --port-offset\n"
        )
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was touched");
}

#[test]
fn a_data_directory_in_use_in_any_class() {
    for first in ["fsync", "memory"] {
        let dir = tempfile::tempdir().unwrap();
        let _server = Server::start(dir.path(), &["--durability", first]);
        for second in ["fsync", "memory"] {
            let (code, _, stderr) = run(serve(dir.path(), Ports::free()).args(["--durability", second]));
            assert_eq!(code, 75, "{first}, then {second}: {stderr}");
            assert!(stderr.contains("the data directory is in use by another process"), "{stderr}");
        }
        let (code, _, _) = run(&mut hermod("status", dir.path()));
        assert_eq!(code, 0, "the first one still answers");
    }
}

#[test]
fn foreign_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.txt"), "precious").unwrap();
    let (code, _, stderr) = run(&mut serve(dir.path(), Ports::free()));
    assert_eq!(code, 65, "{stderr}");
    assert!(stderr.contains("thesis.txt") && stderr.lines().count() == 1, "{stderr}");
    assert_eq!(std::fs::read_to_string(dir.path().join("thesis.txt")).unwrap(), "precious");
}

#[test]
fn a_data_directory_that_cannot_be_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "").unwrap();
    let (code, _, stderr) = run(&mut serve(&path, Ports::free()));
    assert_eq!((code, stderr.lines().count()), (74, 1), "{stderr}");
    assert!(stderr.contains("the data directory cannot be used"), "{stderr}");
}

#[test]
fn wrong_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("h.toml");
    std::fs::write(&file, "# ours\n[limits]\nframemax = 1\n").unwrap();
    let data = dir.path().join("data");
    let shown = file.display();
    let (code, _, stderr) = run(serve(&data, Ports::free()).arg("--config").arg(&file));
    let expected = format!("hermod: {shown}:3: there is no setting limits.framemax; did you mean limits.frame_max?\n");
    assert_eq!((code, stderr), (78, expected));
    let (code, _, stderr) = run(serve(&data, Ports::free()).env("HERMOD_DURABILITY", "ssd"));
    assert_eq!(
        (code, stderr.as_str()),
        (78, "hermod: HERMOD_DURABILITY: durability: 'ssd' is none of fsync, os, memory\n")
    );
    // It was taken for the name of a part, and the broker fell silent.
    let (code, _, stderr) = run(serve(&data, Ports::free()).args(["--log-level", "wrn"]));
    let levels = "the levels are off, error, warn, info, debug, trace; did you mean warn?";
    assert_eq!((code, stderr), (78, format!("hermod: --log-level: 'wrn' is no level; {levels}\n")));
    let missing = dir.path().join("none.toml");
    let (code, _, stderr) = run(serve(&data, Ports::free()).arg("--config").arg(&missing));
    assert_eq!(code, 78);
    assert!(stderr.starts_with("hermod: cannot read the configuration file "), "{stderr}");
    assert!(!data.exists(), "nothing was touched");
}

#[test]
fn a_senseless_command_line_and_a_server_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, stderr) = run(serve(dir.path(), Ports::free()).arg("--bogus"));
    assert_eq!((code, stderr.as_str()), (64, "hermod: unexpected argument '--bogus' found; see hermod serve --help\n"));
    let (code, _, stderr) = run(&mut hermod("status", dir.path()));
    assert_eq!(code, 69);
    assert!(stderr.starts_with("hermod: no server answers at "), "{stderr}");
}

#[test]
fn what_is_set_and_changes_nothing_is_said() {
    for (threads, spin, said) in [("2", Some("25us"), true), ("2", None, false), ("1", Some("0"), false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut flags = vec!["--io-threads", threads];
        flags.extend(spin.iter().flat_map(|spin| ["--io-spin", spin]));
        let server = Server::start(dir.path(), &flags);
        let warned = server.start.iter().any(|line| line.contains("io_spin has no effect with 2 I/O threads"));
        assert_eq!(warned, said, "{flags:?}: {:?}", server.start);
    }
    for (limit, budget, said) in [("1 GiB", "4 GiB", true), ("1 GiB", "512 MiB", false), ("0", "512 MiB", false)] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), &["--memory-limit", limit, "--memory-budget", budget]);
        let text = "memory.budget is 4 GiB, of which half of memory.limit counts, 512 MiB";
        let warned = server.start.iter().any(|line| line.contains(text));
        assert_eq!(warned, said, "{limit}, {budget}: {:?}", server.start);
    }
    for (asked, said) in [("1000000 TiB", true), ("16 MiB", false)] {
        let dir = tempfile::tempdir().unwrap();
        let flags = ["--journal-max-bytes", asked, "--limits-max-message-size", "64 KiB"];
        let server = Server::start(dir.path(), &flags);
        let text = "journal.max_bytes is 1000000 TiB, of which the disk has room for ";
        let warned = server.start.iter().any(|line| line.contains(text));
        assert_eq!(warned, said, "{asked}: {:?}", server.start);
    }
}

#[test]
fn settings_are_checked_without_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("hermod.toml"), dir.path().join("data"));
    let check = |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermod"));
        run(command.env_clear().args(["config", "check"]).arg(&file).arg("--data-dir").arg(&data).args(more))
    };
    let shown = file.display();
    let (code, stdout, stderr) = check("heartbeat = 3\n", &[]);
    let said = format!("hermod: {shown}:1: there is no setting heartbeat");
    assert!(code == 78 && stdout.is_empty() && stderr.starts_with(&said), "{code}: {stderr}");
    let (code, stdout, stderr) = check("limits.heartbeat = \"30 s\"\nio_threads = 2\nio_spin = \"25us\"\n", &[]);
    assert_eq!(stdout, format!("{shown}: a broker would start with it; 4 settings differ from the default\n"));
    assert!(code == 0 && stderr.starts_with("warning: io_spin has no effect with 2 I/O threads"), "{code}: {stderr}");
    // What a start would read besides is read, too.
    for (text, expected) in [
        ("tls.certificate = \"none.pem\"\ntls.key = \"none.key\"\n", "none.pem"),
        ("default_pass_file = \"none.txt\"\n", "default_pass_file"),
        ("nodes.confirms_wait = \"30 s\"\n", "nodes.confirms_wait: no node can follow"),
        (
            "auth_backends = \"ldap/internal\"\nauth_ldap.servers = \"ldaps://h\"\nauth_ldap.user_dn_pattern = \
          \"uid=${username},o=x\"\nauth_ldap.ssl_options.cacertfile = \"none.pem\"\n",
            "none.pem",
        ),
    ] {
        let (code, _, stderr) = check(text, &[]);
        assert!(code != 0 && stderr.contains(expected), "{text}: {code}: {stderr}");
    }
    let (_, stdout, _) = check("io_threads = 1\n", &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&document["set"], &document["warnings"]), (&2.into(), &serde_json::json!([])), "{stdout}");
    assert!(!data.exists(), "nothing was touched");
}
