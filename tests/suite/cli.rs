//! The command line from outside: the real binary, its output, its exit codes.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod bad_input;
mod configuration;
mod drills;
mod looking;
pub mod program;
