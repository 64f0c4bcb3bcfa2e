//! The program `oncegate`: the command line's result becomes an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    oncegate::cli::main(std::env::args_os())
}
