//! Topic names and topic filters (sections 4.7 and 4.8.2 of MQTT 5).
//!
//! Levels are separated by `/` and may be empty. Nothing is normalised [MQTT-4.7.3-4].

use memchr::memchr2;

use super::violation::Violation;

/// Checks a topic name that is not empty.
#[inline]
pub(super) fn check_name(name: &str) -> Result<(), Violation> {
    if memchr2(b'+', b'#', name.as_bytes()).is_some() { Err(Violation::TopicWildcard) } else { Ok(()) }
}

/// What the filter of a SUBSCRIBE asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter<'a> {
    /// The name of the group that shares the subscription; `None` for one of the session's own.
    pub share: Option<&'a str>,
    /// The filter itself.
    pub filter: &'a str,
}

/// The first level of a shared subscription.
const SHARE: &str = "$share/";
/// The first level of a shared subscription whose group has no name, as EMQX has it.
const QUEUE: &str = "$queue/";

impl<'a> Filter<'a> {
    /// Reads a filter as SUBSCRIBE writes it.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse(written: &'a str) -> Result<Self, Violation> {
        let (share, filter) = if let Some(rest) = written.strip_prefix(SHARE) {
            let (share, filter) = rest.split_once('/').ok_or(Violation::ShareName)?;
            let is_name = !share.is_empty() && memchr2(b'+', b'#', share.as_bytes()).is_none();
            if !is_name || filter.is_empty() {
                return Err(Violation::ShareName);
            }
            (Some(share), filter)
        } else if let Some(filter) = written.strip_prefix(QUEUE) {
            (Some(""), filter)
        } else {
            (None, written)
        };
        check_filter(filter)?;
        Ok(Self { share, filter })
    }
}

fn check_filter(filter: &str) -> Result<(), Violation> {
    if filter.is_empty() {
        return Err(Violation::FilterEmpty);
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        if level.contains('#') && (level != "#" || levels.peek().is_some()) {
            return Err(Violation::FilterHash);
        }
        if level.contains('+') && level != "+" {
            return Err(Violation::FilterPlus);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_the_specification() {
        use Violation::*;
        let own = |filter| Ok(Filter { share: None, filter });
        let shared = |share, filter| Ok(Filter { share: Some(share), filter });
        for (written, read) in [
            ("sport/tennis/player1/#", own("sport/tennis/player1/#")),
            ("#", own("#")),
            ("+", own("+")),
            ("+/tennis/#", own("+/tennis/#")),
            ("/finance", own("/finance")),
            ("a//b", own("a//b")),
            ("$SYS/#", own("$SYS/#")),
            ("$share/g/a/+", shared("g", "a/+")),
            ("$share/g//a", shared("g", "/a")),
            ("$queue/a", shared("", "a")),
            ("$shared/g/a", own("$shared/g/a")),
            ("", Err(FilterEmpty)),
            ("sport/tennis#", Err(FilterHash)),
            ("sport/tennis/#/ranking", Err(FilterHash)),
            ("sport+", Err(FilterPlus)),
            ("a/b+/c", Err(FilterPlus)),
            ("$share/g", Err(ShareName)),
            ("$share//a", Err(ShareName)),
            ("$share/g+/a", Err(ShareName)),
            ("$share/g/", Err(ShareName)),
            ("$share/g/a#", Err(FilterHash)),
            ("$queue/", Err(FilterEmpty)),
        ] {
            assert_eq!(Filter::parse(written), read, "{written}");
        }
    }

    #[test]
    fn names_have_no_wildcards() {
        for (name, checked) in [("a/b", Ok(())), (" ", Ok(())), ("/", Ok(())), ("$a", Ok(()))] {
            assert_eq!(check_name(name), checked);
        }
        for bad in ["a/+", "#", "a#b"] {
            assert_eq!(check_name(bad), Err(Violation::TopicWildcard));
        }
    }
}
