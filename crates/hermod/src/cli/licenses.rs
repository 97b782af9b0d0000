//! `hermod licenses`: what the program is built from, under which licences, and their texts.

use crate::cli::output::{Form, show, show_json};
use crate::exit::Failure;

/// The notices and licences that must go with the program, written by `cargo xtask licences`. Tidy
/// holds their list of packages against `Cargo.lock`.
const NOTICES: &str = include_str!("notices.txt");
/// What stands before the texts, and after the list.
const TEXTS: &str = "\n\n=== ";

/// Prints all of it, or the list as JSON.
pub(crate) fn run(form: Form) -> Result<(), Failure> {
    match form {
        Form::Text => show(NOTICES),
        Form::Json => {
            let rows: Vec<_> = packages()
                .map(|[name, version, licence]| serde_json::json!({ "name": name, "version": version, "licence": licence }))
                .collect();
            show_json(&rows)
        }
    }
}

/// Name, version and licence of each package.
fn packages() -> impl Iterator<Item = [&'static str; 3]> {
    let list = NOTICES.split_once(TEXTS).map_or(NOTICES, |(list, _)| list);
    list.lines().filter_map(|line| {
        let mut parts = line.split('\t');
        Some([parts.next()?, parts.next()?, parts.next()?])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_has_a_licence_and_each_licence_its_text() {
        let packages: Vec<_> = packages().collect();
        assert!(packages.len() > 100 && packages.iter().any(|[name, ..]| *name == "tokio"));
        for [name, _, licence] in packages {
            let by_apache = licence.split(" OR ").any(|one| one == "Apache-2.0");
            let heading = if by_apache { "\n=== Apache-2.0 ===\n".to_owned() } else { format!(" {name} ") };
            assert!(
                NOTICES.lines().any(|line| line.starts_with("===") && line.contains(heading.trim_matches('\n'))),
                "{name}"
            );
        }
    }
}
