//! A broker whose truth is known: it speaks as much of AMQP 0-9-1 as benchmarks need, is as slow as
//! it is told, stands still when it is told, and does to chosen messages what it is told. What a
//! benchmark says about it can be compared with what it was told; this program's own tests do that,
//! and any other benchmark may.

pub(crate) mod behaviour;
mod connection;
mod model;
mod outbox;
mod store;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::Builder;

use clap::Args;

use crate::relay::own::LISTENING;
use behaviour::{Behaviour, Delay, Fault, Promise, Stall};
use bench_record::failure::{Context, Failure};
use bench_record::output;
use machine::interrupt::Interrupt;
use model::Model;
use store::{Flush, Store};

/// Options of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// Loopback address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:5675")]
    listen: SocketAddr,
    /// From the publish to the delivery: 5ms, 1ms..3ms (anything between), exp:2ms (exponential)
    #[arg(long, default_value = "0")]
    latency: Delay,
    /// From the publish to the confirm
    #[arg(long, default_value = "0")]
    confirm_latency: Delay,
    /// Publishes a second that it can take; more wait
    #[arg(long)]
    capacity: Option<f64>,
    /// Stand still: 1s@3s for one second, three seconds after the first publish
    #[arg(long, value_name = "LENGTH@WHEN")]
    stall: Vec<Stall>,
    /// What is done before a persistent message is confirmed
    #[arg(long, value_enum, default_value = "memory")]
    promise: Promise,
    /// Where persistent messages are written; they are there again after a restart
    #[arg(long, required_if_eq_any = [("promise", "write"), ("promise", "flush")])]
    dir: Option<PathBuf>,
    #[command(flatten)]
    faults: FaultyMessages,
    /// Repeats the delays of an earlier run
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The messages that something goes wrong with.
#[derive(Debug, Args)]
struct FaultyMessages {
    /// Confirm these messages and never deliver them; numbers count all publishes from 1
    #[arg(long, value_delimiter = ',')]
    lose: Vec<u64>,
    /// Deliver these messages twice
    #[arg(long, value_delimiter = ',')]
    duplicate: Vec<u64>,
    /// Deliver these messages after the next one
    #[arg(long, value_delimiter = ',')]
    reorder: Vec<u64>,
    /// Change the last byte of these messages
    #[arg(long, value_delimiter = ',')]
    corrupt: Vec<u64>,
    /// Refuse these messages
    #[arg(long, value_delimiter = ',')]
    refuse: Vec<u64>,
    /// Neither confirm nor deliver these messages
    #[arg(long, value_delimiter = ',')]
    swallow: Vec<u64>,
    /// Confirm these messages twice
    #[arg(long, value_delimiter = ',')]
    confirm_twice: Vec<u64>,
    /// End the connection that sends one of these messages
    #[arg(long, value_delimiter = ',')]
    die: Vec<u64>,
}

impl FaultyMessages {
    /// What goes wrong with which message.
    fn by_number(&self) -> HashMap<u64, Fault> {
        let lists = [
            (&self.lose, Fault::Lose),
            (&self.duplicate, Fault::Double),
            (&self.reorder, Fault::Overtake),
            (&self.corrupt, Fault::Flip),
            (&self.refuse, Fault::Refuse),
            (&self.swallow, Fault::Swallow),
            (&self.confirm_twice, Fault::ConfirmTwice),
            (&self.die, Fault::Die),
        ];
        let mut faults = HashMap::new();
        for (numbers, fault) in lists {
            faults.extend(numbers.iter().map(|number| (*number, fault)));
        }
        faults
    }
}

impl SimulateArgs {
    fn behaviour(&self) -> Result<Behaviour, Failure> {
        if !self.listen.ip().is_loopback() {
            return Err(Failure::new(format!("{}: a simulated broker knows no passwords: loopback only", self.listen)));
        }
        if self.capacity.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return Err(Failure::new("--capacity must be more than 0"));
        }
        Ok(Behaviour {
            faults: self.faults.by_number(),
            delivery: self.latency,
            confirm: self.confirm_latency,
            capacity: self.capacity,
            stalls: self.stall.clone(),
            promise: self.promise,
            dir: self.dir.clone(),
            seed: self.seed,
        })
    }
}

/// A simulated broker that runs in this process, as long as the process does.
#[derive(Debug)]
pub(crate) struct LocalBroker {
    /// As an option of the command line.
    pub(crate) target: String,
    #[cfg(test)]
    pub(crate) held: Arc<Mutex<Model>>,
}

/// Starts a broker on `listen`.
pub(crate) fn start(behaviour: &Behaviour, listen: SocketAddr) -> Result<LocalBroker, Failure> {
    let listener = TcpListener::bind(listen).context(listen)?;
    let target = format!("amqp://{}", listener.local_addr()?);
    let mut core = Model::new(behaviour);
    let store = match (&behaviour.dir, behaviour.promise) {
        (Some(dir), Promise::Write | Promise::Flush) => {
            let (store, kept) =
                Store::open(dir, if behaviour.promise == Promise::Flush { Flush::Each } else { Flush::Never })?;
            kept.into_iter().for_each(|(queue, body)| core.restore(&queue, body));
            Some(Arc::new(Mutex::new(store)))
        }
        _ => None,
    };
    let shared = Arc::new(Mutex::new(core));
    #[cfg(test)]
    let held = shared.clone();
    let accepting = move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (core, store) = (shared.clone(), store.clone());
            // A client that could not be served notices that its connection ends.
            let serving = move || drop(connection::serve(stream, core, store));
            if Builder::new().name("simulated".to_owned()).spawn(serving).is_err() {
                break;
            }
        }
    };
    Builder::new().name("simulated-broker".to_owned()).spawn(accepting).context("starting a thread")?;
    Ok(LocalBroker {
        target,
        #[cfg(test)]
        held,
    })
}

/// A faulty broker on a free port, for tests.
#[cfg(test)]
pub(crate) fn local(behaviour: &Behaviour) -> LocalBroker {
    start(behaviour, "127.0.0.1:0".parse().unwrap()).unwrap()
}

/// The verb `simulate`: a broker until Ctrl-C.
pub(crate) fn serve(args: &SimulateArgs) -> Result<(), Failure> {
    let interrupt = Interrupt::by_signal()?;
    let broker = start(&args.behaviour()?, args.listen)?;
    output::show(&format!("{LISTENING}{}\n", broker.target.trim_start_matches("amqp://")))?;
    while !interrupt.asked() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    Ok(())
}
