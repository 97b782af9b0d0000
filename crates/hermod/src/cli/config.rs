//! `hermod config`: the effective settings, each with its origin; `hermod config check`: whether a
//! broker would start with them.

use std::path::PathBuf;

use clap::{Arg, Command};
use serde_json::json;

use crate::cli::output::{Form, show, show_json};
use crate::cli::table;
use crate::config::{Config, Origin, describe_all, describe_listener, settings_page};
use crate::exit::Failure;
use crate::tls::AllCertificates;
use crate::{links, logins, secrets, serve};

/// Prints the page of the manual about all settings.
pub(crate) fn manual() -> Result<(), Failure> {
    show(&settings_page(&describe_all(), &describe_listener()))
}

/// The arguments of `hermod config check`.
pub(crate) fn check_command(command: Command) -> Command {
    let file = Arg::new("file").value_name("FILE").value_parser(clap::value_parser!(PathBuf));
    command
        .about("Check the settings as a start would, and the files that they name; nothing is opened or changed")
        .arg(file.conflicts_with("config").help("Configuration file, as with --config"))
}

/// Checks the settings, which are read already, and what they name.
///
/// # Errors
/// With what is wrong, as a start would say it.
pub(crate) fn check(config: &Config, form: Form) -> Result<(), Failure> {
    let settings = &config.settings;
    links::check(settings)?;
    AllCertificates::load(&settings.listen.all)?;
    logins::plan(settings)?;
    logins::sign_on(settings)?;
    secrets::default_user(&settings.users)?;
    let warnings = serve::without_effect(config);
    let set = config.described.iter().filter(|setting| setting.origin != Origin::Default).count();
    if form == Form::Json {
        return show_json(&json!({ "file": config.file, "set": set, "warnings": warnings }));
    }
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let file = config.file.as_ref().map_or("no configuration file".to_owned(), |file| file.display().to_string());
    let noun = if set == 1 { "setting differs" } else { "settings differ" };
    show(&format!("{file}: a broker would start with it; {set} {noun} from the default\n"))
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
