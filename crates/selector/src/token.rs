//! Words, signs and literals of a selector, one after the other.
//!
//! Keywords are known in any case, identifiers are case-sensitive. A number keeps its magnitude:
//! its sign is an operator.

use crate::error::ParseError;

/// What a token says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Keyword(Keyword),
    Identifier(Box<str>),
    Text(Box<str>),
    /// An exact number without its sign.
    Int(u64),
    Float(f64),
    Sign(Sign),
    End,
}

/// The reserved words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    And,
    Or,
    Not,
    Between,
    In,
    Like,
    Escape,
    Is,
    Null,
    True,
    False,
}

const KEYWORDS: [(&str, Keyword); 11] = [
    ("AND", Keyword::And),
    ("OR", Keyword::Or),
    ("NOT", Keyword::Not),
    ("BETWEEN", Keyword::Between),
    ("IN", Keyword::In),
    ("LIKE", Keyword::Like),
    ("ESCAPE", Keyword::Escape),
    ("IS", Keyword::Is),
    ("NULL", Keyword::Null),
    ("TRUE", Keyword::True),
    ("FALSE", Keyword::False),
];

/// Operators and punctuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Times,
    Divide,
    Remainder,
    Open,
    Close,
    Comma,
}

/// Longer ones first.
const SIGNS: [(&str, Sign); 14] = [
    ("<>", Sign::Unequal),
    ("<=", Sign::LessOrEqual),
    (">=", Sign::GreaterOrEqual),
    ("=", Sign::Equal),
    ("<", Sign::Less),
    (">", Sign::Greater),
    ("+", Sign::Plus),
    ("-", Sign::Minus),
    ("*", Sign::Times),
    ("/", Sign::Divide),
    ("%", Sign::Remainder),
    ("(", Sign::Open),
    (")", Sign::Close),
    (",", Sign::Comma),
];

/// A text that is read token by token.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str, start: usize) -> Self {
        Self { text, at: start }
    }

    /// The next token, and the byte at which it begins.
    pub(crate) fn next(&mut self) -> Result<(Token, usize), ParseError> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']).len();
        let start = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok((Token::End, start)) };
        let token = match first {
            '\'' => Token::Text(self.quoted('\'')?),
            '"' => Token::Identifier(self.quoted('"')?),
            _ if first.is_ascii_digit()
                || (first == '.' && rest[1..].starts_with(|next: char| next.is_ascii_digit())) =>
            {
                self.number()?
            }
            _ if starts_word(first) => self.word(),
            _ => Token::Sign(self.sign()?),
        };
        Ok((token, start))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error<T>(&self, at: usize, reason: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::new(self.text, at, reason))
    }

    /// What stands between two `quote`s; a doubled one stands for itself.
    fn quoted(&mut self, quote: char) -> Result<Box<str>, ParseError> {
        let start = self.at;
        let mut content = String::new();
        let mut parts = self.text[start + 1..].split(quote);
        let mut end = start + 1;
        loop {
            let part = parts.next().unwrap_or_default();
            content.push_str(part);
            end += part.len() + 1;
            if end > self.text.len() {
                let what = if quote == '"' { "a quoted name" } else { "a text" };
                return self.error(start, format!("{what} begins here and never ends; close it with {quote}"));
            }
            if !self.text[end..].starts_with(quote) {
                break;
            }
            content.push(quote);
            parts.next();
            end += 1;
        }
        self.at = end;
        if quote == '"' && content.is_empty() {
            return self.error(start, "a quoted name is empty; texts are written in single quotes: ''");
        }
        Ok(content.into())
    }

    /// An identifier or a keyword. A dot joins identifiers, as in `amqp.content_type`.
    fn word(&mut self) -> Token {
        let rest = self.rest();
        let mut end = 0;
        for (at, char) in rest.char_indices() {
            let after = &rest[at + char.len_utf8()..];
            if !(continues_word(char) || (char == '.' && after.starts_with(starts_word))) {
                break;
            }
            end = at + char.len_utf8();
        }
        self.at += end;
        let word = &rest[..end];
        let keyword = KEYWORDS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
        keyword.map_or_else(|| Token::Identifier(word.into()), |(_, keyword)| Token::Keyword(*keyword))
    }

    fn sign(&mut self) -> Result<Sign, ParseError> {
        let rest = self.rest();
        if let Some((text, sign)) = SIGNS.iter().find(|(text, _)| rest.starts_with(text)) {
            self.at += text.len();
            return Ok(*sign);
        }
        let advice = match rest {
            _ if rest.starts_with("!=") => "\"not equal\" is written <>",
            _ if rest.starts_with("==") => "\"equal\" is written =",
            _ if rest.starts_with("&&") => "\"and\" is written AND",
            _ if rest.starts_with("||") => "\"or\" is written OR",
            _ if rest.starts_with(':') => "the only prefix that is known is convert_string_expressions:",
            _ => "a name with other characters than letters, digits, _ and $ is written in double quotes",
        };
        let char = rest.chars().next().unwrap_or_default();
        self.error(self.at, format!("'{char}' has no meaning here; {advice}"))
    }

    /// A number as Java writes it: decimal, hexadecimal, octal, or with a point or an exponent.
    fn number(&mut self) -> Result<Token, ParseError> {
        let start = self.at;
        let rest = self.rest();
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
        let mut end = if hexadecimal {
            2 + rest[2..].len() - rest[2..].trim_start_matches(|c: char| c.is_ascii_hexdigit()).len()
        } else {
            digits(rest)
        };
        let mut exact = true;
        if !hexadecimal && rest[end..].starts_with('.') {
            exact = false;
            end += 1 + digits(&rest[end + 1..]);
        }
        if !hexadecimal && rest[end..].starts_with(['e', 'E']) {
            let signed = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let exponent = digits(&rest[end + 1 + signed..]);
            if exponent > 0 {
                exact = false;
                end += 1 + signed + exponent;
            }
        }
        let number = &rest[..end];
        let suffix = rest[end..].chars().next();
        let long = exact && matches!(suffix, Some('l' | 'L'));
        let double = !hexadecimal && matches!(suffix, Some('f' | 'F' | 'd' | 'D'));
        self.at = start + end + usize::from(long || double);
        if self.rest().starts_with(continues_word) {
            let advice = "a name cannot begin with a digit unless it is written in double quotes";
            return self.error(start, format!("'{number}' runs into a name; {advice}"));
        }
        let parsed = if exact && !double { integer(number).map(Token::Int) } else { float(number).map(Token::Float) };
        parsed.map_or_else(|reason| self.error(start, reason), Ok)
    }
}

fn integer(number: &str) -> Result<u64, String> {
    let (digits, radix) = match number {
        _ if number.len() > 2 && number[..2].eq_ignore_ascii_case("0x") => (&number[2..], 16),
        _ if number.len() > 1 && number.starts_with('0') => (&number[1..], 8),
        _ => (number, 10),
    };
    if radix == 8 && digits.contains(['8', '9']) {
        return Err(format!("'{number}' is octal, as it begins with 0, and has other digits than 0 to 7"));
    }
    u64::from_str_radix(digits, radix).map_err(|_| format!("'{number}' is no number of 64 bits"))
}

fn float(number: &str) -> Result<f64, String> {
    let parsed = number.parse::<f64>().ok().filter(|number| number.is_finite());
    parsed.ok_or_else(|| format!("'{number}' is too large for a number of 64 bits"))
}

fn starts_word(char: char) -> bool {
    char.is_alphabetic() || matches!(char, '_' | '$')
}

fn continues_word(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '$')
}
