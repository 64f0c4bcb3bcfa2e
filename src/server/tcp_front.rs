//! The TCP front: a thread per connection, telegrams one after the other, each framed by its own length field.
//!
//! A call blocks, so an async front would gain nothing for calls in flight; a thread with a small stack costs a few KiB. A
//! channel that hangs up does not cancel its call: the thread ends it and records it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tracing::warn;

use super::metrics::Metrics;
use crate::code::Code;
use crate::engine::relay::Relay;
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
                    stream,
                    limits,
                    relay: Arc::clone(&relay),
                    metrics: Arc::clone(&metrics),
                    begun: None,
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
    stream: TcpStream,
    limits: Limits,
    relay: Arc<Relay>,
    metrics: Arc<Metrics>,
    /// When the telegram that is coming was first seen incomplete: its rest has a limit, however steadily it drips.
    begun: Option<Duration>,
}

impl Link {
    fn serve(mut self) {
        let mut framer = self.relay.layout.framer(limits::TELEGRAM_BYTES_MAX);
        if let Err(error) = self.talk(&mut framer)
            && !is_end(&error)
        {
            warn!(peer = %self.peer(), "connection closed: {error}");
        }
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn talk(&mut self, framer: &mut Framer) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_write_timeout(Some(limits::CHANNEL_WRITE_TIMEOUT))?;
        loop {
            let next = framer.next();
            if !matches!(next, Ok(None)) {
                self.begun = None;
            }
            match next {
                Ok(Some(Frame::Telegram(telegram))) => self.answer(&telegram)?,
                Ok(Some(Frame::Poll(poll))) => self.stream.write_all(&poll)?,
                Ok(None) if self.read(framer)? => {}
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.metrics.answered(Code::Malformed.as_str());
                    return Err(io::Error::other(format!("{}: {error}", Code::Malformed)));
                }
            }
        }
    }

    fn answer(&mut self, telegram: &[u8]) -> io::Result<()> {
        match self.relay.answer(telegram) {
            Ok(reply) => {
                self.metrics.answered(&reply.code);
                self.stream.write_all(&reply.telegram)
                // Here the permit goes: the reply has left.
            }
            // No reply would be paired wrongly with the next telegram, so the connection ends.
            Err(error) => {
                self.metrics.answered(Code::Malformed.as_str());
                Err(io::Error::other(format!("{}: {error}", Code::Malformed)))
            }
        }
    }

    /// Reads what has come; false at the end of the stream.
    fn read(&mut self, framer: &mut Framer) -> io::Result<bool> {
        let had = framer.pending_bytes();
        let waiting = had == 0;
        let patience = if waiting { self.limits.idle_timeout } else { self.time_left() };
        if patience.is_zero() {
            return Err(too_slow(had));
        }
        self.stream.set_read_timeout(Some(patience))?;
        let mut bytes = [0; limits::CHANNEL_READ_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
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

    fn peer(&self) -> String {
        self.stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string())
    }
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
