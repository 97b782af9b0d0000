//! Options of the system's allocator about freed memory.
//!
//! The GNU allocator keeps large blocks once a large block was freed. After a burst of messages of
//! 16 MiB it would keep all their memory for good. With a fixed threshold it keeps no larger
//! blocks: they come from the system, and go back at once when they are freed.

/// Blocks of this size and above go back to the system when they are freed. Smaller ones are worth
/// keeping.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: i32 = 4 << 20;

/// Sets the threshold. It must be called first of all, before there is another thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe way to set an option of the allocator")]
pub(crate) fn give_large_blocks_back() {
    for (option, value) in [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, 4 * LARGE)] {
        // SAFETY: mallopt takes two integers and changes only options of the allocator, under the
        // allocator's own lock. It ignores values that it does not accept.
        unsafe { libc::mallopt(option, value) };
    }
}

/// Returns free pages between blocks in use to the system. It takes some milliseconds for each
/// hundred MiB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe way to ask the allocator for it")]
pub(crate) fn give_holes_back() {
    // SAFETY: malloc_trim takes an integer and touches only memory that is free, under the
    // allocator's own locks.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators do this by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_large_blocks_back() {}

/// Other allocators do this by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_holes_back() {}
