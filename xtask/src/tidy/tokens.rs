//! The names and signs of a Rust file, with their lines, for rules about more than one line.

use super::source::{Line, identifiers};

/// A name, a keyword or a sign; `::` and `->` are one sign each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    /// Its line, from 0.
    pub(super) line: usize,
    pub(super) text: &'a str,
}

/// Those outside tests.
pub(super) fn product(lines: &[Line]) -> Vec<Token<'_>> {
    all(lines.iter().enumerate().filter(|(_, line)| !line.test))
}

/// Those of the numbered lines.
pub(super) fn all<'a>(lines: impl Iterator<Item = (usize, &'a Line)>) -> Vec<Token<'a>> {
    let mut found = Vec::new();
    for (line, content) in lines {
        let mut rest = content.code.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match identifiers(rest).first() {
                Some(word) if rest.starts_with(word) => word.len(),
                _ if rest.starts_with("::") || rest.starts_with("->") => 2,
                _ => first.len_utf8(),
            };
            let (text, after) = rest.split_at(length);
            found.push(Token { line, text });
            rest = after.trim_start();
        }
    }
    found
}

/// The text of the token at `at`, or nothing behind the end.
pub(super) fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

/// What is between the bracket at `open` and its partner, divided at the commas that are in no
/// other bracket.
pub(super) fn members<'a, 't>(tokens: &'t [Token<'a>], open: usize) -> Vec<&'t [Token<'a>]> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut start = open + 1;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" | ">" => depth = depth.saturating_sub(1),
            "," if depth == 1 => {
                found.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        if depth == 0 {
            found.push(&tokens[start..at]);
            break;
        }
    }
    found.retain(|member| !member.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn members_are_divided_at_their_own_commas() {
        for (code, expected) in [
            ("()", ""),
            ("(a: A, b: B)", "a:A b:B"),
            ("(a: fn(x, y) -> z, b: [c; 2], d: E<f, g>,) {}", "a:fn(x,y)->z b:[c;2] d:E<f,g>"),
            ("{ a: A, b: B } fn", "a:A b:B"),
        ] {
            let lines = source::lines(code);
            let tokens = product(&lines);
            let join = |member: &&[Token<'_>]| member.iter().map(|token| token.text).collect::<String>();
            assert_eq!(members(&tokens, 0).iter().map(join).collect::<Vec<_>>().join(" "), expected, "{code}");
        }
    }
}
