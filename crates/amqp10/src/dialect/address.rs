//! Addresses of queues as RabbitMQ writes them: `/queues/` and the name, percent-encoded.
//!
//! Other protocols have the bare name in the same place.

/// What an address of a queue begins with.
const QUEUES: &str = "/queues/";

/// The name of the queue that a reply goes to; an address of another kind stays as it is.
pub(super) fn queue_of(address: &str) -> String {
    match address.strip_prefix(QUEUES).map(decoded) {
        Some(Some(name)) => name,
        _ => address.to_owned(),
    }
}

/// The address of the queue.
pub(crate) fn of_queue(name: &str) -> String {
    format!("{QUEUES}{}", encoded(name))
}

/// With percent-encoding of all that is reserved or not ASCII (RFC 3986, §2).
pub(crate) fn encoded(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Without the percent-encoding (RFC 3986, §2.1). `None` if it is broken, or no UTF-8 comes out.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_and_other_addresses_stay() {
        for name in ["q", "a b/c%", "é", "~-._", ""] {
            assert_eq!(queue_of(&of_queue(name)), name);
        }
        assert_eq!(of_queue("a b/é"), "/queues/a%20b%2F%C3%A9");
        for other in ["q", "/exchanges/x", "/queues/%", "/queues/%4", "/queues/%zz", "/queues/%ff"] {
            assert_eq!(queue_of(other), other);
        }
    }
}
