//! How many TCP segments went over sockets of this process, as the system's own tool `ss` shows
//! them; none where there is no such tool.

use std::process::Command;

/// Segments sent and received over the sockets with these local ports since they were connected.
pub fn segments(ports: &[u16]) -> Option<u64> {
    let output = Command::new("ss").args(["-H", "-t", "-i", "-n", "-O"]).output().ok()?;
    Some(count(&String::from_utf8_lossy(&output.stdout), ports)).filter(|count| *count > 0)
}

/// The sum over the lines whose local port is one of `ports`: each is `STATE RECV SEND LOCAL PEER`
/// and then facts.
fn count(text: &str, ports: &[u16]) -> u64 {
    let of = |line: &str| -> u64 {
        let local = line.split_whitespace().nth(3).and_then(|address| address.rsplit_once(':'));
        let mine = local.and_then(|(_, port)| port.parse().ok()).is_some_and(|port: u16| ports.contains(&port));
        let facts = line.split_whitespace().filter_map(|fact| fact.split_once(':'));
        let segments = facts.filter(|(name, _)| matches!(*name, "segs_out" | "segs_in"));
        if mine { segments.filter_map(|(_, count)| count.parse::<u64>().ok()).sum() } else { 0 }
    };
    text.lines().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sockets_that_were_asked_for_are_counted() {
        let text = "ESTAB 0 0 127.0.0.1:40000 127.0.0.1:5672 cubic rto:204 segs_out:10 segs_in:7 data_segs_out:3\n\
                    ESTAB 0 0 127.0.0.1:5672 127.0.0.1:40000 cubic segs_out:7 segs_in:10\n\
                    ESTAB 0 0 [::1]:40001 [::1]:5672 cubic segs_out:1\n";
        assert_eq!((count(text, &[40000]), count(text, &[40000, 40001]), count(text, &[1])), (17, 18, 0));
        assert_eq!(count("", &[1]), 0);
    }
}
