//! Reads a password from a place that other users of the machine can't read: a prompt that does not
//! show it, or standard input. Any process can list command lines, so a password there is optional.

use std::io::{BufRead, IsTerminal, Write, stdin};

use crate::exit::{Exit, Failure};

/// Longer than any password that the server accepts.
const LONGEST_LINE: u64 = 4096;

/// The given password, else the typed one, else the first line of standard input.
pub(crate) fn read(given: Option<&String>) -> Result<String, Failure> {
    let password = match given {
        Some(password) => password.clone(),
        None => {
            // Its end shows again what is typed.
            let _hidden = stdin().is_terminal().then(Hidden::start).flatten();
            first_line(&mut stdin().lock())?
        }
    };
    if password.is_empty() {
        return Err(Exit::Usage.because("no password: give it with --password, type it, or write it to standard input"));
    }
    Ok(password)
}

/// A typed password. Without a terminal there is none: standard input has something else.
pub(crate) fn read_typed() -> Result<String, Failure> {
    match stdin().is_terminal() {
        true => read(None),
        false => Err(Exit::Usage.because("no password: give it with --password-file, or in HERMOD_PASSWORD")),
    }
}

fn first_line(input: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    let mut limited = std::io::Read::take(input, LONGEST_LINE);
    limited.read_line(&mut line).map_err(|error| Exit::Io.because(format!("standard input: {error}")))?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// While it exists, the terminal does not show typed characters.
struct Hidden {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl Hidden {
    #[cfg(unix)]
    fn start() -> Option<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        eprint!("Password: ");
        let _ = std::io::stderr().flush();
        let before = tcgetattr(stdin()).ok()?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Flush, &silent).ok()?;
        Some(Self { before })
    }

    #[cfg(not(unix))]
    fn start() -> Option<Self> {
        eprint!("Password: ");
        let _ = std::io::stderr().flush();
        None
    }
}

#[cfg(unix)]
impl Drop for Hidden {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = rustix::termios::tcsetattr(stdin(), rustix::termios::OptionalActions::Flush, &self.before);
        eprintln!();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_password() {
        for (input, expected) in [("secret\nmore", "secret"), ("secret\r\n", "secret"), (" s ", " s "), ("", "")] {
            assert_eq!(first_line(&mut input.as_bytes()).unwrap(), expected);
        }
        assert_eq!(read(Some(&"given".to_owned())).unwrap(), "given");
        assert!(read(Some(&String::new())).is_err());
    }
}
