//! The facts that the log has of exchanges and policies. `docs/formats/facts.md` draws them.

use journal::{Appender, Group, Owner};

use crate::arguments::bound_stored;
use crate::catalog::Exchange;
use crate::catalog::definitions::{DefinitionKey, Sort, definition_bytes};
use crate::catalog::policies::{ApplyTo, Policy, PolicyKind, PolicySpec, argument};
use crate::error::Error;
use crate::memory::ledger::Declared;
use crate::store::facts::{DEFINITION as DEFINITION_FACT, ExchangeFact};
use crate::value::{Table, Value};

const PATTERN: &str = "pattern";
const APPLY_TO: &str = "apply-to";
const PRIORITY: &str = "priority";
const DEFINITION: &str = "definition";

impl Exchange {
    /// Its declaration, as logged.
    pub(crate) fn fact(&self, vhost: Owner) -> ExchangeFact {
        ExchangeFact {
            vhost,
            name: self.name.to_string(),
            kind: self.kind,
            auto_delete: self.auto_delete,
            internal: self.internal,
            arguments: self.arguments.clone(),
            declared_by: self.weight.payer().map(|payer| Declared::user(payer).to_owned()),
        }
    }
}

pub(crate) fn log_policy(
    appender: &mut Appender<'_>,
    group: Option<Group>,
    vhost: Owner,
    kind: PolicyKind,
    policy: &Policy,
) {
    let bytes = policy_bytes(vhost, kind, policy);
    debug_assert!(bytes.is_ok(), "a policy that was accepted can't be stored");
    bytes.iter().for_each(|bytes| appender.fact(group, policy.id, DEFINITION_FACT, &[bytes]));
}

/// The bytes of a policy.
///
/// # Errors
/// For settings that are nested too deeply.
pub(crate) fn policy_bytes(vhost: Owner, kind: PolicyKind, policy: &Policy) -> Result<Vec<u8>, Error> {
    let (spec, mut fields) = (&policy.spec, Table::default());
    fields.set(PATTERN, Value::Text(spec.pattern.clone()));
    fields.set(APPLY_TO, Value::Text(spec.apply_to.name().to_owned()));
    fields.set(PRIORITY, Value::I64(spec.priority));
    fields.set(DEFINITION, Value::Table(spec.definition.clone()));
    definition_bytes(&DefinitionKey::new(Sort::of_policy(kind), vhost, &policy.name), &fields)
}

/// The policy with these fields.
pub(crate) fn read_policy(id: Owner, kind: PolicyKind, name: &str, fields: &Table) -> Option<Policy> {
    let Some(Value::Table(definition)) = fields.get(DEFINITION) else { return None };
    let mut definition = definition.clone();
    definition.0.iter_mut().for_each(|(setting, value)| bound_stored(&argument(setting), value));
    let spec = PolicySpec {
        pattern: fields.get(PATTERN)?.as_text()?.to_owned(),
        apply_to: ApplyTo::parse(fields.get(APPLY_TO)?.as_text()?)?,
        priority: fields.get(PRIORITY)?.as_integer()?,
        definition,
    };
    let policy = Policy::new(kind, name, spec).ok()?;
    Some(policy.with_id(id))
}
