//! The high-water mark: a ledger restored from an old copy has forgotten transfers, and a resend would pay them again.
//!
//! A ledger has an id, and a number that only grows: at each start, and some seconds after each commit. Both stand in
//! `<ledger>.mark` beside it too, written after the commit, so a mark is never ahead of its ledger. A ledger that stands below its
//! mark is an older one. The mark is no part of the ledger: a copy elsewhere has none, and nothing can be said of it. For the same
//! reason the mark does not belong into the ledger's backup.
//!
//! Who compares reads the mark first and then the ledger: a relay that runs meanwhile moves both on.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _};

use super::open::{Access, Place};
use crate::limits;

const HAS_SETTINGS: &str = "
SELECT 1
  FROM sqlite_master
 WHERE type = 'table'
   AND name = 'setting'";

const STAND: &str = "
SELECT id.value, CAST(number.value AS INTEGER)
  FROM setting AS id
  JOIN setting AS number ON number.name = 'mark'
 WHERE id.name = 'ledger_id'";

/// Names a ledger that has no name yet.
const BAPTISE: &str = "
INSERT INTO setting (name, value)
VALUES ('ledger_id', lower(hex(randomblob(16)))), ('mark', '0')
    ON CONFLICT (name) DO NOTHING";

const ADVANCE: &str = "
UPDATE setting
   SET value = max(CAST(value AS INTEGER), ?1) + 1
 WHERE name = 'mark'";

/// Which ledger, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stand {
    id: String,
    number: i64,
}

impl fmt::Display for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {:020}", self.id, self.number)
    }
}

impl Stand {
    /// What the mark beside the ledger at `path` says. None: there is none, or it was never written whole.
    pub(super) fn marked(path: &Path) -> Option<Stand> {
        let place = Place::of(path).ok()?;
        let mut file = File::open(mark_path(&place)).ok()?;
        Stand::read(&mut file).ok()?
    }

    fn read(file: &mut File) -> io::Result<Option<Stand>> {
        let mut text = String::new();
        file.take(limits::MARK_BYTES_MAX).read_to_string(&mut text)?;
        Ok(Stand::parse(&text))
    }

    fn parse(text: &str) -> Option<Stand> {
        let (id, number) = text.strip_suffix('\n')?.split_once(' ')?;
        let number = number.parse().ok().filter(|number| *number >= 0)?;
        (!id.is_empty()).then(|| Stand { id: id.to_owned(), number })
    }

    /// Where the ledger stands; none: no relay with marks has ever opened it.
    fn of(con: &Connection) -> rusqlite::Result<Option<Stand>> {
        if !con.prepare(HAS_SETTINGS)?.exists([])? {
            return Ok(None);
        }
        let stand = |row: &rusqlite::Row<'_>| Ok(Stand { id: row.get(0)?, number: row.get(1)? });
        con.query_row(STAND, [], stand).optional()
    }
}

/// What is to be known about the mark. Told at the opening, or on the writer's thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkNews {
    /// There was none beside a ledger that is not new; there is one now.
    Missing,
    /// The ledger is not as marked, and was accepted all the same.
    Accepted(String),
    /// It could not be written: a copy that is restored later may not be recognised.
    NotWritten(String),
}

/// Is told about the mark.
pub type MarkObserver = Box<dyn Fn(&MarkNews) + Send>;

/// The mark of one ledger, as one process sees it.
pub(super) struct Mark {
    path: PathBuf,
    /// What it said before the ledger was opened.
    seen: Option<Stand>,
    access: Access,
    /// Something was committed since it was last moved on.
    behind: bool,
    tried: Instant,
    observer: Option<MarkObserver>,
}

impl Mark {
    /// The mark at `place`, which said `seen` before the ledger was looked at.
    pub(super) fn new(
        place: &Place,
        seen: Option<Stand>,
        access: Access,
        observer: Option<MarkObserver>,
    ) -> Mark {
        let path = mark_path(place);
        Mark { path, seen, access, behind: false, tried: Instant::now(), observer }
    }

    /// Why the ledger is not the one that was last used here, if it is not.
    pub(super) fn mismatch(&self, con: &Connection) -> rusqlite::Result<Option<String>> {
        let (Some(seen), stands) = (&self.seen, Stand::of(con)?) else { return Ok(None) };
        let mark = self.path.display();
        let why = match stands {
            Some(stands) if stands.id != seen.id => format!("{mark} names another ledger"),
            None => format!("{mark} names another ledger"),
            Some(stands) if stands.number < seen.number => format!(
                "it is an older copy: it stands at {}, and {mark} at {}",
                stands.number, seen.number
            ),
            Some(_) => return Ok(None),
        };
        if matches!(self.access, Access::ServeRestored) {
            self.tell(&MarkNews::Accepted(why));
            return Ok(None);
        }
        Ok(Some(why))
    }

    /// At the start, in the transaction that opens the ledger: it gets its id, and moves on.
    pub(super) fn begin(&mut self, con: &Connection) -> rusqlite::Result<()> {
        if !self.is_kept() {
            return Ok(());
        }
        con.execute(BAPTISE, [])?;
        self.advance(con)
    }

    /// After that transaction.
    pub(super) fn begun(&mut self, con: &Connection, is_new: bool) {
        if !self.is_kept() {
            return;
        }
        if self.seen.is_none() && !is_new {
            self.tell(&MarkNews::Missing);
        }
        self.keep(con);
    }

    /// Something was committed.
    pub(super) fn committed(&mut self) {
        self.behind = self.is_kept();
    }

    /// Whether it is time to move on.
    pub(super) fn is_due(&self) -> bool {
        self.behind && self.tried.elapsed() >= Duration::from_secs(limits::MARK_PAUSE_SECS)
    }

    /// Moves the ledger's number on, in a transaction that someone else begins and commits.
    pub(super) fn advance(&mut self, con: &Connection) -> rusqlite::Result<()> {
        self.tried = Instant::now();
        let at_least = self.seen.as_ref().map_or(0, |seen| seen.number);
        con.execute(ADVANCE, [at_least]).map(drop)
    }

    /// Writes down where the ledger stands; the commit that moved it on is on disk.
    pub(super) fn keep(&mut self, con: &Connection) {
        self.behind = false;
        let kept = match Stand::of(con) {
            Ok(Some(stand)) => write(&self.path, &stand).map_err(|error| error.to_string()),
            Ok(None) => Err("the ledger has lost its id".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = kept {
            self.tell(&MarkNews::NotWritten(why));
        }
    }

    /// A relay makes one; a routine moves on the one that is there, for a reprocess sends, too.
    fn is_kept(&self) -> bool {
        match self.access {
            Access::Serve { .. } | Access::ServeRestored => true,
            Access::Routine => self.seen.is_some(),
            Access::Read => false,
        }
    }

    fn tell(&self, news: &MarkNews) {
        if let Some(observer) = &self.observer {
            observer(news);
        }
    }
}

fn mark_path(place: &Place) -> PathBuf {
    place.beside(".mark")
}

/// One line of one length, written in place: no reader sees half of it, and of two relays none writes the other's back. A relay
/// that sleeps in here must not hold up the other one: whoever finds it locked leaves it to the next time.
fn write(path: &Path, stand: &Stand) -> io::Result<()> {
    let is_new = !path.exists();
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path)?;
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => return Ok(()),
        locked => locked?,
    }
    let there = Stand::read(&mut file)?;
    if there.is_some_and(|there| there.id == stand.id && there.number >= stand.number) {
        return Ok(());
    }
    let line = stand.to_string();
    file.write_all_at(line.as_bytes(), 0)?;
    file.set_len(line.len() as u64)?;
    file.sync_data()?;
    if is_new { super::open::sync_directory(path) } else { Ok(()) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn stand(id: &str, number: i64) -> Stand {
        Stand { id: id.to_owned(), number }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_half_of_one_is_none() {
        let line = stand("a1", 40).to_string();
        assert_eq!(Stand::parse(&line), Some(stand("a1", 40)));
        for bad in ["", "a1", "a1 40", " 40\n", "a1 -1\n", "a1 x\n", &line[..line.len() - 1]] {
            assert_eq!(Stand::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn of_two_relays_the_slower_one_does_not_put_the_mark_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, ledger) = (dir.path().join("l.db.mark"), dir.path().join("l.db"));
        let mut marked = Vec::new();
        for stand in [stand("a", 8), stand("a", 7), stand("b", 1)] {
            write(&path, &stand).unwrap();
            marked.extend(Stand::marked(&ledger));
        }
        assert_eq!(marked, [stand("a", 8), stand("a", 8), stand("b", 1)]);
    }
}
