//! Archives: a program with its notices, the Helm chart, and the formula that builds from source.

use std::path::Path;
use std::process::Command;

use super::boot::{Installed, twice};
use super::program::Program;
use super::{Job, Outcome, allow, capture, copy, folder, is_there, text, write};

/// What lies beside the program in each archive.
const BESIDE: [&str; 3] = ["README.md", "LICENSE", "CHANGELOG.md"];

/// The program of one system, unpacked and started.
pub(super) fn make(job: &Job, program: &Program) -> Result<Outcome, String> {
    let name = format!("hermod-{}-{}", job.version, program.system);
    let parent = job.work.join("archives");
    let content = parent.join(&name);
    let file = program.path.file_name().unwrap_or_default();
    copy(&program.path, &content.join(file))?;
    allow(&content.join(file), 0o755)?;
    for beside in BESIDE {
        copy(&job.root.join(beside), &content.join(beside))?;
    }
    copy(&job.root.join("crates/hermod/src/cli/notices.txt"), &content.join("THIRD-PARTY-NOTICES"))?;
    if program.system.contains("windows") {
        copy(&job.source("windows/README.txt"), &content.join("WINDOWS.txt"))?;
        return zip(job, &parent, &name);
    }
    if program.system.contains("linux") {
        copy(&job.source("systemd/hermod.service"), &content.join("hermod.service"))?;
        copy(&job.source("hermod.toml"), &content.join("hermod.toml"))?;
    }
    let archive = tar(job, &parent, &name)?;
    if !program.runs_here() {
        return Ok(Outcome::Made(archive, "not started: for another system".to_owned()));
    }
    let unpacked = job.work.join("unpacked").join(&program.system);
    folder(&unpacked)?;
    capture(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&unpacked))?;
    let took = twice(&Installed::plain(&unpacked.join(&name).join("hermod"), &unpacked.join("data")))?;
    let kind = if program.is_static { "static" } else { "with the system's C library" };
    let size = std::fs::metadata(&program.path).map_or(0, |file| file.len() / 1024);
    Ok(Outcome::Made(archive, format!("{kind}, {size} KiB stripped; {took}")))
}

/// The chart, as `helm package` would pack it.
pub(super) fn helm(job: &Job) -> Result<Outcome, String> {
    let chart = job.source("helm");
    let mut remark = "its values and templates agree".to_owned();
    if is_there("helm") {
        capture(Command::new("helm").args(["lint", "--strict"]).arg(chart.join("hermod")))?;
        capture(Command::new("helm").args(["template", "test"]).arg(chart.join("hermod")))?;
        remark += ", and helm lints it";
    }
    let packed = tar_of(job, &chart, "hermod", &format!("hermod-{}-chart.tgz", job.version))?;
    Ok(Outcome::Made(packed, remark))
}

/// The formula, once it is known where the source of a release is.
pub(super) fn formula(job: &Job, homepage: Option<&str>) -> Result<Outcome, String> {
    let source = job.output.join(format!("hermod-{}-source.tar.gz", job.version));
    let prefix = format!("--prefix=hermod-{}/", job.version);
    let mut archive = Command::new("git");
    archive.args(["archive", "--format=tar.gz", &prefix, "-o"]).arg(&source).arg("HEAD").current_dir(&job.root);
    if let Err(error) = capture(&mut archive) {
        return Ok(Outcome::Left("source and Homebrew formula", error));
    }
    let Some(homepage) = homepage else {
        return Ok(Outcome::Made(source, "the source; a Homebrew formula needs --homepage".to_owned()));
    };
    let sum = capture(Command::new("sha256sum").arg(&source))?;
    let formula = text(&job.source("homebrew/hermod.rb"))?
        .replace("@HOMEPAGE@", homepage)
        .replace("@VERSION@", &job.version)
        .replace("@SOURCE_SHA256@", sum.split_whitespace().next().unwrap_or_default());
    write(&job.output.join("hermod.rb"), &formula)?;
    Ok(Outcome::Made(source, "the source, with a Homebrew formula, hermod.rb, that nothing here can run".to_owned()))
}

fn tar(job: &Job, parent: &Path, name: &str) -> Result<std::path::PathBuf, String> {
    tar_of(job, parent, name, &format!("{name}.tar.gz"))
}

/// An archive of the folder `name`, the same bytes from the same files.
fn tar_of(job: &Job, parent: &Path, name: &str, file: &str) -> Result<std::path::PathBuf, String> {
    let archive = job.output.join(file);
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]);
    tar.arg(format!("--mtime=@{}", job.time)).arg("-C").arg(parent).args(["--use-compress-program=gzip -9n", "-cf"]);
    capture(tar.arg(&archive).arg(name))?;
    Ok(archive)
}

fn zip(job: &Job, parent: &Path, name: &str) -> Result<Outcome, String> {
    let archive = job.output.join(format!("{name}.zip"));
    let mut python = Command::new("python3");
    python.args(["-m", "zipfile", "-c"]).arg(&archive).arg(name).current_dir(parent);
    capture(&mut python)?;
    Ok(Outcome::Made(archive, "not started: for another system".to_owned()))
}
