//! The console: its state and screens without a terminal, and the real binary in a terminal of its own.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]

mod actions;
mod complaints;
mod panics;
mod pty;
mod rig;
mod screens;
mod survey;
mod terminal;
mod troubles;
mod walk;
