//! A request leaves in one piece: ureq writes its head, then its body, and each write costs a segment and wakes the other side.
//!
//! What ureq writes is kept until it wants to hear the answer. Knows no HTTP.

use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// Connects as the connector in it does.
#[derive(Debug)]
pub(crate) struct OnePiece<C>(pub(crate) C);

impl<C: Connector<()>> Connector<()> for OnePiece<C> {
    type Out = Kept<C::Out>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Kept<C::Out>>, ureq::Error> {
        let inner = self.0.connect(details, chained)?;
        Ok(inner.map(|inner| Kept { inner, bytes: Vec::new() }))
    }
}

/// A connection, and what was written and has not left yet.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    inner: T,
    bytes: Vec<u8>,
}

impl<T: Transport> Kept<T> {
    fn leave(&mut self, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let bytes = std::mem::take(&mut self.bytes);
        let mut left = &bytes[..];
        while !left.is_empty() {
            let output = self.inner.buffers().output();
            let (piece, rest) = left.split_at(left.len().min(output.len()));
            output[..piece.len()].copy_from_slice(piece);
            self.inner.transmit_output(piece.len(), timeout)?;
            left = rest;
        }
        Ok(())
    }
}

impl<T: Transport> Transport for Kept<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        self.bytes.extend_from_slice(&self.inner.buffers().output()[..amount]);
        Ok(())
    }

    fn maybe_await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.leave(timeout)?;
        self.inner.maybe_await_input(timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.leave(timeout)?;
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
