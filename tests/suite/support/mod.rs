//! What tests share.

pub mod alone;
pub mod calls;
pub mod channel;
pub mod crooked_core;
pub mod fake_time;
pub mod hand_clock;
pub mod ledger_file;
pub mod load;
pub mod random;
pub mod relays;
pub mod scripted_core;
pub mod skip;
pub mod strace;
pub mod tls_door;
pub mod wait;
