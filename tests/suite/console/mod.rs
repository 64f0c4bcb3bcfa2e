//! The console: its state and screens without a terminal, and the real binary in a terminal of its own.

mod actions;
mod complaints;
mod pty;
mod rig;
mod screens;
mod survey;
mod walk;
