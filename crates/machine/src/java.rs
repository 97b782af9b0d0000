//! The Java machines that are installed here, by their versions.

use std::fs;
use std::path::{Path, PathBuf};

use bench_record::failure::Failure;

/// The home of a Java of version `least` or newer: the one in the search path, or one installed
/// beside it.
pub fn home(least: u32) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let programs = std::env::split_paths(&path).map(|dir| dir.join(program()));
    let own = programs
        .filter_map(|java| java.canonicalize().ok())
        .find_map(|java| Some(java.parent()?.parent()?.to_path_buf()));
    let beside = own.as_ref().and_then(|home| home.parent()).and_then(|dir| fs::read_dir(dir).ok());
    let homes = own.iter().cloned().chain(beside.into_iter().flatten().flatten().map(|entry| entry.path()));
    let enough = |home: &PathBuf| {
        let release = fs::read_to_string(home.join("release")).unwrap_or_default();
        java_version(&release).is_some_and(|version| version >= least) && program_in(home).is_file()
    };
    homes.into_iter().find(enough).ok_or_else(|| {
        Failure::new(format!(
            "Java {least} or newer is needed and not found in the search path or beside it; install a JDK"
        ))
    })
}

/// The feature version in a JDK's `release` file.
fn java_version(release: &str) -> Option<u32> {
    let text = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    let mut numbers = text.split(|letter: char| !letter.is_ascii_digit());
    let first = numbers.next()?.parse().ok()?;
    // Up to 8 it was called 1.8.
    if first == 1 { numbers.next()?.parse().ok() } else { Some(first) }
}

/// The program of the Java machine in `home`.
pub fn program_in(home: &Path) -> PathBuf {
    home.join("bin").join(program())
}

fn program() -> String {
    format!("java{}", std::env::consts::EXE_SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_machines_write_them() {
        let cases = [("JAVA_VERSION=\"17.0.15\"", Some(17)), ("X=1\nJAVA_VERSION=\"1.8.0_4\"\n", Some(8)), ("", None)];
        for (release, version) in cases {
            assert_eq!(java_version(release), version);
        }
    }
}
