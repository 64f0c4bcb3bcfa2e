//! The TCP front: one thread reads for all connections, telegrams one after the other on each, framed by their own length fields.
//!
//! That thread waits for its sockets and for nothing else: what blocks is done by callers and by the ledger's writer. A channel
//! that hangs up does not cancel its call: its result is recorded all the same. The reply leaves from whichever thread wrote the
//! result, so that nobody has to be woken for it; the next telegram waits until it has left.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
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

/// The front. Dropping it closes what is still open and waits for its thread: whoever stops wants the ledger closed, and the
/// thread holds it.
pub(super) struct TcpFront {
    address: SocketAddr,
    wanted: watch::Sender<Front>,
    open: Counter,
    thread: Option<JoinHandle<()>>,
}

/// What the front's thread is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Front {
    Accept,
    /// Open connections go on.
    Serve,
    End,
}

impl Drop for TcpFront {
    fn drop(&mut self) {
        self.wanted.send_replace(Front::End);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
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

/// One open connection; dropped when its task ends, however it ends.
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
        self.wanted.send_replace(Front::Serve);
    }
}

pub(super) fn start(
    listener: TcpListener,
    limits: Limits,
    relay: Arc<Relay>,
    metrics: Arc<Metrics>,
) -> io::Result<TcpFront> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let listener = {
        let _entered = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let (want, mut wanted) = watch::channel(Front::Accept);
    let open = Counter::default();
    let door = Door { limits, relay, metrics, open: open.clone() };
    let run = move || {
        runtime.block_on(async move {
            accept(listener, &door, wanted.clone()).await;
            // An error says that the front is gone, which means the same.
            let _ = wanted.wait_for(|wanted| *wanted == Front::End).await;
        });
    };
    let thread = thread::Builder::new().name("tcp-front".to_owned()).spawn(run)?;
    Ok(TcpFront { address, wanted: want, open, thread: Some(thread) })
}

/// What every connection gets at its beginning.
struct Door {
    limits: Limits,
    relay: Arc<Relay>,
    metrics: Arc<Metrics>,
    open: Counter,
}

async fn accept(
    listener: tokio::net::TcpListener,
    door: &Door,
    mut wanted: watch::Receiver<Front>,
) {
    let stopped = async { drop(wanted.wait_for(|wanted| *wanted != Front::Accept).await) };
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let next = poll_fn(|cx| match stopped.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => listener.poll_accept(cx).map(Some),
        });
        match next.await {
            None => return,
            Some(Ok((stream, _))) => door.admit(stream),
            Some(Err(error)) => {
                warn!("a connection could not be taken: {error}");
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Door {
    /// Gives the connection a task. One too many is closed at once: a channel then tries elsewhere or later.
    fn admit(&self, stream: TcpStream) {
        if self.open.open() >= self.limits.connections_max {
            warn!(
                "{} connections are open (--max-connections), one more was closed",
                self.open.open()
            );
            return;
        }
        // A reply is one small write; without the option it merely comes later.
        let _ = stream.set_nodelay(true);
        let (from, to) = stream.into_split();
        let link = Link {
            from,
            to: Arc::new(to),
            idle_timeout: self.limits.idle_timeout,
            relay: Arc::clone(&self.relay),
            metrics: Arc::clone(&self.metrics),
            turn: Arc::default(),
            begun: None,
            _inside: self.open.enter(),
        };
        tokio::spawn(link.serve());
    }
}

/// One channel's connection.
struct Link {
    from: OwnedReadHalf,
    to: Arc<OwnedWriteHalf>,
    idle_timeout: Duration,
    relay: Arc<Relay>,
    metrics: Arc<Metrics>,
    turn: Arc<Turn>,
    /// When the telegram that is coming was first seen incomplete: its rest has a limit, however steadily it drips.
    begun: Option<Duration>,
    _inside: Inside,
}

impl Link {
    async fn serve(mut self) {
        let mut framer = self.relay.layout.framer(limits::TELEGRAM_BYTES_MAX);
        if let Err(error) = self.talk(&mut framer).await
            && !is_end(&error)
        {
            warn!(peer = %peer(&self.to), "connection closed: {error}");
        }
        self.turn.over().await;
        close(&self.to);
    }

    async fn talk(&mut self, framer: &mut Framer) -> io::Result<()> {
        loop {
            let next = framer.next();
            if !matches!(next, Ok(None)) {
                self.begun = None;
                self.turn.over().await;
            }
            match next {
                Ok(Some(Frame::Telegram(telegram))) => self.answer(&telegram),
                Ok(Some(Frame::Poll(poll))) => write_all(&self.to, &poll).await?,
                Ok(None) => {
                    // What a channel is still owed is no idleness of its own.
                    let owed = self.turn.is_taken();
                    match self.read(framer).await? {
                        Read::Bytes => {}
                        Read::Nothing if owed => {}
                        Read::Nothing | Read::End => return Ok(()),
                    }
                }
                Err(error) => {
                    self.metrics.answered(Code::Malformed.as_str());
                    return Err(io::Error::other(format!("{}: {error}", Code::Malformed)));
                }
            }
        }
    }

    fn answer(&self, telegram: &[u8]) {
        let answer = Answer::begin(&self.to, &self.turn);
        let metrics = Arc::clone(&self.metrics);
        self.relay.answer(telegram, move |reply| match reply {
            Ok(reply) => {
                metrics.answered(&reply.code);
                answer.send(reply);
            }
            Err(error) => {
                metrics.answered(Code::Malformed.as_str());
                // No reply would be paired wrongly with the next telegram, so the connection ends with the answer.
                warn!(peer = %peer(&answer.to), "connection closed: {}: {error}", Code::Malformed);
            }
        });
    }

    /// Reads what has come. A telegram that has begun has to go on.
    async fn read(&mut self, framer: &mut Framer) -> io::Result<Read> {
        let had = framer.pending_bytes();
        let waiting = had == 0;
        let patience = if waiting { self.idle_timeout } else { self.time_left() };
        if patience.is_zero() {
            return Err(too_slow(had));
        }
        let read = poll_fn(|cx| read_into(Pin::new(&mut self.from), framer, cx));
        match timeout(patience, read).await {
            Ok(read) => match read? {
                0 if waiting => Ok(Read::End),
                0 => Err(io::Error::other(format!(
                    "the channel hung up after {had} bytes of a telegram"
                ))),
                _ => Ok(Read::Bytes),
            },
            Err(_) if waiting => Ok(Read::Nothing),
            Err(_) => Err(too_slow(had)),
        }
    }

    /// How long the rest of the telegram that has begun may still take.
    fn time_left(&mut self) -> Duration {
        let now = self.relay.clock.monotonic();
        let begun = *self.begun.get_or_insert(now);
        (begun + limits::TELEGRAM_TIMEOUT).saturating_sub(now)
    }
}

/// What a look at a connection has brought.
enum Read {
    Bytes,
    /// It was idle for as long as it may be.
    Nothing,
    /// The channel says nothing more.
    End,
}

/// How many bytes have come. They lie on the stack of this one thread, not in each connection.
fn read_into(
    from: Pin<&mut OwnedReadHalf>,
    framer: &mut Framer,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut bytes = [0; limits::CHANNEL_READ_BYTES];
    let mut read = ReadBuf::new(&mut bytes);
    ready!(from.poll_read(cx, &mut read))?;
    framer.push(read.filled());
    Poll::Ready(Ok(read.filled().len()))
}

/// Writes while the channel takes something now and then.
async fn write_all(to: &OwnedWriteHalf, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        timeout(limits::CHANNEL_WRITE_TIMEOUT, to.writable()).await??;
        match to.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whose turn it is on a connection: replies leave in the order of their telegrams, so there is one at most under way.
#[derive(Default)]
struct Turn {
    taken: AtomicBool,
    ended: Notify,
}

impl Turn {
    fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    fn take(&self) {
        self.taken.store(true, Ordering::Release);
    }

    fn end(&self) {
        self.taken.store(false, Ordering::Release);
        self.ended.notify_one();
    }

    /// Waits until no reply is under way.
    async fn over(&self) {
        while self.is_taken() {
            self.ended.notified().await;
        }
    }
}

/// The reply that a channel is owed. Dropped without one, it ends the connection: the next reply would be taken for it.
struct Answer {
    to: Arc<OwnedWriteHalf>,
    turn: Arc<Turn>,
    front: Handle,
    sent: bool,
}

impl Answer {
    /// On the front's thread.
    fn begin(to: &Arc<OwnedWriteHalf>, turn: &Arc<Turn>) -> Answer {
        turn.take();
        let front = Handle::current();
        Answer { to: Arc::clone(to), turn: Arc::clone(turn), front, sent: false }
    }

    /// Sends it, on any thread, without waiting for the channel. What a channel that reads slowly leaves over, the front sends.
    fn send(mut self, reply: Reply) {
        let (socket, bytes) = (self.to.as_ref().as_ref(), &reply.telegram);
        let sent = match rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        {
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(0),
            sent => sent,
        };
        match sent {
            Ok(n) if n == bytes.len() => self.sent = true,
            Ok(n) => drop(self.front.clone().spawn(self.send_rest(reply, n))),
            Err(error) => self.failed(&error.into()),
        }
        // Here the permit goes: the reply has left.
    }

    async fn send_rest(mut self, reply: Reply, from: usize) {
        match write_all(&self.to, &reply.telegram[from..]).await {
            Ok(()) => self.sent = true,
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &io::Error) {
        if !is_end(error) {
            warn!(peer = %peer(&self.to), "connection closed: {error}");
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.sent {
            close(&self.to);
        }
        self.turn.end();
    }
}

/// Both ways, whoever else still holds it.
fn close(to: &OwnedWriteHalf) {
    // It may have been closed by the other side.
    let _ = rustix::net::shutdown(to.as_ref(), Shutdown::Both);
}

fn peer(to: &OwnedWriteHalf) -> String {
    to.peer_addr().map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string())
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
