//! Other brokers, to be measured beside each other: getting them, starting them with a known
//! promise of durability on loopback, telling what they cost before any load, and ending them. What
//! a peer is, is data: see `recipe`.

pub mod card;
mod directory;
mod guard;
mod instance;
pub mod licence;
mod process;
mod recipe;
mod source;
mod template;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, Subcommand};

use directory::PeersDirectory;
pub use guard::Guard;
use instance::{Instance, start};
use recipe::Wanted;
use source::{install, is_installed};

use bench_record::failure::{Context, Failure};
use bench_record::output;
use bench_record::target::{Software, Target};
use machine::netns;

/// What a broker needs to come to rest after its start.
pub const SETTLE: Duration = Duration::from_secs(2);

/// Options of `peers`.
#[derive(Debug, Args)]
pub struct PeersArgs {
    /// Where software, data and logs of peers are; else $HERMOD_BENCH_PEERS, else
    /// hermod-bench/peers in the user's cache
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    /// Peers get free ports from this one on, on 127.0.0.1; else from one between 21000 and 32520
    /// that follows from the directory
    #[arg(long, global = true)]
    port_base: Option<u16>,
    #[command(subcommand)]
    verb: PeersVerb,
}

/// What to do with peers.
#[derive(Debug, Subcommand)]
enum PeersVerb {
    /// Show the peers that can be had, with their variants and promises
    List,
    /// Get the software of peers through the machine's package clients
    Install {
        /// PEER[/VARIANT...]
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Start peers with empty data, and show what they cost before any load
    Start {
        /// PEER[/VARIANT...]
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// End peers and remove their data; their software stays
    Stop {
        /// PEER[/VARIANT...], or all
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Show the peers that were started
    Status {
        /// PEER[/VARIANT...]; none: all
        names: Vec<String>,
    },
    /// Start a peer and end it when standard input closes
    #[command(hide = true)]
    Keep { name: String },
}

/// Does what `args` ask for; true when all went well.
pub fn run(args: &PeersArgs) -> Result<bool, Failure> {
    let place = PeersDirectory::find(args.dir.as_deref())?;
    let port_base = args.port_base.unwrap_or_else(|| place.port_base());
    match &args.verb {
        PeersVerb::List => list(&place)?,
        PeersVerb::Install { names } => {
            for wanted in find(&place, names)? {
                let software = install(&place, &wanted)?;
                output::show(&format!("{} {}: {}\n", wanted.name, software.version, mib(software.bytes)))?;
            }
        }
        PeersVerb::Start { names } => {
            for wanted in find(&place, names)? {
                let instance = start(&place, &wanted, port_base)?;
                sleep(SETTLE);
                output::show(&describe(&instance))?;
            }
        }
        PeersVerb::Stop { names } => stop(&place, names)?,
        PeersVerb::Status { names } => {
            for instance in noted(&place, names)? {
                output::show(&describe(&instance))?;
            }
        }
        PeersVerb::Keep { name } => return guard::keep(&place, &Wanted::find(name, &place.recipes())?, port_base),
    }
    Ok(true)
}

fn find(place: &PeersDirectory, names: &[String]) -> Result<Vec<Wanted>, Failure> {
    names.iter().map(|name| Wanted::find(name, &place.recipes())).collect()
}

/// The instances with these names, or all.
fn noted(place: &PeersDirectory, names: &[String]) -> Result<Vec<Instance>, Failure> {
    let all = Instance::all(place)?;
    if let Some(missing) = names.iter().find(|name| !all.iter().any(|instance| instance.name == **name)) {
        return Err(Failure::new(format!("{missing} was not started; see `hermod-bench peers status`")));
    }
    Ok(all.into_iter().filter(|instance| names.is_empty() || names.contains(&instance.name)).collect())
}

fn stop(place: &PeersDirectory, names: &[String]) -> Result<(), Failure> {
    let names = if names == ["all"] { &[] } else { names };
    for instance in noted(place, names)? {
        instance.stop(place)?;
        output::show(&format!("{} is down\n", instance.name))?;
    }
    Ok(())
}

fn list(place: &PeersDirectory) -> Result<(), Failure> {
    let mut text = String::new();
    for (name, recipe) in recipe::all(&place.recipes())? {
        let wanted = Wanted::find(&name, &place.recipes())?;
        let here = if is_installed(place, &wanted) { "installed" } else { "" };
        text +=
            &format!("{name:<12}{:<4}{here:<11}{} ({})\n", recipe.durability.to_string(), recipe.about, recipe.because);
        for (variant, change) in recipe.variants() {
            let class = change.durability.map_or_else(|| "  ".to_owned(), |class| class.to_string());
            let because = change.because.as_ref().map_or_else(String::new, |because| format!(" ({because})"));
            text += &format!("  /{variant:<9}{class:<15}{}{because}\n", change.about);
        }
    }
    output::show(&text)
}

/// A running peer in words: what it costs so far, and how it is given as a target.
fn describe(instance: &Instance) -> String {
    let ready = match instance.ready_seconds {
        Some(_) if !instance.is_up() => "has ended".to_owned(),
        Some(seconds) => format!("ready after {seconds:.2} s"),
        None => "not ready".to_owned(),
    };
    let mut text = format!(
        "{} {}: {ready}, {} resident, {} installed; confirms {}: {} ({})\n",
        instance.name,
        instance.version,
        mib(instance.resident()),
        mib(instance.bytes),
        instance.durability,
        instance.durability.promise(),
        instance.because,
    );
    let pids: Vec<String> = instance.pids().iter().map(u32::to_string).collect();
    for uri in &instance.uris {
        text += &format!("  {uri},pid={}\n", pids.join("+"));
    }
    text
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Several targets, and what ends those that were started.
pub fn resolve_all(texts: &[String]) -> Result<(Vec<Target>, Vec<Guard>), Failure> {
    let mut claimed = Vec::new();
    let resolved = texts.iter().map(|text| resolve(text, &[], &mut claimed)).collect::<Result<Vec<_>, _>>()?;
    Ok(resolved.into_iter().unzip())
}

/// One target, and what ends it if it was started. A peer is taken by the first of its protocols
/// that is among `schemes`.
pub fn resolve_one(text: &str, schemes: &[&str]) -> Result<(Target, Guard), Failure> {
    resolve(text, schemes, &mut Vec::new())
}

/// What the target that `text` means will be called. Refuses a peer that there is not.
pub fn label(text: &str) -> Result<String, Failure> {
    if is_address(text) {
        return Ok(text.parse::<Target>()?.name);
    }
    let (label, name, _) = split(text);
    Wanted::find(name, &PeersDirectory::find(None)?.recipes())?;
    Ok(label.to_owned())
}

/// What `text` says of its target, without what may be another each time: its name, where it is,
/// who it is made of, who we are.
pub fn terms(text: &str) -> Result<String, Failure> {
    let what = if is_address(text) {
        let target: Target = text.parse()?;
        let place = if target.is_jms_class() { &target.address } else { &target.vhost };
        format!("{} {place}", target.scheme)
    } else {
        split(text).1.to_owned()
    };
    let lasting = text.split(',').skip(1).filter_map(|option| match option.split_once('=') {
        Some(("pid" | "metrics", _)) => None,
        Some((consume @ "consume", _)) => Some(consume),
        _ => Some(option),
    });
    Ok([what.as_str()].into_iter().chain(lasting).collect::<Vec<_>>().join(","))
}

/// `text`, without its `via` where that is none of `schemes`, so that its target is taken by one of
/// them; none where it speaks none.
pub fn spoken(text: &str, schemes: &[&str]) -> Result<Option<String>, Failure> {
    if is_address(text) {
        let scheme = text.parse::<Target>()?.scheme;
        return Ok(schemes.contains(&scheme.as_str()).then(|| text.to_owned()));
    }
    spoken_at(&PeersDirectory::find(None)?, text, schemes)
}

fn spoken_at(place: &PeersDirectory, text: &str, schemes: &[&str]) -> Result<Option<String>, Failure> {
    let recipe = Wanted::find(split(text).1, &place.recipes())?.recipe;
    let speaks = |uri: &String| uri.split_once("://").is_some_and(|(scheme, _)| schemes.contains(&scheme));
    let fits = |part: &&str| part.strip_prefix("via=").is_none_or(|via| schemes.contains(&via));
    Ok(recipe.uris.iter().any(speaks).then(|| text.split(',').filter(fits).collect::<Vec<_>>().join(",")))
}

/// True where `text` means an address and no peer: no peer's name has a colon, and every address
/// has one.
fn is_address(text: &str) -> bool {
    text.split(',').next().is_some_and(|first| first.contains(':'))
}

/// What a peer is to be called, its own name, and what else is said of it.
fn split(text: &str) -> (&str, &str, std::str::Split<'_, char>) {
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or_default();
    let (label, name) = first.split_once('=').unwrap_or((first, first));
    (label, name, parts)
}

/// The target that `text` means: an address, or
/// `[NAME=]PEER[/VARIANT...][,via=SCHEME][,OPTION...]`, a peer that is up, or is started now and
/// ends with the guard. Without `via` it is taken by one of `schemes` if it speaks one. `claimed`
/// are the peers that this run has claimed before: it may measure one of them in several ways.
fn resolve(text: &str, schemes: &[&str], claimed: &mut Vec<String>) -> Result<(Target, Guard), Failure> {
    if is_address(text) {
        if netns::joined().is_some() {
            return Err(Failure::new(format!(
                "{text}: --netns is for peers, which are started in the other namespace: nobody at an address is there"
            )));
        }
        return Ok((text.parse()?, Guard::default()));
    }
    resolve_at(&PeersDirectory::find(None)?, text, schemes, claimed)
}

fn resolve_at(
    place: &PeersDirectory,
    text: &str,
    schemes: &[&str],
    claimed: &mut Vec<String>,
) -> Result<(Target, Guard), Failure> {
    let (label, name, parts) = split(text);
    let (via, options): (Vec<&str>, Vec<&str>) = parts.partition(|part| part.starts_with("via="));
    let wanted = Wanted::find(name, &place.recipes())?;
    let known = wanted.instance();
    let claim = if claimed.contains(&known) { None } else { Some(place.claim(&known)?) };
    claimed.push(known);
    let up = Instance::read(place, &wanted.instance())?.filter(Instance::is_up);
    let (instance, guard) = match up {
        Some(_) if netns::joined().is_some() => {
            return Err(Failure::new(format!(
                "{name} is up already, outside the namespaces of --netns: `hermod-bench peers stop {name}` first"
            )));
        }
        Some(instance) => (instance, Guard::default()),
        None => {
            if netns::joined().is_some() && !is_installed(place, &wanted) {
                return Err(Failure::new(format!(
                    "{name} is not installed, and nothing can be got from inside --netns: \
                     `hermod-bench peers install {name}` first"
                )));
            }
            let guard = Guard::start(place, &wanted)?;
            let instance = Instance::read(place, &wanted.instance())?;
            (instance.ok_or_else(|| Failure::new(format!("{name}: it ended again")))?, guard)
        }
    };
    let via = via.last().and_then(|via| via.split_once('=')).map(|(_, scheme)| scheme);
    let uri = uri(&instance, via, schemes)?;
    Ok((target(&instance, uri, label, &options)?, guard.with(claim, &instance)))
}

/// The address by the protocol `via`, else by the first that is among `schemes`, else by the one
/// that the peer is measured by.
fn uri<'a>(instance: &'a Instance, via: Option<&str>, schemes: &[&str]) -> Result<&'a str, Failure> {
    let scheme = |uri: &str| uri.split_once("://").map_or("", |(scheme, _)| scheme).to_owned();
    let by = |wanted: &[&str]| instance.uris.iter().find(|uri| wanted.contains(&scheme(uri).as_str()));
    let found = match via {
        Some(via) => by(&[via]),
        None => by(schemes).or(instance.uris.first()),
    };
    found.map(String::as_str).ok_or_else(|| {
        let spoken: Vec<String> = instance.uris.iter().map(|uri| scheme(uri)).collect();
        Failure::new(format!("{}: no protocol {}; there are: {}", instance.name, via.unwrap_or(""), spoken.join(", ")))
    })
}

/// `instance` as a target called `label` at `uri`.
fn target(instance: &Instance, uri: &str, label: &str, options: &[&str]) -> Result<Target, Failure> {
    let text: Vec<&str> = [uri].into_iter().chain(options.iter().copied()).collect();
    let given: Target = text.join(",").parse().context(&instance.name)?;
    Ok(Target {
        name: label.to_owned(),
        pids: instance.pids(),
        queue_type: given.queue_type.clone().or_else(|| instance.queue_type.clone()),
        metrics: given.metrics.clone().or_else(|| instance.metrics.clone()),
        durability: given.durability.or(Some(instance.durability)),
        software: Software { peer: Some(instance.name.clone()), version: Some(instance.version.clone()) },
        ..given
    })
}
