//! The whole book: all pages in their frames, the style, the scripts and the pictures, as files.

use std::path::Path;

use crate::Problem;
use crate::check;
use crate::frame::{Chapter, Frame};
use crate::link;
use crate::page::Article;
use crate::search;
use crate::source::{self, CONTENTS};

/// The style of all pages.
const STYLE: &str = include_str!("theme/style.css");
/// The search.
const SCRIPT: &str = include_str!("theme/search.js");
/// The rune for H, as on the tab of the console.
const ICON: &str = include_str!("theme/icon.svg");

/// A file of the site.
#[derive(Debug)]
pub struct File {
    /// Its path below the site's root, with `/` between the parts.
    pub path: String,
    /// Its content type.
    pub kind: &'static str,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// The manual as a site.
#[derive(Debug)]
pub struct Book {
    files: Vec<File>,
    problems: Vec<Problem>,
}

impl Book {
    /// Renders the documents of the folder `docs` as a site of this version.
    ///
    /// # Errors
    /// When a document can't be read.
    pub fn read(docs: &Path, version: &str) -> Result<Self, Problem> {
        let program = |path: &str| std::fs::read_to_string(docs.join(path)).ok();
        let documents = source::read(docs)?;
        let pages: Vec<Article> = documents.iter().map(|(name, text)| Article::render(name, text, &program)).collect();
        let problems = check::problems(docs, &pages);
        let text = "text/javascript; charset=utf-8";
        let mut files = vec![
            file("style.css", "text/css; charset=utf-8", STYLE),
            file("search.js", text, SCRIPT),
            file("search-index.js", text, &search::index(&pages)),
            file("icon.svg", "image/svg+xml", ICON),
        ];
        let chapters = chapters(&pages);
        let frame = Frame { version, chapters: &chapters };
        for page in &pages {
            files.push(file(&link::address(&page.document), "text/html; charset=utf-8", &frame.around(page)));
        }
        files.extend(pictures(docs, &pages));
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { files, problems })
    }

    /// What is wrong with the documents, in order: a book that readers get has none.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// All files, in the order of their paths.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }
}

fn file(path: &str, kind: &'static str, text: &str) -> File {
    File { path: path.to_owned(), kind, bytes: text.as_bytes().to_vec() }
}

/// The pictures that pages show and that are there, each once.
fn pictures(docs: &Path, pages: &[Article]) -> Vec<File> {
    let mut names: Vec<&String> = pages.iter().flat_map(|page| &page.pictures).collect();
    names.sort();
    names.dedup();
    let read = |name: &String| {
        let bytes = std::fs::read(docs.join(name)).ok()?;
        Some(File { path: name.clone(), kind: "image/png", bytes })
    };
    names.into_iter().filter_map(read).collect()
}

/// The navigation: the sections of the table of contents, with the pages that each names first.
fn chapters(pages: &[Article]) -> Vec<Chapter> {
    let mut chapters: Vec<Chapter> = Vec::new();
    let contents = pages.iter().find(|page| page.document == CONTENTS);
    let mut listed = vec![CONTENTS];
    for (section, said, document) in contents.into_iter().flat_map(|page| &page.named) {
        let is_in_section = contents.is_some_and(|page| page.title() != section);
        if !is_in_section || listed.contains(&document.as_str()) || !pages.iter().any(|page| page.document == *document)
        {
            continue;
        }
        listed.push(document);
        if chapters.last().is_none_or(|chapter| chapter.title != *section) {
            chapters.push(Chapter { title: section.clone(), pages: Vec::new() });
        }
        if let Some(chapter) = chapters.last_mut() {
            chapter.pages.push((link::address(document), said.clone()));
        }
    }
    chapters
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documents as they are.
    fn docs() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))
    }

    #[test]
    fn the_documents_make_a_book() {
        let book = Book::read(docs(), "1.2.3").expect("a book");
        assert_eq!(book.problems(), []);
        let find = |path: &str| book.files().iter().find(|file| file.path == path);
        let page = find("manual/queues.html").expect("a page of the manual");
        let html = String::from_utf8_lossy(&page.bytes);
        for part in ["<h1 id=\"queues\">Queues</h1>", "href=\"../index.html\"", "1.2.3", "aria-current=\"page\""] {
            assert!(html.contains(part), "{part}: {html}");
        }
        for path in ["index.html", "tutorials/index.html", "search-index.js", "manual/pictures/console-overview.png"] {
            assert!(find(path).is_some(), "{path}");
        }
    }

    #[test]
    fn pages_run_nothing_that_is_written_into_them_and_load_nothing_from_elsewhere() {
        let book = Book::read(docs(), "1.2.3").expect("a book");
        for file in book.files().iter().filter(|file| file.kind.starts_with("text/html")) {
            let html = String::from_utf8_lossy(&file.bytes);
            for word in ["<style", " style=", " onclick=", "<script>", "src=\"http", "unsafe-", "javascript:"] {
                assert!(!html.contains(word), "{}: {word}", file.path);
            }
        }
        for text in [STYLE, SCRIPT] {
            assert!(!["http", "url(", "@import", "eval(", "innerHTML"].iter().any(|word| text.contains(word)));
        }
    }

    #[test]
    fn the_colours_are_those_of_the_console() {
        let console = include_str!("../../management/src/console/style.css");
        let colours = |css: &str| {
            let from = css.find(":root {").expect("colours");
            css[from..].lines().take_while(|line| *line != "}").map(str::to_owned).collect::<Vec<_>>()
        };
        let theirs = colours(console);
        for line in colours(STYLE) {
            assert!(theirs.contains(&line), "{line}");
        }
    }
}
