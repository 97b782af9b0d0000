//! What the control socket is answered: the requests of the command line.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use broker::{Browse, ErrorKind, RedriveMode, Repair, RepairMode};

use super::{Answer, Request};
use crate::change::{self, Caller, Refused, Why};
use crate::counters::delivered;
use crate::diagnosis::DiagnosisRow;
use crate::listing;
use crate::report::{ConnectionStatus, MessageStatus, ObjectStatus, RepairRow, ServerStatus, Status, StorageStatus};
use crate::resources::{self, Import, Secret, export};
use crate::source::{Source, alarms};

impl Source {
    /// The answer to a request. Long work ends early when `gone` is set.
    pub(crate) fn answer(&self, request: &Request, caller: Caller, gone: &AtomicBool) -> Answer {
        match request {
            Request::Status => Answer::Status(Box::new(self.status())),
            Request::Repair { vhost, queue, accept_loss } => {
                let mode = if *accept_loss { RepairMode::AcceptLoss } else { RepairMode::Look };
                let repair = self.broker.repair(vhost, queue, mode);
                Answer::Repaired(repair.map(|repair| repaired(vhost, queue, &repair)))
            }
            Request::Browse { vhost, queue, selector, limit } => {
                let browse = Browse { vhost, queue, selector, limit: *limit };
                self.browse(&browse, &caller, gone).map_or_else(refused, Answer::Browsed)
            }
            Request::Diagnose { vhost, queue } => match self.broker.diagnose(vhost, queue) {
                Some(found) => Answer::Diagnosed(Box::new(DiagnosisRow::of(&found))),
                None => Answer::NoSuchQueue(format!("no queue '{queue}' in vhost '{vhost}'")),
            },
            Request::Publish { vhost, exchange, message } => match message.clone().message(exchange) {
                Ok(message) => self.publish(vhost, &message, caller).map_or_else(Answer::NotChanged, Answer::Published),
                Err(text) => Answer::NotChanged(Refused::new(Why::Invalid, text)),
            },
            Request::Fetch { vhost, queue, count } => {
                let fetched = resources::fetched(self, vhost, queue, *count, caller);
                fetched.map_or_else(Answer::NotChanged, Answer::Fetched)
            }
            Request::Explain(what) => what.of(self).map_or_else(refused, Answer::Explained),
            Request::Redrive { vhost, queue, selector, limit, dry_run } => {
                let mode = if *dry_run { RedriveMode::DryRun } else { RedriveMode::Move };
                let browse = Browse { vhost, queue, selector, limit: *limit };
                self.redrive(&browse, mode, gone).map_or_else(refused, Answer::Redriven)
            }
            Request::PlanTask { vhost, task } => {
                let planned = resources::plan(&self.broker, vhost, task.clone(), &caller);
                planned.map_or_else(Answer::NotChanged, Answer::Planned)
            }
            Request::Backup { directory } => {
                // A server that stops ends the backup early.
                (self.backup)(Path::new(directory), &|| self.is_wanted(gone))
                    .map_or_else(Answer::NotBackedUp, Answer::BackedUp)
            }
            Request::List { what, vhost, fields } => {
                Answer::List(listing::narrow(self, what.collection(), vhost.as_deref(), fields))
            }
            Request::Change(change) => {
                change::make(&self.broker, change.clone(), caller).map_or_else(Answer::NotChanged, Answer::Changed)
            }
            Request::Export => Answer::Exported(export(self)),
            Request::Import { document, skip_unsupported, vhost, extent } => {
                let vhost = vhost.as_deref();
                let import = Import { vhost, skip_unsupported: *skip_unsupported, extent: *extent, caller };
                resources::import(&self.broker, document, &import).map_or_else(Answer::NotChanged, Answer::Imported)
            }
            Request::Cluster => Answer::Cluster(Box::new(self.cluster())),
            Request::Standby | Request::Promote(_) => {
                Answer::Refused("this node serves clients already, and follows none".to_owned())
            }
            Request::Authenticate { user, password } => Answer::Authenticated(match password {
                Secret::Password(password) => self
                    .broker
                    .authority()
                    .verify(user, password.as_bytes(), Ipv4Addr::LOCALHOST.into(), Instant::now())
                    .is_ok(),
                Secret::None | Secret::Hash(_) => false,
            }),
        }
    }

    fn status(&self) -> Status {
        let overview = self.broker.overview();
        let (facts, limits) = (&self.facts, self.broker.limits());
        Status {
            server: ServerStatus {
                version: facts.version.clone(),
                product: facts.product.clone(),
                compat_version: facts.compat_version.clone(),
                node: facts.node.clone(),
                cluster: self.broker.cluster_name(),
                pid: std::process::id(),
                uptime_seconds: facts.started.elapsed().as_secs(),
                data_dir: facts.data_dir.clone(),
                durability: facts.durability.clone(),
                listeners: facts.listeners.clone(),
                alarms: alarms(overview.alarms),
            },
            connections: ConnectionStatus {
                sockets: self.count_sockets() as u64,
                connections: overview.objects.connections,
                refused_connections: self.refused_connections(&overview).iter().map(|(_, count)| count).sum(),
                max_connections: limits.connections,
                reserved_connections: self.broker.reserved_connections(),
                vhost_share: limits.vhost_share,
                user_share: limits.user_share,
            },
            objects: ObjectStatus {
                sessions: overview.objects.sessions,
                consumers: overview.objects.consumers,
                queues: overview.objects.queues,
                damaged_queues: overview.objects.damaged_queues,
                exchanges: overview.objects.exchanges,
                bindings: overview.objects.bindings,
            },
            messages: MessageStatus {
                messages_ready: overview.messages.ready,
                messages_unacked: overview.messages.unacked,
                published: overview.totals.publishes.received.get(),
                confirmed: overview.totals.publishes.confirmed.get(),
                delivered: delivered(&overview),
                acknowledged: overview.totals.deliveries.acknowledged.get(),
                unroutable: overview.totals.publishes.unroutable_dropped.get()
                    + overview.totals.publishes.unroutable_returned.get(),
            },
            storage: StorageStatus {
                memory_used_bytes: overview.memory.used,
                memory_limit_bytes: overview.memory.limit,
                memory_kept_bytes: self.kept(&overview.memory).all(),
                memory_uncounted_bytes: self.kept(&overview.memory).uncounted(&overview.memory),
                journal_used_bytes: overview.journal.used_bytes,
                journal_max_bytes: overview.journal.max_bytes,
                segments: overview.journal.segments.files.into(),
                segment_bytes: overview.journal.segments.bytes,
                damaged_segments: overview.journal.segments.damaged.into(),
                disk_free_bytes: overview.journal.free_bytes,
                disk_free_limit_bytes: overview.disk.least_free,
                disk_limit_bytes: overview.disk.most_stored,
            },
            cluster: self.cluster(),
        }
    }
}

/// What a repair of this queue came to. The log says so, too, if it gave messages up.
fn repaired(vhost: &str, queue: &str, repair: &Repair) -> RepairRow {
    let Repair { read, unreadable, numbers, given_up } = *repair;
    if given_up > 0 {
        let (first, last) = numbers;
        tracing::warn!("queue '{queue}' in vhost '{vhost}': {given_up} messages given up, numbers {first} to {last}");
    }
    RepairRow { read, unreadable, numbers, given_up }
}

fn refused(error: broker::Error) -> Answer {
    match error.kind {
        ErrorKind::NotFound => Answer::NoSuchQueue(error.text),
        ErrorKind::AccessRefused => Answer::NotChanged(error.into()),
        _ => Answer::Refused(error.text),
    }
}
