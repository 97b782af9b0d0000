//! The notices that go with the program: its packages, and the licences that ask to be passed on.
//!
//! A package that may be used under Apache-2.0 is used under it, so its text is there once. Of any
//! other package its own files are, since they name who holds the copyright. The same text is
//! written once, under the names of all packages that have it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Package, UNUSED, read};

/// The notices, which `hermod licenses` prints.
pub(crate) const NOTICES: &str = "crates/hermod/src/cli/notices.txt";
/// The one licence that is chosen where there is a choice.
const CHOSEN: &str = "Apache-2.0";
/// How the names of files begin that hold licences.
const FILES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// Writes the notices of these packages, each with its licence.
///
/// # Errors
/// When a package is not on this machine, or a file can't be read or written.
pub(super) fn write(root: &Path, packages: &[(Package, String)]) -> Result<(), String> {
    let known = metadata(root)?;
    let mut list = String::new();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for ((name, version), licence) in packages.iter().filter(|(_, licence)| licence != UNUSED) {
        list += &format!("{name}\t{version}\t{licence}\n");
        let known = known.get(&(name.clone(), version.clone()));
        let (folder, authors) = known.ok_or_else(|| format!("{name} {version}: cargo metadata does not have it"))?;
        let text = text_of(folder, licence)?;
        let own = licence.split(" OR ").all(|one| one != CHOSEN);
        let text = match text {
            _ if !own => continue,
            Some(text) => text,
            None => format!("The package has no such file. Its manifest says: {licence}; by {authors}."),
        };
        texts.entry(text).or_default().insert(format!("{name} {version}"));
    }
    let mut texts: Vec<_> = texts.into_iter().map(|(text, of)| (Vec::from_iter(of).join(", "), text)).collect();
    texts.sort();
    let apache = read(root, "LICENSE")?;
    let mut notices = format!(
        "Hermod is under the Apache License 2.0. It is built from these packages of others. What may be used\n\
         under Apache-2.0 is used under it; the texts of all other licences are below.\n\n{list}\n\
         === {CHOSEN} ===\n\n{}\n",
        apache.trim()
    );
    for (of, text) in texts {
        notices += &format!("\n=== {of} ===\n\n{text}\n");
    }
    std::fs::write(root.join(NOTICES), notices).map_err(|error| format!("{NOTICES}: {error}"))
}

/// The packages that the notices name.
pub(super) fn named(text: &str) -> BTreeSet<Package> {
    text.lines().take_while(|line| !line.starts_with("===")).filter_map(super::package_of).collect()
}

/// The texts in the folder of a package, one after the other. A text of the licence that was not
/// chosen is left out.
fn text_of(folder: &Path, licence: &str) -> Result<Option<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let other = !licence.contains(CHOSEN) && name.contains("APACHE");
        if path.is_file() && !other && FILES.iter().any(|prefix| name.starts_with(prefix)) {
            files.push(path);
        }
    }
    files.sort();
    let texts: Vec<_> = files.iter().map(|file| std::fs::read(file).map_err(failed)).collect::<Result<_, _>>()?;
    let texts: Vec<_> = texts.iter().map(|text| plain(&String::from_utf8_lossy(text))).collect();
    Ok((!texts.is_empty()).then(|| texts.join("\n\n")))
}

/// The same text with the line ends of this project, so that equal ones are equal.
fn plain(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| line.trim_end().replace('\t', "    ")).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// The folder and the authors of each package that cargo has here.
fn metadata(root: &Path) -> Result<BTreeMap<Package, (PathBuf, String)>, String> {
    let output =
        Command::new("cargo").args(["metadata", "--format-version", "1", "--locked"]).current_dir(root).output();
    let output = output.map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let all: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let text = |package: &Value, field: &str| package[field].as_str().unwrap_or_default().to_owned();
    let package = |package: &Value| {
        let folder = Path::new(&text(package, "manifest_path")).parent()?.to_path_buf();
        let authors: Vec<_> = package["authors"].as_array()?.iter().filter_map(Value::as_str).collect();
        Some(((text(package, "name"), text(package, "version")), (folder, authors.join(", "))))
    };
    Ok(all["packages"].as_array().into_iter().flatten().filter_map(package).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_package_are_joined_without_that_of_another_licence() {
        let folder = std::env::temp_dir().join(format!("hermod-notices-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in [("LICENSE-MIT", "m\r\n"), ("LICENSE-APACHE", "a"), ("NOTICE", "n\n\n"), ("README", "r")] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let texts = ["MIT", "Apache-2.0 AND ISC"].map(|licence| text_of(&folder, licence).unwrap().unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(texts, ["m\n\nn", "a\n\nm\n\nn"]);
    }

    #[test]
    fn only_the_list_names_packages() {
        let text = "It has\n\na\t1.0\tMIT\nb\t2.0\tISC\n\n=== a 1.0 ===\n\nc\t3.0\tMIT\n";
        assert_eq!(Vec::from_iter(named(text)).len(), 2);
    }
}
