//! The published studies as suites: their rows as data, run on any target, beside the figures that were printed.

#![expect(dead_code, reason = "the runner of suites and the report are being built on it")]

pub(crate) mod record;
