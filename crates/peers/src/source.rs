//! Having a peer's software: getting it through the machine's own package clients, its version, and
//! how much room it takes.

use std::fs;
use std::io::Write;
use std::iter::repeat;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::directory::{PeersDirectory, create, remove};
use super::licence::{self, Licence};
use super::recipe::{Source, Wanted};
use super::template::Values;
use bench_record::failure::{Context, Failure};
use machine::command::{CommandLine, Inside};
use machine::directory;
use machine::identity::build_of;

/// What a finished installation leaves in its folder.
const DONE: &str = ".installed";
/// The state of a root tree before any peer was put into it.
const MINIMAL: &str = "/var/lib/dpkg/status-minimal";
/// Where a jar keeps its licence.
const JAR_LICENCES: [&str; 2] = ["META-INF/LICENSE", "META-INF/LICENSE.txt"];
/// The packages that a peer needs beyond a minimal system, and their sizes in KiB, one a line.
const CLOSURE: &str = "apt-get -s -o Dir::State::status=/var/lib/dpkg/status-minimal install --no-install-recommends \
    \"$@\" | sed -n 's/^Inst \\([^ ]*\\).*/\\1/p' | xargs -r dpkg-query -W -f '${Installed-Size}\\n'";

/// A peer's software on this machine.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Software {
    /// As the package, the module or the program itself says.
    pub(crate) version: String,
    /// Bytes, with all it needs beyond a minimal system; Java itself does not count.
    pub(crate) bytes: u64,
    /// Where it is unpacked.
    pub(crate) folder: Option<PathBuf>,
    /// The root tree that it is in.
    pub(crate) tree: Option<PathBuf>,
    /// Seconds that getting it took, with whatever the package client had kept; none: that was not
    /// measured.
    pub(crate) install_seconds: Option<f64>,
    pub(crate) licence: Option<Licence>,
}

/// Gets what is missing, and says what there is.
pub(crate) fn install(place: &PeersDirectory, wanted: &Wanted) -> Result<Software, Failure> {
    let _alone = place.lock("install")?;
    let log = place.log(&format!("install-{}", wanted.instance()));
    let values = wanted.values();
    let mut software = Software { install_seconds: Some(0.0), ..Software::default() };
    // The peer's own source comes last, and its version counts.
    for source in &wanted.recipe.source {
        let one = One { place, peer: wanted.peer(), values: &values, log: &log };
        let found = one.get(source).context(&wanted.name)?;
        software = Software {
            version: found.version,
            bytes: software.bytes + found.bytes,
            folder: found.folder.or(software.folder),
            tree: found.tree.or(software.tree),
            install_seconds: software.install_seconds.zip(found.install_seconds).map(|(one, other)| one + other),
            licence: found.licence.or(software.licence),
        };
    }
    Ok(software)
}

/// True when nothing of it would have to be fetched.
pub(crate) fn is_installed(place: &PeersDirectory, wanted: &Wanted) -> bool {
    let values = wanted.values();
    let log = PathBuf::new();
    let one = One { place, peer: wanted.peer(), values: &values, log: &log };
    wanted.recipe.source.iter().all(|source| one.has(source).unwrap_or(false))
}

/// One peer's installation.
struct One<'a> {
    place: &'a PeersDirectory,
    peer: &'a str,
    values: &'a Values,
    log: &'a Path,
}

impl One<'_> {
    fn get(&self, source: &Source) -> Result<Software, Failure> {
        match source {
            Source::Debian { suite, packages } => self.debian(&self.values.render(suite)?, &self.all(packages)?),
            Source::MavenArchive { artifact } => self.archive(&self.values.render(artifact)?),
            Source::MavenJars { artifacts } => self.jars(&self.all(artifacts)?),
            Source::Go { package } => self.go(&self.values.render(package)?),
            Source::Program { program, variable } => self.program(program, variable),
        }
    }

    fn has(&self, source: &Source) -> Result<bool, Failure> {
        Ok(match source {
            Source::Debian { suite, packages } => {
                let tree = self.place.tree(&self.values.render(suite)?);
                self.all(packages)?.iter().all(|package| mark(&tree, package).exists())
            }
            Source::MavenArchive { artifact } => self.folder(&self.values.render(artifact)?).join(DONE).exists(),
            Source::MavenJars { artifacts } => self.folder(first(&self.all(artifacts)?)).join(DONE).exists(),
            Source::Go { package } => self.folder(&self.values.render(package)?).join(DONE).exists(),
            Source::Program { program, variable } => self.program(program, variable).is_ok(),
        })
    }

    fn all(&self, texts: &[String]) -> Result<Vec<String>, Failure> {
        texts.iter().map(|text| self.values.render(text)).collect()
    }

    fn folder(&self, what: &str) -> PathBuf {
        let name = what.replace(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.' && letter != '-', "_");
        self.place.software(&format!("{}-{name}", self.peer))
    }

    fn debian(&self, suite: &str, packages: &[String]) -> Result<Software, Failure> {
        let tree = self.tree(suite)?;
        let inside = |words: Vec<String>| {
            CommandLine::new(words).inside(Some(Inside { tree: tree.clone(), peer: self.place.root().to_path_buf() }))
        };
        let shell = |script: &str| -> Vec<String> {
            let words = ["sh", "-c", script, "sh"].into_iter().map(str::to_owned);
            words.chain(packages.iter().cloned()).collect()
        };
        if !packages.iter().all(|package| mark(&tree, package).exists()) {
            say(&format!("{}: installing {} of Debian {suite}", self.peer, packages.join(" ")));
            // The archive may be a copy of some weeks ago; its signatures are checked all the same.
            let script = "export DEBIAN_FRONTEND=noninteractive; apt-get -q -o Acquire::Check-Valid-Until=false update && apt-get -q -y install --no-install-recommends \"$@\"";
            let begin = Instant::now();
            inside(shell(script)).run(self.log)?;
            let seconds = begin.elapsed();
            for (package, took) in packages.iter().zip([seconds].into_iter().chain(repeat(Duration::ZERO))) {
                done(&mark(&tree, package), took)?;
            }
        }
        let version = inside(shell("dpkg-query -W -f '${Version}' \"$1\"")).output()?;
        let sizes = inside(shell(CLOSURE)).output()?;
        let kib: u64 = sizes.lines().filter_map(|line| line.trim().parse::<u64>().ok()).sum();
        let took = packages.iter().map(|package| took(&mark(&tree, package))).sum::<Option<f64>>();
        let copyright = tree.join("usr/share/doc").join(first(packages)).join("copyright");
        Ok(Software {
            version: upstream(&version),
            bytes: kib * 1024,
            install_seconds: took,
            licence: licence::read(&copyright),
            tree: Some(tree),
            folder: None,
        })
    }

    /// A root tree of `suite`. No service starts in it, since one peer alone may run there.
    fn tree(&self, suite: &str) -> Result<PathBuf, Failure> {
        let tree = self.place.tree(suite);
        if tree.join(DONE).exists() {
            return Ok(tree);
        }
        let user = CommandLine::new(["id", "-u"]).output()?;
        if user != "0" {
            return Err(Failure::new("a Debian root tree is made and entered by root only: run this as root"));
        }
        let listed =
            CommandLine::new(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Label: Debian"]).output()?;
        let archive = listed.lines().find(|uri| !uri.contains("security")).ok_or_else(|| {
            Failure::new("apt-get of this machine knows no archive of Debian, from which a root tree could be made")
        })?;
        say(&format!("{}: making a root tree of Debian {suite}", self.peer));
        remove(&tree)?;
        let place = tree.display().to_string();
        create(self.log)?;
        CommandLine::new(["debootstrap", "--variant=minbase", suite, &place, archive]).run(self.log)?;
        fs::write(tree.join("usr/sbin/policy-rc.d"), "#!/bin/sh\nexit 101\n").context(tree.display())?;
        CommandLine::new(["chmod", "+x", &format!("{place}/usr/sbin/policy-rc.d")]).run(self.log)?;
        fs::write(tree.join("etc/hosts"), "127.0.0.1 localhost\n").context(tree.display())?;
        fs::copy(tree.join("var/lib/dpkg/status"), tree.join(MINIMAL.trim_start_matches('/'))).context(MINIMAL)?;
        create(&tree.join(DONE))?;
        Ok(tree)
    }

    fn archive(&self, artifact: &str) -> Result<Software, Failure> {
        let folder = self.folder(artifact);
        self.once(&folder, artifact, &|| {
            let fetched = folder.join(".fetched");
            self.maven(["dependency:copy", &format!("-Dartifact={artifact}"), &to(&fetched)])?;
            let file = only_file(&fetched)?;
            let (file, into) = (file.display().to_string(), folder.display().to_string());
            if file.ends_with(".zip") {
                CommandLine::new(["unzip", "-q", &file, "-d", &into]).run(self.log)?;
            } else {
                CommandLine::new(["tar", "-xzf", &file, "--strip-components=1", "-C", &into]).run(self.log)?;
            }
            remove(&fetched)
        })?;
        let version = artifact.split(':').nth(2).unwrap_or_default().to_owned();
        let licence = licence::beside(&folder).or_else(|| licence::beside(&only_folder(&folder)?));
        Ok(Software { version, licence, ..Self::unpacked(folder)? })
    }

    fn jars(&self, artifacts: &[String]) -> Result<Software, Failure> {
        let folder = self.folder(first(artifacts));
        self.once(&folder, first(artifacts), &|| {
            let list = folder.join("pom.xml");
            fs::write(&list, project(artifacts)).context(list.display())?;
            let list = list.display().to_string();
            self.maven(["-f", &list, "dependency:copy-dependencies", "-DincludeScope=runtime", &to(&folder)])
        })?;
        let mut parts = first(artifacts).split(':').skip(1);
        let (name, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default().to_owned());
        let licence = packed_licence(&folder.join(format!("{name}-{version}.jar")));
        Ok(Software { version, licence, ..Self::unpacked(folder)? })
    }

    /// What lies in a folder of its own.
    fn unpacked(folder: PathBuf) -> Result<Software, Failure> {
        let (bytes, install_seconds) = (directory::size(&folder)?.bytes, took(&folder.join(DONE)));
        Ok(Software { bytes, install_seconds, folder: Some(folder), ..Software::default() })
    }

    fn maven<const N: usize>(&self, words: [&str; N]) -> Result<(), Failure> {
        let words = ["mvn", "-q", "-B", "-ntp"].into_iter().chain(words);
        CommandLine::new(words).run(self.log)
    }

    fn go(&self, package: &str) -> Result<Software, Failure> {
        let folder = self.folder(package);
        self.once(&folder, package, &|| {
            let env = [("GOBIN".to_owned(), folder.display().to_string())];
            CommandLine::new(["go", "install", package]).env(env.into()).run(self.log)
        })?;
        let program = only_file(&folder)?.display().to_string();
        let built = CommandLine::new(["go", "version", "-m", &program]).output()?;
        let line = built.lines().find_map(|line| line.trim().strip_prefix("mod\t"));
        let mut parts = line.unwrap_or_default().split('\t');
        let (module, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or("unknown"));
        let licence = module_licence(module, version);
        Ok(Software { version: version.trim_start_matches('v').to_owned(), licence, ..Self::unpacked(folder)? })
    }

    fn program(&self, program: &str, variable: &str) -> Result<Software, Failure> {
        let found = find_program(program, variable).ok_or_else(|| match std::env::var_os(variable) {
            Some(named) => Failure::new(format!("{variable}={}: there is no such file", named.display())),
            None => Failure::new(format!(
                "there is no {program} beside this program or in the search path; name one with {variable}=PATH"
            )),
        })?;
        let said = CommandLine::new([found.display().to_string(), "--version".to_owned()]).output()?;
        let version = said.split_whitespace().last().unwrap_or("unknown");
        let version = format!("{version}, build {}", build_of(&found)?);
        let bytes = fs::metadata(&found).context(found.display())?.len();
        let folder = found.parent().map(Path::to_path_buf);
        let licence = folder.as_deref().and_then(licence::beside);
        Ok(Software { version, bytes, licence, folder, ..Software::default() })
    }

    /// Fills `folder` by `fill`, unless that was done before. What a failed try leaves is removed
    /// first.
    fn once(&self, folder: &Path, what: &str, fill: &dyn Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        if folder.join(DONE).exists() {
            return Ok(());
        }
        say(&format!("{}: fetching {what}", self.peer));
        remove(folder)?;
        create(self.log)?;
        fs::create_dir_all(folder).context(folder.display())?;
        let begin = Instant::now();
        fill()?;
        done(&folder.join(DONE), begin.elapsed())
    }
}

/// Tells what is going on, since fetching may take minutes.
fn say(text: &str) {
    eprintln!("{text}");
}

/// Leaves the mark `path` of something that is installed now, and how long that took.
fn done(path: &Path, took: Duration) -> Result<(), Failure> {
    let text = format!("{}\n", took.as_secs_f64());
    create(path)?.write_all(text.as_bytes()).context(path.display())
}

/// The seconds that a mark tells; those of earlier versions tell none.
fn took(mark: &Path) -> Option<f64> {
    fs::read_to_string(mark).ok()?.trim().parse().ok()
}

/// The licence that a jar has within.
fn packed_licence(jar: &Path) -> Option<Licence> {
    let jar = jar.display().to_string();
    JAR_LICENCES.iter().find_map(|file| {
        let text = CommandLine::new(["unzip", "-p", &jar, file]).output().ok()?;
        Some(Licence { name: licence::named(&text), file: (*file).to_owned() })
    })
}

/// The licence of a module, whose source the Go client has kept.
fn module_licence(module: &str, version: &str) -> Option<Licence> {
    let told = CommandLine::new(["go", "mod", "download", "-json", &format!("{module}@{version}")]).output().ok()?;
    let told: serde_json::Value = serde_json::from_str(&told).ok()?;
    licence::beside(Path::new(told.get("Dir")?.as_str()?))
}

/// What says that a package was put into a root tree.
fn mark(tree: &Path, package: &str) -> PathBuf {
    tree.join(format!("{DONE}-{package}"))
}

fn first(artifacts: &[String]) -> &str {
    artifacts.first().map_or("", String::as_str)
}

fn to(folder: &Path) -> String {
    format!("-DoutputDirectory={}", folder.display())
}

/// The version without Debian's epoch and revision.
fn upstream(version: &str) -> String {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    version.rsplit_once('-').map_or(version, |(rest, _)| rest).to_owned()
}

/// A Maven project that needs these artifacts and does nothing.
fn project(artifacts: &[String]) -> String {
    let mut text = "<project><modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>peer</artifactId>\
                    <version>1</version><packaging>pom</packaging><dependencies>"
        .to_owned();
    for artifact in artifacts {
        let mut parts = artifact.split(':');
        let mut next = || parts.next().unwrap_or_default();
        text += &format!(
            "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>",
            next(),
            next(),
            next()
        );
    }
    text + "</dependencies></project>"
}

/// The only visible file of a folder.
fn only_file(folder: &Path) -> Result<PathBuf, Failure> {
    let files = fs::read_dir(folder).context(folder.display())?.flatten().map(|entry| entry.path());
    let visible = |path: &PathBuf| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'));
    files
        .filter(|path| path.is_file())
        .find(visible)
        .ok_or_else(|| Failure::new(format!("{}: empty", folder.display())))
}

/// The only visible folder of a folder, in which some archives keep all they have.
fn only_folder(folder: &Path) -> Option<PathBuf> {
    let mut folders = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    folders.next().filter(|_| folders.next().is_none())
}

/// Where a program is: named by a variable, beside this program, or in the search path.
fn find_program(program: &str, variable: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable) {
        return std::path::absolute(named).ok().filter(|path| path.is_file());
    }
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_path_buf()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(std::env::split_paths(&path))
        .filter_map(|dir| std::path::absolute(dir.join(program)).ok())
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_packages_have_them() {
        let cases = [("4.0.5-9", "4.0.5"), ("1:10.11.6-0+deb12u1", "10.11.6"), ("2.0.21", "2.0.21")];
        for (package, version) in cases {
            assert_eq!(upstream(package), version);
        }
    }

    #[test]
    fn a_mark_tells_how_long_it_took_if_it_knows() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("a/mark");
        assert_eq!(took(&mark), None);
        done(&mark, Duration::from_millis(2500)).unwrap();
        assert_eq!(took(&mark), Some(2.5));
        fs::write(&mark, "").unwrap();
        assert_eq!(took(&mark), None);
    }

    #[test]
    fn a_project_names_each_artifact() {
        let text = project(&["g:a:1".to_owned(), "h:b:2".to_owned()]);
        assert!(text.contains("<groupId>h</groupId><artifactId>b</artifactId><version>2</version>"), "{text}");
    }
}
