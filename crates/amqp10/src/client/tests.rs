//! The client against scripted peers.

use super::*;
use crate::codec::performative::SenderSettleMode;
use crate::codec::sasl::{SaslCode, SaslMechanisms, SaslOutcome};
use crate::codec::state::Declared;
use crate::codec::terminus::{Coordinator, CoordinatorRequest};
use crate::codec::{
    AttachTarget, Body, Encode, Message, Outcome, ProtocolId, Source, Symbols, Target, condition, decode_sasl,
};
use crate::delivery::Assembly;

const PEER_FRAME: u32 = 600;

fn amqp(channel: u16, body: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    encode_frame(&mut out, FrameKind::Amqp, channel, body);
    out
}

fn sasl(body: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    encode_frame(&mut out, FrameKind::Sasl, 0, body);
    out
}

/// What a peer sends up to its `open`.
fn welcome() -> Vec<u8> {
    let open = Open { container_id: "peer", max_frame_size: PEER_FRAME, idle_time_out: Some(30), ..Open::default() };
    [
        ProtocolId::Sasl.header().to_vec(),
        sasl(&SaslMechanisms { sasl_server_mechanisms: Symbols::of(&["EXTERNAL", "PLAIN"]) }),
        sasl(&SaslOutcome::default()),
        ProtocolId::Amqp.header().to_vec(),
        amqp(0, &open),
    ]
    .concat()
}

fn plain() -> Options {
    Options { login: Login::plain("me", "secret"), ..Options::default() }
}

/// A client with one session, channel 0 at both ends, whose peer lets in `window` transfers.
fn in_session(window: u32) -> Client {
    let mut client = Client::new(plain());
    let mut out = Vec::new();
    client.start(&mut out);
    events(&mut client, &welcome(), &mut out);
    client.begin(&mut out).unwrap();
    let begin = Begin { remote_channel: Some(0), incoming_window: window, ..Begin::default() };
    events(&mut client, &amqp(0, &begin), &mut out);
    client
}

/// What all of `bytes` come to, as text.
fn events(client: &mut Client, mut bytes: &[u8], out: &mut Vec<u8>) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(event) = client.poll(&mut bytes, out).unwrap() {
        found.push(format!("{event:?}"));
    }
    assert_eq!(bytes, b"", "bytes are left");
    found
}

/// The performatives of `bytes`, each with the bytes behind it.
fn said(mut bytes: &[u8]) -> Vec<(Performative<'_>, &[u8])> {
    let mut found = Vec::new();
    while let Some(frame) = decode_frame(bytes, u32::MAX).unwrap() {
        assert!(frame.size <= PEER_FRAME, "a frame of {} bytes", frame.size);
        found.push(decode_performative(frame.body).unwrap());
        bytes = &bytes[frame.size as usize..];
    }
    found
}

/// Attaches a sender and gives it credit.
fn sender(client: &mut Client, name: &str, credit: u32) -> LinkId {
    let mut out = Vec::new();
    let target = Some(AttachTarget::Target(Target { address: Some("q"), ..Target::default() }));
    let attach = Attach { name, target, ..Attach::default() };
    let link = client.attach(0, &attach, &mut out).unwrap();
    let answer = Attach { role: Role::Receiver, handle: link.handle + 10, ..attach };
    events(client, &amqp(0, &answer), &mut out);
    events(client, &amqp(0, &flow(link, credit)), &mut out);
    link
}

fn flow(link: LinkId, credit: u32) -> Flow<'static> {
    Flow {
        next_incoming_id: Some(0),
        incoming_window: u32::MAX,
        handle: Some(link.handle + 10),
        delivery_count: Some(0),
        link_credit: Some(credit),
        ..Flow::default()
    }
}

fn receiver(client: &mut Client) -> LinkId {
    let mut out = Vec::new();
    let source = Some(Source { address: Some("q"), ..Source::default() });
    let attach = Attach { name: "r", role: Role::Receiver, source, ..Attach::default() };
    let link = client.attach(0, &attach, &mut out).unwrap();
    let answer = Attach { role: Role::Sender, handle: 3, initial_delivery_count: Some(u32::MAX), ..attach };
    events(client, &amqp(0, &answer), &mut out);
    link
}

fn answer(first: u32, last: u32) -> Disposition<'static> {
    let state = Some(DeliveryState::Outcome(Outcome::Accepted));
    Disposition { role: Role::Receiver, first, last: Some(last), settled: true, state, ..Disposition::default() }
}

#[test]
fn a_log_in_opens_wherever_the_bytes_are_cut() {
    let bytes = welcome();
    for cut in 0..=bytes.len() {
        let mut client = Client::new(plain());
        let mut out = Vec::new();
        client.start(&mut out);
        let (mut held, mut found) = (Vec::new(), Vec::new());
        for part in [&bytes[..cut], &bytes[cut..]] {
            held.extend_from_slice(part);
            let mut input = held.as_slice();
            while let Some(event) = client.poll(&mut input, &mut out).unwrap() {
                found.push(matches!(event, Event::Opened(Open { container_id: "peer", .. })));
            }
            held = input.to_vec();
        }
        assert_eq!(found, [true], "cut at {cut}");
        let (header, rest) = out.split_first_chunk::<8>().unwrap();
        assert_eq!(*header, ProtocolId::Sasl.header());
        let frame = decode_frame(rest, 512).unwrap().unwrap();
        let crate::codec::SaslFrame::Init(init) = decode_sasl(frame.body).unwrap() else { panic!("no init") };
        assert_eq!((init.mechanism.0, init.initial_response.unwrap().0), ("PLAIN", b"\0me\0secret".as_slice()));
        assert_eq!(client.peer_idle_time_out(), Some(30));
    }
}

#[test]
fn what_ends_a_log_in_is_named() {
    let header = ProtocolId::Sasl.header().to_vec();
    let offer = sasl(&SaslMechanisms { sasl_server_mechanisms: Symbols::of(&["SCRAM-SHA-256"]) });
    let plain_offer = sasl(&SaslMechanisms { sasl_server_mechanisms: Symbols::of(&["PLAIN"]) });
    let refusal = sasl(&SaslOutcome { code: SaslCode::Auth, additional_data: None });
    let cases = [
        (b"AMQP\0\0\x09\x01".to_vec(), "another protocol"),
        ([header.clone(), offer].concat(), "SCRAM-SHA-256 only"),
        ([header.clone(), plain_offer, refusal].concat(), "refused user or password"),
        ([header, vec![0, 0, 0, 3, 2, 1, 0, 0]].concat(), "broken frame"),
    ];
    for (bytes, text) in cases {
        let mut client = Client::new(plain());
        let mut out = Vec::new();
        client.start(&mut out);
        let error = client.poll(&mut bytes.as_slice(), &mut out).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(!format!("{:?}", plain()).contains("secret"));
}

/// Plays the peer of one sender that gives a little credit and a little window at a time, and
/// returns the messages that it gets.
fn received_in_steps(client: &mut Client, link: LinkId, mut out: Vec<u8>) -> Vec<Vec<u8>> {
    let mut assembly = Assembly::new(usize::MAX);
    let (mut messages, mut transfers) = (Vec::new(), 0);
    for _ in 0..1000 {
        for (performative, payload) in said(&out) {
            let Performative::Transfer(transfer) = performative else { continue };
            transfers += 1;
            if let crate::delivery::Step::Complete(delivery) = assembly.transfer(&transfer, payload).unwrap() {
                assert_eq!(delivery.tag.as_bytes(), (messages.len() as u64 + 1).to_be_bytes());
                messages.push(delivery.message.into_owned());
            }
        }
        if client.waiting() == 0 {
            break;
        }
        out.clear();
        let flow = Flow {
            next_incoming_id: Some(transfers),
            incoming_window: 3,
            delivery_count: Some(messages.len() as u32),
            ..flow(link, 2)
        };
        events(client, &amqp(0, &flow), &mut out);
    }
    messages
}

#[test]
fn messages_wait_for_credit_and_window_and_leave_in_order() {
    let mut client = in_session(0);
    let link = sender(&mut client, "s", 0);
    let messages: Vec<Vec<u8>> = (0..40).map(|number| vec![number as u8; number * 97]).collect();
    let mut out = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let (front, back) = message.split_at(message.len() / 3);
        let number = client.send(link, SendMode::default(), &[front, back], &mut out).unwrap();
        assert_eq!(number, at as u64 + 1);
    }
    assert_eq!((out.len(), client.waiting()), (0, messages.iter().map(Vec::len).sum()));
    assert_eq!(received_in_steps(&mut client, link, out), messages);
}

#[test]
fn an_answer_that_spans_links_is_told_link_by_link() {
    let mut client = in_session(u32::MAX);
    let (one, two) = (sender(&mut client, "one", 10), sender(&mut client, "two", 10));
    let mut out = Vec::new();
    for link in [one, one, two, one] {
        client.send(link, SendMode::default(), &[b"m"], &mut out).unwrap();
    }
    client.send(two, SendMode { settled: true, transaction: None }, &[b"m"], &mut out).unwrap();
    let mut seen = Vec::new();
    for disposition in [answer(1, 1), answer(0, 4), answer(0, 100)] {
        let bytes = amqp(0, &disposition);
        let mut input = bytes.as_slice();
        while let Some(event) = client.poll(&mut input, &mut out).unwrap() {
            let Event::Answered { link, numbers, state } = event else { panic!("{event:?}") };
            assert_eq!(state, Some(DeliveryState::Outcome(Outcome::Accepted)));
            seen.push((link, numbers));
        }
    }
    assert_eq!(seen, [(one, 2..=2), (one, 1..=1), (two, 1..=1), (one, 3..=3)]);
}

#[test]
fn what_a_receiver_leaves_to_us_is_settled() {
    let mut client = in_session(u32::MAX);
    let link = sender(&mut client, "s", 10);
    let mut out = Vec::new();
    for _ in 0..3 {
        client.send(link, SendMode::default(), &[b"m"], &mut out).unwrap();
    }
    out.clear();
    let found = events(&mut client, &amqp(0, &Disposition { settled: false, ..answer(0, 1) }), &mut out);
    assert_eq!(found.len(), 1, "{found:?}");
    let [(Performative::Disposition(ours), _)] = said(&out)[..] else { panic!("{:?}", said(&out)) };
    assert_eq!((ours.role, ours.first, ours.last, ours.settled), (Role::Sender, 0, Some(1), true));
}

#[test]
fn a_sender_gives_its_credit_up_when_it_has_nothing_more() {
    let mut client = in_session(u32::MAX);
    let link = sender(&mut client, "s", 1);
    let mut out = Vec::new();
    for _ in 0..2 {
        client.send(link, SendMode::default(), &[b"m"], &mut out).unwrap();
    }
    out.clear();
    let drain = Flow { drain: true, echo: true, ..flow(link, 5) };
    let found = events(&mut client, &amqp(0, &drain), &mut out);
    assert_eq!(found, [format!("{:?}", Event::Credit { link, credit: 0 })]);
    let frames = said(&out);
    assert!(matches!(frames[0].0, Performative::Transfer(_)), "{frames:?}");
    let Performative::Flow(answer) = &frames[1].0 else { panic!("{frames:?}") };
    assert_eq!((answer.delivery_count, answer.link_credit, answer.drain), (Some(5), Some(0), true));
}

#[test]
fn a_receiver_counts_across_the_end_of_numbers_and_hears_that_it_is_drained() {
    let mut client = in_session(u32::MAX);
    let link = receiver(&mut client);
    let mut out = Vec::new();
    client.grant(link, 5, &mut out).unwrap();
    client.drain(link, &mut out).unwrap();
    let flows = said(&out);
    let Performative::Flow(asked) = &flows[1].0 else { panic!("{flows:?}") };
    assert_eq!((asked.delivery_count, asked.link_credit, asked.drain), (Some(u32::MAX), Some(5), true));
    let transfer = Transfer { handle: 3, delivery_id: Some(0), delivery_tag: Some(b"t"), ..Transfer::default() };
    let found = events(&mut client, &amqp(0, &transfer), &mut out);
    assert!(found[0].starts_with("Delivery"), "{found:?}");
    assert_eq!(client.credit(link).unwrap(), 4);
    let drained =
        Flow { handle: Some(3), delivery_count: Some(4), link_credit: Some(0), drain: true, ..Flow::default() };
    let found = events(&mut client, &amqp(0, &drained), &mut out);
    assert_eq!(found, [format!("{:?}", Event::Drained { link })]);
    assert_eq!(client.credit(link).unwrap(), 0);
}

#[test]
fn the_peer_gets_a_new_window_at_half_of_it() {
    let mut client = in_session(u32::MAX);
    let link = receiver(&mut client);
    let mut out = Vec::new();
    client.grant(link, 10_000, &mut out).unwrap();
    out.clear();
    for id in 0..1024 {
        let transfer = Transfer { handle: 3, delivery_id: Some(id), delivery_tag: Some(b"t"), ..Transfer::default() };
        assert!(out.is_empty(), "after {id} transfers");
        events(&mut client, &amqp(0, &transfer), &mut out);
    }
    let [(Performative::Flow(flow), _)] = &said(&out)[..] else { panic!("{:?}", said(&out)) };
    assert_eq!((flow.next_incoming_id, flow.incoming_window, flow.handle), (Some(1024), 2048, None));
}

#[test]
fn a_refused_link_is_answered_and_its_handle_used_again() {
    let mut client = in_session(u32::MAX);
    let gone = sender(&mut client, "gone", 10);
    let mut out = Vec::new();
    client.send(gone, SendMode::default(), &[b"m"], &mut out).unwrap();
    out.clear();
    let error = crate::codec::Error { condition: crate::codec::Symbol(condition::NOT_FOUND), ..Default::default() };
    let detach = Detach { handle: gone.handle + 10, closed: true, error: Some(error) };
    let found = events(&mut client, &amqp(0, &detach), &mut out);
    assert!(found[0].contains(condition::NOT_FOUND), "{found:?}");
    let [(Performative::Detach(answer), _)] = said(&out)[..] else { panic!("{:?}", said(&out)) };
    assert_eq!((answer.handle, answer.closed), (gone.handle, true));
    assert_eq!(client.credit(gone), Err(ClientError::NoLink(gone.handle)));

    let next = sender(&mut client, "next", 10);
    assert_eq!(next, gone);
    client.send(next, SendMode::default(), &[b"m"], &mut out).unwrap();
    let found = events(&mut client, &amqp(0, &self::answer(0, 1)), &mut out);
    assert_eq!(found.len(), 1, "the answer to the first link's message went to another: {found:?}");
}

#[test]
fn a_close_of_ours_needs_no_second_one() {
    let mut client = in_session(u32::MAX);
    let link = receiver(&mut client);
    let mut out = Vec::new();
    client.close_link(link, &mut out).unwrap();
    client.end(0, &mut out).unwrap();
    client.close(&mut out);
    out.clear();
    let bytes = [
        amqp(0, &Detach { handle: 3, closed: true, error: None }),
        amqp(0, &End::default()),
        amqp(0, &Close::default()),
    ];
    let found = events(&mut client, &bytes.concat(), &mut out);
    let names: Vec<&str> = found.iter().map(|event| event.split(' ').next().unwrap()).collect();
    assert_eq!((names, out.len()), (vec!["Detached", "Ended", "Closed"], 0));
}

#[test]
fn nothing_follows_our_end_of_a_session() {
    let mut client = in_session(u32::MAX);
    let link = sender(&mut client, "s", 0);
    let mut out = Vec::new();
    client.send(link, SendMode::default(), &[b"waits"], &mut out).unwrap();
    client.end(0, &mut out).unwrap();
    out.clear();
    // Sent before the peer has seen our end: credit, a question, and a detach.
    let detach = Detach { handle: link.handle + 10, closed: true, error: None };
    let bytes = [amqp(0, &Flow { echo: true, ..flow(link, 5) }), amqp(0, &detach)].concat();
    assert_eq!(events(&mut client, &bytes, &mut out).len(), 2);
    assert_eq!(said(&out), []);
    assert_eq!(client.send(link, SendMode::default(), &[b"m"], &mut out), Err(ClientError::NoSession(0)));
    events(&mut client, &amqp(0, &End::default()), &mut out);
    client.close(&mut out);
    assert_eq!(said(&out).len(), 1);
}

#[test]
fn transactions_are_asked_for_and_named() {
    let mut client = in_session(u32::MAX);
    let mut out = Vec::new();
    let target = Some(AttachTarget::Coordinator(Coordinator::default()));
    let attach = Attach { name: "c", target, snd_settle_mode: SenderSettleMode::Unsettled, ..Attach::default() };
    let coordinator = client.attach(0, &attach, &mut out).unwrap();
    events(&mut client, &amqp(0, &Attach { role: Role::Receiver, handle: 10, ..attach }), &mut out);
    events(&mut client, &amqp(0, &flow(coordinator, 10)), &mut out);
    let link = sender(&mut client, "s", 10);
    out.clear();
    // Longer than a delivery's tag may be, as Artemis has them.
    let id = [7; 36];
    client.declare(coordinator, &mut out).unwrap();
    let state = Some(DeliveryState::Outcome(Outcome::Declared(Declared { txn_id: &id })));
    let found = events(&mut client, &amqp(0, &Disposition { state, ..answer(0, 0) }), &mut out);
    assert!(found[0].contains("Declared"), "{found:?}");
    client.send(link, SendMode { settled: false, transaction: Some(&id) }, &[b"m"], &mut out).unwrap();
    client.discharge(coordinator, &id, Ending::Rollback, &mut out).unwrap();
    let frames = said(&out);
    let Performative::Transfer(transfer) = &frames[1].0 else { panic!("{frames:?}") };
    let Some(DeliveryState::Transactional(state)) = transfer.state else { panic!("{transfer:?}") };
    assert_eq!((state.txn_id, state.outcome), (&id[..], None));
    let Body::Value(body) = Message::decode(frames[2].1).unwrap().body else { panic!("no value") };
    let CoordinatorRequest::Discharge(discharge) = CoordinatorRequest::decode(body).unwrap() else { panic!() };
    assert_eq!((discharge.txn_id, discharge.fail), (&id[..], true));
    assert!(format!("{:?}", in_transaction(&id, Outcome::Accepted)).contains("Accepted"));
}

#[test]
fn frames_that_fit_nowhere_are_errors() {
    let cases: [(Vec<u8>, &str); 5] = [
        (amqp(0, &Open::default()), "a second open"),
        (amqp(1, &Begin::default()), "a session that was not asked for"),
        (amqp(0, &Attach { name: "x", ..Attach::default() }), "a link that was not asked for"),
        (amqp(0, &Transfer { handle: 99, ..Transfer::default() }), "a link that is not attached"),
        (amqp(9, &End::default()), "no session on channel 9"),
    ];
    for (bytes, text) in cases {
        let mut client = in_session(1);
        let error = client.poll(&mut bytes.as_slice(), &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}
