//! Messages between nodes: one that is taken is written as the same bytes again, and neither side
//! ends in a panic, whatever the other sends.

use nodes::{Event, FORMAT, Frames, Hello, LONGEST_ASKED, NodeId, Receiver, Sender};

/// The input is the bytes of a peer.
pub(super) fn node_messages(input: &[u8]) {
    let mut frames = Frames::new(LONGEST_ASKED);
    frames.push(input);
    while let Ok(Some(message)) = frames.next_message() {
        let mut again = Vec::new();
        message.write(&mut again);
        let mut read = Frames::new(LONGEST_ASKED);
        read.push(&again);
        assert_eq!(read.next_message(), Ok(Some(message)), "the message is another one when it is read again");
    }
    let mut sender = Sender::default();
    sender.receive(input);
    while let Ok(Some(_)) = sender.next_asked() {}
    for copies in [true, false] {
        let (cluster, node) = (NodeId([1; 16]), NodeId([2; 16]));
        let me = Hello { format: FORMAT, cluster, node, term: 1, name: "n".into(), address: String::new() };
        let mut receiver = Receiver::new(&me, 4096, LONGEST_ASKED);
        receiver.receive(input);
        while let Ok(Some(event)) = receiver.next_event() {
            match event {
                Event::Greeted(_) if copies => receiver.copy(1 << 20),
                Event::Greeted(_) => receiver.follow(Vec::new()),
                _ => {}
            }
        }
    }
}
