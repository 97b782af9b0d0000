//! AMQP 1.0: values, frames with their bodies, the SASL layer, messages, and transfers put
//! together.
//!
//! The property of every decoder: if it accepts an input, its encoder writes bytes that it reads as
//! the same value. Values are compared as text, because a NaN does not equal itself.

use std::fmt::Debug;

use amqp10::codec::{
    Body, Budget, Encode, FrameKind, Message, Performative, Value, ValueRef, decode_frame, decode_performative,
    decode_sasl, read_value,
};
use amqp10::delivery::{Assembly, Step};
use amqp10::dialect::{Acquired, Amqp10Dialect, publish, write_stored};
use broker::{Content, Dialect};
use wire::Reader;

/// Largest frame that inputs are read with.
const MAX_FRAME_SIZE: u32 = 4096;
/// Largest message that is put together, so that inputs reach the limit.
const MAX_MESSAGE_SIZE: usize = 1024;

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

fn assert_same(one: &impl Debug, other: &impl Debug) {
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

/// Values, one after the other.
pub(super) fn value(input: &[u8]) {
    let mut reader = Reader::new(input);
    let mut budget = Budget::default();
    while let Ok(value) = read_value(&mut reader, &mut budget) {
        let shown = value.to_string();
        for bytes in [encoded(&value), encoded(&Value::from(value))] {
            let mut again = Reader::new(&bytes);
            let read = read_value(&mut again, &mut Budget::default());
            assert_eq!(read.map(|read| read.to_string()), Ok(shown.clone()));
            assert!(again.is_empty(), "bytes follow a value that was written");
        }
    }
}

/// Frames, one after the other; all transfers are put together as if they were of one link.
pub(super) fn frame(input: &[u8]) {
    let mut assembly = Assembly::new(MAX_MESSAGE_SIZE);
    let mut rest = input;
    while let Ok(Some(frame)) = decode_frame(rest, MAX_FRAME_SIZE) {
        let size = frame.size as usize;
        assert!(size <= MAX_FRAME_SIZE as usize, "a frame larger than agreed was accepted");
        assert_eq!(decode_frame(&rest[..size - 1], MAX_FRAME_SIZE), Ok(None), "a cut frame is incomplete");
        match frame.kind {
            FrameKind::Amqp => performative(frame.body, &mut assembly),
            FrameKind::Sasl => sasl(frame.body),
        }
        rest = &rest[size..];
    }
}

fn performative(body: &[u8], assembly: &mut Assembly) {
    let Ok((performative, payload)) = decode_performative(body) else { return };
    let bytes = encoded(&performative);
    assert_same(&Ok::<_, ()>((&performative, [0u8; 0])), &decode_performative(&bytes).map_err(drop));
    let Performative::Transfer(transfer) = performative else { return };
    match assembly.transfer(&transfer, payload) {
        Ok(Step::Complete(delivery)) => message(&delivery.message),
        Ok(Step::Incomplete | Step::Aborted(_)) => {}
        Err(_) => assert_eq!(assembly.held(), 0, "a refused message is held"),
    }
    // A buffer grows to twice of what is in it.
    assert!(assembly.held() <= 2 * MAX_MESSAGE_SIZE, "more is held than a message may have");
}

/// The body of one frame of the SASL layer.
pub(super) fn sasl(input: &[u8]) {
    let Ok(frame) = decode_sasl(input) else { return };
    assert_same(&Ok::<_, ()>(frame), &decode_sasl(&encoded(&frame)).map_err(drop));
}

/// The sections of one message, and the message as it is stored and delivered.
pub(super) fn message(input: &[u8]) {
    let Ok(message) = Message::decode(input) else { return };
    stored(input, message.bare);
    assert!(message.bare.len() <= input.len());
    let bare = Message::decode(message.bare).expect("the bare message is one");
    assert_same(&(message.properties, message.body), &(bare.properties, bare.body));
    assert_eq!((bare.header, bare.message_annotations, bare.footer), (None, None, None));
    match message.body {
        Body::Data(data) => assert!(data.iter().map(<[u8]>::len).sum::<usize>() < message.bare.len()),
        Body::Value(bytes) => value(bytes),
        Body::Sequences(_) | Body::Missing => {}
    }
    let maps = [message.delivery_annotations, message.message_annotations, message.application_properties];
    maps.into_iter().flatten().for_each(|map| value(&encoded(&ValueRef::Map(map))));
    if let Some(properties) = message.properties {
        assert_same(&Some(properties), &Message::decode(&encoded(&properties)).ok().and_then(|it| it.properties));
    }
}

/// A message that is stored comes out with the same bare message.
fn stored(input: &[u8], bare: &[u8]) {
    let Ok(published) = publish(input, 0) else { return };
    let content = Content { properties: &published.properties, body: &published.body };
    assert!(Amqp10Dialect.read(content).is_ok(), "what was checked can't be read");
    let mut delivered = Vec::new();
    let written = write_stored(content.properties, content.body, None, Acquired::default(), &mut delivered);
    assert!(written.is_ok(), "what was checked can't be delivered");
    assert_eq!(Message::decode(&delivered).map(|message| message.bare), Ok(bare));
}

/// The stored form of a message, as a damaged disk may hand it over.
pub(super) fn stored_form(input: &[u8]) {
    let content = Content { properties: input, body: b"body" };
    let _ = Amqp10Dialect.read(content).is_ok();
    let _ = write_stored(input, content.body, None, Acquired::default(), &mut Vec::new()).is_ok();
}
