//! Which broker a command asks: the one of a data directory on this machine, or one on another
//! machine by its URL. `hermod context` keeps URLs and users under names.
//!
//! The file of contexts has passwords in it. Only its owner can read it, no command prints them,
//! and a file that others can read is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use serde::{Deserialize, Serialize};

use crate::cli::arguments::{option, position, text};
use crate::cli::definitions::private;
use crate::cli::output::{Form, show, show_json};
use crate::cli::remote::Address;
use crate::cli::{password, table};
use crate::config::{CONTEXT, PASSWORD, PASSWORD_FILE, URL, USER};
use crate::exit::{Exit, Failure};

/// The name that means the broker of the data directory.
const LOCAL: &str = "local";
/// The contexts of a user, as they are kept.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contexts {
    /// The one that applies if a command names none.
    current: Option<String>,
    #[serde(default)]
    contexts: BTreeMap<String, Context>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    url: String,
    user: String,
    password: Option<String>,
    password_file: Option<String>,
    ca_file: Option<String>,
}

/// The arguments before a verb.
pub(crate) fn arguments(command: Command) -> Command {
    let where_from = "Broker on another machine";
    command
        .arg(option("url", "URL", "Ask the broker at this URL of its HTTP port").help_heading(where_from))
        .arg(option("user", "USER", "The user [default: guest]").help_heading(where_from))
        .arg(
            option("password-file", "FILE", "A file with the password [default: $HERMOD_PASSWORD, or typed]")
                .help_heading(where_from),
        )
        .arg(
            option("ca-file", "FILE", "Certificates (PEM) that sign the broker's [default: the system's]")
                .help_heading(where_from),
        )
        .arg(option("context", "NAME", "Ask the broker of this context").help_heading(where_from))
}

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    let name = || position("name", "NAME", "The context");
    command
        .subcommand(Command::new("list").about("List contexts"))
        .subcommand(
            Command::new("add")
                .about("Add a context, or replace it; the password is typed, or the first line of standard input")
                .arg(name())
                .arg(position("url", "URL", "The URL of the broker's HTTP port"))
                .arg(option("user", "USER", "The user").default_value("guest"))
                .arg(option("password-file", "FILE", "A file to read the password from each time"))
                .arg(option("ca-file", "FILE", "Certificates (PEM) that sign the broker's")),
        )
        .subcommand(
            Command::new("use")
                .about("Ask the broker of this context from now on")
                .arg(Arg::new("name").value_name("NAME").required(true).help("The context, or local for none")),
        )
        .subcommand(Command::new("remove").about("Remove a context").arg(name()))
}

/// Runs `hermod context …`.
pub(crate) fn run(arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let path = file(&variable).ok_or_else(|| Exit::Config.because("there is no home directory to keep contexts in"))?;
    let mut all = read(&path)?;
    let Some((verb, given)) = arguments.subcommand() else { return list(&all, form) };
    let name = text(given, "name");
    let unknown = || Exit::NotFound.because(format!("there is no context '{name}'; hermod context lists them"));
    match verb {
        "add" => {
            if name == LOCAL || name.is_empty() {
                return Err(Exit::Usage.because(format!("'{name}' is no name for a context: choose another")));
            }
            let option = |name| given.get_one::<String>(name).cloned();
            let (url, password_file) = (Address::url(&text(given, "url"))?, option("password-file"));
            let password = if password_file.is_some() { None } else { Some(password::read(None)?) };
            let context =
                Context { url, user: text(given, "user"), password, password_file, ca_file: option("ca-file") };
            all.contexts.insert(name, context);
        }
        "use" if name == LOCAL => all.current = None,
        "use" if !all.contexts.contains_key(&name) => return Err(unknown()),
        "use" => all.current = Some(name),
        "remove" => {
            all.contexts.remove(&name).ok_or_else(unknown)?;
            all.current = all.current.filter(|current| *current != name);
        }
        _ => return list(&all, form),
    }
    write(&path, &all)
}

fn list(all: &Contexts, form: Form) -> Result<(), Failure> {
    let is_current = |name: &String| all.current.as_ref() == Some(name);
    if form == Form::Json {
        let row = |(name, context): (&String, &Context)| {
            serde_json::json!({
                "name": name, "url": context.url, "user": context.user, "current": is_current(name),
            })
        };
        return show_json(&all.contexts.iter().map(row).collect::<Vec<_>>());
    }
    let row = |(name, context): (&String, &Context)| {
        let current = if is_current(name) { "yes" } else { "" };
        vec![name.clone(), context.url.clone(), context.user.clone(), current.to_owned()]
    };
    show(&table::text(&["name", "url", "user", "current"], &all.contexts.iter().map(row).collect::<Vec<_>>()))
}

/// The broker on another machine that a command is for; `None` for the one of the data directory.
/// What is nearest to the command counts: its `--url`, its `--context`, its `--data-dir`, the
/// environment, the current context.
pub(crate) fn chosen(root: &ArgMatches, verb: &ArgMatches) -> Result<Option<Address>, Failure> {
    let flag = |name: &str| root.get_one::<String>(name).cloned();
    let given = Given {
        url: flag("url"),
        user: flag("user"),
        password_file: flag("password-file"),
        ca_file: flag("ca-file"),
        context: flag("context"),
        has_data_dir: verb.value_source("data_dir") == Some(ValueSource::CommandLine),
    };
    let contexts = || file(&variable).map_or_else(|| Ok(Contexts::default()), |path| read(&path));
    given.address(&variable, &contexts)
}

/// What a command line says of the broker to ask.
#[derive(Default)]
struct Given {
    url: Option<String>,
    user: Option<String>,
    password_file: Option<String>,
    ca_file: Option<String>,
    context: Option<String>,
    has_data_dir: bool,
}

impl Given {
    fn address(
        self,
        variable: &dyn Fn(&str) -> Option<String>,
        contexts: &dyn Fn() -> Result<Contexts, Failure>,
    ) -> Result<Option<Address>, Failure> {
        if let Some(url) = &self.url {
            return self.at(url, variable).map(Some);
        }
        if let Some(name) = &self.context {
            return self.of_context(name, contexts()?, variable);
        }
        if self.has_data_dir {
            return Ok(None);
        }
        if let Some(url) = variable(URL) {
            return self.at(&url, variable).map(Some);
        }
        if let Some(name) = variable(CONTEXT) {
            return self.of_context(&name, contexts()?, variable);
        }
        if variable("HERMOD_DATA_DIR").is_some() {
            return Ok(None);
        }
        let all = contexts()?;
        match all.current.clone() {
            Some(name) => self.of_context(&name, all, variable),
            None => Ok(None),
        }
    }

    /// The broker at a URL.
    fn at(&self, url: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Address, Failure> {
        let url = Address::url(url)?;
        let user = self.user.clone().or_else(|| variable(USER));
        let password_file = self.password_file.clone().or_else(|| variable(PASSWORD_FILE));
        let password = match (password_file, variable(PASSWORD), &user) {
            (Some(file), _, _) => of_file(&file)?,
            (None, Some(password), _) => password,
            (None, None, None) => "guest".to_owned(),
            (None, None, Some(_)) => password::read_typed()?,
        };
        Ok(Address { url, user: user.unwrap_or_else(|| "guest".to_owned()), password, ca_file: self.ca_file.clone() })
    }

    fn of_context(
        &self,
        name: &str,
        mut all: Contexts,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Address>, Failure> {
        if name == LOCAL {
            return Ok(None);
        }
        let known = all.contexts.remove(name);
        let Context { url, user, password, password_file, ca_file } = known.ok_or_else(|| {
            Exit::NotFound.because(format!("there is no context '{name}'; hermod context lists them"))
        })?;
        if self.user.is_some() || self.password_file.is_some() {
            let given = Self {
                user: self.user.clone().or(Some(user)),
                password_file: self.password_file.clone(),
                ca_file: self.ca_file.clone().or(ca_file),
                ..Self::default()
            };
            return given.at(&url, variable).map(Some);
        }
        let password = match (password_file, password) {
            (Some(file), _) => of_file(&file)?,
            (None, password) => password.unwrap_or_default(),
        };
        Ok(Some(Address { url, user, password, ca_file: self.ca_file.clone().or(ca_file) }))
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The first line of a file.
fn of_file(file: &str) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| Exit::NotFound.because(format!("--password-file {file}: {error}")))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Where the contexts of this user are kept.
fn file(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let folder = if let Some(config) = variable("XDG_CONFIG_HOME") {
        PathBuf::from(config)
    } else if cfg!(windows) {
        PathBuf::from(variable("APPDATA")?)
    } else {
        PathBuf::from(variable("HOME")?).join(".config")
    };
    Some(folder.join("hermod").join("contexts.toml"))
}

fn read(path: &Path) -> Result<Contexts, Failure> {
    let shown = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Contexts::default()),
        Err(error) => return Err(Exit::Config.because(format!("{shown}: {error}"))),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = path.metadata().map_or(0o600, |metadata| metadata.permissions().mode());
        if mode & 0o077 != 0 {
            return Err(Exit::Config
                .because(format!("{shown} has passwords in it, and others can read it; make it yours: chmod 600")));
        }
    }
    toml::from_str(&text).map_err(|error| Exit::Config.because(format!("{shown}: {error}; correct or remove the file")))
}

fn write(path: &Path, all: &Contexts) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Exit::CannotCreate.because(format!("{}: {error}", path.display()));
    let text = toml::to_string_pretty(all).map_err(|error| Exit::Bug.because(error))?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    private(path, &text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = "current = 'prod'\n[contexts.prod]\nurl = 'https://prod'\nuser = 'ada'\npassword = 'p'\n\
                        [contexts.test]\nurl = 'http://test:1'\nuser = 'bob'\npassword = 'q'\nca_file = '/ca'\n";

    /// The URL, user, password and file of certificates that a command would use.
    fn found(given: Given, variables: &[(&str, &str)]) -> Option<[String; 4]> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let address = given.address(&variable, &|| Ok(toml::from_str(KEPT).unwrap())).unwrap();
        address.map(|address| [address.url, address.user, address.password, address.ca_file.unwrap_or_default()])
    }

    fn of(texts: [&str; 4]) -> Option<[String; 4]> {
        Some(texts.map(str::to_owned))
    }

    #[test]
    fn what_is_nearest_to_the_command_says_which_broker_is_asked() {
        let text = |text: &str| Some(text.to_owned());
        let given = Given::default;
        let variables = [(URL, "http://env"), (USER, "eve"), (PASSWORD, "e")];
        assert_eq!(found(given(), &[]), of(["https://prod", "ada", "p", ""]));
        assert_eq!(found(given(), &variables), of(["http://env", "eve", "e", ""]));
        assert_eq!(found(given(), &[(CONTEXT, "test")]), of(["http://test:1", "bob", "q", "/ca"]));
        assert_eq!(found(given(), &[("HERMOD_DATA_DIR", "/srv")]), None);
        assert_eq!(found(Given { has_data_dir: true, ..given() }, &variables), None);
        assert_eq!(found(Given { context: text("local"), ..given() }, &variables), None);
        let context = Given { context: text("test"), has_data_dir: true, ..given() };
        assert_eq!(found(context, &variables), of(["http://test:1", "bob", "q", "/ca"]));
        let url = Given { url: text("http://flag/"), ..given() };
        assert_eq!(found(url, &[]), of(["http://flag", "guest", "guest", ""]));
        let user = Given { context: text("test"), user: text("zoe"), ..given() };
        assert_eq!(found(user, &[(PASSWORD, "z")]), of(["http://test:1", "zoe", "z", "/ca"]));
    }

    #[test]
    #[cfg(unix)]
    fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hermod").join("contexts.toml");
        write(&path, &toml::from_str(KEPT).unwrap()).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&path).unwrap().contexts.len(), 2);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&path).is_err_and(|failure| failure.text.contains("chmod 600")));
    }
}
