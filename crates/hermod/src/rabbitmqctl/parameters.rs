//! The verbs of `rabbitmqctl` about parameters, of which Hermod has those of shovels and those of
//! the whole broker; and those of the shovel plugin.

use management::{Change, GlobalParameterChange, Listed, ShovelChange};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::call::Call;
use super::{DATA, Output, Refusal, done, words};
use crate::cli::{Server, list as listed};

/// The component of shovels.
const SHOVEL: &str = "shovel";

type Said = Result<(String, Output), Refusal>;

fn of_shovels(component: &str, name: &str) -> Result<(), Refusal> {
    match component == SHOVEL {
        true => Ok(()),
        false => Err(Refusal::new(
            DATA,
            format!("Validation failed: component '{component}' of parameter '{name}' is not built"),
        )),
    }
}

pub(super) fn set(call: &Call, server: &Server) -> Said {
    let [component, name, value] = words(call)?;
    of_shovels(component, name)?;
    let vhost = call.vhost().to_owned();
    // The value may hold passwords, so the banner does not repeat it.
    let banner = format!("Setting runtime parameter \"{name}\" for component \"{component}\" in vhost \"{vhost}\" ...");
    let definition = document(value)?;
    done(server, banner, Change::Shovels(ShovelChange::Set { vhost, name: name.to_owned(), definition }))
}

pub(super) fn clear(call: &Call, server: &Server) -> Said {
    let [component, name] = words(call)?;
    of_shovels(component, name)?;
    let vhost = call.vhost().to_owned();
    let banner =
        format!("Clearing runtime parameter \"{name}\" for component \"{component}\" on vhost \"{vhost}\" ...");
    done(server, banner, Change::Shovels(ShovelChange::Clear { vhost, name: name.to_owned() }))
}

pub(super) fn list(call: &Call, server: &Server) -> Said {
    let banner = format!("Listing runtime parameters for vhost \"{}\" ...", call.vhost());
    let shovels = listed(server, Listed::Shovels, Some(call.vhost()))?;
    Ok((banner, rows(&shovels, &["component", "name", "value"])))
}

pub(super) fn set_global(call: &Call, server: &Server) -> Said {
    let [name, value] = words(call)?;
    let banner = format!("Setting global runtime parameter \"{name}\" to \"{value}\" ...");
    let change = GlobalParameterChange::Set { name: name.to_owned(), value: document(value)? };
    done(server, banner, Change::GlobalParameters(change))
}

pub(super) fn clear_global(call: &Call, server: &Server) -> Said {
    let [name] = words(call)?;
    let banner = format!("Clearing global runtime parameter \"{name}\" ...");
    done(server, banner, Change::GlobalParameters(GlobalParameterChange::Clear { name: name.to_owned() }))
}

pub(super) fn list_global(_: &Call, server: &Server) -> Said {
    let found = listed(server, Listed::GlobalParameters, None)?;
    Ok(("Listing global runtime parameters ...".to_owned(), rows(&found, &["name", "value"])))
}

pub(super) fn set_cluster_name(call: &Call, server: &Server) -> Said {
    let [name] = words(call)?;
    let banner = format!("Setting cluster name to {name} ...");
    done(server, banner, Change::GlobalParameters(GlobalParameterChange::NameCluster { name: name.to_owned() }))
}

fn document<T: DeserializeOwned>(value: &str) -> Result<T, Refusal> {
    serde_json::from_str(value).map_err(|error| Refusal::new(DATA, format!("Could not parse JSON document: {error}")))
}

pub(super) fn delete_shovel(call: &Call, server: &Server) -> Said {
    let [name] = words(call)?;
    let vhost = call.vhost().to_owned();
    let banner = format!("Deleting shovel {name} in vhost {vhost}");
    done(server, banner, Change::Shovels(ShovelChange::Clear { vhost, name: name.to_owned() }))
}

pub(super) fn shovel_status(_: &Call, server: &Server) -> Said {
    let states = listed(server, Listed::ShovelStates, None)?;
    let columns = [
        "vhost",
        "name",
        "type",
        "state",
        "src_uri",
        "src_protocol",
        "src_queue",
        "dest_uri",
        "dest_protocol",
        "dest_queue",
        "forwarded",
        "pending",
        "reason",
    ];
    Ok(("Shovel status ...".to_owned(), rows(&states, &columns)))
}

fn rows(found: &[Json], columns: &[&str]) -> Output {
    let row = |row: &Json| columns.iter().map(|column| row[*column].clone()).collect();
    Output::Rows {
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        rows: found.iter().map(row).collect(),
    }
}
