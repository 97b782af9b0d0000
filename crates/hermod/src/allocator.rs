//! What the system's allocator keeps of memory that was freed.
//!
//! The GNU one learns from each large block that is freed that such blocks are to be kept: after a
//! burst of messages of 16 MiB it holds on to all the memory that they took, for good. Told where
//! the line is, it stops learning: what is larger comes from the system and goes back at once.

/// Blocks from this size on go back to the system when they are freed; smaller ones are worth
/// keeping.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: i32 = 4 << 20;

/// Sets the line. To be called first of all, before there is another thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe way to set an option of the allocator")]
pub(crate) fn give_large_blocks_back() {
    for (option, value) in [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, 4 * LARGE)] {
        // SAFETY: mallopt takes two integers and changes nothing but options of the allocator,
        // under its own lock. A value that it does not like it refuses, and goes on as before.
        unsafe { libc::mallopt(option, value) };
    }
}

/// Gives the pages back that lie in holes between blocks in use. It takes some milliseconds for
/// each hundred MiB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe way to ask the allocator for it")]
pub(crate) fn give_holes_back() {
    // SAFETY: malloc_trim takes an integer and touches only memory that is free, under the
    // allocator's own locks.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators do it by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_large_blocks_back() {}

/// Other allocators do it by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_holes_back() {}
