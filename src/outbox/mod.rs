//! The outbox and the inbox: saved and sent, received and done, each once.
//!
//! ```text
//! source file                                              sink file
//! enqueue: [orders + outbox, one transaction]              receive: [inbox + stock, one transaction]
//!              │                                               ▲
//!              └─ dispatch: pending → send → ACK → mark_sent   │
//!                                     └──── HTTP, POST /events ┘
//! ```
//! Two boundaries, each atomic: business row and intent to send; received id and business effect. Between them HTTP may lose any answer
//! and any process may die. *No answer* does not mean *not done*: it is sent again, and the inbox drops what it has. *Marked before it
//! was acknowledged* would lose work: marks are never ahead of an ACK.
//!
//! It must never know the relay or its ledger. Invariants:
//! 1. An order is in `orders` and in `outbox`, or in neither.
//! 2. An id is in `inbox` exactly if its quantity is in `stock.total`, once.
//! 3. `sent=1` only after an ACK for this id.
//! 4. A borrowed connection comes back in autocommit, on success, error and panic.
//!
//! # Durability
//! Stores that we create are in WAL mode: a commit costs one fsync instead of three, and readers don't stop the writer. A store made by
//! another program keeps the journal mode that it has: it is that program's choice, kept in the file. Every connection runs with
//! `synchronous=EXTRA`, which in WAL mode is FULL (the commit is on disk when it returns) and with a rollback journal also makes the
//! journal's removal durable, without which a power cut could take back a commit that was already acknowledged.
//!
//! # Example
//! `examples/outbox_embedded.rs` puts the source into a business transaction of one's own. In short:
//! ```
//! use oncegate::outbox::{self, Event, Role};
//!
//! # fn main() -> Result<(), outbox::OutboxError> {
//! # let dir = tempfile::tempdir().map_err(outbox::OutboxError::Io)?;
//! let source = outbox::open_store(&dir.path().join("source.db"), Role::Source)?;
//! let sink = outbox::open_store(&dir.path().join("sink.db"), Role::Sink)?;
//! let order = Event::new("order-1", 3)?;
//! assert!(outbox::enqueue(&source, &order, &mut outbox::no_fault)?);
//! let mut send = |event: Event| {
//!     outbox::receive(&sink, &event, &mut outbox::no_fault)?;
//!     Ok(true)
//! };
//! assert_eq!(outbox::dispatch(&source, &mut send, outbox::LIMIT_DEFAULT, &mut outbox::no_fault)?, 1);
//! assert!(outbox::pending(&source, outbox::LIMIT_DEFAULT)?.is_empty());
//! # Ok(())
//! # }
//! ```

pub mod cli;
mod dispatch;
mod error;
mod event;
mod receiver;
mod sender;
mod sink;
mod source;
mod store;
mod transaction;

pub use crate::limits::OUTBOX_LIMIT_DEFAULT as LIMIT_DEFAULT;
pub use dispatch::{Dispatched, Send, Stopped, dispatch, dispatch_all, dispatch_batch};
pub use error::OutboxError;
pub(crate) use error::chain;
pub use event::{Event, parse_event, validate_event};
pub use receiver::Receiver;
pub use sender::{HttpSender, send_http};
pub use sink::receive;
pub(crate) use source::{BEFORE_ALL, pending_after};
pub use source::{enqueue, enqueue_within, mark_sent, pending};
pub use store::{Role, Status, open_existing, open_store, role_of, status};

/// A place between two steps, where the caller's own function is called: to make trouble, or to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// [`enqueue`]: the row is in `orders`, not committed.
    AfterOrder,
    /// [`enqueue`]: the rows are in `orders` and `outbox`, not committed.
    AfterOutbox,
    /// [`enqueue`], [`receive`]: committed and on disk.
    AfterCommit,
    /// [`receive`]: the row is in `inbox`, not committed.
    AfterInbox,
    /// [`receive`]: the row is in `inbox` and the total is raised, not committed.
    AfterTotal,
    /// [`dispatch`]: acknowledged, not yet marked.
    AfterDelivery,
}

impl Point {
    /// Every point.
    pub const ALL: [Point; 6] = [
        Point::AfterOrder,
        Point::AfterOutbox,
        Point::AfterCommit,
        Point::AfterInbox,
        Point::AfterTotal,
        Point::AfterDelivery,
    ];

    /// Its name, as in `after-order`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Point::AfterOrder => "after-order",
            Point::AfterOutbox => "after-outbox",
            Point::AfterCommit => "after-commit",
            Point::AfterInbox => "after-inbox",
            Point::AfterTotal => "after-total",
            Point::AfterDelivery => "after-delivery",
        }
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The caller's function at each [`Point`]. Its error is passed on as it was.
pub type Fault<'a> = dyn FnMut(Point) -> Result<(), OutboxError> + 'a;

/// The fault that never happens.
pub fn no_fault(_: Point) -> Result<(), OutboxError> {
    Ok(())
}
