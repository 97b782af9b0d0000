//! A broker's own counters, read from its Prometheus page before and after the measured time: what
//! it says it did, beside what it was seen to do.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bench_record::failure::{Context, Failure};
use bench_record::machine::Counters;

/// A page that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest page read, in bytes.
const LARGEST: u64 = 8 * 1024 * 1024;

/// Reads the page at `HOST:PORT/PATH`.
pub(crate) fn read(place: &str) -> Result<Counters, Failure> {
    let (host, path) = place.split_once('/').unwrap_or((place, "metrics"));
    let address = host.to_socket_addrs().context(place)?.next();
    let address = address.ok_or_else(|| Failure::new(format!("{place}: no such host")))?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).context(place)?;
    stream.set_read_timeout(Some(PATIENCE)).context(place)?;
    // HTTP/1.0: the page ends with the connection, without chunks.
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\nAccept: text/plain\r\n\r\n");
    // In one piece: a server that answers after its first read and closes would reset the rest.
    stream.write_all(request.as_bytes()).context(place)?;
    let mut page = Vec::new();
    stream.take(LARGEST).read_to_end(&mut page).context(place)?;
    let page = String::from_utf8_lossy(&page);
    match page.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(parse(body)),
        _ => Err(Failure::new(format!("{place}: {}", page.lines().next().unwrap_or("an empty answer")))),
    }
}

/// Sums the samples of each counter (a name that ends in `_total`, `_count` or `_sum`).
fn parse(page: &str) -> Counters {
    let mut counters = Counters::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let behind_labels = line.rsplit_once('}').map_or(&line[name.len()..], |(_, rest)| rest);
        let value = behind_labels.split_whitespace().next().and_then(|value| value.parse::<f64>().ok());
        if let Some(value) = value.filter(|_| ["_total", "_count", "_sum"].iter().any(|end| name.ends_with(end))) {
            *counters.entry(name.to_owned()).or_default() += value;
        }
    }
    counters
}

/// By how much each counter grew; those that did not are left out.
pub(crate) fn growth(before: &Counters, after: &Counters) -> Counters {
    let grown = after.iter().map(|(name, value)| (name.clone(), value - before.get(name).unwrap_or(&0.0)));
    grown.filter(|(_, more)| *more > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const PAGE: &str = "# HELP a_total what\n# TYPE a_total counter\na_total{q=\"x y\"} 3\na_total{q=\"}\"} 4 1700000000\n\
                        depth 9\nflush_seconds_sum 0.25\nflush_seconds_count 2\nbroken_total x\n";

    #[test]
    fn counters_are_summed_over_their_labels_and_gauges_left_out() {
        let counters = parse(PAGE);
        let expected = [("a_total", 7.0), ("flush_seconds_count", 2.0), ("flush_seconds_sum", 0.25)];
        assert_eq!(counters, expected.map(|(name, value)| (name.to_owned(), value)).into());
        let before = Counters::from([("a_total".to_owned(), 5.0), ("flush_seconds_count".to_owned(), 2.0)]);
        let grown = [("a_total", 2.0), ("flush_seconds_sum", 0.25)].map(|(name, value)| (name.to_owned(), value));
        assert_eq!(growth(&before, &counters), grown.into());
    }

    fn answer(text: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(text.as_bytes());
        });
        place
    }

    #[test]
    fn pages_are_read_and_refusals_named() {
        let counters = read(&format!("{}/metrics", answer("HTTP/1.1 200 OK\r\n\r\na_total 1\n"))).unwrap();
        assert_eq!(counters.get("a_total"), Some(&1.0));
        let failure = read(&answer("HTTP/1.1 404 Not Found\r\n\r\n")).unwrap_err().to_string();
        assert!(failure.contains("404 Not Found"), "{failure}");
    }
}
