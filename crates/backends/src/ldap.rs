//! LDAP: users and groups of a directory (RFC 4511), Active Directory's among them.
//!
//! A user is let in when the directory takes the password in a bind. Groups then say what the user
//! may do. Names that clients give are escaped before they become part of a name or a filter of the
//! directory (RFC 4514 §2.4, RFC 4515 §3), and an empty password is never sent: directories take
//! it for an anonymous log-in (RFC 4513 §5.1.2). One deadline holds for all that is asked.

mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use auth::{Backend, Credentials, Grant, No, Scopes, Vouched};
use ldap3::{Ldap as Connection, LdapConnAsync, LdapConnSettings, LdapError, Scope, SearchEntry, SearchOptions};

pub use self::template::{Template, TemplateError};
use crate::fetch::is_loopback;
use crate::trust::{self, Shown};

/// The name of this backend.
pub const NAME: &str = "ldap";
/// Most groups of one user that count.
const MOST_GROUPS: i32 = 2048;
/// Longest name of a user, in bytes.
const MOST_NAME: usize = 255;
/// No attribute of an entry is wanted (RFC 4511 §4.5.1.8).
const NO_ATTRIBUTES: &str = "1.1";
/// Results of a bind that say that the credentials are wrong: no such object, invalid DN syntax,
/// inappropriate authentication, invalid credentials, insufficient access, unwilling (RFC 4511
/// §4.1.9). Active Directory says the last of accounts that may not log in.
const WRONG: [u32; 6] = [32, 34, 48, 49, 50, 53];

/// A directory, and what is asked there.
#[derive(Debug, Clone)]
pub struct Directory {
    /// Its servers, as `ldaps://host:636`; the first that answers counts.
    pub servers: Vec<String>,
    /// Whether a connection that begins without TLS goes on with it.
    pub start_tls: StartTls,
    /// File with the certificates that the servers are trusted by.
    pub ca: Option<std::path::PathBuf>,
    /// How long the directory may take to answer, with all that is asked for one log-in.
    pub timeout: Duration,
    /// How the entry of a user is found.
    pub entry: Entry,
    /// The account that looks for entries and groups; without one, the user does.
    pub account: Option<Account>,
    /// Where groups are, and what they give; none for a directory that only knows who one is.
    pub groups: Option<Groups>,
    /// How long a connection keeps the rights of its log-in; zero for as long as it lives.
    pub keep_rights: Duration,
    /// How often it is asked again what those may do who are connected; only with an account.
    pub refresh: Option<Duration>,
}

/// Whether a connection that begins without TLS goes on with it (RFC 4511 §4.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartTls {
    /// It does.
    Yes,
    /// It begins with TLS, or is within this machine.
    No,
}

/// How the entry of a user is found.
#[derive(Debug, Clone)]
pub enum Entry {
    /// Its distinguished name is this.
    Named(Template),
    /// It is the only one below `base` whose `attribute` is the name of the user.
    Found {
        /// Where to look.
        base: String,
        /// The attribute.
        attribute: String,
    },
}

/// An account of the broker in the directory.
#[derive(Clone)]
pub struct Account {
    /// Its distinguished name.
    pub dn: String,
    /// Its password.
    pub password: String,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("dn", &self.dn).finish_non_exhaustive()
    }
}

/// Groups of users.
#[derive(Debug, Clone)]
pub struct Groups {
    /// Where they are.
    pub base: String,
    /// Which of them has the user.
    pub filter: Template,
    /// The scopes that each gives, by its common name or its distinguished name. Their case does
    /// not count.
    pub give: BTreeMap<String, Vec<String>>,
}

/// Asks a directory.
#[derive(Debug)]
pub struct Ldap {
    directory: Directory,
    tls: Arc<rustls::ClientConfig>,
}

/// What the directory is asked about a user.
#[derive(Clone, Copy)]
enum Asked<'a> {
    /// Whether this is its password, and what it may do.
    LogIn(&'a str),
    /// What it may do, as it has logged in before. The account asks.
    Again,
}

/// Why there is no answer yet: the next server may have one, or none will.
enum Failed {
    Here(String),
    Everywhere(No),
}

impl From<LdapError> for Failed {
    fn from(error: LdapError) -> Self {
        Self::Here(error.to_string())
    }
}

impl From<No> for Failed {
    fn from(no: No) -> Self {
        Self::Everywhere(no)
    }
}

impl Ldap {
    /// Will ask this directory, and show this certificate if it asks for one.
    ///
    /// # Errors
    /// If the certificates that it is trusted by can't be read, or the broker's own has another
    /// key.
    pub fn new(mut directory: Directory, shown: Option<Shown>) -> Result<Self, String> {
        let tls = trust::client(directory.ca.as_deref(), shown)?;
        if let Some(groups) = &mut directory.groups {
            let give = std::mem::take(&mut groups.give);
            groups.give = give.into_iter().map(|(name, scopes)| (name.to_lowercase(), scopes)).collect();
        }
        Ok(Self { directory, tls })
    }

    /// Asks one server after another. The time is for all of them.
    async fn ask_all(&self, user: &str, asked: Asked<'_>) -> Result<Grant, No> {
        let mut why = Vec::new();
        for server in &self.directory.servers {
            match self.ask_one(server, user, asked).await {
                Ok(grant) => return Ok(grant),
                Err(Failed::Everywhere(no)) => return Err(no),
                Err(Failed::Here(what)) => why.push(format!("{server}: {what}")),
            }
        }
        Err(No::Unavailable(why.join("; ")))
    }

    /// The same, within the time that the directory has.
    fn ask_in_time(&self, user: &str, asked: Asked<'_>) -> Result<Grant, No> {
        let unavailable = |what: String| No::Unavailable(what);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unavailable(format!("no network: {error}")))?;
        let limit = self.directory.timeout;
        runtime.block_on(async {
            let answer = tokio::time::timeout(limit, self.ask_all(user, asked)).await;
            answer.unwrap_or_else(|_| {
                Err(unavailable(format!("the directory takes longer than {limit:?} (auth_ldap.timeout)")))
            })
        })
    }

    async fn ask_one(&self, server: &str, user: &str, asked: Asked<'_>) -> Result<Grant, Failed> {
        let directory = &self.directory;
        // A server that does not answer leaves the others their part of the time.
        let part = directory.timeout / u32::try_from(directory.servers.len()).unwrap_or(1).max(1);
        let settings = LdapConnSettings::new()
            .set_conn_timeout(part)
            .set_starttls(directory.start_tls == StartTls::Yes)
            .set_config(Arc::clone(&self.tls));
        let (driver, mut connection) = LdapConnAsync::with_settings(settings, server).await?;
        // It ends with the connection, at the latest with the runtime of this question.
        tokio::spawn(async move {
            let _ = driver.drive().await;
        });
        let dn = self.entry(&mut connection, user).await?;
        match asked {
            Asked::LogIn(password) => bind(&mut connection, &dn, password).await?,
            Asked::Again => self.still_there(&mut connection, &dn).await?,
        }
        let name = self.spelling(&mut connection, &dn, user).await?;
        let words = self.words(&mut connection, &dn, user).await?;
        let _ = connection.unbind().await;
        self.grant(&name, &words).map_err(Failed::from)
    }

    /// The distinguished name of the user's entry.
    async fn entry(&self, connection: &mut Connection, user: &str) -> Result<String, Failed> {
        let (base, attribute) = match &self.directory.entry {
            Entry::Named(template) => return Ok(template.name(user)),
            Entry::Found { base, attribute } => (base, attribute),
        };
        self.bind_account(connection).await?;
        let filter = format!("({attribute}={})", ldap3::ldap_escape(user));
        let found = search(connection, (base, Scope::Subtree, &filter), NO_ATTRIBUTES, 2).await?;
        match &found[..] {
            [entry] => Ok(entry.dn.clone()),
            [] => Err(No::Refused("the directory has no entry of this user".to_owned()).into()),
            _ => Err(No::Refused("the directory has several entries of this user".to_owned()).into()),
        }
    }

    /// Refuses one whose entry is gone.
    async fn still_there(&self, connection: &mut Connection, dn: &str) -> Result<(), Failed> {
        self.bind_account(connection).await?;
        match search(connection, (dn, Scope::Base, "(objectClass=*)"), NO_ATTRIBUTES, 1).await?.is_empty() {
            true => Err(No::Refused("the directory has no entry of this user any more".to_owned()).into()),
            false => Ok(()),
        }
    }

    async fn bind_account(&self, connection: &mut Connection) -> Result<(), Failed> {
        let Some(account) = &self.directory.account else { return Ok(()) };
        let bound = connection.simple_bind(&account.dn, &account.password).await?;
        match bound.rc {
            0 => Ok(()),
            rc => Err(Failed::Here(format!(
                "it refuses the account '{}' (auth_ldap.dn_lookup_bind.user_dn, result {rc})",
                account.dn
            ))),
        }
    }

    /// The name of the user as the directory spells it. For a directory `Ada`, `ada` and ` ADA `
    /// are the same, so they must be the same for the broker's limits, too.
    async fn spelling(&self, connection: &mut Connection, dn: &str, user: &str) -> Result<String, Failed> {
        let attribute = match &self.directory.entry {
            Entry::Named(template) => template.attribute(),
            Entry::Found { attribute, .. } => attribute,
        };
        let found = search(connection, (dn, Scope::Base, "(objectClass=*)"), attribute, 1).await?;
        let values =
            found.into_iter().flat_map(|entry| entry.attrs).filter(|(name, _)| name.eq_ignore_ascii_case(attribute));
        let wanted = folded(user);
        let spelled = values.flat_map(|(_, values)| values).find(|value| folded(value) == wanted);
        // One who may not read the own entry is known by the form that all spellings share.
        let name = spelled.unwrap_or(wanted);
        match name.len() > MOST_NAME || name.is_empty() || name.chars().any(char::is_control) {
            true => Err(No::Refused("the user's name is empty, too long or has control characters".to_owned()).into()),
            false => Ok(name),
        }
    }

    /// The scopes that the user's groups give.
    async fn words(&self, connection: &mut Connection, dn: &str, user: &str) -> Result<BTreeSet<String>, Failed> {
        let Some(groups) = &self.directory.groups else { return Ok(BTreeSet::new()) };
        self.bind_account(connection).await?;
        let filter = groups.filter.filter(user, dn);
        let found = search(connection, (&groups.base, Scope::Subtree, &filter), "cn", MOST_GROUPS).await?;
        let mut words = BTreeSet::new();
        for group in found {
            let names = group.attrs.into_values().flatten().chain([group.dn]);
            for scopes in names.filter_map(|name| groups.give.get(&name.to_lowercase())) {
                words.extend(scopes.iter().cloned());
            }
        }
        Ok(words)
    }

    fn grant(&self, user: &str, words: &BTreeSet<String>) -> Result<Grant, No> {
        let (scopes, tags) = Scopes::parse(words.iter().map(String::as_str)).map_err(|count| {
            No::Refused(format!("the user's groups give {count} scopes; at most {} count", auth::MOST_SCOPES))
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let end = (now + self.directory.keep_rights).as_millis();
        let expires = (!self.directory.keep_rights.is_zero()).then(|| u64::try_from(end).unwrap_or(u64::MAX));
        Ok(Grant { user: user.into(), backend: NAME, tags, scopes, expires })
    }
}

impl Backend for Ldap {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Any text but the empty one.
    fn takes(&self, secret: &[u8]) -> bool {
        !secret.is_empty() && !secret.contains(&0) && str::from_utf8(secret).is_ok()
    }

    fn ask(&self, credentials: Credentials<'_>) -> Result<Vouched, No> {
        let wrong = |what: &str| No::Refused(what.to_owned());
        let password = str::from_utf8(credentials.secret).map_err(|_| wrong("the password is no UTF-8"))?;
        if password.is_empty() || credentials.user.trim().is_empty() || credentials.user.len() > MOST_NAME {
            return Err(wrong("the user's name or password is empty, or the name is too long"));
        }
        let grant = self.ask_in_time(credentials.user, Asked::LogIn(password))?;
        Ok(Vouched { grant, valid_for: Duration::MAX })
    }

    fn again(&self, user: &str) -> Result<Grant, No> {
        self.ask_in_time(user, Asked::Again)
    }

    fn asked_again_every(&self) -> Option<Duration> {
        self.directory.refresh
    }
}

/// Whether the directory takes this password for this entry.
async fn bind(connection: &mut Connection, dn: &str, password: &str) -> Result<(), Failed> {
    let bound = connection.simple_bind(dn, password).await?;
    match bound.rc {
        0 => Ok(()),
        rc if WRONG.contains(&rc) => {
            Err(No::Refused(format!("the directory refuses the user's bind (result {rc})")).into())
        }
        rc => Err(Failed::Here(format!("it answers a bind with result {rc}: {}", bound.text))),
    }
}

/// Whether passwords may be sent to this server.
///
/// # Errors
/// If they could be read on the way, or this is no server.
pub fn check_server(url: &str, start_tls: StartTls) -> Result<(), &'static str> {
    const FORM: &str = "this is no server of a directory; write it as ldaps://HOST:PORT";
    let uri: ureq::http::Uri = url.parse().map_err(|_| FORM)?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(FORM) };
    if authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(FORM);
    }
    match (scheme, start_tls) {
        ("ldaps", StartTls::No) | ("ldap", StartTls::Yes) => Ok(()),
        ("ldaps", StartTls::Yes) => {
            Err("it begins with TLS already: write ldap://, or leave out auth_ldap.use_starttls")
        }
        ("ldap", StartTls::No) if is_loopback(authority.host()) => Ok(()),
        ("ldap", StartTls::No) => {
            Err("passwords could be read on the way: write ldaps://, or set auth_ldap.use_starttls")
        }
        _ => Err(FORM),
    }
}

/// The entries that a filter finds, with one attribute. Referrals to other servers are not
/// followed.
async fn search(
    connection: &mut Connection,
    (base, scope, filter): (&str, Scope, &str),
    attribute: &str,
    most: i32,
) -> Result<Vec<SearchEntry>, Failed> {
    let options = SearchOptions::new().sizelimit(most);
    let found = connection.with_search_options(options).search(base, scope, filter, [attribute]).await?;
    match found.1.rc {
        // Success; a referral; and no such object, where a base is not there or is hidden.
        0 | 10 | 32 => {}
        4 => return Err(No::Refused(format!("the directory has more than {most} entries for {filter}")).into()),
        rc => {
            return Err(Failed::Here(format!("it answers a search below '{base}' with result {rc}: {}", found.1.text)));
        }
    }
    let own = found.0.into_iter().filter(|entry| !entry.is_ref() && !entry.is_intermediate());
    Ok(own.map(SearchEntry::construct).collect())
}

/// What all spellings share that a directory takes for the same: without case, outer spaces and
/// repeated ones (RFC 4518 §2.6.1).
fn folded(name: &str) -> String {
    name.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
