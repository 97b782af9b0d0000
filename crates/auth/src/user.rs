//! A user as it is stored: name, password hash, tags and permissions, with the bytes that the
//! journal keeps.
//!
//! Format, big-endian: version `u8` = 2, then name, password hash (empty for a user without
//! password), tag count `u16` and tags, permission count `u16` and for each one virtual host,
//! configure, write and read pattern. Every text is `u16` length and UTF-8. The hash is a PHC
//! string of Argon2id, or `$scram-sha-256$` and, with `$` between them, rounds, salt, stored key
//! and server key, the last three in base 64. Sections follow up to the end, each a `u8` that says
//! what it is, a length `u32`, and content:
//!
//! - 1: a topic permission: virtual host, exchange, write and read pattern
//! - 2: limits, each `u32` with `ffffffff` for none: connections, sessions
//! - 3: a role: the name of a user whose permissions this one has as well
//!
//! Version 1 had no sections. To change the format, add a section, or a version and keep reading
//! the old ones: data directories hold them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{PasswordHash, Permission, TopicPermission};

/// The version that is written.
const VERSION: u8 = 2;
/// The version without sections.
const WITHOUT_SECTIONS: u8 = 1;
const TOPIC_PERMISSION: u8 = 1;
const LIMITS: u8 = 2;
const ROLE: u8 = 3;
/// Most roles of a user: each is looked at where its own permissions do not allow something.
const MOST_ROLES: usize = 64;
/// How a limit that is not set is written.
const NO_LIMIT: u32 = u32::MAX;
/// Longest name of a user, virtual host or tag, in bytes: AMQP's short string.
const MAX_NAME: usize = 255;

/// Words attached to a user that open administrative functions, such as `administrator` and
/// `monitoring`. All connections of a user share them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags(Arc<BTreeSet<Box<str>>>);

impl Tags {
    /// The set of `words`; empty ones are left out.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self(Arc::new(words.into_iter().filter(|word| !word.is_empty()).map(Box::from).collect()))
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

/// How much a user may have at a time; `None` for as much as the server lets any user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// Connections.
    pub connections: Option<u32>,
    /// Sessions (AMQP 0-9-1: channels) of all its connections.
    pub sessions: Option<u32>,
}

/// A name that a peer gives as a user's, as the log shows it. It is no longer than the name of any
/// user, because the peer may be a stranger.
pub fn shown_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME)]
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
    /// Permissions on routing keys by virtual host and exchange. Any key is allowed on an exchange
    /// that is not listed.
    pub topic_permissions: BTreeMap<(Box<str>, Box<str>), TopicPermission>,
    /// How much it may have at a time.
    pub limits: UserLimits,
    /// Users whose permissions it has besides its own. Their tags, limits and own roles are not
    /// passed on. A role that is not there gives nothing.
    pub roles: BTreeSet<Box<str>>,
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
        Self {
            name: name.into(),
            password,
            tags: Tags::default(),
            permissions: BTreeMap::new(),
            topic_permissions: BTreeMap::new(),
            limits: UserLimits::default(),
            roles: BTreeSet::new(),
        }
    }

    /// The permission on the routing keys of an exchange, if there is one.
    pub(crate) fn topic_permission(&self, vhost: &str, exchange: &str) -> Option<&TopicPermission> {
        // Few users have any: then nothing is copied to look.
        if self.topic_permissions.is_empty() {
            return None;
        }
        self.topic_permissions.get(&(vhost.into(), exchange.into()))
    }

    /// Takes away every permission in a virtual host.
    pub fn leave(&mut self, vhost: &str) {
        self.permissions.remove(vhost);
        self.topic_permissions.retain(|(place, _), _| **place != *vhost);
    }

    /// Every virtual host in which it has a permission of its own, some more than once.
    pub fn vhosts(&self) -> impl Iterator<Item = &str> {
        let topics = self.topic_permissions.keys().map(|(vhost, _)| &**vhost);
        self.permissions.keys().map(AsRef::as_ref).chain(topics)
    }

    /// Checks the limits that the stored form relies on.
    ///
    /// # Errors
    /// When a name or tag is empty or longer than 255 bytes, or there are more than 65 535 tags or
    /// permissions, or 64 roles.
    pub fn check(&self) -> Result<(), UserError> {
        check_name("user name", &self.name)?;
        for tag in self.tags.iter() {
            check_name("tag", tag)?;
        }
        for vhost in self.vhosts() {
            check_name("virtual host", vhost)?;
        }
        for role in &self.roles {
            check_name("role", role)?;
        }
        if self.roles.len() > MOST_ROLES {
            return Err(UserError::Invalid(format!("there are more than {MOST_ROLES} roles")));
        }
        if self.roles.contains(&self.name) {
            return Err(UserError::Invalid("a user is no role of itself".to_owned()));
        }
        for (_, exchange) in self.topic_permissions.keys() {
            check_exchange(exchange)?;
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
        for ((vhost, exchange), permission) in &self.topic_permissions {
            let mut content = Vec::new();
            for text in [vhost, exchange, permission.write.as_str(), permission.read.as_str()] {
                put_text(&mut content, text);
            }
            put_section(&mut out, TOPIC_PERMISSION, &content);
        }
        if self.limits != UserLimits::default() {
            let limits = [self.limits.connections, self.limits.sessions];
            let content = limits.map(|limit| limit.unwrap_or(NO_LIMIT).to_be_bytes()).concat();
            put_section(&mut out, LIMITS, &content);
        }
        for role in &self.roles {
            let mut content = Vec::new();
            put_text(&mut content, role);
            put_section(&mut out, ROLE, &content);
        }
        Ok(out)
    }

    /// Reads what [`User::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are cut, from a newer version, or hold a hash or pattern that is not valid.
    pub fn decode(bytes: &[u8]) -> Result<Self, UserError> {
        let (&version, rest) = bytes.split_first().ok_or(UserError::Length)?;
        if ![VERSION, WITHOUT_SECTIONS].contains(&version) {
            return Err(UserError::Version(version));
        }
        let mut input = Input(rest);
        let name = input.name("user name")?;
        let password = match input.text("password hash")? {
            "" => None,
            phc => Some(PasswordHash::parse_stored(phc).map_err(invalid)?),
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
        let mut user = Self { tags: Tags(Arc::new(tags)), permissions, ..Self::new(name, password) };
        if version == WITHOUT_SECTIONS && !input.0.is_empty() {
            return Err(UserError::Length);
        }
        while !input.0.is_empty() {
            user.take_section(&mut input)?;
        }
        Ok(user)
    }

    fn take_section(&mut self, input: &mut Input<'_>) -> Result<(), UserError> {
        let [kind] = input.fixed()?;
        let length = u32::from_be_bytes(input.fixed()?);
        let mut section = Input(input.take(length as usize)?);
        match kind {
            TOPIC_PERMISSION => {
                let (vhost, exchange) = (section.name("virtual host")?, section.text("exchange")?);
                check_exchange(exchange)?;
                let (write, read) = (section.text("pattern")?, section.text("pattern")?);
                let permission = TopicPermission::new(&self.name, vhost, write, read).map_err(invalid)?;
                self.topic_permissions.insert((vhost.into(), exchange.into()), permission);
            }
            LIMITS => {
                let [connections, sessions] = [section.fixed()?, section.fixed()?]
                    .map(|bytes| Some(u32::from_be_bytes(bytes)).filter(|limit| *limit != NO_LIMIT));
                self.limits = UserLimits { connections, sessions };
            }
            ROLE => drop(self.roles.insert(section.name("role")?.into())),
            other => {
                return Err(UserError::Invalid(format!("it has a section of kind {other}; use a newer program")));
            }
        }
        if section.0.is_empty() { Ok(()) } else { Err(UserError::Length) }
    }
}

fn invalid(error: impl std::fmt::Display) -> UserError {
    UserError::Invalid(error.to_string())
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    debug_assert!(count <= usize::from(u16::MAX));
    out.extend_from_slice(&(count as u16).to_be_bytes());
}

fn put_section(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    out.push(kind);
    // Names and patterns are limited, so a section is far from 4 GiB.
    out.extend_from_slice(&(content.len() as u32).to_be_bytes());
    out.extend_from_slice(content);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// The bytes not read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], UserError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(UserError::Length)?;
        self.0 = rest;
        Ok(*head)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], UserError> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(UserError::Length)?;
        self.0 = rest;
        Ok(head)
    }

    fn u16(&mut self) -> Result<u16, UserError> {
        Ok(u16::from_be_bytes(self.fixed()?))
    }

    fn text(&mut self, what: &str) -> Result<&'a str, UserError> {
        let length = usize::from(self.u16()?);
        let head = self.take(length)?;
        std::str::from_utf8(head).map_err(|_| UserError::Invalid(format!("the {what} is not UTF-8")))
    }

    fn name(&mut self, what: &str) -> Result<&'a str, UserError> {
        let name = self.text(what)?;
        check_name(what, name)?;
        Ok(name)
    }
}

/// The default exchange has the empty name.
fn check_exchange(name: &str) -> Result<(), UserError> {
    if name.is_empty() { Ok(()) } else { check_name("exchange", name) }
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
        for exchange in ["", "amq.topic", "news"] {
            let permission = TopicPermission::new("alice", "/", "^{username}\\.", ".*").unwrap();
            user.topic_permissions.insert(("/".into(), exchange.into()), permission);
        }
        user.limits.connections = Some(3);
        user.roles.insert("hr".into());
        user
    }

    #[test]
    fn a_record_comes_back_and_every_cut_is_noticed() {
        let user = example();
        let bytes = user.encode().unwrap();
        assert_eq!(User::decode(&bytes), Ok(user));
        // Between sections a cut is no cut, but another user.
        let mut whole = 0;
        for end in 0..bytes.len() {
            match User::decode(&bytes[..end]) {
                Err(error) => assert_eq!(error, UserError::Length, "cut at {end}"),
                Ok(_) => whole += 1,
            }
        }
        assert_eq!(whole, 5);
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(User::decode(&longer), Err(UserError::Length));
    }

    #[test]
    fn stored_bytes_have_this_form() {
        let mut user = User::new("bo", None);
        user.tags = Tags::new(["t"]);
        user.permissions.insert("/".into(), Permission::new("", "a", ".*").unwrap());
        let mut bytes = b"\x01\0\x02bo\0\0\0\x01\0\x01t\0\x01\0\x01/\0\0\0\x01a\0\x02.*".to_vec();
        assert_eq!(User::decode(&bytes).as_ref(), Ok(&user), "version 1 is read");
        bytes[0] = 2;
        assert_eq!(user.encode().unwrap(), bytes);
        let permission = TopicPermission::new("bo", "/", "w", "").unwrap();
        user.topic_permissions.insert(("/".into(), "x".into()), permission);
        user.limits.sessions = Some(5);
        user.roles.insert("hr".into());
        bytes.extend(b"\x01\0\0\0\x0b\0\x01/\0\x01x\0\x01w\0\0\x02\0\0\0\x08\xff\xff\xff\xff\0\0\0\x05");
        bytes.extend(b"\x03\0\0\0\x04\0\x02hr");
        assert_eq!(user.encode().unwrap(), bytes);
        assert_eq!(User::decode(&bytes).as_ref(), Ok(&user));
        bytes.extend(b"\x09\0\0\0\0");
        assert!(User::decode(&bytes).unwrap_err().to_string().contains("section of kind 9"));
    }

    #[test]
    fn invalid_records_say_what_is_wrong() {
        for (bytes, expected) in [
            (&b"\x03"[..], "version 3"),
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

    #[test]
    fn of_a_name_without_end_the_log_shows_the_beginning() {
        for (name, expected) in [
            ("guest".to_owned(), "guest".to_owned()),
            ("n".repeat(255), "n".repeat(255)),
            ("n".repeat(400_000), "n".repeat(255)),
            // Between letters.
            ("ö".repeat(200), "ö".repeat(127)),
        ] {
            assert_eq!(shown_name(&name), expected);
        }
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
