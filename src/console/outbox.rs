//! What the console shows of an outbox, as plain values, and how it sends a batch that was confirmed: exactly those events.

use std::path::PathBuf;

use super::why::{Broke, Why};
use crate::engine::desk::Became;
use crate::limits;
use crate::outbox::{
    self, BEFORE_ALL, Event, HttpSender, OutboxError, Role, Status, Stopped, no_fault,
};

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
    pub why: Why,
}

/// What the console wants of an outbox.
pub trait OutboxDesk: Send + Sync {
    /// What it holds now.
    fn look(&self) -> Result<Outbox, String>;
    /// What a batch would send now, in order.
    fn batch(&self) -> Result<Vec<Pending>, String>;
    /// Sends these events, in order, up to the first failure; an event that is not pending any more is skipped. Each is told
    /// once.
    fn dispatch(&self, batch: &[Pending], tell: &mut dyn FnMut(Delivered)) -> Result<(), Broke>;
}

/// The outbox of two store files.
#[derive(Debug)]
pub struct Stores {
    /// Orders, and what is to be sent.
    pub source: PathBuf,
    /// The other side, if it can be looked at.
    pub sink: Option<PathBuf>,
    /// Where events go, if anywhere.
    pub url: Option<String>,
}

impl Stores {
    fn waiting(&self, rows_max: usize) -> Result<(Status, Vec<Pending>), OutboxError> {
        let con = outbox::open_existing(&self.source, Role::Source)?;
        let status = outbox::status(&con, Role::Source)?;
        let (mut waiting, mut after) = (Vec::new(), BEFORE_ALL);
        while waiting.len() < rows_max {
            let limit = (rows_max - waiting.len())
                .min(usize::try_from(limits::OUTBOX_LIMIT_MAX).unwrap_or(1));
            let page = outbox::pending_after(&con, after, limit)?;
            let whole = page.len() < limit;
            waiting.extend(page.into_iter().map(|(seq, event)| {
                after = seq;
                Pending { seq, id: event.id, qty: event.qty }
            }));
            if whole {
                break;
            }
        }
        Ok((status, waiting))
    }

    fn other_side(&self) -> Result<Option<(i64, i64)>, OutboxError> {
        let Some(path) = &self.sink else { return Ok(None) };
        let con = outbox::open_existing(path, Role::Sink)?;
        Ok(match outbox::status(&con, Role::Sink)? {
            Status::Sink { received, stock } => Some((received, stock.unwrap_or(0))),
            Status::Source { .. } => None,
        })
    }

    /// Sends the first waiting event, if it is `planned`; anything else that waits there is not sent.
    fn send_planned(&self, sender: &HttpSender, planned: &Pending) -> Result<Sent, OutboxError> {
        let con = outbox::open_existing(&self.source, Role::Source)?;
        let mut is_other = false;
        let mut send = |event: Event| {
            is_other = event.id != planned.id || event.qty != planned.qty;
            if is_other {
                return Err(OutboxError::Value("not in the plan".to_owned()));
            }
            sender.send(&event)
        };
        let done = outbox::dispatch_batch(&con, &mut send, 1, &mut no_fault);
        Ok(match done.stopped {
            _ if is_other || done.chosen == 0 => Sent::NotWaiting,
            Some(Stopped { error, .. }) => Sent::Failed(outbox::chain(&error)),
            None => Sent::Acknowledged,
        })
    }
}

enum Sent {
    Acknowledged,
    Failed(String),
    /// Another one stands where it stood, or none at all.
    NotWaiting,
}

impl OutboxDesk for Stores {
    fn look(&self) -> Result<Outbox, String> {
        let said = |error: OutboxError| outbox::chain(&error);
        let (status, pending) = self.waiting(limits::OUTBOX_SHOWN_MAX).map_err(said)?;
        let inbox = self.other_side().map_err(said)?;
        let (orders, waiting) = match status {
            Status::Source { orders, pending, .. } => (orders, pending),
            Status::Sink { .. } => (0, 0),
        };
        Ok(Outbox { orders, waiting, pending, inbox, no_url: self.url.is_none() })
    }

    fn batch(&self) -> Result<Vec<Pending>, String> {
        let waiting = self.waiting(outbox::LIMIT_DEFAULT);
        waiting.map(|(_, events)| events).map_err(|error| outbox::chain(&error))
    }

    fn dispatch(&self, batch: &[Pending], tell: &mut dyn FnMut(Delivered)) -> Result<(), Broke> {
        let url = self.url.as_deref().ok_or(Broke::NoUrl)?;
        let sender = HttpSender::new(url, limits::SEND_TIMEOUT_S_DEFAULT)
            .map_err(|error| Broke::Outbox(outbox::chain(&error)))?;
        let mut rest = batch.iter();
        for event in rest.by_ref() {
            let sent = self.send_planned(&sender, event);
            let (became, why) = match sent {
                Ok(Sent::Acknowledged) => (Became::Done, Why::Acknowledged),
                Ok(Sent::NotWaiting) => (Became::Skipped, Why::NotNext),
                Ok(Sent::Failed(error)) => (Became::Left, Why::Pending(error)),
                Err(error) => (Became::Skipped, Why::Outbox(outbox::chain(&error))),
            };
            let stops = matches!(became, Became::Left);
            tell(Delivered { id: event.id.clone(), became, why });
            if stops {
                break;
            }
        }
        for event in rest {
            let (became, why) = (Became::Skipped, Why::AfterAFailure);
            tell(Delivered { id: event.id.clone(), became, why });
        }
        Ok(())
    }
}
