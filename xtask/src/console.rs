//! What operators do in the web console, in a real Chromium against a fresh broker. The scenarios
//! are in `interop/console`; this prepares what they need and runs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::interop::server;

/// Options of `console`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Scenarios by name; all of them if none is named.
    names: Vec<String>,
    /// The server to start; built if not given.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Program of the browser.
    #[arg(long, default_value = "/usr/bin/chromium")]
    browser: PathBuf,
    /// A folder for pictures of the pages, to look at.
    #[arg(long)]
    pictures: Option<PathBuf>,
}

/// Runs the scenarios and prints the outcome of each.
///
/// # Errors
/// When one fails, or what they need is not there.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    if !options.browser.exists() {
        let browser = options.browser.display();
        return Err(format!("there is no {browser}: install chromium, or say where it is with --browser"));
    }
    let program = options.server.clone().map_or_else(|| server::build(root), Ok)?;
    let (source, made) = (root.join("interop/console"), server::target_folder(root).join("interop/console"));
    let python = server::python(&source, &made)?;
    let mut scenarios = Command::new(&python);
    scenarios.arg("-B").arg(source.join("run.py")).arg("--server").arg(program).arg("--browser").arg(&options.browser);
    if let Some(pictures) = &options.pictures {
        scenarios.arg("--pictures").arg(pictures);
    }
    server::call(scenarios.args(&options.names), "interop/console/README.md")
}
