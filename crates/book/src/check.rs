//! What must hold for all pages together: links and anchors lead somewhere, every page can be
//! reached from the table of contents, and no page is too long to read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Problem;
use crate::link::Target;
use crate::page::Article;
use crate::source::{CONTENTS, is_page};

/// A page that is read has at most so many words.
const MAX_WORDS: usize = 1200;
/// Pages that are looked up, and not read.
const REFERENCES: [&str; 13] = [
    "attacks.md",
    "conformance.md",
    "manual/arguments.md",
    "manual/bench-method.md",
    "manual/command-line.md",
    "manual/errors.md",
    "manual/http-api.md",
    "manual/log.md",
    "manual/settings.md",
    "mapping/amqp091.md",
    "mapping/mqtt.md",
    "mapping/stomp.md",
    "reliability.md",
];
/// Pages that are still to be divided, and the words that each may have: this only goes down.
const LONG: [(&str, usize); 4] = [
    ("manual/bench.md", 3000),
    ("manual/bench-jms.md", 1400),
    ("manual/bench-report.md", 1500),
    ("performance.md", 1400),
];

/// All problems of a book, in order.
pub(crate) fn problems(docs: &Path, pages: &[Article]) -> Vec<Problem> {
    let mut found: Vec<Problem> = pages.iter().flat_map(|page| page.problems.clone()).collect();
    let by_name: BTreeMap<&str, &Article> = pages.iter().map(|page| (page.document.as_str(), page)).collect();
    for page in pages {
        for target in &page.links {
            found.extend(dead(docs, &by_name, target).map(|text| Problem::new(&page.document, text)));
        }
        for picture in page.pictures.iter().filter(|picture| !docs.join(picture).is_file()) {
            found.push(Problem::new(&page.document, format!("there is no picture {picture}")));
        }
        let most = LONG.iter().find(|(name, _)| *name == page.document).map_or(MAX_WORDS, |(_, most)| *most);
        if page.words() > most && !REFERENCES.contains(&page.document.as_str()) {
            found.push(Problem::new(&page.document, format!("{} words, at most {most}: divide it", page.words())));
        }
    }
    let reached = reached(&by_name);
    let lost = pages.iter().filter(|page| !reached.contains(page.document.as_str()));
    found.extend(lost.map(|page| Problem::new(&page.document, format!("no way leads here from {CONTENTS}"))));
    found.sort();
    found.dedup();
    found
}

/// Why a link leads nowhere.
fn dead(docs: &Path, pages: &BTreeMap<&str, &Article>, target: &Target) -> Option<String> {
    match target {
        Target::Elsewhere => None,
        Target::Document(path, anchor) if is_page(path) => match pages.get(path.as_str()) {
            None => Some(format!("a link leads to {path}, which does not exist")),
            Some(page) if anchor.is_empty() || page.sections.iter().any(|section| section.id == *anchor) => None,
            Some(_) => Some(format!("a link leads to {path}#{anchor}, and there is no such heading")),
        },
        Target::Document(path, _) | Target::Program(path) | Target::Repository(path) => {
            (!docs.join(path).exists()).then(|| format!("a link leads to {path}, which does not exist"))
        }
    }
}

/// The documents that links lead to from the table of contents.
fn reached<'a>(pages: &BTreeMap<&'a str, &'a Article>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::from([CONTENTS]);
    let mut open = vec![CONTENTS];
    while let Some(page) = open.pop().and_then(|name| pages.get(name)) {
        for target in &page.links {
            if let Target::Document(path, _) = target
                && pages.contains_key(path.as_str())
                && reached.insert(path)
            {
                open.push(path);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pages: &[(&str, &str)]) -> String {
        let pages: Vec<Article> = pages.iter().map(|(name, text)| Article::render(name, text, &|_| None)).collect();
        let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
        problems(docs, &pages).iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn problems_are_told() {
        let long = format!("# A\n{}", "word ".repeat(MAX_WORDS));
        for (contents, page, expected) in [
            ("# C\n[a](a.md#b-c)", "# A\n## B c", ""),
            ("# C\n[a](a.md)", "# A\n[x](../STYLE.md) [y](../../crates) [z](https://x.y)", ""),
            (
                "# C\n[a](a.md#b)",
                "# A\n",
                "docs/manual/README.md: a link leads to manual/a.md#b, and there is no such heading",
            ),
            (
                "# C\n[a](a.md) [b](b.md)",
                "# A\n",
                "docs/manual/README.md: a link leads to manual/b.md, which does not exist",
            ),
            ("# C\n[a](a.md)", "# A\n[x](../no.txt)", "docs/manual/a.md: a link leads to no.txt, which does not exist"),
            ("# C\n[a](a.md)", "# A\n![x](no.png)", "docs/manual/a.md: there is no picture manual/no.png"),
            ("# C\n", "# A\n", "docs/manual/a.md: no way leads here from manual/README.md"),
            ("# C\n[a](a.md)", &long, "docs/manual/a.md: 1201 words, at most 1200: divide it"),
        ] {
            assert_eq!(told(&[("manual/README.md", contents), ("manual/a.md", page)]), expected);
        }
    }
}
