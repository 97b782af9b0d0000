//! Where peers live: one directory with their software, root trees, data, logs, and notes of what
//! runs. Nothing is written outside it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use bench_record::failure::{Context, Failure};
use bench_record::statistics::random::mix;

/// Names the directory for all verbs, and for targets that are peers.
const VARIABLE: &str = "HERMOD_BENCH_PEERS";

/// The first port that a peer may get, unless an option says otherwise.
const FIRST_PORT: u16 = 21_000;
/// Beginnings that directories have, and the ports between two of them: below those that systems
/// give to clients.
const SHARES: u64 = 360;
const PORTS_OF_A_SHARE: u16 = 32;

/// The directory of all peers.
#[derive(Debug, Clone)]
pub(crate) struct PeersDirectory {
    root: PathBuf,
}

impl PeersDirectory {
    /// `dir`, or the one that the environment names, or one in the user's cache.
    pub(crate) fn find(dir: Option<&Path>) -> Result<Self, Failure> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        let root = dir
            .map(Path::to_path_buf)
            .or_else(|| variable(VARIABLE))
            .or_else(|| Some(cache()?.join("hermod-bench/peers")))
            .ok_or_else(|| Failure::new(format!("there is no home directory; name one with --dir or {VARIABLE}")))?;
        fs::create_dir_all(&root).context(root.display())?;
        let root = root.canonicalize().context(root.display())?;
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Descriptions of further peers.
    pub(crate) fn recipes(&self) -> PathBuf {
        self.root.join("recipes")
    }

    /// Unpacked software called `name`.
    pub(crate) fn software(&self, name: &str) -> PathBuf {
        self.root.join("software").join(name)
    }

    /// The root tree of a Debian suite.
    pub(crate) fn tree(&self, suite: &str) -> PathBuf {
        self.root.join("trees").join(suite)
    }

    /// Configuration and data of a running instance.
    pub(crate) fn data(&self, instance: &str) -> PathBuf {
        self.root.join("data").join(instance)
    }

    /// What an instance, or an installation, says.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.root.join("log").join(format!("{name}.log"))
    }

    /// What is known of a running instance.
    pub(crate) fn note(&self, instance: &str) -> PathBuf {
        self.notes().join(format!("{instance}.json"))
    }

    /// The folder of all such notes.
    pub(crate) fn notes(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Where the search for free ports begins. Each directory has a beginning of its own, because a
    /// port that is free may be taken by a peer of another directory before ours listens on it.
    pub(crate) fn port_base(&self) -> u16 {
        let bytes = self.root.as_os_str().as_encoded_bytes();
        let number = bytes.iter().fold(0, |state, byte| mix(state ^ u64::from(*byte)));
        FIRST_PORT + (number % SHARES) as u16 * PORTS_OF_A_SHARE
    }

    /// Keeps other programs from doing `what` here until the returned file is closed.
    pub(crate) fn lock(&self, what: &str) -> Result<File, Failure> {
        let path = self.root.join(format!("{what}.lock"));
        let file = File::create(&path).context(path.display())?;
        file.lock().context(path.display())?;
        Ok(file)
    }

    /// Keeps other runs from measuring `instance` until the returned file is closed: they would
    /// freeze it, and load it too.
    pub(crate) fn claim(&self, instance: &str) -> Result<File, Failure> {
        let path = self.root.join(format!("{instance}.lock"));
        let file = File::create(&path).context(path.display())?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::Error(error)) => Err(error).context(path.display()),
            Err(TryLockError::WouldBlock) => Err(Failure::new(format!(
                "{instance} is being measured by another run, which both would spoil: wait for its end, or name another directory with {VARIABLE}"
            ))),
        }
    }
}

/// A new file at `path`, whose folder is made if it is missing.
pub(crate) fn create(path: &Path) -> Result<File, Failure> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context(folder.display())?;
    }
    File::create(path).context(path.display())
}

/// Removes a directory with all that is in it; one that is not there is fine.
pub(crate) fn remove(dir: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context(dir.display()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_begin_at_ports_of_their_own_that_systems_give_to_no_client() {
        let dirs: Vec<_> = (0..8).map(|_| tempfile::tempdir().unwrap()).collect();
        let places: Vec<PeersDirectory> =
            dirs.iter().map(|dir| PeersDirectory::find(Some(dir.path())).unwrap()).collect();
        let bases: Vec<u16> = places.iter().map(PeersDirectory::port_base).collect();
        assert_eq!(bases, places.iter().map(PeersDirectory::port_base).collect::<Vec<_>>());
        assert!(bases.iter().all(|base| (21_000..32_768).contains(base)), "{bases:?}");
        assert!(bases.iter().any(|base| *base != bases[0]), "{bases:?}");
    }
}
