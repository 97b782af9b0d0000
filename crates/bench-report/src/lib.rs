//! What a person sees of a record: tables on a terminal, a page with charts, and two records beside
//! each other. It reads records and never knows a socket.

pub mod compare;
mod file;
pub mod html;
mod single;
mod standing;
pub mod suites;
pub mod table;

use std::fs;
use std::path::PathBuf;

use clap::Args;

use bench_record::failure::{Context, Failure};

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The record of a suite or of a run, as --json wrote it; .gz and .zst are read too
    record: PathBuf,
    /// The page, one file that needs nothing else
    #[arg(long, short)]
    output: PathBuf,
}

/// Draws a record as a page.
pub fn draw(args: &ReportArgs) -> Result<(), Failure> {
    let report = file::read(&args.record)?;
    let page = html::render(&report).context(args.record.display())?;
    fs::write(&args.output, page).context(args.output.display())
}
