//! A request leaves in one piece: ureq writes its head, then its body, and each write costs a segment and wakes the other side.
//!
//! What ureq writes is kept until it wants to hear the answer, and its buffers are given back before the wait: there may be
//! thousands that wait. Knows no HTTP.

use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Connects as the connector in it does. Its own buffers, which stay for as long as the connection does, may be small: ureq sees
/// only those of here.
#[derive(Debug)]
pub(crate) struct OnePiece<C> {
    pub connector: C,
    pub sizes: Sizes,
}

/// The sizes of the buffers that ureq sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The longest head of an answer, and what ureq is shown of a body at once.
    pub input_bytes: usize,
    /// The longest head of a request, and what ureq writes of a body at once.
    pub output_bytes: usize,
}

impl Sizes {
    /// Buffers that take no memory before they are used.
    fn buffers(self) -> LazyBuffers {
        LazyBuffers::new(self.input_bytes, self.output_bytes)
    }
}

impl<C: Connector<()>> Connector<()> for OnePiece<C> {
    type Out = Kept<C::Out>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Kept<C::Out>>, ureq::Error> {
        let inner = self.connector.connect(details, chained)?;
        Ok(inner.map(|inner| Kept::new(inner, self.sizes)))
    }
}

/// A connection, and what was written and has not left yet.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    inner: T,
    sizes: Sizes,
    buffers: LazyBuffers,
    bytes: Vec<u8>,
}

impl<T: Transport> Kept<T> {
    fn new(inner: T, sizes: Sizes) -> Kept<T> {
        Kept { inner, sizes, buffers: sizes.buffers(), bytes: Vec::new() }
    }

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

    /// Gives the memory of the buffers back, unless something in them is still to be read.
    fn let_go(&mut self) {
        if self.buffers.input().is_empty() {
            self.buffers = self.sizes.buffers();
        }
    }

    /// Moves what has come to where ureq sees it. Returns whether anything has.
    fn take_over(&mut self) -> bool {
        let come = self.inner.buffers();
        let room = self.buffers.input_append_buf();
        let taken = come.input().len().min(room.len());
        room[..taken].copy_from_slice(&come.input()[..taken]);
        come.input_consume(taken);
        self.buffers.input_appended(taken);
        taken > 0
    }
}

impl<T: Transport> Transport for Kept<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        if self.bytes.is_empty() {
            self.bytes.reserve(self.sizes.output_bytes);
        }
        self.bytes.extend_from_slice(&self.buffers.output()[..amount]);
        Ok(())
    }

    /// Nothing is taken for an answer before the request has left.
    fn maybe_await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.leave(timeout)?;
        Ok(self.buffers.can_use_input() || self.await_input(timeout)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.leave(timeout)?;
        self.let_go();
        self.inner.maybe_await_input(timeout)?;
        Ok(self.take_over())
    }

    /// Asked whenever a connection is put aside. What was not taken over would be taken for the next answer.
    fn is_open(&mut self) -> bool {
        self.let_go();
        self.inner.buffers().input().is_empty() && self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use ureq::Timeout;

    use super::*;

    /// A connection with buffers of eight bytes.
    #[derive(Debug)]
    struct Narrow {
        buffers: LazyBuffers,
        left: Vec<Vec<u8>>,
        coming: VecDeque<u8>,
        /// Nothing comes, and nobody hangs up.
        silent: bool,
    }

    impl Transport for Narrow {
        fn buffers(&mut self) -> &mut dyn Buffers {
            &mut self.buffers
        }

        fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
            self.left.push(self.buffers.output()[..amount].to_vec());
            Ok(())
        }

        fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
            if self.silent {
                return Err(ureq::Error::Timeout(timeout.reason));
            }
            let room = self.buffers.input_append_buf();
            let come = room.len().min(self.coming.len());
            for (room, byte) in room.iter_mut().zip(self.coming.drain(..come)) {
                *room = byte;
            }
            self.buffers.input_appended(come);
            Ok(come > 0)
        }

        fn is_open(&mut self) -> bool {
            true
        }
    }

    fn kept(coming: &[u8]) -> Kept<Narrow> {
        let coming = coming.iter().copied().collect();
        let buffers = LazyBuffers::new(8, 8);
        let inner = Narrow { buffers, left: Vec::new(), coming, silent: false };
        Kept::new(inner, Sizes { input_bytes: 20, output_bytes: 20 })
    }

    fn soon() -> NextTimeout {
        NextTimeout {
            after: std::time::Duration::from_secs(1).into(),
            reason: Timeout::Global,
            ..NextTimeout::default()
        }
    }

    fn write(kept: &mut Kept<Narrow>, text: &[u8]) {
        kept.buffers().output()[..text.len()].copy_from_slice(text);
        kept.transmit_output(text.len(), soon()).expect("it is kept");
    }

    #[test]
    fn what_was_written_leaves_in_its_order_and_not_before_the_answer_is_wanted() {
        let mut kept = kept(b"answer");
        write(&mut kept, b"a head of 20 bytes..");
        write(&mut kept, b"body");
        assert!(kept.inner.left.is_empty());
        assert!(kept.maybe_await_input(soon()).expect("an answer"));
        assert_eq!(kept.inner.left, [&b"a head o"[..], b"f 20 byt", b"es..body"]);
        kept.buffers().input_consume(6);
        assert!(!kept.maybe_await_input(soon()).expect("the end"));
        assert_eq!(kept.inner.left.len(), 3, "nothing leaves twice");
    }

    #[test]
    fn an_answer_is_shown_whole_though_it_comes_in_pieces_and_is_used_in_others() {
        let answer: Vec<u8> = (0..100).collect();
        let mut kept = kept(&answer);
        let mut read = Vec::new();
        while kept.maybe_await_input(soon()).expect("no error") {
            let shown = kept.buffers().input();
            // Nothing is used until there is more of it: as of a head.
            let used = if shown.len() < 15 && read.len() < 90 { 0 } else { shown.len().min(7) };
            read.extend_from_slice(&shown[..used]);
            kept.buffers().input_consume(used);
        }
        assert_eq!(read, answer);
        assert!(kept.is_open());
    }

    #[test]
    fn a_connection_on_which_more_has_come_than_was_read_is_not_open() {
        let mut kept = kept(&[b'x'; 40]);
        while kept.buffers().input().len() < 20 {
            assert!(kept.await_input(soon()).expect("no error"));
        }
        kept.buffers().input_consume(20);
        assert!(!kept.inner.buffers().input().is_empty(), "the last piece was too long");
        assert!(!kept.is_open());
    }

    /// Thousands wait at once, and as many are put aside.
    #[test]
    fn who_waits_and_who_is_put_aside_holds_no_buffers() {
        let held = |kept: &Kept<Narrow>| format!("{:?}", (&kept.buffers, &kept.bytes));
        let mut kept = kept(b"answer");
        let nothing = held(&kept);
        kept.inner.silent = true;
        write(&mut kept, b"request");
        assert_ne!(held(&kept), nothing);
        assert!(kept.maybe_await_input(soon()).is_err());
        assert_eq!(held(&kept), nothing, "while it waits");
        kept.inner.silent = false;
        assert!(kept.maybe_await_input(soon()).expect("an answer"));
        kept.buffers().input_consume(6);
        assert_ne!(held(&kept), nothing);
        assert!(kept.is_open());
        assert_eq!(held(&kept), nothing, "put aside");
    }
}
