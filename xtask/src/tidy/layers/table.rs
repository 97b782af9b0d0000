//! The layers, a folder after the other.
//!
//! A line is a layer, the lowest first. A module that must know one above it is a fault of the cut:
//! move what it uses down. An exception needs a reason that holds for good.

use super::Folder;

/// The folders whose modules are in layers.
#[rustfmt::skip] // A line is a layer.
pub(super) const FOLDERS: &[Folder] = &[
    Folder {
        path: "crates/wire/src",
        layers: &[
            &["network", "output", "reader"],
            &["connection"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/selector/src",
        layers: &[
            &["error", "pattern", "value"],
            &["node", "token"],
            &["evaluate", "parse"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/auth/src",
        layers: &[
            &["sasl", "shown", "throttle", "pattern"],
            &["password", "permission", "topic"],
            &["user"],
            &["identity", "login"],
            &["authority"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/testkit/src",
        layers: &[
            &["certificates", "rights", "sim_disk"],
            &["broker"],
            &["peer"],
            &["script"],
        ],
        allowed: &[],
    },
];
