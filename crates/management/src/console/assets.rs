//! The style, the script and the icon. Their addresses carry a digest of their contents, so that a
//! browser keeps each version for good and never mixes two.

use std::sync::LazyLock;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// A file that pages load.
pub(super) struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
    address: LazyLock<String>,
}

pub(super) static STYLE: Asset = Asset {
    name: "/console/style.css",
    kind: "text/css; charset=utf-8",
    text: include_str!("style.css"),
    address: LazyLock::new(|| STYLE.versioned()),
};

pub(super) static SCRIPT: Asset = Asset {
    name: "/console/console.js",
    kind: "text/javascript; charset=utf-8",
    text: include_str!("console.js"),
    address: LazyLock::new(|| SCRIPT.versioned()),
};

/// The rune for H.
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><rect width=\"32\" height=\"32\" rx=\"7\" \
    fill=\"#1f5fae\"/><path d=\"M10 6v20M22 6v20M10 11.5l12 9\" fill=\"none\" stroke=\"#fff\" stroke-width=\"3\" \
    stroke-linecap=\"round\"/></svg>";

impl Asset {
    /// Its address.
    pub(super) fn path(&self) -> &str {
        &self.address
    }

    fn versioned(&self) -> String {
        let digest = Sha256::digest(self.text);
        format!("{}?v={}", self.name, URL_SAFE_NO_PAD.encode(&digest[..9]))
    }

    fn answer(&self) -> impl IntoResponse {
        let kept = "public, max-age=31536000, immutable";
        ([(header::CONTENT_TYPE, self.kind), (header::CACHE_CONTROL, kept)], self.text)
    }
}

/// The files, whatever state the other routes have.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route(STYLE.name, get(async || STYLE.answer()))
        .route(SCRIPT.name, get(async || SCRIPT.answer()))
        .route("/favicon.ico", get(async || icon()))
        .route("/favicon.svg", get(async || icon()))
}

/// The icon of a page's tab.
fn icon() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "max-age=86400")], ICON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_small_and_loads_nothing_from_elsewhere() {
        for asset in [&STYLE, &SCRIPT] {
            assert!(asset.text.len() < 45_000, "{} has {} bytes", asset.name, asset.text.len());
            assert!(asset.path().starts_with(asset.name) && asset.path().len() > asset.name.len() + 10);
            for word in ["http://", "https://", "@import", "eval(", "innerHTML", "url("] {
                assert!(!asset.text.contains(word), "{} has {word}", asset.name);
            }
        }
    }
}
