//! What this release is: its versions, what it has not, and the licences of what it is built from.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use maud::{Markup, html};

use super::frame::{Part, View};
use super::parts::{Column, facts, table};
use super::trouble::Shown;
use super::visitor::Visitor;
use crate::source::Source;

/// Name, version and licence of each package that the program is built from. A chore writes it, and
/// a test holds it against `Cargo.lock`.
const LICENCES: &str = include_str!("licences.tsv");
/// Stands for the licence of a package that is locked and not built.
const UNUSED: &str = "unused";

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new().route("/about", get(show))
}

async fn show(visitor: Visitor, State(source): State<Arc<Source>>) -> Shown {
    let protocols = source.facts.listeners.iter().map(|row| row.protocol.as_str()).collect::<Vec<_>>().join(", ");
    let body = html! {
        (facts(&[
            ("Hermod", html! { (source.facts.version) }),
            ("Announces itself as", html! { (source.facts.product) " " (source.facts.compat_version) }),
            ("System", html! { (std::env::consts::OS) ", " (std::env::consts::ARCH) }),
            ("Licence", html! { "Apache-2.0" }),
            ("Durability", html! { (source.facts.durability) }),
            ("Protocols", html! { (protocols) }),
        ]))
        h2 { "Limits of this release" }
        ul {
            li { "No cluster: one node serves, and a standby may follow it, which is promoted by hand." }
            li { "Streams are not built, and are refused by name." }
            li { "A quorum queue has the semantics of one, with one copy." }
        }
        h2 { "More" }
        ul {
            li { a href="/docs/" { "The manual" } " of this version" }
            li { a href="/api/" { "HTTP API" } ", with the paths of RabbitMQ's" }
            li { a href="/hermod/v1/openapi.json" { "Native API" } ", as OpenAPI" }
            li { a href="/metrics" { "Metrics" } " for Prometheus" }
        }
        h2 { "Licences" }
        (licences())
    };
    Ok(View::new(Part::About, "About", body).show(&visitor, &source))
}

/// Each package that is built: name, version, licence.
fn packages() -> impl Iterator<Item = [&'static str; 3]> {
    let parts = |line: &'static str| {
        let mut parts = line.split('\t');
        Some([parts.next()?, parts.next()?, parts.next()?])
    };
    LICENCES.lines().filter_map(parts).filter(|[.., licence]| *licence != UNUSED)
}

fn licences() -> Markup {
    let mut by_licence: BTreeMap<&str, usize> = BTreeMap::new();
    for [.., licence] in packages() {
        *by_licence.entry(licence).or_default() += 1;
    }
    let mut counts: Vec<_> = by_licence.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let of_licences: Vec<Vec<Markup>> =
        counts.iter().map(|(licence, count)| vec![html! { (licence) }, html! { (count) }]).collect();
    let of_packages: Vec<Vec<Markup>> =
        packages().map(|parts| parts.into_iter().map(|part| html! { (part) }).collect()).collect();
    let none = || html! { "none" };
    html! {
        p .hint {
            "Hermod is built from " (of_packages.len()) " packages of others, all under permissive licences. "
            "A licence with OR lets the user of a package choose."
        }
        (table("licences", &[Column::text("Licence"), Column::number("Packages")], &of_licences, none()))
        details {
            summary { "All packages" }
            (table("packages", &[Column::text("Package"), Column::text("Version"), Column::text("Licence")], &of_packages, none()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_a_licence_that_may_be_used() {
        let allowed = ["Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Zlib"];
        assert!(packages().count() > 100);
        for [name, _, licence] in packages() {
            assert!(allowed.iter().any(|known| licence.contains(known)), "{name}: {licence}");
        }
        let page = licences().0;
        assert!(page.contains(">MIT OR Apache-2.0<") && page.contains(">tokio<") && !page.contains("unused"));
    }
}
