//! The licences of what is linked into `hermod`: a list beside the console, which shows it, and the
//! notices that the program prints.
//!
//! `cargo xtask licences` writes both. Tidy holds them against `Cargo.lock`: each package from
//! which the program is built is in the list with its version, and no other one; the notices have
//! those of the list that are in use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use toml::{Table, Value};

mod notices;

/// The list: name, version and licence of a package a line, with tabs between them.
pub(crate) const LIST: &str = "crates/management/src/console/licences.tsv";
/// Stands for the licence of a package that is locked, and that no feature in use asks for.
const UNUSED: &str = "unused";
/// The program that is listed.
const PROGRAM: &str = "hermod";

/// A package: its name and its version.
type Package = (String, String);

/// Writes the list.
///
/// # Errors
/// When cargo does not know a licence, or a file can't be read or written.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let known = known(root)?;
    let with_licence = |package: Package| match known.get(&package).map(String::as_str) {
        Some("") => Err(format!("{} {} has no licence", package.0, package.1)),
        Some(licence) => Ok((package, licence.to_owned())),
        None => Ok((package, UNUSED.to_owned())),
    };
    let packages: Vec<_> = packages(root)?.into_iter().map(with_licence).collect::<Result<_, String>>()?;
    let line = |((name, version), licence): &(Package, String)| format!("{name}\t{version}\t{licence}\n");
    let text: String = packages.iter().map(line).collect();
    std::fs::write(root.join(LIST), text).map_err(|error| format!("{LIST}: {error}"))?;
    notices::write(root, &packages)
}

/// The packages in use, each with its licence.
///
/// # Errors
/// When the list can't be read.
pub(crate) fn in_use(root: &Path) -> Result<Vec<(String, String, String)>, String> {
    let text = read(root, LIST)?;
    let row = |line: &str| {
        let mut parts = line.split('\t').map(str::to_owned);
        Some((parts.next()?, parts.next()?, parts.next()?))
    };
    Ok(text.lines().filter_map(row).filter(|(_, _, licence)| licence != UNUSED).collect())
}

/// The packages that the list lacks or has in vain.
///
/// # Errors
/// When a file can't be read.
pub(crate) fn differences(root: &Path) -> Result<Vec<String>, String> {
    let text = read(root, LIST)?;
    let listed: BTreeSet<Package> = text.lines().filter_map(package_of).collect();
    let built = packages(root)?;
    let missing = built.difference(&listed).map(|(name, version)| format!("{name} {version} is missing"));
    let vain = listed.difference(&built).map(|(name, version)| format!("{name} {version} is not built any more"));
    let used: BTreeSet<Package> = in_use(root)?.into_iter().map(|(name, version, _)| (name, version)).collect();
    let noticed = notices::named(&read(root, notices::NOTICES)?);
    let other = used.symmetric_difference(&noticed);
    let other = other.map(|(name, version)| format!("{name} {version}: {LIST} and {} differ", notices::NOTICES));
    Ok(missing.chain(vain).chain(other).collect())
}

fn package_of(line: &str) -> Option<Package> {
    let mut parts = line.split('\t').map(str::to_owned);
    Some((parts.next()?, parts.next()?))
}

/// The packages of others from which the program is built, on any system.
fn packages(root: &Path) -> Result<BTreeSet<Package>, String> {
    let lock: Table = read(root, "Cargo.lock")?.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let locked: Vec<&Table> =
        lock.get("package").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table).collect();
    let text = |package: &Table, field: &str| package.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut found = BTreeSet::new();
    let mut todo = vec![PROGRAM.to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(wanted) = todo.pop() {
        if !seen.insert(wanted.clone()) {
            continue;
        }
        // A dependency is named with its version where there are several.
        let mut parts = wanted.split(' ');
        let (name, version) = (parts.next().unwrap_or_default(), parts.next());
        for package in &locked {
            if text(package, "name") != name || version.is_some_and(|version| text(package, "version") != version) {
                continue;
            }
            let needs = package.get("dependencies").and_then(Value::as_array).into_iter().flatten();
            let needs = needs.filter_map(Value::as_str).map(str::to_owned);
            if package.contains_key("source") {
                found.insert((text(package, "name"), text(package, "version")));
                todo.extend(needs);
            } else {
                let linked = linked(root, name)?;
                todo.extend(needs.filter(|need| linked.contains(need.split(' ').next().unwrap_or_default())));
            }
        }
    }
    Ok(found)
}

/// What a package of the workspace needs apart from its tests, on any system.
fn linked(root: &Path, member: &str) -> Result<BTreeSet<String>, String> {
    let manifest = format!("crates/{member}/Cargo.toml");
    let manifest: Table = read(root, &manifest)?.parse().map_err(|error| format!("{manifest}: {error}"))?;
    let for_systems = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(|systems| systems.values());
    let all = std::iter::once(&manifest).chain(for_systems.filter_map(Value::as_table));
    let names = all.flat_map(|part| ["dependencies", "build-dependencies"].map(|kind| part.get(kind)));
    Ok(names.flatten().filter_map(Value::as_table).flat_map(Table::keys).cloned().collect())
}

/// The licences of all packages that cargo knows here.
fn known(root: &Path) -> Result<BTreeMap<Package, String>, String> {
    let arguments = "tree --workspace --all-features --edges all --target all --prefix none --format {p}\t{l}";
    let tree = Command::new("cargo").args(arguments.split(' ')).current_dir(root).output();
    let tree = tree.map_err(|error| format!("cargo tree: {error}"))?;
    if !tree.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&tree.stderr)));
    }
    let text = String::from_utf8_lossy(&tree.stdout).into_owned();
    let package = |line: &str| {
        let (package, licence) = line.split_once('\t')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?.trim_start_matches('v'));
        Some(((name.to_owned(), version.to_owned()), licence.trim_end_matches(" (*)").replace('/', " OR ")))
    };
    Ok(text.lines().filter_map(package).collect())
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_need_is_not_listed() {
        let packages = packages(&crate::root().unwrap()).unwrap();
        let has = |name: &str| packages.iter().any(|(its, _)| its == name);
        assert!(has("tokio") && has("rustls") && has("maud") && !has("hermod") && !has("proptest"), "{packages:?}");
    }
}
