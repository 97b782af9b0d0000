//! How many files and sockets a process may have open.

use std::fs;

/// Lets this process open as many as the system's administrator allows it: raises the soft limit to
/// the hard one. Returns the limit, or none where there is none or it is not known.
#[cfg(unix)]
pub fn raise() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    // Some systems refuse what they call their own maximum; the old limit stands then.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    getrlimit(Resource::Nofile).current
}

/// Elsewhere there is no such limit.
#[cfg(not(unix))]
pub fn raise() -> Option<u64> {
    None
}

/// How many the process `pid` may open now; none where it is not known.
pub fn of_process(pid: u32) -> Option<u64> {
    parse(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
}

fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_first_number() {
        let text =
            "Limit   Soft Limit  Hard Limit  Units\nMax open files            1024                 4096   files\n";
        assert_eq!(parse(text), Some(1024));
        assert_eq!(parse("Max open files  unlimited unlimited files\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_raised_limit_is_what_the_system_shows() {
        assert_eq!(raise(), of_process(std::process::id()));
    }
}
