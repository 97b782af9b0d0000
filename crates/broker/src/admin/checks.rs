//! What a declaration would be refused for, told without declaring anything: an import is looked at whole before it begins.

use crate::broker::Broker;
use crate::catalog::arguments::{ExchangeArguments, QueueArguments};
use crate::error::Error;
use crate::routing::ExchangeKind;
use crate::session::declare::{check_name, refuse_reserved, same_exchange, same_queue};
use crate::session::{ExchangeSpec, QueueSpec};

impl Broker {
    /// Fails where the operator's declaration of this queue would, but for limits. The vhost need not be there yet.
    ///
    /// # Errors
    /// Those of [`crate::Client::declare_queue`].
    pub fn check_queue_spec(&self, vhost: &str, spec: &QueueSpec) -> Result<(), Error> {
        check_name(&spec.name)?;
        if let Some(existing) = self.core.catalog.vhost(vhost).and_then(|vhost| vhost.queue(&spec.name)) {
            return same_queue(&existing, spec);
        }
        refuse_reserved("queue", &spec.name)?;
        let parsed = QueueArguments::parse(&spec.name, vhost, &spec.arguments)?;
        parsed.check_properties(&spec.name, vhost, spec.durable, spec.exclusive, spec.auto_delete)
    }

    /// Fails where the operator's declaration of this exchange would, but for limits. The vhost need not be there yet.
    ///
    /// # Errors
    /// Those of [`crate::Client::declare_exchange`].
    pub fn check_exchange_spec(&self, vhost: &str, spec: &ExchangeSpec) -> Result<(), Error> {
        check_name(&spec.name)?;
        let Some(kind) = ExchangeKind::parse(&spec.kind) else {
            return Err(Error::precondition(format!("unknown exchange type '{}' of '{}'", spec.kind, spec.name)));
        };
        if let Some(known) = self.core.catalog.vhost(vhost)
            && let Some(existing) = known.tables.read().exchange(&spec.name)
        {
            return same_exchange(existing, spec, kind, vhost);
        }
        refuse_reserved("exchange", &spec.name)?;
        ExchangeArguments::parse(kind, &spec.name, vhost, &spec.arguments).map(drop)
    }
}
