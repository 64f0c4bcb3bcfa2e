//! A connection that can be told to misbehave with its next answer. Knows no HTTP but where a head ends.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What is done to an answer instead of sending it. The connection ends with it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Misdeed {
    /// The connection is reset without a byte.
    Reset,
    /// The head and half of the body are sent.
    Half,
    /// Bytes that are no HTTP are sent.
    Garbage,
}

const GARBAGE: &[u8] = b"\x00\x01garbage\r\n\r\n";

/// What the connection does with its next answer: set by whoever makes the answer, done when it is written.
#[derive(Clone, Default)]
pub(super) struct NextMisdeed(Arc<Mutex<Option<Misdeed>>>);

impl NextMisdeed {
    pub(super) fn set(&self, misdeed: Misdeed) {
        *self.lock() = Some(misdeed);
    }

    fn get(&self) -> Option<Misdeed> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Misdeed>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

/// A TCP stream that does as its [`NextMisdeed`] says.
pub(super) struct Steered {
    stream: TcpStream,
    next: NextMisdeed,
}

impl Steered {
    pub(super) fn new(stream: TcpStream, next: NextMisdeed) -> Steered {
        Steered { stream, next }
    }
}

impl AsyncRead for Steered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Steered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        answer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let instead = match self.next.get() {
            None => return Pin::new(&mut self.stream).poll_write(context, answer),
            Some(Misdeed::Reset) => {
                self.stream.set_zero_linger()?;
                &[]
            }
            Some(Misdeed::Half) => half(answer),
            Some(Misdeed::Garbage) => GARBAGE,
        };
        if !instead.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_write(context, instead))?;
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "a misdeed on command")))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(Misdeed::Reset) = self.next.get() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The head and half of the body.
fn half(answer: &[u8]) -> &[u8] {
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
    &answer[..head + (answer.len() - head) / 2]
}
