//! `cargo bench --bench relay`: the relay over real sockets, on a real file system, beside the same forwarding without a ledger,
//! a ledger connection per thread with autocommit, a small Python relay and nginx.
//!
//! Each subject runs as a process of its own against one core process; rounds are rotated, and what is printed are medians with
//! minimum and maximum and ratios of one run. Nothing is printed of a round in which the core's calls are not exactly the
//! distinct GUIDs that were asked for.
//!
//! Options after `--`: `--rounds N` (5), `--seconds S` (2), `--only WORD` (scenarios whose name contains it).

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]

mod load;
mod machine;
mod report;
mod roles;
mod subjects;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|word| word == "role") {
        return roles::run(&arguments[at + 1..]);
    }
    match report::run(&report::Options::parse(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
