//! The paths in a Rust file that stay in its crate: `crate::…`, `super::…` and `self::…`, each made
//! absolute.
//!
//! A `use` with braces is as many paths as it has leaves.

use super::source::{Line, identifiers};
use super::tokens::{Token, product, text};

/// One path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CratePath {
    /// Its line, from 0.
    pub(super) line: usize,
    /// The names after `crate`.
    pub(super) names: Vec<String>,
    /// What the file calls the last of them.
    pub(super) alias: String,
}

/// The paths in the lines outside tests of the module `module`.
pub(super) fn crate_paths(lines: &[Line], module: &[String]) -> Vec<CratePath> {
    let tokens = product(lines);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before)).map_or("", |token| token.text);
        let starts = matches!(tokens[at].text, "crate" | "super" | "self") && !matches!(before, "$" | "::");
        if starts && text(&tokens, at + 1) == "::" {
            at = tree(&tokens, at, module, &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// What the `use` statements of a crate's root bring in, with paths that begin with a module of it.
pub(super) fn root_uses(lines: &[Line]) -> Vec<CratePath> {
    let tokens = product(lines);
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|at| tokens[*at].text == "use") {
        tree(&tokens, at + 1, &[], &mut found);
    }
    found
}

/// Reads the tree of paths at `at`, whose names follow `base`, and gives the place behind it.
fn tree(tokens: &[Token<'_>], mut at: usize, base: &[String], found: &mut Vec<CratePath>) -> usize {
    let mut names = base.to_vec();
    let line = tokens.get(at).map_or(0, |token| token.line);
    loop {
        match text(tokens, at) {
            "{" => return group(tokens, at + 1, &names, found),
            "crate" => names.clear(),
            "super" => drop(names.pop()),
            "self" | "*" => {}
            word if identifiers(word).len() == 1 => names.push(word.to_owned()),
            _ => break,
        }
        at += 1;
        if text(tokens, at) != "::" {
            break;
        }
        at += 1;
    }
    let mut alias = names.last().cloned().unwrap_or_default();
    if text(tokens, at) == "as" {
        alias = text(tokens, at + 1).to_owned();
        at += 2;
    }
    found.push(CratePath { line, names, alias });
    at
}

/// Reads the trees up to a closing brace.
fn group(tokens: &[Token<'_>], mut at: usize, base: &[String], found: &mut Vec<CratePath>) -> usize {
    while !matches!(text(tokens, at), "}" | "") {
        let behind = tree(tokens, at, base, found);
        let comma = usize::from(text(tokens, behind) == ",");
        at = (behind + comma).max(at + 1);
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn paths_are_made_absolute() {
        for (code, expected) in [
            ("use crate::a::B;", "a::B"),
            ("use crate::{a::{B, c}, d as e, f::*};", "a::B a::c d=e f"),
            ("use crate::{\n    a::{\n        B,\n    },\n};", "a::B"),
            ("use super::{self, B, super::c};", "x x::B c"),
            ("use super::super::c;", "c"),
            ("use self::z::A;", "x::y::z::A"),
            ("fn f(a: &crate::a::B<crate::c::D>) { super::g::<u8>(); }", "a::B c::D x::g"),
            ("pub(in crate::a) struct A; pub(super) struct B; pub(crate) struct C;", "a"),
            ("macro_rules! m { () => { $crate::a::b() } }", ""),
            ("use std::crate_of; // crate::a\nlet a = \"crate::a\";", ""),
            ("#[cfg(test)]\nuse crate::a;\n", ""),
        ] {
            let found = crate_paths(&source::lines(code), &["x".to_owned(), "y".to_owned()]);
            assert_eq!(shown(&found), expected, "{code}");
        }
    }

    #[test]
    fn a_root_says_what_it_brings_in() {
        let code = "mod a;\npub use a::{B, c::D as E};\npub(crate) use crate::f::g;\nuse std::fmt;\n";
        assert_eq!(shown(&root_uses(&source::lines(code))), "a::B a::c::D=E f::g std::fmt");
    }

    fn shown(paths: &[CratePath]) -> String {
        let one = |path: &CratePath| {
            let names = path.names.join("::");
            let renamed = path.names.last().is_some_and(|last| *last != path.alias);
            if renamed { format!("{names}={}", path.alias) } else { names }
        };
        paths.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}
