//! Random bytes from the operating system, and the credentials of the first user.

use std::path::Path;

use auth::{Permission, Tags};
use broker::FirstUser;

use crate::config::{FirstRights, Users};
use crate::exit::{Exit, Failure};

/// Fresh random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Exit::System.because(format!("the operating system gives no random bytes: {error}")))?;
    Ok(bytes)
}

/// The first user: its name and password come from the settings or the files that they name.
pub(crate) fn default_user(users: &Users) -> Result<FirstUser, Failure> {
    let name = match &users.name_file {
        Some(path) => first_line("default_user_file", path)?,
        None => users.name.clone(),
    };
    let password = match &users.password_file {
        Some(path) => first_line("default_pass_file", path)?,
        None => users.password.clone(),
    };
    let FirstRights { tags, configure, write, read, .. } = &users.first;
    let permission = Permission::new(configure, write, read)
        .map_err(|error| Exit::Config.because(format!("default_permissions: {error}")))?;
    let tags = Tags::new(tags.iter().map(String::as_str));
    Ok(FirstUser { name, password, tags, permission })
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
            first: FirstRights {
                vhost: "/".into(),
                tags: Vec::new(),
                configure: String::new(),
                write: String::new(),
                read: String::new(),
            },
        };
        let failure = |users: &Users| default_user(users).err().unwrap().text;
        let missing = failure(&users);
        assert!(missing.starts_with("default_pass_file: cannot read "), "{missing}");
        std::fs::write(&path, "s3cret\n").unwrap();
        let first = default_user(&users).ok().unwrap();
        assert_eq!((first.name.as_str(), first.password.as_str()), ("guest", "s3cret"));
        std::fs::write(&path, "\n").unwrap();
        assert!(failure(&users).ends_with("is empty"));
        users.password_file = None;
        assert_eq!(default_user(&users).ok().unwrap().password, "guest");
    }
}
