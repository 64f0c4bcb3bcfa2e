//! What tests share.

pub mod alone;
pub mod calls;
pub mod channel;
pub mod crooked_core;
pub mod hand_clock;
pub mod ledger_file;
pub mod random;
pub mod relays;
pub mod scripted_core;
pub mod wait;
