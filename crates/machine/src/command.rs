//! Running other programs: to their end, with all they say in a log, or in the background. Inside a
//! Debian root tree a command sees the peer's directory as `/peer` and nothing of the machine's
//! files beside `/proc` and `/dev`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bench_record::failure::{Context, Failure};

/// Lines of a log that a failure shows.
const LAST_LINES: usize = 8;
/// What a peer's directory is called inside a root tree.
pub const INSIDE: &str = "/peer";
/// Where programs are inside a root tree.
const INSIDE_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Enters a root tree: its mounts are seen by the command alone, and gone when it ends. `exec`
/// keeps the process id.
const ENTER: &str = r#"mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && mkdir -p "$0/peer" &&
    mount --bind "$1" "$0/peer" && root=$0 && shift && exec chroot "$root" "$@""#;

/// A root tree, and the directory that is `/peer` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// The tree.
    pub tree: PathBuf,
    /// The peer's directory.
    pub peer: PathBuf,
}

/// A command with its environment.
#[derive(Debug)]
pub struct CommandLine {
    words: Vec<String>,
    env: BTreeMap<String, String>,
    inside: Option<Inside>,
}

impl CommandLine {
    /// A command of the machine; `words` starts with the program.
    pub fn new<T: Into<String>>(words: impl IntoIterator<Item = T>) -> Self {
        Self { words: words.into_iter().map(Into::into).collect(), env: BTreeMap::new(), inside: None }
    }

    /// The same with further variables in its environment.
    pub fn env(mut self, env: BTreeMap<String, String>) -> Self {
        self.env.extend(env);
        self
    }

    /// The same in a root tree.
    pub fn inside(mut self, inside: Option<Inside>) -> Self {
        self.inside = inside;
        self
    }

    fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    fn command(&self) -> Command {
        let Some(inside) = &self.inside else {
            let mut command = Command::new(self.program());
            command.args(self.words.iter().skip(1)).envs(&self.env);
            return command;
        };
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", ENTER]);
        command.arg(&inside.tree).arg(&inside.peer).args(&self.words);
        command.env_clear().env("PATH", INSIDE_PATH).env("HOME", INSIDE).env("LANG", "C.UTF-8").envs(&self.env);
        command
    }

    /// Starts it in the background, in a process group of its own so that Ctrl-C does not reach it.
    /// What it says goes to the end of `log`.
    pub fn start(&self, log: &Path) -> Result<Child, Failure> {
        let out = append(log)?;
        let mut command = self.command();
        // Not where this program was started: that may vanish while a peer runs.
        command.current_dir("/").stdin(Stdio::null()).stdout(out.try_clone().context(log.display())?).stderr(out);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn().map_err(|error| self.not_started(&error))
    }

    /// Runs it to its end; what it says goes to the end of `log`.
    pub fn run(&self, log: &Path) -> Result<(), Failure> {
        let status = self.start(log)?.wait().context(self.program())?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("{} failed ({status}){}", self.program(), last_lines(log))))
    }

    /// Runs it to its end and returns what it printed.
    pub fn output(&self) -> Result<String, Failure> {
        let done = self.command().stdin(Stdio::null()).output().map_err(|error| self.not_started(&error))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(Failure::new(format!("{} failed ({}): {}", self.program(), done.status, said.trim())));
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    }

    fn not_started(&self, error: &std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::NotFound {
            let program = if self.inside.is_some() { "unshare" } else { self.program() };
            return Failure::new(format!("{program} is missing on this machine: install it and try again"));
        }
        Failure::new(format!("{}: {error}", self.program()))
    }
}

fn append(log: &Path) -> Result<File, Failure> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder).context(folder.display())?;
    }
    OpenOptions::new().create(true).append(true).open(log).context(log.display())
}

/// The end of a log, for a failure.
pub fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    format!("; the end of {}:\n  {}", log.display(), lines[from..].join("\n  "))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn failures_show_what_was_said_and_missing_programs_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a/log");
        let env = BTreeMap::from([("WHAT".to_owned(), "disk full".to_owned())]);
        let failure = CommandLine::new(["sh", "-c", "echo $WHAT; exit 3"]).env(env).run(&log).unwrap_err().to_string();
        assert!(failure.contains("sh failed") && failure.contains("disk full"), "{failure}");
        let failure = CommandLine::new(["no-such-program-here"]).run(&log).unwrap_err().to_string();
        assert!(failure.contains("no-such-program-here is missing"), "{failure}");
        assert_eq!(CommandLine::new(["printf", "a b\n"]).output().unwrap(), "a b");
    }
}
