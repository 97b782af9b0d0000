//! The plan of log-ins: the backends that the settings name, ready to be asked.

use std::collections::HashSet;
use std::sync::Arc;

use auth::{Plan, RightsOf, SignOn, Step};
use backends::http::{Http, RightsPaths};
use backends::ldap::{Account, Directory, Entry, Groups, Ldap};
use backends::oauth2::{CodeClient, CodeGrant, KeysFrom, OAuth2, Reading};
use backends::{Address, Web};

use crate::config::{self, Asked, HttpBackend, Settings};
use crate::exit::{Exit, Failure};

/// The claims that name a user when no other does, as in RabbitMQ.
const USERNAME_CLAIMS: [&str; 2] = ["sub", "client_id"];

/// The plan of these settings.
pub(crate) fn plan(settings: &Settings) -> Result<Plan, Failure> {
    let backends = &settings.backends;
    let step = |asked: &Asked| match *asked {
        Asked::Internal => Ok(Step::Internal),
        Asked::Http(rights) => Ok(Step::Elsewhere { backend: Arc::new(service(&backends.http, rights)?), rights }),
        Asked::OAuth2(rights) => Ok(Step::Elsewhere { backend: Arc::new(oauth2(&backends.oauth2)?), rights }),
        Asked::Ldap(rights) => Ok(Step::Elsewhere { backend: Arc::new(ldap(&backends.ldap)?), rights }),
    };
    let narrow = |count: u64| usize::try_from(count).unwrap_or(1);
    Ok(Plan {
        steps: backends.order.iter().map(step).collect::<Result<_, Failure>>()?,
        hashing_threads: narrow(settings.users.login_threads),
        asking_threads: narrow(backends.threads),
        keep_answers: backends.cache,
    })
}

fn service(settings: &HttpBackend, rights: RightsOf) -> Result<Http, Failure> {
    let wrong = |name: &str, what: &str| Exit::Config.because(format!("auth_http.{name}: {what}"));
    let users = settings.user_path.clone().ok_or_else(|| wrong("user_path", "there is no service"))?;
    let service = Http::new(users, settings.method, settings.ca.as_deref(), settings.timeout)
        .map_err(|what| wrong("https.cacertfile", &what))?;
    if rights == RightsOf::Internal {
        return Ok(service);
    }
    let path = |name: &str, path: &Option<Address>| path.clone().ok_or_else(|| wrong(name, "there is no service"));
    Ok(service.with_rights(RightsPaths {
        vhost: path("vhost_path", &settings.vhost_path)?,
        resource: path("resource_path", &settings.resource_path)?,
        topic: path("topic_path", &settings.topic_path)?,
    }))
}

/// Threads for connections that may wait for a web service; none if none is asked about rights.
pub(crate) fn aside_threads(settings: &Settings) -> usize {
    let asks = settings.backends.order.contains(&Asked::Http(RightsOf::Backend));
    if asks { usize::try_from(settings.backends.threads).unwrap_or(1) } else { 0 }
}

fn oauth2(settings: &config::OAuth2) -> Result<OAuth2, Failure> {
    let wrong = |name: &str, what: &str| Exit::Config.because(format!("auth_oauth2.{name}: {what}"));
    let web = Web::new(settings.ca.as_deref(), settings.timeout).map_err(|what| wrong("https.cacertfile", &what))?;
    let keys = match (&settings.jwks_file, &settings.jwks_uri, &settings.issuer) {
        (Some(file), _, _) => KeysFrom::File(file.clone()),
        (None, Some(address), _) => KeysFrom::Address(address.clone()),
        (None, None, Some(issuer)) => KeysFrom::Issuer(issuer.clone()),
        (None, None, None) => return Err(wrong("issuer", "there is no place of keys")),
    };
    OAuth2::new(reading(settings), &settings.algorithms, (keys, Arc::new(web), settings.refresh))
        .map_err(|what| wrong("algorithms", &what))
}

/// The pages that the console leads people to, if the settings name any.
pub(crate) fn sign_on(settings: &Settings) -> Result<Option<Arc<dyn SignOn>>, Failure> {
    let settings = &settings.backends.oauth2;
    let console = &settings.console;
    let Some(issuer) = settings.issuer.clone().filter(|_| !console.client_id.is_empty()) else { return Ok(None) };
    let wrong = |name: &str, what: &str| Exit::Config.because(format!("auth_oauth2.{name}: {what}"));
    let web = Web::new(settings.ca.as_deref(), settings.timeout).map_err(|what| wrong("https.cacertfile", &what))?;
    let setting = "auth_oauth2.client_secret_file";
    let secret = crate::tls::secret(setting, &console.client_secret, console.client_secret_file.as_deref())
        .map_err(|what| Exit::Config.because(what))?;
    if secret.as_deref() == Some("") {
        return Err(wrong("client_secret_file", "its first line is empty"));
    }
    let client = CodeClient {
        id: console.client_id.clone(),
        secret,
        scopes: console.scopes.clone(),
        label: console.label.clone(),
        back: console.redirect_uri.clone(),
    };
    Ok(Some(Arc::new(CodeGrant::new(issuer, client, web))))
}

fn ldap(settings: &config::Ldap) -> Result<Ldap, Failure> {
    let wrong = |what: String| Exit::Config.because(format!("auth_ldap.{what}"));
    let lookup = &settings.lookup;
    let setting = "dn_lookup_bind.password_file";
    let password = crate::tls::secret(setting, &lookup.password, lookup.password_file.as_deref()).map_err(wrong)?;
    if password.as_deref() == Some("") {
        return Err(wrong(format!("{setting}: its first line is empty")));
    }
    let account = password.map(|password| Account { dn: lookup.account.clone(), password });
    let entry = match &settings.user_dn_pattern {
        Some(template) => Entry::Named(template.clone()),
        None => Entry::Found { base: lookup.base.clone(), attribute: lookup.attribute.clone() },
    };
    let groups = &settings.groups;
    let directory = Directory {
        servers: settings.servers.clone(),
        start_tls: settings.start_tls,
        ca: settings.ca.clone(),
        timeout: settings.timeout,
        entry,
        account,
        groups: (!groups.give.is_empty()).then(|| Groups {
            base: groups.base.clone(),
            filter: groups.filter.clone(),
            give: groups.give.clone(),
        }),
        keep_rights: settings.keep_rights,
        refresh: settings.refresh(),
    };
    let shown = match (&settings.certificate, &settings.key) {
        (Some(certificate), Some(key)) => {
            Some(crate::tls::shown(certificate, key).map_err(|what| Exit::Config.because(what))?)
        }
        _ => None,
    };
    Ldap::new(directory, shown).map_err(|what| wrong(format!("ssl_options: {what}")))
}

fn reading(settings: &config::OAuth2) -> Reading {
    let id = &settings.resource_server_id;
    let mut seen = HashSet::new();
    let claims = settings.username_claims.iter().map(String::as_str).chain(USERNAME_CLAIMS);
    Reading {
        resource_server_id: id.clone(),
        issuer: settings.issuer.as_ref().map(|issuer| issuer.as_str().to_owned()),
        scope_prefix: settings.scope_prefix.clone().unwrap_or_else(|| format!("{id}.")),
        additional_scopes: settings.additional_scopes.clone(),
        username_claims: claims.filter(|claim| seen.insert(*claim)).map(str::to_owned).collect(),
        aliases: settings.aliases.clone(),
    }
}
