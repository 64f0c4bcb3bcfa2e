//! Arguments that several commands share, and how their values are read.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::clock::Clock;
use crate::core_api::{CoreUrl, HttpCore, HttpCoreConfig};
use crate::limits;
use crate::telegram::Layout;

/// Why a command ended without doing its work.
#[derive(Debug)]
pub enum Failure {
    /// It was asked wrongly: exit 2.
    Usage(Usage),
    /// It could not be done: exit 1.
    Failed(Box<dyn Error>),
}

/// What was wrong with the arguments.
#[derive(Debug)]
pub enum Usage {
    /// Clap says it.
    Clap(clap::Error),
    /// We say it.
    Text(String),
}

impl From<Usage> for Failure {
    fn from(usage: Usage) -> Failure {
        Failure::Usage(usage)
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        Failure::Usage(Usage::Clap(error))
    }
}

impl Failure {
    /// It could not be done because of `error`.
    pub fn failed(error: impl Error + 'static) -> Failure {
        Failure::Failed(Box::new(error))
    }
}

/// `--config`: read before everything else.
#[derive(Debug, Clone, Args)]
pub struct ConfigArg {
    /// TOML file with options, the option's own name as key
    #[arg(long, value_name = "FILE", env = "ONCEGATE_CONFIG", hide_env = true)]
    pub config: Option<PathBuf>,
}

/// `--layout`.
#[derive(Debug, Clone, Args)]
pub struct LayoutArg {
    /// Layout of the telegrams, a TOML file [default: std128, compiled in]
    #[arg(long, value_name = "FILE", env = "ONCEGATE_LAYOUT", hide_env = true)]
    pub layout: Option<PathBuf>,
}

impl LayoutArg {
    /// Reads the layout; one that does not add up is a usage error.
    pub fn read(&self) -> Result<Layout, Failure> {
        match &self.layout {
            None => Ok(Layout::std128()),
            Some(path) => Layout::read(path).map_err(|error| {
                Usage::Text(format!("--layout {}: {}", path.display(), super::chain(&error))).into()
            }),
        }
    }
}

/// How the core is called.
#[derive(Debug, Clone, Args)]
pub struct CoreArgs {
    /// Longest time for look-up, all addresses and TLS of a call together
    #[arg(long, value_name = "SECS", default_value = limits::CORE_CONNECT_TIMEOUT_S, value_parser = positive_seconds,
          env = "ONCEGATE_CONNECT_TIMEOUT", hide_env = true)]
    pub connect_timeout: Duration,
    /// Longest time from the last byte of a request to the last byte of its answer
    #[arg(long, value_name = "SECS", default_value = limits::CORE_READ_TIMEOUT_S, value_parser = positive_seconds,
          env = "ONCEGATE_READ_TIMEOUT", hide_env = true)]
    pub read_timeout: Duration,
    /// A connection to the core that was idle for longer is not used again; 0: each call has its own
    #[arg(long, value_name = "SECS", default_value = limits::CORE_IDLE_S, value_parser = seconds,
          env = "ONCEGATE_CORE_IDLE", hide_env = true)]
    pub core_idle: Duration,
}

impl CoreArgs {
    /// The client for the core at `url`.
    pub fn client(
        &self,
        url: &CoreUrl,
        layout: &Layout,
        clock: &Arc<dyn Clock>,
    ) -> Result<HttpCore, Failure> {
        HttpCore::new(HttpCoreConfig {
            url: url.clone(),
            connect_timeout: self.connect_timeout,
            read_timeout: self.read_timeout,
            idle_max: self.core_idle,
            layout: layout.clone(),
            clock: Arc::clone(clock),
        })
        .map_err(|error| Usage::Text(error.to_string()).into())
    }
}

/// A time span of zero or more, in seconds; fractions are allowed.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number = text.parse::<f64>().ok().filter(|_| plain);
    number
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|span| *span <= Duration::from_secs(SECONDS_MAX))
        .ok_or_else(|| format!("not a number of seconds between 0 and {SECONDS_MAX}"))
}

/// A time span of more than zero, in seconds.
pub fn positive_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("must be more than 0 seconds".to_owned()),
        span => Ok(span),
    }
}

/// Ten years: what is longer is a mistake.
const SECONDS_MAX: u64 = 10 * 366 * 24 * 3_600;

/// An address to listen on, or `off`. Whether the machine has it is seen when it is bound.
pub fn address(text: &str) -> Result<Listen, String> {
    if text == "off" {
        return Ok(Listen(None));
    }
    let (host, port) = text.rsplit_once(':').ok_or("not HOST:PORT")?;
    if host.is_empty() {
        return Err("not HOST:PORT: the host is missing".to_owned());
    }
    port.parse::<u16>().map_err(|_| format!("not HOST:PORT: {port:?} is no port"))?;
    Ok(Listen(Some(text.to_owned())))
}

/// An address to listen on; none: off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen(pub Option<String>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_plain_decimal_numbers() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        for bad in ["", "-1", "nan", "inf", "1e3", "3s", "+1", "99999999999", "."] {
            assert!(seconds(bad).is_err(), "{bad:?}");
        }
        assert!(positive_seconds("0").is_err() && positive_seconds("0.0").is_err());
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        assert_eq!(address("127.0.0.1:0"), Ok(Listen(Some("127.0.0.1:0".to_owned()))));
        assert_eq!(address("[::1]:9101"), Ok(Listen(Some("[::1]:9101".to_owned()))));
        assert_eq!(address("off"), Ok(Listen(None)));
        for bad in ["9101", ":9101", "localhost:", "localhost:99999", "localhost:x"] {
            assert!(address(bad).is_err(), "{bad:?}");
        }
    }
}
