//! Real sockets on loopback, driven by a protocol made for misbehaving.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a failed test")]

mod any;
mod aside;
mod linger;
mod long;
mod proxy;
mod tls;
mod toy;
mod web;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use net::{Listener, Nagle, Net, Settings};
use wire::Protocol;

use crate::toy::Toy;

/// Nothing here takes longer unless it hangs.
const HANG: Duration = Duration::from_secs(20);

fn start(settings: Settings, protocols: &[Toy]) -> (Net, SocketAddr) {
    start_on(1, settings, protocols)
}

fn start_on(io_threads: usize, settings: Settings, protocols: &[Toy]) -> (Net, SocketAddr) {
    let net = Net::start(io_threads, settings).unwrap();
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Nagle::Off).unwrap();
    let address = listener.address().unwrap();
    let protocols: Vec<Arc<dyn Protocol>> = protocols.iter().map(|toy| Arc::new(toy.clone()) as _).collect();
    net.serve(listener, &protocols, None, None).unwrap();
    (net, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    socket.set_write_timeout(Some(HANG)).unwrap();
    socket
}

fn expect(socket: &mut TcpStream, expected: &[u8]) {
    let mut received = vec![0; expected.len()];
    socket.read_exact(&mut received).unwrap();
    assert_eq!(String::from_utf8_lossy(&received), String::from_utf8_lossy(expected));
}

/// Reads to the end, which may be a reset; returns how many bytes came.
fn drain(socket: &mut TcpStream) -> usize {
    let mut total = 0;
    let mut buffer = vec![0; 65536];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return total,
            Ok(count) => total += count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return total,
            Err(error) => panic!("after {total} bytes: {error}"),
        }
    }
}

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let start = Instant::now();
    while !reached() {
        assert!(start.elapsed() < HANG, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn lines_come_back_whole_however_they_are_cut() {
    for io_threads in [1, 2] {
        let (net, address) = start_on(io_threads, Settings::default(), &[Toy::default()]);
        let mut socket = connect(address);
        socket.set_nodelay(true).unwrap();
        for byte in b"echo one\necho two\n" {
            socket.write_all(&[*byte]).unwrap();
        }
        expect(&mut socket, b"one\ntwo\n");
        let many: String = (0..20_000).map(|i| format!("echo {i}\n")).collect();
        let expected: String = (0..20_000).map(|i| format!("{i}\n")).collect();
        let mut writer = socket.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || writer.write_all(many.as_bytes()).unwrap());
            expect(&mut socket, expected.as_bytes());
        });
        let shown = net.registry().list();
        assert_eq!(shown.len(), 1);
        assert_eq!((shown[0].protocol, shown[0].remote), ("toy", socket.local_addr().unwrap()));
        let sent = expected.len() as u64 + 8;
        until("all bytes counted", || net.registry().list()[0].bytes_out == sent);
        assert!(net.registry().list()[0].bytes_in > sent);
        drop(socket);
        until("an empty registry", || net.registry().open() == 0);
        assert_eq!(net.shutdown(HANG), 0);
    }
}

#[test]
fn a_connection_rests_once_after_its_traffic_and_goes_on_after_that() {
    let toy = Toy::default();
    let (_net, address) = start(Settings::default(), std::slice::from_ref(&toy));
    let mut socket = connect(address);
    for times in [1, 2] {
        socket.write_all(b"echo on\n").unwrap();
        expect(&mut socket, b"on\n");
        until("a rest", || toy.rested.load(Ordering::SeqCst) == times);
    }
}

#[test]
fn what_a_paused_connection_left_is_offered_again_after_a_wake_from_another_thread() {
    let toy = Toy::default();
    let (_net, address) = start(Settings::default(), std::slice::from_ref(&toy));
    let mut socket = connect(address);
    socket.write_all(b"echo before\npause\necho after\n").unwrap();
    expect(&mut socket, b"before\n");
    // Not resumed yet: the wake finds the connection as paused as before.
    toy.wakers.lock()[0].wake_by_ref();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(socket.read(&mut [0]).is_err());
    socket.set_read_timeout(Some(HANG)).unwrap();
    toy.resume.store(true, Ordering::SeqCst);
    let waker = toy.wakers.lock()[0].clone();
    std::thread::spawn(move || waker.wake()).join().unwrap();
    expect(&mut socket, b"after\n");
    assert_eq!(toy.saw("resumed"), 1);
}

#[test]
fn a_mailbox_that_is_drained_in_parts_is_drained_to_its_end_also_when_the_socket_is_full() {
    let toy = Toy::default();
    let (_net, address) = start(Settings::default(), std::slice::from_ref(&toy));
    let mut socket = connect(address);
    let total = 20 * 1024 * 1024;
    // More than the kernel holds: the output stalls until it is read. What comes in is read
    // meanwhile.
    socket.write_all(format!("flood {total}\ntick 100\n").as_bytes()).unwrap();
    until("a tick", || toy.saw("tick") == 1);
    socket.write_all(b"tick 1\n").unwrap();
    until("a tick while output waits", || toy.saw("tick") == 2);
    let mut received = vec![0; total + 2 * b"tick\n".len()];
    socket.read_exact(&mut received).unwrap();
    assert_eq!(received.iter().filter(|byte| **byte == b'x').count(), total);
}

#[test]
fn a_peer_that_reads_nothing_is_closed_after_the_write_timeout_and_others_are_not() {
    let toy = Toy::default();
    let settings = Settings { write_timeout: Duration::from_millis(200), ..Settings::default() };
    let (net, address) = start(settings, std::slice::from_ref(&toy));
    let mut healthy = connect(address);
    let mut slow = connect(address);
    slow.write_all(format!("flood {}\n", 64 * 1024 * 1024).as_bytes()).unwrap();
    until("the end of the slow one", || toy.saw("Gone") == 1 && net.registry().open() == 1);
    healthy.write_all(b"echo alive\n").unwrap();
    expect(&mut healthy, b"alive\n");
    assert!(drain(&mut slow) < 64 * 1024 * 1024);
}

/// An orderly end would wait behind the output that the peer does not read.
#[test]
fn a_peer_that_is_given_up_or_reads_nothing_learns_it_by_a_reset() {
    let settings = Settings { write_timeout: Duration::from_millis(200), ..Settings::default() };
    let toy = Toy::default();
    let (net, address) = start(settings, std::slice::from_ref(&toy));
    for order in ["give-up\n", ""] {
        let mut socket = connect(address);
        socket.write_all(format!("flood {}\n{order}", 64 * 1024 * 1024).as_bytes()).unwrap();
        until("its end", || toy.saw("Gone") == 1 && net.registry().open() == 0);
        toy.seen.lock().clear();
        let mut buffer = vec![0; 65536];
        let end = loop {
            match socket.read(&mut buffer) {
                Ok(0) => break None,
                Ok(_) => {}
                Err(error) => break Some(error.kind()),
            }
        };
        assert_eq!(end, Some(ErrorKind::ConnectionReset), "{order:?}");
    }
}

#[test]
fn deadlines_are_kept_and_may_move_forward() {
    let (_net, address) = start(Settings::default(), &[Toy::default()]);
    let mut socket = connect(address);
    socket.write_all(b"tick 20\n").unwrap();
    expect(&mut socket, b"tick\n");
    socket.write_all(b"tick 5000000\ntick 10\n").unwrap();
    expect(&mut socket, b"tick\n");
}

#[test]
fn a_panic_ends_its_own_connection_only() {
    let toy = Toy::default();
    let (net, address) = start(Settings::default(), std::slice::from_ref(&toy));
    let mut healthy = connect(address);
    let mut doomed = connect(address);
    doomed.write_all(b"panic\n").unwrap();
    assert_eq!(drain(&mut doomed), 0);
    healthy.write_all(b"echo alive\n").unwrap();
    expect(&mut healthy, b"alive\n");
    until("the end of the doomed one", || net.registry().open() == 1);
    assert_eq!(toy.saw("Gone"), 1);
}

#[test]
fn the_last_words_arrive_although_the_peer_goes_on_sending() {
    let toy = Toy::default();
    let (net, address) = start(Settings::default(), std::slice::from_ref(&toy));
    for _ in 0..20 {
        let mut socket = connect(address);
        socket.write_all(format!("quit\n{}", "echo never\n".repeat(2000)).as_bytes()).unwrap();
        expect(&mut socket, b"bye\n");
        assert_eq!(drain(&mut socket), 0);
    }
    until("an empty registry", || net.registry().open() == 0);
    assert_eq!(toy.saw("Gone"), 20);
}

#[test]
fn a_unit_larger_than_a_turn_is_collected_and_one_past_the_limit_ends_the_connection() {
    let settings = Settings { input_limit: 1024 * 1024, ..Settings::default() };
    let (_net, address) = start(settings, &[Toy::default()]);
    let mut socket = connect(address);
    let unit = vec![b'y'; 1_000_000];
    socket.write_all(b"whole 1000000\n").unwrap();
    socket.write_all(&unit).unwrap();
    expect(&mut socket, b"1000000\n");
    socket.write_all(b"whole 2000000\n").unwrap();
    // The server may end it while it is being written.
    let _ = socket.write_all(&unit).and_then(|()| socket.write_all(&unit));
    assert_eq!(drain(&mut socket), 0);
}

#[test]
fn one_port_serves_two_protocols_and_the_first_answers_strangers() {
    let toy = Toy::default();
    let opening = Toy { opening: b"OPEN", ..Toy::default() };
    let settings = Settings { detect_timeout: Duration::from_millis(300), ..Settings::default() };
    let (net, address) = start(settings, &[opening, Toy { opening: b"LATER", ..toy }]);
    let mut second = connect(address);
    for byte in b"LATER" {
        second.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    expect(&mut second, b"LATER");
    let mut stranger = connect(address);
    stranger.write_all(b"echo").unwrap();
    expect(&mut stranger, b"OPEN");
    stranger.write_all(b" hello\n").unwrap();
    expect(&mut stranger, b"hello\n");
    assert!(net.registry().list().iter().all(|connection| connection.protocol == "opening"));
    // One that never says what it wants is closed.
    let mut silent = connect(address);
    silent.write_all(b"OP").unwrap();
    assert_eq!(drain(&mut silent), 0);
}

#[test]
fn more_connections_than_allowed_are_refused_and_a_closed_one_makes_room() {
    let (net, address) = start(Settings { connections: 1, ..Settings::default() }, &[Toy::default()]);
    let mut first = connect(address);
    first.write_all(b"echo in\n").unwrap();
    expect(&mut first, b"in\n");
    assert_eq!(drain(&mut connect(address)), 0);
    assert!(net.registry().refused().any(|refused| refused == ("connections", 1)));
    drop(first);
    until("room", || net.registry().open() == 0);
    let mut next = connect(address);
    next.write_all(b"echo in\n").unwrap();
    expect(&mut next, b"in\n");
}

#[test]
fn strangers_are_few_per_address_until_they_log_in() {
    let settings = Settings { pending_per_address: 2, ..Settings::default() };
    let (net, address) = start(settings, &[Toy { strict: true, ..Toy::default() }]);
    let mut known = connect(address);
    known.write_all(b"echo hello\nlogin\necho in\n").unwrap();
    expect(&mut known, b"hello\nin\n");
    let mut strangers = [connect(address), connect(address)];
    for stranger in &mut strangers {
        stranger.write_all(b"echo hello\n").unwrap();
        expect(stranger, b"hello\n");
    }
    assert_eq!(drain(&mut connect(address)), 0);
    assert!(net.registry().refused().any(|refused| refused == ("pending_per_address", 1)));
    strangers[0].write_all(b"login\necho in\n").unwrap();
    expect(&mut strangers[0], b"in\n");
    let mut next = connect(address);
    next.write_all(b"echo hello\n").unwrap();
    expect(&mut next, b"hello\n");
}

#[test]
fn an_operator_closes_one_connection_with_an_explanation() {
    let toy = Toy::default();
    let (net, address) = start(Settings::default(), std::slice::from_ref(&toy));
    let mut socket = connect(address);
    until("a connection", || net.registry().list().first().is_some_and(|connection| connection.protocol == "toy"));
    let id = net.registry().list()[0].id;
    assert!(net.registry().close(id, "maintenance"));
    expect(&mut socket, b"closing\n");
    assert_eq!(drain(&mut socket), 0);
    assert_eq!(toy.saw("Forced(\"maintenance\")"), 1);
    until("an empty registry", || net.registry().open() == 0);
    assert!(!net.registry().close(id, "again"));
}

#[test]
fn shutdown_says_goodbye_to_the_polite_and_cuts_the_stubborn() {
    for (stubborn, cut) in [(false, 0), (true, 3)] {
        let toy = Toy { stubborn, ..Toy::default() };
        let (net, address) = start(Settings::default(), std::slice::from_ref(&toy));
        let mut sockets = [(); 3].map(|()| connect(address));
        until("three connections", || net.registry().list().iter().filter(|c| c.protocol == "toy").count() == 3);
        let server = std::thread::spawn(move || net.shutdown(Duration::from_millis(if stubborn { 100 } else { 5000 })));
        for socket in &mut sockets {
            assert_eq!(drain(socket), if stubborn { 0 } else { b"closing\n".len() });
        }
        drop(sockets);
        assert_eq!(server.join().unwrap(), cut);
        assert_eq!((toy.saw("Shutdown"), toy.saw("Gone")), (3, 3));
        assert!(TcpStream::connect(address).is_err(), "nothing listens any more");
    }
}
