//! From text to tree, by recursive descent; each step down is counted.
//!
//! From loose to tight: OR, AND, NOT, comparisons, `+ -`, `* / %`, signs. Types are checked as far
//! as the text says them. So `price = 'cheap' + 1` is refused when it is written, and not silently
//! false for ever.

use crate::error::ParseError;
use crate::node::{Kind, Node};
use crate::pattern::Pattern;
use crate::token::{Keyword, Lexer, Sign, Token};
use crate::value::{Comparison, Operation};
use crate::{MAX_DEPTH, MAX_PATTERN, MAX_TOKENS};

/// Parses `text` from the byte `start` on.
pub(crate) fn parse(text: &str, start: usize) -> Result<Node, ParseError> {
    let mut parser = Parser { text, lexer: Lexer::new(text, start), token: Token::End, at: start, tokens: 0, depth: 0 };
    parser.advance()?;
    let root = parser.any()?;
    if parser.token != Token::End {
        return parser.unexpected("AND, OR or the end of the selector");
    }
    if !root.kind().may_be(Kind::Bool) {
        let reason = format!("the selector is {} and no condition; compare it with something", root.kind().name());
        return Err(ParseError::new(text, start, reason));
    }
    Ok(root)
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The next token, and the byte at which it begins.
    token: Token,
    at: usize,
    tokens: usize,
    depth: usize,
}

type Parsed = Result<Node, ParseError>;

impl Parser<'_> {
    fn advance(&mut self) -> Result<Token, ParseError> {
        let (next, at) = self.lexer.next()?;
        self.tokens += 1;
        if self.tokens > MAX_TOKENS {
            let reason = format!("the selector has more than {MAX_TOKENS} words and signs; use several consumers");
            return Err(ParseError::new(self.text, at, reason));
        }
        self.at = at;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn error<T>(&self, at: usize, reason: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::new(self.text, at, reason))
    }

    /// The next token is not what may stand here.
    fn unexpected<T>(&self, expected: &str) -> Result<T, ParseError> {
        let found = match &self.token {
            Token::End => "the selector ends".to_owned(),
            Token::Keyword(Keyword::Null) => "found NULL, which only stands after IS or IS NOT".to_owned(),
            Token::Keyword(keyword) => format!("found {}", format!("{keyword:?}").to_uppercase()),
            Token::Identifier(name) => format!("found the name {name}"),
            Token::Text(text) => format!("found the text '{text}'"),
            Token::Int(_) | Token::Float(_) => "found a number".to_owned(),
            Token::Sign(_) => {
                format!("found '{}'", self.text[self.at..].chars().next().unwrap_or_default())
            }
        };
        self.error(self.at, format!("{found}; expected {expected}"))
    }

    fn take(&mut self, wanted: &Token) -> Result<bool, ParseError> {
        let found = self.token == *wanted;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn keyword(&mut self, wanted: Keyword) -> Result<bool, ParseError> {
        self.take(&Token::Keyword(wanted))
    }

    fn expect_sign(&mut self, wanted: Sign, expected: &str) -> Result<(), ParseError> {
        if self.take(&Token::Sign(wanted))? { Ok(()) } else { self.unexpected(expected) }
    }

    /// Runs `inner` one step further down.
    fn deeper(&mut self, inner: fn(&mut Self) -> Parsed) -> Parsed {
        if self.depth == MAX_DEPTH {
            return self.error(
                self.at,
                format!("the selector nests deeper than {MAX_DEPTH}; write it with fewer parentheses"),
            );
        }
        self.depth += 1;
        let node = inner(self);
        self.depth -= 1;
        node
    }

    fn any(&mut self) -> Parsed {
        self.row(Keyword::Or, Self::all, Node::Any)
    }

    fn all(&mut self) -> Parsed {
        self.row(Keyword::And, Self::not, Node::All)
    }

    /// Conditions joined by a keyword.
    fn row(&mut self, joint: Keyword, inner: fn(&mut Self) -> Parsed, join: fn(Vec<Node>) -> Node) -> Parsed {
        let start = self.at;
        let first = inner(self)?;
        if self.token != Token::Keyword(joint) {
            return Ok(first);
        }
        let mut nodes = vec![self.checked(first, Kind::Bool, start)?];
        while self.keyword(joint)? {
            let start = self.at;
            let node = inner(self)?;
            nodes.push(self.checked(node, Kind::Bool, start)?);
        }
        Ok(join(nodes))
    }

    /// Refuses a part, which begins at `start`, that can't be of this kind.
    fn checked(&self, node: Node, wanted: Kind, start: usize) -> Parsed {
        let kind = node.kind();
        if kind.may_be(wanted) {
            return Ok(node);
        }
        self.error(start, format!("{} stands where {} must", kind.name(), wanted.name()))
    }

    fn not(&mut self) -> Parsed {
        if !self.keyword(Keyword::Not)? {
            return self.comparison();
        }
        let start = self.at;
        let inner = self.deeper(Self::not)?;
        Ok(Node::Not(Box::new(self.checked(inner, Kind::Bool, start)?)))
    }

    fn comparison(&mut self) -> Parsed {
        let start = self.at;
        let left = self.sum()?;
        if let Some(comparison) = self.comparison_sign() {
            self.advance()?;
            let node = self.compare(comparison, left, start)?;
            if self.comparison_sign().is_some() {
                return self.error(self.at, "comparisons cannot follow each other; put one in parentheses or use AND");
            }
            return Ok(node);
        }
        if self.keyword(Keyword::Is)? {
            let negated = self.keyword(Keyword::Not)?;
            if !self.keyword(Keyword::Null)? {
                return self.unexpected("NULL");
            }
            let property = self.property(left, start, "IS NULL")?;
            let node = Node::IsNull { property };
            return Ok(if negated { not(node) } else { node });
        }
        let negated = self.keyword(Keyword::Not)?;
        let node = match self.token {
            Token::Keyword(Keyword::Between) => self.between(left, start)?,
            Token::Keyword(Keyword::In) => self.list(left, start)?,
            Token::Keyword(Keyword::Like) => self.like(left, start)?,
            _ if negated => return self.unexpected("BETWEEN, IN or LIKE after NOT"),
            _ => return Ok(left),
        };
        Ok(if negated { not(node) } else { node })
    }

    fn comparison_sign(&self) -> Option<Comparison> {
        match self.token {
            Token::Sign(Sign::Equal) => Some(Comparison::Equal),
            Token::Sign(Sign::Unequal) => Some(Comparison::Unequal),
            Token::Sign(Sign::Less) => Some(Comparison::Less),
            Token::Sign(Sign::LessOrEqual) => Some(Comparison::LessOrEqual),
            Token::Sign(Sign::Greater) => Some(Comparison::Greater),
            Token::Sign(Sign::GreaterOrEqual) => Some(Comparison::GreaterOrEqual),
            _ => None,
        }
    }

    fn compare(&mut self, comparison: Comparison, left: Node, start: usize) -> Parsed {
        let right_start = self.at;
        let right = self.sum()?;
        if comparison.orders() {
            for (node, at) in [(&left, start), (&right, right_start)] {
                if !node.kind().may_be(Kind::Number) {
                    let reason =
                        format!("only numbers are less or greater; {} is compared by = or <>", node.kind().name());
                    return self.error(at, reason);
                }
            }
        }
        if !left.kind().may_be(right.kind()) {
            let (one, other) = (left.kind().name(), right.kind().name());
            let calculates = [&left, &right].iter().any(|node| matches!(node, Node::Calculate { .. }));
            let advice = if calculates { "; a name with a hyphen in it is written in double quotes" } else { "" };
            return self.error(start, format!("{one} is compared with {other}, which is never true{advice}"));
        }
        Ok(Node::Compare { comparison, left: Box::new(left), right: Box::new(right) })
    }

    /// The name of the property that has to stand in front of `what`.
    fn property(&self, node: Node, start: usize, what: &str) -> Result<Box<str>, ParseError> {
        match node {
            Node::Property(name) => Ok(name),
            _ => self.error(start, format!("{what} asks about a property: write its name here")),
        }
    }

    fn between(&mut self, value: Node, start: usize) -> Parsed {
        let value = self.checked(value, Kind::Number, start)?;
        self.advance()?;
        let low_start = self.at;
        let low = self.sum()?;
        let low = self.checked(low, Kind::Number, low_start)?;
        if !self.keyword(Keyword::And)? {
            return self.unexpected("AND and the upper bound of BETWEEN");
        }
        let high_start = self.at;
        let high = self.sum()?;
        let high = self.checked(high, Kind::Number, high_start)?;
        Ok(Node::Between { value: Box::new(value), low: Box::new(low), high: Box::new(high) })
    }

    fn list(&mut self, value: Node, start: usize) -> Parsed {
        let property = self.property(value, start, "IN")?;
        self.advance()?;
        self.expect_sign(Sign::Open, "a list of texts in parentheses after IN")?;
        let mut texts = Vec::new();
        loop {
            texts.push(self.literal_text("a text in single quotes: IN compares texts only")?);
            if !self.take(&Token::Sign(Sign::Comma))? {
                break;
            }
        }
        self.expect_sign(Sign::Close, "a comma or the closing parenthesis of the list")?;
        texts.sort_unstable();
        texts.dedup();
        Ok(Node::In { property, texts })
    }

    fn like(&mut self, value: Node, start: usize) -> Parsed {
        let property = self.property(value, start, "LIKE")?;
        self.advance()?;
        let at = self.at;
        let pattern = self.literal_text("a pattern in single quotes after LIKE")?;
        if pattern.chars().count() > MAX_PATTERN {
            return self.error(at, format!("the pattern has more than {MAX_PATTERN} characters"));
        }
        let mut escape = None;
        if self.keyword(Keyword::Escape)? {
            let at = self.at;
            let text = self.literal_text("the escape character in single quotes")?;
            let mut chars = text.chars();
            escape = chars.next();
            if escape.is_none() || chars.next().is_some() {
                return self.error(at, "ESCAPE takes exactly one character in single quotes");
            }
        }
        Ok(Node::Like { property, pattern: Box::new(Pattern::new(&pattern, escape)) })
    }

    fn literal_text(&mut self, expected: &str) -> Result<Box<str>, ParseError> {
        match self.token {
            Token::Text(_) => match self.advance()? {
                Token::Text(text) => Ok(text),
                _ => self.unexpected(expected),
            },
            _ => self.unexpected(expected),
        }
    }

    fn sum(&mut self) -> Parsed {
        self.calculation(Self::product, |sign| match sign {
            Sign::Plus => Some(Operation::Add),
            Sign::Minus => Some(Operation::Subtract),
            _ => None,
        })
    }

    fn product(&mut self) -> Parsed {
        self.calculation(Self::signed, |sign| match sign {
            Sign::Times => Some(Operation::Multiply),
            Sign::Divide => Some(Operation::Divide),
            Sign::Remainder => Some(Operation::Remainder),
            _ => None,
        })
    }

    /// Operands joined by operations of one rank.
    fn calculation(&mut self, inner: fn(&mut Self) -> Parsed, operation: fn(Sign) -> Option<Operation>) -> Parsed {
        let start = self.at;
        let mut node = inner(self)?;
        while let Token::Sign(sign) = self.token {
            let Some(operation) = operation(sign) else { break };
            self.advance()?;
            let right_start = self.at;
            let right = inner(self)?;
            let wanted = match (operation, node.kind(), right.kind()) {
                (Operation::Add, Kind::Text, _) | (Operation::Add, _, Kind::Text) => Kind::Text,
                (Operation::Add, Kind::Open, Kind::Open) => Kind::Open,
                _ => Kind::Number,
            };
            let left = self.operand(node, wanted, start)?;
            let right = self.operand(right, wanted, right_start)?;
            node = match left {
                // From left to right is what a row of operations means anyway.
                Node::Calculate { first, mut rest } => {
                    rest.push((operation, right));
                    Node::Calculate { first, rest }
                }
                first => Node::Calculate { first: Box::new(first), rest: vec![(operation, right)] },
            };
        }
        Ok(node)
    }

    /// Conditions are no operands, even of `+`.
    fn operand(&self, node: Node, wanted: Kind, start: usize) -> Parsed {
        let wanted = if node.kind() == Kind::Bool { Kind::Number } else { wanted };
        self.checked(node, wanted, start)
    }

    fn signed(&mut self) -> Parsed {
        let sign = self.at;
        match self.token {
            Token::Sign(Sign::Plus) => {
                self.advance()?;
                let start = self.at;
                let inner = self.deeper(Self::signed)?;
                self.checked(inner, Kind::Number, start)
            }
            Token::Sign(Sign::Minus) => {
                self.advance()?;
                let start = self.at;
                if let Token::Int(magnitude) = self.token {
                    self.advance()?;
                    return self.literal_integer(-i128::from(magnitude), sign);
                }
                let inner = self.deeper(Self::signed)?;
                Ok(Node::Negate(Box::new(self.checked(inner, Kind::Number, start)?)))
            }
            _ => self.primary(),
        }
    }

    fn literal_integer(&self, number: i128, at: usize) -> Parsed {
        match i64::try_from(number) {
            Ok(number) => Ok(Node::Int(number)),
            Err(_) => self.error(at, format!("{number} is no number of 64 bits; write it with a decimal point")),
        }
    }

    fn primary(&mut self) -> Parsed {
        let start = self.at;
        if self.take(&Token::Sign(Sign::Open))? {
            let inner = self.deeper(Self::any)?;
            self.expect_sign(Sign::Close, "the closing parenthesis")?;
            return Ok(inner);
        }
        if !matches!(
            self.token,
            Token::Identifier(_)
                | Token::Text(_)
                | Token::Int(_)
                | Token::Float(_)
                | Token::Keyword(Keyword::True | Keyword::False)
        ) {
            return self.unexpected("a property's name, a literal or an opening parenthesis");
        }
        match self.advance()? {
            Token::Identifier(name) => Ok(Node::Property(name)),
            Token::Text(text) => Ok(Node::Text(text)),
            Token::Int(magnitude) => self.literal_integer(magnitude.into(), start),
            Token::Float(number) => Ok(Node::Float(number)),
            other => Ok(Node::Bool(other == Token::Keyword(Keyword::True))),
        }
    }
}

fn not(node: Node) -> Node {
    Node::Not(Box::new(node))
}
