//! What brokers send and what is sent to them, byte by byte.

use proptest::prelude::*;

use super::*;

/// Everything that decodes an answer, by the vector that it understands.
type Decoder = fn(&[u8]) -> Result<String, Failure>;

fn shown<T: std::fmt::Debug>(of: Result<T, Failure>) -> Result<String, Failure> {
    of.map(|value| format!("{value:?}"))
}

/// An answer's body, who reads it, and what it means.
fn vectors() -> Vec<(Vec<u8>, Decoder, String)> {
    let metadata_of = |code: u8, brokers| Metadata { brokers, topics: vec![Code(code.into())] };
    let one_broker =
        b"\x00\x00\x00\x01\x00\x00\x00\x01\x00\x09127.0.0.1\x00\x00\x23\x84\xff\xff\x00\x00\x00\x01".as_slice();
    let leader = b"\x00\x00\x00\x01\x00\x00\x00\x01t\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\
        \x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01";
    let no_leader = b"\x00\x00\x00\x01\x00\x00\x00\x01t\x00\x00\x00\x00\x01\x00\x05\x00\x00\x00\x00\xff\xff\xff\xff\
        \x00\x00\x00\x00\x00\x00\x00\x00";
    let unknown = b"\x00\x00\x00\x01\x00\x03\x00\x01t\x00\x00\x00\x00\x00";
    let partition = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00".as_slice();
    let offsets_of = b"\x00\x00\x00\x02\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\
        \x00\x00\x00\x00\x00\x00\x00\x07\x00\x01u\x00\x00\x00\x01\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff\xff\xff\xff\xff\
        \xff\xff\xff\xff\xff\xff\xff\xff";
    let marks = b"\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x09";
    let fetch = |aborted: &[u8], records: &[u8]| [b"\0\0\0\0", partition, b"\0\0", marks, aborted, records].concat();
    let aborted = [b"\x00\x00\x00\x01".as_slice(), &[0; 16]].concat();
    let hi = Fetched { code: NO_ERROR, records: b"hi" };
    vec![
        ([one_broker, leader].concat(), |body| shown(metadata(body)), format!("{:?}", metadata_of(0, 1))),
        ([one_broker, no_leader].concat(), |body| shown(metadata(body)), format!("{:?}", metadata_of(5, 1))),
        ([one_broker, unknown].concat(), |body| shown(metadata(body)), format!("{:?}", metadata_of(3, 1))),
        (
            b"\0\0\0\0\0\0\0\x02\0\x01t\0\0\xff\xff\0\x01u\0\x24\0\x02no".to_vec(),
            |body| shown(created(body)),
            "[Code(0), Code(36)]".to_owned(),
        ),
        (b"\0\0\0\0\0\0\0\x01\0\x01t\0\x03".to_vec(), |body| shown(deleted(body)), "[Code(3)]".to_owned()),
        (offsets_of.to_vec(), |body| shown(offsets(body)), "[(Code(0), 7), (Code(3), -1)]".to_owned()),
        (b"\0\x0f".to_vec(), |body| shown(coordinator(body)), "Code(15)".to_owned()),
        ([partition, b"\0\x10"].concat(), |body| shown(committed(body)), "Code(16)".to_owned()),
        ([partition, b"\0\x0a"].concat(), |body| shown(produced(body)), "Code(10)".to_owned()),
        (fetch(b"\0\0\0\0", b"\0\0\0\x02hi"), |body| shown(fetched(body)), format!("{hi:?}")),
        (fetch(&aborted, b"\0\0\0\x02hi"), |body| shown(fetched(body)), format!("{hi:?}")),
        (
            fetch(b"\xff\xff\xff\xff", b"\xff\xff\xff\xff"),
            |body| shown(fetched(body)),
            format!("{:?}", Fetched { records: b"", ..hi }),
        ),
    ]
}

#[test]
fn answers_are_understood_whole_and_refused_cut_off() {
    for (bytes, decoder, expected) in vectors() {
        assert_eq!(decoder(&bytes).unwrap(), expected);
        for cut in 0..bytes.len() {
            assert!(decoder(&bytes[..cut]).is_err(), "{cut} of {expected}");
        }
    }
}

#[test]
fn an_answer_is_waited_for_until_it_is_whole() {
    let bytes = b"\0\0\0\x06\0\0\x01\x02hi\0\0";
    let answer = Answer { correlation: 258, body: b"hi" };
    assert_eq!(decode(bytes).unwrap(), Some((answer, 10)));
    for cut in 0..10 {
        assert_eq!(decode(&bytes[..cut]).unwrap(), None, "{cut}");
    }
}

#[test]
fn what_is_no_kafka_is_refused() {
    for bytes in [b"HTTP/1.1 400".as_slice(), b"\0\0\0\0", b"\0\0\0\x03\0\0\0", b"\xff\xff\xff\xff", b"\x08\0\0\x01"] {
        let failure = decode(bytes).unwrap_err().to_string();
        assert!(failure.contains("does it speak Kafka?"), "{failure}");
    }
    // Counts and lengths beyond what is there, and partitions that were not asked for.
    let endless = b"\0\0\0\0\x7f\xff\xff\xff";
    let two = b"\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0";
    assert!(created(endless).is_err() && deleted(endless).is_err() && offsets(&endless[4..]).is_err());
    assert!(produced(two).unwrap_err().to_string().contains("another number of partitions"));
    assert!(committed(b"\0\0\0\0").is_err());
}

/// An answer to ApiVersions with these ranges.
fn ranges(of: &[(u16, u16, u16)]) -> Vec<u8> {
    let mut body = vec![0, 0];
    u32(of.len() as u32, &mut body);
    for (number, least, most) in of {
        [number, least, most].iter().for_each(|value| u16(**value, &mut body));
    }
    body
}

#[test]
fn a_broker_of_other_versions_is_named() {
    let all: Vec<(u16, u16, u16)> = Call::ALL.iter().map(|(_, number, version)| (*number, 0, *version)).collect();
    versions(&ranges(&all)).unwrap();
    let cut = ranges(&all);
    (0..cut.len()).for_each(|at| assert!(versions(&cut[..at]).is_err(), "{at}"));
    let mut newer = all.clone();
    newer[0] = (0, 9, 13);
    let cases = [
        (ranges(&newer), "versions 9 to 13 of Produce, and this program sends 3"),
        (ranges(&all[1..]), "takes no Produce"),
        (b"\x00\x23\x00\x00\x00\x00".to_vec(), "UNSUPPORTED_VERSION (35)"),
    ];
    for (body, part) in cases {
        let failure = versions(&body).unwrap_err().to_string();
        assert!(failure.contains(part), "{failure}");
    }
}

#[test]
fn what_is_sent_is_what_the_protocol_says() {
    let topics = ["t".to_owned(), "uv".to_owned()];
    let head =
        |call: u8, version: u8| [b"\0".as_slice(), &[call, 0, version], b"\0\0\0\x09\0\x0chermod-bench"].concat();
    let one = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0".as_slice();
    let cases: Vec<(Request<'_>, Vec<u8>, Vec<u8>)> = vec![
        (Request::Versions, head(18, 0), Vec::new()),
        (Request::Metadata { topics: &topics }, head(3, 1), b"\0\0\0\x02\0\x01t\0\x02uv".to_vec()),
        (
            Request::Create { topics: &topics[..1], largest: 70_000 },
            head(19, 2),
            b"\0\0\0\x01\0\x01t\0\0\0\x01\0\x01\0\0\0\0\0\0\0\x01\0\x11max.message.bytes\0\x0570000\0\0\x75\x30\0"
                .to_vec(),
        ),
        (Request::Delete { topics: &topics[1..] }, head(20, 1), b"\0\0\0\x01\0\x02uv\0\0\x75\x30".to_vec()),
        (
            Request::Offsets { topics: &topics[..1], end: End::Earliest },
            head(2, 1),
            [b"\xff\xff\xff\xff", one, b"\xff\xff\xff\xff\xff\xff\xff\xfe"].concat(),
        ),
        (Request::Coordinator { group: "g" }, head(10, 0), b"\0\x01g".to_vec()),
        (
            Request::Commit { group: "g", topic: "t", offset: 258 },
            head(8, 2),
            [
                b"\0\x01g\xff\xff\xff\xff\0\0\xff\xff\xff\xff\xff\xff\xff\xff".as_slice(),
                one,
                b"\0\0\0\0\0\0\x01\x02\0\0",
            ]
            .concat(),
        ),
        (
            Request::Fetch { topic: "t", from: 258, most: 513 },
            head(1, 4),
            [
                b"\xff\xff\xff\xff\0\0\x01\xf4\0\0\0\x01\0\0\x02\x01\0".as_slice(),
                one,
                b"\0\0\0\0\0\0\x01\x02\0\0\x02\x01",
            ]
            .concat(),
        ),
    ];
    for (request, head, body) in cases {
        let mut out = b"before".to_vec();
        request.encode(9, &mut out);
        let length = ((head.len() + body.len()) as u32).to_be_bytes();
        assert_eq!(out, [b"before".as_slice(), &length, &head, &body].concat(), "{request:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_can_be_read(bytes: Vec<u8>) {
        let _ = decode(&bytes);
        let _ = versions(&bytes);
        for (_, decoder, _) in vectors() {
            let _ = decoder(&bytes);
        }
    }

    #[test]
    fn changed_bytes_can_be_read(at: prop::sample::Index, byte: u8) {
        for (mut bytes, decoder, _) in vectors() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = decoder(&bytes);
        }
    }
}
