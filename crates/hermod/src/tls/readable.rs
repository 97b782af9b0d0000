//! Who else can read a file with a key.
//!
//! Secrets that Kubernetes, Docker and Podman mount can be read by every user of their container,
//! and often nothing else can be set. See decision 0039.

use std::path::Path;

/// Whether users of no particular group can read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(unix), expect(dead_code, reason = "files have such modes on UNIX alone"))]
pub(super) enum Exposure {
    /// They can't: by its mode, or by that of a folder above it.
    Closed,
    /// They can, and it is a mounted secret.
    Mounted,
    /// They can.
    Open,
}

/// Where Docker and Podman mount secrets.
#[cfg(unix)]
const MOUNTS: [&str; 2] = ["/run/secrets", "/var/run/secrets"];
/// The link by which Kubernetes replaces the files of a volume at once.
#[cfg(unix)]
const VOLUME: &str = "..data";

/// What the modes of the file and of the folders above it say. A file that does not exist is
/// closed: reading it says so.
#[cfg(unix)]
pub(super) fn exposure(path: &Path) -> Exposure {
    use std::os::unix::fs::PermissionsExt;

    let Ok(real) = path.canonicalize() else { return Exposure::Closed };
    let allows =
        |path: &Path, bits: u32| std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & bits != 0);
    let can_reach = real.ancestors().skip(1).all(|folder| allows(folder, 0o001));
    if !can_reach || !allows(&real, 0o004) {
        return Exposure::Closed;
    }
    let is_volume = std::fs::read_link(path).is_ok_and(|target| target.starts_with(VOLUME));
    let is_mount = MOUNTS.iter().any(|mount| path.starts_with(mount) || real.starts_with(mount));
    if is_volume || is_mount { Exposure::Mounted } else { Exposure::Open }
}

/// Other systems have no such modes.
#[cfg(not(unix))]
pub(super) fn exposure(_: &Path) -> Exposure {
    Exposure::Closed
}
