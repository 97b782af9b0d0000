//! Where the worker and the clients' jars come from: Maven builds the one, from sources that this
//! program carries, and fetches the others, once, into the user's cache. What is there is complete:
//! it was made beside its place and moved.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::provider::{Api, Jars};
use bench_record::failure::{Context, Failure};

/// Makes a list of the worker's files with their text.
macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/jvm/", $path)))),*]
    };
}

/// The worker's project, as far as it is needed to build it.
const SOURCES: &[(&str, &str)] = sources![
    "pom.xml",
    "src/main/java/hermod/bench/Answer.java",
    "src/main/java/hermod/bench/AsyncSend.java",
    "src/main/java/hermod/bench/Bodies.java",
    "src/main/java/hermod/bench/BodyReader.java",
    "src/main/java/hermod/bench/Bystander.java",
    "src/main/java/hermod/bench/Command.java",
    "src/main/java/hermod/bench/Consumer.java",
    "src/main/java/hermod/bench/Lacks.java",
    "src/main/java/hermod/bench/Load.java",
    "src/main/java/hermod/bench/Main.java",
    "src/main/java/hermod/bench/Numbers.java",
    "src/main/java/hermod/bench/Producer.java",
    "src/main/java/hermod/bench/Provider.java",
    "src/main/java/hermod/bench/RoundTrips.java",
    "src/main/java/hermod/bench/Samples.java",
    "src/main/java/hermod/bench/Schedule.java",
    "src/main/java/hermod/bench/Seen.java",
    "src/main/java/hermod/bench/Spec.java",
    "src/main/java/hermod/bench/SplitMix.java",
    "src/main/java/hermod/bench/Tally.java",
    "src/main/java/hermod/bench/Worker.java",
];

/// The plugin that fetches, with its version, so that every machine does the same.
const FETCHER: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1";

/// The class path of a worker with a client's `jars`; builds and fetches what is not there yet.
pub(crate) fn class_path(api: Api, jars: &Jars) -> Result<String, Failure> {
    let cache = cache()?;
    let worker = built(&cache)?;
    let classes = worker.join(match api {
        Api::Jakarta => "classes",
        Api::Javax => "javax-classes",
    });
    let client = match jars {
        Jars::Given(path) => path.clone(),
        Jars::Artefact(artefact) => all_in(&fetched(&cache, artefact)?),
        Jars::Inside { archive, path } => unpacked(&cache, archive, path)?.display().to_string(),
    };
    let separator = if cfg!(windows) { ";" } else { ":" };
    Ok([classes.display().to_string(), all_in(&worker.join("lib")), client].join(separator))
}

fn all_in(folder: &Path) -> String {
    folder.join("*").display().to_string()
}

/// The folder in the user's cache that is this program's.
fn cache() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let base = base.ok_or_else(|| Failure::new("no place for jars: neither XDG_CACHE_HOME nor HOME is set"))?;
    Ok(base.join("hermod-bench").join("jms"))
}

/// The worker, compiled: `classes`, `javax-classes` and `lib`.
fn built(cache: &Path) -> Result<PathBuf, Failure> {
    make(cache, &named("worker", SOURCES), |place| {
        eprintln!("hermod-bench: building the JMS worker, once");
        for (path, text) in SOURCES {
            let file = place.join("project").join(path);
            fs::create_dir_all(file.parent().unwrap_or(place)).context(file.display())?;
            fs::write(&file, text).context(file.display())?;
        }
        let (pom, output) = (place.join("project/pom.xml"), place.join("output"));
        maven(
            place,
            &[
                "-f",
                &pom.display().to_string(),
                &format!("-Doutput={}", output.display()),
                "-Dmaven.test.skip=true",
                "prepare-package",
            ],
        )?;
        for part in ["classes", "javax-classes", "lib"] {
            fs::rename(output.join(part), place.join(part)).context(part)?;
        }
        fs::remove_dir_all(&output).context(output.display())
    })
}

/// The folder with an artefact's jar and all that it needs.
fn fetched(cache: &Path, artefact: &str) -> Result<PathBuf, Failure> {
    make(cache, &artefact.replace(':', "-"), |place| {
        eprintln!("hermod-bench: fetching {artefact}, once");
        let pom = place.join("pom.xml");
        fs::write(&pom, project_needing(artefact)?).context(pom.display())?;
        maven(
            place,
            &[
                "-f",
                &pom.display().to_string(),
                &format!("{FETCHER}:copy-dependencies"),
                &format!("-DoutputDirectory={}", place.display()),
                "-DincludeScope=runtime",
            ],
        )
    })
}

/// The jar at `path` in an archive.
fn unpacked(cache: &Path, archive: &str, path: &str) -> Result<PathBuf, Failure> {
    let place = make(cache, &archive.replace(':', "-"), |place| {
        eprintln!("hermod-bench: fetching {archive}, once");
        maven(
            place,
            &[
                &format!("{FETCHER}:unpack"),
                &format!("-Dartifact={archive}"),
                &format!("-DoutputDirectory={}", place.display()),
                &format!("-Dmdep.unpack.includes={path}"),
            ],
        )?;
        if place.join(path).is_file() { Ok(()) } else { Err(Failure::new(format!("{archive} has no {path}"))) }
    })?;
    Ok(place.join(path))
}

/// A project that needs one artefact.
fn project_needing(artefact: &str) -> Result<String, Failure> {
    let mut parts = artefact.splitn(3, ':');
    let (Some(group), Some(name), Some(version)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Failure::new(format!("{artefact}: an artefact is GROUP:NAME:VERSION")));
    };
    Ok(format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>hermod</groupId><artifactId>client</artifactId>\
         <version>1</version><packaging>pom</packaging><dependencies><dependency><groupId>{group}</groupId>\
         <artifactId>{name}</artifactId><version>{version}</version></dependency></dependencies></project>"
    ))
}

/// The folder `name` in the cache. Where it is missing, `fill` makes it beside its place, and it is
/// moved there as a whole.
fn make(cache: &Path, name: &str, fill: impl FnOnce(&Path) -> Result<(), Failure>) -> Result<PathBuf, Failure> {
    let place = cache.join(name);
    if place.is_dir() {
        return Ok(place);
    }
    fs::create_dir_all(cache).context(cache.display())?;
    let making = tempfile::Builder::new().prefix("making-").tempdir_in(cache).context(cache.display())?;
    fill(making.path())?;
    let made = making.keep();
    match fs::rename(&made, &place) {
        Ok(()) => Ok(place),
        // Another run was faster.
        Err(_) if place.is_dir() => {
            fs::remove_dir_all(&made).context(made.display())?;
            Ok(place)
        }
        Err(error) => Err(error).context(place.display()),
    }
}

/// A name that changes with `content`.
fn named(prefix: &str, content: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("{prefix}-{:016x}", hasher.finish())
}

/// Runs Maven within `place`, where a goal without a project leaves notes of its own; what it says
/// goes into the failure.
fn maven(place: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new("mvn");
    let output = command.args(["-q", "-B", "-ntp"]).args(arguments).current_dir(place).output().map_err(|error| {
        Failure::new(format!(
            "mvn: {error}; JMS targets need Maven and a JDK of version 17 or newer, to build the worker and to fetch clients"
        ))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("ERROR")).take(5).collect();
    Err(Failure::new(format!("mvn {}: {}", arguments.join(" "), errors.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_of_the_worker_is_carried() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("jvm");
        let folder = "src/main/java/hermod/bench";
        let mut there: Vec<String> = fs::read_dir(root.join(folder))
            .unwrap()
            .map(|entry| format!("{folder}/{}", entry.unwrap().file_name().into_string().unwrap()))
            .collect();
        there.push("pom.xml".to_owned());
        there.sort();
        let carried: Vec<&str> = SOURCES.iter().map(|(path, _)| *path).collect();
        assert_eq!(carried, there);
    }

    #[test]
    fn what_is_in_the_cache_was_made_as_a_whole() {
        let cache = tempfile::tempdir().unwrap();
        let failed = make(cache.path(), "x", |place| {
            fs::write(place.join("half"), "").unwrap();
            Err(Failure::new("no network"))
        });
        assert!(failed.is_err() && fs::read_dir(cache.path()).unwrap().next().is_none());
        let made = make(cache.path(), "x", |place| fs::write(place.join("whole"), "").context("writing")).unwrap();
        assert!(made.join("whole").is_file());
        make(cache.path(), "x", |_| Err(Failure::new("made again"))).unwrap();
    }

    #[test]
    fn a_project_needs_an_artefact_with_a_version() {
        assert!(project_needing("g:a:1").unwrap().contains("<artifactId>a</artifactId><version>1</version>"));
        assert!(project_needing("g:a").is_err());
    }
}
