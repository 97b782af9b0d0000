//! What surrounds every page: head, navigation, and the way to the pages before and after it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::link::{self, relative};
use crate::page::Article;
use crate::source::CONTENTS;

/// What a browser may load for a page: files of the book, and nothing that is written into it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; \
    form-action 'none'";

/// A section of the table of contents.
pub(crate) struct Chapter {
    pub(crate) title: String,
    /// Addresses and names.
    pub(crate) pages: Vec<(String, String)>,
}

/// What all pages share.
pub(crate) struct Frame<'a> {
    pub(crate) version: &'a str,
    pub(crate) chapters: &'a [Chapter],
}

impl Frame<'_> {
    /// The whole document of a page.
    pub(crate) fn around(&self, page: &Article) -> String {
        let here = link::address(&page.document);
        let to = |address: &str| relative(&here, address);
        let is_home = page.document == CONTENTS;
        let document = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (page.title()) " · Hermod" }
                    link rel="icon" href=(to("icon.svg"));
                    link rel="stylesheet" href=(to("style.css"));
                    script src=(to("search.js")) data-root=(to("")) defer {}
                }
                body .home[is_home] {
                    a .skip href="#main" { "Skip to the content" }
                    header {
                        a .brand href=(to("index.html")) {
                            img src=(to("icon.svg")) width="26" height="26" alt=""; "Hermod"
                        }
                        span .version { (self.version) }
                        div #search hidden {
                            input type="search" placeholder="Search ( / )" aria-label="Search the manual" autocomplete="off";
                            ol #found aria-live="polite" {}
                        }
                    }
                    div .columns {
                        (self.navigation(&here))
                        main #main { (PreEscaped(&page.html)) (self.steps(&here)) }
                    }
                }
            }
        };
        document.into_string()
    }

    fn navigation(&self, here: &str) -> Markup {
        html! {
            nav aria-label="Contents" {
                @for chapter in self.chapters {
                    details open[chapter.pages.iter().any(|(address, _)| address == here)] {
                        summary { (chapter.title) }
                        ul {
                            @for (address, name) in &chapter.pages {
                                li {
                                    @let current = (address == here).then_some("page");
                                    a href=(relative(here, address)) aria-current=[current] { (name) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The pages before and after this one, in the order of the table of contents.
    fn steps(&self, here: &str) -> Markup {
        let pages: Vec<_> = self.chapters.iter().flat_map(|chapter| &chapter.pages).collect();
        let place = pages.iter().position(|(address, _)| address == here);
        let before = place.and_then(|place| place.checked_sub(1)).map(|place| pages[place]);
        let after = place.and_then(|place| pages.get(place + 1));
        html! {
            @if place.is_some() {
                footer {
                    @if let Some((address, name)) = before { a rel="prev" href=(relative(here, address)) { "← " (name) } }
                    @if let Some((address, name)) = after { a rel="next" href=(relative(here, address)) { (name) " →" } }
                }
            }
        }
    }
}
