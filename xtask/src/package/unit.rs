//! The systemd unit, as systemd reads it: it must have no fault, and expose little.

use std::path::Path;
use std::process::Command;

use super::{Job, Outcome, capture, is_there, text, write};

const NAME: &str = "systemd unit";
/// The most that `systemd-analyze security` may say, in tenths: 0 is none, 100 all.
const EXPOSURE: &str = "20";

/// Checks the unit of the tree.
pub(super) fn check(job: &Job, tree: &Path) -> Result<Outcome, String> {
    if !is_there("systemd-analyze") {
        return Ok(Outcome::Left(NAME, "there is no systemd-analyze to check it".to_owned()));
    }
    let program = tree.join("usr/bin/hermod");
    let unit = text(&tree.join("usr/lib/systemd/system/hermod.service"))?;
    // A unit is verified with its program, which is in the tree.
    let unit = unit
        .replace("/usr/bin/hermod", &program.display().to_string())
        .replace("man:hermod(1) man:hermod-serve(1)", "");
    let place = job.work.join("hermod.service");
    write(&place, &unit.replace("Documentation=\n", ""))?;
    capture(Command::new("systemd-analyze").arg("verify").arg(&place))?;
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager", &format!("--threshold={EXPOSURE}")]);
    let said = capture(security.arg(&place))?;
    let level = said.lines().find(|line| line.contains("Overall exposure level")).unwrap_or_default();
    let level = level.split(": ").nth(1).unwrap_or("unknown").trim().to_owned();
    Ok(Outcome::Made(place, format!("verified; exposure {level}")))
}
