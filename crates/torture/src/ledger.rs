//! The ledgers in docs/ledger: pages whose last lines are a table with a row for each run that is
//! worth keeping.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Appends a row to the `page`, which is named from the workspace's root.
pub(crate) fn append(root: &Path, page: &str, row: &str) -> Result<(), String> {
    let path = root.join(page);
    let file = std::fs::File::options().append(true).open(&path);
    file.and_then(|mut file| writeln!(file, "{row}"))
        .map_err(|error| format!("cannot write to {}: {error}", path.display()))
}

/// The commit that is checked out; a plus says that the sources have been changed since.
pub(crate) fn commit(root: &Path) -> Result<String, String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output();
        let output = output.map_err(|error| format!("cannot run git: {error}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let name = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.lock"])?;
    Ok(if changed.is_empty() { name } else { format!("{name}+") })
}

/// The date of today, in UTC.
pub(crate) fn today() -> String {
    jiff::Timestamp::now().strftime("%F").to_string()
}
