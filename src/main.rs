//! The program `oncegate`: `outbox …`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use oncegate::outbox::cli::{OutboxArgs, run};

#[derive(Parser)]
#[command(name = "oncegate", version)]
struct Program {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Orders saved and sent, received and done, each once.
    Outbox(OutboxArgs),
}

fn main() -> ExitCode {
    match Program::parse().part {
        Part::Outbox(args) => run(&args),
    }
}
