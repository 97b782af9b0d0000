//! Which module may use which inside a crate. Folders are layers, and an arrow never goes up.
//!
//! An arrow goes from a module to each other module that its product code names by `crate::…` or
//! `super::…`. A name that the parent's file only brings in counts as the module that it comes
//! from. What the parent's file defines itself may be used by every child. Modules of one layer may
//! use each other, but not in a circle. Folders without a table are not checked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Finding;
use super::files::File;
use super::paths::{CratePath, crate_paths, root_uses};
use super::source;
use super::test_files::TestFiles;

mod table;

/// The modules of one folder.
struct Folder {
    /// Relative to the root: a crate's `src`, or a module's folder in it.
    path: &'static str,
    /// The files and folders in it, lowest layer first.
    layers: &'static [&'static [&'static str]],
    /// The arrows that go up or close a circle all the same.
    allowed: &'static [Allowed],
}

/// An arrow that is allowed although it goes up.
struct Allowed {
    from: &'static str,
    to: &'static str,
    /// Why it is there.
    reason: &'static str,
}

/// Where the table is.
const TABLE: &str = "xtask/src/tidy/layers/table.rs";

/// Holds every folder of the table against its files.
pub(super) fn check(files: &[File], tests: &TestFiles, findings: &mut Vec<Finding>) {
    for folder in table::FOLDERS {
        check_folder(folder, files, tests, findings);
    }
}

/// One module that uses another of its folder.
struct Arrow {
    path: PathBuf,
    line: usize,
    from: String,
    to: String,
}

fn check_folder(folder: &Folder, files: &[File], tests: &TestFiles, findings: &mut Vec<Finding>) {
    let arrows = arrows(folder, files, tests, findings);
    for arrow in &arrows {
        let Arrow { path, line, from, to } = arrow;
        let (Some(low), Some(high)) = (folder.layer(from), folder.layer(to)) else { continue };
        let problem = if low < high {
            "goes up: move what is used down, or hand it in"
        } else if low == high && leads(&arrows, to, from, |name| folder.layer(name) == Some(low)) {
            "closes a circle in its layer: move what both use down"
        } else {
            continue;
        };
        if folder.allowance(from, to).is_none() {
            findings.push(Finding::new(path, *line, format!("{}: `{from}` -> `{to}` {problem}", folder.path)));
        }
    }
    for Allowed { from, to, reason } in folder.allowed {
        let used = arrows.iter().any(|arrow| arrow.from == *from && arrow.to == *to);
        if !used || reason.is_empty() {
            let text = format!("{}: `{from}` -> `{to}` is allowed without a use or a reason", folder.path);
            findings.push(Finding::new(Path::new(TABLE), 0, text));
        }
    }
}

impl Folder {
    fn layer(&self, module: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.contains(&module))
    }

    fn allowance(&self, from: &str, to: &str) -> Option<&Allowed> {
        self.allowed.iter().find(|allowed| allowed.from == from && allowed.to == to)
    }

    /// The names of the modules on the way from the crate's root to the folder.
    fn base(&self) -> Vec<String> {
        let names = Path::new(self.path).iter().map(|part| part.to_string_lossy().into_owned());
        names.skip_while(|part| part != "src").skip(1).collect()
    }

    /// Whether `path` is the file whose children are in the folder.
    fn is_root(&self, path: &Path) -> bool {
        let folder = Path::new(self.path);
        let in_folder = path.parent() == Some(folder);
        path == folder.with_extension("rs")
            || (in_folder && ["lib.rs", "main.rs"].iter().any(|name| path.ends_with(name)))
    }

    /// The names of a file's module below the folder.
    fn module(&self, path: &Path) -> Option<Vec<String>> {
        let inner = path.strip_prefix(self.path).ok()?.with_extension("");
        Some(inner.iter().map(|part| part.to_string_lossy().into_owned()).collect())
    }
}

/// Whether a path of arrows leads from `from` to `to` over modules of one layer.
fn leads(arrows: &[Arrow], from: &str, to: &str, inside: impl Fn(&str) -> bool) -> bool {
    let mut reached = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for arrow in arrows.iter().filter(|arrow| arrow.from == at && inside(&arrow.to)) {
            if reached.insert(&arrow.to) {
                open.push(&arrow.to);
            }
        }
    }
    reached.contains(to)
}

/// All arrows between the modules of a folder; a module without a layer is a finding.
fn arrows(folder: &Folder, files: &[File], tests: &TestFiles, findings: &mut Vec<Finding>) -> Vec<Arrow> {
    let (roots, inner): (Vec<_>, Vec<_>) = files
        .iter()
        .filter(|file| file.extension("rs") && !tests.has_module(&file.path))
        .filter(|file| file.path.starts_with(folder.path) || folder.is_root(&file.path))
        .partition(|file| folder.is_root(&file.path));
    let brought_in: Vec<CratePath> = roots.iter().flat_map(|root| root_uses(&source::lines(&root.text))).collect();
    let base = folder.base();
    let mut there = BTreeSet::new();
    let mut arrows = Vec::new();
    for file in inner {
        let Some(module) = folder.module(&file.path) else { continue };
        let from = module.first().cloned().unwrap_or_default();
        if there.insert(from.clone()) && folder.layer(&from).is_none() {
            findings.push(Finding::new(&file.path, 0, format!("`{from}` has no layer in {TABLE}")));
        }
        let module = [base.clone(), module].concat();
        for path in crate_paths(&source::lines(&file.text), &module) {
            let Some(name) = path.names.strip_prefix(base.as_slice()).and_then(<[String]>::first) else { continue };
            let to = if folder.layer(name).is_some() { Some(name) } else { origin(&brought_in, &base, name) };
            if let Some(to) = to.filter(|to| **to != from) {
                arrows.push(Arrow { path: file.path.clone(), line: path.line + 1, from: from.clone(), to: to.clone() });
            }
        }
    }
    for module in folder.layers.iter().copied().flatten().filter(|module| !there.contains(**module)) {
        findings.push(Finding::new(Path::new(TABLE), 0, format!("{}: there is no `{module}`", folder.path)));
    }
    arrows
}

/// The module that the parent's file gets `name` from.
fn origin<'a>(brought_in: &'a [CratePath], base: &[String], name: &str) -> Option<&'a String> {
    let path = brought_in.iter().find(|path| path.alias == name)?;
    path.names.strip_prefix(base).unwrap_or(&path.names).first()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: Folder = Folder {
        path: "crates/a/src",
        layers: &[&["ground"], &["left", "right"], &["roof"]],
        allowed: &[Allowed { from: "ground", to: "roof", reason: "a test" }],
    };
    const INNER: Folder = Folder { path: "crates/a/src/roof", layers: &[&["low"], &["high"]], allowed: &[] };

    /// The findings in a crate whose modules exist and have the texts given besides.
    fn texts(folder: &Folder, given: &[(&str, &str)]) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: Path::new("crates/a/src").join(path), text: text.into() };
        let mut files = vec![file("lib.rs", "pub use roof::{Roof, high::Tile as Slate};\npub fn own() {}\n")];
        let modules = ["ground.rs", "left.rs", "right.rs", "roof.rs", "roof/low.rs", "roof/high.rs"];
        files.extend(modules.map(|path| file(path, "")));
        files[1].text = "use crate::roof::Roof;\n#[cfg(test)]\nmod tests;\n".into();
        files.extend(given.iter().map(|(path, text)| file(path, text)));
        let mut findings = Vec::new();
        check_folder(folder, &files, &TestFiles::of(&files), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_up_are_found() {
        for (path, text, expected) in [
            ("ground/x.rs", "use crate::own;", ""),
            ("roof/x.rs", "use crate::{left::A, right, ground};", ""),
            (
                "ground/x.rs",
                "//! crate::left\n\nuse crate::left::A;",
                "crates/a/src/ground/x.rs:3: crates/a/src: `ground` -> `left` goes up",
            ),
            ("ground/x.rs", "use super::super::left::A;", "`ground` -> `left`"),
            ("ground/x.rs", "fn f() { crate::left::g() }", "`ground` -> `left`"),
            ("left/x.rs", "use crate::{\n    Roof,\n};", "left/x.rs:2: crates/a/src: `left` -> `roof`"),
            ("left/x.rs", "use crate::Slate;", "`left` -> `roof`"),
            ("ground/x.rs", "#[cfg(test)]\nuse crate::left::A;", ""),
            ("ground/tests.rs", "use crate::left::A;", ""),
            ("ground/tests/x.rs", "use crate::left::A;", ""),
            ("left/x.rs", "use crate::right::A;", ""),
            ("attic.rs", "", "`attic` has no layer"),
        ] {
            let found = texts(&FOLDER, &[(path, text)]);
            match expected {
                "" => assert!(found.is_empty(), "{text}: {found:?}"),
                _ => assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_circle_in_a_layer_is_found_in_both_files() {
        let found = texts(&FOLDER, &[("left/x.rs", "use crate::right::A;"), ("right/x.rs", "use crate::left::B;")]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|text| text.contains("closes a circle")), "{found:?}");
    }

    #[test]
    fn a_module_has_layers_too() {
        let found = texts(&INNER, &[("roof/low.rs", "use super::high::A;\nuse crate::left::B;")]);
        assert!(found.len() == 1 && found[0].contains("`low` -> `high` goes up"), "{found:?}");
        assert!(texts(&INNER, &[("roof/high.rs", "use super::low::A;\nuse super::Roof;")]).is_empty());
    }

    #[test]
    fn a_table_without_its_file_or_use_is_a_finding() {
        let stale = Folder { path: "crates/a/src/roof", layers: &[&["low", "gone"], &["high"]], allowed: &[] };
        assert!(texts(&stale, &[])[0].contains("there is no `gone`"));
        let allowed = &[Allowed { from: "high", to: "low", reason: "a test" }];
        let unused = Folder { path: "crates/a/src/roof", layers: &[&["low"], &["high"]], allowed };
        assert!(texts(&unused, &[])[0].contains("without a use"));
    }
}
