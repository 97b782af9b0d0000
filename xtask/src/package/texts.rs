//! What the files of `packaging/` must agree on, checked without the programs that read them: the
//! version, the ports, and the values of the Helm chart.

use std::collections::BTreeSet;
use std::path::Path;

use super::{text, tree};

/// Checks all of it.
///
/// # Errors
/// Names the file and what contradicts what.
pub(super) fn check(root: &Path) -> Result<(), String> {
    let read = |path: &str| text(&root.join(path));
    let version = read("Cargo.toml")?;
    let version = version.lines().find_map(|line| line.strip_prefix("version = ")).unwrap_or_default().to_owned();
    let chart = read("packaging/helm/hermod/Chart.yaml")?;
    if !chart.contains(&format!("appVersion: {version}")) {
        return Err(format!("packaging/helm/hermod/Chart.yaml: appVersion must be {version}"));
    }
    let values = keys(&read("packaging/helm/hermod/values.yaml")?);
    for template in tree::entries(&root.join("packaging/helm/hermod/templates"))? {
        let text = text(&template)?;
        let shown = template.display();
        if let Some(missing) = used(&text).into_iter().find(|key| !values.contains(key)) {
            return Err(format!("{shown}: values.yaml has no {missing}"));
        }
        balanced(&text).map_err(|what| format!("{shown}: {what}"))?;
    }
    let (recipe, pod) =
        (read("packaging/container/Containerfile")?, read("packaging/helm/hermod/templates/statefulset.yaml")?);
    let exposed = recipe.lines().find_map(|line| line.strip_prefix("EXPOSE ")).unwrap_or_default();
    let missing = exposed.split(' ').find(|port| !pod.contains(&format!("containerPort: {port}}}")));
    missing.map_or(Ok(()), |port| Err(format!("statefulset.yaml has no port {port}, which the image exposes")))
}

/// The dotted names of all keys of a YAML file of maps; a block of text is no map.
fn keys(yaml: &str) -> BTreeSet<String> {
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut keys = BTreeSet::new();
    for line in yaml.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let indent = line.len() - line.trim_start().len();
        let Some((key, _)) = line.trim_start().split_once(':') else { continue };
        open.retain(|(its, _)| *its < indent);
        open.push((indent, key));
        keys.insert(open.iter().map(|(_, key)| *key).collect::<Vec<_>>().join("."));
    }
    keys
}

/// The values that a template uses.
fn used(template: &str) -> BTreeSet<String> {
    let names = template.split(".Values.").skip(1);
    let name =
        |rest: &str| rest.chars().take_while(|sign| sign.is_ascii_alphanumeric() || *sign == '.').collect::<String>();
    names.map(name).map(|name| name.trim_end_matches('.').to_owned()).collect()
}

/// Whether each block of a template ends.
fn balanced(template: &str) -> Result<(), String> {
    let mut open = 0_usize;
    for part in template.split("{{").skip(1) {
        let (action, _) = part.split_once("}}").ok_or("an action does not end")?;
        match action.trim_start_matches('-').split_whitespace().next() {
            Some("if" | "with" | "range" | "define") => open += 1,
            Some("end") => open = open.checked_sub(1).ok_or("an end belongs to nothing")?,
            _ => {}
        }
    }
    if open == 0 { Ok(()) } else { Err(format!("{open} blocks do not end")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_packages_agree() {
        check(&crate::root().unwrap()).unwrap();
    }

    #[test]
    fn values_that_are_not_there_and_blocks_that_do_not_end_are_seen() {
        let keys = keys("# c: 1\na:\n  b: 1\n  c: {d: 2}\ne: 3\n");
        assert_eq!(Vec::from_iter(keys), ["a", "a.b", "a.c", "e"]);
        assert_eq!(Vec::from_iter(used("{{ .Values.a.b }} {{- with .Values.e }}x{{ end }}")), ["a.b", "e"]);
        assert!(balanced("{{- if .a }}x{{ else }}y{{ end }}").is_ok());
        for wrong in ["{{ if .a }}x", "x{{ end }}", "{{ x"] {
            assert!(balanced(wrong).is_err(), "{wrong}");
        }
    }
}
