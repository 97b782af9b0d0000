//! The settings of log-in by a directory (LDAP), declared once like all others.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use auth::RightsOf;
use backends::ldap::{self, StartTls, Template};

use super::ConfigError;
use super::reader::{Reader, declare};
use super::value::{self, optional_path};

/// Log-in by a directory.
#[derive(Debug, Clone)]
pub(crate) struct Ldap {
    pub(crate) servers: Vec<String>,
    pub(crate) start_tls: StartTls,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) timeout: Duration,
    pub(crate) user_dn_pattern: Option<Template>,
    pub(crate) lookup: Lookup,
    pub(crate) groups: GroupsOf,
    pub(crate) keep_rights: Duration,
    refresh: Duration,
}

/// How entries are looked for, and the account that does it.
#[derive(Debug, Clone)]
pub(crate) struct Lookup {
    pub(crate) attribute: String,
    pub(crate) base: String,
    pub(crate) account: String,
    pub(crate) password: String,
    pub(crate) password_file: Option<PathBuf>,
}

/// Where groups are, and what they give.
#[derive(Debug, Clone)]
pub(crate) struct GroupsOf {
    pub(crate) base: String,
    pub(crate) filter: Template,
    pub(crate) give: BTreeMap<String, Vec<String>>,
}

const SERVERS: &str = "Servers of the directory, as `ldaps://HOST:PORT`, the first that answers. `ldap://` only with \
    `auth_ldap.use_starttls`, or for an address of this machine.";
const STARTTLS: &str = "Whether a connection to `ldap://` goes on with TLS before anything is asked.";
const CA: &str = "File with certificates in PEM that the servers are trusted by. By default those are trusted that the \
    system trusts.";
const CERTIFICATE: &str = "File with the certificate in PEM that the broker shows to servers that ask for one, and \
    behind it those of its issuers.";
const KEY: &str = "File with the key of that certificate, in PEM and without a password.";
const TIMEOUT: &str = "How long the directory may take to answer all that is asked for one log-in.";
const PATTERN: &str = "Distinguished name of a user's entry, as `uid=${username},ou=people,dc=example,dc=com`. Not \
    together with `auth_ldap.dn_lookup_attribute`.";
const ATTRIBUTE: &str = "Attribute of entries that is the user's name, as `uid` or `sAMAccountName`. The only entry with \
    it below `auth_ldap.dn_lookup_base` is the user's.";
const BASE: &str = "Where entries of users are looked for.";
const ACCOUNT: &str = "Distinguished name of the account that looks for users and groups. By default no one is named for \
    users, and the user for groups.";
const PASSWORD: &str = "Password of that account. Rather give it by the environment or by \
    `auth_ldap.dn_lookup_bind.password_file` than by a flag, which others can see.";
const PASSWORD_FILE: &str = "File whose first line is that password, for mounted secrets.";
const GROUP_BASE: &str = "Where groups are looked for.";
const GROUP_FILTER: &str = "Which groups have a user: a filter with `${user_dn}`, the distinguished name, or `${username}`. \
    In Active Directory `(member:1.2.840.113556.1.4.1941:=${user_dn})` finds groups within groups, too.";
const GROUPS: &str = "What groups give, each as `NAME=SCOPE SCOPE`. The name is the group's common name. Scopes are \
    those of tokens without a prefix, as `read:*/*`, `write:VHOST/orders.*`, `tag:administrator`; `role:NAME` gives the \
    permissions of the user of that name here.";
const KEEP_RIGHTS: &str = "How long a connection keeps the rights that the directory gave it. Then it is closed, and its \
    client logs in again. `0`: as long as it is open.";

const REFRESH: &str = "How often the account of `auth_ldap.dn_lookup_bind` asks for the groups of those who are \
    connected. What they give no more ends at once; what they give besides counts at once. Without an account nothing \
    is asked. `0`: only at a log-in.";

/// The most time that rights are kept.
const LONGEST: Duration = Duration::from_hours(24 * 365);
const FILTER: &str = "(|(member=${user_dn})(uniqueMember=${user_dn})(memberUid=${username}))";

impl Ldap {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            servers: reader.get(declare("auth_ldap.servers", "names", "", SERVERS), value::names)?,
            start_tls: reader.get(declare("auth_ldap.use_starttls", "flag", "false", STARTTLS), start_tls)?,
            ca: reader.get(declare("auth_ldap.ssl_options.cacertfile", "path", "", CA), optional_path)?,
            certificate: reader
                .get(declare("auth_ldap.ssl_options.certfile", "path", "", CERTIFICATE), optional_path)?,
            key: reader.get(declare("auth_ldap.ssl_options.keyfile", "path", "", KEY), optional_path)?,
            timeout: reader.get(declare("auth_ldap.timeout", "time", "5 s", TIMEOUT), value::timeout)?,
            user_dn_pattern: reader.get(declare("auth_ldap.user_dn_pattern", "text", "", PATTERN), pattern)?,
            lookup: Lookup::read(reader)?,
            groups: GroupsOf::read(reader)?,
            keep_rights: reader.get(declare("auth_ldap.keep_rights", "time", "24 h", KEEP_RIGHTS), keep_rights)?,
            refresh: reader.get(declare("auth_ldap.refresh", "time", "5 min", REFRESH), refresh)?,
        })
    }

    /// How often those who are connected are asked about; `None` if they are not.
    pub(crate) fn refresh(&self) -> Option<Duration> {
        (!self.refresh.is_zero() && !self.lookup.account.is_empty()).then_some(self.refresh)
    }

    /// Checks what needs several of these settings: with the rights that the directory gives, if it
    /// is asked.
    pub(super) fn check(&self, asked: Option<RightsOf>) -> Result<(), String> {
        let Some(rights) = asked else {
            return match self.servers.is_empty() {
                true => Ok(()),
                false => Err("auth_backends: ldap is not among them, but auth_ldap.servers is set; add it, as in \
                              auth_backends = \"internal, ldap\""
                    .to_owned()),
            };
        };
        if self.servers.is_empty() {
            return Err("auth_ldap.servers: which directory is asked? Write ldaps://HOST:PORT".to_owned());
        }
        for server in &self.servers {
            ldap::check_server(server, self.start_tls)
                .map_err(|what| format!("auth_ldap.servers: '{server}': {what}"))?;
        }
        if self.certificate.is_some() != self.key.is_some() {
            return Err("auth_ldap.ssl_options: a certificate needs its key; set both certfile and keyfile".to_owned());
        }
        self.check_entry()?;
        match (rights, self.groups.give.is_empty(), self.groups.base.is_empty()) {
            (RightsOf::Internal, ..) | (RightsOf::Backend, false, false) => Ok(()),
            (RightsOf::Backend, true, _) => {
                Err("auth_ldap.groups: what may the users of the directory do? Write NAME=SCOPE SCOPE for groups, or \
                     ldap/internal in auth_backends"
                    .to_owned())
            }
            (RightsOf::Backend, false, true) => Err("auth_ldap.group_lookup_base: where are the groups?".to_owned()),
        }
    }

    fn check_entry(&self) -> Result<(), String> {
        let Lookup { attribute, base, account, password, password_file } = &self.lookup;
        match (self.user_dn_pattern.is_some(), attribute.is_empty()) {
            (false, true) => Err("auth_ldap.user_dn_pattern: how is the entry of a user found? Set this or \
                                  auth_ldap.dn_lookup_attribute"
                .to_owned()),
            (true, false) => Err("auth_ldap.dn_lookup_attribute: auth_ldap.user_dn_pattern is set, too; one of them \
                                  finds the entry"
                .to_owned()),
            (false, false) if base.is_empty() => {
                Err("auth_ldap.dn_lookup_base: where are the entries of users?".to_owned())
            }
            _ if !password.is_empty() && password_file.is_some() => {
                Err("auth_ldap.dn_lookup_bind.password_file: the password is set, too; it comes from one place"
                    .to_owned())
            }
            _ if account.is_empty() != (password.is_empty() && password_file.is_none()) => {
                Err("auth_ldap.dn_lookup_bind: an account needs user_dn and a password".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl Lookup {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            attribute: reader.get(declare("auth_ldap.dn_lookup_attribute", "text", "", ATTRIBUTE), attribute)?,
            base: reader.get(declare("auth_ldap.dn_lookup_base", "text", "", BASE), line)?,
            account: reader.get(declare("auth_ldap.dn_lookup_bind.user_dn", "text", "", ACCOUNT), line)?,
            password: reader.secret(declare("auth_ldap.dn_lookup_bind.password", "text", "", PASSWORD))?,
            password_file: reader
                .get(declare("auth_ldap.dn_lookup_bind.password_file", "path", "", PASSWORD_FILE), optional_path)?,
        })
    }
}

impl GroupsOf {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let filter = |text: &str| {
            let text = value::one_line(text)?;
            Template::of_filter(text).map_err(|error| format!("'{text}': {error}"))
        };
        Ok(Self {
            base: reader.get(declare("auth_ldap.group_lookup_base", "text", "", GROUP_BASE), line)?,
            filter: reader.get(declare("auth_ldap.group_filter", "text", FILTER, GROUP_FILTER), filter)?,
            give: reader.get(declare("auth_ldap.groups", "names", "", GROUPS), value::named_scopes)?,
        })
    }
}

fn line(text: &str) -> Result<String, String> {
    value::one_line(text).map(str::to_owned)
}

fn start_tls(text: &str) -> Result<StartTls, String> {
    value::flag(text).map(|flag| if flag { StartTls::Yes } else { StartTls::No })
}

fn pattern(text: &str) -> Result<Option<Template>, String> {
    match value::one_line(text)? {
        "" => Ok(None),
        text => Template::of_name(text).map(Some).map_err(|error| format!("'{text}': {error}")),
    }
}

fn attribute(text: &str) -> Result<String, String> {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.');
    if is_name { Ok(text.to_owned()) } else { Err(format!("'{text}' is no attribute; write it as uid")) }
}

fn keep_rights(text: &str) -> Result<Duration, String> {
    match value::duration(text)? {
        short if !short.is_zero() && short < Duration::from_secs(10) => {
            Err(format!("{text} is too short; the least is 10 s, and 0 is as long as a connection is open"))
        }
        long if long > LONGEST => Err(format!("{text} is too long; the most is a year")),
        span => Ok(span),
    }
}

fn refresh(text: &str) -> Result<Duration, String> {
    match value::duration(text)? {
        short if !short.is_zero() && short < Duration::from_secs(1) => {
            Err(format!("{text} is too short; the least is 1 s, and 0 is never"))
        }
        long if long > LONGEST => Err(format!("{text} is too long; the most is a year")),
        span => Ok(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::reader::Origin;

    /// What is said of these settings besides a complete set.
    fn said(rights: Option<RightsOf>, changed: &[(&str, &str)]) -> String {
        let complete = [
            ("servers", "ldaps://ldap.example"),
            ("user_dn_pattern", "uid=${username},o=x"),
            ("group_lookup_base", "o=x"),
            ("groups", "a=read:*/*"),
        ];
        let all = complete
            .iter()
            .chain(changed)
            .map(|(name, value)| (format!("auth_ldap.{name}"), ((*value).to_owned(), Origin::Flag(String::new()))));
        match Ldap::read(&mut Reader::new(vec![all.collect()])) {
            Ok(settings) => settings.check(rights).err().unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn settings_fit_each_other() {
        let (own, here) = (Some(RightsOf::Backend), Some(RightsOf::Internal));
        let search = [("user_dn_pattern", ""), ("dn_lookup_attribute", "uid"), ("dn_lookup_base", "o=x")];
        for (rights, changed, expected) in [
            (own, &[][..], ""),
            (own, &search, ""),
            (here, &[("groups", ""), ("group_lookup_base", "")], ""),
            (None, &[("servers", "")], ""),
            (None, &[], "ldap is not among them"),
            (own, &[("servers", "")], "which directory is asked"),
            (own, &[("servers", "ldaps://a, ldap://b")], "'ldap://b': passwords could be read"),
            (own, &[("groups", "")], "what may the users of the directory do"),
            (own, &[("groups", "admins")], "is no alias"),
            (own, &[("group_lookup_base", "")], "where are the groups"),
            (own, &[("group_filter", "(member=ada)")], "no ${username}"),
            (own, &[("user_dn_pattern", "")], "how is the entry of a user found"),
            (own, &[("user_dn_pattern", "uid=ada")], "no ${username}"),
            (own, &[("dn_lookup_attribute", "uid")], "is set, too; one of them"),
            (own, &[("dn_lookup_attribute", "uid)(x")], "is no attribute"),
            (own, &[search[0], search[1]], "where are the entries of users"),
            (own, &[("dn_lookup_bind.user_dn", "cn=a")], "needs user_dn and a password"),
            (own, &[("dn_lookup_bind.password", "a")], "needs user_dn and a password"),
            (own, &[("dn_lookup_bind.user_dn", "cn=a"), ("dn_lookup_bind.password", "b")], ""),
            (own, &[("dn_lookup_bind.password", "a"), ("dn_lookup_bind.password_file", "b")], "comes from one place"),
            (own, &[("keep_rights", "1 s")], "the least is 10 s"),
            (own, &[("keep_rights", "0")], ""),
            (own, &[("refresh", "10 ms")], "the least is 1 s"),
            (own, &[("refresh", "0")], ""),
            (own, &[("timeout", "0")], "is not from 1 ms"),
        ] {
            let said = said(rights, changed);
            assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{changed:?}: {said}");
        }
    }
}
