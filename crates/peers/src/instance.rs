//! A running peer: ports that no other program has, files from its templates, processes started in
//! order, each when the one before is ready. A note on the disk names every process from the moment
//! of its start, so that a later run can end them.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::directory::{PeersDirectory, create, remove};
use super::process::{ProcessIdentity, end};
use super::recipe::{Process, Ready, Wanted};
use super::source::{Software, install};
use super::template::Values;
use bench_record::durability::Durability;
use bench_record::failure::{Context, Failure};
use machine::command::{CommandLine, INSIDE, Inside, last_lines};
use machine::{java, process};

/// How often a starting process is looked at.
const STEP: Duration = Duration::from_millis(10);
/// How long a connection to this machine may take.
const CONNECT: Duration = Duration::from_secs(1);

/// What is known of a running peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Instance {
    /// `PEER[/VARIANT...]`.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) durability: Durability,
    pub(crate) because: String,
    pub(crate) queue_type: Option<String>,
    pub(crate) metrics: Option<String>,
    pub(crate) ports: BTreeMap<String, u16>,
    pub(crate) uris: Vec<String>,
    /// Seconds from the start of its first process until the last was ready; none: it is still
    /// starting.
    pub(crate) ready_seconds: Option<f64>,
    /// Installed size, bytes.
    pub(crate) bytes: u64,
    /// In the order of their start.
    pub(crate) processes: Vec<ProcessIdentity>,
}

impl Instance {
    /// The note of an instance, if there is one.
    pub(crate) fn read(place: &PeersDirectory, instance: &str) -> Result<Option<Self>, Failure> {
        let path = place.note(instance);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).context(path.display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(path.display()),
        }
    }

    /// All that are noted, whether they still run or not.
    pub(crate) fn all(place: &PeersDirectory) -> Result<Vec<Self>, Failure> {
        let entries = fs::read_dir(place.notes()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()));
        let mut all: Vec<Self> =
            names.filter_map(|name| Self::read(place, &name).transpose()).collect::<Result<_, _>>()?;
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// Writes its note. Who reads meanwhile sees the one before or this one.
    fn write(&self, place: &PeersDirectory) -> Result<(), Failure> {
        let path = place.note(&self.file_name());
        let new = path.with_extension("new");
        create(&new)?;
        fs::write(&new, serde_json::to_vec_pretty(self).context("a note")?).context(new.display())?;
        fs::rename(&new, &path).context(path.display())
    }

    fn file_name(&self) -> String {
        self.name.replace('/', ".")
    }

    /// True while all its processes run and it has become ready.
    pub(crate) fn is_up(&self) -> bool {
        self.ready_seconds.is_some() && self.processes.iter().all(ProcessIdentity::lives)
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.pid).collect()
    }

    /// Resident memory of all its processes and their children, bytes.
    pub(crate) fn resident(&self) -> u64 {
        process::usage(&self.pids()).map_or(0, |usage| usage.resident)
    }

    /// Ends its processes and removes its data and its note. The log stays.
    pub(crate) fn stop(&self, place: &PeersDirectory) -> Result<(), Failure> {
        end(&self.processes);
        let name = self.file_name();
        remove(&place.data(&name))?;
        fs::remove_file(place.note(&name)).context(place.note(&name).display())
    }
}

/// Gets what is missing and starts it with empty data on ports from `port_base` on. Returns when it
/// is ready.
pub(crate) fn start(place: &PeersDirectory, wanted: &Wanted, port_base: u16) -> Result<Instance, Failure> {
    start_installed(&Starting { place, wanted, software: &install(place, wanted)? }, port_base)
}

/// Starts it as [`start`] does, from software that is there.
pub(super) fn start_installed(starting: &Starting<'_>, port_base: u16) -> Result<Instance, Failure> {
    if !cfg!(target_os = "linux") {
        return Err(Failure::new("peers are started on Linux only: start the broker by hand and give its address"));
    }
    let Starting { place, wanted, software } = *starting;
    let mut instance = claim(place, wanted, software, port_base)?;
    if let Err(failure) = starting.run(&mut instance) {
        instance.stop(place)?;
        return Err(failure).context(&wanted.name);
    }
    Ok(instance)
}

/// Starts an instance whose processes have ended, however they did, on the data and the ports that
/// it had.
pub(super) fn start_again(starting: &Starting<'_>, instance: &mut Instance) -> Result<(), Failure> {
    end(&instance.processes);
    instance.processes.clear();
    instance.ready_seconds = None;
    let values = starting.values(instance)?;
    starting.launch_all(instance, &values).context(&instance.name)?;
    instance.write(starting.place)
}

/// Writes the note of an instance that has ports and no processes yet.
fn claim(place: &PeersDirectory, wanted: &Wanted, software: &Software, port_base: u16) -> Result<Instance, Failure> {
    let _alone = place.lock("start")?;
    let mut taken = Vec::new();
    for other in Instance::all(place)? {
        if other.name == wanted.name && other.processes.iter().any(ProcessIdentity::lives) {
            return Err(Failure::new(format!("{} is up already: pids {:?}", other.name, other.pids())));
        }
        taken.extend(other.ports.into_values());
    }
    let recipe = &wanted.recipe;
    let instance = Instance {
        name: wanted.name.clone(),
        version: software.version.clone(),
        durability: recipe.durability,
        because: recipe.because.clone(),
        queue_type: recipe.queue_type.clone(),
        metrics: recipe.metrics.clone(),
        ports: free_ports(&recipe.ports, port_base, &taken)?,
        uris: Vec::new(),
        ready_seconds: None,
        bytes: software.bytes,
        processes: Vec::new(),
    };
    instance.write(place)?;
    Ok(instance)
}

/// A port for each name: from `base` on, not among `taken`, and not listened on now.
fn free_ports(names: &[String], base: u16, taken: &[u16]) -> Result<BTreeMap<String, u16>, Failure> {
    let free = |port: &u16| !taken.contains(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let ports: BTreeMap<String, u16> = names.iter().cloned().zip((base..=u16::MAX).filter(free)).collect();
    if ports.len() < names.len() {
        return Err(Failure::new(format!("not enough free ports from {base} on; name another start with --port-base")));
    }
    Ok(ports)
}

/// What starts an instance, the first time and after it was killed.
pub(super) struct Starting<'a> {
    pub(super) place: &'a PeersDirectory,
    pub(super) wanted: &'a Wanted,
    pub(super) software: &'a Software,
}

impl Starting<'_> {
    fn run(&self, instance: &mut Instance) -> Result<(), Failure> {
        let name = instance.file_name();
        let (data, log) = (self.place.data(&name), self.place.log(&name));
        remove(&data)?;
        fs::create_dir_all(&data).context(data.display())?;
        create(&log)?;
        let values = self.values(instance)?;
        for file in &self.wanted.recipe.file {
            let path = data.join(values.render(&file.path)?);
            create(&path)?;
            fs::write(&path, values.render(&file.text)?).context(path.display())?;
        }
        for step in &self.wanted.recipe.prepare {
            self.order(
                &name,
                &values,
                &step.command,
                &step.env,
                self.software.tree.as_deref().filter(|_| step.in_root),
            )?
            .run(&log)?;
        }
        self.launch_all(instance, &values)?;
        instance.uris = self.wanted.recipe.uris.iter().map(|uri| values.render(uri)).collect::<Result<_, _>>()?;
        instance.metrics = self.wanted.recipe.metrics.as_ref().map(|page| values.render(page)).transpose()?;
        instance.write(self.place)
    }

    /// Starts its processes, each when the one before is ready.
    fn launch_all(&self, instance: &mut Instance, values: &Values) -> Result<(), Failure> {
        let (name, begin) = (instance.file_name(), Instant::now());
        for process in &self.wanted.recipe.process {
            self.launch(instance, &name, values, process)?;
        }
        instance.ready_seconds = Some(begin.elapsed().as_secs_f64());
        Ok(())
    }

    /// What templates can name.
    fn values(&self, instance: &Instance) -> Result<Values, Failure> {
        let recipe = &self.wanted.recipe;
        let mut values = self.wanted.values();
        for (name, port) in &instance.ports {
            values.set(format!("port.{name}"), port.to_string());
        }
        if let Some(folder) = &self.software.folder {
            values.set("opt", folder.display().to_string());
        }
        if let Some(least) = recipe.java {
            values.set("java", java::home(least)?.display().to_string());
        }
        values.set("name", instance.file_name());
        values.set("dir", self.place.data(&instance.file_name()).display().to_string());
        Ok(values)
    }

    /// A command of the description, rendered, in the root `tree` where one is given.
    fn order(
        &self,
        name: &str,
        values: &Values,
        command: &[String],
        env: &BTreeMap<String, String>,
        tree: Option<&Path>,
    ) -> Result<CommandLine, Failure> {
        let mut values = values.clone();
        let inside = tree.map(|tree| Inside { tree: tree.to_owned(), peer: self.place.data(name) });
        if inside.is_some() {
            values.set("dir", INSIDE);
        }
        let words = command.iter().map(|word| values.render(word)).collect::<Result<Vec<_>, _>>()?;
        let env = env.iter().map(|(name, value)| Ok((name.clone(), values.render(value)?)));
        Ok(CommandLine::new(words).env(env.collect::<Result<_, Failure>>()?).inside(inside))
    }

    fn launch(&self, instance: &mut Instance, name: &str, values: &Values, process: &Process) -> Result<(), Failure> {
        let log = self.place.log(name);
        let order = self.order(
            name,
            values,
            &process.command,
            &process.env,
            self.software.tree.as_deref().filter(|_| process.in_root),
        )?;
        // What was said before was said by others, or by this process before it was killed.
        let said_before = fs::metadata(&log).map_or(0, |log| log.len() as usize);
        let child = order.start(&log)?;
        let kept = ProcessIdentity::of(child.id()).ok_or_else(|| Failure::new("a process ended at its start"))?;
        instance.processes.push(kept);
        // From here on others can end it.
        instance.write(self.place)?;
        self.await_ready(instance, &process.ready, said_before)?;
        let log = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(log.get(said_before..).unwrap_or_default());
        for (_, what) in process.ready.says.iter().filter(|(said, _)| text.contains(said.as_str())) {
            add_to(&mut instance.version, what);
        }
        Ok(())
    }

    fn await_ready(&self, instance: &Instance, ready: &Ready, said_before: usize) -> Result<(), Failure> {
        let log = self.place.log(&instance.file_name());
        let port = ready.port.as_ref().and_then(|name| instance.ports.get(name)).copied();
        let end = Instant::now() + Duration::from_secs(ready.seconds);
        loop {
            let said = |text: &String| {
                let said = fs::read(&log).unwrap_or_default();
                said.get(said_before..).is_some_and(|new| String::from_utf8_lossy(new).contains(text.as_str()))
            };
            if port.is_none_or(takes_connections) && ready.log.as_ref().is_none_or(said) {
                return Ok(());
            }
            if !instance.processes.iter().all(ProcessIdentity::lives) {
                return Err(Failure::new(format!("it ended while it started{}", last_lines(&log))));
            }
            if Instant::now() > end {
                return Err(Failure::new(format!("not ready after {} s{}", ready.seconds, last_lines(&log))));
            }
            sleep(STEP);
        }
    }
}

/// Says once more of a version: a peer that is started again says the same.
fn add_to(version: &mut String, what: &str) {
    let more = format!(", {what}");
    if !version.ends_with(&more) {
        version.push_str(&more);
    }
}

fn takes_connections(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), CONNECT).is_ok()
}
