//! Lints the programs for each system that a release is for, so that a part which no other build
//! compiles is compiled somewhere.
//!
//! Nothing is linked or run. So the C compiler of a system is not needed: `true` stands for it, and
//! the parts in C are taken as they are.

use std::path::Path;
use std::process::Command;

use super::program::System;

/// The programs that are installed on all systems.
const PROGRAMS: [&str; 4] = ["--package", "hermod", "--package", "bench"];

/// Lints for all systems but this one whose standard library is here, and names the others.
///
/// # Errors
/// When a program does not compile for a system, or has a warning there.
pub(crate) fn lint(root: &Path) -> Result<(), String> {
    let here = super::host()?;
    // Any other lint is for this one.
    for system in System::ALL.iter().filter(|system| system.target != here) {
        let target = system.target;
        match system.no_library() {
            Some(why) => println!("{target}: not checked: {why}"),
            None => lint_for(root, target)?,
        }
    }
    Ok(())
}

fn lint_for(root: &Path, target: &str) -> Result<(), String> {
    let variable = target.replace('-', "_");
    let mut cargo = Command::new("cargo");
    cargo.args(["clippy", "--quiet", "--locked", "--profile", "ci", "--target", target]).args(PROGRAMS);
    cargo.args(["--", "-D", "warnings"]).current_dir(root);
    cargo.env(format!("CC_{variable}"), "true").env(format!("AR_{variable}"), "true");
    match cargo.status() {
        Ok(status) if status.success() => println!("{target}: compiles without a warning"),
        Ok(_) => return Err(format!("the programs don't compile for {target} without a warning")),
        Err(error) => return Err(format!("cannot run cargo: {error}")),
    }
    Ok(())
}
