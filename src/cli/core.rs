//! `oncegate core`: the simulated core, until a signal ends it.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::args::{Failure, Listen, Usage, address, seconds};
use super::out::Out;
use crate::clock::SystemClock;
use crate::core_api::simulated::{SimulatedConfig, SimulatedCore};

const EXAMPLES: &str = "\
It is not idempotent on purpose: the same POST twice moves the money twice, and GET /_stats shows it.
The leading word of the memo steers it:
  SLOW      makes the transfer, answers after --slow seconds
  RESET     makes it, then resets the connection without a byte
  HALF      makes it, then sends half an answer
  GARBAGE   makes it, then sends bytes that are no HTTP
  E500      makes it, then answers 500
  E503      does not make it, answers 503
  REJECT    does not make it, answers 422 with the code C051
  LATE      waits --slow seconds and only then makes it
  REDIRECT  does not make it, answers 307 to itself
  MISMATCH  makes it, answers with another GUID

Examples:
  oncegate core
  oncegate core --listen 127.0.0.1:0 --slow 2.5
  curl http://127.0.0.1:9201/_stats

Prints `ready http=ADDR` once it accepts. Exit codes: 0 ended by SIGTERM or SIGINT, 1 it could not run, 2 usage.";

/// Run a simulated core, for drills: not idempotent, and it misbehaves on command
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CoreArgs {
    /// Where it listens (port 0: a free one)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9201", value_parser = address)]
    listen: Listen,
    /// How long SLOW and LATE take
    #[arg(long, value_name = "SECS", default_value = "5", value_parser = seconds)]
    slow: Duration,
    /// A file in which transfers survive its restart [default: memory only]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

pub(super) fn core(args: &CoreArgs) -> Result<ExitCode, Failure> {
    let Some(address) = &args.listen.0 else {
        return Err(Usage::Text("--listen off: nobody could call the core".to_owned()).into());
    };
    let listener = bind(address)?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::failed)?;
    let config = SimulatedConfig {
        slow: args.slow,
        db: args.db.clone(),
        clock: Arc::new(SystemClock::new()),
    };
    let core = SimulatedCore::start(listener, config).map_err(|error| {
        let file = args.db.as_ref().map(|db| format!(" with --db {}", db.display()));
        let text = format!("can't start the core{}: {error}", file.unwrap_or_default());
        Failure::Failed(text.into())
    })?;
    let mut out = Out::new();
    out.line(&format!("ready http={}", core.address()));
    out.end().map_err(Failure::failed)?;
    signals.forever().next();
    core.stop();
    Ok(ExitCode::SUCCESS)
}

fn bind(address: &str) -> Result<TcpListener, Failure> {
    let found = address.to_socket_addrs().map(Iterator::collect::<Vec<SocketAddr>>);
    found.and_then(|addresses| TcpListener::bind(&addresses[..])).map_err(|error| {
        Failure::Failed(format!("can't listen on {address} (--listen): {error}").into())
    })
}
