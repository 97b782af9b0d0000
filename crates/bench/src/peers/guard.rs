//! A peer that is there for one run: a keeper process starts it, and ends it when this program ends in whatever way. The
//! keeper's standard input is a pipe from here, and a pipe closes even when its writer is killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use super::instance::{Instance, start};
use super::place::Place;
use super::recipe::Wanted;
use crate::failure::{Context, Failure};
use crate::netns;
use crate::report::output;

/// What a keeper says when the peer is ready; anything else is why it is not.
const READY: &str = "ready";

/// Ends a peer when it is dropped, if it was started for this value, and lets others measure it.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    keeper: Option<Child>,
    /// Says that this run measures it; none where the run has said so already, or it is no peer.
    claim: Option<File>,
}

impl Guard {
    /// The same, holding a claim.
    pub(super) fn with(mut self, claim: Option<File>) -> Self {
        self.claim = claim;
        self
    }

    /// Starts `wanted` under a keeper.
    pub(super) fn start(place: &Place, wanted: &Wanted, port_base: u16) -> Result<Self, Failure> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = netns::beside_brokers(&program);
        command.args(["peers", "--port-base", &port_base.to_string(), "--dir"]).arg(place.root());
        command.args(["keep", &wanted.name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for this program; the keeper ends the peer afterwards.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut keeper = command.spawn().context("starting a keeper")?;
        let mut said = String::new();
        if let Some(out) = keeper.stdout.take() {
            let mut out = BufReader::new(out);
            out.read_line(&mut said).context("reading from a keeper")?;
            if said.trim() != READY {
                out.read_to_string(&mut said).context("reading from a keeper")?;
                let _ = keeper.wait();
                return Err(Failure::new(said.trim()));
            }
        }
        Ok(Self { keeper: Some(keeper), claim: None })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// What a keeper does: starts the peer, says so, waits for the end of its input, ends the peer.
pub(super) fn keep(place: &Place, wanted: &Wanted, port_base: u16) -> Result<bool, Failure> {
    let instance: Instance = match start(place, wanted, port_base) {
        Ok(instance) => instance,
        Err(failure) => {
            output::show(&failure.to_string())?;
            return Ok(false);
        }
    };
    // A parent that can't be told has ended; so does its peer.
    let told = output::show(&format!("{READY}\n"));
    if told.is_ok() {
        let mut rest = Vec::new();
        // Whatever comes, its end is the parent's end.
        let _ = std::io::stdin().take(1 << 16).read_to_end(&mut rest);
    }
    instance.stop(place)?;
    told.map(|()| true)
}
