//! Whether the figures of a slice may be used.

use serde::{Deserialize, Serialize};

/// Whether a slice's figures may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// No rule was broken.
    pub valid: bool,
    /// Rules that the slice broke.
    pub violations: Vec<String>,
    /// What a reader must know, though it breaks no rule.
    pub notes: Vec<String>,
}

impl Verdict {
    /// True when the machine, not the target, is to blame.
    pub fn disturbed(&self) -> bool {
        self.violations.iter().any(|text| text.starts_with(DISTURBED))
    }
}

/// How violations begin that are the machine's fault.
pub const DISTURBED: &str = "disturbed: ";
