//! Consumers with a selector, and browsers.

use super::*;

/// A message to queue `q` with this header.
fn put(peer: &mut Peer, name: &str, value: Value, body: &str) {
    let headers = encode_fields(&[(name.to_owned(), value)]);
    let headers = Some(Table::new(&headers).expect("a valid table"));
    let properties = BasicProperties { headers, app_id: Some(b"shop"), ..Default::default() }.to_bytes();
    let publish = BasicPublish { routing_key: "q", ..Default::default() };
    peer.publish(1, publish, &properties, body.as_bytes());
}

fn consume(peer: &mut Peer, arguments: &[(String, Value)]) {
    let arguments = encode_fields(arguments);
    let arguments = Table::new(&arguments).expect("a valid table");
    peer.send(1, BasicConsume { queue: "q", consumer_tag: "c", no_ack: true, arguments, ..Default::default() });
}

fn bodies(peer: &mut Peer) -> Vec<String> {
    std::mem::take(&mut peer.lines).into_iter().filter(|line| !line.contains("header")).collect()
}

#[test]
fn a_selector_sees_headers_of_any_type_and_properties() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    put(&mut peer, "n", Value::I16(5), "int");
    put(&mut peer, "n", Value::F64(5.5), "float");
    put(&mut peer, "n", Value::from("5"), "text");
    consume(&mut peer, &[("x-selector".to_owned(), Value::from("n >= 5 AND amqp.app_id = 'shop'"))]);
    peer.wait_for(7);
    let expected = [
        "1 BasicConsumeOk { consumer_tag: \"c\" }".to_owned(),
        delivered(1, "c", 1, "q"),
        "1 body int".to_owned(),
        delivered(1, "c", 2, "q"),
        "1 body float".to_owned(),
    ];
    assert_eq!(bodies(&mut peer), expected);
}

#[test]
fn a_browser_is_cancelled_when_it_has_seen_everything() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    put(&mut peer, "n", Value::I32(1), "1");
    put(&mut peer, "n", Value::I32(2), "2");
    consume(&mut peer, &[("x-browse".to_owned(), Value::Bool(true))]);
    peer.wait_for(8);
    let expected = [
        "1 BasicConsumeOk { consumer_tag: \"c\" }".to_owned(),
        delivered(1, "c", 1, "q"),
        "1 body 1".to_owned(),
        delivered(1, "c", 2, "q"),
        "1 body 2".to_owned(),
        "1 BasicCancel { consumer_tag: \"c\", nowait: true }".to_owned(),
    ];
    assert_eq!(bodies(&mut peer), expected);
    peer.send(1, QueueDeclare { queue: "q", passive: true, ..Default::default() });
    peer.expect(&[&declared(1, "q", 2, 0)]);
}

#[test]
fn a_selector_that_is_none_closes_the_channel() {
    let mut peer = server().channel();
    peer.declare(1, "q");
    consume(&mut peer, &[("x-selector".to_owned(), Value::from("n = "))]);
    let text = "PRECONDITION_FAILED - invalid arg 'x-selector' for queue 'q' in vhost '/': invalid selector at character 5: \
                the selector ends; expected a property's name, a literal or an opening parenthesis";
    peer.expect(&[&channel_closed(1, 406, text, (60, 20))]);
}
