//! AMQP 1.0: what a server sends, as a client reads it.
//!
//! An input is read twice: from the first byte of a connection on, and behind a log-in, a session
//! and two links, so that frames about these are reached.

use amqp10::client::{Client, ClientError, Event, Options, SendMode};
use amqp10::codec::performative::{Attach, Begin, Open, Role};
use amqp10::codec::sasl::{SaslMechanisms, SaslOutcome};
use amqp10::codec::{
    AttachTarget, Encode, FrameKind, ProtocolId, Source, Symbols, Target, decode_frame, decode_performative,
    encode_frame,
};

/// Largest message that the client takes, so that inputs reach the limit.
const MAX_MESSAGE_SIZE: usize = 1024;
/// Events of one input at most. A disposition over all ids is one event for each that is known.
const EVENTS: usize = 10_000;

/// Everything that a server could send to a client.
pub(super) fn client(input: &[u8]) {
    let mut out = Vec::new();
    feed(&mut started(&mut out), input, &mut out);
    feed(&mut attached(), input, &mut Vec::new());
}

fn started(out: &mut Vec<u8>) -> Client {
    let mut client = Client::new(Options { max_message_size: MAX_MESSAGE_SIZE, ..Options::default() });
    client.start(out);
    client
}

/// Reads all of the input, and returns the client's frames as far as they are whole.
fn feed(client: &mut Client, input: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut rest = input;
    for _ in 0..EVENTS {
        let before = rest.len();
        match client.poll(&mut rest, out) {
            Ok(Some(Event::Delivery { delivery, .. })) => {
                assert!(delivery.message.len() <= MAX_MESSAGE_SIZE, "a message larger than is taken");
            }
            Ok(Some(_)) => assert!(rest.len() <= before, "an event gave bytes back"),
            Ok(None) | Err(_) => break,
        }
    }
    let mut said = &out[..];
    while let Ok(Some(frame)) = decode_frame(said, u32::MAX) {
        if frame.kind == FrameKind::Amqp && !frame.body.is_empty() {
            assert!(decode_performative(frame.body).is_ok(), "the client answers with what no peer can read");
        }
        said = &said[frame.size as usize..];
    }
}

fn frame(bytes: &mut Vec<u8>, performative: &impl Encode) {
    encode_frame(bytes, FrameKind::Amqp, 0, performative);
}

/// A client with a session on channel 0, a link that sends (handle 0) and one that receives (1).
fn attached() -> Client {
    let mut out = Vec::new();
    let mut client = started(&mut out);
    let mut bytes = ProtocolId::Sasl.header().to_vec();
    let mechanisms = SaslMechanisms { sasl_server_mechanisms: Symbols::of(&["ANONYMOUS"]) };
    encode_frame(&mut bytes, FrameKind::Sasl, 0, &mechanisms);
    encode_frame(&mut bytes, FrameKind::Sasl, 0, &SaslOutcome::default());
    bytes.extend(ProtocolId::Amqp.header());
    frame(&mut bytes, &Open { container_id: "server", ..Open::default() });
    feed(&mut client, &bytes, &mut out);
    attach(&mut client).expect("a session and two links are allowed");
    client
}

fn attach(client: &mut Client) -> Result<(), ClientError> {
    let mut out = Vec::new();
    let channel = client.begin(&mut out)?;
    let target = Some(AttachTarget::Target(Target { address: Some("q"), ..Target::default() }));
    let source = Some(Source { address: Some("q"), ..Source::default() });
    let sending = Attach { name: "out", target, source, initial_delivery_count: Some(0), ..Attach::default() };
    let receiving = Attach { name: "in", role: Role::Receiver, initial_delivery_count: None, ..sending };
    let sender = client.attach(channel, &sending, &mut out)?;
    let receiver = client.attach(channel, &receiving, &mut out)?;
    let mut bytes = Vec::new();
    frame(&mut bytes, &Begin { remote_channel: Some(channel), incoming_window: 8, ..Begin::default() });
    frame(&mut bytes, &Attach { role: Role::Receiver, handle: sender.handle, ..sending });
    let answered = Attach { role: Role::Sender, handle: receiver.handle, initial_delivery_count: Some(0), ..receiving };
    frame(&mut bytes, &answered);
    feed(client, &bytes, &mut out);
    client.grant(receiver, 4, &mut out)?;
    for _ in 0..4 {
        client.send(sender, SendMode::default(), &[b"\0\x53\x75\xa0\x01x"], &mut out)?;
    }
    Ok(())
}
