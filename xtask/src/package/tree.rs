//! The files of a Linux package, laid out as they are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::Program;
use super::{Job, allow, capture, copy, folder, write};

/// The files besides those that are made from the program: their sources and their places.
const FILES: [(&str, &str); 5] = [
    ("packaging/hermod.toml", "etc/hermod/hermod.toml"),
    ("packaging/systemd/hermod.service", "usr/lib/systemd/system/hermod.service"),
    ("packaging/systemd/hermod.sysusers", "usr/lib/sysusers.d/hermod.conf"),
    ("packaging/systemd/hermod.tmpfiles", "usr/lib/tmpfiles.d/hermod.conf"),
    ("packaging/debian/copyright", "usr/share/doc/hermod/copyright"),
];
/// The shells whose completions are packed.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/hermod"),
    ("zsh", "usr/share/zsh/site-functions/_hermod"),
    ("fish", "usr/share/fish/vendor_completions.d/hermod.fish"),
];

/// Lays out the tree of `program`, and returns its root.
pub(super) fn lay_out(job: &Job, program: &Program) -> Result<PathBuf, String> {
    let tree = job.work.join("tree");
    copy(&program.path, &tree.join("usr/bin/hermod"))?;
    for (source, place) in FILES {
        copy(&job.root.join(source), &tree.join(place))?;
    }
    for (shell, place) in SHELLS {
        write(&tree.join(place), &capture(Command::new(&program.path).args(["completions", shell]))?)?;
    }
    notices(program, &tree.join("usr/share/doc/hermod"))?;
    let documents = tree.join("usr/share/doc/hermod");
    copy(&job.root.join("CHANGELOG.md"), &documents.join("CHANGELOG.md"))?;
    write(&documents.join("changelog"), &debian_changelog(job)?)?;
    for name in ["CHANGELOG.md", "changelog"] {
        capture(Command::new("gzip").arg("-9n").arg(documents.join(name)))?;
    }
    let pages = tree.join("usr/share/man/man1");
    folder(&pages)?;
    capture(Command::new(&program.path).arg("man").arg(&pages))?;
    for page in entries(&pages)? {
        capture(Command::new("gzip").args(["-9n"]).arg(page))?;
    }
    settle(&tree)?;
    allow(&tree.join("usr/bin/hermod"), 0o755)?;
    Ok(tree)
}

/// The licence of the program, and those of what it is built from.
pub(super) fn notices(program: &Program, folder: &Path) -> Result<(), String> {
    write(&folder.join("THIRD-PARTY-NOTICES"), &capture(Command::new(&program.path).arg("licenses"))?)
}

/// What Debian's tools read; what changed is in the project's own file beside it.
fn debian_changelog(job: &Job) -> Result<String, String> {
    let date = capture(Command::new("date").args(["-R", "-u", "-d", &format!("@{}", job.time)]))?;
    let Job { version, maintainer, .. } = job;
    let head = format!("hermod ({version}) unstable; urgency=medium");
    Ok(format!("{head}\n\n  * What changed is in CHANGELOG.md.gz.\n\n -- {maintainer}  {date}"))
}

/// The permissions that all files and folders of a package have.
fn settle(path: &Path) -> Result<(), String> {
    if path.is_dir() {
        allow(path, 0o755)?;
        return entries(path)?.iter().try_for_each(|entry| settle(entry));
    }
    allow(path, 0o644)
}

/// What is in a folder, by name.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}
