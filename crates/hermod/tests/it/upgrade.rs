//! `hermod upgrade check`, on directories that earlier versions wrote, on new ones, and on those
//! that can't be opened.

use std::collections::BTreeMap;
use std::path::Path;

use crate::server::{Server, hermod, run};
use crate::stomp::Stomp;

/// Every file below `folder`, with its bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                files.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    files
}

fn copy_all(from: &Path, to: &Path) {
    for (name, bytes) in files(from) {
        let path = to.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn check(directory: &Path) -> (i32, String, String) {
    run(hermod("upgrade", Path::new("/nowhere")).arg("check").arg(directory))
}

#[test]
fn what_an_older_version_wrote_is_read_unchanged_and_its_new_format_is_told() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../broker/tests/data");
    for (name, format) in [("v1", 1), ("v2-logs", 2)] {
        let dir = tempfile::tempdir().unwrap();
        copy_all(&kept.join(name), dir.path());
        // The lock of a data directory is a file, which is made when it is first opened.
        let before = files(dir.path());
        let (code, out, err) = check(dir.path());
        assert_eq!(code, 0, "{name}: {err}");
        assert!(out.contains(&format!("format {format}")), "{out}");
        assert_eq!(out.contains("raises it to 2"), format == 1, "{out}");
        let after = files(dir.path());
        assert!(before.iter().all(|(file, bytes)| after.get(file) == Some(bytes)), "{name}");
        let server = Server::start(dir.path(), &[]);
        assert_eq!(server.get("/health/ready").0, 200);
    }
}

#[test]
fn a_directory_in_use_a_newer_one_and_a_damaged_one_are_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    Stomp::connect(&server).publish("q", "m");
    let (code, _, err) = check(dir.path());
    assert!(code == 75 && err.contains("check a backup"), "{code} {err}");
    server.signal("TERM");
    assert_eq!(server.wait().0, Some(0));
    let (code, out, err) = check(dir.path());
    assert!(
        code == 0 && out.contains("1 queue with 1 message\n") && out.contains("nothing is converted"),
        "{out} {err}"
    );
    let log = dir.path().join("wal/0000.wal");
    let whole = std::fs::read(&log).unwrap();
    let mut damaged = whole.clone();
    damaged[4096 + 200] ^= 1;
    std::fs::write(&log, damaged).unwrap();
    let (code, out, err) = check(dir.path());
    assert!(code == 65 && err.contains("do not upgrade yet"), "{code} {out} {err}");
    std::fs::write(&log, whole).unwrap();
    std::fs::write(dir.path().join("FORMAT"), "hermod journal\nformat 9\nincarnation 0000000000000000\n").unwrap();
    let (code, _, err) = check(dir.path());
    assert!(code == 65, "{code} {err}");
    let (code, _, err) = check(&dir.path().join("none"));
    assert!(code == 66, "{code} {err}");
}
