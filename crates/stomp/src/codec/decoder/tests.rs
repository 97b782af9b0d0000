//! The decoder's tables: each stream of bytes is fed whole, split at every offset, and byte by
//! byte. All must give the same result.

use proptest::prelude::*;

use super::*;
use crate::codec::FrameWriter;

/// What a test compares: command, headers, body.
type Plain = (Command, Vec<(String, String)>, Vec<u8>);

fn plain(frame: &Frame<'_>) -> Plain {
    let headers = frame.headers.iter().map(|(n, v)| (n.into_owned(), v.into_owned())).collect();
    (frame.command, headers, frame.body.as_slice().to_vec())
}

/// Feeds `pieces` as a driver does: unused bytes come again. Returns the frames and the unused
/// rest.
fn feed(version: Version, limits: Limits, pieces: &[&[u8]]) -> (Vec<Plain>, Result<usize, FrameError>) {
    let mut decoder = Decoder::new(limits);
    decoder.set_version(version);
    let mut frames = Vec::new();
    let mut buffer: Vec<u8> = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let decoded = match decoder.decode(&buffer) {
                Ok(decoded) => decoded,
                Err(error) => return (frames, Err(error)),
            };
            let complete = decoded.frame.as_ref().map(plain);
            let consumed = decoded.consumed;
            buffer.drain(..consumed);
            match complete {
                Some(frame) => frames.push(frame),
                None => break,
            }
        }
    }
    (frames, Ok(buffer.len()))
}

/// Feeds the bytes whole, split in two at every offset, and byte by byte; all must agree.
fn feed_every_way(version: Version, limits: Limits, bytes: &[u8]) -> (Vec<Plain>, Result<usize, FrameError>) {
    let whole = feed(version, limits, &[bytes]);
    for cut in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        assert_eq!(feed(version, limits, &[head, tail]), whole, "cut at {cut}");
    }
    let singles: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(feed(version, limits, &singles), whole, "byte by byte");
    whole
}

fn frame(command: Command, headers: &[(&str, &str)], body: &[u8]) -> Plain {
    let headers = headers.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    (command, headers, body.to_vec())
}

#[test]
fn streams_of_valid_frames() {
    use Command::*;
    use Version::*;
    let table: &[(Version, &[u8], Vec<Plain>, usize)] = &[
        (V1_2, b"", vec![], 0),
        (V1_2, b"\n\r\n\n", vec![], 0),
        (V1_2, b"SEND\n\n\0", vec![frame(Send, &[], b"")], 0),
        (V1_2, b"\n\nSEND\na:b\n\nhi\0\n\n", vec![frame(Send, &[("a", "b")], b"hi")], 0),
        (
            V1_2,
            b"\0\nSEND\n\nx\0\0\nACK\nid:1\n\n\0\0",
            vec![frame(Send, &[], b"x"), frame(Ack, &[("id", "1")], b"")],
            0,
        ),
        (V1_2, b"SEND\r\na:b\r\n\r\nhi\0\r\n", vec![frame(Send, &[("a", "b")], b"hi")], 0),
        (V1_0, b"SEND\r\na: b\r\n\r\nhi\0", vec![frame(Send, &[("a", "b")], b"hi")], 0),
        (
            V1_2,
            b"SEND\ncontent-length:3\n\na\0b\0ACK\nid:1\n\n\0",
            vec![frame(Send, &[("content-length", "3")], b"a\0b"), frame(Ack, &[("id", "1")], b"")],
            0,
        ),
        (V1_2, b"SEND\na:1\nb:2\na:3\n\n\0", vec![frame(Send, &[("a", "1"), ("b", "2")], b"")], 0),
        (V1_2, b"SEND\na\\cb:\\n\n\n\0", vec![frame(Send, &[("a:b", "\n")], b"")], 0),
        (V1_2, b"CONNECT\nhost: \\n\n\n\0", vec![frame(Connect, &[("host", " \\n")], b"")], 0),
        (V1_2, b"DISCONNECT\ncontent-length: 0 \n\n\0", vec![frame(Disconnect, &[("content-length", " 0 ")], b"")], 0),
        (V1_2, b"\nSEND\n\nrest", vec![], 10),
        (V1_2, b"SEND\ncontent-length:5\n\nrest", vec![], 27),
        (V1_2, b"NACK\nid:1\n", vec![], 10),
    ];
    for (version, bytes, frames, left) in table {
        let expected = (frames.clone(), Ok(*left));
        assert_eq!(feed_every_way(*version, Limits::default(), bytes), expected, "{bytes:?}");
    }
}

#[test]
fn streams_that_break_a_rule() {
    use FrameError::*;
    use Version::*;
    let limits = Limits { headers: 2, header_line: 40, head: 120, body: 4 };
    let long_header = format!("SEND\na:{}\n\n\0", "x".repeat(39));
    let table: &[(Version, &[u8], FrameError)] = &[
        (V1_2, b"send\n\n\0", UnknownCommand("send".into())),
        (V1_2, b"GET / HTTP/1.1\r\n", UnknownCommand("GET / HTTP/1.1".into())),
        (V1_2, b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", UnknownCommand("A".repeat(32))),
        (V1_2, b"SEND\0", UnknownCommand("SEND\u{fffd}".into())),
        (V1_2, b"SEND\na:b\nc:d\nc:e\n\n\0", TooManyHeaders(2)),
        (V1_2, long_header.as_bytes(), HeaderLineTooLong(40)),
        (V1_2, b"SEND\nab\n\n\0", HeaderWithoutColon("ab".into())),
        (V1_2, b"SEND\n:b\n\n\0", EmptyHeaderName),
        (V1_2, b"SEND\na:b\0", NulInHead),
        (V1_2, b"SEND\na:b\0\n\n\0", NulInHead),
        (V1_2, b"SEND\na:b\rc\n\n\0", CarriageReturnInHeader),
        (V1_2, b"SEND\na:\\t\n\n\0", BadEscape(V1_2)),
        (V1_1, b"SEND\na:\\r\n\n\0", BadEscape(V1_1)),
        (V1_2, b"SEND\na:\xff\n\n\0", NotUtf8),
        (V1_2, b"SEND\ncontent-length:-1\n\n\0", BadContentLength("-1".into())),
        (V1_2, b"SEND\ncontent-length:+1\n\na\0", BadContentLength("+1".into())),
        (V1_2, b"SEND\ncontent-length:\n\n\0", BadContentLength("".into())),
        (V1_2, b"SEND\ncontent-length:99999999999999999999\n\n", BadContentLength("99999999999999999999".into())),
        (V1_2, b"SEND\ncontent-length:5\n\n", BodyTooLong(4)),
        (V1_2, b"SEND\n\n12345", BodyTooLong(4)),
        (V1_2, b"SEND\ncontent-length:2\n\n123\0", BodyNotTerminated(2)),
        (V1_2, b"ACK\ncontent-length:1\n\na\0", BodyNotAllowed(Command::Ack)),
        (V1_2, b"ACK\n\na", BodyNotAllowed(Command::Ack)),
    ];
    for (version, bytes, error) in table {
        let (frames, result) = feed_every_way_loosely(*version, limits, bytes);
        assert_eq!((frames, result), (vec![], Err(error.clone())), "{bytes:?}");
        assert!(!error.to_string().is_empty());
    }
}

/// As [`feed_every_way`]. Only an excerpt in an error may be shorter if less has arrived.
fn feed_every_way_loosely(version: Version, limits: Limits, bytes: &[u8]) -> (Vec<Plain>, Result<usize, FrameError>) {
    let whole = feed(version, limits, &[bytes]);
    for cut in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        let (frames, result) = feed(version, limits, &[head, tail]);
        assert_eq!(frames, whole.0, "cut at {cut}");
        let kinds = [&result, &whole.1].map(|r| r.as_ref().map_err(std::mem::discriminant).err());
        assert!(kinds[0].is_some() && kinds[0] == kinds[1], "cut at {cut}: {result:?}");
    }
    whole
}

#[test]
fn a_head_has_a_limit_of_its_own() {
    let mut bytes = b"SEND\n".to_vec();
    for i in 0..9 {
        bytes.extend_from_slice(format!("{i}:{}\n", "x".repeat(8000)).as_bytes());
    }
    let pieces: Vec<&[u8]> = bytes.chunks(1000).collect();
    for pieces in [&pieces[..], &[&bytes[..]]] {
        let (_, result) = feed(Version::V1_2, Limits::default(), pieces);
        assert_eq!(result, Err(FrameError::HeadTooLong(limits::HEAD)));
    }
}

#[test]
fn large_bodies_leave_the_buffer_of_the_socket() {
    for announced in [true, false] {
        for size in [limits::GATHER_FROM - 100, limits::GATHER_FROM, 3 * limits::GATHER_FROM] {
            let body = vec![b'x'; size];
            let mut bytes = Vec::new();
            let mut writer = FrameWriter::new(&mut bytes, Command::Send, Version::V1_2);
            writer.header("destination", "/queue/a");
            if announced {
                writer.finish_with(&body)
            } else {
                writer.finish_text(&body)
            }
            bytes.extend_from_slice(b"ACK\nid:1\n\n\0");
            for step in [1000, 4096, bytes.len() - 11, bytes.len() - 12] {
                let mut decoder = Decoder::new(Limits::default());
                let (mut buffer, mut frames) = (Vec::new(), Vec::new());
                for piece in bytes.chunks(step) {
                    buffer.extend_from_slice(piece);
                    loop {
                        let decoded = decoder.decode(&buffer).unwrap();
                        let (consumed, frame) = (decoded.consumed, decoded.frame.as_ref().map(plain));
                        buffer.drain(..consumed);
                        let Some(frame) = frame else { break };
                        frames.push(frame);
                    }
                    assert!(buffer.len() <= limits::GATHER_FROM + step, "{} wait", buffer.len());
                }
                assert_eq!(frames.len(), 2);
                assert_eq!(frames[0].2, body);
                assert_eq!(frames[1], frame(Command::Ack, &[("id", "1")], b""));
            }
        }
    }
}

#[test]
fn a_gathered_body_keeps_its_limits() {
    let limits = Limits { body: 2 * limits::GATHER_FROM, ..Limits::default() };
    let too_long = vec![b'x'; limits.body + 1];
    let text = [b"SEND\n\n".as_slice(), &too_long].concat();
    let announced = [b"SEND\ncontent-length:40000\n\n".as_slice(), &too_long].concat();
    for (bytes, error) in
        [(text, FrameError::BodyTooLong(limits.body)), (announced, FrameError::BodyNotTerminated(40000))]
    {
        let pieces: Vec<&[u8]> = bytes.chunks(10_000).collect();
        assert_eq!(feed(Version::V1_2, limits, &pieces).1, Err(error));
    }
}

fn any_text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-z:\\\\\n\r é]{1,12}").unwrap()
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        version in prop::sample::select(vec![Version::V1_1, Version::V1_2]),
        headers in prop::collection::vec((any_text(), any_text()), 0..6),
        body in prop::collection::vec(any::<u8>(), 0..64),
        cut in 0usize..400,
    ) {
        let mut bytes = Vec::new();
        let mut writer = FrameWriter::new(&mut bytes, Command::Message, version);
        let mut expected: Vec<(String, String)> = Vec::new();
        for (name, value) in &headers {
            writer.header(name, value);
            // STOMP 1.1 can't express a carriage return.
            let keep = |text: &str| match version {
                Version::V1_2 => text.to_owned(),
                _ => text.replace('\r', " "),
            };
            if !expected.iter().any(|(earlier, _)| *earlier == keep(name)) {
                expected.push((keep(name), keep(value)));
            }
        }
        expected.push(("content-length".into(), body.len().to_string()));
        writer.finish_with(&body);
        let (head, tail) = bytes.split_at(cut.min(bytes.len()));
        let (frames, left) = feed(version, Limits::default(), &[head, tail]);
        prop_assert_eq!(left, Ok(0));
        prop_assert_eq!(frames, vec![(Command::Message, expected, body)]);
    }

    #[test]
    fn any_bytes_give_the_same_however_they_are_cut(
        bytes in prop::collection::vec(
            prop::sample::select(b"SEND\n\n\0\0\r\\:ACKcontent-length:2\n".to_vec()), 0..60),
        cut in 0usize..60,
    ) {
        let start = b"SEND\n".iter().chain(&bytes).copied().collect::<Vec<u8>>();
        let whole = feed(Version::V1_2, Limits::default(), &[&start]);
        let (head, tail) = start.split_at(cut.min(start.len()));
        let cut = feed(Version::V1_2, Limits::default(), &[head, tail]);
        prop_assert_eq!(whole.0, cut.0);
        prop_assert_eq!(whole.1.is_ok(), cut.1.is_ok());
    }
}
