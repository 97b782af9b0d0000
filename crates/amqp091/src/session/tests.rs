//! Whole conversations, bytes against bytes.
