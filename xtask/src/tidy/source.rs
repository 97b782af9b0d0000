//! A Rust file taken apart just far enough for the rules: code without comments and literals, and
//! which lines are tests.
//!
//! This is a scanner, not a parser: it knows comments, strings, characters and braces. A file that
//! it misreads would not compile either, or would be formatted in a way rustfmt does not produce.

/// One line of a file.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The code, with the insides of literals left out.
    pub(super) code: String,
    /// The text of the comments on the line.
    pub(super) comment: String,
    /// The insides of its literals.
    pub(super) literal: String,
    /// Whether the line belongs to an item that is only compiled for tests.
    pub(super) test: bool,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Its name.
    pub(super) name: String,
    /// The line of the word `fn`, from 0.
    pub(super) first: usize,
    /// The line of its closing brace.
    pub(super) last: usize,
}

/// Takes `text` apart.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let mut scanner = Scanner { rest: text.chars().collect(), at: 0, lines: vec![Line::default()] };
    while scanner.at < scanner.rest.len() {
        scanner.step();
    }
    let mut lines = scanner.lines;
    mark_tests(&mut lines);
    lines
}

struct Scanner {
    rest: Vec<char>,
    at: usize,
    lines: Vec<Line>,
}

impl Scanner {
    fn peek(&self, ahead: usize) -> char {
        self.rest.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn line(&mut self) -> &mut Line {
        if self.lines.is_empty() {
            self.lines.push(Line::default());
        }
        let last = self.lines.len() - 1;
        &mut self.lines[last]
    }

    /// Moves over one character; `keep` says whether it is code, a comment, or part of a literal.
    fn advance(&mut self, keep: Kind) {
        let character = self.peek(0);
        self.at += 1;
        match (character, keep) {
            ('\n', _) => self.lines.push(Line::default()),
            (_, Kind::Code) => self.line().code.push(character),
            (_, Kind::Comment) => self.line().comment.push(character),
            (_, Kind::Literal) => self.line().literal.push(character),
        }
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => {
                while self.at < self.rest.len() && self.peek(0) != '\n' {
                    self.advance(Kind::Comment);
                }
            }
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('r', '"' | '#') if !self.follows_identifier() && self.raw_hashes().is_some() => self.raw_string(),
            ('\'', _) => self.character(),
            _ => self.advance(Kind::Code),
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0usize;
        while self.at < self.rest.len() {
            let (first, second) = (self.peek(0), self.peek(1));
            let delimiter = (first, second) == ('/', '*') || (first, second) == ('*', '/');
            self.advance(Kind::Comment);
            if delimiter {
                self.advance(Kind::Comment);
                depth = if first == '/' { depth + 1 } else { depth - 1 };
                if depth == 0 {
                    return;
                }
            }
        }
    }

    fn string(&mut self) {
        // Literals of one line are kept apart.
        self.line().literal.push(' ');
        self.advance(Kind::Code);
        while self.at < self.rest.len() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                self.advance(Kind::Literal);
            }
            self.advance(Kind::Literal);
        }
        self.advance(Kind::Code);
    }

    /// Whether the character before is part of a name, as in `for"` (never) or `br"` (a raw string
    /// all the same).
    fn follows_identifier(&self) -> bool {
        let before = |back: usize| self.at.checked_sub(back).and_then(|at| self.rest.get(at)).copied();
        let is_name = |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_');
        match before(1) {
            Some('b' | 'c') => is_name(before(2)),
            other => is_name(other),
        }
    }

    /// The number of `#` between the `r` here and a quote, when this is a raw string.
    fn raw_hashes(&self) -> Option<usize> {
        let mut hashes = 0;
        while self.peek(1 + hashes) == '#' {
            hashes += 1;
        }
        (self.peek(1 + hashes) == '"').then_some(hashes)
    }

    fn raw_string(&mut self) {
        let hashes = self.raw_hashes().unwrap_or(0);
        for _ in 0..hashes + 2 {
            self.advance(Kind::Literal);
        }
        while self.at < self.rest.len() {
            let ends = self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#');
            self.advance(Kind::Literal);
            if ends {
                for _ in 0..hashes {
                    self.advance(Kind::Literal);
                }
                return;
            }
        }
    }

    /// A character, or else a lifetime, which has no closing quote.
    fn character(&mut self) {
        if self.peek(1) == '\\' {
            self.advance(Kind::Code);
            self.advance(Kind::Literal);
            self.advance(Kind::Literal);
            while self.at < self.rest.len() && self.peek(0) != '\'' {
                self.advance(Kind::Literal);
            }
            self.advance(Kind::Code);
        } else if self.peek(2) == '\'' {
            self.advance(Kind::Code);
            self.advance(Kind::Literal);
            self.advance(Kind::Code);
        } else {
            self.advance(Kind::Code);
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Marks the lines of every item under `#[cfg(test)]` or `#[test]`: up to its closing brace, or its
/// semicolon.
fn mark_tests(lines: &mut [Line]) {
    for start in 0..lines.len() {
        let code = lines[start].code.trim();
        let opens = ["#[cfg(test)]", "#[cfg(all(test,", "#[test]"].iter().any(|attribute| code.starts_with(attribute));
        if lines[start].test || !opens {
            continue;
        }
        let end = item_end(lines, start);
        for line in &mut lines[start..=end] {
            line.test = true;
        }
    }
}

/// The last line of the item that starts at or after line `start`.
fn item_end(lines: &[Line], start: usize) -> usize {
    let mut depth = 0usize;
    let mut nested = 0usize;
    for (number, line) in lines.iter().enumerate().skip(start) {
        for character in line.code.chars() {
            match character {
                '{' => depth += 1,
                '}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && nested == 0 {
                        return number;
                    }
                }
                '(' | '[' => nested += 1,
                ')' | ']' => nested = nested.saturating_sub(1),
                ';' if depth == 0 && nested == 0 => return number,
                _ => {}
            }
        }
    }
    lines.len() - 1
}

/// The functions with a body, in order; one inside another is listed by itself too.
pub(super) fn functions(lines: &[Line]) -> Vec<Function> {
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let mut words = identifiers(&line.code).into_iter().skip_while(|word| *word != "fn").skip(1);
        let Some(name) = words.next() else { continue };
        let last = item_end(lines, first);
        if lines[first..=last].iter().any(|line| line.code.contains('{')) {
            found.push(Function { name: name.to_owned(), first, last });
        }
    }
    found
}

/// The names and keywords of a piece of code, in order.
pub(super) fn identifiers(code: &str) -> Vec<&str> {
    code.split(|character: char| !(character.is_alphanumeric() || character == '_'))
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_told_from_code() {
        for (text, code, comment) in [
            ("let a = 1; // why", "let a = 1; ", "// why"),
            ("let a = \"// no { comment\";", "let a = \"\";", ""),
            ("let a = \"\\\"{\";x", "let a = \"\";x", ""),
            ("let a = r#\"a\"{\"#;x", "let a = ;x", ""),
            ("let a = br\"{\";x", "let a = b;x", ""),
            ("let a = '{'; let b: &'a str;", "let a = ''; let b: &'a str;", ""),
            ("let a = '\\''; x", "let a = ''; x", ""),
            ("let a = '\\u{7b}'; x", "let a = ''; x", ""),
            ("a /* x /* y */ z */ b", "a  b", "/* x /* y */ z */"),
        ] {
            let lines = lines(text);
            assert_eq!((lines[0].code.as_str(), lines[0].comment.as_str()), (code, comment), "{text}");
        }
    }

    #[test]
    fn the_insides_of_literals_are_kept_apart() {
        let lines = lines("f(\"per\", \"channel\", 'x'); // y");
        assert_eq!(lines[0].literal, " per channelx");
    }

    #[test]
    fn functions_and_tests_have_their_lines() {
        let text = "trait T {\n    fn no_body(&self);\n}\nfn one(\n    a: [u8; 2],\n) {\n    x();\n}\n\
                    #[cfg(test)]\nmod tests {\n    #[test]\n    fn two() {}\n}\n#[cfg(test)]\nmod more;\nfn three() {}\n";
        let lines = lines(text);
        let functions: Vec<(String, usize, usize)> =
            functions(&lines).into_iter().map(|found| (found.name, found.first, found.last)).collect();
        assert_eq!(functions, [("one".into(), 3, 7), ("two".into(), 11, 11), ("three".into(), 15, 15)]);
        let tests: Vec<usize> = (0..lines.len()).filter(|line| lines[*line].test).collect();
        assert_eq!(tests, [8, 9, 10, 11, 12, 13, 14]);
    }
}
