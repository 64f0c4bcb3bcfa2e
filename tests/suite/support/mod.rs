//! What tests share.

pub mod scripted_core;
