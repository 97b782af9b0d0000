//! The manual as a site: the Markdown of `docs/` rendered to plain HTML files with one style and
//! one script.
//!
//! An address is relative, so a page works from a server and from a folder. Nothing is written into
//! it that a browser would run. A page that a reader can't reach, a link or an anchor that leads
//! nowhere, and a page that is too long are problems. A test and `cargo xtask book` refuse them.

mod check;
mod frame;
mod link;
mod page;
mod search;
mod site;
mod source;

pub use site::{Book, File};

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The page, relative to the folder of the documents.
    pub page: String,
    /// What is wrong and what to do.
    pub text: String,
}

impl Problem {
    fn new(page: &str, text: impl Into<String>) -> Self {
        Self { page: page.to_owned(), text: text.into() }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "docs/{}: {}", self.page, self.text)
    }
}
