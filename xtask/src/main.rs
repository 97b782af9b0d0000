//! The project's own chores, run as `cargo xtask NAME`: what a person or a CI machine does around
//! the programs.
//!
//! Every chore is a module with one entry that takes the workspace's root and returns an error text
//! or nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod crash;
#[cfg(target_os = "linux")]
mod fault;
mod interop;
mod screenshots;
mod tidy;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the Hermod workspace")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check the rules of the house: crate edges, sizes, names, headers, links, words.
    Tidy(tidy::Options),
    /// Kill a loaded broker again and again and check what it promised.
    Crash(crash::Options),
    /// Break something under a broker and check what it promised.
    #[cfg(target_os = "linux")]
    Fault(fault::Options),
    /// Measure what attacks by an ordinary tenant do to another.
    #[cfg(target_os = "linux")]
    Tenants(fault::tenants::Options),
    /// Run other people's clients against a fresh server.
    Interop(interop::Options),
    /// Take pictures of a benchmark's report with a browser, to look at.
    Screenshots(screenshots::Options),
}

fn main() -> ExitCode {
    let outcome = match (root(), Arguments::parse().chore) {
        (Err(error), _) => Err(error),
        (Ok(root), Chore::Tidy(options)) => tidy::report(&root, &options),
        (Ok(root), Chore::Crash(options)) => crash::run(&root, &options),
        #[cfg(target_os = "linux")]
        (Ok(root), Chore::Fault(options)) => fault::run(&root, &options),
        #[cfg(target_os = "linux")]
        (Ok(root), Chore::Tenants(options)) => fault::tenants::run(&root, &options),
        (Ok(root), Chore::Interop(options)) => interop::run(&root, &options),
        (Ok(root), Chore::Screenshots(options)) => screenshots::run(&root, &options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root: the parent of this package.
fn root() -> Result<PathBuf, String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().map(Path::to_path_buf).ok_or_else(|| format!("{} has no parent folder", package.display()))
}
