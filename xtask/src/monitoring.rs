//! The dashboard and the alert rules of `monitoring/`, loaded by a real Prometheus against a loaded
//! broker. The checks are in `interop/monitoring`; this prepares what they need and runs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::interop::server;

/// Options of `monitoring`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The server to start; built if not given.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Folder of the programs prometheus and promtool.
    #[arg(long, default_value = "/usr/bin")]
    prometheus: PathBuf,
}

/// Runs the checks and prints the outcome of each.
///
/// # Errors
/// When one fails, or what they need is not there.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    for program in ["prometheus", "promtool"] {
        let path = options.prometheus.join(program);
        if !path.exists() {
            let path = path.display();
            return Err(format!("there is no {path}: install prometheus, or name its folder with --prometheus"));
        }
    }
    let program = options.server.clone().map_or_else(|| server::build(root), Ok)?;
    let (source, made) = (root.join("interop/monitoring"), server::target_folder(root).join("interop/monitoring"));
    let python = server::python(&source, &made)?;
    let mut checks = Command::new(python);
    checks.arg("-B").arg(source.join("run.py")).arg("--server").arg(program);
    server::call(checks.arg("--prometheus").arg(&options.prometheus), "interop/monitoring/README.md")
}
