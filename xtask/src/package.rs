//! Everything that is installed, made into `target/package`: archives, .deb, .rpm, the container's
//! context, the Helm chart, the Homebrew formula, notices, the list of components, checksums.
//!
//! Each thing that holds a program is started once before it counts as made, and stopped, and
//! started again on its data. What this machine can't make is said, with the reason.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};
use toml::Table;

mod archive;
mod boot;
mod container;
mod debian;
mod program;
mod rpm;
mod sbom;
pub(crate) mod targets;
mod texts;
mod tree;
mod unit;

use program::{Program, System};

/// Options of `package`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pack this program instead of building any: the bounded check of CI.
    #[arg(long, value_name = "PROGRAM")]
    fast: Option<PathBuf>,
    /// Who answers for the packages, as their metadata says it.
    #[arg(long, default_value = "The Hermod maintainers <maintainers@hermod.invalid>")]
    maintainer: String,
    /// Where releases are published: the Homebrew formula needs it.
    #[arg(long, value_name = "URL")]
    homepage: Option<String>,
}

/// What all steps need to know.
pub(crate) struct Job {
    root: PathBuf,
    /// Where the artefacts go.
    output: PathBuf,
    /// Where steps put what is not an artefact; removed at the end.
    work: PathBuf,
    version: String,
    maintainer: String,
    /// The time of the commit, in seconds of the epoch, which all files of an artefact have.
    time: String,
}

/// What came of a step.
pub(crate) enum Outcome {
    /// It is there, with a remark on it.
    Made(PathBuf, String),
    /// It can't be made here, for this reason.
    Left(&'static str, String),
}

/// Makes and starts all of it, and prints what is there.
///
/// # Errors
/// When something that can be made here is not made, or does not start.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let job = Job::new(root, options)?;
    texts::check(root)?;
    let programs = match &options.fast {
        Some(program) => vec![Program::given(&job, program)?],
        None => program::build_all(&job)?,
    };
    let mut outcomes = Vec::new();
    for program in &programs {
        outcomes.push(archive::make(&job, program)?);
    }
    if let Some(packed) = programs.iter().find(|program| !program.is_static).or(programs.first()) {
        let tree = tree::lay_out(&job, packed)?;
        outcomes.push(unit::check(&job, &tree)?);
        outcomes.push(debian::make(&job, packed, &tree)?);
        outcomes.push(rpm::make(&job, packed, &tree)?);
    }
    if let Some(packed) = programs.iter().find(|program| program.is_static).or(programs.first()) {
        outcomes.push(container::make(&job, packed)?);
    }
    outcomes.push(archive::helm(&job)?);
    outcomes.push(archive::formula(&job, options.homepage.as_deref())?);
    outcomes.push(sbom::make(&job)?);
    outcomes.extend(System::ALL.iter().filter_map(|system| system.left(&programs)));
    std::fs::remove_dir_all(&job.work).map_err(|error| format!("{}: {error}", job.work.display()))?;
    report(&job, &outcomes)
}

impl Job {
    fn new(root: &Path, options: &Options) -> Result<Self, String> {
        let manifest = text(&root.join("Cargo.toml"))?;
        let manifest: Table = manifest.parse().map_err(|error| format!("Cargo.toml: {error}"))?;
        let version = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
        let version = version.and_then(|package| package.get("version")).and_then(|version| version.as_str());
        let version = version.ok_or("Cargo.toml: there is no workspace.package.version")?;
        let output = crate::interop::server::target_folder(root).join("package");
        let output = std::path::absolute(&output).map_err(|error| format!("{}: {error}", output.display()))?;
        let work = output.join("work");
        if output.exists() {
            std::fs::remove_dir_all(&output).map_err(|error| format!("{}: {error}", output.display()))?;
        }
        folder(&work)?;
        let time = capture(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root));
        Ok(Self {
            root: root.to_owned(),
            output,
            work,
            version: version.to_owned(),
            maintainer: options.maintainer.clone(),
            // Outside a clone, as in the source of a release, all files are of the epoch.
            time: time.map_or_else(|_| "0".to_owned(), |time| time.trim().to_owned()),
        })
    }

    /// A file of `packaging/`.
    fn source(&self, path: &str) -> PathBuf {
        self.root.join("packaging").join(path)
    }
}

/// Writes the checksums of all artefacts, and prints these.
fn report(job: &Job, outcomes: &[Outcome]) -> Result<(), String> {
    let mut sums = String::new();
    let mut left = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Made(path, remark) if path.is_file() => {
                let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                sums += &format!("{sum}  {name}\n");
                println!("{name}: {} KiB; {remark}", bytes.len() / 1024);
            }
            Outcome::Made(path, remark) => {
                println!("{}: {remark}", path.file_name().unwrap_or_default().to_string_lossy());
            }
            Outcome::Left(what, why) => left.push(format!("{what}: not made: {why}")),
        }
    }
    left.iter().for_each(|line| println!("{line}"));
    write(&job.output.join("SHA256SUMS"), &sums)?;
    println!("all in {}", job.output.display());
    Ok(())
}

/// Whether a program is there to be run.
fn is_there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

/// The target that programs are built for when none is named.
fn host() -> Result<String, String> {
    let about = capture(Command::new("rustc").arg("-vV"))?;
    Ok(about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or("unknown").to_owned())
}

/// Runs a command to its end, and returns what it prints.
fn capture(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    Err(format!(
        "{name} {} ended with {}:\n{}{}",
        arguments.join(" "),
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    ))
}

fn text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    path.parent().map_or(Ok(()), folder)?;
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    to.parent().map_or(Ok(()), folder)?;
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

fn folder(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Sets the permissions of a file, where there are such.
fn allow(path: &Path, mode: u32) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, permissions).map_err(|error| format!("{}: {error}", path.display()))
    }
    #[cfg(not(unix))]
    {
        let _ = mode;
        path.exists().then_some(()).ok_or_else(|| format!("there is no {}", path.display()))
    }
}
