//! Waiting until a socket is ready or a time has come, exact to the nanosecond where the system
//! allows.

use std::net::TcpStream;
use std::time::Duration;

/// What a socket is ready for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready {
    /// Bytes, the end of the stream or an error can be read.
    pub read: bool,
    /// Bytes can be written.
    pub write: bool,
}

/// Waits until one of `sockets` can be read (first flag) or written (second flag), or `time` is
/// over (none: for ever). Fills `ready`, one entry for each socket.
#[cfg(unix)]
pub fn wait_any(
    sockets: &[(&TcpStream, bool, bool)],
    time: Option<Duration>,
    ready: &mut Vec<Ready>,
) -> std::io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut entries: Vec<PollFd<'_>> = Vec::with_capacity(sockets.len());
    for (socket, read, write) in sockets {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, *read);
        flags.set(PollFlags::OUT, *write);
        entries.push(PollFd::new(*socket, flags));
    }
    let time =
        time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) as _ });
    match poll(&mut entries, time.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    ready.clear();
    ready.extend(entries.iter().map(|entry| {
        let got = entry.revents();
        Ready { read: got.intersects(PollFlags::IN | broken), write: got.intersects(PollFlags::OUT | broken) }
    }));
    Ok(())
}

/// Without a way to wait for several sockets: sleeps briefly and calls all of them ready. Sockets
/// must be non-blocking.
#[cfg(not(unix))]
pub fn wait_any(
    sockets: &[(&TcpStream, bool, bool)],
    time: Option<Duration>,
    ready: &mut Vec<Ready>,
) -> std::io::Result<()> {
    const GLANCE: Duration = Duration::from_micros(100);
    std::thread::sleep(time.map_or(GLANCE, |time| time.min(GLANCE)));
    ready.clear();
    ready.extend(sockets.iter().map(|(_, read, write)| Ready { read: *read, write: *write }));
    Ok(())
}

/// Lets this thread wake when its time has come instead of up to 50 µs later (Linux timer slack).
pub fn sharpen_timer() {
    #[cfg(target_os = "linux")]
    {
        // Without it waits are less exact, which the reported lateness shows.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn a_socket_is_ready_when_bytes_are_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        far.set_nonblocking(true).unwrap();
        let mut ready = Vec::new();
        wait_any(&[(&far, false, true)], Some(Duration::from_secs(5)), &mut ready).unwrap();
        assert!(ready[0].write);
        near.write_all(b"x").unwrap();
        wait_any(&[(&far, true, false)], Some(Duration::from_secs(5)), &mut ready).unwrap();
        assert!(ready[0].read);
    }
}
