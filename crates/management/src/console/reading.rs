//! Reads the form of a request. As a handler's argument, a form comes after a
//! [`Visitor`](super::visitor::Visitor): so nothing is read before the log-in.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};

use super::form::Fields;
use super::trouble::Trouble;
use crate::api;
use crate::source::Source;

/// Most bytes of a form, its payload and the escapes of its letters included.
const LONGEST: usize = 4 << 20;

impl FromRequest<Arc<Source>> for Fields {
    type Rejection = Trouble;

    async fn from_request(request: Request, _: &Arc<Source>) -> Result<Self, Trouble> {
        read(request, LONGEST).await
    }
}

/// The form of a request.
///
/// # Errors
/// If it is no form, or longer than `longest` bytes.
pub(super) async fn read(request: Request, longest: usize) -> Result<Fields, Trouble> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/x-www-form-urlencoded") {
        let text = "This page takes forms. Programs use the API at /api.";
        return Err(Trouble::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let bytes = api::read(request, longest).await?;
    Ok(Fields::parse(&bytes))
}
