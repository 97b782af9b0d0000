//! How the intended times of an open loop are spread.

/// How the intended times are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Equal gaps.
    Uniform,
    /// Exponential gaps: independent arrivals.
    Poisson,
    /// Five times the rate for a fifth of each second, then nothing for the rest of it.
    Bursts,
}
