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
