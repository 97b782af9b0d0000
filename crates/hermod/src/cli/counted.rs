//! Numbers with nouns that agree with them.

/// `number` and the noun, in the singular or the plural: `1 queue`, `0 queues`.
pub(crate) fn counted(number: u64, [one, many]: [&str; 2]) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular() {
        let words = ["queue", "queues"];
        for (number, expected) in [(0, "0 queues"), (1, "1 queue"), (2, "2 queues"), (11, "11 queues")] {
            assert_eq!(counted(number, words), expected);
        }
    }
}
