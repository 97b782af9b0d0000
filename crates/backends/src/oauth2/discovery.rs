//! What an issuer says of itself (OpenID Connect Discovery 1.0, §4).

use serde_json::Value;

use crate::fetch::{Address, Fetch};

/// Behind an issuer: where it says what it has.
const PLACE: &str = ".well-known/openid-configuration";

/// The document of an issuer. It must name that issuer.
pub(super) fn read(issuer: &Address, web: &dyn Fetch) -> Result<Value, String> {
    let place = format!("{}/{PLACE}", issuer.as_str().trim_end_matches('/'));
    let wrong = |what: &dyn std::fmt::Display| format!("{place}: {what}");
    let document = web.fetch(&Address::parse(&place).map_err(|error| wrong(&error))?)?;
    let said: Value = serde_json::from_str(&document).map_err(|error| wrong(&error))?;
    let named = text(&said, "issuer");
    if named != issuer.as_str() {
        return Err(wrong(&format!("it is of issuer '{}', not of '{}'", shortened(named), issuer.as_str())));
    }
    Ok(said)
}

/// An address that a document names.
pub(super) fn named(document: &Value, name: &str) -> Result<Address, String> {
    Address::parse(text(document, name)).map_err(|error| format!("{name}: {error}"))
}

fn text<'a>(document: &'a Value, name: &str) -> &'a str {
    document.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// What another wrote, short enough for a line of the log.
pub(super) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}
