//! The .deb: made by `dpkg-deb`, installed by `dpkg` into a root folder, started there, and removed
//! again, after which the data must still be there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::boot::{Installed, twice};
use super::program::Program;
use super::{Job, Outcome, allow, capture, copy, folder, is_there, text, write};

const NAME: &str = "Debian package";
/// The scripts of the package.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Makes it and tries it.
pub(super) fn make(job: &Job, program: &Program, tree: &Path) -> Result<Outcome, String> {
    if !is_there("dpkg-deb") {
        return Ok(Outcome::Left(NAME, "there is no dpkg-deb".to_owned()));
    }
    let package = build(job, program, tree)?;
    let remark =
        if program.runs_here() { try_out(job, &package)? } else { "not started: for another system".to_owned() };
    Ok(Outcome::Made(package, remark))
}

fn build(job: &Job, program: &Program, tree: &Path) -> Result<PathBuf, String> {
    let control = tree.join("DEBIAN");
    folder(&control)?;
    let architecture = if program.system.starts_with("x86_64") { "amd64" } else { "arm64" };
    let size = capture(Command::new("du").args(["-sk", "--apparent-size"]).arg(tree))?;
    let fields = text(&job.source("debian/control"))?
        .replace("@VERSION@", &job.version)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@MAINTAINER@", &job.maintainer)
        .replace("@SIZE@", size.split_whitespace().next().unwrap_or("0"))
        .replace("@DEPENDS@", &depends(program)?);
    write(&control.join("control"), &without_empty(&fields))?;
    copy(&job.source("debian/conffiles"), &control.join("conffiles"))?;
    for script in SCRIPTS {
        copy(&job.source("debian").join(script), &control.join(script))?;
        allow(&control.join(script), 0o755)?;
    }
    let package = job.output.join(format!("hermod_{}_{architecture}.deb", job.version));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(tree).arg(&package).env("SOURCE_DATE_EPOCH", &job.time);
    capture(&mut build)?;
    std::fs::remove_dir_all(&control).map_err(|error| format!("{}: {error}", control.display()))?;
    Ok(package)
}

/// The C library that the program was linked with, at least.
fn depends(program: &Program) -> Result<String, String> {
    if program.is_static {
        return Ok(String::new());
    }
    let symbols = capture(Command::new("objdump").arg("-T").arg(&program.path))?;
    Ok(newest_glibc(&symbols)
        .map_or_else(String::new, |(major, minor)| format!("libc6 (>= {major}.{minor}), libgcc-s1")))
}

/// The newest version of the C library whose symbols a table has.
fn newest_glibc(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let version = rest.split(|sign: char| !sign.is_ascii_digit() && sign != '.').next()?;
        let mut parts = version.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    });
    versions.max()
}

fn without_empty(fields: &str) -> String {
    fields.lines().filter(|line| !line.ends_with(": ")).flat_map(|line| [line, "\n"]).collect()
}

/// Installs it into a root folder, starts it there, and removes it.
fn try_out(job: &Job, package: &Path) -> Result<String, String> {
    let root = job.work.join("debian-root");
    folder(&root.join("var/lib/dpkg/info"))?;
    folder(&root.join("var/lib/dpkg/updates"))?;
    write(&root.join("var/lib/dpkg/status"), "")?;
    let dpkg = |arguments: &[&str]| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display())).args(["--force-script-chrootless", "--force-depends"]);
        dpkg.arg("--force-not-root").args(arguments);
        capture(&mut dpkg)
    };
    dpkg(&["--install", &package.display().to_string()])?;
    let (settings, data) = (root.join("etc/hermod/hermod.toml"), root.join("var/lib/hermod"));
    let mut installed = Installed::plain(&root.join("usr/bin/hermod"), &data);
    installed.flags.push(format!("--config={}", settings.display()));
    installed.log = job.work.join("debian.log");
    let took = twice(&installed)?;
    dpkg(&["--remove", "hermod"])?;
    expect(&root, &[("usr/bin/hermod", false), ("etc/hermod/hermod.toml", true), ("var/lib/hermod/FORMAT", true)])?;
    dpkg(&["--install", &package.display().to_string()])?;
    dpkg(&["--purge", "hermod"])?;
    expect(&root, &[("etc/hermod/hermod.toml", false), ("var/lib/hermod/FORMAT", true)])?;
    Ok(format!("installed, {took}, removed and purged: the data stays"))
}

/// Checks which files are there.
pub(super) fn expect(root: &Path, files: &[(&str, bool)]) -> Result<(), String> {
    let wrong = files.iter().find(|(file, there)| root.join(file).exists() != *there);
    match wrong {
        None => Ok(()),
        Some((file, true)) => Err(format!("{file} is gone")),
        Some((file, false)) => Err(format!("{file} is still there")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_c_library_counts_by_number() {
        let table = "f (GLIBC_2.9) a\n g (GLIBC_2.34) b\n h GLIBC_2.2.5 c\n i GLIBC_PRIVATE";
        assert_eq!(newest_glibc(table), Some((2, 34)));
        assert_eq!(newest_glibc("nothing"), None);
    }

    #[test]
    fn a_field_without_a_value_is_left_out() {
        assert_eq!(without_empty("A: 1\nDepends: \n text\n"), "A: 1\n text\n");
    }
}
