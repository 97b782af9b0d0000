//! Setting, clearing and listing policies while the broker runs. Their effect is in
//! `engine/policies.rs`.

use auth::{Identity, waiting};
use journal::Ticket;

use crate::broker::Broker;
use crate::catalog::policies::{Policy, PolicyKind, PolicySpec};
use crate::error::Error;
use crate::value::Table;

/// One policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyReport {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// The policy itself.
    pub spec: PolicySpec,
}

impl Broker {
    /// Sets a policy, in place of the one of its kind with this name, and applies it to all its
    /// queues and exchanges. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound` without the vhost, `Precondition` for an invalid policy, `AccessRefused` for one
    /// that would move messages where its author may not.
    pub fn set_policy(
        &self,
        vhost: &str,
        kind: PolicyKind,
        name: &str,
        spec: PolicySpec,
        author: &Identity,
    ) -> Result<Ticket, Error> {
        let policy = self.engine.checked_policy(kind, name, spec)?;
        if author.is_decided_elsewhere() {
            // Under the lock only what is known is answered.
            let vhost = self.engine.existing_vhost(vhost)?;
            self.engine.authorize_policy(&vhost, &policy, author)?;
        }
        let _alone = self.engine.administration.lock();
        let vhost = self.engine.existing_vhost(vhost)?;
        waiting::forbidden(|| self.engine.authorize_policy(&vhost, &policy, author))?;
        self.engine.put_policy(&vhost, kind, policy)
    }

    /// Fails where [`Broker::set_policy`] would, except for the vhost.
    ///
    /// # Errors
    /// `Precondition`.
    pub fn check_policy(&self, kind: PolicyKind, name: &str, spec: PolicySpec) -> Result<(), Error> {
        self.engine.checked_policy(kind, name, spec).map(drop)
    }

    /// Fails where a policy of this kind could not have these settings.
    ///
    /// # Errors
    /// `Precondition`.
    pub fn check_policy_settings(&self, kind: PolicyKind, name: &str, settings: &Table) -> Result<(), Error> {
        Policy::check_settings(kind, name, settings)
    }

    /// Clears a policy. Returns the ticket for the answer.
    ///
    /// # Errors
    /// `NotFound` without the vhost or the policy.
    pub fn clear_policy(&self, vhost: &str, kind: PolicyKind, name: &str) -> Result<Ticket, Error> {
        let _alone = self.engine.administration.lock();
        let known = self.engine.existing_vhost(vhost)?;
        let no_policy = || Error::not_found(format!("{} '{name}' does not exist in vhost '{vhost}'", kind.name()));
        self.engine.end_policy(&known, kind, name).ok_or_else(no_policy)
    }

    /// The policies of a kind, by vhost; in each, in the order in which they count.
    pub fn policies(&self, kind: PolicyKind) -> Vec<PolicyReport> {
        let mut vhosts = self.engine.catalog.vhosts();
        vhosts.sort_by(|one, other| one.name.cmp(&other.name));
        let mut reports = Vec::new();
        for vhost in vhosts {
            let tables = vhost.tables.read();
            let report = |policy: &Policy| PolicyReport {
                vhost: vhost.name.to_string(),
                name: policy.name.clone(),
                spec: policy.spec.clone(),
            };
            reports.extend(tables.policies.list(kind).iter().map(report));
        }
        reports
    }
}
