//! The end of a connection whose last word is said: the peer ends it, and until then nothing
//! reaches it that would keep it from reading what was sent before.

use super::*;

/// A socket whose last answer has come: `linger` is how long its peer may take.
fn answered(linger: Duration, toy: &Toy) -> (Net, TcpStream) {
    let (net, address) = start(Settings { linger, ..Settings::default() }, std::slice::from_ref(toy));
    let mut socket = connect(address);
    // It is known from here on.
    socket.write_all(b"echo in\n").unwrap();
    expect(&mut socket, b"in\n");
    socket.write_all(b"answer\n").unwrap();
    (net, socket)
}

/// No end has come, nor anything else.
fn assert_open(socket: &mut TcpStream) {
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let error = socket.read(&mut [0]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    socket.set_read_timeout(Some(HANG)).unwrap();
}

#[test]
fn the_peer_ends_a_connection_that_is_answered() {
    let toy = Toy::default();
    let (net, mut socket) = answered(HANG, &toy);
    expect(&mut socket, b"bye\n");
    // The broker's side is over, but the socket counts.
    until("the end of the protocol", || toy.saw("Gone") == 1);
    assert_open(&mut socket);
    assert_eq!(net.registry().open(), 1);
    // What crosses the last answer is discarded, however much it is.
    socket.write_all(&vec![b'x'; 8 << 20]).unwrap();
    assert_open(&mut socket);
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0, "an end, and no reset");
    until("an empty registry", || net.registry().open() == 0);
}

/// A reset would take from the peer what its kernel still holds for it.
#[test]
fn what_was_sent_before_the_last_answer_is_read_though_the_peer_sends_on() {
    let (_net, address) = start(Settings { linger: HANG, ..Settings::default() }, &[Toy::default()]);
    let mut socket = connect(address);
    socket.write_all(b"flood 300000\n").unwrap();
    let mut first = [0];
    socket.read_exact(&mut first).unwrap();
    socket.write_all(b"answer\nack\nack\n").unwrap();
    socket.write_all(&vec![b'a'; 1 << 20]).unwrap();
    let mut rest = vec![0; 299_999 + 4];
    socket.read_exact(&mut rest).unwrap();
    assert!(rest.ends_with(b"bye\n"));
}

#[test]
fn a_peer_that_does_not_end_it_is_ended_in_time() {
    let (net, mut socket) = answered(Duration::from_millis(50), &Toy::default());
    assert_eq!(drain_to_end(&mut socket), 4);
    // It does not close after that either.
    until("an empty registry", || net.registry().open() == 0);
}

#[test]
fn a_stranger_has_little_time() {
    let settings = Settings { linger: HANG * 10, ..Settings::default() };
    let (net, address) = start(settings, &[Toy { strict: true, ..Toy::default() }]);
    let mut stranger = connect(address);
    stranger.write_all(b"answer\n").unwrap();
    assert_eq!(drain_to_end(&mut stranger), 4);
    until("an empty registry", || net.registry().open() == 0);
}

#[test]
fn a_server_that_goes_down_does_not_wait_for_those_who_were_answered() {
    let (net, mut socket) = answered(HANG * 10, &Toy::default());
    expect(&mut socket, b"bye\n");
    let server = std::thread::spawn(move || net.shutdown(HANG));
    assert_eq!(drain_to_end(&mut socket), 0);
    drop(socket);
    assert_eq!(server.join().unwrap(), 0, "nothing had to be cut");
}

/// Reads to the end, which must not be a reset.
fn drain_to_end(socket: &mut TcpStream) -> usize {
    let mut received = Vec::new();
    socket.read_to_end(&mut received).unwrap()
}
