//! The licence of installed software: its file, and its name as the text says it.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// Names under which a licence is kept.
const NAMES: [&str; 4] = ["license", "licence", "copying", "copyright"];
/// What every text of a licence says, and its short name; the first that fits counts.
const TEXTS: [(&[&str], &str); 9] = [
    (&["Apache License", "Version 2.0"], "Apache-2.0"),
    (&["Mozilla Public License", "2.0"], "MPL-2.0"),
    (&["Eclipse Public License - v 2.0"], "EPL-2.0"),
    (&["Eclipse Public License, Version 2.0"], "EPL-2.0"),
    (&["GNU AFFERO GENERAL PUBLIC LICENSE", "Version 3"], "AGPL-3.0"),
    (&["GNU GENERAL PUBLIC LICENSE", "Version 3"], "GPL-3.0"),
    (&["GNU GENERAL PUBLIC LICENSE", "Version 2"], "GPL-2.0"),
    (&["Business Source License"], "BUSL-1.1"),
    (&["Permission is hereby granted, free of charge"], "MIT"),
];

/// A licence that lies beside what it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Licence {
    /// Its short name, where the text is known.
    pub name: Option<String>,
    /// The file that says so.
    pub file: String,
}

impl std::fmt::Display for Licence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name.as_deref().unwrap_or("of another text"), self.file)
    }
}

/// True for what a licence's file is called.
pub fn is_licence(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    path.is_file() && NAMES.iter().any(|word| name.starts_with(word))
}

/// The licence in the file `path`, called by its name alone.
pub fn read(path: &Path) -> Option<Licence> {
    let text = fs::read(path).ok()?;
    let file = path.file_name()?.to_string_lossy().into_owned();
    Some(Licence { name: named(&String::from_utf8_lossy(&text)), file })
}

/// The licence directly in the folder `dir`.
pub fn beside(dir: &Path) -> Option<Licence> {
    let entries = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    read(&entries.filter(|path| is_licence(path)).min()?)
}

/// What a text says of itself: Debian's files name the licence of all that is not named apart.
pub fn named(text: &str) -> Option<String> {
    if text.starts_with("Format:") {
        let line = text.lines().find_map(|line| line.strip_prefix("License:"))?;
        return Some(line.trim().to_owned());
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let fits = |parts: &&[&str]| parts.iter().all(|part| words.contains(part));
    TEXTS.iter().find(|(parts, _)| fits(parts)).map(|(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_known_by_what_they_say() {
        let cases = [
            ("   Apache License\n      Version 2.0, January 2004\n", Some("Apache-2.0")),
            ("Mozilla Public License Version\n2.0\n", Some("MPL-2.0")),
            ("Format: https://x\nFiles: *\nLicense: EPL-2.0 or BSD-3\n\nLicense: MIT\n", Some("EPL-2.0 or BSD-3")),
            ("Permission is hereby granted,\nfree of charge, to any", Some("MIT")),
            ("all rights reserved", None),
        ];
        for (text, name) in cases {
            assert_eq!(named(text).as_deref(), name, "{text}");
        }
    }

    #[test]
    fn a_licence_is_looked_for_beside_a_program_and_not_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("other")).unwrap();
        fs::write(dir.path().join("other/LICENSE"), "Business Source License").unwrap();
        assert_eq!(beside(dir.path()), None);
        fs::write(dir.path().join("Copying.txt"), "x").unwrap();
        assert_eq!(beside(dir.path()), Some(Licence { name: None, file: "Copying.txt".to_owned() }));
    }
}
