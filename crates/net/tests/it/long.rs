//! What holds up others is counted and told.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;

/// What the log has been told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl io::Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log of all tests here: the threads of the sockets belong to none of them.
fn log() -> Told {
    let told = Told::default();
    let writer = told.clone();
    tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
    told
}

#[test]
fn who_holds_up_others_is_named_in_the_log() {
    let told = log();
    let (net, address) = start(Settings::default(), &[Toy::default()]);
    let mut socket = connect(address);
    socket.write_all(b"echo in\n").unwrap();
    expect(&mut socket, b"in\n");
    // Longer than what is told from, whatever else the machine does.
    socket.write_all(b"busy 150\necho done\n").unwrap();
    expect(&mut socket, b"done\n");
    until("the count", || net.registry().long_turns() > 0);
    let peer = socket.local_addr().unwrap();
    let named = format!("peer={peer} protocol=\"toy\" user=\"unknown\" vhost=\"toys\" last=\"busy\" milliseconds=");
    until("its line", || String::from_utf8_lossy(&told.0.lock()).contains(&named));
}

/// With one thread a connection that always has more to do was once run 61 times in a row before
/// anybody else's socket was looked at.
#[test]
fn who_always_has_more_to_do_lets_others_in_between() {
    let (_net, address) = start_on(1, Settings::default(), &[Toy::default()]);
    let (mut busy, mut other) = (connect(address), connect(address));
    for socket in [&mut busy, &mut other] {
        socket.write_all(b"echo in\n").unwrap();
        expect(socket, b"in\n");
    }
    busy.write_all(&[&b"echo begun\n"[..], &b"busy 40\n".repeat(50), b"echo done\n"].concat()).unwrap();
    expect(&mut busy, b"begun\n");
    other.write_all(b"echo now\n").unwrap();
    expect(&mut other, b"now\n");
    busy.set_nonblocking(true).unwrap();
    let said = busy.read(&mut [0; 8]).map_err(|error| error.kind());
    assert_eq!(said, Err(ErrorKind::WouldBlock), "the other one was answered behind all that is to be done");
}
