//! Erlang terms: the old `rabbitmq.config`, `advanced.config` and `enabled_plugins`. They are read
//! as data, with a bound on their depth, and unfolded to the keys of `rabbitmq.conf`.

use super::Entry;
use crate::source::{Refusal, Source};

/// Lists within lists; real files have some six.
const DEEPEST: usize = 32;

/// A term, with its line.
#[derive(Debug, Clone, PartialEq)]
struct Term {
    line: usize,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// An atom, a number or a text.
    Word(String),
    List(Vec<Term>),
    Tuple(Vec<Term>),
}

/// Reads a file.
pub(crate) fn read(file: &Source) -> Result<Vec<Entry>, Refusal> {
    let mut parser = Parser { file, rest: file.text.as_str(), line: 1, escapes: Vec::new() };
    let term = parser.term(0)?;
    parser.blank();
    if let Some(rest) = parser.rest.strip_prefix('.') {
        parser.rest = rest;
        parser.blank();
    } else {
        return Err(parser.wrong("expected the dot that ends the terms"));
    }
    if !parser.rest.is_empty() {
        return Err(parser.wrong("nothing may stand behind the dot that ends the terms"));
    }
    let mut entries = Vec::new();
    for line in parser.escapes {
        push(&mut entries, line, "cut.backslash", "");
    }
    let Kind::List(applications) = term.kind else {
        return Err(Refusal::at(file, term.line, "expected a list of applications: [{rabbit, […]}]."));
    };
    for application in applications {
        match application.kind {
            Kind::Word(plugin) => push(&mut entries, application.line, &format!("plugin.{plugin}"), "true"),
            Kind::Tuple(pair) => match <[Term; 2]>::try_from(pair) {
                Ok([name, settings]) => unfold_application(&word(&name), &settings, &mut entries),
                Err(_) => return Err(Refusal::at(file, application.line, "expected {APPLICATION, [SETTINGS]}")),
            },
            Kind::List(_) => return Err(Refusal::at(file, application.line, "expected {APPLICATION, [SETTINGS]}")),
        }
    }
    Ok(entries)
}

struct Parser<'a> {
    file: &'a Source,
    rest: &'a str,
    line: usize,
    /// Lines where a backslash in a text is an escape, and looks like one of a path.
    escapes: Vec<usize>,
}

impl Parser<'_> {
    fn wrong(&self, text: &str) -> Refusal {
        Refusal::at(self.file, self.line, text)
    }

    /// Goes over spaces, line ends and comments.
    fn blank(&mut self) {
        loop {
            let trimmed = self.rest.trim_start();
            self.pass(self.rest.len() - trimmed.len());
            if !trimmed.starts_with('%') {
                return;
            }
            self.pass(trimmed.find('\n').unwrap_or(trimmed.len()));
        }
    }

    fn pass(&mut self, bytes: usize) {
        self.line += self.rest[..bytes].matches('\n').count();
        self.rest = &self.rest[bytes..];
    }

    fn eat(&mut self, text: &str) -> bool {
        self.blank();
        let found = self.rest.starts_with(text);
        if found {
            self.pass(text.len());
        }
        found
    }

    fn term(&mut self, depth: usize) -> Result<Term, Refusal> {
        if depth > DEEPEST {
            return Err(self.wrong("lists are nested too deeply for a configuration"));
        }
        self.blank();
        let line = self.line;
        let kind = if self.eat("#{") {
            Kind::List(self.pairs(depth)?)
        } else if self.eat("<<") {
            let text = self.term(depth + 1)?;
            if !self.eat(">>") {
                return Err(self.wrong("expected >>"));
            }
            text.kind
        } else if self.eat("[") {
            Kind::List(self.items("]", depth)?)
        } else if self.eat("{") {
            Kind::Tuple(self.items("}", depth)?)
        } else if self.eat("\"") {
            Kind::Word(self.quoted('"')?)
        } else if self.eat("'") {
            Kind::Word(self.quoted('\'')?)
        } else {
            Kind::Word(self.bare()?)
        };
        Ok(Term { line, kind })
    }

    fn items(&mut self, end: &str, depth: usize) -> Result<Vec<Term>, Refusal> {
        let mut items = Vec::new();
        if self.eat(end) {
            return Ok(items);
        }
        loop {
            items.push(self.term(depth + 1)?);
            if self.eat(end) {
                return Ok(items);
            }
            if !self.eat(",") {
                return Err(self.wrong(&format!("expected a comma or {end}")));
            }
        }
    }

    /// The pairs of a map, as tuples.
    fn pairs(&mut self, depth: usize) -> Result<Vec<Term>, Refusal> {
        let mut pairs = Vec::new();
        if self.eat("}") {
            return Ok(pairs);
        }
        loop {
            let key = self.term(depth + 1)?;
            if !self.eat("=>") {
                return Err(self.wrong("expected =>"));
            }
            let value = self.term(depth + 1)?;
            pairs.push(Term { line: key.line, kind: Kind::Tuple(vec![key, value]) });
            if self.eat("}") {
                return Ok(pairs);
            }
            if !self.eat(",") {
                return Err(self.wrong("expected a comma or }"));
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, Refusal> {
        let mut text = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            if letter == quote {
                self.pass(at + 1);
                return Ok(text);
            }
            if letter != '\\' {
                text.push(letter);
                continue;
            }
            self.escapes.push(self.line);
            match letters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, other)) => text.push(other),
                None => break,
            }
        }
        Err(self.wrong(&format!("the {quote} that ends it is missing")))
    }

    fn bare(&mut self) -> Result<String, Refusal> {
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '@' | '-' | '+');
        let mut end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let is_number = word.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        if is_number && let Some(after) = rest.strip_prefix('.') {
            let digits = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
            if digits > 0 {
                end += 1 + digits;
            }
        }
        if end == 0 {
            return Err(self.wrong("expected a term of Erlang: a list, a tuple, a word, a number or a text"));
        }
        let word = self.rest[..end].to_owned();
        self.pass(end);
        Ok(word)
    }
}

/// A term as the value of a key.
fn word(term: &Term) -> String {
    match &term.kind {
        Kind::Word(word) => word.clone(),
        Kind::List(items) | Kind::Tuple(items) => items.iter().map(word).collect::<Vec<_>>().join(":"),
    }
}

fn push(entries: &mut Vec<Entry>, line: usize, key: &str, value: &str) {
    entries.push(Entry { line, key: key.to_owned(), value: value.to_owned() });
}

/// The name that a key of the old form has now.
pub(super) fn new_name(key: &str) -> String {
    match key {
        "disk_free_limit" => "disk_free_limit.absolute",
        "vm_memory_high_watermark" => "vm_memory_high_watermark.relative",
        "load_definitions" => "load_definitions",
        other => other,
    }
    .to_owned()
}

/// The settings of one application under the prefix that they have in `rabbitmq.conf`.
fn unfold_application(application: &str, settings: &Term, entries: &mut Vec<Entry>) {
    let prefix = match application {
        "rabbit" => "",
        "rabbitmq_management" => "management.",
        "rabbitmq_management_agent" => "management_agent.",
        "rabbitmq_mqtt" => "mqtt.",
        "rabbitmq_stomp" => "stomp.",
        "rabbitmq_web_stomp" => "web_stomp.",
        "rabbitmq_web_mqtt" => "web_mqtt.",
        "rabbitmq_amqp1_0" => "amqp1_0.",
        "rabbitmq_prometheus" => "prometheus.",
        "rabbitmq_auth_backend_http" => "auth_http.",
        "rabbitmq_auth_backend_ldap" => "auth_ldap.",
        "rabbitmq_auth_backend_oauth2" => "auth_oauth2.",
        "rabbitmq_auth_backend_cache" => "auth_cache.",
        "rabbitmq_shovel" => "shovel.",
        "rabbitmq_federation" => "federation.",
        "rabbitmq_stream" => "stream.",
        "kernel" | "os_mon" | "sasl" | "ssl" | "mnesia" | "ra" | "aten" => "kernel.",
        "autocluster" => "autocluster.",
        other => return push(entries, settings.line, &format!("app.{other}"), ""),
    };
    let Kind::List(settings) = &settings.kind else { return };
    for setting in settings {
        match &setting.kind {
            Kind::Tuple(pair) if pair.len() == 2 => {
                let name = word(&pair[0]);
                unfold(setting.line, &format!("{prefix}{name}"), &pair[1], entries);
            }
            _ => push(entries, setting.line, &format!("{prefix}{}", word(setting)), "true"),
        }
    }
}

/// A setting whose form has changed between the two files.
fn unfold(line: usize, key: &str, value: &Term, entries: &mut Vec<Entry>) {
    let listed = |key: &str, entries: &mut Vec<Entry>| match &value.kind {
        Kind::List(items) if items.is_empty() => push(entries, line, key, "none"),
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                push(entries, item.line, &format!("{key}.{}", index + 1), &word(item));
            }
        }
        _ => push(entries, line, key, &word(value)),
    };
    let items = match &value.kind {
        Kind::List(items) | Kind::Tuple(items) => items.as_slice(),
        Kind::Word(_) => &[],
    };
    match key {
        "tcp_listeners" => listed("listeners.tcp", entries),
        "ssl_listeners" => listed("listeners.ssl", entries),
        "mqtt.tcp_listeners" => listed("mqtt.listeners.tcp", entries),
        "mqtt.ssl_listeners" => listed("mqtt.listeners.ssl", entries),
        "stomp.tcp_listeners" => listed("stomp.listeners.tcp", entries),
        "stomp.ssl_listeners" => listed("stomp.listeners.ssl", entries),
        "auth_backends" | "auth_mechanisms" | "cluster_nodes" | "auth_ldap.servers" => listed(key, entries),
        "loopback_users" if items.is_empty() => push(entries, line, key, "none"),
        "loopback_users" => {
            items.iter().for_each(|user| push(entries, user.line, &format!("{key}.{}", word(user)), "true"))
        }
        "default_user_tags" => {
            items.iter().for_each(|tag| push(entries, tag.line, &format!("{key}.{}", word(tag)), "true"))
        }
        "default_permissions" => {
            for (name, item) in ["configure", "write", "read"].iter().zip(items) {
                push(entries, item.line, &format!("{key}.{name}"), &word(item));
            }
        }
        "vm_memory_high_watermark" | "disk_free_limit" => match (items, &value.kind) {
            ([form, amount], Kind::Tuple(_)) => {
                let form = if word(form) == "absolute" { "absolute" } else { "relative" };
                push(entries, line, &format!("{key}.{form}"), &word(amount));
            }
            _ => push(entries, line, &new_name(key), &word(value)),
        },
        "log_levels" => push(entries, line, "log.categories.level", ""),
        "stomp.default_user" => {
            for item in items {
                if let Kind::Tuple(pair) = &item.kind
                    && let [name, value] = pair.as_slice()
                {
                    let name = if word(name) == "passcode" { "stomp.default_pass" } else { "stomp.default_user" };
                    push(entries, item.line, name, &word(value));
                }
            }
        }
        "auth_http.user_path" | "auth_http.vhost_path" | "auth_http.resource_path" | "auth_http.topic_path" => {
            push(entries, line, key, &word(value));
        }
        _ => nested(line, key, value, entries),
    }
}

/// A list of pairs is keys below this one; a list of words is numbered.
fn nested(line: usize, key: &str, value: &Term, entries: &mut Vec<Entry>) {
    let Kind::List(items) = &value.kind else { return push(entries, line, key, &word(value)) };
    let key = key.replace("tcp_config", "tcp").replace("ssl_config", "ssl");
    for (index, item) in items.iter().enumerate() {
        match &item.kind {
            Kind::Tuple(pair) if pair.len() == 2 => {
                unfold(item.line, &format!("{key}.{}", word(&pair[0])), &pair[1], entries);
            }
            _ => push(entries, item.line, &format!("{key}.{}", index + 1), &word(item)),
        }
    }
    if items.is_empty() {
        push(entries, line, &key, "none");
    }
}
