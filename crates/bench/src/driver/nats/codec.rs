//! NATS on the wire: lines of text, and bodies behind the lines that announce them. Decoding takes
//! what is whole and waits for the rest; what is no NATS is an error.

use bench_record::failure::{Context, Failure};

/// The longest line: a server's INFO lists the addresses of its cluster.
const LONGEST_LINE: usize = 64 * 1024;
/// What headers begin with; a status may follow.
const HEADER: &[u8] = b"NATS/1.0";
const END: &[u8] = b"\r\n";

/// Something that a server says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// What it can do, as JSON.
    Info(&'a [u8]),
    Message(Message<'a>),
    Ping,
    Pong,
    Fine,
    /// Why it will close the connection, or refuses something.
    Refusal(&'a str),
}

/// A message of one of this connection's subscriptions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) subject: &'a str,
    /// The number that the subscription was given.
    pub(super) subscription: u64,
    pub(super) reply: &'a str,
    /// A server's own message instead of a publisher's.
    pub(super) status: Option<u16>,
    pub(super) body: &'a [u8],
}

/// What is whole at the front of `input`, and its length.
pub(super) fn decode(input: &[u8]) -> Result<Option<(Said<'_>, usize)>, Failure> {
    let Some(length) = input.windows(END.len()).take(LONGEST_LINE).position(|two| two == END) else {
        if input.len() > LONGEST_LINE {
            return Err(Failure::new("the server sent a line without an end; does it speak NATS?"));
        }
        return Ok(None);
    };
    let line = std::str::from_utf8(&input[..length]).context("a line from the server")?;
    let behind = length + END.len();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let said = match word {
        "MSG" | "HMSG" => return message(word, rest, &input[behind..], behind),
        "INFO" => Said::Info(rest.trim().as_bytes()),
        "PING" => Said::Ping,
        "PONG" => Said::Pong,
        "+OK" => Said::Fine,
        "-ERR" => Said::Refusal(rest.trim().trim_matches('\'')),
        _ => return Err(Failure::new(format!("the server said {word:?}; does it speak NATS?"))),
    };
    Ok(Some((said, behind)))
}

/// Behind `word`, MSG or HMSG: `SUBJECT SUBSCRIPTION [REPLY] [HEADERS' LENGTH] LENGTH`, and in
/// `rest` what it announces.
fn message<'a>(word: &str, line: &'a str, rest: &'a [u8], behind: usize) -> Result<Option<(Said<'a>, usize)>, Failure> {
    let broken = || Failure::new(format!("the server announced a message by {line:?}"));
    let number = |text: &str| text.parse::<usize>().map_err(|_| broken());
    let words: Vec<&str> = line.split_whitespace().collect();
    let (subject, subscription, reply, headers, total) = match (word == "HMSG", words.as_slice()) {
        (false, [subject, id, total]) => (subject, id, "", 0, number(total)?),
        (false, [subject, id, reply, total]) => (subject, id, *reply, 0, number(total)?),
        (true, [subject, id, headers, total]) => (subject, id, "", number(headers)?, number(total)?),
        (true, [subject, id, reply, headers, total]) => (subject, id, *reply, number(headers)?, number(total)?),
        _ => return Err(broken()),
    };
    let whole = total.checked_add(END.len()).ok_or_else(broken)?;
    if rest.len() < whole {
        return Ok(None);
    }
    if headers > total || !rest[total..].starts_with(END) {
        return Err(broken());
    }
    let message = Message {
        subject,
        subscription: subscription.parse().map_err(|_| broken())?,
        reply,
        status: status(&rest[..headers]),
        body: &rest[headers..total],
    };
    Ok(Some((Said::Message(message), behind + whole)))
}

/// The status in the first line of headers: `NATS/1.0 503 No Responders`.
fn status(headers: &[u8]) -> Option<u16> {
    let rest = headers.strip_prefix(HEADER)?.strip_prefix(b" ")?;
    std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok()
}

/// Appends a publish of `body` to `subject`, to be answered at `reply` unless that is empty.
pub(super) fn publish(subject: &str, reply: &str, body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"PUB ");
    out.extend_from_slice(subject.as_bytes());
    out.push(b' ');
    if !reply.is_empty() {
        out.extend_from_slice(reply.as_bytes());
        out.push(b' ');
    }
    number(body.len() as u64, out);
    out.extend_from_slice(END);
    out.extend_from_slice(body);
    out.extend_from_slice(END);
}

/// Appends a subscription with the number `id`; those of one `group` share the messages.
pub(super) fn subscribe(subject: &str, group: Option<&str>, id: u64, out: &mut Vec<u8>) {
    let group = group.map_or_else(String::new, |group| format!("{group} "));
    out.extend_from_slice(format!("SUB {subject} {group}{id}\r\n").as_bytes());
}

/// Appends a number as decimal digits.
pub(super) fn number(mut value: u64, out: &mut Vec<u8>) {
    let (mut digits, mut at) = ([0; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain<'a>(subject: &'a str, subscription: u64, reply: &'a str, body: &'a [u8]) -> Message<'a> {
        Message { subject, subscription, reply, status: None, body }
    }

    /// What a server sends, and what it means.
    fn vectors() -> Vec<(&'static [u8], Said<'static>)> {
        let refused = Message { status: Some(503), ..plain("in.1", 2, "", b"") };
        vec![
            (b"INFO {\"a\":1} \r\n", Said::Info(b"{\"a\":1}")),
            (b"MSG a.b 7 5\r\nhello\r\n", Said::Message(plain("a.b", 7, "", b"hello"))),
            (b"MSG a 1 r.1 4\r\n\r\n\r\n\r\n", Said::Message(plain("a", 1, "r.1", b"\r\n\r\n"))),
            (b"MSG a 1 0\r\n\r\n", Said::Message(plain("a", 1, "", b""))),
            (b"HMSG a 1 r 17 19\r\nNATS/1.0\r\nA:b\r\n\r\nhi\r\n", Said::Message(plain("a", 1, "r", b"hi"))),
            (b"HMSG in.1 2 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", Said::Message(refused)),
            (b"PING\r\n", Said::Ping),
            (b"PONG\r\n", Said::Pong),
            (b"+OK\r\n", Said::Fine),
            (b"-ERR 'Slow Consumer'\r\n", Said::Refusal("Slow Consumer")),
        ]
    }

    #[test]
    fn whole_ones_are_understood_and_cut_ones_are_waited_for() {
        for (bytes, said) in vectors() {
            assert_eq!(decode(bytes).unwrap(), Some((said, bytes.len())));
            (0..bytes.len()).for_each(|cut| assert_eq!(decode(&bytes[..cut]).unwrap(), None, "{cut} of {bytes:?}"));
        }
    }

    #[test]
    fn what_is_no_nats_is_refused() {
        let cases: [&[u8]; 7] = [
            b"HTTP/1.1 400 Bad\r\n",
            b"MSG a\r\n",
            b"MSG a x 1\r\nh\r\n",
            b"MSG a 1 -1\r\n",
            b"MSG a 1 99999999999999999999\r\n",
            b"MSG a 1 1\r\nhello\r\n",
            b"HMSG a 1 9 3\r\nabc\r\n",
        ];
        for bytes in cases {
            assert!(decode(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(decode(&vec![b'x'; LONGEST_LINE + 2]).is_err());
    }

    #[test]
    fn what_is_sent_is_what_the_protocol_says() {
        let mut out = Vec::new();
        publish("a.b", "", b"hi", &mut out);
        publish("a", "r.1", b"", &mut out);
        subscribe("a", None, 1, &mut out);
        subscribe("a", Some("g"), 20, &mut out);
        assert_eq!(out, b"PUB a.b 2\r\nhi\r\nPUB a r.1 0\r\n\r\nSUB a 1\r\nSUB a g 20\r\n");
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }

        #[test]
        fn numbers_are_written_as_numbers(value: u64) {
            let mut out = Vec::new();
            number(value, &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }
}
