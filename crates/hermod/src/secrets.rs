//! Random bytes from the operating system, and the credentials of the first user.

use std::path::Path;

use crate::config::Users;
use crate::exit::{Exit, Failure};

/// Fresh random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Exit::System.because(format!("the operating system gives no random bytes: {error}")))?;
    Ok(bytes)
}

/// Name and password of the first user, from the settings or the files that they name.
pub(crate) fn default_user(users: &Users) -> Result<(String, String), Failure> {
    let name = match &users.name_file {
        Some(path) => first_line("default_user_file", path)?,
        None => users.name.clone(),
    };
    let password = match &users.password_file {
        Some(path) => first_line("default_pass_file", path)?,
        None => users.password.clone(),
    };
    Ok((name, password))
}

fn first_line(setting: &str, path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Exit::Config.because(format!("{setting}: cannot read {}: {error}", path.display())))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(Exit::Config.because(format!("{setting}: the first line of {} is empty", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_wins_and_an_empty_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let mut users = Users {
            name: "guest".into(),
            password: "guest".into(),
            name_file: None,
            password_file: Some(path.clone()),
            loopback: Vec::new(),
            login_threads: 1,
            mechanisms: Vec::new(),
            anonymous: None,
        };
        let missing = default_user(&users).unwrap_err().text;
        assert!(missing.starts_with("default_pass_file: cannot read "), "{missing}");
        std::fs::write(&path, "s3cret\n").unwrap();
        assert_eq!(default_user(&users).unwrap(), ("guest".into(), "s3cret".into()));
        std::fs::write(&path, "\n").unwrap();
        assert!(default_user(&users).unwrap_err().text.ends_with("is empty"));
        users.password_file = None;
        assert_eq!(default_user(&users).unwrap().1, "guest");
    }
}
