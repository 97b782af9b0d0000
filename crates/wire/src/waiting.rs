//! Whether the work under way on this thread may wait for a program elsewhere.
//!
//! Most threads must not: those of the sockets have many connections each. So waiting is off by
//! default. It is on where a caller has given work a thread of its own ([`allowed`]), and off again
//! where that work holds a lock ([`forbidden`]). Who could wait looks here first.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State { may: false, has: false }) };
}

#[derive(Debug, Clone, Copy)]
struct State {
    may: bool,
    /// Something has waited since the work began.
    has: bool,
}

/// Puts the former state back, also after a panic.
struct Restores(State);

impl Drop for Restores {
    fn drop(&mut self) {
        STATE.set(self.0);
    }
}

/// Does work that may wait.
pub fn allowed<T>(work: impl FnOnce() -> T) -> T {
    let _restores = Restores(STATE.replace(State { may: true, has: false }));
    work()
}

/// Does work that must not wait, as part of work that may.
pub fn forbidden<T>(work: impl FnOnce() -> T) -> T {
    let before = STATE.get();
    let _restores = Restores(STATE.replace(State { may: false, ..before }));
    work()
}

/// Whether the work under way may wait.
pub fn is_allowed() -> bool {
    STATE.get().may
}

/// Notes that the work under way is going to wait.
pub fn note() {
    STATE.set(State { has: true, ..STATE.get() });
}

/// Whether the work under way has waited. It had better come to an end soon.
pub fn has_waited() -> bool {
    STATE.get().has
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_off_but_where_a_caller_allows_it() {
        assert!(!is_allowed());
        allowed(|| {
            assert!(is_allowed() && !has_waited());
            forbidden(|| assert!(!is_allowed()));
            assert!(is_allowed());
            note();
            assert!(has_waited());
            allowed(|| assert!(!has_waited(), "other work"));
        });
        assert!(!is_allowed() && !has_waited());
        let _ = std::panic::catch_unwind(|| allowed(|| panic!("a test of what follows")));
        assert!(!is_allowed(), "after a panic");
    }
}
