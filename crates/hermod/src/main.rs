//! `hermod`: the broker and its command line. `hermod serve` runs the broker; the other verbs ask a running one.

mod cli;
mod config;
mod exit;
mod log;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("hermod: {}", failure.text);
            ExitCode::from(failure.exit.code())
        }
    }
}
