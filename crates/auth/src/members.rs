//! Who has which role, so that a change of a role finds its members without a look at all users.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The names of users by the names of their roles.
#[derive(Debug, Default)]
pub(crate) struct Members(BTreeMap<Box<str>, BTreeSet<Arc<str>>>);

impl Members {
    /// A user had these roles and has those now.
    pub(crate) fn change(&mut self, user: &Arc<str>, before: &BTreeSet<Box<str>>, after: &BTreeSet<Box<str>>) {
        for role in before.difference(after) {
            let left = self.0.get_mut(role).map(|members| {
                members.remove(user);
                members.len()
            });
            if left == Some(0) {
                self.0.remove(role);
            }
        }
        for role in after.difference(before) {
            self.0.entry(role.clone()).or_default().insert(Arc::clone(user));
        }
    }

    /// The members of a role.
    pub(crate) fn of(&self, role: &str) -> impl Iterator<Item = &Arc<str>> {
        self.0.get(role).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_follow_the_roles_of_users() {
        let roles = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect::<BTreeSet<_>>();
        let mut members = Members::default();
        members.change(&"a".into(), &roles(&[]), &roles(&["x", "y"]));
        members.change(&"b".into(), &roles(&[]), &roles(&["x"]));
        let of = |members: &Members, role: &str| members.of(role).map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!((of(&members, "x"), of(&members, "y")), (vec!["a".into(), "b".into()], vec!["a".into()]));
        members.change(&"a".into(), &roles(&["x", "y"]), &roles(&["y"]));
        members.change(&"b".into(), &roles(&["x"]), &roles(&[]));
        assert_eq!((of(&members, "x"), of(&members, "y")), (vec![], vec!["a".to_owned()]));
        assert_eq!(members.0.len(), 1, "nothing is kept of a role without members");
    }
}
