//! `hermod cluster`: who belongs to the cluster of a node, and how nodes follow each other. `init`,
//! `invite` and `reinstate` work on the data directory, also while the broker runs; `status` asks
//! the running one.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Arg, ArgMatches, Command};
use management::control::{Answer, Request};
use management::{ClusterStatus, FollowerRow, StandbyRow};
use nodes::{Identity, Role, Standing};

use crate::cli::ask::{Server, ask, strange};
use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::value;
use crate::data_dir;
use crate::exit::{Exit, Failure};
use crate::links::CLUSTERING;

/// How long a token may be used, at most.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Its verbs.
pub(crate) fn command(command: Command) -> Command {
    command
        .subcommand_required(true)
        .subcommand(Command::new("init").about("Make the authority of a new cluster, and the certificate of this node"))
        .subcommand(
            Command::new("invite").about("Print a token, with which one other node can join the cluster").arg(
                Arg::new("for")
                    .long("for")
                    .value_name("TIME")
                    .default_value("1 h")
                    .help("How long the token can be used, at most seven days"),
            ),
        )
        .subcommand(Command::new("status").about("Show how this node follows another, and which nodes follow it"))
        .subcommand(
            Command::new("reinstate").about("Let a node serve again that was replaced by one that never served"),
        )
}

/// Runs a verb.
pub(crate) fn run(server: &Server, arguments: &ArgMatches, form: Form) -> Result<(), Failure> {
    let Some((verb @ ("init" | "invite" | "reinstate"), given)) = arguments.subcommand() else {
        return status(server, form);
    };
    if server.remote.is_some() {
        return Err(Exit::Usage.because(format!(
            "cluster {verb} works on the files of a node: run it on its machine, without --url and context"
        )));
    }
    let directory = data_dir::data_dir(&server.settings)?;
    match verb {
        "init" => {
            let identity = init(&directory)?;
            show(&format!("node {} of cluster {}\n", identity.node, identity.cluster))
        }
        "invite" => invite(server, &directory, given.get_one::<String>("for").map_or("", String::as_str)),
        _ => reinstate(&directory),
    }
}

fn failed(directory: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| Exit::Io.because(format!("{}: {error}", directory.display()))
}

/// Files of another user than the server's could not be read by it.
fn check_owner(directory: &Path) -> Result<(), Failure> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let owner = std::fs::metadata(directory).map(|found| found.uid());
        let me = rustix::process::geteuid().as_raw();
        if owner.as_ref().is_ok_and(|owner| *owner != me) {
            return Err(Exit::NoPermission.because(format!(
                "{} is not yours: run this as the user that runs the server, such as sudo -u hermod hermod cluster invite",
                directory.display()
            )));
        }
    }
    #[cfg(not(unix))]
    let _ = directory;
    Ok(())
}

fn init(directory: &Path) -> Result<Identity, Failure> {
    if directory.exists() {
        check_owner(directory)?;
    }
    if let Some(known) = Identity::load(directory).map_err(failed(directory))? {
        let what = format!("{} is node {} of cluster {} already", directory.display(), known.node, known.cluster);
        return Err(Exit::CannotCreate.because(what));
    }
    Identity::create(directory).map_err(failed(directory))
}

fn invite(server: &Server, directory: &Path, time: &str) -> Result<(), Failure> {
    let wrong = |what: &str| Exit::Usage.because(format!("--for: {what}"));
    let time = value::duration(time).map_err(|what| wrong(&what))?;
    if time.is_zero() || time > LONGEST {
        return Err(wrong("a token can be used for a second to seven days"));
    }
    check_owner(directory)?;
    let address = invited_to(server)?;
    let identity = match Identity::load(directory).map_err(failed(directory))? {
        Some(identity) => identity,
        None => Identity::create(directory).map_err(failed(directory))?,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let token = identity.invite(&address, now, now + time.as_secs()).map_err(failed(directory))?;
    show(&format!("{}\n", token.text()))
}

/// Where others reach this node: as the settings here say, else as the running broker does.
fn invited_to(server: &Server) -> Result<String, Failure> {
    let known = server.settings.listen.nodes.reached_at();
    if !known.is_empty() {
        return Ok(known);
    }
    let unknown = |why: &str| {
        let what = "so no node could join: set it for the broker, restart that, and run this while it serves";
        Exit::Config.because(format!("nodes.listen is not set{why}, {what}"))
    };
    match ask(server, &Request::Status) {
        Ok(Answer::Status(status)) => {
            let mut listeners = status.server.listeners.into_iter();
            let row = listeners.find(|row| row.protocol == CLUSTERING);
            row.map(|row| row.address).ok_or_else(|| unknown(" there"))
        }
        Ok(other) => Err(strange(&other)),
        Err(failure) => Err(unknown(&format!(" here, and the broker can't be asked for it ({})", failure.text))),
    }
}

fn reinstate(directory: &Path) -> Result<(), Failure> {
    check_owner(directory)?;
    let standing = Standing::load(directory).map_err(failed(directory))?;
    let Role::Replaced { by, .. } = &standing.role else {
        return Err(Exit::CannotCreate.because("this node was not replaced by another one"));
    };
    let text =
        format!("this node serves again from its next start on; if {by} serves, too, it will be refused again\n");
    // The term that the other one would have begun is over: this node is in the one before.
    let term = standing.term.saturating_sub(1);
    Standing { term, role: Role::Serves, to_tell: None }.keep(directory).map_err(failed(directory))?;
    show(&text)
}

/// How this node follows; none if it serves.
pub(crate) fn standby(server: &Server) -> Result<Option<StandbyRow>, Failure> {
    match ask(server, &Request::Standby)? {
        Answer::Standby(row) => Ok(Some(*row)),
        Answer::Refused(_) => Ok(None),
        other => Err(strange(&other)),
    }
}

/// What this node is to others, if it serves.
fn cluster(server: &Server) -> Result<ClusterStatus, Failure> {
    match ask(server, &Request::Cluster)? {
        Answer::Cluster(cluster) => Ok(*cluster),
        other => Err(strange(&other)),
    }
}

fn status(server: &Server, form: Form) -> Result<(), Failure> {
    if let Some(row) = standby(server)? {
        if form == Form::Json {
            return show_json(&row);
        }
        let rows: Vec<_> = lines(&row).into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        return show(&table::text(&["", ""], &rows));
    }
    let cluster = cluster(server)?;
    if form == Form::Json {
        return show_json(&cluster);
    }
    if let Some(text) = confirms(&cluster) {
        show(&format!("{text}\n"))?;
    }
    if cluster.followers.is_empty() {
        return show("this node serves clients; no node follows it\n");
    }
    let rows: Vec<_> = cluster.followers.iter().map(follower).collect();
    show(&table::text(&["node", "from", "state", "lag: entries", "bytes", "time", "log kept"], &rows))
}

/// What confirms rest on, if they are to wait for a node that follows.
pub(crate) fn confirms(cluster: &ClusterStatus) -> Option<String> {
    let waited = || format!(" The oldest has waited for {}.", seconds(cluster.confirms_waited_ms));
    match (cluster.confirms.as_str(), cluster.alarm()) {
        ("waiting", Some(alarm)) => Some(format!("{alarm}{}", waited())),
        (_, Some(alarm)) => Some(alarm.to_owned()),
        ("replicated", None) => Some("Confirms rest on a node that follows, too.".to_owned()),
        _ => None,
    }
}

fn follower(row: &FollowerRow) -> Vec<String> {
    let lag = [row.lag_entries.to_string(), value::size(row.lag_bytes), seconds(row.lag_ms)];
    let lag = match row.state.as_str() {
        "copying" => [const { String::new() }; 3],
        // How many entries it misses is not counted while it is away.
        "away" => lag.map(|text| if text == "0" { String::new() } else { text }),
        _ => lag,
    };
    let kept = value::size(row.kept_bytes);
    [row.name.clone(), row.address.clone(), row.state.clone()].into_iter().chain(lag).chain([kept]).collect()
}

/// How a standby follows, by name.
pub(crate) fn lines(row: &StandbyRow) -> Vec<(&'static str, String)> {
    let never = || "never".to_owned();
    let state = if row.trouble.is_empty() { row.state.clone() } else { format!("{}: {}", row.state, row.trouble) };
    let mut lines = vec![
        ("follows", row.leader.clone()),
        ("state", state),
        ("term", row.term.to_string()),
        ("can be promoted", if row.whole { "yes" } else { "no: there is no whole copy yet" }.to_owned()),
    ];
    if row.state == "copying" {
        lines.push(("copy", format!("{} of {}", value::size(row.copied_bytes), value::size(row.copy_bytes))));
    }
    lines.extend([
        ("up to date as of", row.lag_ms.map_or_else(never, |ms| format!("{} ago", seconds(ms)))),
        ("missing then", format!("{} entries, {}", row.lag_entries, value::size(row.lag_bytes))),
        ("leader heard", row.heard_ms.map_or_else(never, |ms| format!("{} ago", seconds(ms)))),
        ("entries taken", row.entries.to_string()),
    ]);
    if row.damaged_segments > 0 {
        lines.push(("damaged", format!("{} segments do not read back; the log names them", row.damaged_segments)));
    }
    lines
}

/// Milliseconds as seconds, for people.
pub(crate) fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}
