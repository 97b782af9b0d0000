//! Makes a release from a clean clone: what must agree agrees, all checks of CI pass there, and the
//! artefacts are made there. It publishes nothing: the last line says which commands do.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::interop::server::{call, target_folder};

/// Options of `release`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The version, as Cargo.toml has it.
    version: String,
    /// Only say what is in the way: no clone, no checks, no artefacts.
    #[arg(long)]
    dry_run: bool,
}

/// Makes the release of `options`.
///
/// # Errors
/// Lists everything that is in the way, or what failed in the clone.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let version = &options.version;
    let mut wrong = contradictions(version, &Texts::read(root)?);
    if !git(root, &["status", "--porcelain"])?.is_empty() {
        wrong.push("the work tree has changes that are not committed".to_owned());
    }
    if !git(root, &["tag", "--list", &format!("v{version}")])?.is_empty() {
        wrong.push(format!("there is a tag v{version}"));
    }
    if !wrong.is_empty() {
        return Err(format!("{version} cannot be released:\n  {}", wrong.join("\n  ")));
    }
    if options.dry_run {
        println!("nothing is in the way of {version}; without --dry-run it is cloned, checked and packed");
        return Ok(());
    }
    let clone = clone(root)?;
    for arguments in [&["bash", ".ci/run"][..], &["cargo", "xtask", "package"]] {
        call(Command::new(arguments[0]).args(&arguments[1..]).current_dir(&clone), "CONTRIBUTING.md")?;
    }
    println!("{version} is in {}; to publish it:", clone.join("target/package").display());
    println!("  git tag --sign v{version} && git push --tags, and upload these files with SHA256SUMS");
    Ok(())
}

/// A clone of the commit, in an empty folder.
fn clone(root: &Path) -> Result<PathBuf, String> {
    let clone = target_folder(root).join("release-clone");
    if clone.exists() {
        std::fs::remove_dir_all(&clone).map_err(|error| format!("{}: {error}", clone.display()))?;
    }
    call(Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(root).arg(&clone), "CONTRIBUTING.md")?;
    Ok(clone)
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The files that name the version.
struct Texts {
    manifest: String,
    lock: String,
    changelog: String,
    chart: String,
}

impl Texts {
    fn read(root: &Path) -> Result<Self, String> {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));
        Ok(Self {
            manifest: read("Cargo.toml")?,
            lock: read("Cargo.lock")?,
            changelog: read("CHANGELOG.md")?,
            chart: read("packaging/helm/hermod/Chart.yaml")?,
        })
    }
}

/// What contradicts this version, a line each.
fn contradictions(version: &str, texts: &Texts) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    let numbers: Vec<_> = version.split('.').map(str::parse::<u32>).collect();
    must(numbers.len() == 3 && numbers.iter().all(Result::is_ok), format!("{version} is not three numbers"));
    let line = format!("version = \"{version}\"");
    must(
        texts.manifest.lines().any(|one| one == line),
        format!("Cargo.toml: workspace.package.version is not {version}"),
    );
    let locked = format!("name = \"hermod\"\n{line}");
    must(texts.lock.contains(&locked), format!("Cargo.lock: hermod is not {version}; run cargo check"));
    let heading = texts.changelog.lines().find_map(|one| one.strip_prefix(&format!("## {version} ")));
    let dated = heading.is_some_and(|rest| is_date(rest.trim_matches(['(', ')'])));
    must(dated, format!("CHANGELOG.md: there is no heading \"## {version} (YYYY-MM-DD)\""));
    for field in ["version: ", "appVersion: "] {
        let field = texts.chart.lines().find_map(|one| one.strip_prefix(field)).unwrap_or_default().trim_matches('"');
        must(field == version, format!("packaging/helm/hermod/Chart.yaml: a version is {field}"));
    }
    wrong
}

fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let digits = |part: &&str, length: usize| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(&parts[..], [year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(changelog: &str, chart: &str) -> Texts {
        Texts {
            manifest: "[workspace.package]\nversion = \"0.1.0\"\n".to_owned(),
            lock: "name = \"hermod\"\nversion = \"0.1.0\"\n".to_owned(),
            changelog: format!("# Changelog\n\n## {changelog}\n"),
            chart: format!("version: {chart}\nappVersion: \"{chart}\"\n"),
        }
    }

    #[test]
    fn a_release_needs_one_version_everywhere_and_a_date() {
        assert_eq!(contradictions("0.1.0", &texts("0.1.0 (2026-11-28)", "0.1.0")), Vec::<String>::new());
        for (version, changelog, chart, count) in [
            ("0.1.0", "0.1.0 (unreleased)", "0.1.0", 1),
            ("0.1.0", "0.1.0 (2026-11-28)", "0.2.0", 2),
            ("0.2.0", "0.1.0 (2026-11-28)", "0.1.0", 5),
            ("0.1", "0.1.0 (2026-11-28)", "0.1.0", 6),
        ] {
            assert_eq!(contradictions(version, &texts(changelog, chart)).len(), count, "{version} {changelog} {chart}");
        }
    }

    #[test]
    fn the_tree_contradicts_itself_in_nothing_but_the_date() {
        let wrong = contradictions(env!("CARGO_PKG_VERSION"), &Texts::read(&crate::root().unwrap()).unwrap());
        assert!(wrong.iter().all(|line| line.contains("CHANGELOG.md")), "{wrong:?}");
    }
}
