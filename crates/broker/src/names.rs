//! The names that the broker generates for queues, consumers, reply addresses and sessions.
//!
//! Invariant: no set of names tells anything about another name. Each is a part of its own of
//! ChaCha20's key stream, under a key that never leaves the process. So a name is also the right to
//! use the thing it names.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// Random bytes in a name, and in each part of an address: too many to find one by trying.
const BYTES: usize = 16;

/// The characters of a name behind its prefix.
const NAME: usize = 22;

/// The end of each address.
const ADDRESS_END: &str = "==";

/// Whether a text has the form of an address, whatever it begins with.
pub(crate) fn may_be_address(text: &str) -> bool {
    text.len() > 2 * NAME + ADDRESS_END.len() && text.ends_with(ADDRESS_END)
}

/// The generator. It takes no lock and makes no system call. A name costs one addition on a counter
/// that cores share.
pub(crate) struct NameGenerator {
    key: [u8; 32],
    /// The number of names so far; each has a stream of its own.
    given: AtomicU64,
}

impl NameGenerator {
    /// With the same key come the same names, in the same order: simulations replay.
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self { key, given: AtomicU64::new(0) }
    }

    /// `prefix` and 22 characters of URL-safe base 64.
    pub(crate) fn name(&self, prefix: &str) -> String {
        let mut name = String::with_capacity(prefix.len() + NAME);
        name.push_str(prefix);
        URL_SAFE_NO_PAD.encode_string(self.random::<BYTES>(), &mut name);
        name
    }

    /// `prefix` and two such parts with a dot between them, the second one padded: clients match
    /// this form.
    pub(crate) fn address(&self, prefix: &str) -> String {
        let mut address = self.name(prefix);
        address.push('.');
        URL_SAFE.encode_string(self.random::<BYTES>(), &mut address);
        address
    }

    fn random<const N: usize>(&self) -> [u8; N] {
        let mut generator = ChaCha20Rng::from_seed(self.key);
        generator.set_stream(self.given.fetch_add(1, Ordering::Relaxed));
        let mut bytes = [0; N];
        generator.fill_bytes(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_have_their_form_and_differ() {
        let names = NameGenerator::new([3; 32]);
        let is_part = |part: &str| {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            part.len() == NAME && part.bytes().all(legal)
        };
        let mut seen = BTreeSet::new();
        for _ in 0..1000 {
            let name = names.name("amq.gen-");
            assert!(name.strip_prefix("amq.gen-").is_some_and(is_part), "{name}");
            assert!(!may_be_address(&name) && seen.insert(name));
            let address = names.address("to.");
            let parts = address.strip_prefix("to.").and_then(|rest| rest.strip_suffix(ADDRESS_END)?.split_once('.'));
            assert!(parts.is_some_and(|(one, other)| is_part(one) && is_part(other) && one != other), "{address}");
            assert!(may_be_address(&address) && seen.insert(address));
        }
    }

    #[test]
    fn the_key_alone_decides_which_names_there_are() {
        let first =
            |key| (0..50).map(|_| key).map(NameGenerator::new).map(|names| names.name("")).collect::<BTreeSet<_>>();
        assert_eq!(first([1; 32]).len(), 1);
        let mut other = [1; 32];
        other[31] = 2;
        assert!(first([1; 32]).is_disjoint(&first(other)));
    }

    /// The key streams of key 0 with the nonces 0 and 1, as in the cipher's first test vectors.
    #[test]
    fn names_are_the_key_stream_of_chacha20() {
        let names = NameGenerator::new([0; 32]);
        assert_eq!(names.name("n-"), "n-drjgraDxPZBAXWrlU4a9KA");
        assert_eq!(names.name("n-"), "n-7z_f1sYVePv1zzW9PdM7gA");
    }
}
