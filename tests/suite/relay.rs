//! The relay over real sockets, on a real ledger, with a core that misbehaves: each line of its tables, as a channel sees it.

mod arrives;
mod engine;
mod fronts;
mod lives;
mod results;
mod troubles;
