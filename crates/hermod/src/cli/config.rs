//! `hermod config`: the effective settings, each with its origin.

use crate::cli::output::{show, show_json};
use crate::cli::table;
use crate::config::{Config, Described, describe_all, settings_page};
use crate::exit::Failure;

/// Prints the settings, or the page of the manual about them.
pub(crate) fn run(config: &Config, manual: bool, json: bool) -> Result<(), Failure> {
    if manual {
        return show(&settings_page(&describe_all()));
    }
    if json {
        let settings: serde_json::Map<_, _> = config
            .described
            .iter()
            .map(|setting| {
                let entry = serde_json::json!({ "value": value(setting), "origin": setting.origin.to_string() });
                (setting.name.to_owned(), entry)
            })
            .collect();
        return show_json(&serde_json::Value::Object(settings));
    }
    if let Some(file) = &config.file {
        eprintln!("configuration file: {}", file.display());
    }
    let rows: Vec<_> = config
        .described
        .iter()
        .map(|setting| vec![setting.name.to_owned(), value(setting), setting.origin.to_string()])
        .collect();
    show(&table::text(&["setting", "value", "origin"], &rows))
}

fn value(setting: &Described) -> String {
    if setting.secret { "(hidden)".to_owned() } else { setting.value.clone() }
}
