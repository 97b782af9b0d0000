//! Stored blocks of messages, of every version.

use broker::Message;

/// A block is refused, or all its parts can be read and lie within it, one behind the other.
pub(super) fn block(input: &[u8]) {
    let Ok(message) = Message::from_stored(input.to_vec().into()) else { return };
    let address = [message.exchange().as_bytes(), message.routing_key().as_bytes()];
    let parts = [address[0], address[1], message.properties(), message.publisher(), message.body()];
    let total: usize = parts.iter().map(|part| part.len()).sum();
    assert!(total < input.len(), "the parts are longer than the block");
    assert!(input.ends_with(message.body()), "the body is the rest");
    assert_eq!(message.body_shared(), message.body());
    let sent = message.sent();
    assert_eq!([sent.content.properties, sent.content.body], [message.properties(), message.body()]);
    if let Some(address) = sent.short_address {
        assert_eq!(address.len(), message.exchange().len() + message.routing_key().len() + 2);
    }
    if let Some(annotations) = message.annotations() {
        let mut bytes = Vec::new();
        annotations.encode(&mut bytes);
        assert_eq!(broker::Annotations::decode(&bytes), Ok(annotations));
    }
    let _ = (message.dialect(), message.persistent(), message.priority(), message.published_at());
}
