//! Which files are only compiled for tests: those of test folders and crates, and the modules that
//! are declared under `#[cfg(test)]`.

use std::path::{Path, PathBuf};

use super::files::File;
use super::source;

/// Crates that only tests use: a panic there is a failed test.
const TEST_CRATES: [&str; 1] = ["testkit"];

/// The files for tests of a tree.
pub(super) struct TestFiles {
    /// The modules under `#[cfg(test)]`: paths without extension.
    modules: Vec<PathBuf>,
}

impl TestFiles {
    pub(super) fn of(files: &[File]) -> Self {
        Self { modules: files.iter().filter(|file| file.extension("rs")).flat_map(test_modules).collect() }
    }

    /// Whether all of a file is a test or of use for tests only.
    pub(super) fn has(&self, path: &Path) -> bool {
        let in_folder = path.iter().any(|part| part == "tests" || part == "benches" || part == "tests.rs");
        let in_crate = path.strip_prefix("crates").ok().and_then(|inner| inner.iter().next()?.to_str());
        in_folder || self.has_module(path) || in_crate.is_some_and(|name| TEST_CRATES.contains(&name))
    }

    /// Whether a file is, or is in, a module under `#[cfg(test)]`.
    pub(super) fn has_module(&self, path: &Path) -> bool {
        self.modules.iter().any(|module| path.with_extension("").starts_with(module))
    }
}

/// The modules that a file declares under `#[cfg(test)]` and that live in files of their own.
fn test_modules(file: &File) -> Vec<PathBuf> {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| file.path.ends_with(name));
    let folder = if is_root { file.path.with_file_name("") } else { file.path.with_extension("") };
    let lines = source::lines(&file.text);
    let declared = lines.iter().filter(|line| line.test && line.code.trim_end().ends_with(';'));
    declared
        .filter_map(|line| match source::identifiers(&line.code).as_slice() {
            [.., "mod", name] => Some(folder.join(name)),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_tests_are_known() {
        let text = "//! x\n#[cfg(test)]\nmod simulated;\nmod real;\n#[cfg(test)]\nmod tests {\n    use x::y;\n}\n";
        let file = |path: &str| File { path: path.into(), text: text.into() };
        let tests = TestFiles::of(&[file("crates/a/src/load.rs"), file("crates/b/src/lib.rs")]);
        for (path, expected) in [
            ("crates/a/src/load/simulated.rs", true),
            ("crates/a/src/load/simulated/deep.rs", true),
            ("crates/a/src/load/simulatedx.rs", false),
            ("crates/a/src/load/real.rs", false),
            ("crates/b/src/simulated.rs", true),
            ("crates/c/tests/x.rs", true),
            ("crates/c/src/queue/tests.rs", true),
            ("crates/testkit/src/x.rs", true),
        ] {
            assert_eq!(tests.has(Path::new(path)), expected, "{path}");
        }
    }
}
