//! The .rpm: made by `rpmbuild`, installed by `rpm` into a root folder, started there, and erased
//! again, after which the data must still be there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::boot::{Installed, twice};
use super::debian::expect;
use super::program::Program;
use super::{Job, Outcome, capture, folder, is_there};

const NAME: &str = "RPM package";

/// Makes it and tries it.
pub(super) fn make(job: &Job, program: &Program, tree: &Path) -> Result<Outcome, String> {
    if !is_there("rpmbuild") {
        return Ok(Outcome::Left(NAME, "there is no rpmbuild".to_owned()));
    }
    let package = build(job, program, tree)?;
    let remark =
        if program.runs_here() { try_out(job, &package)? } else { "not started: for another system".to_owned() };
    Ok(Outcome::Made(package, remark))
}

fn build(job: &Job, program: &Program, tree: &Path) -> Result<PathBuf, String> {
    let architecture = program.system.split('-').next().unwrap_or("noarch");
    let top = job.work.join("rpm");
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", architecture]);
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("_rpmdir", job.output.display().to_string()),
        ("_build_name_fmt", "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm".to_owned()),
        ("_buildhost", "localhost".to_owned()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
        ("packager", job.maintainer.clone()),
        ("hermod_version", job.version.clone()),
        ("hermod_tree", tree.display().to_string()),
    ] {
        build.arg("--define").arg(format!("{name} {value}"));
    }
    capture(build.arg(job.source("rpm/hermod.spec")).env("SOURCE_DATE_EPOCH", &job.time))?;
    Ok(job.output.join(format!("hermod-{}-1.{architecture}.rpm", job.version)))
}

/// Installs it into a root folder, starts it there, and erases it. Its scripts would need a shell
/// in that folder, so they are only parsed.
fn try_out(job: &Job, package: &Path) -> Result<String, String> {
    let root = job.work.join("rpm-root");
    folder(&root)?;
    let rpm = |arguments: &[&str]| {
        capture(
            Command::new("rpm")
                .args(["--root", &root.display().to_string(), "--nodeps", "--noscripts"])
                .args(arguments),
        )
    };
    rpm(&["--install", "--nosignature", "--ignorearch", &package.display().to_string()])?;
    let (settings, data) = (root.join("etc/hermod/hermod.toml"), root.join("var/lib/hermod"));
    let mut installed = Installed::plain(&root.join("usr/bin/hermod"), &data);
    installed.flags.push(format!("--config={}", settings.display()));
    installed.log = job.work.join("rpm.log");
    let took = twice(&installed)?;
    rpm(&["--erase", "hermod"])?;
    expect(&root, &[("usr/bin/hermod", false), ("var/lib/hermod/FORMAT", true)])?;
    Ok(format!("installed, {took}, erased: the data stays"))
}
