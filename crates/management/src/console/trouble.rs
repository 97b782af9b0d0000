//! Pages that say what did not work, in the place of the page that was asked for.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;

use super::frame;
use crate::api::Failure;
use crate::change::{Refused, Why};

/// What a page answers.
pub(super) type Shown = Result<Response, Trouble>;

/// Why there is no such page, or why it did not do what it was asked to.
#[derive(Debug)]
pub(super) struct Trouble {
    status: StatusCode,
    pub(super) text: String,
}

impl Trouble {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// Nothing of this name is there, or nothing that the user may see.
    pub(super) fn missing(kind: &str, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("There is no {kind} '{name}', or you may not see it."))
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        let (status, reason) = failure.parts();
        // A browser that is told 401 asks for a password of its own.
        let status = if status == StatusCode::UNAUTHORIZED { StatusCode::FORBIDDEN } else { status };
        Self::new(status, reason)
    }
}

/// What is wrong with a form.
impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Self {
        let status = match refused.why {
            Why::NotFound => StatusCode::NOT_FOUND,
            Why::Denied => StatusCode::FORBIDDEN,
            Why::Invalid => StatusCode::BAD_REQUEST,
            Why::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, refused.whole())
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let title = match self.status {
            StatusCode::NOT_FOUND => "Nothing here",
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::SERVICE_UNAVAILABLE => "Busy",
            status if status.is_client_error() => "That did not work",
            _ => "Something failed",
        };
        let page = frame::bare(
            title,
            html! {
                h1 { (title) }
                p .said.bad role="alert" { (self.text) }
                p { a href="/" { "To the overview" } }
            },
        );
        (self.status, page).into_response()
    }
}
