//! purge: deletes DONE rows that are old enough; what remains is the GUID and its code. Everything that is not DONE stays,
//! however old.

use std::thread;
use std::time::{Duration, Instant};

use chrono::TimeDelta;

use super::age::Ages;
use super::{Operator, Progress, Reason, Step, Stop};
use crate::clock::Clock;
use crate::guid::Guid;
use crate::ledger::{Cause, Found, Ledger, LedgerError, Purge as Batch, ledger_time};
use crate::limits;
use crate::state::State;

/// What purge works with.
pub struct Purge<'a> {
    /// Where the rows are.
    pub ledger: &'a dyn Ledger,
    /// The wall clock, for ages.
    pub clock: &'a dyn Clock,
    /// How long ago a row must have been done.
    pub age: TimeDelta,
    /// Who runs it.
    pub operator: Operator,
}

/// A row that was deleted, or that a dry run would delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted;

impl Purge<'_> {
    /// Deletes; returns how many rows. Stops early with the error that stopped it: what was deleted until then stays deleted.
    pub fn run(
        &self,
        only: Option<&[Guid]>,
        stop: &Stop,
        progress: Progress<'_, Deleted>,
    ) -> Result<u64, LedgerError> {
        let mut deleted = 0;
        self.each_batch(only, stop, |guids, cutoff| {
            let begun = Instant::now();
            let trail = self.operator.trail(Cause::Purge);
            let gone = self.ledger.purge_batch(&Batch { cutoff, guids: guids.to_vec(), trail })?;
            deleted += gone.len() as u64;
            report(&gone, progress);
            // As long a pause as the batch took: claims get their half of the writer.
            thread::sleep(begun.elapsed().min(Duration::from_millis(limits::PURGE_PAUSE_MS_MAX)));
            Ok(())
        })?;
        Ok(deleted)
    }

    /// What would be deleted now; changes nothing.
    pub fn dry_run(
        &self,
        only: Option<&[Guid]>,
        stop: &Stop,
        progress: Progress<'_, Deleted>,
    ) -> Result<u64, LedgerError> {
        let mut examined = 0;
        self.each_batch(only, stop, |guids, _| {
            examined += guids.len() as u64;
            report(guids, progress);
            Ok(())
        })?;
        Ok(examined)
    }

    fn each_batch(
        &self,
        only: Option<&[Guid]>,
        stop: &Stop,
        mut each: impl FnMut(&[Guid], chrono::DateTime<chrono::Utc>) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let ages = Ages::look(self.ledger, self.clock, &self.operator.who)?;
        let cutoff = ages.now() - self.age;
        let mut after = None;
        loop {
            let (guids, next) = match only {
                Some(only) => (self.due(only, &ages)?, None),
                None => self.purgeable(&ages, after)?,
            };
            for batch in guids.chunks(limits::PURGE_BATCH_ROWS) {
                if stop.asked() {
                    return Ok(());
                }
                each(batch, cutoff)?;
            }
            match next {
                Some(_) if !stop.asked() => after = next,
                _ => return Ok(()),
            }
        }
    }

    fn purgeable(
        &self,
        ages: &Ages,
        after: Option<i64>,
    ) -> Result<(Vec<Guid>, Option<i64>), LedgerError> {
        let (guids, next) = self.ledger.purgeable(ages.now() - self.age, after)?;
        // Row by row only where the clock has jumped: a look at each of them takes its time.
        Ok((if ages.plain() { guids } else { self.due(&guids, ages)? }, next))
    }

    fn due(&self, guids: &[Guid], ages: &Ages) -> Result<Vec<Guid>, LedgerError> {
        let cutoff = ledger_time(ages.now() - self.age);
        let mut due = Vec::new();
        for guid in guids {
            if let Found::Row(row) = self.ledger.find(guid)?
                && row.state == State::Done
                && row.updated_at <= cutoff
                && ages.reached(&row.updated_at, self.age)
            {
                due.push(guid.clone());
            }
        }
        Ok(due)
    }
}

fn report(guids: &[Guid], progress: &mut dyn FnMut(&Step<Deleted>)) {
    for guid in guids {
        progress(&Step { guid: guid.clone(), result: Deleted, reason: Reason::Deleted });
    }
}
