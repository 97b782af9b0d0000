//! What a person and a program get to see: one line while it runs, a table at the end, a record of
//! everything, and a page that is drawn from the record.

pub(crate) mod compare;
mod file;
pub(crate) mod html;
pub(crate) mod progress;
mod single;
pub(crate) mod standing;
pub(crate) mod table;

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::record::failure::{Context, Failure};

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The record of a suite or of a run, as --json wrote it; .gz and .zst are read too
    record: PathBuf,
    /// The page, one file that needs nothing else
    #[arg(long, short)]
    output: PathBuf,
}

/// Draws a record as a page.
pub(crate) fn draw(args: &ReportArgs) -> Result<(), Failure> {
    let report = file::read(&args.record)?;
    let page = html::render(&report).context(args.record.display())?;
    fs::write(&args.output, page).context(args.output.display())
}
