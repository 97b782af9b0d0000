//! The rules for one Rust file: its header, its sizes, what it may not contain, and how things may
//! not be called.

use std::path::Path;

use super::Finding;
use super::files::File;
use super::source::{self, Line};
use super::test_files::TestFiles;

const MAX_FILE_LINES: usize = 800;
const MAX_FUNCTION_LINES: usize = 70;

/// Files that may contain `unsafe`, each with what it needs it for. Everything else is safe Rust.
const UNSAFE_ALLOWED: [(&str, &str); 1] = [("crates/hermod/src/allocator.rs", "an option of the allocator")];

/// Code that ends the process on input; the second column says what to write instead.
const FORBIDDEN_CODE: [(&str, &str); 5] = [
    (".unwrap()", "return the error, or use expect with the reason why it cannot happen"),
    ("panic!(", "return an error, or assert an invariant"),
    ("todo!(", "finish it, or refuse the request by name"),
    ("unimplemented!(", "refuse the request by name"),
    ("dbg!(", "remove it"),
];

/// Marks of unfinished work.
const UNFINISHED: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 9] =
    ["common", "util", "utils", "utility", "utilities", "helper", "helpers", "manager", "misc"];

/// Keywords in front of a name that is declared.
const DECLARING: [&str; 7] = ["struct", "enum", "trait", "mod", "type", "fn", "union"];

/// Words of one protocol that may not name anything in these crates, where they would mean
/// something else.
const FOREIGN_WORDS: [(&str, &[&str]); 3] = [
    ("channel", &["broker", "journal", "selector", "wire", "net", "stomp"]),
    ("packet", &["broker", "journal", "selector", "wire", "amqp091", "stomp"]),
    ("vhost", &["journal", "selector", "wire", "net"]),
];

/// Words of one protocol that a crate must not say to the clients of all. Where a protocol has a
/// word of its own, its crate writes the text.
const FOREIGN_TEXTS: [(&str, &str); 1] = [("channel", "broker")];

/// Files whose literals are a format of one protocol.
const TEXTS_ALLOWED: [&str; 1] = ["crates/broker/src/session/trace.rs"];

/// Applies all rules to one file with its lines.
pub(super) fn check(file: &File, lines: &[Line], tests: &TestFiles, findings: &mut Vec<Finding>) {
    let mut find = |line: usize, text: String| findings.push(Finding::new(&file.path, line, text));
    if !file.text.starts_with("//! ") {
        find(1, "the file does not open with a //! header: say what lives here and what it keeps true".into());
    }
    let count = file.text.lines().count();
    if count > MAX_FILE_LINES {
        find(0, format!("{count} lines; at most {MAX_FILE_LINES}: divide it by subject"));
    }
    let whole_file_is_test = tests.has(&file.path);
    for function in source::functions(lines) {
        // A test may be a long table.
        if whole_file_is_test || lines[function.first].test {
            continue;
        }
        let length = function.last - function.first + 1;
        if length > MAX_FUNCTION_LINES {
            let name = &function.name;
            find(function.first + 1, format!("`{name}` has {length} lines; at most {MAX_FUNCTION_LINES}"));
        }
    }
    for (number, line) in lines.iter().enumerate() {
        let mut find = |text| find(number + 1, text);
        check_line(&file.path, line, &mut find);
        if !(whole_file_is_test || line.test) {
            check_product_line(line, &mut find);
            check_literals(&file.path, line, &mut find);
        }
    }
    check_file_name(&file.path, &mut |text| find(0, text));
}

/// Checks what only tests may do.
fn check_product_line(line: &Line, find: &mut dyn FnMut(String)) {
    for (code, instead) in FORBIDDEN_CODE {
        if contains_call(&line.code, code) {
            find(format!("`{code}` outside a test: {instead}"));
        }
    }
}

/// Checks what product code says.
fn check_literals(path: &Path, line: &Line, find: &mut dyn FnMut(String)) {
    if TEXTS_ALLOWED.iter().any(|allowed| path == Path::new(allowed)) {
        return;
    }
    for (foreign, name) in FOREIGN_TEXTS {
        if crate_of(path) == Some(name) && source::identifiers(&line.literal).contains(&foreign) {
            find(format!("\"{foreign}\" in a text of `{name}`: give the error a fact, and let the protocol write it"));
        }
    }
}

fn check_line(path: &Path, line: &Line, find: &mut dyn FnMut(String)) {
    for mark in UNFINISHED {
        if source::identifiers(&line.comment).contains(&mark) {
            find(format!("{mark}: do it now, or write it where plans are kept"));
        }
    }
    let words = source::identifiers(&line.code);
    if words.contains(&"unsafe") && !UNSAFE_ALLOWED.iter().any(|(allowed, _)| path == Path::new(allowed)) {
        find("`unsafe` outside the files that are listed for it in xtask/src/tidy/rust.rs".into());
    }
    for pair in words.windows(2) {
        if DECLARING.contains(&pair[0]) {
            check_name(path, pair[0], pair[1], find);
        }
    }
}

/// Whether `code` holds the call `wanted`, and not one whose name only ends like it.
fn contains_call(code: &str, wanted: &str) -> bool {
    code.match_indices(wanted).any(|(at, _)| {
        wanted.starts_with('.') || !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

/// Checks a name behind its keyword. In the name of a function such a word may be an adjective, so
/// only the whole name counts.
fn check_name(path: &Path, keyword: &str, name: &str, find: &mut dyn FnMut(String)) {
    for word in name_words(name) {
        if EMPTY_NAMES.contains(&word.as_str()) && (keyword != "fn" || word == name) {
            find(format!("`{name}` says nothing about what is inside: name it after its noun"));
        }
        for (foreign, crates) in FOREIGN_WORDS {
            if word == foreign && crate_of(path).is_some_and(|name| crates.contains(&name)) {
                find(format!(
                    "`{name}`: \"{foreign}\" is no word of this crate; see the vocabulary in ARCHITECTURE.md"
                ));
            }
        }
    }
}

fn check_file_name(path: &Path, find: &mut dyn FnMut(String)) {
    // Cargo takes any other file directly in `tests` for a program of its own.
    let shared_by_tests = path.ancestors().nth(2).is_some_and(|folder| folder.ends_with("tests"));
    if path.ends_with("mod.rs") && !shared_by_tests {
        find("a module `name` is the file `name.rs` beside its folder, and no `mod.rs` in it".into());
    }
    for part in path.with_extension("").iter().filter_map(|part| part.to_str()) {
        if EMPTY_NAMES.contains(&part) {
            find(format!("the name `{part}` says nothing about what is inside"));
        }
    }
}

/// The lower-case words of a name in camel or snake case.
fn name_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut last_was_lower = false;
    for character in name.chars() {
        if character == '_' || (character.is_uppercase() && last_was_lower) {
            words.push(String::new());
        }
        last_was_lower = character.is_lowercase() || character.is_numeric();
        if let Some(word) = words.last_mut()
            && character != '_'
        {
            word.extend(character.to_lowercase());
        }
    }
    words
}

/// The crate a file belongs to.
fn crate_of(path: &Path) -> Option<&str> {
    path.strip_prefix("crates").ok()?.iter().next()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        let file = File { path: path.into(), text: text.into() };
        check(&file, &source::lines(text), &TestFiles::of(&[]), &mut findings);
        findings.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn each_rule_finds_its_case() {
        let path = "crates/broker/src/queue.rs";
        let long_function = format!("//! x\nfn f() {{\n{}}}\n", "    x();\n".repeat(69));
        let long_file = format!("//! x\n{}", "\n".repeat(800));
        for (path, text, expected) in [
            (path, "//! x\nfn f() { x.unwrap_or(1); }\n", ""),
            (path, "//! x\n#[cfg(test)]\nmod tests {\n    fn f() { x.unwrap(); panic!(); }\n}\n", ""),
            ("crates/broker/src/queue/tests.rs", "//! x\nfn f() { x.unwrap(); }\n", ""),
            (path, "//! x\nfn the_common_part() {}\n", ""),
            (path, "fn f() {}\n", "//! header"),
            (path, "//! x\nfn f() { x.unwrap(); }\n", "`.unwrap()`"),
            (path, "//! x\nfn f() { panic!(\"x\"); }\n", "`panic!(`"),
            (path, "//! x\n// TODO: more\n", "TODO"),
            (path, "//! x\nunsafe fn f() {}\n", "`unsafe`"),
            (path, "//! x\nstruct QueueManager;\n", "`QueueManager`"),
            (path, "//! x\nmod utils;\n", "`utils`"),
            (path, "//! x\nstruct ChannelState;\n", "\"channel\""),
            ("crates/amqp091/src/x.rs", "//! x\nstruct ChannelState;\n", ""),
            (path, "//! x\nfn f() { g(\"per channel\", 1); }\n", "\"channel\" in a text"),
            (path, "//! x\n#[cfg(test)]\nmod tests {\n    fn f() { g(\"channel\"); }\n}\n", ""),
            ("crates/amqp091/src/x.rs", "//! x\nfn f() { g(\"per channel\"); }\n", ""),
            ("crates/broker/src/common.rs", "//! x\n", "`common`"),
            ("crates/broker/src/queue/mod.rs", "//! x\n", "`mod.rs`"),
            ("crates/broker/tests/it/deep/mod.rs", "//! x\n", "`mod.rs`"),
            ("crates/broker/tests/shared/mod.rs", "//! x\n", ""),
            (path, &long_function, "71 lines"),
            ("crates/broker/tests/x.rs", &long_function, ""),
            ("crates/testkit/src/x.rs", "//! x\nfn f() { panic!(); }\n", ""),
            (path, &long_file, "801 lines"),
        ] {
            let found = texts(path, text);
            match expected {
                "" => assert!(found.is_empty(), "{text}: {found:?}"),
                _ => assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}"),
            }
        }
    }
}
