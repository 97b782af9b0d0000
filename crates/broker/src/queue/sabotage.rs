//! A deliberate fault, in builds for the crash harness only: references are logged some visits late, so that
//! acknowledgements and confirms can precede them. A harness that does not find it is worth nothing.

/// Visits by which references are late.
const LATE: u32 = 3;

/// What one queue has not logged yet.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    first: Option<u64>,
    visits: u32,
}

/// The first entry to log a reference of now, or `None` to log nothing in this visit.
pub(super) fn hold_back(held: &mut HeldBack, first: u64, grouped: bool) -> Option<u64> {
    let armed = std::env::var_os("HERMOD_SABOTAGE").is_some_and(|fault| fault == "ack-before-message");
    if !armed || grouped {
        return Some(first);
    }
    let oldest = *held.first.get_or_insert(first);
    held.visits += 1;
    if held.visits < LATE {
        return None;
    }
    *held = HeldBack::default();
    Some(oldest)
}
