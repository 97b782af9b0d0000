//! Every combination of rights on what an operation touches, and what a broker that asks for the
//! documented ones says to it.
//!
//! What an operation needs is written as a list: `configure queue q`, `write exchange amq.default`;
//! `|` stands between rights of which any one is enough. The names of things get a number of their
//! own in each case, but for those that begin with `amq.`.

use std::collections::BTreeSet;

use auth::Permission;

/// One combination of rights.
#[derive(Debug, Clone)]
pub struct Case<'a> {
    number: usize,
    needs: &'a [&'a str],
    granted: Vec<String>,
}

/// The name of a thing in the case of this number, as operations give it: the default exchange has
/// none.
pub fn name(thing: &str, number: usize) -> String {
    if thing == "amq.default" { String::new() } else { shown(thing, number) }
}

/// The same as messages and patterns show it.
fn shown(thing: &str, number: usize) -> String {
    if thing.starts_with("amq.") { thing.to_owned() } else { format!("{thing}{number}") }
}

/// Every combination of the three rights on all the things that `needs` speaks of. `next` counts
/// the cases on.
pub fn cases<'a>(needs: &'a [&'a str], next: &mut usize) -> Vec<Case<'a>> {
    let things: BTreeSet<_> = needs.iter().flat_map(|need| need.split('|')).map(|need| split(need).1).collect();
    let each = |thing| ["configure", "read", "write"].map(|right| format!("{right} {thing}"));
    let bits: Vec<_> = things.into_iter().flat_map(each).collect();
    let case = |chosen: u32| {
        let granted =
            bits.iter().enumerate().filter(|(bit, _)| chosen & (1 << bit) != 0).map(|(_, right)| right.clone());
        *next += 1;
        Case { number: *next, needs, granted: granted.collect() }
    };
    (0..1_u32 << bits.len()).map(case).collect()
}

/// The same list with another right in this place, which the broker must be found to disagree with.
pub fn wrong(needs: &[&str], place: usize) -> Vec<String> {
    let mut needs: Vec<_> = needs.iter().map(|need| (*need).to_owned()).collect();
    let (right, thing) = split(needs[place].split('|').next().unwrap_or_default());
    let other = if right == "write" { "configure" } else { "write" };
    needs[place] = format!("{other} {thing}");
    needs
}

fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or_else(|| panic!("{text:?} has no blank"))
}

impl Case<'_> {
    /// What the names of its things end in.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The patterns that give exactly its rights.
    pub fn permission(&self) -> Permission {
        let pattern = |right: &str| {
            let granted = self.granted.iter().map(|grant| split(grant)).filter(|(granted, _)| *granted == right);
            let names = granted.map(|(_, thing)| shown(split(thing).1, self.number).replace('.', "[.]"));
            let names: Vec<_> = names.collect();
            if names.is_empty() { String::new() } else { format!("^({})$", names.join("|")) }
        };
        Permission::new(&pattern("configure"), &pattern("write"), &pattern("read")).unwrap()
    }

    /// Holds the broker's answer to `user` against `needs`: without a missing right no refusal,
    /// else a refusal (an error) that names a missing one. `None` when they agree.
    pub fn disagrees(&self, user: &str, answer: Result<&str, &str>) -> Option<String> {
        let (refused, said) = match answer {
            Ok(said) => (false, said),
            Err(said) => (true, said),
        };
        let missing =
            self.needs.iter().filter(|need| !need.split('|').any(|right| self.granted.iter().any(|g| g == right)));
        let missing: Vec<_> = missing.copied().collect();
        let named = missing.iter().flat_map(|need| need.split('|')).any(|need| {
            let (right, (kind, name)) = (split(need).0, split(split(need).1));
            let name = shown(name, self.number);
            said.contains(&format!("{right} access to {kind} '{name}' in vhost '/' refused for user '{user}'"))
        });
        let agrees = refused != missing.is_empty() && refused == named && !said.is_empty();
        (!agrees).then(|| format!("with {:?} and without {missing:?} the broker said {said:?}", self.granted))
    }
}
