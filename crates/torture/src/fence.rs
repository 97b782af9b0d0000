//! The kinds of replies that promise that all earlier settlements of their session are on disk.
//!
//! A violation names the kind that let a settlement back, so each kind is one value here and one
//! request in a conversation.

/// What kind of reply answers a fence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fence {
    /// The answer to a passive declare of a queue.
    #[default]
    LookAtQueue,
    /// The answer to a passive declare of an exchange.
    LookAtExchange,
    DeclareQueue,
    DeclareExchange,
    BindQueue,
    UnbindQueue,
    BindExchange,
    UnbindExchange,
    DeleteQueue,
    DeleteExchange,
    Purge,
    Cancel,
    /// The answer to a recover, of a consumer that leaves.
    Recover,
    CloseChannel,
    CloseConnection,
    /// The receipt of the ACK or NACK itself.
    SettleReceipt,
    SendReceipt,
    SubscribeReceipt,
    UnsubscribeReceipt,
    BeginReceipt,
    CommitReceipt,
    AbortReceipt,
    /// The receipt of the DISCONNECT, or of the UNSUBSCRIBE of everything, of a consumer that
    /// leaves.
    DisconnectReceipt,
    /// The answer to the commit that contains the settlement.
    Commit,
}

impl Fence {
    /// What a consumer of AMQP may ask and go on.
    pub(crate) const AMQP: [Self; 12] = [
        Self::LookAtQueue,
        Self::LookAtExchange,
        Self::DeclareQueue,
        Self::DeclareExchange,
        Self::BindQueue,
        Self::UnbindQueue,
        Self::BindExchange,
        Self::UnbindExchange,
        Self::DeleteQueue,
        Self::DeleteExchange,
        Self::Purge,
        Self::Cancel,
    ];
    /// What it may ask when it leaves.
    pub(crate) const AMQP_LAST: [Self; 3] = [Self::Recover, Self::CloseChannel, Self::CloseConnection];
    /// What a consumer of STOMP may ask and go on.
    pub(crate) const STOMP: [Self; 7] = [
        Self::SettleReceipt,
        Self::SendReceipt,
        Self::SubscribeReceipt,
        Self::UnsubscribeReceipt,
        Self::BeginReceipt,
        Self::CommitReceipt,
        Self::AbortReceipt,
    ];
    /// What it may ask when it leaves.
    pub(crate) const STOMP_LAST: [Self; 1] = [Self::DisconnectReceipt];
}
