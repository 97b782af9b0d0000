//! `hermod config`: the effective settings, each with its origin.

use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::{Config, describe_all, describe_listener, settings_page};
use crate::exit::Failure;

/// Prints the page of the manual about all settings.
pub(crate) fn manual() -> Result<(), Failure> {
    show(&settings_page(&describe_all(), &describe_listener()))
}

/// Prints the settings.
pub(crate) fn run(config: &Config, form: Form) -> Result<(), Failure> {
    if form == Form::Json {
        let own = config.settings.listen.all.iter().filter(|listening| listening.is_own()).map(|listening| {
            let entry = serde_json::json!({ "value": listening.summary(), "origin": listening.origin.to_string() });
            (format!("listeners.{}", listening.name), entry)
        });
        let settings: serde_json::Map<_, _> = config
            .described
            .iter()
            .map(|setting| {
                let entry = serde_json::json!({ "value": setting.shown(), "origin": setting.origin.to_string() });
                (setting.name.to_owned(), entry)
            })
            .chain(own)
            .collect();
        return show_json(&serde_json::Value::Object(settings));
    }
    if let Some(file) = &config.file {
        eprintln!("configuration file: {}", file.display());
    }
    let own = config.settings.listen.all.iter().filter(|listening| listening.is_own()).map(|listening| {
        vec![format!("listeners.{}", listening.name), listening.summary(), listening.origin.to_string()]
    });
    let rows: Vec<_> = config
        .described
        .iter()
        .map(|setting| vec![setting.name.to_owned(), setting.shown().to_owned(), setting.origin.to_string()])
        .chain(own)
        .collect();
    show(&table::text(&["setting", "value", "origin"], &rows))
}
