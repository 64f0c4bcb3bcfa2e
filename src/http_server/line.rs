//! One connection as hyper reads and writes it: how long each phase may last, and when a response has really left.
//!
//! Knows bytes and times, no requests. Invariant: the guard of a response is dropped only after every byte of it was handed to the
//! socket, or with the connection.

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::Limits;

/// Something that is dropped once a response has been written.
pub(super) type Guard = Box<dyn Any + Send>;

/// What a connection is doing. Each phase but `Answering` has a time by which it must be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Kept alive, no byte of the next request yet.
    Idle,
    /// Some bytes of a head.
    Head,
    /// The body is read (that has its own timeout) and the handler works.
    Answering,
    /// The response is on its way.
    Writing,
}

struct Now {
    phase: Phase,
    due: Option<Instant>,
    /// The response's last byte is in hyper's buffer: the next flush that completes has written it.
    buffered: bool,
    guard: Option<Guard>,
    /// An answer was given before the request was read whole.
    unread: bool,
}

/// The state of one connection, shared by its socket, its service and its watch.
pub(super) struct Line {
    limits: Limits,
    now: Mutex<Now>,
}

impl Line {
    /// A connection just accepted: its first head is due.
    pub(super) fn new(limits: Limits) -> Line {
        let due = Some(Instant::now() + limits.header_timeout);
        let now = Now { phase: Phase::Head, due, buffered: false, guard: None, unread: false };
        Line { limits, now: Mutex::new(now) }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        // Nothing panics while it is held; a poisoned state is still the state.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: Phase) {
        let timeout = match phase {
            Phase::Idle => Some(self.limits.idle_timeout),
            Phase::Head => Some(self.limits.header_timeout),
            Phase::Answering => None,
            Phase::Writing => Some(self.limits.write_timeout),
        };
        let mut now = self.now();
        now.phase = phase;
        now.due = timeout.map(|timeout| Instant::now() + timeout);
    }

    /// A request's head is complete.
    pub(super) fn answering(&self) {
        self.enter(Phase::Answering);
    }

    /// The answer is known and must now be taken by the client.
    pub(super) fn writing(&self) {
        self.enter(Phase::Writing);
    }

    /// The answer comes before the request was read: the connection has to linger.
    pub(super) fn leave_unread(&self) {
        self.now().unread = true;
    }

    /// Whether some of a request was left unread.
    pub(super) fn is_unread(&self) -> bool {
        self.now().unread
    }

    /// When the present phase must be over; `None`: never.
    pub(super) fn due(&self) -> Option<Instant> {
        self.now().due
    }

    fn bytes_came(&self) {
        let idle = self.now().phase == Phase::Idle;
        if idle {
            self.enter(Phase::Head);
        }
    }

    fn buffered(&self, guard: Option<Guard>) {
        let mut now = self.now();
        now.buffered = true;
        now.guard = guard;
    }

    fn flushed(&self) {
        let guard = {
            let mut now = self.now();
            if !now.buffered {
                return;
            }
            now.buffered = false;
            now.guard.take()
        };
        drop(guard);
        self.enter(Phase::Idle);
    }
}

/// The socket under hyper, which tells its line of bytes that came and of flushes that ended.
pub(super) struct Wire {
    io: TokioIo<TcpStream>,
    line: Arc<Line>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, line: Arc<Line>) -> Wire {
        Wire { io: TokioIo::new(stream), line }
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.io.into_inner()
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_ready() {
            self.line.bytes_came();
        }
        read
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    /// hyper calls it only when its own buffer is empty: all it was given is in the socket then.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        if let Poll::Ready(Ok(())) = flushed {
            self.line.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}

/// A response's body in one piece. hyper drops it when its bytes are in the buffer, or with the connection.
pub(super) struct Whole {
    bytes: Option<Bytes>,
    guard: Option<Guard>,
    line: Arc<Line>,
}

impl Whole {
    pub(super) fn new(bytes: Vec<u8>, guard: Option<Guard>, line: Arc<Line>) -> Whole {
        let bytes = (!bytes.is_empty()).then(|| Bytes::from(bytes));
        Whole { bytes, guard, line }
    }
}

impl Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.line.buffered(self.guard.take());
    }
}

/// A timer that follows a line's `due`.
pub(super) struct Watch {
    sleep: Pin<Box<Sleep>>,
    due: Option<Instant>,
}

impl Watch {
    pub(super) fn new() -> Watch {
        Watch { sleep: Box::pin(tokio::time::sleep_until(Instant::now())), due: None }
    }

    /// Ready when `due` has passed.
    pub(super) fn poll(&mut self, due: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = due else {
            self.due = None;
            return Poll::Pending;
        };
        if self.due != due {
            self.due = due;
            self.sleep.as_mut().reset(at);
        }
        self.sleep.as_mut().poll(cx)
    }
}
