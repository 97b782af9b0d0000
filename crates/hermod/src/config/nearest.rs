//! Finds the name that a misspelt one was probably meant to be.

/// The one of `names` that is closest to `wrong`, if any is close.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_ascii_lowercase();
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    names
        .map(|name| {
            let right = name.to_ascii_lowercase();
            // The right name in the wrong table is more likely than many wrong letters.
            let distance = if last(&right) == last(&wrong) { 1 } else { distance(&wrong, &right) };
            (distance, name)
        })
        .filter(|(distance, name)| *distance <= name.len() / 3 + 1)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Levenshtein distance: the insertions, removals and replacements that turn one word into the
/// other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_name_and_nonsense_finds_none() {
        let names = ["limits.frame_max", "limits.channel_max", "data_dir", "tcp.nodelay", "log.level"];
        for (wrong, expected) in [
            ("limits.framemax", Some("limits.frame_max")),
            ("limit.frame_max", Some("limits.frame_max")),
            ("frame_max", Some("limits.frame_max")),
            ("data-dir", Some("data_dir")),
            ("DATA_DIR", Some("data_dir")),
            ("amqp.nodelay", Some("tcp.nodelay")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, names.into_iter()), expected, "{wrong}");
        }
    }

    #[test]
    fn case_does_not_count() {
        assert_eq!(nearest("DATADIR", ["DATA_DIR"].into_iter()), Some("DATA_DIR"));
    }

    #[test]
    fn distances() {
        for (left, right, expected) in
            [("", "", 0), ("a", "", 1), ("", "abc", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(distance(left, right), expected, "{left} {right}");
        }
    }
}
