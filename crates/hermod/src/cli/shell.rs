//! What a shell and `man` need to know of the command line, written from its declarations.

use std::path::Path;

use clap::{Arg, Command};
use clap_complete::Shell;

use crate::cli::output::show;
use crate::exit::{Exit, Failure};

/// The verb that prints the completions of a shell.
pub(crate) fn completions_command() -> Command {
    Command::new("completions").about("Print the completions for a shell").arg(
        Arg::new("shell")
            .value_name("SHELL")
            .required(true)
            .value_parser(clap::value_parser!(Shell))
            .help("The shell that is to read them"),
    )
}

/// The verb that writes manual pages.
pub(crate) fn man_command() -> Command {
    Command::new("man").about("Write a manual page for each command into a directory").arg(
        Arg::new("directory").value_name("DIR").required(true).help("The directory, such as ~/.local/share/man/man1"),
    )
}

/// Prints the completions of `shell` for all of `hermod`.
pub(crate) fn completions(mut hermod: Command, shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut hermod, "hermod", &mut text);
    show(&String::from_utf8_lossy(&text))
}

/// Writes the manual pages of all commands of `hermod`.
pub(crate) fn man(hermod: Command, directory: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Exit::CannotCreate.because(format!("{directory}: {error}"));
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(hermod, Path::new(directory)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn each_shell_completes_each_verb() {
        let hermod = crate::cli::command();
        for shell in Shell::value_variants() {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut hermod.clone(), "hermod", &mut text);
            let text = String::from_utf8(text).unwrap();
            for verb in hermod.get_subcommands() {
                assert!(text.contains(verb.get_name()), "{shell}: {}", verb.get_name());
            }
        }
    }

    #[test]
    fn there_is_a_manual_page_for_each_command() {
        let dir = tempfile::tempdir().unwrap();
        let hermod = crate::cli::command();
        man(hermod.clone(), dir.path().to_str().unwrap()).unwrap();
        for verb in hermod.get_subcommands() {
            let page = dir.path().join(format!("hermod-{}.1", verb.get_name()));
            let text = std::fs::read_to_string(&page).unwrap();
            assert!(text.starts_with(".ie") && text.contains(verb.get_name()), "{}", page.display());
        }
    }
}
