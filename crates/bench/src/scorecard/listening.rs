//! The ports on which a broker listens, as the system tells: the sockets that its processes hold.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use machine::process::descendants;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Where the processes of `roots` and all below them listen, by port; nothing where the system does
/// not tell.
pub(super) fn addresses(roots: &[u32]) -> Vec<SocketAddr> {
    let pids = descendants(roots);
    let held: HashSet<String> = pids.iter().flat_map(|pid| sockets(*pid)).collect();
    let tables = pids.first().into_iter().flat_map(|pid| ["tcp", "tcp6"].map(|name| format!("/proc/{pid}/net/{name}")));
    let texts = tables.filter_map(|path| fs::read_to_string(path).ok());
    let mut found: Vec<SocketAddr> = texts.flat_map(|text| listeners(&text, &held)).collect();
    found.sort_by_key(|address| (address.port(), address.is_ipv6()));
    found.dedup_by_key(|address| address.port());
    found
}

/// Numbers of the sockets that a process holds.
fn sockets(pid: u32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    targets
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect()
}

/// The listening sockets of a table that are among `held`. One on every address is reached by
/// loopback.
fn listeners(table: &str, held: &HashSet<String>) -> Vec<SocketAddr> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (*fields.get(1)?, *fields.get(3)?, *fields.get(9)?);
        if state != LISTEN || !held.contains(inode) {
            return None;
        }
        let (ip, port) = local.split_once(':')?;
        Some(SocketAddr::new(reachable(ip)?, u16::from_str_radix(port, 16).ok()?))
    };
    table.lines().skip(1).filter_map(line).collect()
}

/// An address of the table, words in the byte order of the machine.
fn reachable(hex: &str) -> Option<IpAddr> {
    let words: Vec<u32> = (0..hex.len() / 8)
        .map(|at| u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok())
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let ip = match *bytes.as_slice() {
        [a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        ref sixteen => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(sixteen).ok()?)),
    };
    Some(match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
        ip => ip,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn our_own_listeners_are_found() {
        let (one, two) =
            (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), std::net::TcpListener::bind("0.0.0.0:0").unwrap());
        let found = addresses(&[std::process::id()]);
        assert!(found.contains(&one.local_addr().unwrap()));
        let everywhere = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), two.local_addr().unwrap().port());
        assert!(found.contains(&everywhere));
        drop(one);
        assert!(addresses(&[u32::MAX]).is_empty());
    }
}
