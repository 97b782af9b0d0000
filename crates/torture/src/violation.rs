//! A broken promise: which of the invariants, and the message by name.

/// What the broker promises and the checker demands; docs/ledger/crash.md explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Invariant {
    /// I1: what was confirmed is delivered until it is settled.
    Lost,
    /// I2: nothing is delivered that was not published to that queue, byte for byte.
    Phantom,
    /// I3: `redelivered=false` means that it was never delivered before.
    Duplicate,
    /// I4: nothing is delivered after a settlement that a later reply fenced.
    AfterFence,
    /// I5: first deliveries to one consumer come in the order in which one producer published.
    Order,
    /// I6: a transaction is there as a whole or not at all, and not before its commit.
    Transaction,
    /// I7: nothing that is delayed comes before its time, and nothing dies of age before it.
    Early,
    /// I8: while nothing is published, nothing comes after what has a lower priority.
    Priority,
    /// I9: while the broker lives, nothing comes again that a live connection holds or has
    /// accepted.
    Twice,
    /// I10: properties, headers, routing key and marks come as they were published, and as the
    /// message's way has made them.
    Changed,
    /// I11: queues hold what they must and no more, by their own counts, and no more than their
    /// length limit.
    Count,
    /// I12: what is confirmed comes in time to consumers that wait for it.
    Stalled,
    /// I13: a queue with a single active consumer delivers to no other one while that one lives,
    /// nor one with groups a message of a group.
    Single,
    /// I14: where the last values stay, no two messages of one key wait at the same time.
    Replaced,
}

impl Invariant {
    fn describe(self) -> &'static str {
        match self {
            Self::Lost => "I1 lost",
            Self::Phantom => "I2 phantom or corrupt",
            Self::Duplicate => "I3 delivered twice as new",
            Self::AfterFence => "I4 delivered after a fenced settlement",
            Self::Order => "I5 out of order",
            Self::Transaction => "I6 half a transaction",
            Self::Early => "I7 before its time",
            Self::Priority => "I8 behind a lower priority",
            Self::Twice => "I9 delivered while a live connection has it",
            Self::Changed => "I10 other properties",
            Self::Count => "I11 miscounted",
            Self::Stalled => "I12 stalled",
            Self::Replaced => "I14 beside the one that took its place",
            Self::Single => "I13 beside the one consumer of its queue or group",
        }
    }
}

/// One broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    /// Deaths of the broker so far.
    pub(crate) kills: u64,
    /// Which message, where, and what was known of it.
    pub(crate) what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (after {} kills): {}", self.invariant.describe(), self.kills, self.what)
    }
}
