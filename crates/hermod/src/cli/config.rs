//! `hermod config`: the effective settings, each with its origin.

use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::{Config, describe_all, settings_page};
use crate::exit::Failure;

/// Prints the page of the manual about all settings.
pub(crate) fn manual() -> Result<(), Failure> {
    show(&settings_page(&describe_all()))
}

/// Prints the settings.
pub(crate) fn run(config: &Config, form: Form) -> Result<(), Failure> {
    if form == Form::Json {
        let settings: serde_json::Map<_, _> = config
            .described
            .iter()
            .map(|setting| {
                let entry = serde_json::json!({ "value": setting.shown(), "origin": setting.origin.to_string() });
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
        .map(|setting| vec![setting.name.to_owned(), setting.shown().to_owned(), setting.origin.to_string()])
        .collect();
    show(&table::text(&["setting", "value", "origin"], &rows))
}
