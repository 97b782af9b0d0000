//! The copy of a running broker's data directory: its target and its progress. The journal makes
//! the copy a piece at a time. So a copy of any size takes little memory, and can end at any
//! moment.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Broker;
use journal::{Backup, BackupError, RealDisk};
use management::BackupRow;

/// How often the log reports the progress of a copy.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Copies the data directory `data` of `broker` to `to`, an absolute path, while `wanted` is true.
/// An error is one line for the operator.
pub(crate) fn run(broker: &Broker, data: &Path, to: &Path, wanted: &dyn Fn() -> bool) -> Result<BackupRow, String> {
    let shown = to.display();
    let failed = |error: &dyn std::fmt::Display| format!("{shown}: {error}");
    let started = Instant::now();
    apart(data, to).map_err(|error| failed(&error))?;
    let disk = RealDisk::open(to).map_err(|error| failed(&error))?;
    let mut backup = broker.backup(Arc::new(disk)).map_err(|error| failed(&error))?;
    tracing::info!("backup to {shown}: begun, {} bytes; nothing leaves the journal meanwhile", backup.copied().total);
    match copy(&mut backup, to, wanted) {
        Ok(()) => {}
        Err(error) => {
            tracing::warn!("backup to {shown}: {error}");
            return Err(failed(&error));
        }
    }
    let copied = backup.copied();
    let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!("backup to {shown}: done, {} files, {} bytes in {milliseconds} ms", copied.files, copied.bytes);
    Ok(BackupRow {
        directory: shown.to_string(),
        files: copied.files,
        bytes: copied.bytes,
        milliseconds,
        sequence: copied.until,
    })
}

fn copy(backup: &mut Backup, to: &Path, wanted: &dyn Fn() -> bool) -> Result<(), String> {
    let mut told = Instant::now();
    while !backup.step().map_err(|error: BackupError| error.to_string())? {
        if !wanted() {
            return Err("given up: the broker stops, or whoever asked has gone".to_owned());
        }
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            let copied = backup.copied();
            tracing::info!("backup to {}: {} of {} bytes", to.display(), copied.bytes, copied.total);
        }
    }
    Ok(())
}

/// Refuses a target inside the data directory, under whatever name.
fn apart(data: &Path, to: &Path) -> Result<(), String> {
    let data = data.canonicalize().map_err(|error| format!("the data directory {}: {error}", data.display()))?;
    if resolve(to)?.starts_with(&data) {
        return Err(format!("it lies in the data directory {}; name a directory elsewhere", data.display()));
    }
    Ok(())
}

/// The path without links. Only a part of it needs to exist.
fn resolve(path: &Path) -> Result<PathBuf, String> {
    if !path.is_absolute() || path.components().any(|component| component == Component::ParentDir) {
        return Err("name it by an absolute path without ..".to_owned());
    }
    for existing in path.ancestors() {
        if let Ok(real) = existing.canonicalize() {
            let rest = path.strip_prefix(existing).map_err(|error| error.to_string())?;
            return Ok(real.join(rest));
        }
    }
    Err("there is no such place".to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_data_directory_is_refused_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::os::unix::fs::symlink(&data, folder.path().join("link")).unwrap();
        let at = |name: &str| apart(&folder.path().join("link"), &folder.path().join(name));
        for name in ["data", "data/copy", "link/copy/deep", "link", "copy/../data"] {
            assert!(at(name).is_err(), "{name}");
        }
        for name in ["copy", "copy/deep", "data2", "dat"] {
            assert_eq!(at(name), Ok(()), "{name}");
        }
        assert!(apart(&data, Path::new("copy")).is_err());
    }
}
