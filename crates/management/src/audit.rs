//! What the audit log says of a change: what was done, to what, and a bounded extract of the rest.
//! Never a secret.

use std::fmt::{self, Arguments, Write};
use std::io;

use auth::shown::extract;
use serde::Serialize;

/// Bytes of a name that are logged.
const NAME: usize = 255;
/// Bytes of everything else.
const ABOUT: usize = 1024;

/// A change as the audit log shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) action: &'static str,
    /// Empty if the change is in no vhost.
    pub(crate) vhost: String,
    /// The object that is changed.
    pub(crate) name: String,
    /// The new values, cut to a bounded length.
    pub(crate) about: String,
}

impl Told {
    /// Of a change that its action, its vhost and its name say all of.
    pub(crate) fn plain(action: &'static str, place: [&str; 2]) -> Self {
        Self::of(action, place, format_args!(""))
    }

    /// Of a change with a vhost and a name.
    pub(crate) fn of(action: &'static str, place: [&str; 2], about: Arguments<'_>) -> Self {
        let [vhost, name] = place.map(|text| extract(text, NAME).into_owned());
        Self { action, vhost, name, about: bounded(about) }
    }
}

/// A value of a change as JSON, so that a line can be read by programs.
pub(crate) struct Said<'a, T>(pub(crate) &'a T);

impl<T: Serialize> fmt::Display for Said<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        serde_json::to_writer(Through(f), self.0).map_err(|_| fmt::Error)
    }
}

struct Through<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl io::Write for Through<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.write_str(text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Formats no more than is kept, because the whole text may take megabytes.
fn bounded(about: Arguments<'_>) -> String {
    let mut kept = Kept(String::new());
    if kept.write_fmt(about).is_err() {
        kept.0.push('…');
    }
    kept.0
}

struct Kept(String);

impl Write for Kept {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = ABOUT - self.0.len().min(ABOUT);
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        if text.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::change::Changes;
    use crate::resources::{QueueChange, Secret, UserChange};

    #[test]
    fn what_is_told_is_bounded_and_never_a_secret() {
        let secret = Secret::Password("S3cret".to_owned());
        let user = UserChange::Add { name: "eve".to_owned(), secret, tags: vec!["monitoring".to_owned()] };
        let told = user.told();
        assert_eq!((told.action, &*told.name, &*told.about), ("add_user", "eve", "tags=[\"monitoring\"]"));
        let (vhost, name) = ("v".to_owned(), "q".repeat(4000));
        let arguments = Map::from_iter([("x".to_owned(), json!(vec![0; 100_000]))]);
        let told = QueueChange::Declare { vhost, name, durable: true, auto_delete: false, arguments }.told();
        assert_eq!((told.action, &*told.vhost), ("declare_queue", "v"));
        assert!(told.name.len() < 300 && told.about.len() <= ABOUT + 3 && told.about.ends_with('…'), "{told:?}");
        let arguments = Map::from_iter([("x-größe".to_owned(), json!([5, null]))]);
        let (vhost, name) = ("v".to_owned(), "q".to_owned());
        let told = QueueChange::Declare { vhost, name, durable: true, auto_delete: false, arguments }.told();
        assert_eq!(told.about, r#"durable=true auto_delete=false arguments={"x-größe":[5,null]}"#);
        let purge = QueueChange::Purge { vhost: "v".to_owned(), name: "q".to_owned() };
        assert_eq!(
            purge.told(),
            Told { action: "purge_queue", vhost: "v".into(), name: "q".into(), about: String::new() }
        );
    }
}
