//! The shape of Rust code: no parameter that is a bool, and no struct with many fields.
//!
//! `set(true, false)` says nothing where it is read: an enum does, or a struct of options with
//! named fields. A closure may have one. A struct with many fields is several things: divide it by
//! subject.

use super::files::File;
use super::ratchet::{Broken, Rule};
use super::source::{self, Line};
use super::test_files::TestFiles;
use super::tokens::{self, Token, members, text};

const MAX_FIELDS: usize = 15;

/// Functions of other people's traits, whose parameters are not ours to choose.
const FOREIGN_FUNCTIONS: [&str; 5] = ["fsync", "fsyncdir", "record_bool", "serialize_bool", "visit_bool"];

/// Functions that assert: the condition is written out where they are called.
const ASSERTIONS: [&str; 1] = ["demand"];

/// Structs that may have more fields, each with its reason. There are never more than five.
const WIDE_STRUCTS: [(&str, &str); 1] =
    [("Knobs", "a table of a study's file, in which serde refuses unknown keys only if all fields are its own")];

/// Looks at one file.
pub(super) fn check(file: &File, lines: &[Line], tests: &TestFiles, broken: &mut Vec<Broken>) {
    let all = tokens::all(lines.iter().enumerate());
    for (line, name) in bool_parameters(&all) {
        if !FOREIGN_FUNCTIONS.contains(&name) && !ASSERTIONS.contains(&name) {
            let problem = format!("`{name}` takes a bool: an enum says what it means, or an options struct");
            broken.push(Broken::new(Rule::BoolParameter, &file.path, line + 1, problem));
        }
    }
    if tests.has(&file.path) {
        return;
    }
    for (line, name, fields) in structs(&tokens::product(lines)) {
        if fields > MAX_FIELDS && !WIDE_STRUCTS.iter().any(|(allowed, _)| *allowed == name) {
            let problem = format!("`{name}` has {fields} fields; at most {MAX_FIELDS}: divide it by subject");
            broken.push(Broken::new(Rule::WideStruct, &file.path, line + 1, problem));
        }
    }
}

/// The named functions with a parameter that is a bool.
fn bool_parameters<'a>(tokens: &[Token<'a>]) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|at| tokens[*at].text == "fn") {
        let name = text(tokens, at + 1);
        if source::identifiers(name).is_empty() {
            continue;
        }
        let open = behind_generics(tokens, at + 2);
        let is_bool =
            |member: &&[Token<'_>]| matches!(member, [.., colon, last] if colon.text == ":" && last.text == "bool");
        if text(tokens, open) == "(" && members(tokens, open).iter().any(is_bool) {
            found.push((tokens[at].line, name));
        }
    }
    found
}

/// The structs with named fields, and how many they have.
fn structs<'a>(tokens: &[Token<'a>]) -> Vec<(usize, &'a str, usize)> {
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|at| tokens[*at].text == "struct") {
        let behind = behind_generics(tokens, at + 2);
        let ends = |token: &Token<'_>| matches!(token.text, "{" | ";" | "(");
        let Some(open) = tokens.iter().skip(behind).position(ends).map(|further| behind + further) else { continue };
        if text(tokens, open) == "{" {
            found.push((tokens[at].line, text(tokens, at + 1), members(tokens, open).len()));
        }
    }
    found
}

/// The place behind the generics that may begin at `at`.
fn behind_generics(tokens: &[Token<'_>], at: usize) -> usize {
    if text(tokens, at) != "<" {
        return at;
    }
    let mut depth = 0usize;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "<" => depth += 1,
            ">" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<Rule> {
        let mut broken = Vec::new();
        let file = File { path: path.into(), text: text.into() };
        check(&file, &source::lines(text), &TestFiles::of(&[]), &mut broken);
        broken.into_iter().map(|broken| broken.rule).collect()
    }

    #[test]
    fn bool_parameters_are_found() {
        for (text, count) in [
            ("fn f(a: bool) {}", 1),
            ("const fn f<T: Into<u8>>(\n    a: &T,\n    mut b: bool,\n) -> u8;", 1),
            ("#[cfg(test)]\nmod tests {\n    fn f(a: bool) {}\n}", 1),
            ("fn f(a: bool, b: bool) {} fn g(a: bool) {}", 2),
            ("fn f(a: Option<bool>, b: &dyn Fn(bool), c: fn(bool) -> bool) -> bool {}", 0),
            ("fn f() { let a = |b: bool| b; }", 0),
            ("struct A { b: bool }", 0),
            ("fn visit_bool(self, value: bool) {}", 0),
        ] {
            assert_eq!(rules("a.rs", text), vec![Rule::BoolParameter; count], "{text}");
        }
    }

    #[test]
    fn wide_structs_are_found() {
        let fields =
            |count: usize| (0..count).map(|n| format!("    /// x\n    f{n}: M<u8, u8>,\n")).collect::<String>();
        for (path, text, count) in [
            ("a.rs", format!("pub struct A {{\n{}}}\n", fields(15)), 0),
            ("a.rs", format!("pub struct A {{\n{}}}\n", fields(16)), 1),
            ("a.rs", format!("struct A<T>\nwhere\n    T: B,\n{{\n{}}}\n", fields(16)), 1),
            ("a.rs", format!("#[cfg(test)]\nstruct A {{\n{}}}\n", fields(16)), 0),
            ("tests.rs", format!("struct A {{\n{}}}\n", fields(16)), 0),
            ("a.rs", "struct A;\nstruct B(u8, u8);\nfn f() {}".to_owned(), 0),
        ] {
            assert_eq!(rules(path, &text), vec![Rule::WideStruct; count], "{text}");
        }
    }
}
