//! The page as a browser takes it: well-formed, whole, with nothing from outside.

use std::collections::HashSet;

use html5ever::tendril::TendrilSink;
use html5ever::tokenizer::TokenizerOpts;
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

use super::book::figures;
use super::quantity::amount;
use super::{render, sample};
use bench_record::statistics::spread::Spread;
use bench_record::suite::{CellOutcome, Report};

/// A page of five studies on six targets is no larger than this.
const LARGEST_PAGE: usize = 3 << 20;
/// Names a directory where the record, the page and the words are left, for those who want to look
/// at them.
const LOOK: &str = "HERMOD_BENCH_SAMPLE";

fn parsed(page: &str) -> RcDom {
    let tokenizer = TokenizerOpts { exact_errors: true, ..Default::default() };
    let tree_builder = TreeBuilderOpts { exact_errors: true, ..Default::default() };
    parse_document(RcDom::default(), ParseOpts { tokenizer, tree_builder }).one(page)
}

/// Calls `each` with every element: its name, its attributes and its node.
fn walk(node: &Handle, each: &mut impl FnMut(&str, &[(String, String)], &Handle)) {
    if let NodeData::Element { name, attrs, .. } = &node.data {
        let attrs: Vec<(String, String)> =
            attrs.borrow().iter().map(|attr| (attr.name.local.to_string(), attr.value.to_string())).collect();
        each(&name.local, &attrs, node);
    }
    node.children.borrow().iter().for_each(|child| walk(child, each));
}

/// The words that a reader sees, a line for each block; style and figures' drawings are left out.
fn text(node: &Handle, out: &mut String) {
    match &node.data {
        NodeData::Text { contents } => out.push_str(&contents.borrow()),
        NodeData::Element { name, .. } => {
            let name = &*name.local;
            if ["style", "head", "svg"].contains(&name) {
                return;
            }
            let block = !["b", "span", "a", "s", "strong", "i", "input", "br"].contains(&name);
            out.push_str(if block { "\n" } else { "" });
            node.children.borrow().iter().for_each(|child| text(child, out));
            out.push_str(if block || name == "br" { "\n" } else { "" });
        }
        _ => node.children.borrow().iter().for_each(|child| text(child, out)),
    }
}

fn lines_of(page: &str) -> String {
    let mut all = String::new();
    text(&parsed(page).document, &mut all);
    let lines = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).map(|line| line + "\n").collect()
}

#[test]
fn pages_are_well_formed() {
    for report in [sample::small(), sample::large()] {
        let dom = parsed(&render(&report).unwrap());
        assert_eq!(dom.errors.borrow().as_slice(), &[] as &[std::borrow::Cow<'static, str>]);
    }
}

#[test]
fn nothing_comes_from_outside_and_every_link_leads_somewhere() {
    let page = render(&sample::large()).unwrap();
    for word in ["http:", "https:", "url(", "@import", "<script", "javascript:"] {
        assert!(!page.contains(word), "{word}");
    }
    let (mut ids, mut links) = (Vec::new(), Vec::new());
    walk(&parsed(&page).document, &mut |_, attrs, _| {
        for (name, value) in attrs {
            assert!(!["src", "srcset", "data", "onclick"].contains(&name.as_str()), "{name}={value}");
            match name.as_str() {
                "id" => ids.push(value.clone()),
                "href" => links.push(value.strip_prefix('#').expect("a link within the page").to_owned()),
                "aria-labelledby" => links.extend(value.split(' ').map(str::to_owned)),
                _ => {}
            }
        }
    });
    let unique: HashSet<&String> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len());
    assert!(!links.is_empty());
    for link in &links {
        assert!(unique.contains(link), "{link}");
    }
}

#[test]
fn every_cell_of_the_record_is_on_the_page() {
    let report = sample::large();
    let page = render(&report).unwrap();
    assert!(page.len() < LARGEST_PAGE, "{}", page.len());
    let mut places = 0;
    walk(&parsed(&page).document, &mut |name, attrs, _| {
        places += usize::from(name == "td" && attrs.iter().any(|(name, _)| name == "data-label"));
    });
    let cells = report.suites.iter().flat_map(|suite| &suite.cells);
    assert_eq!(places, cells.clone().count() * (report.targets.len() + 1));
    let words = lines_of(&page);
    for (cell, index) in cells.flat_map(|cell| (0..cell.results.len()).map(move |index| (cell, index))) {
        let expected = match &cell.results[index].outcome {
            CellOutcome::Measured(found) if cell.row != "M3" => amount(found.value.median).replace('\u{202f}', " "),
            CellOutcome::Measured(_) => "passed".to_owned(),
            CellOutcome::NotApplicable { lacks } => lacks.clone(),
            CellOutcome::Failed { error } => error.clone(),
            CellOutcome::Pending => "its turn".to_owned(),
        };
        assert!(words.contains(&expected), "{} {index}: {expected}", cell.row);
    }
}

#[test]
fn figures_are_named_for_those_who_can_not_see_them() {
    let page = render(&sample::large()).unwrap();
    let mut figures = 0;
    walk(&parsed(&page).document, &mut |name, attrs, node| {
        if name == "svg" {
            figures += 1;
            assert!(attrs.iter().any(|(name, value)| name == "role" && value == "img"));
            let mut inside = Vec::new();
            walk(node, &mut |name, _, _| inside.push(name.to_owned()));
            assert_eq!((inside[1].as_str(), inside[2].as_str()), ("title", "desc"));
            assert!(inside.iter().any(|name| name == "text"));
        }
    });
    assert!(figures > 15, "{figures}");
}

#[test]
fn harmed_figures_are_struck_and_other_promises_not_ranked() {
    let report = sample::large();
    let page = render(&report).unwrap();
    let cells = || report.suites.iter().flat_map(|suite| &suite.cells);
    let harmed = cells().find(|cell| cell.row == "T9").unwrap();
    let struck = format!("<s>{}</s>", amount(figures(harmed, 4).unwrap().value.median));
    assert!(page.contains(&struck), "{struck}");
    assert!(page.contains("other promise"));
    assert!(page.contains("claim not supported"));
}

#[test]
fn a_pass_in_some_blocks_is_told_as_such_and_a_failure_is_not_struck_for_its_losses() {
    let mut report = sample::large();
    let cell = report.suites.iter_mut().flat_map(|suite| &mut suite.cells).find(|cell| cell.row == "M3").unwrap();
    for (result, values) in cell.results.iter_mut().zip([[1.0, 1.0, 0.0, 1.0, 0.0], [0.0; 5]]) {
        let CellOutcome::Measured(found) = &mut result.outcome else { panic!("{:?}", result.outcome) };
        found.value = Spread::of(values.to_vec()).unwrap();
        found.valid = found.passed().0;
        for (slice, value) in found.all.iter_mut().zip(values) {
            slice.measured.as_mut().unwrap().integrity.lost = u64::from(value == 0.0);
        }
    }
    let page = render(&report).unwrap();
    let words = lines_of(&page);
    assert!(words.contains("\npassed in 3 of 5") && words.contains("\ndid not pass"), "{words}");
    assert!(!page.contains("<s>did not pass"));
}

#[test]
fn a_small_record_reads_as_agreed() {
    let words = lines_of(&render(&sample::small()).unwrap());
    if let Some(dir) = std::env::var_os(LOOK) {
        std::fs::write(std::path::Path::new(&dir).join("small.txt"), &words).unwrap();
    }
    // Read when the test runs, so that a change of a word need not build twice.
    let golden = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/html/small.txt")).unwrap();
    assert_eq!(words, golden, "where the new words are right, they are the new small.txt");
}

#[test]
fn a_record_that_does_not_hold_together_is_refused() {
    let mut report = sample::small();
    report.suites[0].cells[0].results.reverse();
    assert!(render(&report).unwrap_err().to_string().contains("D1"));
    let newer = Report { version: 99, ..sample::small() };
    assert!(render(&newer).unwrap_err().to_string().contains("version 99"));
}

#[test]
fn a_sample_that_was_a_file_draws_the_same_page() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = std::env::var_os(LOOK).map_or_else(|| scratch.path().to_owned(), Into::into);
    let (record, page) = (dir.join("sample.json"), dir.join("sample.html"));
    let report = sample::large();
    std::fs::write(&record, serde_json::to_vec(&report).unwrap()).unwrap();
    let drawn = render(&super::super::file::read(&record).unwrap()).unwrap();
    std::fs::write(page, &drawn).unwrap();
    // A number that was text may differ in its last bit, and so may the end of an interval; nothing
    // is missing, though.
    let again = render(&report).unwrap();
    for part in ["<tr", "<td", "<svg", "<path", "<circle", "<rect", "<text", "<li"] {
        assert_eq!(drawn.matches(part).count(), again.matches(part).count(), "{part}");
    }
}
