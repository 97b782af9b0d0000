//! The default data directory: one per user, independent of the working directory. So `hermod
//! status` finds the one that `hermod serve` opened.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::config::Settings;
use crate::exit::{Exit, Failure};

/// Name of the control socket in the data directory.
const CONTROL: &str = "control.sock";

/// The effective data directory.
pub(crate) fn data_dir(settings: &Settings) -> Result<PathBuf, Failure> {
    match &settings.store.data_dir {
        Some(path) => Ok(path.clone()),
        None => choose(|name| std::env::var_os(name).filter(|value| !value.is_empty())).ok_or_else(|| {
            Exit::Config.because("data_dir: there is no home directory to keep data in; name one with --data-dir")
        }),
    }
}

/// The control socket of a server with these settings.
pub(crate) fn control_socket(settings: &Settings) -> Result<PathBuf, Failure> {
    Ok(data_dir(settings)?.join(CONTROL))
}

/// Removes a control socket that no server listens on. The socket of a running server stays.
pub(crate) fn sweep(settings: &Settings) -> Result<(), Failure> {
    #[cfg(unix)]
    {
        use std::io::ErrorKind;
        use std::os::unix::net::UnixStream;
        let path = control_socket(settings)?;
        if UnixStream::connect(&path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            // If it stays, the new server reports that it has no control socket.
            let _ = std::fs::remove_file(path);
        }
    }
    #[cfg(not(unix))]
    let _ = settings;
    Ok(())
}

fn choose(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // systemd sets this for units with StateDirectory=; several directories are separated by
    // colons.
    if let Some(state) = variable("STATE_DIRECTORY") {
        return state.into_string().ok()?.split(':').next().map(PathBuf::from);
    }
    if let Some(state) = variable("XDG_STATE_HOME") {
        return Some(PathBuf::from(state).join("hermod"));
    }
    if cfg!(windows) {
        return Some(PathBuf::from(variable("LOCALAPPDATA")?).join("hermod"));
    }
    Some(PathBuf::from(variable("HOME")?).join(".local/state/hermod"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_follows_the_conventions() {
        for (variables, expected) in [
            (&[("STATE_DIRECTORY", "/var/lib/hermod:/x"), ("HOME", "/root")][..], Some("/var/lib/hermod")),
            (&[("XDG_STATE_HOME", "/s"), ("HOME", "/root")], Some("/s/hermod")),
            #[cfg(not(windows))]
            (&[("HOME", "/home/u")], Some("/home/u/.local/state/hermod")),
            (&[], None),
        ] {
            let look =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
            assert_eq!(choose(look), expected.map(PathBuf::from), "{variables:?}");
        }
    }
}
