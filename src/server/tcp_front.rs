//! The TCP front: a thread per connection, telegrams one after the other, each framed by its own length field.
//!
//! A call blocks, so an async front would gain nothing for calls in flight; a thread with a small stack costs a few KiB. A
//! channel that hangs up does not cancel its call: the thread ends it and records it. The reply leaves from whichever thread wrote
//! the result, so that nobody has to be woken for it; the next telegram waits until it has left.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SendFlags;
use tracing::warn;

use super::metrics::Metrics;
use crate::code::Code;
use crate::engine::relay::{Relay, Reply};
use crate::limits;
use crate::telegram::{Frame, Framer};

/// What the front takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) connections_max: usize,
    pub(super) idle_timeout: Duration,
}

/// The front while it accepts.
pub(super) struct TcpFront {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    open: Counter,
}

/// How many connections are open.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub(super) fn open(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(&self) -> Inside {
        self.0.fetch_add(1, Ordering::Relaxed);
        Inside(self.clone())
    }
}

/// One open connection; dropped when its thread ends, however it ends.
struct Inside(Counter);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TcpFront {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn counter(&self) -> Counter {
        self.open.clone()
    }

    /// Accepts nothing more; open connections go on.
    pub(super) fn stop_accepting(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        // accept() has no other way to be woken.
        let mut own = self.address;
        match own.ip() {
            ip if !ip.is_unspecified() => {}
            ip if ip.is_ipv4() => own.set_ip(Ipv4Addr::LOCALHOST.into()),
            _ => own.set_ip(Ipv6Addr::LOCALHOST.into()),
        }
        if let Err(error) = TcpStream::connect_timeout(&own, limits::WAKE_TIMEOUT) {
            warn!("the TCP front could not be woken to stop accepting: {error}");
        }
    }
}

pub(super) fn start(
    listener: TcpListener,
    limits: Limits,
    relay: Arc<Relay>,
    metrics: Arc<Metrics>,
) -> io::Result<TcpFront> {
    let address = listener.local_addr()?;
    let (stopping, open) = (Arc::new(AtomicBool::new(false)), Counter::default());
    let front = TcpFront { address, stopping: Arc::clone(&stopping), open: open.clone() };
    let accept = move || {
        for stream in listener.incoming() {
            if stopping.load(Ordering::SeqCst) {
                return;
            }
            let started = stream.and_then(|stream| {
                let link = Link {
                    stream: Arc::new(stream),
                    limits,
                    relay: Arc::clone(&relay),
                    metrics: Arc::clone(&metrics),
                    turn: Arc::default(),
                    begun: None,
                    patience: None,
                };
                admit(link, &open)
            });
            if let Err(error) = started {
                warn!("a connection could not be taken: {error}");
                thread::sleep(limits::ACCEPT_PAUSE);
            }
        }
    };
    thread::Builder::new().name("tcp-accept".to_owned()).spawn(accept)?;
    Ok(front)
}

/// Gives the connection a thread. One too many is closed at once: a channel then tries elsewhere or later.
fn admit(link: Link, open: &Counter) -> io::Result<()> {
    if open.open() >= link.limits.connections_max {
        warn!("{} connections are open (--max-connections), one more was closed", open.open());
        return Ok(());
    }
    let inside = open.enter();
    thread::Builder::new()
        .name("channel".to_owned())
        .stack_size(limits::CONNECTION_STACK_BYTES)
        .spawn(move || {
            let _inside = inside;
            link.serve();
        })?;
    Ok(())
}

/// One channel's connection.
struct Link {
    stream: Arc<TcpStream>,
    limits: Limits,
    relay: Arc<Relay>,
    metrics: Arc<Metrics>,
    turn: Arc<Turn>,
    /// When the telegram that is coming was first seen incomplete: its rest has a limit, however steadily it drips.
    begun: Option<Duration>,
    /// How long a read waits, as the socket was last told.
    patience: Option<Duration>,
}

impl Link {
    fn serve(mut self) {
        let mut framer = self.relay.layout.framer(limits::TELEGRAM_BYTES_MAX);
        if let Err(error) = self.talk(&mut framer)
            && !is_end(&error)
        {
            warn!(peer = %peer(&self.stream), "connection closed: {error}");
        }
        self.turn.wait();
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn talk(&mut self, framer: &mut Framer) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_write_timeout(Some(limits::CHANNEL_WRITE_TIMEOUT))?;
        loop {
            let next = framer.next();
            if !matches!(next, Ok(None)) {
                self.begun = None;
                self.turn.wait();
            }
            match next {
                Ok(Some(Frame::Telegram(telegram))) => self.answer(&telegram)?,
                Ok(Some(Frame::Poll(poll))) => (&*self.stream).write_all(&poll)?,
                Ok(None) => {
                    // What a channel is still owed is no idleness of its own.
                    let owed = self.turn.is_taken();
                    if !self.read(framer)? && !owed {
                        return Ok(());
                    }
                }
                Err(error) => {
                    self.metrics.answered(Code::Malformed.as_str());
                    return Err(io::Error::other(format!("{}: {error}", Code::Malformed)));
                }
            }
        }
    }

    fn answer(&mut self, telegram: &[u8]) -> io::Result<()> {
        let answer = Answer::begin(&self.stream, &self.turn);
        let metrics = Arc::clone(&self.metrics);
        let tell = move |reply: Reply| {
            metrics.answered(&reply.code);
            answer.send(reply);
        };
        self.relay.answer_then(telegram, tell).map_err(|error| {
            // No reply would be paired wrongly with the next telegram, so the connection ends.
            self.metrics.answered(Code::Malformed.as_str());
            io::Error::other(format!("{}: {error}", Code::Malformed))
        })
    }

    /// Reads what has come; false at the end of the stream.
    fn read(&mut self, framer: &mut Framer) -> io::Result<bool> {
        let had = framer.pending_bytes();
        let waiting = had == 0;
        let patience = if waiting { self.limits.idle_timeout } else { self.time_left() };
        if patience.is_zero() {
            return Err(too_slow(had));
        }
        if self.patience != Some(patience) {
            self.stream.set_read_timeout(Some(patience))?;
            self.patience = Some(patience);
        }
        let mut bytes = [0; limits::CHANNEL_READ_BYTES];
        loop {
            match (&*self.stream).read(&mut bytes) {
                Ok(0) if waiting => return Ok(false),
                Ok(0) => {
                    return Err(io::Error::other(format!(
                        "the channel hung up after {had} bytes of a telegram"
                    )));
                }
                Ok(n) => {
                    framer.push(&bytes[..n]);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && waiting => return Ok(false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(too_slow(had)),
                Err(error) => return Err(error),
            }
        }
    }

    /// How long the rest of the telegram that has begun may still take.
    fn time_left(&mut self) -> Duration {
        let now = self.relay.clock.monotonic();
        let begun = *self.begun.get_or_insert(now);
        (begun + limits::TELEGRAM_TIMEOUT).saturating_sub(now)
    }
}

/// Whose turn it is on a connection: replies leave in the order of their telegrams, so there is one at most under way.
#[derive(Default)]
struct Turn {
    state: Mutex<TurnState>,
    over: Condvar,
}

#[derive(Default)]
struct TurnState {
    taken: bool,
    /// Somebody waits for its end: seldom, and waking nobody would cost a system call each time.
    awaited: bool,
}

impl Turn {
    fn is_taken(&self) -> bool {
        self.state().taken
    }

    fn take(&self) {
        self.state().taken = true;
    }

    fn end(&self) {
        let mut state = self.state();
        state.taken = false;
        if state.awaited {
            self.over.notify_all();
        }
    }

    /// Waits until no reply is under way.
    fn wait(&self) {
        let mut state = self.state();
        while state.taken {
            state.awaited = true;
            state = self.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.awaited = false;
    }

    fn state(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reply that a channel is owed. Dropped without one, it ends the connection: the next reply would be taken for it.
struct Answer {
    stream: Arc<TcpStream>,
    turn: Arc<Turn>,
    sent: bool,
}

impl Answer {
    fn begin(stream: &Arc<TcpStream>, turn: &Arc<Turn>) -> Answer {
        turn.take();
        Answer { stream: Arc::clone(stream), turn: Arc::clone(turn), sent: false }
    }

    /// Sends it without waiting for the channel. What a channel that reads slowly leaves over, a thread of its own sends.
    fn send(mut self, reply: Reply) {
        let bytes = &reply.telegram;
        match rustix::net::send(&*self.stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(n) if n == bytes.len() => self.sent = true,
            Ok(n) => self.send_slowly(reply, n),
            Err(Errno::WOULDBLOCK | Errno::INTR) => self.send_slowly(reply, 0),
            Err(error) => self.failed(&error.into()),
        }
        // Here the permit goes: the reply has left.
    }

    fn send_slowly(mut self, reply: Reply, from: usize) {
        let rest = move || match (&*self.stream).write_all(&reply.telegram[from..]) {
            Ok(()) => self.sent = true,
            Err(error) => self.failed(&error),
        };
        let thread = thread::Builder::new().name("slow-channel".to_owned());
        if let Err(error) = thread.stack_size(limits::SLOW_CHANNEL_STACK_BYTES).spawn(rest) {
            warn!("a reply could not be sent: no thread: {error}");
        }
    }

    fn failed(&self, error: &io::Error) {
        if !is_end(error) {
            warn!(peer = %peer(&self.stream), "connection closed: {error}");
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.sent {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        self.turn.end();
    }
}

fn peer(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string())
}

fn too_slow(had: usize) -> io::Error {
    let seconds = limits::TELEGRAM_TIMEOUT.as_secs();
    io::Error::other(format!("{had} bytes of a telegram came, and not the rest within {seconds} s"))
}

/// Ways in which channels end a connection that nobody needs to hear of.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected
    )
}
