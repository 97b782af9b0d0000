//! File systems that a fault brings along: mounted for one run and gone with it, whatever happens.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Stop;

/// Bytes written at once to fill a file system.
const PIECE: usize = 1 << 20;

/// A mounted file system. Dropping it unmounts it.
#[derive(Debug)]
pub(super) struct Mount {
    at: PathBuf,
}

impl Mount {
    /// An empty tmpfs of so many bytes.
    pub(super) fn tmpfs(at: &Path, bytes: u64) -> Result<Self, Stop> {
        create(at)?;
        mount(at, &["-t", "tmpfs", "-o", &format!("size={bytes},mode=700"), "hermod-fault"])
    }

    /// An empty ext4 file system in the file `image`, of so many bytes.
    pub(super) fn new_ext4(image: &Path, at: &Path, bytes: u64) -> Result<Self, Stop> {
        let file = File::create(image).and_then(|file| file.set_len(bytes));
        file.map_err(|error| format!("cannot create {}: {error}", image.display()))?;
        run("mkfs.ext4", &["-q", "-F", &image.to_string_lossy()]).map_err(Stop::Skipped)?;
        Self::ext4(image, at)
    }

    /// The ext4 file system in the file `image`.
    pub(super) fn ext4(image: &Path, at: &Path) -> Result<Self, Stop> {
        create(at)?;
        mount(at, &["-t", "ext4", "-o", "loop", &image.to_string_lossy()])
    }
}

impl Mount {
    /// Makes an ext4 file system treat itself as damaged: from now on it takes no writes.
    pub(super) fn abort(&self) -> Result<(), String> {
        run("mount", &["-o", "remount,abort", &self.at.to_string_lossy()]).map(drop)
    }

    /// It is not mounted any more.
    pub(super) fn forget(mut self) {
        self.at = PathBuf::new();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.at.as_os_str().is_empty() {
            return;
        }
        let at = self.at.to_string_lossy();
        if let Err(error) = run("umount", &[&at])
            && let Err(worse) = run("umount", &["-l", &at])
        {
            eprintln!("{at} stays mounted: {error}; {worse}");
        }
    }
}

fn create(at: &Path) -> Result<(), String> {
    std::fs::create_dir_all(at).map_err(|error| format!("cannot create {}: {error}", at.display()))
}

/// Mounts at `at`; where that is not permitted, the fault is skipped.
fn mount(at: &Path, arguments: &[&str]) -> Result<Mount, Stop> {
    let place = at.to_string_lossy();
    let arguments: Vec<&str> = arguments.iter().copied().chain([place.as_ref()]).collect();
    run("mount", &arguments).map_err(Stop::Skipped)?;
    Ok(Mount { at: at.to_path_buf() })
}

/// Runs a program of the system to its end.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{program} {}` failed: {}", arguments.join(" "), errors.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes to a new file at `path` until its file system takes no more. Returns how much it took.
pub(super) fn fill(path: &Path) -> Result<u64, String> {
    let mut file = File::create(path).map_err(|error| format!("cannot create {}: {error}", path.display()))?;
    let piece = vec![0x5a; PIECE];
    let mut taken = 0;
    // Smaller pieces find the room that is too small for a large one.
    for size in [PIECE, 4096, 1] {
        loop {
            match file.write(&piece[..size]) {
                Ok(count) => taken += count as u64,
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                Err(error) => return Err(format!("cannot write to {}: {error}", path.display())),
            }
        }
        // What the page cache took may still find no room.
        if let Err(error) = file.sync_data()
            && error.kind() != std::io::ErrorKind::StorageFull
        {
            return Err(format!("cannot flush {}: {error}", path.display()));
        }
    }
    Ok(taken)
}
