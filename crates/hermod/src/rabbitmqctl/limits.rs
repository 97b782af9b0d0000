//! The verbs of `rabbitmqctl` that set, clear and list limits of users and vhosts.
//!
//! As in RabbitMQ, a document for a user has the limits to change, and a document for a vhost has
//! all of its limits.

use management::{Change, LimitChange, Listed};
use serde_json::{Value as Json, json};

use super::call::Call;
use super::{DATA, NO_USER, Output, Refusal, done, words};
use crate::cli::Server;

const OF_VHOSTS: [&str; 2] = ["max-connections", "max-queues"];
const OF_USERS: [&str; 2] = ["max-connections", "max-channels"];

/// Limits in the order of their names; `None` for no limit.
type Limits = [Option<u64>; 2];

/// The present limits of a user.
fn present(server: &Server, user: &str) -> Result<Limits, Refusal> {
    let rows = crate::cli::list(server, Listed::UserLimits, None)?;
    let row = rows.iter().find(|row| row["user"] == user);
    Ok(OF_USERS.map(|limit| row.and_then(|row| row["value"][limit].as_u64())))
}

/// These limits after a change by RabbitMQ's JSON, where a negative limit means none.
fn changed(document: &str, names: [&str; 2], present: Limits) -> Result<Limits, Refusal> {
    let wrong =
        |what: &dyn std::fmt::Display| Refusal::new(DATA, format!("the limits are no JSON object of numbers: {what}"));
    let given: std::collections::BTreeMap<String, i64> =
        serde_json::from_str(document).map_err(|error| wrong(&error))?;
    if let Some(strange) = given.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(Refusal::new(DATA, format!("there is no limit {strange}, only {}", names.join(" and "))));
    }
    let mut limits = present;
    for (limit, name) in limits.iter_mut().zip(names) {
        if let Some(given) = given.get(name) {
            *limit = u64::try_from(*given).ok();
        }
    }
    Ok(limits)
}

pub(super) fn set_vhost(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [document] = words(call)?;
    let name = call.vhost().to_owned();
    let [connections, queues] = changed(document, OF_VHOSTS, [None; 2])?;
    let banner = format!("Setting vhost limits to \"{document}\" for vhost \"{name}\" ...");
    done(server, banner, Change::Limits(LimitChange::OfVhost { name, connections, queues }))
}

pub(super) fn clear_vhost(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [] = words(call)?;
    let name = call.vhost().to_owned();
    let banner = format!("Clearing vhost \"{name}\" limits ...");
    done(server, banner, Change::Limits(LimitChange::OfVhost { name, connections: None, queues: None }))
}

fn limit_user(server: &Server, banner: String, name: &str, limits: Limits) -> Result<(String, Output), Refusal> {
    let [connections, sessions] = limits.map(|limit| limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX - 1)));
    done(server, banner, Change::Limits(LimitChange::OfUser { name: name.to_owned(), connections, sessions }))
}

pub(super) fn set_user(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [name, document] = words(call)?;
    let present = present(server, name)?;
    let limits = changed(document, OF_USERS, present)?;
    limit_user(server, format!("Setting user limits to \"{document}\" for user \"{name}\" ..."), name, limits)
}

/// Clears one limit, or all of them.
pub(super) fn clear_user(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let [name, which] = words(call)?;
    let mut limits = present(server, name)?;
    match OF_USERS.iter().position(|limit| *limit == which) {
        Some(at) => limits[at] = None,
        None if which == "all" => limits = [None; 2],
        None => {
            let known = OF_USERS.join(" and ");
            return Err(Refusal::new(DATA, format!("there is no limit {which}, only {known}; 'all' is all of them")));
        }
    }
    let what = if which == "all" { "all limits".to_owned() } else { format!("\"{which}\" limit") };
    limit_user(server, format!("Clearing {what} for user \"{name}\" ..."), name, limits)
}

/// The limits of one vhost as a document; with `--global` a row for each vhost that has limits.
pub(super) fn list_vhost(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let rows = crate::cli::list(server, Listed::VhostLimits, None)?;
    if call.flag("global") {
        return Ok(("Listing limits for all vhosts ...".to_owned(), table("vhost", &rows)));
    }
    let vhost = call.vhost();
    let known = crate::cli::list(server, Listed::Vhosts, None)?;
    if !known.iter().any(|row| row["name"] == vhost) {
        return Err(Refusal::new(DATA, format!("Virtual host '{vhost}' does not exist")));
    }
    let mut rows = rows;
    rows.iter_mut().for_each(with_absent);
    Ok((format!("Listing limits for vhost \"{vhost}\" ..."), one("vhost", vhost, &rows)))
}

/// The limits of one user as a document; with `--global` a row for each user that has limits.
pub(super) fn list_user(call: &Call, server: &Server) -> Result<(String, Output), Refusal> {
    let rows = crate::cli::list(server, Listed::UserLimits, None)?;
    if call.flag("global") {
        return Ok(("Listing limits for all users ...".to_owned(), table("user", &rows)));
    }
    let user = call.option("user").unwrap_or("guest");
    let known = crate::cli::list(server, Listed::Users, None)?;
    if !known.iter().any(|row| row["name"] == user) {
        return Err(Refusal::new(NO_USER, format!("User \"{user}\" does not exist")));
    }
    Ok((format!("Listing limits for user \"{user}\" ..."), one("user", user, &rows)))
}

/// If one limit is set, the other one is shown as -1. Ansible's module sets both at once, and
/// checks that it finds both.
fn with_absent(row: &mut Json) {
    for name in OF_VHOSTS {
        if row["value"][name].is_null() {
            row["value"][name] = json!(-1);
        }
    }
}

fn one(whose: &str, name: &str, rows: &[Json]) -> Output {
    let row = rows.iter().find(|row| row[whose] == name);
    let document = row.map_or_else(|| json!({}), |row| row["value"].clone());
    Output::Text(format!("{document}\n"))
}

fn table(whose: &str, rows: &[Json]) -> Output {
    let row = |row: &Json| vec![row[whose].clone(), row["value"].to_string().into()];
    Output::Rows { columns: vec![whose.to_owned(), "limits".to_owned()], rows: rows.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_changes_what_it_names_and_nothing_else() {
        let changed =
            |document| changed(document, OF_VHOSTS, [Some(7), None]).map_err(|refusal| (refusal.code, refusal.text));
        assert_eq!(changed(r#"{"max-queues": 3}"#), Ok([Some(7), Some(3)]));
        assert_eq!(changed(r#"{"max-queues": 3, "max-connections": -1}"#), Ok([None, Some(3)]));
        assert_eq!(changed("{}"), Ok([Some(7), None]));
        for (document, words) in [
            ("3", "no JSON object"),
            (r#"{"max-queues":"3"}"#, "no JSON object"),
            (r#"{"max-colours": 3}"#, "max-colours"),
        ] {
            let (code, text) = changed(document).unwrap_err();
            assert!(code == DATA && text.contains(words), "{document}: {text}");
        }
    }
}
