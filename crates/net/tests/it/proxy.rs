//! Listeners behind proxies, and listeners with a limit of their own.

use net::Admission;
use wire::Subnet;

use super::*;

fn start_with(admission: Admission) -> (Net, SocketAddr) {
    let net = Net::start(1, Settings::default()).unwrap();
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Nagle::Off).unwrap().with(admission);
    let address = listener.address().unwrap();
    net.serve(listener, &[Arc::new(Toy::default())], None, None).unwrap();
    (net, address)
}

fn behind(network: &str) -> (Net, SocketAddr) {
    start_with(Admission { most: None, proxies: vec![Subnet::parse(network).unwrap()] })
}

fn refused(net: &Net, reason: &str) -> u64 {
    net.registry().refused().find(|(name, _)| *name == reason).unwrap().1
}

#[test]
fn a_connection_is_that_of_the_client_in_the_header() {
    let (net, address) = behind("127.0.0.0/8");
    let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x09\x7f\0\0\x08\x30\x39\x16\x28";
    for (header, remote, local) in [
        (&b"PROXY TCP4 127.0.0.9 127.0.0.8 12345 5672\r\n"[..], "127.0.0.9:12345", Some("127.0.0.8:5672")),
        (binary, "127.0.0.9:12345", Some("127.0.0.8:5672")),
        // The proxy asks for itself.
        (b"PROXY UNKNOWN\r\n", "127.0.0.1", None),
    ] {
        let mut socket = connect(address);
        socket.set_nodelay(true).unwrap();
        // What follows the header comes with its last byte.
        let (first, last) = header.split_at(header.len() - 1);
        for byte in first {
            socket.write_all(&[*byte]).unwrap();
        }
        socket.write_all(&[last, b"echo one\n"].concat()).unwrap();
        expect(&mut socket, b"one\n");
        let listed = net.registry().list().pop().unwrap();
        assert!(listed.remote.to_string().starts_with(remote), "{listed:?}");
        assert_eq!(listed.local, local.map_or(address, |local| local.parse().unwrap()));
        drop(socket);
        until("the end", || net.registry().open() == 0);
    }
    assert_eq!(refused(&net, "proxy_protocol"), 0);
}

#[test]
fn without_a_valid_header_of_a_known_proxy_nothing_is_admitted() {
    let (net, address) = behind("127.0.0.0/8");
    // No header, a malformed one, and none at all.
    for (sent, expected) in [(&b"echo one\n"[..], 1), (b"PROXY TCP4 x y z\r\n", 2), (b"PROXY TCP4", 3)] {
        let mut socket = connect(address);
        socket.write_all(sent).unwrap();
        assert_eq!(drain(&mut socket), 0);
        until("the count", || refused(&net, "proxy_protocol") == expected);
    }
    // A peer that connects and leaves is a health check.
    drop(connect(address));
    assert_eq!((net.registry().opened(), refused(&net, "proxy_protocol")), (0, 3));

    let (net, address) = behind("10.0.0.0/8");
    let mut socket = connect(address);
    let _ = socket.write_all(b"PROXY TCP4 127.0.0.9 127.0.0.8 12345 5672\r\n");
    assert_eq!(drain(&mut socket), 0);
    until("the count", || refused(&net, "proxy_protocol") == 1);
    assert_eq!(net.registry().opened(), 0);
}

#[test]
fn proxies_that_send_no_header_hold_up_the_others_for_a_bounded_time() {
    let (net, address) = behind("127.0.0.0/8");
    let silent: Vec<_> = (0..70).map(|_| connect(address)).collect();
    let mut socket = connect(address);
    socket.write_all(b"PROXY UNKNOWN\r\necho one\n").unwrap();
    expect(&mut socket, b"one\n");
    until("the refusals", || refused(&net, "proxy_protocol") == 70);
    drop(silent);
}

#[test]
fn a_listener_has_no_more_connections_than_it_may() {
    let (net, address) = start_with(Admission { most: Some(2), proxies: Vec::new() });
    let open = || {
        let mut socket = connect(address);
        socket.write_all(b"echo one\n").unwrap();
        expect(&mut socket, b"one\n");
        socket
    };
    let (first, _second) = (open(), open());
    assert_eq!(drain(&mut connect(address)), 0);
    assert_eq!(refused(&net, "listener"), 1);
    drop(first);
    until("a free place", || net.registry().open() == 1);
    // The place is given back right after the connection has left the list.
    until("another connection", || {
        let mut socket = connect(address);
        let _ = socket.write_all(b"echo two\n");
        socket.read(&mut [0; 4]).is_ok_and(|count| count > 0)
    });
}
