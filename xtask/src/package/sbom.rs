//! The list of components (SBOM), in CycloneDX: what the program is built from, with versions,
//! checksums, licences and who needs what. It is made from `Cargo.lock` and the list of licences,
//! which tidy holds against each other.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toml::Table;

use super::{Job, Outcome, text, write};

/// Writes it.
pub(super) fn make(job: &Job) -> Result<Outcome, String> {
    let lock = text(&job.root.join("Cargo.lock"))?;
    let packages = crate::licences::in_use(&job.root)?;
    let document = document(&job.version, &packages, &lock)?;
    let path = job.output.join(format!("hermod-{}.cdx.json", job.version));
    write(&path, &format!("{document:#}\n"))?;
    Ok(Outcome::Made(path, format!("{} components in CycloneDX 1.5", packages.len())))
}

/// The document for these packages: name, version and licence of each.
fn document(version: &str, packages: &[(String, String, String)], lock: &str) -> Result<Value, String> {
    let locked: Table = lock.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let locked = locked.get("package").and_then(|packages| packages.as_array()).ok_or("Cargo.lock has no packages")?;
    let text = |package: &toml::Value, field: &str| {
        package.get(field).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
    };
    let by_name: BTreeMap<_, _> =
        locked.iter().map(|package| ((text(package, "name"), text(package, "version")), package)).collect();
    let mut components = Vec::new();
    let mut edges = Vec::new();
    for (name, version, licence) in packages {
        let package = by_name.get(&(name.clone(), version.clone()));
        let package = package.ok_or_else(|| format!("{name} {version} is not in Cargo.lock"))?;
        let reference = reference(name, version);
        components.push(json!({
            "type": "library",
            "bom-ref": reference,
            "name": name,
            "version": version,
            "purl": reference,
            "licenses": [{ "expression": licence }],
            "hashes": [{ "alg": "SHA-256", "content": text(package, "checksum") }],
        }));
        let needs = package.get("dependencies").and_then(|needs| needs.as_array()).into_iter().flatten();
        let needs = needs.filter_map(|need| need.as_str()).filter_map(|need| {
            // A dependency is named with its version where there are several.
            let (name, version) = need.split_once(' ').map_or((need, None), |(name, version)| (name, Some(version)));
            let used =
                |one: &&(String, String, String)| one.0 == name && version.is_none_or(|version| one.1 == version);
            packages.iter().find(used)
        });
        let needs: Vec<_> = needs.map(|(name, version, _)| self::reference(name, version)).collect();
        edges.push(json!({ "ref": reference, "dependsOn": needs }));
    }
    let program = reference("hermod", version);
    let all: Vec<_> = packages.iter().map(|(name, version, _)| reference(name, version)).collect();
    edges.push(json!({ "ref": program, "dependsOn": all }));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": serial(lock),
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": program,
            "name": "hermod",
            "version": version,
            "purl": program,
            "licenses": [{ "expression": "Apache-2.0" }],
        } },
        "components": components,
        "dependencies": edges,
    }))
}

fn reference(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// A number of the form of a UUID, which follows from what is locked.
fn serial(lock: &str) -> String {
    let digits: String = Sha256::digest(lock).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d) = (&digits[..8], &digits[8..12], &digits[13..16], &digits[17..20]);
    format!("urn:uuid:{a}-{b}-5{c}-8{d}-{}", &digits[20..32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_has_its_checksum_and_its_edges() {
        let lock = "[[package]]\nname='a'\nversion='1'\nchecksum='aa'\ndependencies=['b 2', 'c']\n[[package]]\nname='b'\n\
                    version='1'\nchecksum='b1'\n[[package]]\nname='b'\nversion='2'\nchecksum='b2'\n";
        let of = |name: &str, version: &str| (name.to_owned(), version.to_owned(), "MIT".to_owned());
        let document = document("0.1.0", &[of("a", "1"), of("b", "1"), of("b", "2")], lock).unwrap();
        assert_eq!(document["components"][2]["hashes"][0]["content"], "b2");
        assert_eq!(document["dependencies"][0]["dependsOn"], json!(["pkg:cargo/b@2"]));
        assert_eq!(document["dependencies"][3]["dependsOn"].as_array().unwrap().len(), 3);
        let serial = document["serialNumber"].as_str().unwrap();
        assert_eq!(serial.len(), "urn:uuid:".len() + 36, "{serial}");
        assert!(super::document("0.1.0", &[of("z", "1")], lock).is_err());
    }
}
