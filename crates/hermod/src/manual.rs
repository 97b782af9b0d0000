//! The manual of this version, which the build has rendered into the program (`build.rs`).

use management::Document;

/// All its files, in the order of their paths.
pub(crate) static MANUAL: &[Document] = include!(concat!(env!("OUT_DIR"), "/manual.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_is_small_and_in_order() {
        let bytes: usize = MANUAL.iter().map(|document| document.packed.len()).sum();
        assert!(bytes < 1_500_000, "{bytes} bytes");
        assert!(MANUAL.len() > 60 && MANUAL.is_sorted_by_key(|document| document.path));
    }
}
