//! The refusals of declarations without declaring anything: an import is checked as a whole before
//! it begins.

use crate::arguments::ExchangeArguments;
use crate::broker::Broker;
use crate::catalog::declaration::{
    BindingSpec, Declarer, DestinationName, ExchangeSpec, QueueSpec, check_binding_names, check_exchange_name,
    check_name, locked,
};
use crate::catalog::{Tables, binding_of, predeclared};
use crate::error::Error;
use crate::routing::{Bindings, Destination, ExchangeKind, HashOn, Tally};

impl Broker {
    /// Fails where the operator's declaration of this queue would, except for limits. The vhost
    /// need not exist yet.
    ///
    /// # Errors
    /// Those of [`crate::Client::declare_queue`].
    pub fn check_queue_spec(&self, vhost: &str, spec: &QueueSpec) -> Result<(), Error> {
        check_name(&spec.name)?;
        let known = self.engine.catalog.vhost(vhost);
        let tables = known.as_ref().map(|known| known.tables.read());
        self.importer().queue((vhost, tables.as_deref()), &spec.name, spec).map(drop)
    }

    /// Fails where the operator's declaration of this exchange would, except for limits. The vhost
    /// need not exist yet.
    ///
    /// # Errors
    /// Those of [`crate::Client::declare_exchange`].
    pub fn check_exchange_spec(&self, vhost: &str, spec: &ExchangeSpec) -> Result<(), Error> {
        check_exchange_name(&spec.name)?;
        let known = self.engine.catalog.vhost(vhost);
        let tables = known.as_ref().map(|known| known.tables.read());
        self.importer().exchange((vhost, tables.as_deref()), spec).map(drop)
    }

    fn importer(&self) -> Declarer {
        Declarer { client: None, is_operator: true, unknown: self.engine.settings.unknown_arguments }
    }

    /// Fails where the operator's declaration of this binding would, except for limits and missing
    /// ends. `source` is the exchange to come, if it does not exist yet. False when the binding
    /// exists.
    ///
    /// # Errors
    /// Those of [`crate::Client::bind`].
    pub fn check_binding(&self, vhost: &str, spec: &BindingSpec, source: Option<&ExchangeSpec>) -> Result<bool, Error> {
        check_binding_names(spec)?;
        if let Some(known) = self.engine.catalog.vhost(vhost) {
            let tables = known.tables.read();
            let destination = existing_destination(&tables, vhost, &spec.destination)?;
            if let Some(existing) = tables.exchange(&spec.source) {
                existing.bindings.check(&spec.key, &spec.arguments)?;
                let is_there = |end| existing.bindings.contains(&binding_of(end, spec.key.as_str(), &spec.arguments));
                return Ok(!destination.is_some_and(is_there));
            }
        }
        let (kind, hash_on) = match source {
            Some(source) => {
                let kind = ExchangeKind::parse(&source.kind).unwrap_or(ExchangeKind::Direct);
                let parsed = ExchangeArguments::parse(
                    kind,
                    &source.name,
                    vhost,
                    &source.arguments,
                    self.engine.settings.unknown_arguments,
                )?;
                (parsed.routes_as, parsed.hash_on)
            }
            // The exchange that a binding makes takes any binding, as a direct one does.
            None => (predeclared(&spec.source).unwrap_or(ExchangeKind::Direct), HashOn::default()),
        };
        Bindings::new(kind, hash_on, &Tally::default()).check(&spec.key, &spec.arguments).map(|()| true)
    }
}

/// The destination of a binding, if it exists. Fails for one that belongs to a connection.
fn existing_destination(tables: &Tables, vhost: &str, name: &DestinationName) -> Result<Option<Destination>, Error> {
    match name {
        DestinationName::Queue(name) => match tables.queue(name) {
            Some(queue) if queue.exclusive_to.is_some() => Err(locked(name, vhost)),
            queue => Ok(queue.map(|queue| Destination::Queue(queue.id))),
        },
        DestinationName::Exchange(name) => Ok(tables.exchange(name).map(|exchange| Destination::Exchange(exchange.id))),
    }
}
