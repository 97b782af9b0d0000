//! What a node is to the others of its cluster, and the promotion of one that follows.
//!
//! Both kinds of nodes answer in one shape: what only the other kind has is null. A node that leads
//! refuses to be promoted; how one that follows is, lies in `standby/promotion.rs`.

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};

use super::field::{Field, Kind, figure, whole};
use crate::api::{Answer, Asker, Failure, Shared, shown};
use crate::report::{ClusterStatus, FollowerRow, StandbyRow};

/// A node, as others of its cluster see it.
pub(crate) enum ClusterRow {
    /// It serves clients.
    Leads { node: String, status: ClusterStatus },
    /// It follows another. With what is lost at most, if it is promoted now.
    Follows { row: StandbyRow, loss: String },
}

/// A promotion that was made.
pub(crate) struct PromotionRow {
    /// What has become of the node.
    pub(crate) text: String,
    /// What was lost at most.
    pub(crate) loss: String,
}

impl ClusterRow {
    /// All its fields.
    pub(crate) fn shown(&self) -> Json {
        whole(CLUSTER, self)
    }

    fn leads(&self) -> Option<&ClusterStatus> {
        match self {
            Self::Leads { status, .. } => Some(status),
            Self::Follows { .. } => None,
        }
    }

    fn follows(&self) -> Option<&StandbyRow> {
        match self {
            Self::Leads { .. } => None,
            Self::Follows { row, .. } => Some(row),
        }
    }
}

impl PromotionRow {
    /// All its fields.
    pub(crate) fn shown(&self) -> Json {
        whole(PROMOTION, self)
    }
}

pub(super) const CLUSTER: &[Field<ClusterRow>] = &[
    figure("role", Kind::Text, "leader or standby", |row| {
        json!(row.leads().map_or("standby", |status| status.role.as_str()))
    }),
    figure("node", Kind::Text, "Its name", |row| match row {
        ClusterRow::Leads { node, .. } => json!(node),
        ClusterRow::Follows { row, .. } => json!(row.node),
    }),
    figure("term", Kind::Number, "How often a node of the cluster was promoted", |row| match row {
        ClusterRow::Leads { status, .. } => json!(status.term),
        ClusterRow::Follows { row, .. } => json!(row.term),
    }),
    figure("state", Kind::Text, "serving, connecting, copying, following, stopped or promoting", |row| {
        json!(row.follows().map_or("serving", |row| row.state.as_str()))
    }),
    figure("leader", Kind::Text, "Where the node is that it follows", |row: &ClusterRow| {
        json!(row.follows().map(|row| &row.leader))
    })
    .or_null(),
    figure("trouble", Kind::Text, "Why it does not follow", |row: &ClusterRow| {
        json!(row.follows().map(|row| &row.trouble).filter(|trouble| !trouble.is_empty()))
    })
    .or_null(),
    figure("promotable", Kind::Truth, "It follows, and has a whole copy", |row| {
        json!(row.follows().is_some_and(|row| row.whole))
    }),
    figure("loss", Kind::Text, "What is lost at most if it is promoted now", |row: &ClusterRow| match row {
        ClusterRow::Leads { .. } => Json::Null,
        ClusterRow::Follows { loss, .. } => json!(loss),
    })
    .or_null(),
    figure("lag_entries", Kind::Number, "Entries that were known to be missing, at most", |row: &ClusterRow| {
        json!(row.follows().map(|row| row.lag_entries))
    })
    .or_null(),
    figure("lag_bytes", Kind::Number, "The bytes of these", |row: &ClusterRow| {
        json!(row.follows().map(|row| row.lag_bytes))
    })
    .or_null(),
    figure("lag_ms", Kind::Number, "All that the leader had flushed so long ago is here", |row: &ClusterRow| {
        json!(row.follows().and_then(|row| row.lag_ms))
    })
    .or_null(),
    figure("heard_ms", Kind::Number, "Since the leader was heard", |row: &ClusterRow| {
        json!(row.follows().and_then(|row| row.heard_ms))
    })
    .or_null(),
    figure("damaged_segments", Kind::Number, "Segments of the standby that do not read back", |row: &ClusterRow| {
        json!(row.follows().map(|row| row.damaged_segments))
    })
    .or_null(),
    figure("copied_bytes", Kind::Number, "Bytes of the copy that came", |row: &ClusterRow| {
        json!(row.follows().map(|row| row.copied_bytes))
    })
    .or_null(),
    figure("copy_bytes", Kind::Number, "The size of the copy", |row: &ClusterRow| {
        json!(row.follows().map(|row| row.copy_bytes))
    })
    .or_null(),
    figure("nodes_address", Kind::Text, "Where other nodes reach the leader", |row: &ClusterRow| {
        json!(row.leads().map(|status| &status.nodes_address).filter(|address| !address.is_empty()))
    })
    .or_null(),
    figure("confirms", Kind::Text, "What they rest on: local, replicated, waiting or alone", |row: &ClusterRow| {
        json!(row.leads().map(|status| &status.confirms))
    })
    .or_null(),
    figure("confirms_waited_ms", Kind::Number, "How long the oldest has waited for a standby", |row: &ClusterRow| {
        json!(row.leads().map(|status| status.confirms_waited_ms))
    })
    .or_null(),
    figure("followers", Kind::Rows("followers"), "The nodes that follow it", |row| {
        let rows = row.leads().map(|status| status.followers.as_slice()).unwrap_or_default();
        rows.iter().map(|row| whole(FOLLOWERS, row)).collect()
    }),
];

pub(super) const FOLLOWERS: &[Field<FollowerRow>] = &[
    figure("name", Kind::Text, "Its name", |row| json!(row.name)),
    figure("node", Kind::Text, "Its number in the cluster", |row| json!(row.node)),
    figure("address", Kind::Text, "Where it connects from", |row| json!(row.address)),
    figure("state", Kind::Text, "copying, following, or away while the log is kept for it", |row| json!(row.state)),
    figure("lag_entries", Kind::Number, "Entries that are flushed here and not there, at most", |row| {
        json!(row.lag_entries)
    }),
    figure("lag_bytes", Kind::Number, "Bytes that are flushed here and were not sent, at most", |row| {
        json!(row.lag_bytes)
    }),
    figure("lag_ms", Kind::Number, "All that was flushed here so long ago is flushed there", |row| json!(row.lag_ms)),
    figure("kept_bytes", Kind::Number, "Bytes of the log that are kept for it", |row| json!(row.kept_bytes)),
];

pub(super) const PROMOTION: &[Field<PromotionRow>] = &[
    figure("text", Kind::Text, "What has become of the node", |row| json!(row.text)),
    figure("loss", Kind::Text, "What was lost at most", |row| json!(row.loss)),
];

/// What this node is to others, which it leads.
pub(super) async fn show(asker: Asker, State(source): Shared) -> Answer {
    if !asker.monitors() {
        return Err(Failure::forbidden());
    }
    shown(ClusterRow::Leads { node: source.facts.node.clone(), status: source.cluster() }.shown())
}

/// A node that leads can't be promoted.
pub(super) async fn refuse(asker: Asker) -> Answer {
    asker.administers()?;
    Err(Failure::new(StatusCode::CONFLICT, "conflict", "this node serves clients already, and follows none"))
}
