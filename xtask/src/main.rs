//! The project's own chores, run as `cargo xtask NAME`: what a person or a CI machine does around
//! the programs.
//!
//! Every chore is a module with one entry that takes the workspace's root and returns an error text
//! or nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod book;
mod console;
mod interop;
mod licences;
mod monitoring;
mod package;
mod release;
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
    /// Run other people's clients against a fresh server.
    Interop(interop::Options),
    /// Write the manual as a site: plain files with search, its links checked.
    Book(book::Options),
    /// Do what operators do in the web console, in a browser.
    Console(console::Options),
    /// Write the list of the licences of what the broker is built from.
    Licences,
    /// Load the dashboard and the alert rules with a real Prometheus against a loaded broker.
    Monitoring(monitoring::Options),
    /// Make what is installed (archives, packages, image, chart), and start each of it once.
    Package(package::Options),
    /// Lint the programs for each system that a release is for.
    Targets,
    /// Make a release from a clean clone, without publishing it.
    Release(release::Options),
    /// Take pictures of a benchmark's report with a browser, to look at.
    Screenshots(screenshots::Options),
}

fn main() -> ExitCode {
    let outcome = match (root(), Arguments::parse().chore) {
        (Err(error), _) => Err(error),
        (Ok(root), Chore::Tidy(options)) => tidy::report(&root, &options),
        (Ok(root), Chore::Interop(options)) => interop::run(&root, &options),
        (Ok(root), Chore::Book(options)) => book::run(&root, &options),
        (Ok(root), Chore::Console(options)) => console::run(&root, &options),
        (Ok(root), Chore::Licences) => licences::run(&root),
        (Ok(root), Chore::Monitoring(options)) => monitoring::run(&root, &options),
        (Ok(root), Chore::Package(options)) => package::run(&root, &options),
        (Ok(root), Chore::Targets) => package::targets::lint(&root),
        (Ok(root), Chore::Release(options)) => release::run(&root, &options),
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
