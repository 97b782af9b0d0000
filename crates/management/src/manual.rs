//! The manual of this version, at `/docs`: files that the build has rendered. They are the same for
//! every reader, need no log-in, and show nothing of the broker.

use std::io::Read;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use crate::api::Failure;
use crate::facts::Document;
use crate::source::Source;

/// What a browser may load for a page: files of this server, and nothing that is written into it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";
/// No file of the manual is larger when it is unpacked.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

pub(crate) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/docs", get(async || Redirect::permanent("/docs/")))
        .route("/docs/", get(async |State(source): State<Arc<Source>>, headers: HeaderMap| show(&source, "", &headers)))
        .route("/docs/{*path}", get(file))
}

async fn file(State(source): State<Arc<Source>>, Path(path): Path<String>, headers: HeaderMap) -> Response {
    show(&source, &path, &headers)
}

/// Answers with a file; a folder stands for the index in it.
fn show(source: &Source, path: &str, headers: &HeaderMap) -> Response {
    let all = source.facts.manual;
    let path = if path.is_empty() || path.ends_with('/') { format!("{path}index.html") } else { path.to_owned() };
    let Ok(place) = all.binary_search_by_key(&path.as_str(), |document| document.path) else {
        let reason = "the manual has no such page: /docs/ has its contents";
        return Failure::new(StatusCode::NOT_FOUND, "not_found", reason).into_response();
    };
    all[place].answer(headers)
}

impl Document {
    fn answer(&self, headers: &HeaderMap) -> Response {
        let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(&Sha256::digest(self.packed)[..9]));
        let said = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.kind)),
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            // A browser keeps it, and asks whether it is still that of this version.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::VARY, HeaderValue::from_static("accept-encoding")),
            (header::ETAG, HeaderValue::try_from(&tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))),
        ];
        let has = |name, word: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(word))
        };
        if has(header::IF_NONE_MATCH, &tag) {
            return (StatusCode::NOT_MODIFIED, said).into_response();
        }
        if has(header::ACCEPT_ENCODING, "gzip") {
            return (said, [(header::CONTENT_ENCODING, "gzip")], self.packed).into_response();
        }
        match self.unpacked() {
            Ok(bytes) => (said, bytes).into_response(),
            Err(error) => Failure::failed(error.to_string()).into_response(),
        }
    }

    fn unpacked(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        GzDecoder::new(self.packed).take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
