//! What Hermod promises, put to the torture: programs that kill a loaded broker, break something
//! under it, or attack it, and hold it to its promises. Run as `cargo torture NAME`.
//!
//! A part of the load tells a history what it does, and a checker judges the history. The programs
//! share the load, the checker, the starter of brokers and the source of random numbers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod checker;
mod crash;
#[cfg(target_os = "linux")]
mod fault;
mod fence;
#[cfg(target_os = "linux")]
mod gauge;
mod history;
mod ledger;
mod part;
mod promote;
mod properties;
mod random;
mod server;
mod stage;
mod stamp;
mod talk;
#[cfg(target_os = "linux")]
mod tenants;
mod topology;
mod violation;

#[derive(Parser)]
#[command(name = "cargo torture", about = "Breaks things under a broker and checks what it promised")]
struct Arguments {
    #[command(subcommand)]
    torture: Torture,
}

#[derive(Subcommand)]
enum Torture {
    /// Kill a loaded broker again and again and check what it promised.
    Crash(crash::Options),
    /// Break something under a broker and check what it promised.
    #[cfg(target_os = "linux")]
    Fault(fault::Options),
    /// Promote a standby again and again, planned and after kills, and check what is there.
    Promote(promote::Options),
    /// Measure what attacks by an ordinary tenant do to another.
    #[cfg(target_os = "linux")]
    Tenants(tenants::Options),
}

fn main() -> ExitCode {
    let outcome = match (root(), Arguments::parse().torture) {
        (Err(error), _) => Err(error),
        (Ok(root), Torture::Crash(options)) => crash::run(&root, &options),
        (Ok(root), Torture::Promote(options)) => promote::run(&root, &options),
        #[cfg(target_os = "linux")]
        (Ok(root), Torture::Fault(options)) => fault::run(&root, &options),
        #[cfg(target_os = "linux")]
        (Ok(root), Torture::Tenants(options)) => tenants::run(&root, &options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root: the parent of the folder of crates.
fn root() -> Result<PathBuf, String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().nth(2).map(Path::to_path_buf);
    root.ok_or_else(|| format!("{} is in no workspace", package.display()))
}
