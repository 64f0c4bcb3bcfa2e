//! `oncegate --serve`: the relay, until a signal ends it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::{info, warn};

use super::args::{
    ConfigArg, CoreArgs, Failure, LayoutArg, Listen, Usage, address, positive_seconds,
};
use super::out::Out;
use crate::clock::{Clock, SystemClock};
use crate::core_api::CoreUrl;
use crate::limits;
use crate::server::{Config, Server, scheduling};

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Run the relay
    #[arg(long)]
    pub(super) serve: bool,
    /// The ledger's file; created if it is missing
    #[arg(long, value_name = "PATH", env = "ONCEGATE_DB", hide_env = true)]
    pub(super) db: Option<PathBuf>,
    /// The core: `http://` or `https://`, host, port and a base path if it has one
    #[arg(long, value_name = "URL", env = "ONCEGATE_CORE", hide_env = true)]
    pub(super) core: Option<CoreUrl>,
    /// Where channels connect with TCP (port 0: a free one; `off`: nowhere)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9101", value_parser = address,
          env = "ONCEGATE_LISTEN", hide_env = true)]
    listen: Listen,
    /// Where channels connect with HTTP (POST /telegram) [default: off]
    #[arg(long, value_name = "ADDR", value_parser = address, env = "ONCEGATE_HTTP", hide_env = true)]
    http: Option<Listen>,
    /// Where administrators look: /healthz, /readyz, /metrics
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9103", value_parser = address,
          env = "ONCEGATE_ADMIN", hide_env = true)]
    admin: Listen,
    #[command(flatten)]
    pub(super) calls: CoreArgs,
    #[command(flatten)]
    pub(super) layout: LayoutArg,
    /// Calls of the core at once; a telegram that would need one more gets E907
    #[arg(long, value_name = "N", default_value_t = limits::IN_FLIGHT_MAX, value_parser = positive,
          env = "ONCEGATE_MAX_IN_FLIGHT", hide_env = true)]
    max_in_flight: usize,
    /// Connections of channels at once, per front; one more is closed
    #[arg(long, value_name = "N", default_value_t = limits::CONNECTIONS_MAX, value_parser = positive,
          env = "ONCEGATE_MAX_CONNECTIONS", hide_env = true)]
    max_connections: usize,
    /// Age at which a SENT row that names no owner is taken over [default: the two timeouts and 30]
    #[arg(long, value_name = "SECS", value_parser = positive_seconds,
          env = "ONCEGATE_ORPHAN_AFTER", hide_env = true)]
    orphan_after: Option<Duration>,
    /// How long a channel's connection may say nothing [default: 3600]
    #[arg(long, value_name = "SECS", value_parser = positive_seconds,
          env = "ONCEGATE_IDLE_TIMEOUT", hide_env = true)]
    idle_timeout: Option<Duration>,
    /// Refuse a missing ledger instead of creating one
    #[arg(long, env = "ONCEGATE_MUST_EXIST", hide_env = true)]
    must_exist: bool,
    /// Serve a ledger that is older than its mark, or another one than before: only once, and after comparing it with the core's books
    #[arg(long)]
    accept_restored: bool,
    /// Form of the log on stderr
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        env = "ONCEGATE_LOG_FORMAT",
        hide_env = true
    )]
    log_format: LogFormat,
    #[command(flatten)]
    _config: ConfigArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// For machines: a JSON object a line
    Json,
}

pub(super) fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    let log_format = args.log_format;
    let config = validate(args)?;
    start_log(log_format);
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        warn!("the limit of open files could not be raised: {error}");
    }
    scheduling::push_nobody_aside();
    // Before the ledger is opened: a signal that comes early must not kill it half-way.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::failed)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let server = Server::start(&config, &clock).map_err(Failure::failed)?;
    let mut out = Out::new();
    out.line(server.ready());
    out.end().map_err(Failure::failed)?;
    signals.forever().next();
    let stopper = std::thread::spawn(move || server.stop());
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            warn!("a second signal: ended at once; what was in flight will be UNKNOWN");
            std::process::exit(1);
        }
    });
    match stopper.join() {
        Ok(true) => {
            info!("stopped");
            Ok(ExitCode::SUCCESS)
        }
        Ok(false) => {
            Err(Failure::Failed("calls were still in flight when the time to stop was over".into()))
        }
        Err(_) => Err(Failure::Failed("stopping failed".into())),
    }
}

fn validate(args: ServeArgs) -> Result<Config, Failure> {
    let missing = |option: &str| Usage::Text(format!("--serve needs {option}"));
    let layout = args.layout.read()?;
    let shortest = args.calls.connect_timeout + args.calls.read_timeout;
    let orphan_after =
        args.orphan_after.unwrap_or(shortest + Duration::from_secs(limits::ORPHAN_MARGIN_S));
    if orphan_after < shortest {
        let text = format!(
            "--orphan-after {}: shorter than --connect-timeout and --read-timeout together ({} s); a call under way would be taken for dead",
            orphan_after.as_secs_f64(),
            shortest.as_secs_f64()
        );
        return Err(Usage::Text(text).into());
    }
    if args.listen.0.is_none() && args.http.as_ref().is_none_or(|http| http.0.is_none()) {
        return Err(
            Usage::Text("--listen off and no --http: no channel could connect".to_owned()).into()
        );
    }
    Ok(Config {
        db: args.db.ok_or_else(|| missing("--db PATH"))?,
        must_exist: args.must_exist,
        accept_restored: args.accept_restored,
        core: args.core.ok_or_else(|| missing("--core URL"))?,
        listen: args.listen.0,
        http: args.http.and_then(|http| http.0),
        admin: args.admin.0,
        connect_timeout: args.calls.connect_timeout,
        read_timeout: args.calls.read_timeout,
        core_idle: args.calls.core_idle,
        layout,
        max_in_flight: args.max_in_flight,
        max_connections: args.max_connections,
        orphan_after,
        idle_timeout: args
            .idle_timeout
            .unwrap_or(Duration::from_secs(limits::CHANNEL_IDLE_TIMEOUT_S)),
        sync_failed: || std::process::exit(1),
    })
}

fn start_log(format: LogFormat) {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).with_ansi(
        std::io::IsTerminal::is_terminal(&std::io::stderr())
            && std::env::var_os("NO_COLOR").is_none(),
    );
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a whole number".to_owned()),
    }
}
