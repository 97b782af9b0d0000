//! The description of a peer: where it is to be had, what it is configured with, how it is started
//! and when it is ready, and which promise its confirms make. Data in TOML; variants change parts
//! of it and can be combined.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::template::Values;
use bench_record::durability::Durability;
use bench_record::failure::{Context, Failure};

/// The peers that this program knows by itself, one file each.
const OWN: [(&str, &str); 10] = [
    ("activemq", include_str!("../recipes/activemq.toml")),
    ("artemis", include_str!("../recipes/artemis.toml")),
    ("hermod", include_str!("../recipes/hermod.toml")),
    ("kafka", include_str!("../recipes/kafka.toml")),
    ("lavinmq", include_str!("../recipes/lavinmq.toml")),
    ("mosquitto", include_str!("../recipes/mosquitto.toml")),
    ("nats", include_str!("../recipes/nats.toml")),
    ("openmq", include_str!("../recipes/openmq.toml")),
    ("qpid-j", include_str!("../recipes/qpid-j.toml")),
    ("rabbitmq", include_str!("../recipes/rabbitmq.toml")),
];

/// How long a process may take to become ready, unless its description says otherwise.
const START_SECONDS: u64 = 90;

/// One peer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    /// What it is, in a few words.
    pub(crate) about: String,
    /// The class of what its confirms promise.
    pub(crate) durability: Durability,
    /// The setting that the class follows from.
    pub(crate) because: String,
    /// The oldest Java that runs it; its home is `{{java}}`.
    pub(crate) java: Option<u32>,
    /// Type of the queues that are measured (`x-queue-type`), where it is not the broker's default.
    pub(crate) queue_type: Option<String>,
    /// `HOST:PORT/PATH` of a Prometheus page.
    pub(crate) metrics: Option<String>,
    /// Names of its ports; each is `{{port.NAME}}`.
    pub(crate) ports: Vec<String>,
    /// Where it can be reached, the protocol that it is measured by first:
    /// `SCHEME://USER:PASSWORD@HOST:PORT`.
    pub(crate) uris: Vec<String>,
    /// Names for the texts below, and for variants to change.
    #[serde(default)]
    pub(crate) values: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) source: Vec<Source>,
    /// Files in its directory.
    #[serde(default)]
    pub(crate) file: Vec<File>,
    /// Commands that end before it starts.
    #[serde(default)]
    pub(crate) prepare: Vec<Step>,
    /// Its processes in the order of their start.
    #[serde(default)]
    pub(crate) process: Vec<Process>,
    #[serde(default)]
    variant: BTreeMap<String, Variant>,
}

/// What differs in a variant. Lists come in front of the peer's own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    pub(crate) about: String,
    pub(crate) durability: Option<Durability>,
    pub(crate) because: Option<String>,
    pub(crate) queue_type: Option<String>,
    #[serde(default)]
    pub(crate) ports: Vec<String>,
    #[serde(default)]
    pub(crate) uris: Vec<String>,
    #[serde(default)]
    pub(crate) values: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) source: Vec<Source>,
    #[serde(default)]
    pub(crate) file: Vec<File>,
    #[serde(default)]
    pub(crate) prepare: Vec<Step>,
    #[serde(default)]
    pub(crate) process: Vec<Process>,
}

/// Where software is to be had: always through the machine's own package clients.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "from", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Source {
    /// Packages of a Debian suite, in a root tree of their own; nothing of the machine changes.
    Debian { suite: String, packages: Vec<String> },
    /// A distribution, `GROUP:NAME:VERSION:TYPE[:CLASSIFIER]`, unpacked without its outermost
    /// folder.
    MavenArchive { artifact: String },
    /// Jars, `GROUP:NAME:VERSION`, with all that they need.
    MavenJars { artifacts: Vec<String> },
    /// A program of a Go module, `MODULE@VERSION`.
    Go { package: String },
    /// A program that is there already: beside this one, in the search path, or at the path that
    /// the variable names.
    Program { program: String, variable: String },
}

/// A file that is written before the start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Within the peer's directory.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A command that ends.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Run it in the Debian root tree.
    #[serde(default)]
    pub(crate) in_root: bool,
}

/// A command that stays.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Process {
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) in_root: bool,
    pub(crate) ready: Ready,
}

/// How it is known that a process does its work.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ready {
    /// This port takes connections.
    pub(crate) port: Option<String>,
    /// And its log has this text.
    pub(crate) log: Option<String>,
    /// What is added to its version where its log has one of these texts.
    #[serde(default)]
    pub(crate) says: BTreeMap<String, String>,
    #[serde(default = "start_seconds")]
    pub(crate) seconds: u64,
}

fn start_seconds() -> u64 {
    START_SECONDS
}

/// A peer with its variants applied.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// `PEER[/VARIANT...]`, as it is asked for.
    pub(crate) name: String,
    pub(crate) recipe: Recipe,
}

impl Wanted {
    /// Finds `PEER[/VARIANT...]` among the peers of this program and those described in `own_dir`.
    pub(crate) fn find(name: &str, own_dir: &Path) -> Result<Self, Failure> {
        let mut parts = name.split('/');
        let peer = parts.next().unwrap_or_default();
        let (_, text) = texts(own_dir)?.into_iter().find(|(known, _)| known == peer).ok_or_else(|| {
            Failure::new(format!("{peer}: no such peer; see `hermod-bench peers list`, or write SCHEME://HOST:PORT"))
        })?;
        let mut recipe = parse(peer, &text)?;
        for variant in parts {
            recipe.apply(peer, variant)?;
        }
        Ok(Self { name: name.to_owned(), recipe })
    }

    /// Its name as a file's.
    pub(crate) fn instance(&self) -> String {
        self.name.replace('/', ".")
    }

    /// The name without variants.
    pub(crate) fn peer(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// The values that the description itself defines.
    pub(crate) fn values(&self) -> Values {
        let mut values = Values::default();
        for (name, value) in &self.recipe.values {
            values.set(name, value);
        }
        values
    }
}

/// All peers by name with their descriptions: the program's own, then those in `own_dir`, which
/// replace namesakes.
pub(crate) fn all(own_dir: &Path) -> Result<BTreeMap<String, Recipe>, Failure> {
    texts(own_dir)?.into_iter().map(|(name, text)| Ok((name.clone(), parse(&name, &text)?))).collect()
}

fn texts(own_dir: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let mut texts: BTreeMap<String, String> =
        OWN.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    for entry in fs::read_dir(own_dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "toml")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            texts.insert(name.to_owned(), fs::read_to_string(&path).context(path.display())?);
        }
    }
    Ok(texts)
}

fn parse(name: &str, text: &str) -> Result<Recipe, Failure> {
    toml::from_str(text).context(format!("the description of {name}"))
}

impl Recipe {
    /// Names and descriptions of its variants.
    pub(crate) fn variants(&self) -> impl Iterator<Item = (&str, &Variant)> {
        self.variant.iter().map(|(name, variant)| (name.as_str(), variant))
    }

    fn apply(&mut self, peer: &str, name: &str) -> Result<(), Failure> {
        fn in_front<T>(own: &mut Vec<T>, more: Vec<T>) {
            own.splice(0..0, more);
        }
        let variant = self.variant.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.variant.keys().map(String::as_str).collect();
            Failure::new(format!("{peer}/{name}: no such variant; there are: {}", known.join(", ")))
        })?;
        self.about = format!("{}; {}", self.about, variant.about);
        self.durability = variant.durability.unwrap_or(self.durability);
        self.because = variant.because.unwrap_or_else(|| std::mem::take(&mut self.because));
        self.queue_type = variant.queue_type.or(self.queue_type.take());
        self.ports.extend(variant.ports);
        self.values.extend(variant.values);
        in_front(&mut self.uris, variant.uris);
        in_front(&mut self.source, variant.source);
        in_front(&mut self.file, variant.file);
        in_front(&mut self.prepare, variant.prepare);
        in_front(&mut self.process, variant.process);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every peer, and every peer with each of its variants.
    fn every_one() -> Vec<Wanted> {
        let nowhere = Path::new("/nonexistent");
        let mut names = Vec::new();
        for (peer, recipe) in all(nowhere).unwrap() {
            names.extend(recipe.variants().map(|(variant, _)| format!("{peer}/{variant}")));
            names.push(peer);
        }
        names.iter().map(|name| Wanted::find(name, nowhere).unwrap()).collect()
    }

    /// All texts of a description that are rendered.
    fn rendered(recipe: &Recipe) -> Vec<&str> {
        let mut texts: Vec<&str> = recipe.uris.iter().chain(&recipe.metrics).map(String::as_str).collect();
        texts.extend(recipe.file.iter().flat_map(|file| [file.path.as_str(), &file.text]));
        let commands = recipe.prepare.iter().map(|step| (&step.command, &step.env));
        for (command, env) in commands.chain(recipe.process.iter().map(|process| (&process.command, &process.env))) {
            texts.extend(command.iter().chain(env.values()).map(String::as_str));
        }
        for source in &recipe.source {
            match source {
                Source::Debian { suite, packages } => texts.extend(packages.iter().chain([suite]).map(String::as_str)),
                Source::MavenArchive { artifact } => texts.push(artifact),
                Source::MavenJars { artifacts } => texts.extend(artifacts.iter().map(String::as_str)),
                Source::Go { package } => texts.push(package),
                Source::Program { program, variable } => texts.extend([program.as_str(), variable]),
            }
        }
        texts
    }

    #[test]
    fn every_description_renders_and_names_only_its_own_ports() {
        for wanted in every_one() {
            let mut values = wanted.values();
            for name in ["dir", "opt", "java", "name"] {
                values.set(name, "x");
            }
            for (at, port) in wanted.recipe.ports.iter().enumerate() {
                values.set(format!("port.{port}"), (21_000 + at).to_string());
            }
            for text in rendered(&wanted.recipe) {
                values.render(text).unwrap_or_else(|failure| panic!("{}: {failure}", wanted.name));
            }
            assert!(!wanted.recipe.process.is_empty() && !wanted.recipe.uris.is_empty(), "{}", wanted.name);
            for ready in wanted.recipe.process.iter().map(|process| &process.ready) {
                assert!(ready.port.is_some() || ready.log.is_some(), "{}: never ready", wanted.name);
                assert!(ready.port.as_ref().is_none_or(|port| wanted.recipe.ports.contains(port)), "{}", wanted.name);
            }
            for uri in &wanted.recipe.uris {
                let uri: bench_record::target::Target = values.render(uri).unwrap().parse().unwrap();
                assert!(uri.address.starts_with("127.0.0.1:"), "{} listens elsewhere: {uri:?}", wanted.name);
            }
        }
    }

    #[test]
    fn variants_are_applied_in_turn_and_mistakes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let text = r#"
            about = "a broker"
            durability = "d2"
            because = "its default"
            ports = ["a"]
            uris = ["amqp://127.0.0.1:{{port.a}}"]
            values = { sync = "no", version = "1" }
            process = [{ command = ["broker", "{{sync}}"], ready = { port = "a" } }]
            [variant.synced]
            about = "forced"
            durability = "d3"
            because = "sync = yes"
            values = { sync = "yes" }
            [variant.2]
            about = "version 2"
            ports = ["b"]
            uris = ["mqtt://127.0.0.1:{{port.b}}"]
            values = { version = "2" }
            process = [{ command = ["helper"], ready = { log = "up" } }]
        "#;
        fs::write(dir.path().join("own.toml"), text).unwrap();
        let both = Wanted::find("own/synced/2", dir.path()).unwrap();
        assert_eq!((both.recipe.durability, both.recipe.because.as_str()), (Durability::D3, "sync = yes"));
        assert_eq!(both.values().render("{{sync}} {{version}}").unwrap(), "yes 2");
        assert_eq!(both.recipe.process[0].command, ["helper"]);
        assert_eq!(both.recipe.ports, ["a", "b"]);
        assert_eq!(both.recipe.uris, ["mqtt://127.0.0.1:{{port.b}}", "amqp://127.0.0.1:{{port.a}}"]);
        assert_eq!((both.instance().as_str(), both.peer()), ("own.synced.2", "own"));
        for (name, part) in [("other", "no such peer"), ("own/3", "there are: 2, synced")] {
            let failure = Wanted::find(name, dir.path()).unwrap_err().to_string();
            assert!(failure.contains(part), "{failure}");
        }
    }
}
