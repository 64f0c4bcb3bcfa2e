//! oncegate: an idempotency relay with a durable ledger for payment channels.
//!
//! Channels send fixed-length telegrams; when an answer is late they send the same GUID again; the core behind us is not
//! idempotent. The relay claims a GUID durably before it calls, replays the stored answer to a resend, says "in progress" or
//! "unknown" when that is the truth, settles unknowns by asking, and sends again only what was certainly never sent.
//!
//! # Invariants
//! 1. The core is called for a GUID only by the holder of its claim, and at most once per attempt.
//! 2. An UNKNOWN row is never sent. Only a `NotSent` outcome or an inquiry's `Absent` makes FAILED.
//! 3. A DONE row never changes, and its reply is the same bytes for ever.
//! 4. What a channel was told (0000, refusals) is in the ledger, on disk, before it was told.
//! 5. Every row that is not settled is visible to the operator and can be settled by a routine.
//! 6. A purged GUID is never sent again.
//!
//! # Assumptions
//! - fsync keeps its promise: what it returned for survives a power cut.
//! - The core's late execution is bounded (`core-late-max`): after that time an inquiry's "absent" is final.
//! - Wall clocks may jump: every routine and every sweep notes the jumps it sees and counts them out of all ages
//!   ([`engine::age`]). Not seen is a jump while the machine was off, one before the first look in this run of the machine or
//!   after the last, that two jumps between two looks were two (a relay looks every two seconds), and what stays below two
//!   seconds in sum: `core-late-max` has to have that much room.
//! - GUIDs are unique per transfer.
//!
//! # The way of a telegram
//! ```text
//! channel → framing → telegram → engine::relay → ledger.claim → core.transfer (one call) → ledger.record → telegram → channel
//!                                    └ decide (pure)
//! ```
//! Imports go downwards only: `state, guid, code, limits, visible, unique_json, one_piece, slot` ← `telegram` ←
//! `clock, ledger, core_api, http_server, channel` ← `engine` ← `server, outbox, console, cli, demo` ← `main`.
//! A test (`tests/suite/tidy.rs`) reads this list and holds these walls.

pub mod channel;
pub mod cli;
pub mod clock;
pub mod code;
pub mod console;
pub mod core_api;
pub mod demo;
pub mod engine;
pub mod guid;
pub mod http_server;
pub mod ledger;
pub mod limits;
mod one_piece;
pub mod outbox;
pub mod server;
mod slot;
pub mod state;
pub mod telegram;
mod unique_json;
pub mod visible;
