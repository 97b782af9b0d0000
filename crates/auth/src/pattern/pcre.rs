//! The language of PCRE, in which RabbitMQ's users write patterns, translated into that of the
//! engines here.
//!
//! It works letter by letter and without recursion. A literal that the engines would read otherwise
//! is escaped. A construct that they write otherwise is rewritten. One that neither has is refused
//! by its name. What it means to be found is the same; how much of a name is found is not asked.

use std::fmt::Write;

/// Spaces and tabs: `\h`.
const HORIZONTAL: &str = "\\x{9}\\p{Zs}";
/// Line ends: `\v`.
const VERTICAL: &str = "\\x{A}-\\x{D}\\x{85}\\x{2028}\\x{2029}";
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];
/// How errors about a flag or an escape end.
pub(super) const NOT_SUPPORTED: &str = "is not supported";
const NO_RECURSION: &str = "recursion and subroutine calls are not supported";

/// A pattern for the engines.
pub(super) struct Translated {
    pub(super) text: String,
    /// How much of it needs an engine that backtracks.
    pub(super) hard: usize,
}

/// Translates `source`; each of `names` stands for a text letter by letter.
///
/// # Errors
/// What of it is not supported, or wrong.
pub(super) fn translate(source: &str, names: &[(&str, &str)]) -> Result<Translated, String> {
    let mut translator = Translator {
        rest: source,
        names,
        out: String::with_capacity(source.len() + 16),
        open: Vec::new(),
        atom: None,
        captures: 0,
        hard: 0,
        spaced: false,
    };
    translator.run()?;
    Ok(Translated { text: translator.out, hard: translator.hard })
}

struct Translator<'a> {
    rest: &'a str,
    names: &'a [(&'a str, &'a str)],
    out: String,
    /// Groups that are open: where each begins, and whether spaces were passed over in front of it.
    open: Vec<(usize, bool)>,
    /// Where in `out` begins what may be repeated.
    atom: Option<usize>,
    captures: usize,
    hard: usize,
    /// Spaces and comments are passed over.
    spaced: bool,
}

/// What a member of a class is.
enum Member {
    Letter(char),
    /// A set, as the engines write it.
    Set(String),
    /// Nothing, such as the mark of a quotation.
    Nothing,
}

impl<'a> Translator<'a> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(letter) = self.next() {
            match letter {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.open()?,
                ')' => {
                    let (start, spaced) = self.open.pop().ok_or("a ')' closes nothing")?;
                    self.out.push(')');
                    (self.atom, self.spaced) = (Some(start), spaced);
                }
                '|' => {
                    self.out.push('|');
                    self.atom = None;
                }
                '^' | '$' | '.' => self.emit(letter.encode_utf8(&mut [0; 4])),
                '*' | '+' | '?' => self.repeat(letter.encode_utf8(&mut [0; 4]))?,
                '{' => self.brace()?,
                _ if self.spaced && letter.is_ascii_whitespace() => {}
                '#' if self.spaced => drop(self.until('\n')),
                _ => self.literal(letter),
            }
        }
        match self.open.is_empty() {
            true => Ok(()),
            false => Err("a '(' is not closed".to_owned()),
        }
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(letter)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Passes over `text` if it comes next.
    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// What stands in front of `end`, which is passed over too; everything without one.
    fn until(&mut self, end: char) -> Option<&'a str> {
        let (inner, rest) = self.rest.split_once(end).unwrap_or((self.rest, ""));
        let found = inner.len() < self.rest.len();
        self.rest = rest;
        found.then_some(inner)
    }

    /// Writes something that may be repeated.
    fn emit(&mut self, text: &str) {
        self.atom = Some(self.out.len());
        self.out.push_str(text);
    }

    fn emit_hard(&mut self, text: &str) {
        self.hard += 1;
        self.emit(text);
    }

    fn literal(&mut self, letter: char) {
        self.atom = Some(self.out.len());
        push_letter(&mut self.out, letter);
    }

    /// The text of one of the names, if one comes next.
    fn name(&mut self) -> Option<&'a str> {
        let (name, text) = self.names.iter().find(|(name, _)| self.rest.starts_with(name))?;
        self.rest = &self.rest[name.len()..];
        Some(text)
    }

    /// Behind `*`, `+`, `?` or a count.
    fn repeat(&mut self, how: &str) -> Result<(), String> {
        let start = self.atom.ok_or_else(|| format!("the '{how}' repeats nothing"))?;
        self.out.push_str(how);
        if self.eat("+") {
            self.out.insert_str(start, "(?>");
            self.out.push(')');
            self.hard += 1;
        } else if self.eat("?") {
            self.out.push('?');
        }
        Ok(())
    }

    /// A count, a name, or the brace itself.
    fn brace(&mut self) -> Result<(), String> {
        let is_next = |name: &str| name.strip_prefix('{').is_some_and(|inner| self.rest.starts_with(inner));
        if let Some((name, text)) = self.names.iter().find(|(name, _)| is_next(name)) {
            self.rest = &self.rest[name.len() - 1..];
            text.chars().for_each(|letter| self.literal(letter));
            return Ok(());
        }
        let count = self.rest.split_once('}').map(|(count, _)| count).filter(|count| is_count(count));
        match count {
            Some(count) => {
                self.rest = &self.rest[count.len() + 1..];
                self.repeat(&format!("{{{count}}}"))
            }
            None => {
                self.literal('{');
                Ok(())
            }
        }
    }

    /// Behind a `(`.
    fn open(&mut self) -> Result<(), String> {
        if self.rest.starts_with('*') {
            return Err("verbs such as (*UTF8) are not supported".to_owned());
        }
        if !self.eat("?") {
            self.captures += 1;
            self.begin("(");
            return Ok(());
        }
        for (mark, text) in [("=", "(?="), ("!", "(?!"), ("<=", "(?<="), ("<!", "(?<!"), (">", "(?>")] {
            if self.eat(mark) {
                self.hard += 1;
                self.begin(text);
                return Ok(());
            }
        }
        if self.eat(":") {
            self.begin("(?:");
        } else if self.eat("#") {
            self.until(')').ok_or("a comment is not closed")?;
        } else if self.eat("P=") {
            self.back_to(')')?;
        } else if self.eat("P<") || self.eat("<") {
            self.named('>')?;
        } else if self.eat("'") {
            self.named('\'')?;
        } else if self.eat("(") {
            self.condition()?;
        } else {
            self.flags()?;
        }
        Ok(())
    }

    fn begin(&mut self, text: &str) {
        self.open.push((self.out.len(), self.spaced));
        self.out.push_str(text);
        self.atom = None;
    }

    fn named(&mut self, end: char) -> Result<(), String> {
        let name = self.until(end).filter(|name| is_name(name)).ok_or("a group has no proper name")?;
        self.captures += 1;
        self.begin(&format!("(?<{name}>"));
        Ok(())
    }

    /// Back to what a named group found.
    fn back_to(&mut self, end: char) -> Result<(), String> {
        let name = self.until(end).filter(|name| is_name(name)).ok_or("a back-reference has no proper name")?;
        self.emit_hard(&format!("(?:\\k<{name}>)"));
        Ok(())
    }

    /// Whether a group has found something.
    fn condition(&mut self) -> Result<(), String> {
        let refused = "of conditions those that ask for a group by its number or <name> are supported";
        let condition = self.until(')').ok_or(refused)?;
        let name = condition.strip_prefix('<').and_then(|name| name.strip_suffix('>'));
        let name = name.or_else(|| condition.strip_prefix('\'').and_then(|name| name.strip_suffix('\'')));
        let asked = match name.filter(|name| is_name(name)) {
            Some(name) => format!("(?(<{name}>)"),
            None if !condition.is_empty() && condition.bytes().all(|digit| digit.is_ascii_digit()) => {
                format!("(?({condition})")
            }
            None => return Err(refused.to_owned()),
        };
        self.hard += 1;
        self.begin(&asked);
        Ok(())
    }

    /// Flags, for the rest of this group or for one of their own.
    fn flags(&mut self) -> Result<(), String> {
        let end = self.rest.find([':', ')']).ok_or("a '(?' is not closed")?;
        let (flags, mark) = (&self.rest[..end], &self.rest[end..=end]);
        if flags.starts_with(['R', '&', 'P', '+'])
            || flags.trim_start_matches('-').starts_with(|digit: char| digit.is_ascii_digit())
        {
            return Err(NO_RECURSION.to_owned());
        }
        let (mut kept, mut spaced, mut on) = (String::new(), self.spaced, true);
        for flag in flags.chars() {
            match flag {
                'i' | 'm' | 's' => kept.push(flag),
                'x' => spaced = on,
                '-' if on => {
                    on = false;
                    kept.push('-');
                }
                other => return Err(format!("(?{other}) {NOT_SUPPORTED}")),
            }
        }
        let kept = kept.trim_end_matches('-').to_owned();
        self.rest = &self.rest[end + 1..];
        match mark {
            ":" => self.begin(&format!("(?{kept}:")),
            _ if kept.is_empty() => {}
            _ => self.out.push_str(&format!("(?{kept})")),
        }
        self.spaced = spaced;
        Ok(())
    }

    /// Behind a backslash, outside classes.
    fn escape(&mut self) -> Result<(), String> {
        let letter = self.next().ok_or("it ends in a backslash")?;
        match letter {
            'Q' => self.quotation().chars().for_each(|letter| self.literal(letter)),
            'E' | 'K' => {}
            'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' | 'A' | 'z' => self.emit(&format!("\\{letter}")),
            'G' => self.emit("\\A"),
            'Z' => self.emit_hard("(?=\\x{A}?\\z)"),
            'R' => self.emit(&format!("(?:\\x{{D}}\\x{{A}}|[{VERTICAL}])")),
            'N' if self.peek() != Some('{') => self.emit("[^\\x{A}]"),
            'h' | 'H' | 'v' | 'V' | 'p' | 'P' => {
                let set = self.set(letter)?;
                self.emit(&set);
            }
            '1'..='9' => self.digits(letter)?,
            'g' => self.group_number()?,
            'k' => {
                let end = match self.next() {
                    Some('{') => '}',
                    Some('<') => '>',
                    Some('\'') => '\'',
                    _ => return Err("\\k has no name".to_owned()),
                };
                self.back_to(end)?;
            }
            _ => {
                let letter = self.letter(letter)?;
                self.literal(letter);
            }
        }
        Ok(())
    }

    /// What stands up to the end of a quotation, with the names in it replaced.
    fn quotation(&mut self) -> String {
        let (inner, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
        self.rest = rest;
        // In one pass: a text that a name stands for may look like another name.
        let (mut text, mut rest) = (String::with_capacity(inner.len()), inner);
        while let Some(letter) = rest.chars().next() {
            let named = self.names.iter().find(|(name, _)| rest.starts_with(name));
            let taken = named.map_or(letter.len_utf8(), |(name, _)| name.len());
            text.push_str(named.map_or(&rest[..taken], |(_, value)| value));
            rest = &rest[taken..];
        }
        text
    }

    /// A set that the engines write otherwise, or have from Unicode.
    fn set(&mut self, letter: char) -> Result<String, String> {
        Ok(match letter {
            'h' => format!("[{HORIZONTAL}]"),
            'H' => format!("[^{HORIZONTAL}]"),
            'v' => format!("[{VERTICAL}]"),
            'V' => format!("[^{VERTICAL}]"),
            _ => {
                let name = match self.eat("{") {
                    true => self.until('}').ok_or("a property is not closed")?,
                    false => {
                        let length = self.peek().map_or(0, char::len_utf8);
                        let (name, rest) = self.rest.split_at(length);
                        self.rest = rest;
                        name
                    }
                };
                let negated = (letter == 'P') != name.starts_with('^');
                let name = name.trim_start_matches('^');
                if name.is_empty()
                    || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || " _=:".contains(letter))
                {
                    return Err(format!("\\{letter} has no proper name"));
                }
                format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' })
            }
        })
    }

    /// Back to a group, or a letter by its octal number.
    fn digits(&mut self, first: char) -> Result<(), String> {
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).take(2).count();
        let text = format!("{first}{}", &self.rest[..length]);
        let number: usize = text.parse().map_err(|_| "a number is too large".to_owned())?;
        if number < 10 || number <= self.captures {
            self.rest = &self.rest[length..];
            self.emit_hard(&format!("(?:\\{number})"));
            return Ok(());
        }
        let letter = self.octal(first.to_string(), 2)?;
        self.literal(letter);
        Ok(())
    }

    fn octal(&mut self, mut digits: String, more: usize) -> Result<char, String> {
        let length = self.rest.bytes().take_while(|digit| (b'0'..=b'7').contains(digit)).take(more).count();
        digits.push_str(&self.rest[..length]);
        self.rest = &self.rest[length..];
        numbered(&digits, 8)
    }

    /// Behind `\g`.
    fn group_number(&mut self) -> Result<(), String> {
        let number = match self.peek() {
            Some('{') => {
                self.next();
                self.until('}').ok_or("\\g is not closed")?
            }
            Some('<' | '\'') => return Err(NO_RECURSION.to_owned()),
            _ => {
                let length =
                    self.rest.find(|letter: char| !letter.is_ascii_digit() && letter != '-').unwrap_or(self.rest.len());
                let (number, rest) = self.rest.split_at(length);
                self.rest = rest;
                number
            }
        };
        if is_name(number) {
            self.emit_hard(&format!("(?:\\k<{number}>)"));
            return Ok(());
        }
        let wrong = || format!("\\g{number} is no group");
        let group = match number.strip_prefix('-') {
            Some(back) => (self.captures + 1).checked_sub(back.parse().map_err(|_| wrong())?),
            None => number.parse().ok(),
        };
        let group = group.filter(|group| (1..=99).contains(group)).ok_or_else(wrong)?;
        self.emit_hard(&format!("(?:\\{group})"));
        Ok(())
    }

    /// The letter that an escape stands for, in classes and outside.
    fn letter(&mut self, escape: char) -> Result<char, String> {
        Ok(match escape {
            'a' => '\u{7}',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => return self.octal("0".to_owned(), 2),
            'o' if self.eat("{") => return numbered(self.until('}').ok_or("\\o is not closed")?, 8),
            'x' if self.eat("{") => return numbered(self.until('}').ok_or("\\x is not closed")?, 16),
            'x' => {
                let length = self.rest.bytes().take_while(u8::is_ascii_hexdigit).take(2).count();
                let (digits, rest) = self.rest.split_at(length);
                self.rest = rest;
                return numbered(if digits.is_empty() { "0" } else { digits }, 16);
            }
            'c' => {
                let letter = self.next().filter(char::is_ascii).ok_or("\\c has no letter")?;
                char::from(letter.to_ascii_uppercase() as u8 ^ 0x40)
            }
            letter if letter.is_ascii_alphanumeric() => return Err(format!("\\{letter} {NOT_SUPPORTED}")),
            letter => letter,
        })
    }

    /// Behind a `[`.
    fn class(&mut self) -> Result<(), String> {
        let start = self.out.len();
        self.out.push('[');
        if self.eat("^") {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            if !first && self.eat("]") {
                break;
            }
            first = false;
            if let Some(text) = self.name() {
                text.chars().for_each(|letter| push_letter(&mut self.out, letter));
                continue;
            }
            let member = self.member()?;
            let is_range = matches!(member, Member::Letter(_))
                && self.rest.starts_with('-')
                && self.rest[1..].chars().next().is_some_and(|letter| letter != ']');
            self.push_member(member);
            if is_range {
                self.next();
                let end = self.member()?;
                self.out.push_str(if matches!(end, Member::Letter(_)) { "-" } else { "\\x{2D}" });
                self.push_member(end);
            }
        }
        self.out.push(']');
        self.atom = Some(start);
        Ok(())
    }

    fn push_member(&mut self, member: Member) {
        match member {
            Member::Letter(letter) => push_letter(&mut self.out, letter),
            Member::Set(set) => self.out.push_str(&set),
            Member::Nothing => {}
        }
    }

    /// The next member of a class.
    fn member(&mut self) -> Result<Member, String> {
        let letter = self.next().ok_or("a '[' is not closed")?;
        if letter == '[' && self.rest.starts_with([':', '.', '=']) {
            return self.posix();
        }
        if letter != '\\' {
            return Ok(Member::Letter(letter));
        }
        let escape = self.next().ok_or("it ends in a backslash")?;
        Ok(match escape {
            'Q' => {
                let mut set = String::new();
                self.quotation().chars().for_each(|letter| push_letter(&mut set, letter));
                Member::Set(set)
            }
            'E' => Member::Nothing,
            'b' => Member::Letter('\u{8}'),
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => Member::Set(format!("\\{escape}")),
            'h' | 'H' | 'v' | 'V' | 'p' | 'P' => Member::Set(self.set(escape)?),
            '1'..='7' => Member::Letter(self.octal(escape.to_string(), 2)?),
            _ => Member::Letter(self.letter(escape)?),
        })
    }

    /// Such as `[:alpha:]`.
    fn posix(&mut self) -> Result<Member, String> {
        let known = self.rest.strip_prefix(':').and_then(|rest| rest.split_once(":]"));
        let Some((name, rest)) =
            known.filter(|(name, _)| name.trim_start_matches('^').bytes().all(|l| l.is_ascii_lowercase()))
        else {
            return Ok(Member::Letter('['));
        };
        if !POSIX.contains(&name.trim_start_matches('^')) {
            return Err(format!("[:{name}:] is no class"));
        }
        self.rest = rest;
        Ok(Member::Set(format!("[:{name}:]")))
    }
}

/// Writes a letter so that it stands for itself, in classes and outside.
fn push_letter(out: &mut String, letter: char) {
    match letter.is_ascii_alphanumeric() || letter == '_' || !letter.is_ascii() && letter.is_alphanumeric() {
        true => out.push(letter),
        // Writing into a String cannot fail.
        false => drop(write!(out, "\\x{{{:X}}}", u32::from(letter))),
    }
}

fn numbered(digits: &str, radix: u32) -> Result<char, String> {
    let number = u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    number.ok_or_else(|| format!("'{digits}' is the number of no letter"))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

/// `n`, `n,` or `n,m`.
fn is_count(text: &str) -> bool {
    let is_number =
        |digits: &str| !digits.is_empty() && digits.len() < 6 && digits.bytes().all(|digit| digit.is_ascii_digit());
    match text.split_once(',') {
        Some((least, most)) => is_number(least) && (most.is_empty() || is_number(most)),
        None => is_number(text),
    }
}
