//! What a user may see, and the parameters of a page's address.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::form::Fields;
use crate::api::Asker;
use crate::source::Source;

/// The vhosts whose objects this user may see, by name.
pub(super) fn vhosts(asker: &Asker, source: &Source) -> Vec<String> {
    let authority = source.broker.authority();
    let mut names: Vec<String> = source.broker.vhost_names().iter().map(|name| name.to_string()).collect();
    names.retain(|vhost| asker.monitors() || authority.enter(asker.identity(), vhost).is_ok());
    names.sort_unstable();
    names
}

/// The parameters of an address.
pub(super) struct Query(pub(super) Fields);

impl FromRequestParts<Arc<Source>> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Source>) -> Result<Self, Infallible> {
        Ok(Self(Fields::parse(parts.uri.query().unwrap_or_default().as_bytes())))
    }
}
