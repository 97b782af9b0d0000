//! The client in conversations with a server whose bytes are written out.

use super::*;
use crate::codec::HeartBeat;

fn client() -> Client {
    Client::new(Limits::default())
}

fn sent(client: &mut Client) -> String {
    String::from_utf8(client.requests().output().take()).unwrap()
}

fn connected(version: &str) -> Client {
    let mut client = client();
    let answer = format!("CONNECTED\nversion:{version}\n\n\0");
    assert_eq!(client.feed(answer.as_bytes(), |_, _| ()), Ok(answer.len()));
    client
}

#[test]
fn connect_offers_versions_and_reads_the_answer() {
    let mut client = client();
    client.requests().connect(&Connect {
        login: Some("guest"),
        passcode: Some("a:b"),
        heart_beat: HeartBeat { send: 1, receive: 2 },
        headers: &[("client-id", "x")],
        ..Connect::default()
    });
    assert_eq!(
        sent(&mut client),
        "CONNECT\naccept-version:1.0,1.1,1.2\nhost:/\nheart-beat:1,2\nlogin:guest\npasscode:a:b\nclient-id:x\n\n\0"
    );
    let answer = b"CONNECTED\nversion:1.2\nserver:Hermod/0.1\nheart-beat:0,5\n\n\0";
    let mut seen = 0;
    let done = client.feed(answer, |event, _| {
        let Event::Connected(connected) = event else { unreachable!("{event:?}") };
        assert_eq!(connected.server().unwrap(), "Hermod/0.1");
        assert_eq!(connected.heart_beat(), HeartBeat { send: 0, receive: 5 });
        seen += 1;
    });
    assert_eq!((done, seen, client.version()), (Ok(answer.len()), 1, Version::V1_2));
}

#[test]
fn a_delivery_is_settled_in_the_words_of_its_version() {
    let body = "subscription:s\nmessage-id:m\\c1\ndestination:/queue/a\n\nhi\0";
    for (version, ack, expected) in [
        ("1.2", "ack:k\\c1\n", "ACK\nid:k\\c1\ntransaction:t\nreceipt:r\n\n\0"),
        ("1.1", "", "ACK\nmessage-id:m\\c1\nsubscription:s\ntransaction:t\nreceipt:r\n\n\0"),
        ("1.0", "", "ACK\nmessage-id:m\\c1\nsubscription:s\ntransaction:t\nreceipt:r\n\n\0"),
    ] {
        let mut client = connected(version);
        let bytes = format!("MESSAGE\n{ack}{body}");
        let mut kept = None;
        client
            .feed(bytes.as_bytes(), |event, requests| {
                let Event::Message(message) = event else { unreachable!("{event:?}") };
                assert_eq!(message.body(), b"hi");
                let id = message.ack_id().unwrap();
                let settle = Settle { transaction: Some("t"), receipt: Some("r"), ..Settle::default() };
                requests.ack(&id, &settle);
                kept = Some(id.into_owned());
            })
            .unwrap();
        assert_eq!(sent(&mut client), expected);
        client.requests().nack(&kept.unwrap(), &Settle { headers: &[("requeue", "false")], ..Settle::default() });
        assert!(sent(&mut client).ends_with("requeue:false\n\n\0"));
    }
}

#[test]
fn every_request_is_one_frame() {
    let mut client = connected("1.2");
    let send = Send {
        destination: "/queue/a:b",
        receipt: Some("r1"),
        transaction: Some("t"),
        headers: &[("persistent", "true")],
        text: false,
    };
    let requests = client.requests();
    requests.send(&send, b"hi");
    requests.send(&Send { destination: "/queue/a", text: true, ..Send::default() }, b"hi");
    requests.subscribe(&Subscribe {
        id: "s",
        destination: "/queue/a",
        ack: AckMode::ClientIndividual,
        receipt: None,
        headers: &[("prefetch-count", "10")],
    });
    requests.unsubscribe("s", Some("r2"));
    requests.begin("t", None);
    requests.commit("t", Some("r3"));
    requests.abort("t", None);
    requests.heart_beat();
    requests.disconnect(Some("r4"));
    assert_eq!(
        sent(&mut client),
        concat!(
            "SEND\ndestination:/queue/a\\cb\nreceipt:r1\ntransaction:t\npersistent:true\ncontent-length:2\n\nhi\0",
            "SEND\ndestination:/queue/a\n\nhi\0",
            "SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client-individual\nprefetch-count:10\n\n\0",
            "UNSUBSCRIBE\nid:s\nreceipt:r2\n\n\0",
            "BEGIN\ntransaction:t\n\n\0",
            "COMMIT\ntransaction:t\nreceipt:r3\n\n\0",
            "ABORT\ntransaction:t\n\n\0",
            "\n",
            "DISCONNECT\nreceipt:r4\n\n\0",
        )
    );
}

#[test]
fn receipts_and_errors_arrive_in_any_pieces() {
    let bytes = b"\nRECEIPT\nreceipt-id:7\n\n\0\nERROR\nmessage:no\nreceipt-id:8\n\nwhy\0";
    for cut in 0..bytes.len() {
        let mut client = connected("1.2");
        let mut seen = Vec::new();
        let mut note = |event: Event<'_>, _: &mut Requests| match event {
            Event::Receipt(id) => seen.push(id.into_owned()),
            Event::Error(error) => {
                let receipt = error.receipt().unwrap();
                seen.push(format!("{} {} {receipt}", error.message(), error.detail()));
            }
            other => unreachable!("{other:?}"),
        };
        let done = client.feed(&bytes[..cut], &mut note).unwrap();
        client.feed(&bytes[done..], &mut note).unwrap();
        assert_eq!(seen, ["7", "no why 8"]);
    }
}

#[test]
fn what_no_server_says_is_refused() {
    for (bytes, error) in [
        ("SEND\n\n\0", ClientError::UnexpectedCommand(Command::Send)),
        ("CONNECTED\nversion:9\n\n\0", ClientError::UnknownVersion("9".into())),
        ("x\n", ClientError::Frame(FrameError::UnknownCommand("x".into()))),
    ] {
        assert!(!error.to_string().is_empty());
        assert_eq!(client().feed(bytes.as_bytes(), |_, _| ()), Err(error));
    }
}
