//! How much of a message can be checked.

/// Digits of a counter.
pub const COUNTER_DIGITS: usize = 6;

/// How much of a stamp fits into a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// 40 bytes and more: magic, run, producer and number, intended and actual time, a seal over
    /// all of these.
    Full,
    /// 16 to 39 bytes: producer, number and intended time.
    Timed,
    /// 8 to 15 bytes: producer and number.
    Numbered,
    /// Less: messages can only be counted.
    Counted,
    /// Six hexadecimal digits: the number.
    Counter,
}

impl Check {
    /// What fits into `size` bytes of a payload that is no counter.
    pub fn of(size: usize) -> Self {
        match size {
            40.. => Self::Full,
            16.. => Self::Timed,
            8.. => Self::Numbered,
            _ => Self::Counted,
        }
    }

    /// Bytes of the stamp.
    pub fn length(self) -> usize {
        match self {
            Self::Full => 40,
            Self::Timed => 16,
            Self::Numbered => 8,
            Self::Counted => 0,
            Self::Counter => COUNTER_DIGITS,
        }
    }
}
