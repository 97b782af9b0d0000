//! The settings of log-ins from elsewhere, declared once like all others.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use auth::RightsOf;
use backends::Address;
use backends::http::Method;

use super::ConfigError;
use super::ldap::Ldap;
use super::reader::{Declaration, Reader, declare};
use super::value::{self, between, optional_path};

/// Who is asked when a user logs in, and how.
#[derive(Debug, Clone)]
pub(crate) struct Backends {
    /// In their order.
    pub(crate) order: Vec<Asked>,
    pub(crate) threads: u64,
    pub(crate) cache: Duration,
    pub(crate) oauth2: OAuth2,
    pub(crate) ldap: Ldap,
    pub(crate) http: Http,
}

/// A web service that knows passwords, and rights perhaps.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    pub(crate) user_path: Option<Address>,
    pub(crate) vhost_path: Option<Address>,
    pub(crate) resource_path: Option<Address>,
    pub(crate) topic_path: Option<Address>,
    pub(crate) method: Method,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) timeout: Duration,
}

/// One of those that are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Internal,
    OAuth2(RightsOf),
    Ldap(RightsOf),
    Http(RightsOf),
}

/// Log-in by tokens.
#[derive(Debug, Clone)]
pub(crate) struct OAuth2 {
    pub(crate) resource_server_id: String,
    pub(crate) issuer: Option<Address>,
    pub(crate) jwks_uri: Option<Address>,
    pub(crate) jwks_file: Option<PathBuf>,
    pub(crate) refresh: Duration,
    /// `None`: the id of the resource server and a dot.
    pub(crate) scope_prefix: Option<String>,
    pub(crate) additional_scopes: Vec<String>,
    pub(crate) aliases: BTreeMap<String, Vec<String>>,
    pub(crate) username_claims: Vec<String>,
    pub(crate) algorithms: Vec<String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) timeout: Duration,
    pub(crate) console: CodeFlow,
}

/// Log-in to the console on the issuer's pages.
#[derive(Debug, Clone)]
pub(crate) struct CodeFlow {
    /// Empty: there is none.
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
    pub(crate) client_secret_file: Option<PathBuf>,
    pub(crate) scopes: Vec<String>,
    pub(crate) label: String,
    pub(crate) redirect_uri: Option<Address>,
}

const ORDER: &str = "Who is asked when a user logs in with a password or a token, in this order, until one lets it \
    in. `internal`: the users of this broker. `oauth2`: tokens of `auth_oauth2`. `oauth2/internal`: the token says who \
    one is; what one may do are the rights of the user of that name in this broker. `ldap` and `ldap/internal`: the \
    same with the directory of `auth_ldap`. `http` and `http/internal`: the same with the web service of `auth_http`; \
    `http` asks it about each operation. A backend that cannot be asked lets no one in.";
const THREADS: &str = "How many questions to backends elsewhere are under way at the same time: so many for log-ins, \
    and so many for operations of users whose rights a web service decides.";
const CACHE: &str = "How long an answer from elsewhere is taken again for the same password or token. A token is \
    never taken beyond its end. So long a right that a web service has allowed counts, too, and 1 s at least. SIGHUP \
    forgets all answers. `0`: each log-in is asked.";

impl Backends {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let order = reader.get(declare("auth_backends", "names", "internal", ORDER), order)?;
        let threads =
            reader.get(declare("auth_threads", "number", "4", THREADS), |text| between(text, value::count, 1, 64))?;
        let cache = reader.get(declare("auth_cache.ttl", "time", "15 s", CACHE), value::duration)?;
        let (oauth2, ldap, http) = (OAuth2::read(reader)?, Ldap::read(reader)?, Http::read(reader)?);
        let backends = Self { order, threads, cache, oauth2, ldap, http };
        backends.check().map_err(ConfigError::new)?;
        let asked = backends.order.iter().find_map(|asked| match asked {
            Asked::Ldap(rights) => Some(*rights),
            _ => None,
        });
        backends.ldap.check(asked).map_err(ConfigError::new)?;
        Ok(backends)
    }

    /// Checks what needs several of these settings.
    fn check(&self) -> Result<(), String> {
        let rights = self.order.iter().find_map(|asked| match asked {
            Asked::Http(rights) => Some(*rights),
            _ => None,
        });
        self.http.check(rights)?;
        let OAuth2 { resource_server_id, issuer, jwks_uri, jwks_file, .. } = &self.oauth2;
        let keys = usize::from(jwks_uri.is_some()) + usize::from(jwks_file.is_some());
        let is_asked = self.order.iter().any(|asked| matches!(asked, Asked::OAuth2(_)));
        let is_set = keys > 0 || issuer.is_some() || !resource_server_id.is_empty();
        match (is_asked, is_set) {
            (false, false) => Ok(()),
            (false, true) => Err("auth_backends: oauth2 is not among them, but auth_oauth2 is set; add it, as in \
                                  auth_backends = \"internal, oauth2\""
                .to_owned()),
            (true, _) if resource_server_id.is_empty() => {
                Err("auth_oauth2.resource_server_id: which service are tokens \
                                                               for? Write the name that is in their claim aud"
                    .to_owned())
            }
            (true, _) if keys > 1 => {
                Err("auth_oauth2.jwks_file: auth_oauth2.jwks_uri is set, too; keys come from one place".to_owned())
            }
            (true, _) if keys == 0 && issuer.is_none() => {
                Err("auth_oauth2.issuer: where do the keys of tokens come from? Set issuer, jwks_uri or jwks_file"
                    .to_owned())
            }
            (true, _) => self.oauth2.check_console(),
        }
    }
}

/// Backends of RabbitMQ that are not there, and what takes their place.
const ABSENT: [(&str, &str); 4] = [
    ("amqp", "the AMQP backend is not built"),
    ("ip_range", "networks are not a backend here; use bind, and a firewall"),
    ("cache", "answers are cached for any backend, for auth_cache.ttl: name the backend itself"),
    ("internal_loopback", "name internal, and the users of this machine in loopback_users"),
];

fn order(text: &str) -> Result<Vec<Asked>, String> {
    let mut order = Vec::new();
    for name in value::names(text)? {
        let asked = asked(&name)?;
        let is_there = order.iter().any(|other| std::mem::discriminant(other) == std::mem::discriminant(&asked));
        if is_there {
            return Err(format!("'{name}' is asked already"));
        }
        order.push(asked);
    }
    if order.is_empty() { Err("no user could log in; write internal, oauth2 or both".to_owned()) } else { Ok(order) }
}

fn asked(name: &str) -> Result<Asked, String> {
    // RabbitMQ takes the names of its modules, too.
    let bare = name.to_ascii_lowercase();
    let bare = bare.strip_prefix("rabbit_auth_backend_").unwrap_or(&bare);
    match bare {
        "internal" => return Ok(Asked::Internal),
        "oauth2" | "oauth" => return Ok(Asked::OAuth2(RightsOf::Backend)),
        "oauth2/internal" => return Ok(Asked::OAuth2(RightsOf::Internal)),
        "ldap" => return Ok(Asked::Ldap(RightsOf::Backend)),
        "ldap/internal" => return Ok(Asked::Ldap(RightsOf::Internal)),
        "http" => return Ok(Asked::Http(RightsOf::Backend)),
        "http/internal" => return Ok(Asked::Http(RightsOf::Internal)),
        _ => {}
    }
    let absent = ABSENT.iter().find(|(absent, _)| bare.split('/').next() == Some(absent));
    Err(match absent {
        Some((_, why)) => format!("'{name}': {why}"),
        None => {
            format!("'{name}' is none of internal, oauth2, oauth2/internal, ldap, ldap/internal, http, http/internal")
        }
    })
}

const RESOURCE_SERVER_ID: &str = "Name of this broker among the services of the server that issues tokens. A token is \
    taken only if its claim `aud` has it.";
const ISSUER: &str = "URL of the server that issues tokens. A token is taken only if its claim `iss` is exactly this. \
    The keys are those that `.well-known/openid-configuration` there names, unless `auth_oauth2.jwks_uri` or \
    `auth_oauth2.jwks_file` is set. `https`, or an address of this machine.";
const JWKS_URI: &str = "URL of the keys of tokens, as a JSON Web Key Set. `https`, or an address of this machine.";
const JWKS_FILE: &str = "File with the keys of tokens, as a JSON Web Key Set.";
const REFRESH: &str = "How old the keys may become before they are read again. They are also read, at most once in 10 s, \
    for a token of a key that is not known. While they can't be read, the last ones go on for a day.";
const SCOPE_PREFIX: &str = "What the scopes for this broker begin with; the rest is as in `read:*/*`. `auto` is \
    `auth_oauth2.resource_server_id` and a dot. `none`: scopes have no prefix.";
const ADDITIONAL: &str = "Further claims with scopes. A name with dots is a path, as in `realm_access.roles`.";
const ALIASES: &str = "Scopes or roles that stand for others, each as `NAME=SCOPE SCOPE`. The scopes have the prefix.";
const USERNAMES: &str = "Claims that may name the user, the first that is there. After them, `sub` and `client_id` are \
    looked at.";
const ALGORITHMS: &str = "Algorithms by which tokens may be signed: `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, \
    `PS512`, `ES256`, `ES384`, `EdDSA`. `auto` is all of them, each with the keys that are for it. Those with a shared \
    secret are refused.";
const CA: &str = "File with certificates in PEM that the server of the keys is trusted by. By default those are trusted \
    that the system trusts.";
const TIMEOUT: &str = "How long that server may take to answer.";

impl OAuth2 {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let names = |reader: &mut Reader, declared: Declaration<'_>| reader.get(declared, value::names);
        let resource_server_id =
            reader.get(declare("auth_oauth2.resource_server_id", "text", "", RESOURCE_SERVER_ID), value::text)?;
        Ok(Self {
            resource_server_id,
            issuer: reader.get(declare("auth_oauth2.issuer", "text", "", ISSUER), address)?,
            jwks_uri: reader.get(declare("auth_oauth2.jwks_uri", "text", "", JWKS_URI), address)?,
            jwks_file: reader.get(declare("auth_oauth2.jwks_file", "path", "", JWKS_FILE), optional_path)?,
            refresh: reader.get(declare("auth_oauth2.jwks_refresh", "time", "5 min", REFRESH), refresh)?,
            scope_prefix: reader.get(declare("auth_oauth2.scope_prefix", "text", "auto", SCOPE_PREFIX), prefix)?,
            additional_scopes: names(reader, declare("auth_oauth2.additional_scopes_key", "names", "", ADDITIONAL))?,
            aliases: reader.get(declare("auth_oauth2.scope_aliases", "names", "", ALIASES), value::named_scopes)?,
            username_claims: names(reader, declare("auth_oauth2.preferred_username_claims", "names", "", USERNAMES))?,
            algorithms: reader.get(declare("auth_oauth2.algorithms", "names", "auto", ALGORITHMS), algorithms)?,
            ca: reader.get(declare("auth_oauth2.https.cacertfile", "path", "", CA), optional_path)?,
            timeout: reader.get(declare("auth_oauth2.timeout", "time", "5 s", TIMEOUT), value::timeout)?,
            console: CodeFlow::read(reader)?,
        })
    }

    fn check_console(&self) -> Result<(), String> {
        let CodeFlow { client_id, client_secret, client_secret_file, .. } = &self.console;
        let has_secret = !client_secret.is_empty() || client_secret_file.is_some();
        if client_id.is_empty() && has_secret {
            return Err("auth_oauth2.client_id: whose secret is auth_oauth2.client_secret? Write the name that the \
                        issuer knows this broker by"
                .to_owned());
        }
        if !client_id.is_empty() && self.issuer.is_none() {
            return Err("auth_oauth2.issuer: where does auth_oauth2.client_id log people in? Write its URL".to_owned());
        }
        if !client_secret.is_empty() && client_secret_file.is_some() {
            return Err("auth_oauth2.client_secret_file: the secret is set, too; it comes from one place".to_owned());
        }
        Ok(())
    }
}

const CLIENT_ID: &str = "Name by which the issuer knows this broker's console. If it is set, the console also leads \
    people to the issuer's pages to log in (OpenID Connect, with the authorization code and PKCE), and takes the token \
    that they come back with. Empty: the console asks for a name and a password or token.";
const CLIENT_SECRET: &str = "Its secret, if the issuer wants one. Better by the environment or \
    `auth_oauth2.client_secret_file` than by a flag, which others can see.";
const CLIENT_SECRET_FILE: &str = "File whose first line is that secret, for mounted secrets.";
const SCOPES: &str = "What the console asks the issuer for.";
const LABEL: &str = "What the console's button calls the issuer: *Log in with* this.";
const REDIRECT_URI: &str = "URL of the console's page `/login/back`, as browsers know it; the issuer must know it, too. \
    By default it is made of the name in the request and the listener's `path_prefix`. Set it behind a proxy that \
    does TLS. `https`, or an address of this machine.";

impl CodeFlow {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            client_id: reader.get(declare("auth_oauth2.client_id", "text", "", CLIENT_ID), value::text)?,
            client_secret: reader.secret(declare("auth_oauth2.client_secret", "text", "", CLIENT_SECRET))?,
            client_secret_file: reader
                .get(declare("auth_oauth2.client_secret_file", "path", "", CLIENT_SECRET_FILE), optional_path)?,
            scopes: reader.get(declare("auth_oauth2.scopes", "names", "openid", SCOPES), value::names)?,
            label: reader.get(declare("auth_oauth2.label", "text", "single sign-on", LABEL), value::text)?,
            redirect_uri: reader.get(declare("auth_oauth2.redirect_uri", "text", "", REDIRECT_URI), address)?,
        })
    }
}

const USER_PATH: &str = "URL of the web service that is asked about names and passwords, as by RabbitMQ's plugin for \
    log-ins over HTTP: the parameters are `username` and `password`, and the answer is `allow` or `deny`. \
    `https`, or an address of this machine.";
const VHOST_PATH: &str = "URL of that service for `http`: may this user enter this vhost? The parameters are `username`, \
    `vhost`, `ip` and `tags`.";
const RESOURCE_PATH: &str = "URL of that service for `http`: may this user do that with this exchange or queue? The \
    parameters are `username`, `vhost`, `resource`, `name`, `permission` and `tags`.";
const TOPIC_PATH: &str = "URL of that service for `http`: may this user use this routing key with this topic exchange? \
    The parameters are those of `auth_http.resource_path`, and `routing_key`.";
const HTTP_METHOD: &str = "How the parameters are sent. `get`: in the URL, which servers and proxies may log. `post`: as \
    a form.";

impl Http {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        const METHODS: [(&str, Method); 2] = [("get", Method::Get), ("post", Method::Post)];
        Ok(Self {
            user_path: reader.get(declare("auth_http.user_path", "text", "", USER_PATH), address)?,
            vhost_path: reader.get(declare("auth_http.vhost_path", "text", "", VHOST_PATH), address)?,
            resource_path: reader.get(declare("auth_http.resource_path", "text", "", RESOURCE_PATH), address)?,
            topic_path: reader.get(declare("auth_http.topic_path", "text", "", TOPIC_PATH), address)?,
            method: reader.get(declare("auth_http.http_method", "get, post", "post", HTTP_METHOD), |text| {
                value::choice(text, &METHODS)
            })?,
            ca: reader.get(declare("auth_http.https.cacertfile", "path", "", SERVICE_CA), optional_path)?,
            timeout: reader.get(declare("auth_http.timeout", "time", "5 s", SERVICE_TIMEOUT), value::timeout)?,
        })
    }

    /// Checks the paths against how the service is asked; `None` if it is not.
    fn check(&self, asked: Option<RightsOf>) -> Result<(), String> {
        let rights = [
            ("vhost_path", &self.vhost_path),
            ("resource_path", &self.resource_path),
            ("topic_path", &self.topic_path),
        ];
        let set = rights.iter().find(|(_, path)| path.is_some()).map(|(name, _)| *name);
        let missing = rights.iter().find(|(_, path)| path.is_none()).map(|(name, _)| *name);
        match asked {
            None if set.is_some() || self.user_path.is_some() => {
                Err("auth_backends: http is not among them, but auth_http is set; add http or http/internal, as in \
                     auth_backends = \"http, internal\""
                    .to_owned())
            }
            Some(_) if self.user_path.is_none() => {
                Err("auth_http.user_path: where is the service for http? Write its URL".to_owned())
            }
            Some(RightsOf::Internal) if let Some(set) = set => Err(format!(
                "auth_http.{set}: with http/internal the service is not asked what one may do; leave the path out, or \
                 write http in auth_backends"
            )),
            Some(RightsOf::Backend) if let Some(missing) = missing => Err(format!(
                "auth_http.{missing}: http asks the service what one may do; write this URL, too, or http/internal in \
                 auth_backends: the permissions of the user of that name here count then"
            )),
            _ => Ok(()),
        }
    }
}

const SERVICE_CA: &str = "File with certificates in PEM that the service is trusted by. By default those are trusted that \
    the system trusts.";
const SERVICE_TIMEOUT: &str = "How long the service may take to answer. Then it counts as out of reach.";

fn address(text: &str) -> Result<Option<Address>, String> {
    match value::one_line(text)? {
        "" => Ok(None),
        text => Address::parse(text).map(Some).map_err(|error| format!("'{text}': {error}")),
    }
}

fn prefix(text: &str) -> Result<Option<String>, String> {
    Ok(match value::one_line(text)? {
        "auto" => None,
        "none" => Some(String::new()),
        text => Some(text.to_owned()),
    })
}

fn refresh(text: &str) -> Result<Duration, String> {
    match value::duration(text)? {
        short if short < Duration::from_secs(10) => Err(format!("{text} is too short; the least is 10 s")),
        long if long > Duration::from_hours(24) => Err(format!("{text} is too long; the most is 24 h")),
        span => Ok(span),
    }
}

fn algorithms(text: &str) -> Result<Vec<String>, String> {
    if text == "auto" {
        return Ok(Vec::new());
    }
    let names = value::names(text)?;
    names.iter().try_for_each(|name| backends::oauth2::check_algorithm(name))?;
    if names.is_empty() { Err("no token could be checked; name some, or write auto".to_owned()) } else { Ok(names) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_each_backend_once_and_those_that_are_there() {
        let by_token = Asked::OAuth2(RightsOf::Backend);
        for (text, expected) in [
            ("internal", Ok(vec![Asked::Internal])),
            ("oauth2, internal", Ok(vec![by_token, Asked::Internal])),
            ("rabbit_auth_backend_oauth2", Ok(vec![by_token])),
            ("oauth2/internal", Ok(vec![Asked::OAuth2(RightsOf::Internal)])),
            ("ldap, internal", Ok(vec![Asked::Ldap(RightsOf::Backend), Asked::Internal])),
            ("rabbit_auth_backend_ldap", Ok(vec![Asked::Ldap(RightsOf::Backend)])),
            ("rabbit_auth_backend_http", Ok(vec![Asked::Http(RightsOf::Backend)])),
            ("http/internal, internal", Ok(vec![Asked::Http(RightsOf::Internal), Asked::Internal])),
            ("http, http/internal", Err("is asked already")),
            ("ldap/internal", Ok(vec![Asked::Ldap(RightsOf::Internal)])),
            ("cache", Err("name the backend itself")),
            ("internal/oauth2", Err("is none of internal")),
            ("oauth2, oauth2/internal", Err("is asked already")),
            ("intern", Err("is none of internal")),
            ("", Err("no user could log in")),
        ] {
            match (order(text), expected) {
                (Ok(order), Ok(expected)) => assert_eq!(order, expected, "{text}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{text}: {why}"),
                (outcome, _) => unreachable!("{text}: {outcome:?}"),
            }
        }
    }
}
