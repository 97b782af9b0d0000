//! The effective configuration: defaults, then the file, then the environment, then flags. The last
//! one wins.
//!
//! An unknown key is an error that names the nearest setting, so that a misspelt limit is noticed.
//! An unknown variable is only a warning, because other programs may write into the environment
//! (Kubernetes does, for a service named `hermod`).

mod backends;
mod disk;
mod file;
mod first_user;
mod http;
mod ldap;
mod listeners;
mod log_levels;
mod logging;
mod manual;
mod nearest;
mod nodes;
mod ports;
mod reader;
mod settings;
mod tls;
mod users;
pub(crate) mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) use backends::{Asked, Http as HttpBackend, OAuth2};
pub(crate) use first_user::FirstRights;
pub(crate) use ldap::Ldap;
pub(crate) use listeners::{Listening, MissingAddress, Serves, TakenPort, describe_listener};
pub(crate) use logging::{LogFileSettings, LogFormat};
pub(crate) use manual::settings_page;
pub(crate) use nearest::nearest;
pub(crate) use ports::Port;
pub(crate) use reader::{Described, Origin, Reader, declare};
pub(crate) use settings::{Durability, Settings};
pub(crate) use tls::{CertificateFiles, LoginFrom, Tls, Verify, Version};
#[cfg(test)]
pub(crate) use tls::{OF_ALL, Passwords};
pub(crate) use users::Users;
pub(crate) use value::bytes as parse_size;

use reader::Layer;
use settings::Listen;

/// The configuration file, if no other one is named.
const SYSTEM_FILE: &str = "/etc/hermod/hermod.toml";
/// The prefix of all variables.
const VARIABLE_PREFIX: &str = "HERMOD_";
/// Variable that names the file.
const FILE_VARIABLE: &str = "HERMOD_CONFIG";
/// The environment variables of commands that ask a broker on another machine.
const CLIENT_VARIABLES: [&str; 5] = [URL, USER, PASSWORD, PASSWORD_FILE, CONTEXT];
pub(crate) const URL: &str = "HERMOD_URL";
pub(crate) const USER: &str = "HERMOD_USER";
pub(crate) const PASSWORD: &str = "HERMOD_PASSWORD";
pub(crate) const PASSWORD_FILE: &str = "HERMOD_PASSWORD_FILE";
pub(crate) const CONTEXT: &str = "HERMOD_CONTEXT";

/// Why the configuration is invalid, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError(String);

impl ConfigError {
    fn new(text: String) -> Self {
        Self(text)
    }

    fn value(name: &str, origin: &Origin, what: &str) -> Self {
        match origin {
            Origin::Default => Self(format!("{name}: {what}")),
            Origin::Flag(flag) => Self(format!("{flag}: {what}")),
            place => Self(format!("{place}: {name}: {what}")),
        }
    }
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Settings, and the origin of each.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) settings: Settings,
    pub(crate) described: Vec<Described>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// Variables that look like misspelt settings, each with the variable that was probably meant.
    pub(crate) suspects: Vec<(String, String)>,
}

impl Config {
    /// Reads the whole configuration. `flags` has values by setting name; `file` is the file that
    /// the command line names.
    pub(crate) fn load(
        flags: &BTreeMap<String, String>,
        file: Option<&Path>,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        let usual = || Some(PathBuf::from(SYSTEM_FILE)).filter(|file| file.exists());
        Self::load_from(flags, named_file(file, environment).or_else(usual), environment)
    }

    /// The same without the system's file: only a file that is named is read.
    pub(crate) fn load_apart(
        flags: &BTreeMap<String, String>,
        file: Option<&Path>,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        Self::load_from(flags, named_file(file, environment), environment)
    }

    fn load_from(
        flags: &BTreeMap<String, String>,
        file: Option<PathBuf>,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        let from_file = match &file {
            Some(file) => file::read(file)?,
            None => file::Contents::default(),
        };
        Self::of(flags, from_file, environment, file)
    }

    /// Whether a file with this text would be taken, without anything beside it.
    pub(crate) fn check_text(name: &str, text: &str) -> Result<(), ConfigError> {
        Self::of(&BTreeMap::new(), file::parse(name, text)?, &BTreeMap::new(), None).map(drop)
    }

    /// Whether the setting `name` takes this value.
    pub(crate) fn check_value(name: &str, value: &str) -> Result<(), ConfigError> {
        const HERE: &str = "the value";
        let layer = Layer::from([(name.to_owned(), (value.to_owned(), Origin::Flag(HERE.to_owned())))]);
        refuse_unknown(&layer, &describe_all())?;
        match Settings::read(&mut Reader::new(vec![layer])) {
            Err(error) if error.0.starts_with(HERE) => Err(error),
            // What it needs besides is a question for all settings together.
            _ => Ok(()),
        }
    }

    fn of(
        flags: &BTreeMap<String, String>,
        from_file: file::Contents,
        environment: &BTreeMap<String, String>,
        file: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let known = describe_all();
        let (from_file, listeners) = (from_file.layer, from_file.listeners);
        refuse_unknown(&from_file, &known)?;
        let (from_environment, suspects) = read_environment(environment, &known);
        let flag_names: BTreeMap<_, _> = known.iter().map(|setting| (setting.name, setting.flag())).collect();
        let from_flags = flags
            .iter()
            .map(|(name, value)| {
                let flag = flag_names.get(name.as_str()).unwrap_or(name);
                (name.clone(), (value.clone(), Origin::Flag(format!("--{flag}"))))
            })
            .collect();
        let mut reader = Reader::new(vec![from_flags, from_environment, from_file]);
        let mut settings = Settings::read(&mut reader)?;
        let described = reader.into_described();
        check_together(&settings)?;
        settings.listen.ports.check_secure(settings.listen.tls.certificate.as_deref(), &described)?;
        let Listen { bind, port_offset, ports, tls, .. } = &settings.listen;
        let short = listeners::Short { bind, port_offset: *port_offset, ports, tls };
        settings.listen.all = listeners::merge(short, listeners, &described)?;
        Ok(Self { settings, described, file, suspects })
    }
}

/// The file that the command line names, or else the environment.
fn named_file(file: Option<&Path>, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    file.map(Path::to_owned).or_else(|| environment.get(FILE_VARIABLE).map(PathBuf::from))
}

/// Every setting with its default.
pub(crate) fn describe_all() -> Vec<Described> {
    let mut reader = Reader::default();
    // A test checks that all defaults are valid. An invalid one would end the list early.
    let _ = Settings::read(&mut reader);
    reader.into_described()
}

fn refuse_unknown(layer: &Layer, known: &[Described]) -> Result<(), ConfigError> {
    for (name, (_, origin)) in layer {
        if known.iter().any(|setting| setting.name == name) {
            continue;
        }
        let hint = match nearest(name, known.iter().map(|setting| setting.name)) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => "hermod config lists all settings".to_owned(),
        };
        return Err(ConfigError::new(format!("{origin}: there is no setting {name}; {hint}")));
    }
    Ok(())
}

fn read_environment(environment: &BTreeMap<String, String>, known: &[Described]) -> (Layer, Vec<(String, String)>) {
    let by_variable: BTreeMap<String, &Described> = known.iter().map(|setting| (setting.variable(), setting)).collect();
    let mut layer = Layer::new();
    let mut suspects = Vec::new();
    for (variable, value) in environment {
        let Some(bare) = variable.strip_prefix(VARIABLE_PREFIX) else { continue };
        if let Some(setting) = by_variable.get(variable) {
            layer.insert(setting.name.to_owned(), (value.clone(), Origin::Environment(variable.clone())));
        } else if variable != FILE_VARIABLE
            && !CLIENT_VARIABLES.contains(&variable.as_str())
            && let Some(nearest) =
                nearest(bare, by_variable.keys().filter_map(|name| name.strip_prefix(VARIABLE_PREFIX)))
        {
            suspects.push((variable.clone(), format!("{VARIABLE_PREFIX}{nearest}")));
        }
    }
    (layer, suspects)
}

/// Checks that need several settings.
fn check_together(settings: &Settings) -> Result<(), ConfigError> {
    settings.listen.ports.check(settings.listen.port_offset, settings.listen.tls.certificate.as_deref())?;
    if settings.listen.bind.is_empty() {
        return Err(ConfigError::new("bind: there is no address to listen on; write at least one".to_owned()));
    }
    settings.listen.tls.check()?;
    settings.log.check()?;
    check_largest_message(settings)
}

/// A body must fit into three quarters of one file of the journal.
fn check_largest_message(settings: &Settings) -> Result<(), ConfigError> {
    let (largest, sizes) = (settings.limits.max_message_size, &settings.store.journal);
    let (file, limiting) = match sizes.max_bytes / 8 {
        eighth if eighth < sizes.file_bytes => (eighth, "an eighth of journal.max_bytes"),
        _ => (sizes.file_bytes, "journal.file_bytes"),
    };
    let room = (file / 4 * 3).saturating_sub(broker::STORED_BESIDES);
    if settings.store.durability == Durability::Memory || largest <= room {
        return Ok(());
    }
    Err(ConfigError::new(format!(
        "limits.max_message_size: a body of {largest} bytes does not fit into a file of the journal, which has room for \
         {room}; the file's {file} bytes are {limiting}: raise that or lower limits.max_message_size"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_file_of_the_packages_is_valid_with_and_without_its_examples() {
        let packed = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/hermod.toml"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hermod.toml");
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Config::load(&BTreeMap::new(), Some(&path), &BTreeMap::new()).unwrap()
        };
        assert_eq!(load(packed).settings.store.data_dir.unwrap(), Path::new("/var/lib/hermod"));
        let is_example = |line: &&str| line.starts_with(|sign: char| sign.is_ascii_lowercase()) && line.contains(" = ");
        let examples: Vec<_> = packed.lines().filter_map(|line| line.strip_prefix('#')).filter(is_example).collect();
        assert!(examples.len() > 5, "{examples:?}");
        let given = load(&examples.join("\n")).described;
        let given = given.iter().filter(|one| one.origin != Origin::Default).count();
        assert_eq!(given, examples.len(), "{examples:?}");
    }

    fn load_text(text: &str) -> Result<Config, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hermod.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&BTreeMap::new(), Some(&path), &BTreeMap::new())
            .map_err(|ConfigError(text)| ConfigError(text.replace(&path.display().to_string(), "hermod.toml")))
    }

    #[test]
    fn defaults_are_valid_and_complete() {
        let config = Config::load(&BTreeMap::new(), None, &BTreeMap::new()).unwrap();
        assert_eq!(config.described.len(), describe_all().len());
        assert!(config.described.iter().all(|setting| setting.origin == Origin::Default && !setting.doc.is_empty()));
        let variables: std::collections::BTreeSet<_> = config.described.iter().map(Described::variable).collect();
        let flags: std::collections::BTreeSet<_> = config.described.iter().map(Described::flag).collect();
        assert_eq!((variables.len(), flags.len()), (config.described.len(), config.described.len()));
    }

    /// Values that no setting of this kind takes.
    pub(super) fn wrong_values(kind: &str) -> [&'static str; 10] {
        match kind {
            "number" => ["", " ", "x", "-1", "1.5", "1e3", "0x10", "1,000", "true", "99999999999999999999"],
            "size" => ["", "x", "-1", "1.5 MiB", "MiB", "1 MiBB", "1 XB", "ten", "1 MiB 2", "99999999 TiB"],
            "time" => ["", "s", "-1 s", "1.5 s", "1 day", "9000 h", "5 minutes", "ten", "1s2", "∞"],
            "port" => ["", "x", "-1", "65536", "1.5", "amqp", "127.0.0.1:5672", "0x10", "true", "5672/tcp"],
            "addresses" => ["x", "::g", "1.2.3", "1.2.3.4:5", "256.0.0.1", "a.example", "[::1", "*x", "-", "eth0"],
            "address" => ["x", " ", "::g", "1.2.3.4", "5679", ":5679", "256.0.0.1:1", "a.example:1", "[::1]", "::1:x"],
            "levels" => ["", "x", "wrn", "warm", "3", "info,debug", "net", "nett=info", "net=loud", "info;net=debug"],
            "version" => ["", "x", "latest", "3", "v3.13", "3,13", "3.x", "-1.2", "3.13 \n", "\u{663}.1"],
            "pattern" => ["(", "[", "a{2,1}", "*", "+a", "(?<", "a)", "[z-a]", "(?P<n>a", "\\"],
            "text" | "path" | "names" => {
                ["\n", "a\n", "\na", "a\nb", "a\tb", "\r\n", "\u{1b}[31m", "a\u{7f}", "\u{85}", "a\u{7}b"]
            }
            // One of a few words.
            _ => ["", " ", "x", "-1", "2.5", "null", "fsyncc", "ja", "a,b", "\n"],
        }
    }

    /// Values that a setting does not take whose text has a shape of its own.
    fn misshapen(name: &str) -> [&'static str; 10] {
        match name {
            "auth_oauth2.issuer"
            | "auth_oauth2.jwks_uri"
            | "auth_oauth2.redirect_uri"
            | "auth_http.user_path"
            | "auth_http.vhost_path"
            | "auth_http.resource_path"
            | "auth_http.topic_path" => [
                "x",
                "a.example/auth",
                "//a.example",
                "https://",
                "https:/a",
                "ftp://a.example/",
                "http://a.example/",
                "https://u:p@a.example/",
                "https://a b/",
                "javascript:alert(1)",
            ],
            "nodes.address" => [
                "x",
                "mq1.example",
                ":5679",
                "mq1.example:",
                "mq1.example:amqp",
                "mq1.example:0",
                "mq1.example:65536",
                "http://mq1.example:5679",
                "mq1 example:5679",
                "::1:5679",
            ],
            "auth_oauth2.algorithms" => {
                ["x", "HS256", "HS512", "none", "rs256", "RS1", "ES512", "RS256;ES256", "RS256 ES256", "RS256,x"]
            }
            _ => [""; 10],
        }
    }

    /// A setting whose kind is text may still take no word that means nothing.
    #[test]
    fn texts_with_a_shape_are_held_to_it() {
        let mut count = 0;
        for setting in describe_all() {
            for wrong in misshapen(setting.name).into_iter().filter(|wrong| !wrong.is_empty()) {
                let told =
                    Config::load(&map(&[(setting.name, wrong)]), None, &BTreeMap::new()).unwrap_err().to_string();
                let begins = format!("--{}: ", setting.flag());
                assert!(told.starts_with(&begins), "{} {wrong:?}: {told}", setting.name);
                let remedies = ["; write", "; use", "is none of ", "leave the user out"];
                assert!(remedies.iter().any(|remedy| told.contains(remedy)), "{} {wrong:?}: {told}", setting.name);
                count += 1;
            }
        }
        assert_eq!(count, 90, "each of the settings above is there");
    }

    /// Each error says where the value is, what is wrong with it, and what would be right. A word
    /// that was taken for something else once silenced the log.
    #[test]
    fn every_setting_refuses_wrong_values_from_every_source() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hermod.toml");
        let remedies = ["; write", "is none of ", "the least is", "the most is", "the levels are", "the parts are"];
        let remedies = [&remedies[..], &["write at least one", "two levels for", "could log in"]].concat();
        for setting in describe_all() {
            for wrong in wrong_values(setting.kind) {
                let value = toml::Value::String(wrong.to_owned());
                std::fs::write(&path, format!("{} = {value}\n", setting.name)).unwrap();
                let here = map(&[(setting.name, wrong)]);
                let there = map(&[(&setting.variable(), wrong)]);
                let nothing = BTreeMap::new();
                for (origin, loaded) in [
                    (format!("{}:1", path.display()), Config::load(&nothing, Some(&path), &nothing)),
                    (setting.variable(), Config::load(&nothing, None, &there)),
                    (format!("--{}", setting.flag()), Config::load(&here, None, &nothing)),
                ] {
                    let name = setting.name;
                    let Err(ConfigError(error)) = loaded else { panic!("{name} took {wrong:?} from {origin}") };
                    assert!(error.starts_with(&origin) || error.starts_with(name), "{name} {wrong:?}: {error}");
                    assert!(remedies.iter().any(|remedy| error.contains(remedy)), "{name} {wrong:?}: {error}");
                }
            }
        }
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hermod.toml");
        std::fs::write(&path, "port_offset = 1\ndurability = 'os'\n[compat]\nproduct = 'A'\n").unwrap();
        let environment = map(&[
            ("HERMOD_CONFIG", path.to_str().unwrap()),
            ("HERMOD_COMPAT_PRODUCT", "B"),
            ("HERMOD_DURABILITY", "memory"),
        ]);
        let config = Config::load(&map(&[("durability", "fsync")]), None, &environment).unwrap();
        let settings = &config.settings;
        assert_eq!((settings.listen.port_offset, settings.compat.product.as_str()), (1, "B"));
        assert_eq!(settings.store.durability, Durability::Fsync);
        let origin = |name| config.described.iter().find(|setting| setting.name == name).unwrap().origin.to_string();
        assert_eq!(origin("durability"), "--durability");
        assert_eq!(origin("compat.product"), "HERMOD_COMPAT_PRODUCT");
        assert_eq!(origin("port_offset"), format!("{}:1", path.display()));
    }

    #[test]
    fn mistakes_in_the_file_name_line_and_remedy() {
        for (text, expected) in [
            ("\ndatadir = 'x'\n", "hermod.toml:2: there is no setting datadir; did you mean data_dir?"),
            (
                "[limits]\nframe_maxx = 1\n",
                "hermod.toml:2: there is no setting limits.frame_maxx; did you mean limits.frame_max?",
            ),
            ("colour = 'red'\n", "hermod.toml:1: there is no setting colour; hermod config lists all settings"),
            ("durability = 'ssd'\n", "hermod.toml:1: durability: 'ssd' is none of fsync, os, memory"),
            ("io_threads = 0\n", "hermod.toml:1: io_threads: 0 is too little; the least is 1, or auto"),
            ("limits.frame_max = 100\n", "hermod.toml:1: limits.frame_max: 100 is too little; the least is 4096"),
            (
                "port_offset = 60000\n",
                "port_offset: ports.amqp 5672 + 60000 is above 65535; use an offset of at most 59863, set ports.amqp to a \
                 lower port, or to 0 to turn its listener off",
            ),
            ("ports.stomp = 5672\n", "ports.stomp: port 5672 is that of ports.amqp already"),
            (
                "ports.amqps = 5671\n",
                "hermod.toml:1: ports.amqps: there is no TLS without a certificate; set tls.certificate and tls.key, too",
            ),
            ("tls.certificate = 'a'\nports.amqps = 5672\n", "ports.amqps: port 5672 is that of ports.amqp already"),
            ("tls.key = 'a'\n", "tls.key: there is no certificate for it; set tls.certificate, too"),
            (
                "tls.verify = 'peer'\n",
                "tls.verify: clients cannot be verified without TLS; set tls.certificate and tls.key, too",
            ),
            (
                "tls.certificate = 'a'\ntls.verify = 'required'\n",
                "tls.verify: nobody's certificates would be trusted; name the file of their issuers with tls.ca",
            ),
            (
                "tls.certificate = 'a'\ntls.ca = 'b'\n",
                "tls.ca: clients are not asked for certificates; set tls.verify to peer or required, or leave tls.ca out",
            ),
            ("tls.least_version = '1.1'\n", "hermod.toml:1: tls.least_version: '1.1' is none of 1.2, 1.3"),
            ("bind = []\n", "bind: there is no address to listen on; write at least one"),
            (
                "limits.max_message_size = '1 GiB'\n",
                "limits.max_message_size: a body of 1073741824 bytes does not fit into a file of the journal, which has \
                 room for 50266112; the file's 67108864 bytes are journal.file_bytes: raise that or lower \
                 limits.max_message_size",
            ),
            (
                "limits.max_message_size = '64 KiB'\njournal.max_bytes = '1 MiB'\n",
                "limits.max_message_size: a body of 65536 bytes does not fit into a file of the journal, which has room \
                 for 32768; the file's 131072 bytes are an eighth of journal.max_bytes: raise that or lower \
                 limits.max_message_size",
            ),
        ] {
            assert_eq!(load_text(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_suspicious_variable_is_reported_and_those_of_kubernetes_are_not() {
        let environment = map(&[
            ("HERMOD_DATADIR", "/x"),
            ("HERMOD_PORT", "tcp://10.0.0.1:5672"),
            ("HERMOD_SERVICE_HOST", "10.0.0.1"),
            ("HERMOD_SERVICE_PORT_AMQP", "5672"),
            ("HERMOD_PORT_5672_TCP_ADDR", "10.0.0.1"),
            ("HOME", "/root"),
        ]);
        let config = Config::load(&BTreeMap::new(), None, &environment).unwrap();
        assert_eq!(config.suspects, [("HERMOD_DATADIR".to_owned(), "HERMOD_DATA_DIR".to_owned())]);
    }
}
