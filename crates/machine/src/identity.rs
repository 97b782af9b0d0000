//! Which build of a program it is. Versions do not change with each build, and figures of two
//! builds are not figures of one thing.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crc_fast::crc32_iscsi;

use bench_record::failure::{Context, Failure};

/// A name for the contents of the program at `path`: other contents have another one.
pub fn build_of(path: &Path) -> Result<String, Failure> {
    Ok(format!("{:08x}", crc32_iscsi(&fs::read(path).context(path.display())?)))
}

/// The name of this very program, as it was when it was first asked for; empty where the system
/// does not say which file it is.
pub fn own_build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| std::env::current_exe().ok().and_then(|path| build_of(&path).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_contents_have_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let name = |contents: &str| {
            let path = dir.path().join("program");
            fs::write(&path, contents).unwrap();
            build_of(&path).unwrap()
        };
        assert_eq!((name("one").len(), name("one") == name("one"), name("one") == name("two")), (8, true, false));
        assert!(build_of(&dir.path().join("none")).is_err());
        assert!(!own_build().is_empty());
    }
}
