//! What Linux tells of a process, what lies in a folder, and what a broker counts.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Ticks of the kernel's clock in a second, as it shows them to programs.
pub(super) const TICKS: u64 = 100;
/// The unit in which a file's room is counted.
const SECTOR: u64 = 512;
/// The name and password of a new broker's first user, as HTTP has them, and how long the broker
/// may take for an answer.
const USER: &str = "Z3Vlc3Q6Z3Vlc3Q=";
const PATIENCE: Duration = Duration::from_secs(10);

/// The processor time of a process, in ticks.
pub(super) fn ticks(process: u32) -> Result<u64, String> {
    let text = told(process, "stat")?;
    // The name, which comes second, may hold anything; what follows its bracket is the third field.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> = rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    Ok(fields.get(11).unwrap_or(&0) + fields.get(12).unwrap_or(&0))
}

/// The most memory that a process has had, in bytes.
pub(super) fn peak_resident(process: u32) -> Result<u64, String> {
    Ok(line(&told(process, "status")?, "VmHWM:")? * 1024)
}

/// The memory that a process has now, in bytes.
pub(super) fn resident(process: u32) -> Result<u64, String> {
    Ok(line(&told(process, "status")?, "VmRSS:")? * 1024)
}

/// The bytes that a process has given to write calls.
pub(super) fn written(process: u32) -> Result<u64, String> {
    line(&told(process, "io")?, "wchar:")
}

/// The room that the files below a folder take, in bytes. What goes while it is looked at does not
/// count.
pub(super) fn room_below(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let room = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => room_below(&entry.path()),
        Ok(found) => found.blocks() * SECTOR,
        Err(_) => 0,
    };
    entries.flatten().map(room).sum()
}

/// What a broker says of itself on its port for HTTP: a name and a number on each line.
pub(super) struct Metrics(String);

impl Metrics {
    pub(super) fn of(port: u16) -> Result<Self, String> {
        let mut text = String::new();
        let read = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(
                stream,
                "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {USER}\r\nConnection: close\r\n\r\n"
            )?;
            stream.read_to_string(&mut text)
        });
        read.map(|_| Self(text)).map_err(|error| format!("cannot read the metrics: {error}"))
    }

    pub(super) fn get(&self, name: &str) -> Result<u64, String> {
        line(&self.0, &format!("{name} "))
    }
}

fn told(process: u32, what: &str) -> Result<String, String> {
    let path = format!("/proc/{process}/{what}");
    std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))
}

/// The number behind `name` in a text with a name and a number on each line.
fn line(text: &str, name: &str) -> Result<u64, String> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name));
    let number = rest.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("no number behind {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_memory_and_written() {
        let own = std::process::id();
        let now = resident(own).unwrap();
        assert!(now > 1 << 20 && peak_resident(own).unwrap() >= now);
        assert!(written(own).is_ok() && ticks(own).is_ok());
        assert!(line("a: 1 kB\nb: x\n", "b:").is_err());
        assert_eq!(line("a: 1 kB\nb: 2\n", "a:"), Ok(1));
    }
}
