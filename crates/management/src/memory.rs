//! What takes the memory of the process, in RabbitMQ's categories.
//!
//! Hermod knows three: queued messages, large messages that are arriving, and the rest. It has no
//! Erlang memory, so the other categories are 0.

use broker::{MemoryUse, Overview};
use serde_json::{Map, Value as Json, json};

use crate::process::Process;

/// RabbitMQ's categories that are always 0 here.
const NONE_OF_IT: [&str; 19] = [
    "atom",
    "binary",
    "code",
    "connection_channels",
    "connection_readers",
    "connection_writers",
    "metadata_store",
    "metadata_store_ets",
    "metrics",
    "mgmt_db",
    "mnesia",
    "msg_index",
    "other_ets",
    "other_proc",
    "plugins",
    "quorum_ets",
    "quorum_queue_procs",
    "stream_queue_coordinator_procs",
    "stream_queue_procs",
];

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Bytes of the process. If the system does not tell, the sum of the others.
    pub(crate) total: u64,
    /// Bytes of queued messages.
    pub(crate) queued: u64,
    /// Bytes of large messages that are arriving or wait for a flush.
    pub(crate) arriving: u64,
}

/// Bytes that raise no alarm, since no consumer could end it: they are there as long as what they
/// are for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    /// Queues, exchanges and bindings.
    pub(crate) declared: u64,
    /// Connections, sessions and consumers.
    pub(crate) clients: u64,
    /// Answers and documents that are under way over HTTP, and the readings and samples that rates
    /// and charts are made from.
    pub(crate) http: u64,
    /// Buffers of connections that have not authenticated.
    pub(crate) strangers: u64,
}

impl Kept {
    /// Bytes of the process that neither the broker counts nor these are.
    pub(crate) fn uncounted(&self, of_broker: &MemoryUse) -> u64 {
        of_broker.uncounted.saturating_sub(self.http + self.strangers)
    }

    /// Their sum.
    pub(crate) fn all(&self) -> u64 {
        self.declared + self.clients + self.http + self.strangers
    }
}

impl Memory {
    pub(crate) fn of(overview: &Overview, process: Process) -> Self {
        let total = process.resident_bytes.unwrap_or(overview.memory.used);
        let arriving = overview.memory.arriving;
        Self { total, queued: overview.memory.used.saturating_sub(arriving), arriving }
    }

    /// Everything else.
    pub(crate) fn rest(&self) -> u64 {
        self.total.saturating_sub(self.queued + self.arriving)
    }

    /// The parts in bytes, under RabbitMQ's names.
    pub(crate) fn parts(&self) -> Map<String, Json> {
        let mut parts: Map<String, Json> = NONE_OF_IT.map(|name| (name.to_owned(), json!(0))).into_iter().collect();
        for (name, bytes) in [
            ("queue_procs", self.queued),
            ("connection_other", self.arriving),
            ("other_system", self.rest()),
            ("allocated_unused", 0),
            ("reserved_unallocated", 0),
        ] {
            parts.insert(name.to_owned(), json!(bytes));
        }
        parts
    }

    /// The document of `nodes/NAME/memory`.
    pub(crate) fn document(&self) -> Json {
        let mut parts = self.parts();
        parts.insert("strategy".to_owned(), json!("rss"));
        parts.insert("total".to_owned(), json!({ "rss": self.total, "erlang": self.total, "allocated": self.total }));
        json!({ "memory": parts })
    }

    /// The categories in percent of the whole. A category that is not empty has at least 1.
    pub(crate) fn shares(&self) -> Json {
        let share = |bytes: u64| if bytes == 0 { 0 } else { (bytes * 100 / self.total.max(1)).max(1) };
        let parts = self.parts().into_iter();
        let mut shares: Map<String, Json> =
            parts.map(|(name, bytes)| (name, json!(share(bytes.as_u64().unwrap_or_default())))).collect();
        shares.insert("total".to_owned(), json!(100));
        json!({ "memory": shares })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_up_the_whole() {
        let memory = Memory { total: 1000, queued: 300, arriving: 1 };
        let sum: u64 = memory.parts().values().filter_map(Json::as_u64).sum();
        assert_eq!(sum, memory.total);
        assert_eq!(memory.document()["memory"]["total"]["rss"], 1000);
        let shares = memory.shares();
        assert_eq!((&shares["memory"]["queue_procs"], &shares["memory"]["connection_other"]), (&json!(30), &json!(1)));
        assert_eq!(Memory { total: 5, queued: 9, arriving: 0 }.rest(), 0);
    }
}
