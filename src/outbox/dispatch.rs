//! Dispatch: pending → send → ACK → mark, in order, to the first failure. A mark is never ahead of its ACK.
//!
//! Knows no HTTP: how an event is sent is the caller's function.

use rusqlite::Connection;

use super::source::{BEFORE_ALL, check_limit, mark_sent, mark_together, pending_after};
use super::transaction::autocommit;
use super::{Event, Fault, OutboxError, Point};

/// How an event is sent. It gets a copy. Only `Ok(true)` is an acknowledgement; its error is passed on as it was.
pub type Send<'a> = dyn FnMut(Event) -> Result<bool, OutboxError> + 'a;

/// What came of a dispatch.
#[derive(Debug, Default)]
#[must_use]
pub struct Dispatched {
    /// How many events were pending and chosen.
    pub chosen: usize,
    /// How many were newly marked as sent; what another dispatcher has marked meanwhile does not count.
    pub marked: usize,
    /// Why it stopped before its end; `None`: every chosen event was acknowledged and is marked.
    pub stopped: Option<Stopped>,
}

/// The first failure of a dispatch.
#[derive(Debug)]
pub struct Stopped {
    /// The event at which it happened; it stays pending. `None`: it was no single event's.
    pub event: Option<Event>,
    /// What happened.
    pub error: OutboxError,
}

impl Stopped {
    fn at(event: &Event, error: OutboxError) -> Stopped {
        Stopped { event: Some(event.clone()), error }
    }

    fn anywhere(error: OutboxError) -> Stopped {
        Stopped { event: None, error }
    }
}

/// Sends one batch of at most `limit` (1-16) pending events, in order, one by one: `send` gets a copy; after its ACK comes
/// `after-delivery`, then the mark of the event that was chosen, on disk before the next one is sent. Stops at the first failure and
/// keeps what was marked before. Returns how many it marked. No transaction is open while it sends. Errors: `Value` for the limit or a
/// stored row that is no event; `Delivery`: an answer of `send` that is no ACK; `NotAutocommit`; those of `send`, `fault` and SQLite as
/// they were.
pub fn dispatch(
    con: &Connection,
    send: &mut Send<'_>,
    limit: usize,
    fault: &mut Fault<'_>,
) -> Result<usize, OutboxError> {
    autocommit(con)?;
    let chosen = pending_after(con, BEFORE_ALL, limit)?;
    let mut marked = 0;
    let stopped = deliver(&chosen, send, fault, &mut |event| {
        marked += usize::from(mark_sent(con, event)?);
        Ok(())
    });
    stopped.map_or(Ok(marked), |stopped| Err(stopped.error))
}

/// As [`dispatch`], but the marks of the batch share one commit, made after the last ACK or at the first failure: about one fsync less
/// for each event. Every rule holds: no mark is ahead of its ACK, what was acknowledged before a failure is marked, `after-delivery`
/// comes before the mark, no transaction is open while it sends. What differs: a process that dies inside a batch leaves up to `limit`
/// acknowledged events unmarked (instead of one), which are sent again and dropped by the inbox.
pub fn dispatch_batch(
    con: &Connection,
    send: &mut Send<'_>,
    limit: usize,
    fault: &mut Fault<'_>,
) -> Dispatched {
    batch_after(con, BEFORE_ALL, send, limit, fault).1
}

/// [`dispatch_batch`] again and again until nothing is pending or one fails; `each` hears of every batch. Returns the sum.
pub fn dispatch_all(
    con: &Connection,
    send: &mut Send<'_>,
    limit: usize,
    fault: &mut Fault<'_>,
    each: &mut dyn FnMut(&Dispatched),
) -> Dispatched {
    let mut sum = Dispatched::default();
    // The table has no index on `sent`: each batch goes on where the last one ended, instead of past all that was ever sent.
    let mut after = BEFORE_ALL;
    while sum.stopped.is_none() {
        let (last, batch) = batch_after(con, after, send, limit, fault);
        each(&batch);
        // The end is believed only from the beginning: another program may have put a row before `after`.
        if batch.chosen == 0 && batch.stopped.is_none() && after == BEFORE_ALL {
            break;
        }
        after = last.unwrap_or(BEFORE_ALL);
        sum.chosen += batch.chosen;
        sum.marked += batch.marked;
        sum.stopped = batch.stopped;
    }
    sum
}

/// One batch of those after this `seq`, and the last `seq` in it.
fn batch_after(
    con: &Connection,
    seq: i64,
    send: &mut Send<'_>,
    limit: usize,
    fault: &mut Fault<'_>,
) -> (Option<i64>, Dispatched) {
    let chosen = match choose(con, seq, limit) {
        Ok(chosen) => chosen,
        Err(error) => {
            let stopped = Some(Stopped::anywhere(error));
            return (None, Dispatched { stopped, ..Dispatched::default() });
        }
    };
    let mut acknowledged = Vec::with_capacity(chosen.len());
    let stopped = deliver(&chosen, send, fault, &mut |event| {
        acknowledged.push(event.clone());
        Ok(())
    });
    let (marked, odd) = mark_together(con, &acknowledged);
    let stopped = stopped.or(odd.map(|(event, error)| Stopped::at(&event, error)));
    (chosen.last().map(|(seq, _)| *seq), Dispatched { chosen: chosen.len(), marked, stopped })
}

fn choose(con: &Connection, seq: i64, limit: usize) -> Result<Vec<(i64, Event)>, OutboxError> {
    check_limit(limit)?;
    autocommit(con)?;
    pending_after(con, seq, limit)
}

/// Sends the chosen ones in order and hands each acknowledged one to `acknowledged`, to the first failure.
fn deliver(
    chosen: &[(i64, Event)],
    send: &mut Send<'_>,
    fault: &mut Fault<'_>,
    acknowledged: &mut dyn FnMut(&Event) -> Result<(), OutboxError>,
) -> Option<Stopped> {
    for (_, event) in chosen {
        let delivered = deliver_one(event, send, fault).and_then(|()| acknowledged(event));
        if let Err(error) = delivered {
            return Some(Stopped::at(event, error));
        }
    }
    None
}

fn deliver_one(
    event: &Event,
    send: &mut Send<'_>,
    fault: &mut Fault<'_>,
) -> Result<(), OutboxError> {
    let copy = event.checked()?;
    if !send(copy)? {
        return Err(OutboxError::Delivery(format!("the answer for `{}` was not true", event.id)));
    }
    fault(Point::AfterDelivery)
}
