//! Topics and routing keys, in both directions: levels of MQTT are words of AMQP.
//!
//! Invariant: every topic comes back as it was. `/` becomes `.`; a `.`, `*` or `%` within a level
//! is written `%2E`, `%2A`, `%25`. A character that a key may have and a topic may not, or that
//! separates levels, is shown the same way: `%2F`, `%2B`, `%23`, `%00`.

use std::borrow::Cow;

/// Characters of topics that mean something else in keys, and how keys write them.
const IN_KEYS: [(u8, &str); 3] = [(b'.', "%2E"), (b'*', "%2A"), (b'%', "%25")];
/// Characters of keys that topics cannot have in a level, and how topics write them.
const IN_TOPICS: [(u8, &str); 4] = [(b'/', "%2F"), (b'+', "%2B"), (b'#', "%23"), (0, "%00")];

fn escape_of(table: &[(u8, &'static str)], byte: u8) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == byte).map(|(_, escape)| *escape)
}

/// The character that an escape at the front of `text` stands for.
fn escaped_by(table: &[(u8, &str)], text: &[u8]) -> Option<u8> {
    table.iter().find(|(_, escape)| text.starts_with(escape.as_bytes())).map(|(byte, _)| *byte)
}

/// Appends the routing key of a topic.
pub(crate) fn key_of_topic(topic: &str, key: &mut String) {
    convert(topic, b'/', '.', &IN_KEYS, &IN_TOPICS, key);
}

/// Appends a text as one word of a key. Different texts are different words.
pub(crate) fn word_of(text: &str, key: &mut String) {
    for character in text.chars() {
        match u8::try_from(character).ok().and_then(|byte| escape_of(&IN_KEYS, byte)) {
            Some(escape) => key.push_str(escape),
            None => key.push(character),
        }
    }
}

/// The topic of a routing key.
pub(crate) fn topic_of_key(key: &str) -> Cow<'_, str> {
    let is_plain = !key.bytes().any(|byte| byte == b'.' || byte == b'%' || escape_of(&IN_TOPICS, byte).is_some());
    if is_plain {
        return Cow::Borrowed(key);
    }
    let mut topic = String::with_capacity(key.len());
    convert(key, b'.', '/', &IN_TOPICS, &IN_KEYS, &mut topic);
    Cow::Owned(topic)
}

/// Writes `text` with the other separator. Characters of `escapes` are written as escapes, and the
/// escapes of `unescapes` as their characters.
fn convert(
    text: &str,
    separator: u8,
    other: char,
    escapes: &[(u8, &'static str)],
    unescapes: &[(u8, &str)],
    out: &mut String,
) {
    let bytes = text.as_bytes();
    let (mut copied, mut at) = (0, 0);
    while at < bytes.len() {
        let byte = bytes[at];
        let unescaped = if byte == b'%' { escaped_by(unescapes, &bytes[at..]) } else { None };
        let escape = escape_of(escapes, byte);
        if byte != separator && unescaped.is_none() && escape.is_none() {
            at += 1;
            continue;
        }
        out.push_str(&text[copied..at]);
        match (unescaped, escape) {
            (Some(byte), _) => {
                out.push(char::from(byte));
                at += 3;
            }
            (None, Some(escape)) if byte != separator => {
                out.push_str(escape);
                at += 1;
            }
            _ => {
                out.push(other);
                at += 1;
            }
        }
        copied = at;
    }
    out.push_str(&text[copied..]);
}

/// Appends the binding key of a filter.
pub(crate) fn key_of_filter(filter: &str, key: &mut String) {
    for (at, level) in filter.split('/').enumerate() {
        if at > 0 {
            key.push('.');
        }
        match level {
            "+" => key.push('*'),
            "#" => key.push('#'),
            _ => key_of_topic(level, key),
        }
    }
}

/// The filter of a binding key that [`key_of_filter`] has made.
pub(crate) fn filter_of_key(key: &str) -> String {
    let mut filter = String::with_capacity(key.len());
    for (at, word) in key.split('.').enumerate() {
        if at > 0 {
            filter.push('/');
        }
        match word {
            "*" => filter.push('+'),
            "#" => filter.push('#'),
            _ => filter.push_str(&topic_of_key(word)),
        }
    }
    filter
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(topic: &str) -> String {
        let mut key = String::new();
        key_of_topic(topic, &mut key);
        key
    }

    #[test]
    fn levels_become_words() {
        for (topic, expected) in [
            ("a/b/c", "a.b.c"),
            ("/a", ".a"),
            ("a//", "a.."),
            ("a.b/c", "a%2Eb.c"),
            ("100%/*", "100%25.%2A"),
            ("a%2Eb", "a%252Eb"),
            ("a%2Fb", "a/b"),
            ("$SYS/\u{e9}", "$SYS.\u{e9}"),
        ] {
            assert_eq!(key(topic), expected);
            assert_eq!(topic_of_key(expected), topic);
        }
        for (key, topic) in [("a/b.c", "a%2Fb/c"), ("x+#", "x%2B%23"), ("a%b", "a%b"), ("\0", "%00")] {
            assert_eq!(topic_of_key(key), topic);
        }
    }

    #[test]
    fn wildcards_of_filters_become_those_of_bindings() {
        for (filter, expected) in
            [("#", "#"), ("+/a.b/#", "*.a%2Eb.#"), ("*/+", "%2A.*"), ("sport/#", "sport.#"), ("+", "*")]
        {
            let mut key = String::new();
            key_of_filter(filter, &mut key);
            assert_eq!(key, expected);
            assert_eq!(filter_of_key(&key), filter);
        }
    }

    proptest! {
        #[test]
        fn every_topic_comes_back(topic in "[ab/.*%02EFAB5\u{e9}]{1,20}") {
            let key = key(&topic);
            prop_assert_eq!(topic_of_key(&key), topic);
        }
    }
}
