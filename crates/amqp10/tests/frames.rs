//! Frames against vectors: those of the specification, and what clients really sent; each also cut
//! and changed.

use amqp10::codec::performative::{Attach, Disposition, Flow, Open, Role};
use amqp10::codec::state::Modified;
use amqp10::codec::{
    AttachTarget, DeliveryState, Durability, Encode, ExpiryPolicy, FieldError, Frame, FrameError, FrameKind, Map,
    Outcome, Performative, ProtocolId, SaslFrame, Source, Symbols, Target, Value, decode_frame, decode_performative,
    decode_sasl, encode_frame, frame,
};
use proptest::prelude::*;

const MAX_FRAME_SIZE: u32 = 1 << 20;

const VECTORS: [&str; 4] = [
    include_str!("vectors/frames.txt"),
    include_str!("vectors/captured/go-amqp-1.7.0.txt"),
    include_str!("vectors/captured/python-qpid-proton-0.40.0.txt"),
    include_str!("vectors/captured/qpid-jms-2.10.0.txt"),
];

/// What is in a frame.
enum Body<'a> {
    Empty,
    Amqp(Performative<'a>, &'a [u8]),
    Sasl(SaslFrame<'a>),
}

fn body<'a>(frame: &Frame<'a>) -> Result<Body<'a>, String> {
    let text = |error: FieldError| error.to_string();
    match frame.kind {
        FrameKind::Amqp if frame.body.is_empty() => Ok(Body::Empty),
        FrameKind::Amqp => decode_performative(frame.body).map(|(it, payload)| Body::Amqp(it, payload)).map_err(text),
        FrameKind::Sasl => decode_sasl(frame.body).map(Body::Sasl).map_err(text),
    }
}

/// Reads all of `bytes` as one frame; the error is that of the frame or of its body.
fn read(bytes: &[u8]) -> Result<(Frame<'_>, Body<'_>), String> {
    let frame = decode_frame(bytes, MAX_FRAME_SIZE).map_err(|error| error.to_string())?;
    let frame = frame.ok_or("the frame is incomplete")?;
    if frame.size as usize != bytes.len() {
        return Err(format!("bytes follow the frame of {} bytes", frame.size));
    }
    let body = body(&frame)?;
    Ok((frame, body))
}

fn show(frame: &Frame<'_>, body: &Body<'_>) -> String {
    let channel = frame.channel;
    match body {
        Body::Empty => format!("{channel} empty"),
        Body::Amqp(performative, []) => format!("{channel} {performative:?}"),
        Body::Amqp(performative, payload) => {
            let payload: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{channel} {performative:?} + {payload}")
        }
        Body::Sasl(sasl) => format!("{channel} {sasl:?}"),
    }
}

fn write(frame: &Frame<'_>, body: &Body<'_>) -> Vec<u8> {
    struct Raw<'a>(&'a [u8]);
    impl Encode for Raw<'_> {
        fn encode(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(self.0);
        }
    }
    let mut inner = Vec::new();
    match body {
        Body::Empty => {}
        Body::Amqp(performative, payload) => {
            performative.encode(&mut inner);
            inner.extend_from_slice(payload);
        }
        Body::Sasl(sasl) => sasl.encode(&mut inner),
    }
    let mut out = Vec::new();
    encode_frame(&mut out, frame.kind, frame.channel, &Raw(&inner));
    out
}

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect(byte)).collect()
}

/// Bytes, sign and text of each vector.
fn vectors() -> impl Iterator<Item = (Vec<u8>, char, &'static str)> {
    let lines = VECTORS.iter().flat_map(|text| text.lines());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let at = line.find(['=', '~', '!']).expect(line);
        (bytes_of(&line[..at]), line[at..].chars().next().expect(line), line[at + 1..].trim())
    })
}

#[test]
fn vectors_are_read_and_written() {
    let mut wrong = Vec::new();
    for (bytes, sign, text) in vectors() {
        let (found, line) = match read(&bytes) {
            Ok((frame, body)) => {
                let written = write(&frame, &body);
                let (again, again_body) = read(&written).expect("what is written is read");
                assert_eq!(show(&again, &again_body), show(&frame, &body));
                (if written == bytes { '=' } else { '~' }, show(&frame, &body))
            }
            Err(error) => ('!', error),
        };
        if (found, line.as_str()) != (sign, text) {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            wrong.push(format!("{} {found} {line}\n    expected {sign} {text}", hex.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{} vectors:\n{}", wrong.len(), wrong.join("\n"));
}

/// How many bytes follow the performative of a frame.
fn payload_of(bytes: &[u8]) -> usize {
    match read(bytes).expect("a vector that is read").1 {
        Body::Amqp(_, payload) => payload.len(),
        _ => 0,
    }
}

#[test]
fn a_cut_frame_is_incomplete_and_a_changed_one_breaks_nothing() {
    for (bytes, sign, text) in vectors().filter(|(_, sign, _)| *sign != '!') {
        for end in 0..bytes.len() {
            assert_eq!(decode_frame(&bytes[..end], MAX_FRAME_SIZE), Ok(None), "{sign} {text} cut at {end}");
        }
        // The payload is not read here, whatever is in it.
        for at in 0..bytes.len() - payload_of(&bytes) {
            for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let Ok(Some(frame)) = decode_frame(&changed, MAX_FRAME_SIZE) else { continue };
                if let Ok(body) = body(&frame) {
                    let written = write(&frame, &body);
                    let (again, again_body) = read(&written).expect("what is written is read");
                    assert_eq!(show(&again, &again_body), show(&frame, &body));
                }
            }
        }
    }
}

/// A frame may end anywhere: that of a body is the frame's size, which a peer can choose.
#[test]
fn a_cut_body_is_refused() {
    for (bytes, _, text) in vectors().filter(|(_, sign, _)| *sign != '!') {
        let (whole, _) = read(&bytes).expect(text);
        for end in 1..whole.body.len().saturating_sub(payload_of(&bytes)) {
            let cut = Frame { body: &whole.body[..end], ..whole };
            assert!(body(&cut).is_err(), "{text}: read although cut at {end}");
        }
    }
}

#[test]
fn a_protocol_header_is_known_as_soon_as_it_can_be() {
    for id in [ProtocolId::Amqp, ProtocolId::Tls, ProtocolId::Sasl] {
        let header = id.header();
        assert_eq!(ProtocolId::decode(&[&header[..], b"more"].concat()), Ok(Some(id)));
        for end in 0..header.len() {
            assert_eq!(ProtocolId::decode(&header[..end]), Ok(None));
        }
    }
    for other in [&b"GET /"[..], b"AMQP\x01", b"AMQP\x00\x00\x09\x01", b"AMQP\x00\x01\x01", b"AMQP\x03\x01\x00\x01"] {
        assert!(ProtocolId::decode(other).is_err(), "{other:?}");
    }
}

#[test]
fn a_size_past_the_limit_is_refused_from_the_header_alone() {
    let header = [0, 0, 2, 1, 2, 0, 0, 0];
    assert_eq!(decode_frame(&header, 512), Err(FrameError::TooLarge { size: 513, max: 512 }));
    assert_eq!(decode_frame(&header, 513), Ok(None));
    assert_eq!(decode_frame(&frame::HEARTBEAT, 512).map(|frame| frame.map(|frame| frame.body)), Ok(Some(&[][..])));
}

#[test]
fn what_a_client_answers_is_read_and_not_shown() {
    let vectors = vectors().map(|(bytes, ..)| bytes);
    let init = vectors.filter(|bytes| bytes.windows(5).any(|at| at == b"guest")).find_map(|bytes| {
        let frame = decode_frame(&bytes, MAX_FRAME_SIZE).ok()??;
        let Ok(SaslFrame::Init(init)) = decode_sasl(frame.body) else { return None };
        assert!(!format!("{init:?}").contains("guest") && !format!("{init:?}").contains("103"));
        init.initial_response.map(|response| response.0.to_vec())
    });
    assert_eq!(init.as_deref(), Some(&b"\0guest\0guest"[..]));
}

#[test]
fn symbols_are_the_same_however_they_are_written() {
    let long = "x".repeat(300);
    for symbols in [&["a"][..], &["a", "b"], &["a", &long], &[]] {
        let mut out = Vec::new();
        let open = Open { container_id: "c", offered_capabilities: Symbols::of(symbols), ..Default::default() };
        open.encode(&mut out);
        let Ok((Performative::Open(read), [])) = decode_performative(&out) else { panic!("no open: {out:02x?}") };
        assert_eq!(read, open);
        assert!(read.offered_capabilities.iter().eq(symbols.iter().copied()));
        assert_eq!(read.offered_capabilities.has("a"), !symbols.is_empty());
    }
}

type Fields = (Vec<Option<u32>>, Vec<bool>, Vec<Option<String>>, Vec<String>);

/// Fields of performatives at random, each there or missing.
fn fields() -> impl Strategy<Value = Fields> {
    (
        prop::collection::vec(prop::option::of(prop_oneof![any::<u32>(), 0..300u32]), 8),
        prop::collection::vec(any::<bool>(), 8),
        prop::collection::vec(prop::option::of(".{0,40}"), 4),
        prop::collection::vec("[ -~]{0,40}", 0..5),
    )
}

proptest! {
    #[test]
    fn performatives_are_read_as_written((numbers, flags, texts, symbols) in fields()) {
        let symbols: Vec<&str> = symbols.iter().map(String::as_str).collect();
        let map = Value::Map(texts.iter().map(|text| (Value::U64(1), text.clone().map_or(Value::Null, Value::Str))).collect());
        let map = map.to_bytes();
        let properties = flags[0].then(|| Map::new(&map).expect("a map"));
        let outcome = Outcome::Modified(Modified {
            delivery_failed: flags[1],
            undeliverable_here: flags[2],
            message_annotations: properties,
        });
        let source = Source {
            address: texts[0].as_deref(),
            durable: if flags[3] { Durability::Configuration } else { Durability::None },
            expiry_policy: if flags[4] { ExpiryPolicy::Never } else { ExpiryPolicy::SessionEnd },
            timeout: numbers[0].unwrap_or(0),
            dynamic: flags[5],
            filter: properties,
            default_outcome: flags[6].then_some(outcome),
            outcomes: Symbols::of(&symbols),
            ..Source::default()
        };
        let attach = Attach {
            name: texts[1].as_deref().unwrap_or(""),
            handle: numbers[1].unwrap_or(0),
            role: if flags[7] { Role::Receiver } else { Role::Sender },
            source: flags[1].then_some(source),
            target: flags[2].then(|| AttachTarget::Target(Target { address: texts[2].as_deref(), ..Target::default() })),
            max_message_size: numbers[2].map(u64::from),
            properties,
            ..Attach::default()
        };
        let flow = Flow {
            next_incoming_id: numbers[0],
            incoming_window: numbers[1].unwrap_or(0),
            handle: numbers[2],
            delivery_count: numbers[3],
            link_credit: numbers[4],
            drain: flags[0],
            properties,
            ..Flow::default()
        };
        let disposition = Disposition {
            role: attach.role,
            first: numbers[5].unwrap_or(0),
            last: numbers[6],
            settled: flags[3],
            state: flags[4].then_some(DeliveryState::Outcome(outcome)),
            batchable: flags[5],
        };
        for performative in [
            Performative::Attach(Box::new(attach)),
            Performative::Flow(flow),
            Performative::Disposition(disposition),
        ] {
            let mut out = Vec::new();
            performative.encode(&mut out);
            prop_assert_eq!(decode_performative(&out), Ok((performative, &[][..])));
        }
    }

    #[test]
    fn random_bytes_break_nothing(bytes in prop::collection::vec(any::<u8>(), 0..100), code in 0x10u8..0x45) {
        let body = [&[0, 0x53, code, 0xc0, bytes.len() as u8 + 1, 11][..], &bytes].concat();
        let _ = (decode_performative(&body).is_ok(), decode_sasl(&body).is_ok());
    }
}
