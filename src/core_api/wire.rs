//! The wire under one connection: whether a byte may have left, what came back, and the two deadlines of a call.
//!
//! ureq's errors can't tell sent from not sent; the flag here can, for it is set before anything is written. It sits above TCP and
//! TLS, whose handshakes end inside `connect` and carry nothing of ours.
//! Knows no HTTP and no JSON.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use ureq::Timeout;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, TcpConnector, Transport,
};

use super::url::{CoreUrl, Host, Scheme};
use crate::clock::Clock;
use crate::limits::CORE_ADDRESSES_MAX;

/// What the wire of one connection has seen of the call that is using it. One call at a time.
pub(super) struct Wire {
    clock: Arc<dyn Clock>,
    connect_timeout: Duration,
    read_timeout: Duration,
    call: Mutex<Call>,
}

/// What is true of the call under way. Times are those of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// A byte of the request may have left.
    pub sent: bool,
    /// How many bytes have come back.
    pub received_bytes: usize,
    connect_until: Duration,
    answer_until: Duration,
}

impl Wire {
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        connect_timeout: Duration,
        read_timeout: Duration,
    ) -> Wire {
        let call = Call {
            sent: false,
            received_bytes: 0,
            connect_until: Duration::ZERO,
            answer_until: Duration::ZERO,
        };
        Wire { clock, connect_timeout, read_timeout, call: Mutex::new(call) }
    }

    /// A new call begins on this connection.
    pub(super) fn begin(&self) {
        let now = self.clock.monotonic();
        *self.lock() = Call {
            sent: false,
            received_bytes: 0,
            connect_until: now + self.connect_timeout,
            answer_until: now + self.connect_timeout + self.read_timeout,
        };
    }

    pub(super) fn call(&self) -> Call {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Call> {
        self.call.lock().expect("nothing panics while it holds this lock")
    }

    fn connect_left(&self) -> Duration {
        self.call().connect_until.saturating_sub(self.clock.monotonic())
    }

    fn answer_left(&self) -> Duration {
        self.call().answer_until.saturating_sub(self.clock.monotonic())
    }

    /// The answer's time counts from the last byte of the request: each write starts it anew.
    fn written(&self) {
        self.lock().answer_until = self.clock.monotonic() + self.read_timeout;
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("call", &self.call()).finish_non_exhaustive()
    }
}

/// What a connection is made of.
#[derive(Debug)]
pub(super) enum Way {
    /// TCP alone. The layers of TLS and proxies are not even passed through: their frames are large, a stack that has once been so
    /// deep stays so, and there is one for each call in flight.
    Plain(TcpConnector),
    /// TCP and TLS.
    Tls(DefaultConnector),
}

impl Way {
    pub(super) fn to(url: &CoreUrl) -> Way {
        match url.scheme() {
            Scheme::Http => Way::Plain(TcpConnector::default()),
            Scheme::Https => Way::Tls(DefaultConnector::default()),
        }
    }

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Box<dyn Transport>>, ureq::Error> {
        match self {
            Way::Plain(tcp) => Ok(tcp.connect(details, chained)?.map(|tcp| Box::new(tcp) as _)),
            Way::Tls(tls) => tls.connect(details, chained),
        }
    }
}

/// Looks up and connects within the connect timeout, and puts a [`Tap`] on the connection.
#[derive(Debug)]
pub(super) struct Dial {
    /// Shared by all connections, as it keeps the TLS configuration.
    pub way: Arc<Way>,
    /// The core's addresses. Shared by all connections.
    pub lookup: Arc<Lookup>,
    pub wire: Arc<Wire>,
}

impl Connector<()> for Dial {
    type Out = Tap;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Tap>, ureq::Error> {
        let mut addrs = NoLookup.empty();
        let found = self.lookup.addresses(self.wire.connect_left())?;
        found.into_iter().take(CORE_ADDRESSES_MAX).for_each(|address| addrs.push(address));
        let timeout = bounded(details.timeout, self.wire.connect_left())?;
        let details = ConnectionDetails {
            uri: details.uri,
            addrs,
            config: details.config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout,
            current_time: Arc::clone(&details.current_time),
            run_connector: Arc::clone(&details.run_connector),
            register_shutdown: Arc::clone(&details.register_shutdown),
        };
        let inner = self.way.connect(&details, chained)?;
        Ok(inner.map(|inner| Tap { inner, wire: Arc::clone(&self.wire) }))
    }
}

/// `timeout`, but no longer than `left`.
fn bounded(timeout: NextTimeout, left: Duration) -> Result<NextTimeout, ureq::Error> {
    if left.is_zero() {
        return Err(ureq::Error::Timeout(timeout.reason));
    }
    Ok(NextTimeout { after: timeout.after.min(left.into()), ..timeout })
}

/// A connection that notes in its [`Wire`] what goes over it.
#[derive(Debug)]
pub(super) struct Tap {
    inner: Box<dyn Transport>,
    wire: Arc<Wire>,
}

impl Transport for Tap {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.wire.lock().sent = true;
        let outcome = self.inner.transmit_output(amount, timeout);
        self.wire.written();
        outcome
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = bounded(timeout, self.wire.answer_left())?;
        let before = self.inner.buffers().input().len();
        let outcome = self.inner.await_input(timeout);
        let after = self.inner.buffers().input().len();
        self.wire.lock().received_bytes += after.saturating_sub(before);
        outcome
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// Finds a name's addresses; may hang.
type Find = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The one name that is ever looked up: the core's. However many calls wait for it, and however long the system's resolver hangs,
/// there is at most one thread looking.
pub(super) struct Lookup {
    url: CoreUrl,
    find: Box<Find>,
    state: Mutex<LookupState>,
    ended: Condvar,
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").field("core", &self.url).finish_non_exhaustive()
    }
}

struct LookupState {
    running: bool,
    rounds: u64,
    last: Result<Vec<SocketAddr>, String>,
}

/// A name without an address.
#[derive(Debug, Clone, thiserror::Error)]
#[error("name not found: {host}: {why}")]
pub(super) struct NameNotFound {
    host: String,
    why: String,
}

impl Lookup {
    /// Asks the system.
    pub(super) fn new(url: CoreUrl) -> Lookup {
        Lookup::with(url, Box::new(|name, port| Ok((name, port).to_socket_addrs()?.collect())))
    }

    fn with(url: CoreUrl, find: Box<Find>) -> Lookup {
        let state = LookupState { running: false, rounds: 0, last: Ok(Vec::new()) };
        Lookup { url, find, state: Mutex::new(state), ended: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, LookupState> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }

    /// The core's addresses, within `left`.
    fn addresses(self: &Arc<Self>, left: Duration) -> Result<Vec<SocketAddr>, ureq::Error> {
        match self.url.host() {
            Host::Address(address) => Ok(vec![SocketAddr::new(*address, self.url.port())]),
            Host::Name(name) => self.wait_for(name, left),
        }
    }

    /// Joins the look-up that is under way, or starts one.
    fn wait_for(
        self: &Arc<Self>,
        name: &str,
        left: Duration,
    ) -> Result<Vec<SocketAddr>, ureq::Error> {
        let mut state = self.lock();
        if !state.running {
            let (lookup, name) = (Arc::clone(self), name.to_owned());
            std::thread::Builder::new()
                .name("core look-up".to_owned())
                .spawn(move || lookup.look_up(&name))?;
            state.running = true;
        }
        let round = state.rounds;
        let (state, wait) = self
            .ended
            .wait_timeout_while(state, left, |state| state.rounds == round)
            .expect("nothing panics while it holds this lock");
        if wait.timed_out() {
            return Err(ureq::Error::Timeout(Timeout::Resolve));
        }
        state.last.clone().map_err(|why| {
            ureq::Error::Other(Box::new(NameNotFound { host: name.to_owned(), why }))
        })
    }

    /// Runs in the look-up's own thread.
    fn look_up(&self, name: &str) {
        let last = match (self.find)(name, self.url.port()) {
            Ok(addresses) if addresses.is_empty() => Err("no address".to_owned()),
            Ok(addresses) => Ok(addresses),
            Err(e) => Err(e.to_string()),
        };
        let mut state = self.lock();
        *state = LookupState { running: false, rounds: state.rounds + 1, last };
        self.ended.notify_all();
    }
}

/// ureq asks its resolver before it looks for an open connection, so a look-up there would cost every call one: [`Dial`] makes it,
/// when a connection is needed.
#[derive(Debug)]
pub(super) struct NoLookup;

impl Resolver for NoLookup {
    fn resolve(
        &self,
        _uri: &Uri,
        _config: &Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        Ok(self.empty())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(50);

    fn lookup(url: &str, find: Box<Find>) -> Arc<Lookup> {
        Arc::new(Lookup::with(url.parse().expect("a URL"), find))
    }

    #[test]
    fn a_look_up_that_hangs_delays_no_call_beyond_its_time_and_takes_one_thread() {
        let (release, hang) = mpsc::channel::<()>();
        let (hang, begun) = (Mutex::new(hang), Arc::new(AtomicUsize::new(0)));
        let address = SocketAddr::from(([127, 0, 0, 1], 9201));
        let counted = Arc::clone(&begun);
        let find = move |_: &str, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            hang.lock().expect("no panic").recv().expect("released");
            Ok(vec![address])
        };
        let lookup = lookup("http://core:9201", Box::new(find));
        for _ in 0..3 {
            let error = lookup.addresses(SHORT).expect_err("it hangs");
            assert!(matches!(error, ureq::Error::Timeout(Timeout::Resolve)), "{error}");
        }
        release.send(()).expect("it waits");
        drop(lookup.addresses(LONG));
        assert!(begun.load(Ordering::SeqCst) <= 2, "the hanging one, and one after it");
    }

    #[test]
    fn a_name_without_an_address_is_not_found() {
        for (found, why) in [(Err("no such name"), "no such name"), (Ok(Vec::new()), "no address")]
        {
            let find = move |_: &str, _| found.clone().map_err(io::Error::other);
            let lookup = lookup("http://core:9201", Box::new(find));
            let error = lookup.addresses(LONG).expect_err("not found");
            assert_eq!(error.to_string(), format!("other: name not found: core: {why}"));
        }
    }

    #[test]
    fn an_address_is_not_looked_up() {
        for (url, address) in [("http://127.0.0.1:1", "127.0.0.1:1"), ("http://[::1]:1", "[::1]:1")]
        {
            let lookup = lookup(url, Box::new(|name, _| panic!("looks for {name}")));
            let found = lookup.addresses(Duration::ZERO).expect("an address");
            assert_eq!(found, [address.parse().expect("an address")]);
        }
    }
}
