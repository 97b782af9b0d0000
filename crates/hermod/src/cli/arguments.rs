//! Kinds of arguments that several commands have, and how to read their values.

use clap::{Arg, ArgAction, ArgMatches};

/// A required value without a flag.
pub(crate) fn position(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value).required(true).help(help)
}

/// A value after a flag.
pub(crate) fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// A number after a flag.
pub(crate) fn count(name: &'static str, help: &'static str) -> Arg {
    option(name, "COUNT", help).value_parser(clap::value_parser!(u32))
}

/// A flag without a value.
pub(crate) fn ask_for(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// The vhost that a command is about.
pub(crate) fn vhost() -> Arg {
    option("vhost", "VHOST", "The vhost").default_value("/")
}

/// The text that was given; empty if there is none.
pub(crate) fn text(given: &ArgMatches, name: &str) -> String {
    given.try_get_one::<String>(name).ok().flatten().cloned().unwrap_or_default()
}

/// All texts that were given under one name.
pub(crate) fn words(given: &ArgMatches, name: &str) -> Vec<String> {
    given.get_many::<String>(name).into_iter().flatten().cloned().collect()
}

/// The parts of a text that is separated by commas.
pub(crate) fn list_of(given: &ArgMatches, name: &str) -> Vec<String> {
    split(given.get_one::<String>(name).map_or("", String::as_str))
}

/// The parts of a text that is separated by commas, without spaces around them and without empty
/// ones.
pub(crate) fn split(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
