//! `hermod`: the broker and its command line. `hermod serve` runs the broker; other commands ask a
//! running one.

mod allocator;
mod backup;
mod cli;
mod config;
mod data_dir;
mod exit;
mod housekeeper;
mod links;
mod listeners;
mod log;
mod logins;
mod machine;
mod manual;
mod notify;
mod pager;
mod protocols;
mod rabbitmqctl;
mod refresh;
mod secrets;
mod serve;
mod shovels;
mod signals;
mod spare;
mod standby;
mod tasks;
mod tls;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    allocator::give_large_blocks_back();
    if let Some(code) = rabbitmqctl::run() {
        return code;
    }
    match cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("hermod: {}", failure.lines());
            ExitCode::from(failure.exit.code())
        }
    }
}
