//! What the console shows of an outbox, as plain values.

use crate::engine::desk::Became;

/// An event that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its place in the order.
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// How many pieces.
    pub qty: i64,
}

/// The outbox, of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Outbox {
    /// Orders in all.
    pub orders: i64,
    /// Events that wait, in all.
    pub waiting: i64,
    /// The first of them, in order.
    pub pending: Vec<Pending>,
    /// The other side, if it is named: events received, stock.
    pub inbox: Option<(i64, i64)>,
    /// There is nobody to send to: `--outbox-url` is missing.
    pub no_url: bool,
}

/// What became of an event of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Its id.
    pub id: String,
    /// What became of it.
    pub became: Became,
    /// Why.
    pub reason: String,
}

/// What the console wants of an outbox.
pub trait OutboxDesk: Send + Sync {
    /// What it holds now.
    fn look(&self) -> Result<Outbox, String>;
    /// What a batch would send now, in order.
    fn batch(&self) -> Result<Vec<Pending>, String>;
    /// Sends these events, in order, up to the first failure; an event that is not pending any more is skipped. Each is told
    /// once.
    fn dispatch(&self, batch: &[Pending], tell: &mut dyn FnMut(Delivered)) -> Result<(), String>;
}
