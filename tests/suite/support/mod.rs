//! What tests share.

pub mod calls;
pub mod scripted_core;
