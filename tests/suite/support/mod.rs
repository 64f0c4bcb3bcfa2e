//! What tests share.

pub mod calls;
pub mod hand_clock;
pub mod scripted_core;
