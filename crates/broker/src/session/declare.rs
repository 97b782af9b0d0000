//! Declaring, binding, deleting and purging: changes of the catalog on behalf of a client.
//!
//! Each change is logged under the vhost's write lock before it is visible, and its reply waits
//! until the change is durable.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use auth::{Resource, Right, waiting};
use journal::Ticket;
use parking_lot::RwLockWriteGuard;

use crate::arguments::{ExchangeArguments, QUEUE_TYPE, QueueArguments, idle};
use crate::catalog::change::{Change, NewExchange, NewQueue};
use crate::catalog::declaration::{
    BindingSpec, Checked, Declarer, DestinationName, ExchangeSpec, GENERATED, QueueSpec, check_binding_names,
    check_exchange_name, check_name, refuse_default_exchange, topic_of_note,
};
use crate::catalog::{Exchange, Tables, Vhost, binding_of};
use crate::encoding::table_bytes;
use crate::engine::admission::Asker;
use crate::engine::bounds::{CHANGE_ENTRIES, STEPS_PER_ENTRY};
use crate::engine::clients::ClientShared;
use crate::engine::tracing;
use crate::error::{Error, ErrorKind};
use crate::queue::{Bound, Queue};
use crate::routing::{Destination, ExchangeKind, Load, Tally};
use crate::session::Client;
use crate::session::consume::no_queue;
use crate::store::facts::{ExchangeFact, QueueFact};
use crate::value::{Table, Value};

/// A queue as declared.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Entries that are ready.
    pub ready: u64,
    /// Its consumers.
    pub consumers: u64,
    /// The ticket for the reply.
    pub ticket: Ticket,
}

/// The states that a deletion insists on. An exchange is always empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteIf {
    /// A queue without consumers, an exchange without bindings.
    pub unused: bool,
    /// A queue without messages.
    pub empty: bool,
}

impl DeleteIf {
    /// Whatever its state is.
    pub const ALWAYS: Self = Self { unused: false, empty: false };
    /// Only while it is not in use.
    pub const UNUSED: Self = Self { unused: true, empty: false };
}

impl Client {
    pub(super) fn authorize(&self, resource: Resource<'_>, right: Right) -> Result<(), Error> {
        self.engine
            .authority
            .authorize(&self.shared.identity, &self.shared.vhost, resource, right)
            .map_err(|denied| Error::refused(denied.to_string()))
    }

    /// Whether the user may publish to an exchange with these routing keys, or bind from it by
    /// them.
    pub(super) fn authorize_topics<'k>(
        &self,
        exchange: &str,
        mut keys: impl Iterator<Item = &'k str>,
        right: Right,
    ) -> Result<(), Error> {
        let is_topic = |exchange: &Exchange| exchange.kind == ExchangeKind::Topic;
        if !self.vhost.tables.read().exchange(exchange).is_some_and(is_topic) {
            return Ok(());
        }
        let (authority, vhost) = (&self.engine.authority, &self.shared.vhost);
        keys.try_for_each(|key| authority.authorize_topic(&self.shared.identity, vhost, exchange, key, right))
            .map_err(|denied| Error::refused(denied.to_string()))
    }

    /// Whether the user may learn that the resource exists, and its properties. Any right on it is
    /// enough, as in RabbitMQ.
    fn authorize_look(&self, resource: Resource<'_>) -> Result<(), Error> {
        let may = |right| self.authorize(resource, right);
        may(Right::Read).or_else(|_| may(Right::Write)).or_else(|_| may(Right::Configure))
    }

    /// Fails for a declaration that is too large, or has no room. `what` names it in words.
    pub(super) fn admit_declaration(&self, what: &str, arguments: &Table, load: Load) -> Result<(), Error> {
        let (bytes, most) = (table_bytes(arguments) as u64, self.engine.settings.limits.declarations.each_bytes);
        if bytes > most {
            return Err(Error::precondition(format!(
                "arguments of {what} in vhost '{}' take {bytes} bytes, of {most} that they may (limits.declaration_bytes)",
                self.vhost.name
            )));
        }
        self.engine.admit_of_user(what, load, (&self.shared.identity, &self.shared.account))?;
        let asker = if self.receiver.consumes() { Asker::Consumer } else { Asker::Publisher };
        self.engine.admit_load(what, load, asker)
    }

    /// Counts what this client's user declares in a vhost.
    fn pays(&self, vhost: &Vhost) -> Tally {
        vhost.bindings.paid_by(self.shared.account.declared())
    }

    /// Fails where the vhost has used its share of a limit. An operator may go beyond it.
    fn check_share(&self, what: &str, of: &str, there: u64, of_all: u64) -> Result<(), Error> {
        if self.shared.identity.is_operator() {
            return Ok(());
        }
        self.engine.check_share(&self.vhost, what, (of, there, of_all))
    }

    fn declarer(&self) -> Declarer {
        Declarer {
            client: Some(self.shared.number),
            is_operator: self.shared.identity.is_operator(),
            unknown: self.engine.settings.unknown_arguments,
        }
    }

    pub(super) fn no_exchange(&self, name: &str) -> Error {
        Error::not_found(format!("no exchange '{name}' in vhost '{}'", self.shared.vhost))
    }

    /// Declares an exchange, or checks that an existing one is the same.
    ///
    /// # Errors
    /// `Precondition` for another kind, other properties or bad arguments, `AccessRefused` for a
    /// reserved name or a missing right.
    pub fn declare_exchange(&mut self, spec: &ExchangeSpec, now: Instant) -> Result<Ticket, Error> {
        self.flush(now);
        let (name, vhost) = (spec.name.as_str(), Arc::clone(&self.vhost));
        check_exchange_name(name)?;
        self.authorize(Resource::exchange(name), Right::Configure)?;
        self.foresee_alternate(spec);
        let mut tables = vhost.tables.write();
        let Checked::New(exchange) = self.find_or_build_exchange(&tables, spec, 0)? else {
            return Ok(self.settled_and(&tables));
        };
        let mut idle = idle::of_exchange(exchange.kind, &spec.arguments);
        self.publisher.add_cost(CHANGE_ENTRIES);
        let change = Change::Exchange(Box::new(exchange));
        let ticket = self.engine.change(&vhost, &mut tables, change).max(self.settled.ticket());
        tables.told.retain_new(&mut idle);
        drop(tables);
        self.tell_idle("exchange", name, &idle);
        Ok(ticket)
    }

    /// A new exchange, which is counted and in no table yet; or the same is there. `coming` are
    /// others that are counted and in no table.
    pub(super) fn find_or_build_exchange(
        &self,
        tables: &Tables,
        spec: &ExchangeSpec,
        coming: usize,
    ) -> Result<Checked<(), Exchange>, Error> {
        let (name, vhost) = (spec.name.as_str(), &self.vhost);
        let Checked::New((kind, parsed)) = self.declarer().exchange((&vhost.name, Some(tables)), spec)? else {
            return Ok(Checked::There(()));
        };
        waiting::forbidden(|| self.authorize_alternate(name, &parsed))?;
        let load = Load::of_exchange(name, &spec.arguments);
        let load = if spec.durable { load } else { load.unlogged() };
        self.admit_declaration(&format!("exchange '{name}'"), &spec.arguments, load)?;
        let limit = self.engine.settings.limits.exchanges;
        let there = (tables.count_exchanges() + coming) as u64;
        self.check_share(&format!("exchange '{name}'"), "exchanges", there, limit)?;
        if !self.engine.catalog.admit_exchange(limit) {
            return Err(Self::over_limit("exchanges", limit));
        }
        let fact = ExchangeFact {
            vhost: vhost.id,
            name: name.to_owned(),
            kind,
            auto_delete: spec.auto_delete,
            internal: spec.internal,
            arguments: spec.arguments.clone(),
            declared_by: None,
        };
        let new = NewExchange { id: self.engine.owner(vhost.log()), fact, durable: spec.durable, parsed };
        Ok(Checked::New(Exchange::new(new, &self.pays(vhost))))
    }

    /// Warns of arguments without effect. Peers choose them, so the line counts against the limit
    /// on their user's lines.
    pub(super) fn tell_idle(&self, what: &str, name: &str, arguments: &[&str]) {
        let ClientShared { user, peer, vhost, .. } = &*self.shared;
        for argument in arguments {
            ::tracing::warn!(
                user,
                peer,
                vhost,
                argument,
                "the argument of {what} '{name}' has no effect; it is kept and shown, and those to come are not told of"
            );
        }
    }

    /// Asks what the declaration asks under the lock: there only what is known is answered.
    fn foresee_alternate(&self, spec: &ExchangeSpec) {
        if self.shared.identity.is_decided_elsewhere()
            && let Ok(Checked::New((_, parsed))) = self.declarer().exchange((&self.vhost.name, None), spec)
        {
            // What it says is asked again.
            let _ = self.authorize_alternate(&spec.name, &parsed);
        }
    }

    /// Messages move on with the rights of the user that declared the exchange: read on it, write
    /// on its alternate exchange.
    fn authorize_alternate(&self, name: &str, parsed: &ExchangeArguments) -> Result<(), Error> {
        let Some(alternate) = &parsed.alternate else { return Ok(()) };
        self.authorize(Resource::exchange(name), Right::Read)?;
        self.authorize(Resource::exchange(alternate), Right::Write)
    }

    /// Checks that an exchange exists. Returns the ticket for the reply.
    ///
    /// # Errors
    /// `NotFound`; `AccessRefused` without any right on it, and for the default exchange, which
    /// can't be declared.
    pub fn check_exchange(&mut self, name: &str, now: Instant) -> Result<Ticket, Error> {
        self.flush(now);
        refuse_default_exchange(name)?;
        self.authorize_look(Resource::exchange(name))?;
        self.make_if_traced(name);
        let tables = self.vhost.tables.read();
        if tables.exchange(name).is_some() {
            return Ok(self.settled_and(&tables));
        }
        Err(self.no_exchange(name))
    }

    /// The ticket for a reply that depends on the vhost's tables but changed nothing.
    pub(super) fn settled_and(&self, tables: &Tables) -> Ticket {
        self.settled.ticket().max(tables.logged())
    }

    /// Makes the exchange of the firehose at its first use.
    pub(super) fn make_if_traced(&self, name: &str) {
        if name == tracing::EXCHANGE {
            self.engine.make_trace_exchange(&self.vhost);
        }
    }

    /// Deletes an exchange with its bindings. One that does not exist is no error.
    ///
    /// # Errors
    /// `AccessRefused` for a predeclared one, `Precondition` if it is in use and must not be.
    pub fn delete_exchange(&mut self, name: &str, only: DeleteIf, now: Instant) -> Result<Ticket, Error> {
        self.flush(now);
        refuse_default_exchange(name)?;
        let vhost = Arc::clone(&self.vhost);
        if name.starts_with("amq.") {
            let text = format!("deletion of system exchange '{name}' in vhost '{}' not allowed", vhost.name);
            return Err(Error::refused(text));
        }
        self.authorize(Resource::exchange(name), Right::Configure)?;
        let mut tables = vhost.tables.write();
        match tables.exchange(name) {
            None => return Ok(self.settled_and(&tables)),
            Some(exchange) if only.unused && !exchange.bindings.is_empty() => {
                return Err(Error::precondition(format!("exchange '{name}' in vhost '{}' in use", vhost.name)));
            }
            Some(_) => {}
        }
        let bindings = vhost.bindings.part_count();
        let ticket = self.engine.end_exchange(&mut tables, name);
        let unbound = bindings.saturating_sub(vhost.bindings.part_count());
        self.publisher.add_cost(CHANGE_ENTRIES + unbound as usize);
        Ok(ticket.max(self.settled.ticket()))
    }

    /// Binds a queue or an exchange to an exchange. The same binding twice is one.
    ///
    /// # Errors
    /// `NotFound`, `Locked`, `AccessRefused`, `Precondition` for bad arguments.
    pub fn bind(&mut self, spec: &BindingSpec, now: Instant) -> Result<Ticket, Error> {
        self.flush(now);
        let vhost = Arc::clone(&self.vhost);
        self.authorize_binding(spec)?;
        self.make_if_traced(&spec.source);
        let mut tables = vhost.tables.write();
        let (destination, queue) = self.resolve(&tables, spec)?;
        let source = tables.exchange(&spec.source).ok_or_else(|| self.no_exchange(&spec.source))?;
        let change = self.new_binding(source, spec, destination, queue.as_deref())?;
        let Some(change) = change else { return Ok(self.settled_and(&tables)) };
        self.publisher.add_cost(CHANGE_ENTRIES);
        let ticket = self.engine.change(&vhost, &mut tables, change).max(self.settled.ticket());
        drop(tables);
        queue.map_or(Ok(()), |queue| self.authorize_bound(spec, &queue))?;
        Ok(ticket)
    }

    /// The change that makes a binding whose ends are known; `None` if it is there.
    pub(super) fn new_binding(
        &self,
        source: &Exchange,
        spec: &BindingSpec,
        destination: Destination,
        queue: Option<&Queue>,
    ) -> Result<Option<Change>, Error> {
        let bound = Bound::new(source.id, spec.key.as_str(), &spec.arguments);
        let binding = binding_of(destination, Arc::clone(&bound.key), &bound.arguments);
        let limit = self.engine.settings.limits.bindings;
        if !source.bindings.contains(&binding) {
            let what = format!("binding from exchange '{}'", spec.source);
            self.check_share(&what, "bindings", self.vhost.bindings.part_count(), limit)?;
            let lasts = !matches!(destination, Destination::Subscriber(_));
            let logged = source.durable && lasts && queue.is_none_or(Queue::logged);
            let load = source.bindings.load_of(&spec.key, &spec.arguments);
            let load = if logged { load } else { load.unlogged() };
            self.admit_declaration(&what, &spec.arguments, load)?;
        }
        Ok(source
            .bindings
            .admit(binding, limit)?
            .map(|admitted| Change::Bind(bound, admitted.paid_by(self.shared.account.declared()))))
    }

    /// Removes a binding to an exclusive queue again that its user may not make: the right may have
    /// been taken away before the queue was bound, and was not checked then.
    pub(super) fn authorize_bound(&self, spec: &BindingSpec, queue: &Arc<Queue>) -> Result<(), Error> {
        if queue.exclusive_to.is_none() {
            return Ok(());
        }
        self.authorize_binding(spec).inspect_err(|_| {
            let binding = binding_of(Destination::Queue(queue.id), spec.key.as_str(), &spec.arguments);
            let lost = vec![(spec.source.as_str().into(), binding, Arc::clone(queue))];
            self.engine.unbind_lost(&self.vhost, lost, &|client| client == self.shared.number);
        })
    }

    /// Removes a binding. A missing binding, or a missing end of it, is no error.
    ///
    /// # Errors
    /// `Locked`, `AccessRefused`.
    pub fn unbind(&mut self, spec: &BindingSpec, now: Instant) -> Result<Ticket, Error> {
        self.flush(now);
        let vhost = Arc::clone(&self.vhost);
        self.authorize_binding(spec)?;
        let mut tables = vhost.tables.write();
        let (destination, bound) = match self.resolve(&tables, spec) {
            Ok((destination, queue)) => (destination, queue.map_or(0, |queue| queue.lock(&self.engine).bindings.len())),
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(self.settled_and(&tables)),
            Err(error) => return Err(error),
        };
        let binding = binding_of(destination, spec.key.as_str(), &spec.arguments);
        // The queue looks for it among all that it has.
        self.publisher.add_cost(CHANGE_ENTRIES + bound / STEPS_PER_ENTRY);
        match self.engine.unbind(&vhost, &mut tables, &spec.source, &binding) {
            Some(ticket) => Ok(ticket.max(self.settled.ticket())),
            None => Ok(self.settled_and(&tables)),
        }
    }

    pub(super) fn authorize_binding(&self, spec: &BindingSpec) -> Result<(), Error> {
        check_binding_names(spec)?;
        match &spec.destination {
            DestinationName::Queue(name) => self.authorize(Resource::queue(name), Right::Write)?,
            DestinationName::Exchange(name) => self.authorize(Resource::exchange(name), Right::Write)?,
        }
        self.authorize(Resource::exchange(&spec.source), Right::Read)?;
        self.authorize_topics(&spec.source, std::iter::once(topic_of_note(&spec.key)), Right::Read)
    }

    fn resolve(&self, tables: &Tables, spec: &BindingSpec) -> Result<(Destination, Option<Arc<Queue>>), Error> {
        match &spec.destination {
            DestinationName::Queue(name) => {
                let queue = tables.queue(name).ok_or_else(|| no_queue(name, &self.shared.vhost))?;
                self.check_owner(queue)?;
                Ok((Destination::Queue(queue.id), Some(Arc::clone(queue))))
            }
            DestinationName::Exchange(name) => {
                let exchange = tables.exchange(name).ok_or_else(|| self.no_exchange(name))?;
                Ok((Destination::Exchange(exchange.id), None))
            }
        }
    }

    /// Declares a queue, or checks that an existing one is the same.
    ///
    /// # Errors
    /// `Precondition` for other properties or bad arguments, `Locked` for an exclusive queue of
    /// another client, `AccessRefused` for a reserved name or a missing right.
    pub fn declare_queue(&mut self, spec: &QueueSpec, now: Instant) -> Result<Declared, Error> {
        self.flush(now);
        let vhost = Arc::clone(&self.vhost);
        let name = self.name_queue(spec)?;
        let mut tables = vhost.tables.write();
        let queue = match self.find_or_build(&tables, &name, spec, 0)? {
            Checked::There(existing) => return Ok(self.declared(&existing, self.settled_and(&tables))),
            Checked::New(queue) => queue,
        };
        self.publisher.add_cost(CHANGE_ENTRIES);
        let change = Change::Queue(Arc::clone(&queue));
        let ticket = self.engine.change(&vhost, &mut tables, change).max(self.settled.ticket());
        self.note_new_queue(tables, &queue);
        Ok(self.declared(&queue, ticket))
    }

    /// The name of a queue to declare, which the user may configure. It is new if the declaration
    /// has none.
    pub(super) fn name_queue(&self, spec: &QueueSpec) -> Result<String, Error> {
        let name = if spec.name.is_empty() { self.engine.names.name(GENERATED) } else { spec.name.clone() };
        check_name(&name)?;
        self.authorize(Resource::queue(&name), Right::Configure)?;
        self.foresee_moves(&name, spec);
        Ok(name)
    }

    /// Asks what the declaration asks under the lock: there only what is known is answered.
    fn foresee_moves(&self, name: &str, spec: &QueueSpec) {
        if self.shared.identity.is_decided_elsewhere()
            && let Ok(Checked::New(parsed)) = self.declarer().queue((&self.vhost.name, None), name, spec)
        {
            // What it says is asked again.
            let _ = self.authorize_moves(name, &parsed);
        }
    }

    /// The queue that is there, or a new one, which is counted and in no table yet. `coming` are
    /// others that are counted and in no table.
    pub(super) fn find_or_build(
        &self,
        tables: &Tables,
        name: &str,
        spec: &QueueSpec,
        coming: usize,
    ) -> Result<Checked<Arc<Queue>, Arc<Queue>>, Error> {
        let (vhost, spec) = (&self.vhost, &self.with_default_type(spec));
        let parsed = match self.declarer().queue((&vhost.name, Some(tables)), name, spec)? {
            Checked::There(existing) => {
                existing.lock(&self.engine).touch(self.engine.clock.unix_ms());
                self.engine.totals.churn.queues_declared.add(1);
                return Ok(Checked::There(Arc::clone(existing)));
            }
            Checked::New(parsed) => parsed,
        };
        waiting::forbidden(|| self.authorize_moves(name, &parsed))?;
        let load = Load::of_queue(name, &spec.arguments);
        let load = if spec.durable && !spec.exclusive { load } else { load.unlogged() };
        self.admit_declaration(&format!("queue '{name}'"), &spec.arguments, load)?;
        let asker = if self.shared.identity.is_operator() { Asker::Operator } else { Asker::Publisher };
        self.engine.check_room_for_queue(vhost, name, (tables.count_queues() + coming) as u64, asker)?;
        let new = NewQueue {
            id: self.engine.owner(vhost.log()),
            fact: QueueFact {
                vhost: vhost.id,
                name: name.to_owned(),
                auto_delete: spec.auto_delete,
                arguments: spec.arguments.clone(),
                declared_by: None,
            },
            durable: spec.durable,
            exclusive_to: spec.exclusive.then_some(self.shared.number),
            queue_type: parsed.queue_type,
            now: self.engine.clock.unix_ms(),
        };
        let queue = vhost.new_queue(tables, new, &self.pays(vhost))?;
        let limit = self.engine.settings.limits.queues;
        if !self.engine.catalog.admit_queue(limit) {
            return Err(Self::over_limit("queues", limit));
        }
        Ok(Checked::New(queue))
    }

    /// What follows when a new queue is in its table.
    pub(super) fn note_new_queue(&mut self, mut tables: RwLockWriteGuard<'_, Tables>, queue: &Arc<Queue>) {
        let mut idle = idle::of_queue(&queue.declared);
        tables.told.retain_new(&mut idle);
        drop(tables);
        self.tell_idle("queue", &queue.name, &idle);
        if queue.exclusive_to.is_some() {
            self.keep_exclusive(queue);
        }
        self.count_new_queue(queue);
    }

    /// The same for a queue that no client owns, but for its arguments without effect.
    pub(super) fn count_new_queue(&self, queue: &Arc<Queue>) {
        self.engine.watch(queue);
        self.engine.totals.churn.queues_declared.add(1);
        self.engine.totals.churn.queues_created.add(1);
    }

    /// The declaration with its vhost's default type, if it has none and that type allows it.
    fn with_default_type<'a>(&self, spec: &'a QueueSpec) -> Cow<'a, QueueSpec> {
        let plain = spec.durable && !spec.exclusive && !spec.auto_delete && !spec.name.is_empty();
        if !plain || spec.arguments.get(QUEUE_TYPE).is_some() {
            return Cow::Borrowed(spec);
        }
        match self.engine.default_queue_type(self.vhost.id) {
            Some(kind) => {
                let mut spec = spec.clone();
                spec.arguments.set(QUEUE_TYPE, Value::Text(kind));
                Cow::Owned(spec)
            }
            None => Cow::Borrowed(spec),
        }
    }

    fn declared(&self, queue: &Queue, ticket: Ticket) -> Declared {
        let inner = queue.lock(&self.engine);
        Declared {
            name: queue.name.to_string(),
            ready: inner.ready() as u64,
            consumers: inner.consumer_count() as u64,
            ticket,
        }
    }

    /// Dead letters and copies move with the rights of the user that declared the queue: read on
    /// it, write on their exchange, configure on a queue that is made for dead letters. Copies go
    /// through the default exchange.
    fn authorize_moves(&self, name: &str, parsed: &QueueArguments) -> Result<(), Error> {
        for way in parsed.dead_letters.all() {
            self.authorize(Resource::queue(name), Right::Read)?;
            self.authorize(Resource::exchange(&way.exchange), Right::Write)?;
            way.made().map_or(Ok(()), |made| self.authorize(Resource::queue(made), Right::Configure))?;
        }
        if parsed.intake.copies.is_some() {
            self.authorize(Resource::queue(name), Right::Read)?;
            self.authorize(Resource::exchange(""), Right::Write)?;
        }
        Ok(())
    }

    /// Checks that a queue exists, or that a session waits for replies at this address. The check
    /// counts as a use, so the queue's expiry starts again.
    ///
    /// # Errors
    /// `NotFound`, `Locked`; `AccessRefused` without any right on it.
    pub fn check_queue(&mut self, name: &str, now: Instant) -> Result<Declared, Error> {
        self.flush(now);
        if self.finds_reply_address(name) {
            return Ok(Declared { name: name.to_owned(), ready: 0, consumers: 1, ticket: self.settled.ticket() });
        }
        self.authorize_look(Resource::queue(name))?;
        let tables = self.vhost.tables.read();
        let queue = tables.queue(name).ok_or_else(|| no_queue(name, &self.shared.vhost))?;
        self.check_owner(queue)?;
        queue.lock(&self.engine).touch(self.engine.clock.unix_ms());
        Ok(self.declared(queue, self.settled_and(&tables)))
    }

    /// Checks that a publish reaches a queue by its name. This includes an exclusive queue of
    /// another client: all may publish to it. Only its owner may consume from it, bind it or delete
    /// it. A client without a right on it learns nothing. Returns the ticket for the reply.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn check_recipient(&mut self, name: &str, now: Instant) -> Result<Ticket, Error> {
        self.flush(now);
        if self.authorize_look(Resource::queue(name)).is_ok() && self.vhost.queue(name).is_none() {
            return Err(no_queue(name, &self.shared.vhost));
        }
        Ok(self.settled.ticket())
    }

    /// Deletes a queue. Returns how many entries were ready; one that does not exist had none.
    ///
    /// # Errors
    /// `Precondition` if it is in use or not empty and must not be, `Locked`, `AccessRefused`.
    pub fn delete_queue(&mut self, name: &str, only: DeleteIf, now: Instant) -> Result<(u64, Ticket), Error> {
        self.flush(now);
        let vhost = Arc::clone(&self.vhost);
        self.authorize(Resource::queue(name), Right::Configure)?;
        let mut tables = vhost.tables.write();
        let Some(queue) = tables.queue(name).cloned() else { return Ok((0, self.settled_and(&tables))) };
        self.end_queue(&mut tables, &queue, only)
    }

    /// Ends a queue, unless its state or its owner is against it.
    pub(super) fn end_queue(
        &mut self,
        tables: &mut Tables,
        queue: &Arc<Queue>,
        only: DeleteIf,
    ) -> Result<(u64, Ticket), Error> {
        self.check_owner(queue)?;
        let (name, vhost) = (&queue.name, Arc::clone(&self.vhost));
        let delayed = if only.empty { queue.delayed(&self.engine) } else { 0 };
        let bindings = vhost.bindings.part_count();
        let ended = self.engine.end_queue(tables, queue, &|inner| match () {
            () if only.unused && inner.consumer_count() > 0 => Err("in use"),
            () if only.empty && (inner.ready() + inner.waiting() > 0 || delayed > 0) => Err("not empty"),
            () => Ok(()),
        });
        let (ready, ticket) =
            ended.map_err(|state| Error::precondition(format!("queue '{name}' in vhost '{}' {state}", vhost.name)))?;
        let unbound = bindings.saturating_sub(vhost.bindings.part_count());
        self.publisher.add_cost(CHANGE_ENTRIES + (ready + unbound) as usize);
        Ok((ready, ticket.max(self.settled.ticket())))
    }

    /// Remembers an exclusive queue. Deleted ones are forgotten whenever the number has doubled.
    fn keep_exclusive(&mut self, queue: &Arc<Queue>) {
        if self.exclusive.len() >= 16 && self.exclusive.len().is_power_of_two() {
            let engine = &self.engine;
            self.exclusive.retain(|queue| !queue.lock(engine).is_deleted());
        }
        self.exclusive.push(Arc::clone(queue));
    }
}
