//! Why a queue does not move, with the evidence: what `hermod why`, the API and the console say is
//! read here and nowhere else.

use crate::alarms::AlarmsUp;
use crate::broker::Broker;
use crate::queue::dropped::MissingTarget;
use crate::queue::{Ages, Cause};
use crate::report::{ConsumerReport, QueueReport};

/// Whether a queue moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Messages wait, and something stops them: see its causes.
    Stuck,
    /// Messages wait for their time or the disk, and will go on by themselves.
    Waits,
    /// Messages are ready, and a consumer takes them.
    Moves,
    /// All messages are with consumers.
    Delivered,
    /// There are no messages.
    Empty,
}

impl QueueReport {
    /// Whether it moves.
    pub fn standing(&self) -> Standing {
        let causes = self.figures.causes;
        if causes.has_trouble() {
            Standing::Stuck
        } else if causes.iter().any(|cause| matches!(cause, Cause::Delayed | Cause::WaitsForDisk)) {
            Standing::Waits
        } else if self.ready > 0 {
            Standing::Moves
        } else if self.unacked > 0 {
            Standing::Delivered
        } else {
            Standing::Empty
        }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// The queue. The causes are among its figures.
    pub queue: QueueReport,
    /// Its consumers.
    pub consumers: Vec<ConsumerReport>,
    /// The times behind the causes.
    pub ages: Ages,
    /// Why its dead-letter queue can't be made, if messages wait for it.
    pub unmade: Option<String>,
    /// What was missing for its last dead letter that found nothing.
    pub missing: Option<MissingTarget>,
    /// The alarms that are up.
    pub alarms: AlarmsUp,
    /// The time of the diagnosis, in milliseconds since 1970.
    pub at: u64,
}

impl Diagnosis {
    /// Whether the queue moves.
    pub fn standing(&self) -> Standing {
        self.queue.standing()
    }

    /// Why it does not, the gravest cause first.
    pub fn causes(&self) -> impl Iterator<Item = Cause> {
        self.queue.figures.causes.iter()
    }
}

impl Broker {
    /// Why a queue does not move; `None` without such a queue.
    pub fn diagnose(&self, vhost: &str, queue: &str) -> Option<Diagnosis> {
        let names = [queue.into()];
        let mut report = self.some_queues(vhost, &names).pop()?;
        let alarms = self.engine.alarms_up();
        if alarms.memory || alarms.disk {
            report.figures.causes.add(Cause::Alarm);
        }
        let consumers = self.consumers_of_queues(vhost, &names);
        let vhost = self.engine.catalog.vhost(vhost)?;
        let queue = vhost.tables.read().queue(queue).cloned()?;
        let ages = queue.ages(&self.engine);
        let inner = queue.lock(&self.engine);
        let (unmade, missing) = (inner.unmade().map(str::to_owned), inner.missing_target().cloned());
        drop(inner);
        Some(Diagnosis { queue: report, consumers, ages, unmade, missing, alarms, at: self.engine.clock.unix_ms() })
    }
}
