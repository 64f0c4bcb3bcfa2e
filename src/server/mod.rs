//! The server: fronts for channels (TCP, HTTP), admin pages, the orphan sweep's thread, and an orderly end.
//!
//! No decisions and no SQL: a front brings a telegram to [`crate::engine::relay::Relay`] and its reply back.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tracing::{error, info, warn};

use crate::clock::Clock;
use crate::core_api::{CoreConfigError, CoreUrl, HttpCore, HttpCoreConfig};
use crate::engine::callers::Callers;
use crate::engine::gate::Gate;
use crate::engine::orphans::holds_nothing;
use crate::engine::relay::{GivenUp, Relay, Resends};
use crate::http_server::{HttpServer, Limits};
use crate::ledger::owner::{LockFiles, OwnerLock};
use crate::ledger::sqlite::{
    Access, BallastNews, Created, Hooks, MarkNews, OpenError, SqliteLedger,
};
use crate::ledger::{Ledger, OwnerId};
use crate::limits;
use crate::telegram::Layout;

mod admin;
mod http_front;
mod metrics;
pub mod scheduling;
mod sweeper;
mod tcp_front;

use metrics::Metrics;

/// What a server is to do. All of it has been checked but what only the world can say.
pub struct Config {
    /// The ledger's file.
    pub db: PathBuf,
    /// Refuse a missing ledger instead of creating one.
    pub must_exist: bool,
    /// Serve a ledger that is not as the mark beside it says.
    pub accept_restored: bool,
    /// The core.
    pub core: CoreUrl,
    /// Where channels connect with TCP.
    pub listen: Option<String>,
    /// Where channels connect with HTTP.
    pub http: Option<String>,
    /// Where administrators look.
    pub admin: Option<String>,
    /// Bounds look-up, all addresses and TLS.
    pub connect_timeout: Duration,
    /// Bounds the whole answer of the core.
    pub read_timeout: Duration,
    /// How long a connection to the core may be idle and be used again.
    pub core_idle: Duration,
    /// What telegrams look like.
    pub layout: Layout,
    /// Calls of the core at once.
    pub max_in_flight: usize,
    /// Connections of channels at once, per front.
    pub max_connections: usize,
    /// How old a SENT row of nobody must be to be swept.
    pub orphan_after: Duration,
    /// How long a channel's connection may say nothing.
    pub idle_timeout: Duration,
    /// Stops the process: called when the ledger's disk failed to sync.
    pub sync_failed: fn(),
}

/// Why a server did not start. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can't be used.
    #[error("can't listen on {address} (--{option})")]
    Listen {
        /// The option's name.
        option: &'static str,
        /// Its value.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The ledger can't be used.
    #[error(transparent)]
    Ledger(#[from] OpenError),
    /// The lock that proves that this process lives can't be taken.
    #[error("can't lock an owner file beside the ledger {}", db.display())]
    Owner {
        /// The ledger.
        db: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The core can't be called so.
    #[error(transparent)]
    Core(#[from] CoreConfigError),
    /// A thread or a runtime can't be had.
    #[error("can't start")]
    Start(#[from] io::Error),
}

/// A relay that runs.
pub struct Server {
    ready: String,
    gate: Arc<Gate>,
    relay: Arc<Relay>,
    owner: OwnerLock,
    tcp: Option<tcp_front::TcpFront>,
    http: Option<Arc<HttpServer>>,
    admin: Option<HttpServer>,
    sweeper: sweeper::Sweeper,
    /// How long calls in flight may take to end.
    patience: Duration,
}

impl Server {
    /// Starts: takes the addresses first (a second relay on the same port must not touch the ledger), then the ledger, then accepts.
    pub fn start(config: &Config, clock: &Arc<dyn Clock>) -> Result<Server, ServeError> {
        let tcp = bind("listen", config.listen.as_deref())?;
        let http = bind("http", config.http.as_deref())?;
        let admin = bind("admin", config.admin.as_deref())?;
        let metrics = Arc::new(Metrics::new());
        let ledger = open_ledger(config, clock, &metrics)?;
        let locks = LockFiles::beside(&config.db);
        let owner = locks
            .take(OwnerId::new(std::process::id(), clock.now(), 0))
            .map_err(|source| ServeError::Owner { db: config.db.clone(), source })?;
        let core = Arc::new(HttpCore::new(HttpCoreConfig {
            url: config.core.clone(),
            connect_timeout: config.connect_timeout,
            read_timeout: config.read_timeout,
            idle_max: config.core_idle,
            layout: config.layout.clone(),
            clock: Arc::clone(clock),
        })?);
        let gate = Gate::new(config.max_in_flight);
        let calls = Arc::clone(&metrics);
        let relay = Arc::new(Relay {
            ledger: Arc::clone(&ledger),
            core: Arc::clone(&core) as _,
            layout: config.layout.clone(),
            clock: Arc::clone(clock),
            owner: owner.id().clone(),
            gate: Arc::clone(&gate),
            callers: Callers::default(),
            given_up: Arc::new(GivenUp::default()),
            resends: Resends::default(),
            called: Some(Box::new(move |outcome, took| calls.called(outcome, took))),
        });
        let sweeper = sweeper::start(&relay, locks, core, config.orphan_after)?;
        let fronts = Fronts { config, relay: &relay, metrics: &metrics };
        let tcp = tcp.map(|listener| fronts.tcp(listener)).transpose()?;
        let http = http.map(|listener| fronts.http(listener)).transpose()?.map(Arc::new);
        let seen = admin::Seen {
            relay: Arc::clone(&relay),
            metrics,
            wal: with_suffix(&config.db, "-wal"),
            tcp: tcp.as_ref().map(tcp_front::TcpFront::counter),
            http: http.clone(),
        };
        let admin = admin.map(|listener| admin::start(listener, seen)).transpose()?;
        let ready = ready(tcp.as_ref(), http.as_deref(), admin.as_ref());
        let patience = config.connect_timeout + config.read_timeout + limits::STOP_MARGIN;
        Ok(Server { ready, gate, relay, owner, tcp, http, admin, sweeper, patience })
    }

    /// The line that says where it listens.
    #[must_use]
    pub fn ready(&self) -> &str {
        &self.ready
    }

    /// The address of the TCP front.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(tcp_front::TcpFront::address)
    }

    /// Stops in order: accepts nothing new, answers E907 to new telegrams, lets the calls in flight end and their replies leave.
    /// False if some had not ended within their own timeouts; their rows are then swept by the next relay.
    #[must_use]
    pub fn stop(self) -> bool {
        info!(in_flight = self.gate.inside(), "stopping");
        self.gate.close();
        if let Some(tcp) = &self.tcp {
            tcp.stop_accepting();
        }
        if let Some(http) = &self.http {
            http.stop_accepting();
        }
        let ended = self.gate.wait_empty(self.patience);
        self.sweeper.stop();
        if let Some(http) = &self.http {
            http.shutdown(limits::HTTP_STOP_TIMEOUT);
        }
        if let Some(admin) = &self.admin {
            admin.shutdown(limits::HTTP_STOP_TIMEOUT);
        }
        if ended && holds_nothing(&*self.relay.ledger, self.owner.id()) {
            if let Err(error) = self.owner.leave() {
                warn!("the owner's lock file could not be removed: {error}");
            }
        } else {
            // The lock goes with the process, the file stays: it proves to the next relay that this owner is dead.
            warn!(
                "claims without a recorded result are left; the next relay turns them into UNKNOWN"
            );
        }
        ended
    }
}

struct Fronts<'a> {
    config: &'a Config,
    relay: &'a Arc<Relay>,
    metrics: &'a Arc<Metrics>,
}

impl Fronts<'_> {
    fn tcp(&self, listener: TcpListener) -> io::Result<tcp_front::TcpFront> {
        let limits = tcp_front::Limits {
            connections_max: self.config.max_connections,
            idle_timeout: self.config.idle_timeout,
        };
        tcp_front::start(listener, limits, Arc::clone(self.relay), Arc::clone(self.metrics))
    }

    fn http(&self, listener: TcpListener) -> io::Result<HttpServer> {
        let limits = Limits {
            connections_max: self.config.max_connections,
            // The relay answers without making anybody wait.
            workers_max: 0,
            body_bytes_max: limits::TELEGRAM_BYTES_MAX,
            idle_timeout: self.config.idle_timeout,
            ..Limits::default()
        };
        let handler = http_front::HttpFront {
            relay: Arc::clone(self.relay),
            metrics: Arc::clone(self.metrics),
        };
        HttpServer::start(listener, limits, Arc::new(handler))
    }
}

fn bind(option: &'static str, address: Option<&str>) -> Result<Option<TcpListener>, ServeError> {
    let Some(address) = address else { return Ok(None) };
    let failed = |source| ServeError::Listen { option, address: address.to_owned(), source };
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    // std listens with a queue of 128; the sixth of a burst of 5,000 channels would wait a second for its second SYN.
    socket2::SockRef::from(&listener).listen(limits::ACCEPT_QUEUE).map_err(failed)?;
    Ok(Some(listener))
}

fn open_ledger(
    config: &Config,
    clock: &Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> Result<Arc<dyn Ledger>, ServeError> {
    let (commits, sync_failed) = (Arc::clone(metrics), config.sync_failed);
    let hooks = Hooks {
        committed: Some(Box::new(move |took, operations| commits.committed(took, operations))),
        sync_failed: Some(Box::new(move |failure| {
            error!("{failure}: stopping, because what this process believes may not be on disk");
            sync_failed();
        })),
        ballast: Some(Box::new(tell_of_ballast)),
        mark: Some(Box::new(tell_of_mark)),
    };
    let access = if config.accept_restored {
        Access::ServeRestored
    } else {
        Access::Serve { must_exist: config.must_exist }
    };
    let (ledger, created) = SqliteLedger::open(&config.db, access, Arc::clone(clock), hooks)?;
    if created == Created::New {
        warn!(
            "created a new ledger at {}: every GUID is new to it; if there was one before, stop and find it (--must-exist refuses)",
            config.db.display()
        );
    }
    Ok(Arc::new(ledger))
}

fn tell_of_ballast(news: &BallastNews) {
    match news {
        BallastNews::Laid => info!("ballast lies beside the ledger: there is room for results"),
        BallastNews::NoRoom => error!(
            "the ledger's disk is full: nothing is claimed (E909) until there is room; results still fit"
        ),
        BallastNews::Impossible(why) => warn!(
            "no ballast beside the ledger ({why}): should its disk fill up, results may become UNKNOWN"
        ),
    }
}

fn tell_of_mark(news: &MarkNews) {
    match news {
        MarkNews::Missing => warn!(
            "there was no .mark beside the ledger, so it could not be seen whether it is an old copy; there is one now"
        ),
        MarkNews::Accepted(why) => warn!("the ledger is served though {why} (--accept-restored)"),
        MarkNews::NotWritten(why) => warn!(
            "the .mark beside the ledger can't be written ({why}): an old copy may not be recognised later"
        ),
    }
}

fn with_suffix(path: &std::path::Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn ready(
    tcp: Option<&tcp_front::TcpFront>,
    http: Option<&HttpServer>,
    admin: Option<&HttpServer>,
) -> String {
    let fronts = [
        ("tcp", tcp.map(tcp_front::TcpFront::address)),
        ("http", http.map(HttpServer::local_addr)),
        ("admin", admin.map(HttpServer::local_addr)),
    ];
    let words = fronts.iter().filter_map(|(name, at)| at.map(|at| format!(" {name}={at}")));
    format!("ready{}", words.collect::<String>())
}
