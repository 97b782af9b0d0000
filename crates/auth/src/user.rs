//! A user as it is stored: name, password hash, tags and permissions, with the bytes that the journal keeps.
//!
//! Format, big-endian: version `u8` = 1, then name, PHC string (empty for a user without password), tag count `u16` and
//! tags, permission count `u16` and for each one virtual host, configure, write and read pattern. Every text is `u16`
//! length and UTF-8. To change the format, add a version and keep reading the old ones: data directories hold them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{PasswordHash, Permission};

/// The only version written, and the only one there is.
const VERSION: u8 = 1;
/// Longest name of a user, virtual host or tag, in bytes: AMQP's short string.
const MAX_NAME: usize = 255;

/// Words attached to a user that open administrative functions, such as `administrator` and `monitoring`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags(BTreeSet<Box<str>>);

impl Tags {
    /// The set of `words`; empty ones are left out.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self(words.into_iter().filter(|word| !word.is_empty()).map(Box::from).collect())
    }

    /// Whether `word` is among them.
    pub fn has(&self, word: &str) -> bool {
        self.0.contains(word)
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }
}

/// One user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name; at most 255 bytes, not empty.
    pub name: Box<str>,
    /// The hash of the password; without one the user cannot log in by password.
    pub password: Option<PasswordHash>,
    /// Administrative tags.
    pub tags: Tags,
    /// Permissions by virtual host. A user has no access to a virtual host that is not listed.
    pub permissions: BTreeMap<Box<str>, Permission>,
}

/// A user that cannot be stored, or stored bytes that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserError {
    /// The bytes end too early, or go on after the end.
    Length,
    /// Written by a newer version of this program.
    Version(u8),
    /// A part has a value that cannot be; the text says which and why.
    Invalid(String),
}

impl std::fmt::Display for UserError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length => f.write_str("the user record has the wrong length"),
            Self::Version(version) => {
                write!(f, "the user record has version {version}; this program reads up to {VERSION}: use a newer one")
            }
            Self::Invalid(text) => write!(f, "the user record is invalid: {text}"),
        }
    }
}

impl std::error::Error for UserError {}

impl User {
    /// A user without tags and permissions.
    pub fn new(name: &str, password: Option<PasswordHash>) -> Self {
        Self { name: name.into(), password, tags: Tags::default(), permissions: BTreeMap::new() }
    }

    /// Checks the limits that the stored form relies on.
    ///
    /// # Errors
    /// When a name or tag is empty or longer than 255 bytes, or there are more than 65 535 tags or permissions.
    pub fn check(&self) -> Result<(), UserError> {
        check_name("user name", &self.name)?;
        for tag in self.tags.iter() {
            check_name("tag", tag)?;
        }
        for vhost in self.permissions.keys() {
            check_name("virtual host", vhost)?;
        }
        if self.tags.0.len().max(self.permissions.len()) > usize::from(u16::MAX) {
            return Err(UserError::Invalid("there are more than 65535 tags or permissions".to_owned()));
        }
        Ok(())
    }

    /// The bytes for the journal.
    ///
    /// # Errors
    /// When [`User::check`] finds something.
    pub fn encode(&self) -> Result<Vec<u8>, UserError> {
        self.check()?;
        let mut out = vec![VERSION];
        put_text(&mut out, &self.name);
        put_text(&mut out, self.password.as_ref().map_or("", PasswordHash::as_str));
        put_count(&mut out, self.tags.0.len());
        for tag in self.tags.iter() {
            put_text(&mut out, tag);
        }
        put_count(&mut out, self.permissions.len());
        for (vhost, permission) in &self.permissions {
            put_text(&mut out, vhost);
            put_text(&mut out, permission.configure.as_str());
            put_text(&mut out, permission.write.as_str());
            put_text(&mut out, permission.read.as_str());
        }
        Ok(out)
    }

    /// Reads what [`User::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are cut, from a newer version, or hold a hash or pattern that is not valid.
    pub fn decode(bytes: &[u8]) -> Result<Self, UserError> {
        let (&version, rest) = bytes.split_first().ok_or(UserError::Length)?;
        if version != VERSION {
            return Err(UserError::Version(version));
        }
        let mut input = Input(rest);
        let name = input.name("user name")?;
        let password = match input.text("password hash")? {
            "" => None,
            phc => Some(PasswordHash::parse(phc).map_err(invalid)?),
        };
        let mut tags = BTreeSet::new();
        for _ in 0..input.u16()? {
            tags.insert(Box::from(input.name("tag")?));
        }
        let mut permissions = BTreeMap::new();
        for _ in 0..input.u16()? {
            let vhost = input.name("virtual host")?;
            let patterns = [input.text("pattern")?, input.text("pattern")?, input.text("pattern")?];
            let [configure, write, read] = patterns;
            permissions.insert(vhost.into(), Permission::new(configure, write, read).map_err(invalid)?);
        }
        if !input.0.is_empty() {
            return Err(UserError::Length);
        }
        Ok(Self { name: name.into(), password, tags: Tags(tags), permissions })
    }
}

fn invalid(error: impl std::fmt::Display) -> UserError {
    UserError::Invalid(error.to_string())
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    debug_assert!(count <= usize::from(u16::MAX));
    out.extend_from_slice(&(count as u16).to_be_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// The bytes not read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn u16(&mut self) -> Result<u16, UserError> {
        let (head, rest) = self.0.split_first_chunk::<2>().ok_or(UserError::Length)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*head))
    }

    fn text(&mut self, what: &str) -> Result<&'a str, UserError> {
        let length = usize::from(self.u16()?);
        let (head, rest) = self.0.split_at_checked(length).ok_or(UserError::Length)?;
        self.0 = rest;
        std::str::from_utf8(head).map_err(|_| UserError::Invalid(format!("the {what} is not UTF-8")))
    }

    fn name(&mut self, what: &str) -> Result<&'a str, UserError> {
        let name = self.text(what)?;
        check_name(what, name)?;
        Ok(name)
    }
}

fn check_name(what: &str, name: &str) -> Result<(), UserError> {
    match name.len() {
        0 => Err(UserError::Invalid(format!("the {what} is empty"))),
        1..=MAX_NAME => Ok(()),
        _ => Err(UserError::Invalid(format!("the {what} is longer than {MAX_NAME} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cost;
    use proptest::prelude::*;

    fn example() -> User {
        let cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };
        let mut user = User::new("alice", Some(PasswordHash::create(b"secret", [1; 16], cost).unwrap()));
        user.tags = Tags::new(["monitoring", "", "administrator"]);
        user.permissions.insert("/".into(), Permission::full());
        user.permissions.insert("orders".into(), Permission::new("", "^in\\.", "^(in|out)\\.").unwrap());
        user
    }

    #[test]
    fn a_record_comes_back_and_every_cut_is_noticed() {
        let user = example();
        let bytes = user.encode().unwrap();
        assert_eq!(User::decode(&bytes), Ok(user));
        for end in 0..bytes.len() {
            assert_eq!(User::decode(&bytes[..end]), Err(UserError::Length), "cut at {end}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(User::decode(&longer), Err(UserError::Length));
    }

    #[test]
    fn stored_bytes_have_this_form() {
        let mut user = User::new("bo", None);
        user.tags = Tags::new(["t"]);
        user.permissions.insert("/".into(), Permission::new("", "a", ".*").unwrap());
        let bytes = b"\x01\0\x02bo\0\0\0\x01\0\x01t\0\x01\0\x01/\0\0\0\x01a\0\x02.*";
        assert_eq!(user.encode().unwrap(), bytes);
    }

    #[test]
    fn invalid_records_say_what_is_wrong() {
        for (bytes, expected) in [
            (&b"\x02"[..], "version 2"),
            (b"\x01\0\0\0\0\0\0\0\0", "the user name is empty"),
            (b"\x01\0\x01\xff\0\0\0\0\0\0", "the user name is not UTF-8"),
            (b"\x01\0\x01a\0\x01x\0\0\0\0", "PHC string"),
            (b"\x01\0\x01a\0\0\0\0\0\x01\0\x01/\0\x01(\0\0\0\0", "permission pattern '('"),
        ] {
            let error = User::decode(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let long = User::new(&"n".repeat(256), None).encode().unwrap_err().to_string();
        assert!(long.contains("longer than 255"), "{long}");
    }

    proptest! {
        #[test]
        fn any_valid_user_comes_back(
            name in ".{1,60}", tags in proptest::collection::vec("[a-z]{1,8}", 0..4),
            grants in proptest::collection::btree_map("[a-z/]{1,8}", "[a-z.*]{0,8}", 0..4),
        ) {
            let mut user = User::new(&name, None);
            user.tags = Tags::new(tags.iter().map(String::as_str));
            for (vhost, pattern) in &grants {
                if let Ok(permission) = Permission::new(pattern, "", pattern) {
                    user.permissions.insert(vhost.as_str().into(), permission);
                }
            }
            let bytes = user.encode().unwrap();
            prop_assert_eq!(User::decode(&bytes), Ok(user));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = User::decode(&bytes);
        }
    }
}
