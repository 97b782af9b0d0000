//! What a token says, once its signature is right: its user, the services that it is for, when it
//! ends, and which scopes it carries.
//!
//! Scopes are found and named as RabbitMQ does it. They are in the claim `scope`, in the claims
//! that `auth_oauth2.additional_scopes_key` names, and in the permissions of a requesting party
//! token. An alias stands for other scopes. Then those count that begin with the prefix.

use std::collections::BTreeMap;

use auth::{Grant, Scopes};
use serde_json::{Map, Value};

/// Where a requesting party token (User-Managed Access 2.0) carries scopes.
const OF_REQUESTING_PARTY: &str = "authorization.permissions.scopes";
/// How far the clock of the issuer may be ahead, in seconds.
const AHEAD: u64 = 30;
/// Longest name of a user, in bytes.
const MOST_NAME: usize = 255;

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// How claims are read.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The name of this broker among the services of the issuer: tokens must be meant for it.
    pub resource_server_id: String,
    /// Who must have issued a token, if that counts.
    pub issuer: Option<String>,
    /// What scopes for this broker begin with.
    pub scope_prefix: String,
    /// Paths of further claims with scopes, with dots between the parts.
    pub additional_scopes: Vec<String>,
    /// The claims that may name the user; the first that is there counts.
    pub username_claims: Vec<String>,
    /// Scopes that stand for others.
    pub aliases: BTreeMap<String, Vec<String>>,
}

impl Reading {
    /// What these claims let their user do.
    ///
    /// # Errors
    /// Why they let no one in, at this time in seconds since 1970.
    pub(super) fn grant(&self, claims: &Claims, now: u64) -> Result<Grant, String> {
        let expires = check_times(claims, now)?;
        self.check_parties(claims)?;
        let words = self.scopes(claims);
        let (scopes, tags) = Scopes::parse(words.iter().map(String::as_str))
            .map_err(|count| format!("the token has {count} scopes; at most {} count", auth::MOST_SCOPES))?;
        let user = self.user(claims)?.into();
        Ok(Grant { user, backend: super::NAME, tags, scopes, expires: Some(expires.saturating_mul(1000)) })
    }

    fn check_parties(&self, claims: &Claims) -> Result<(), String> {
        let issuer = claims.get("iss").and_then(Value::as_str);
        if self.issuer.is_some() && self.issuer.as_deref() != issuer {
            return Err("the token is of another issuer than auth_oauth2.issuer".to_owned());
        }
        match words(claims.get("aud")).contains(&self.resource_server_id.as_str()) {
            true => Ok(()),
            false => Err(format!(
                "the token is not meant for '{}' (auth_oauth2.resource_server_id)",
                self.resource_server_id
            )),
        }
    }

    fn user<'c>(&self, claims: &'c Claims) -> Result<&'c str, String> {
        let named = |claim: &String| claims.get(claim).and_then(Value::as_str).filter(|name| !name.is_empty());
        match self.username_claims.iter().find_map(named) {
            None => Err(format!("the token names no user: it has none of {}", self.username_claims.join(", "))),
            Some(name) if name.len() > MOST_NAME => Err(format!("its user's name is longer than {MOST_NAME} bytes")),
            Some(name) if name.chars().any(char::is_control) => {
                Err("its user's name has control characters".to_owned())
            }
            Some(name) => Ok(name),
        }
    }

    /// All scopes for this broker, without their prefix.
    fn scopes(&self, claims: &Claims) -> Vec<String> {
        let mut found: Vec<String> = words(claims.get("scope")).into_iter().map(str::to_owned).collect();
        let paths = self.additional_scopes.iter().map(String::as_str).chain([OF_REQUESTING_PARTY]);
        for path in paths {
            let parts: Vec<_> = path.split('.').collect();
            self.collect(claims, &parts, &mut found);
        }
        let aliased: Vec<_> = found.iter().filter_map(|scope| self.aliases.get(scope)).flatten().cloned().collect();
        found.extend(aliased);
        let strip = |scope: String| scope.strip_prefix(&self.scope_prefix).map(str::to_owned);
        let mut scopes: Vec<_> = found.into_iter().filter_map(strip).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    }

    /// Adds the scopes at the end of a path. A list on the way stands for each of its elements.
    fn collect(&self, claims: &Claims, path: &[&str], found: &mut Vec<String>) {
        let [part, rest @ ..] = path else { return };
        match claims.get(*part) {
            Some(value) if rest.is_empty() => self.collect_of(value, found),
            Some(Value::Object(inner)) => self.collect(inner, rest, found),
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_object).for_each(|inner| self.collect(inner, rest, found));
            }
            _ => {}
        }
    }

    fn collect_of(&self, value: &Value, found: &mut Vec<String>) {
        match value {
            // By service: what is of this broker gets its name in front.
            Value::Object(services) => {
                let id = &self.resource_server_id;
                found.extend(words(services.get(id)).into_iter().map(|scope| format!("{id}.{scope}")));
            }
            value => found.extend(words(Some(value)).into_iter().map(str::to_owned)),
        }
    }
}

/// Checks that a token is valid now. Returns when it ends, in seconds since 1970.
fn check_times(claims: &Claims, now: u64) -> Result<u64, String> {
    let time = |claim: &str| match claims.get(claim) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(seconds) if seconds.is_finite() => Ok(Some(seconds.max(0.0) as u64)),
            _ => Err(format!("the claim {claim} of the token is no time")),
        },
    };
    let expires = time("exp")?.ok_or("the token never ends: it has no claim exp")?;
    if expires <= now {
        return Err(format!("the token has expired {} s ago", now - expires));
    }
    match time("nbf")? {
        Some(begins) if begins > now.saturating_add(AHEAD) => {
            Err(format!("the token is not valid before {} s from now", begins - now))
        }
        _ => Ok(expires),
    }
}

/// The words of a text, or the texts of a list.
fn words(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => text.split(' ').filter(|word| !word.is_empty()).collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reading() -> Reading {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Reading {
            resource_server_id: "rabbitmq".to_owned(),
            issuer: Some("https://id".to_owned()),
            scope_prefix: "rabbitmq.".to_owned(),
            additional_scopes: owned(&["extra", "resource_access.rabbitmq.roles"]),
            username_claims: owned(&["preferred_username", "sub", "client_id"]),
            aliases: BTreeMap::from([("admins".to_owned(), owned(&["rabbitmq.tag:administrator"]))]),
        }
    }

    fn claims(changed: &Value) -> Claims {
        let mut claims = json!({"iss": "https://id", "aud": "rabbitmq", "sub": "ada", "exp": 1000});
        let all = claims.as_object_mut().unwrap();
        for (name, value) in changed.as_object().unwrap() {
            match value {
                Value::Null => drop(all.remove(name)),
                value => drop(all.insert(name.clone(), value.clone())),
            }
        }
        all.clone()
    }

    #[test]
    fn a_token_must_be_of_the_issuer_for_this_broker_and_valid_now() {
        for (changed, expected) in [
            (json!({}), Ok("ada")),
            (json!({"preferred_username": "Ada L"}), Ok("Ada L")),
            (json!({"preferred_username": ""}), Ok("ada")),
            (json!({"sub": null, "client_id": "app"}), Ok("app")),
            (json!({"sub": null}), Err("names no user")),
            (json!({"sub": 7}), Err("names no user")),
            (json!({"sub": "x".repeat(256)}), Err("longer than 255")),
            (json!({"sub": "a\nb"}), Err("control characters")),
            (json!({"iss": "https://other"}), Err("another issuer")),
            (json!({"iss": "https://id/"}), Err("another issuer")),
            (json!({"iss": null}), Err("another issuer")),
            (json!({"aud": ["account", "rabbitmq"]}), Ok("ada")),
            (json!({"aud": "account"}), Err("not meant for 'rabbitmq'")),
            (json!({"aud": "rabbitmq2"}), Err("not meant for 'rabbitmq'")),
            (json!({"aud": []}), Err("not meant for 'rabbitmq'")),
            (json!({"aud": null}), Err("not meant for 'rabbitmq'")),
            (json!({"exp": null}), Err("has no claim exp")),
            (json!({"exp": "1000"}), Err("exp of the token is no time")),
            (json!({"exp": 500}), Err("expired 0 s ago")),
            (json!({"exp": 500.5}), Err("expired 0 s ago")),
            (json!({"exp": -1}), Err("expired 500 s ago")),
            (json!({"exp": 1e300}), Ok("ada")),
            (json!({"nbf": 530}), Ok("ada")),
            (json!({"nbf": 531}), Err("not valid before 31 s")),
            (json!({"nbf": "soon"}), Err("nbf of the token is no time")),
        ] {
            let outcome = reading().grant(&claims(&changed), 500);
            match (outcome, expected) {
                (Ok(grant), Ok(user)) => assert_eq!(&*grant.user, user, "{changed}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{changed}: {why}"),
                (outcome, expected) => unreachable!("{changed}: {outcome:?}, expected {expected:?}"),
            }
        }
        assert_eq!(reading().grant(&claims(&json!({})), 500).unwrap().expires, Some(1_000_000));
    }

    #[test]
    fn scopes_are_found_where_rabbitmq_finds_them() {
        let read = "read:*/*";
        for (changed, expected) in [
            (json!({"scope": "openid rabbitmq.read:*/*  other.read:*/*"}), &[read][..]),
            (json!({"scope": ["rabbitmq.read:*/*", 7, "rabbitmq.tag:a"]}), &[read, "tag:a"]),
            (json!({"scope": "admins"}), &["tag:administrator"]),
            (json!({"extra": "rabbitmq.read:*/* x"}), &[read]),
            (json!({"extra": ["rabbitmq.read:*/*", "admins"]}), &[read, "tag:administrator"]),
            (json!({"extra": {"rabbitmq": ["read:*/*"], "other": ["tag:a"]}}), &[read]),
            (json!({"extra": {"rabbitmq": "read:*/* tag:a"}}), &[read, "tag:a"]),
            (json!({"resource_access": {"rabbitmq": {"roles": ["rabbitmq.read:*/*"]}}}), &[read]),
            (json!({"resource_access": {"other": {"roles": ["rabbitmq.read:*/*"]}}}), &[]),
            (
                json!({"authorization": {"permissions": [{"scopes": ["rabbitmq.read:*/*"]}, 7, {"scopes": ["rabbitmq.tag:a"]}]}}),
                &[read, "tag:a"],
            ),
            (json!({"scope": "rabbitmq.read:*/*", "extra": ["rabbitmq.read:*/*"]}), &[read]),
            (json!({"scope": 7, "extra": null}), &[]),
        ] {
            assert_eq!(reading().scopes(&claims(&changed)), expected, "{changed}");
        }
        let all = Reading { scope_prefix: String::new(), ..reading() };
        assert_eq!(all.scopes(&claims(&json!({"scope": "read:*/* tag:a"}))), [read, "tag:a"]);
    }

    #[test]
    fn too_many_scopes_let_no_one_in() {
        let many: Vec<_> = (0..3000).map(|number| format!("rabbitmq.tag:{number}")).collect();
        let why = reading().grant(&claims(&json!({"scope": many})), 500).unwrap_err();
        assert!(why.contains("3000 scopes"), "{why}");
    }
}
