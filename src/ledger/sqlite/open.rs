//! Opening: is this file a ledger, is it ours to write, and does SQLite do what it was told?
//!
//! A wrong path opens as an empty database, and every GUID would be forgotten; so a file is looked at before anything is
//! written to it, a new ledger gets its name only when it is whole, and each PRAGMA is read back.
//!
//! The ledger's file itself is opened by SQLite alone: closing any other handle of it would drop SQLite's locks in this process.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OpenFlags};

use super::ballast::Ballast;
use super::committer;
use super::mark::{Mark, Stand};
use super::writer::Writer;
use crate::clock::Clock;
use crate::ledger::{LedgerError, ledger_time};
use crate::limits;
use crate::state::State;

const SCHEMA: &str = include_str!("../../../schema.sql");
/// "once": what `PRAGMA application_id` says of a ledger of ours.
const APPLICATION_ID: i64 = 0x6f6e_6365;
/// The schema's version; a newer one was written by a newer program.
const USER_VERSION: i64 = 1;
/// What every ledger has, whoever made it.
const COLUMNS: [&str; 8] =
    ["guid", "tx_code", "state", "rsp_code", "request", "response", "attempts", "updated_at"];

/// A view answers to the same questions as a table, and can't be written.
const TX_IS_A_TABLE: &str = "
SELECT 1
  FROM sqlite_master
 WHERE type = 'table'
   AND name = 'tx' COLLATE NOCASE";

/// Never run: SQLite prepares it only if `guid` is a key, without which no claim could be judged.
const CLAIMS_ONCE: &str = "
INSERT INTO tx (guid)
VALUES (?1)
    ON CONFLICT (guid) DO NOTHING";

/// What is set on the connection that writes, and has to be read back so.
const SETTINGS: [(&str, &str); 5] = [
    // NORMAL loses the last commits at a power cut: a lost claim is a second payment.
    ("synchronous", "2"),
    // Where plain fsync leaves data in the drive's cache (macOS); nothing elsewhere.
    ("fullfsync", "1"),
    ("checkpoint_fullfsync", "1"),
    // A ledger of another program may bring triggers that call what they should not.
    ("trusted_schema", "0"),
    ("journal_size_limit", "67108864"),
];

const _: () = assert!(limits::WAL_BYTES_KEPT == 67_108_864);

/// What a ledger is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By the relay: a missing ledger is created, unless `must_exist`.
    Serve {
        /// Refuse a missing ledger.
        must_exist: bool,
    },
    /// By the relay: one that is not as its mark says is accepted. A missing one is refused.
    ServeRestored,
    /// By a routine: read and write, never create.
    Routine,
    /// To look at: SQLite itself refuses to write.
    Read,
}

/// Whether the ledger is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was not there: every GUID is new to it.
    New,
    /// It was there.
    Existing,
}

/// Why a file was not opened as a ledger. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is nothing at the path.
    #[error("no ledger at {}: the file does not exist", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// There is a file, and it is none.
    #[error("{} is no ledger: {why}", path.display())]
    NotALedger {
        /// The path.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// Not the ledger that a relay last used here, says the mark beside it.
    #[error("{} is not the ledger that was last used here: {why}; {ONLY_IF_SURE}", path.display())]
    NotAsMarked {
        /// The path.
        path: PathBuf,
        /// What differs.
        why: String,
    },
    /// There is nothing at the path, and there was.
    #[error("no ledger at {}, and the .mark beside it says that there was one: a new one would know no GUID, and each resend would be paid again; bring the ledger back, or remove the mark to begin anew", path.display())]
    Lost {
        /// The path.
        path: PathBuf,
    },
    /// Written by a newer program.
    #[error("{} has schema version {version}, this program knows {USER_VERSION}: use a newer oncegate", path.display())]
    TooNew {
        /// The path.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// The file or its directory refused.
    #[error("can't open the ledger {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It can't be written (or read) just now.
    #[error("can't use the ledger {}: {source}{}", path.display(), remedy(source))]
    Ledger {
        /// The path.
        path: PathBuf,
        /// Why.
        source: LedgerError,
    },
    /// SQLite did not do as it was told.
    #[error("{}: PRAGMA {pragma} is {found}, not {wanted}", path.display())]
    Pragma {
        /// The path.
        path: PathBuf,
        /// Which.
        pragma: &'static str,
        /// What it says.
        found: String,
        /// What it has to say.
        wanted: &'static str,
    },
}

const ONLY_IF_SURE: &str = "what was paid since is unknown to it, and a resend would be paid again; bring back the newest ledger with its -wal, or compare this one with the core's books and then start once with --serve --accept-restored";

fn remedy(error: &LedgerError) -> &'static str {
    match error {
        LedgerError::ReadOnly(_) => {
            "; the file, its directory and its -wal and -shm files must be writable by this user (a program of another user may have left them)"
        }
        LedgerError::Busy => "; another program holds its write lock: see who has the file open",
        LedgerError::Full => "; make room first",
        LedgerError::Moved
        | LedgerError::SyncFailed(_)
        | LedgerError::Failed(_)
        | LedgerError::Closed => "",
    }
}

/// Which file it is, whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> io::Result<FileId> {
        fs::metadata(path).map(|meta| FileId(meta.dev(), meta.ino()))
    }
}

/// The files of an open ledger under the names they were opened by: the path as given (a symbolic link may be turned to
/// another file), the file itself, and its -wal and -shm. Without the first two, commits go on as if nothing had happened and
/// nobody reads them; without the last two, another process writes a log of its own.
#[derive(Clone, Debug)]
pub(super) struct Files {
    named: Vec<(PathBuf, FileId)>,
    log: PathBuf,
}

impl Files {
    /// The ledger alone, as it is before anybody has written.
    pub(super) fn of(place: &Place) -> io::Result<Files> {
        Files::named(place, place.names())
    }

    /// The ledger and what stands beside it while it is open for writing.
    fn all_of(place: &Place) -> io::Result<Files> {
        let beside = [place.beside("-wal"), place.beside("-shm")];
        Files::named(place, place.names().into_iter().chain(beside))
    }

    fn named(place: &Place, paths: impl IntoIterator<Item = PathBuf>) -> io::Result<Files> {
        let with_id = |path: PathBuf| FileId::of(&path).map(|id| (path, id));
        let named = paths.into_iter().map(with_id).collect::<io::Result<_>>()?;
        Ok(Files { named, log: place.beside("-wal") })
    }

    /// How long the log is.
    pub(super) fn log_bytes(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |meta| meta.len())
    }

    /// Whether each of them still has its name.
    pub(super) fn in_place(&self) -> bool {
        self.named.iter().all(|(path, id)| FileId::of(path).is_ok_and(|now| now == *id))
    }
}

/// A ledger's path: as it was given, for messages and to see it replaced; and where the file really is, for everything that
/// stands beside it. Two relays that reach one ledger by two names must see each other's locks.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) given: PathBuf,
    pub(super) file: PathBuf,
}

impl Place {
    /// The place of `path`, whose last part need not exist. `:memory:` and its like become ordinary file names.
    pub(super) fn of(path: &Path) -> io::Result<Place> {
        let file = match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = path.file_name().ok_or(io::ErrorKind::NotFound)?;
                fs::canonicalize(directory(path))?.join(name)
            }
            canonical => canonical?,
        };
        Ok(Place { given: std::path::absolute(path)?, file })
    }

    /// The names that lead to the ledger: one, or two if a symbolic link does.
    fn names(&self) -> Vec<PathBuf> {
        let mut names = vec![self.given.clone(), self.file.clone()];
        names.dedup();
        names
    }

    /// The path of a file that stands beside the ledger.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        with_suffix(&self.file, suffix)
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes sure that there is a ledger at `path`: creates one where that is allowed, and refuses what is none.
pub(super) fn prepare(
    path: &Path,
    access: Access,
    now: DateTime<Utc>,
    marked: Option<&Stand>,
) -> Result<(Place, Created), OpenError> {
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    let created = match fs::metadata(path) {
        Ok(_) => check(&Place::of(path).map_err(io)?.file).map(|()| Created::Existing),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match access {
            Access::Serve { must_exist: false } if marked.is_some() => {
                Err(OpenError::Lost { path: path.to_owned() })
            }
            Access::Serve { must_exist: false } => create(&Place::of(path).map_err(io)?.file, now),
            Access::Serve { must_exist: true }
            | Access::ServeRestored
            | Access::Routine
            | Access::Read => Err(OpenError::Missing { path: path.to_owned() }),
        },
        Err(error) => Err(io(error)),
    }?;
    Ok((Place::of(path).map_err(io)?, created))
}

/// A new ledger is made whole under another name and then linked to its own: whoever is killed meanwhile leaves no half ledger
/// (but perhaps a `.new-…`, which nobody opens), and of two relays that start at once the second one finds the first one's.
fn create(path: &Path, now: DateTime<Utc>) -> Result<Created, OpenError> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    // The time beside the process id: in two containers on one disk both relays may be process 1.
    let (pid, serial) = (std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
    let unnamed = with_suffix(path, &format!(".new-{pid}-{:x}-{serial}", now.timestamp_micros()));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unnamed).map_err(io)?;
    let made = make(&unnamed).map_err(|error| ledger_error(path, &error));
    let linked = made.map(|()| fs::hard_link(&unnamed, path));
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(with_suffix(&unnamed, suffix));
    }
    let created = match linked? {
        Ok(()) => Ok(Created::New),
        // Another relay was quicker: then that is the ledger.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check(path).map(|()| Created::Existing)
        }
        Err(_) => create_in_place(path),
    }?;
    sync_directory(path).map_err(io)?;
    Ok(created)
}

/// The way for a file system without hard links. Only one process can create the file; who is killed then leaves an empty one,
/// which everybody refuses: a person has to remove it.
fn create_in_place(path: &Path) -> Result<Created, OpenError> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return check(path).map(|()| Created::Existing);
        }
        Err(source) => return Err(OpenError::Io { path: path.to_owned(), source }),
        Ok(file) => drop(file),
    }
    make(path).map(|()| Created::New).map_err(|error| ledger_error(path, &error))
}

fn make(path: &Path) -> rusqlite::Result<()> {
    let con = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    con.execute_batch("PRAGMA synchronous = FULL")?;
    con.pragma_update(None, "journal_mode", "WAL")?;
    con.execute_batch("BEGIN IMMEDIATE")?;
    con.execute_batch(SCHEMA)?;
    con.execute_batch("COMMIT")?;
    // Closing would do so too, but it keeps silent when it fails; and the log is not what gets the ledger's name.
    let (is_busy, _, _): (bool, i64, i64) =
        con.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    assert!(!is_busy, "nobody else knows this file's name");
    con.close().map_err(|(_, error)| error)
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    fs::File::open(directory(path))?.sync_all()
}

/// Looks at a file without changing a byte of it: is it a ledger?
fn check(path: &Path) -> Result<(), OpenError> {
    let not = |why: &str| OpenError::NotALedger { path: path.to_owned(), why: why.to_owned() };
    let meta =
        fs::metadata(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    if !meta.is_file() {
        return Err(not("it is no file"));
    }
    if meta.len() == 0 {
        return Err(not("it is empty"));
    }
    // Only where a log holds more than the file does SQLite have to look as it does for work; it leaves a -shm then.
    let in_log = fs::metadata(with_suffix(path, "-wal")).is_ok_and(|meta| meta.len() > 0);
    let con = if in_log { reader(path)? } else { at_rest(path)? };
    look(path, &con)
}

fn look(path: &Path, con: &Connection) -> Result<(), OpenError> {
    let not = |why: String| OpenError::NotALedger { path: path.to_owned(), why };
    let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => not("it is no SQLite database".to_owned()),
        _ => ledger_error(path, &error),
    };
    if !is_table(con).map_err(failed)? {
        return Err(not("it has no table tx".to_owned()));
    }
    let columns = columns(con).map_err(failed)?;
    let has = |name: &&str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
    if let Some(missing) = COLUMNS.iter().find(|name| !has(name)) {
        return Err(not(format!("its table tx has no column {missing}")));
    }
    if con.prepare(CLAIMS_ONCE).is_err() {
        return Err(not(
            "the guid of its table tx is no key: one GUID could be there twice".to_owned()
        ));
    }
    check_version(path, con)
}

fn check_version(path: &Path, con: &Connection) -> Result<(), OpenError> {
    let number = |pragma| {
        con.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .map_err(|error| ledger_error(path, &error))
    };
    let (application, version) = (number("application_id")?, number("user_version")?);
    // A bare ledger of another program has neither; a file that names another application is that one's.
    if application != 0 && application != APPLICATION_ID {
        let why = format!("it belongs to another application (application_id {application:#x})");
        return Err(OpenError::NotALedger { path: path.to_owned(), why });
    }
    if application == APPLICATION_ID && version > USER_VERSION {
        return Err(OpenError::TooNew { path: path.to_owned(), version });
    }
    Ok(())
}

fn is_table(con: &Connection) -> rusqlite::Result<bool> {
    con.prepare(TX_IS_A_TABLE)?.exists([])
}

fn columns(con: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = con.prepare("SELECT name FROM pragma_table_info('tx')")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// The files of ours beside a ledger that the writer looks after.
pub(super) struct Beside {
    pub(super) ballast: Ballast,
    pub(super) mark: Mark,
}

/// The connection that writes: schema applied, PRAGMAs read back, one real write done.
pub(super) fn writer(
    place: &Place,
    beside: Beside,
    created: Created,
    clock: Arc<dyn Clock>,
    hooks: super::Hooks,
) -> Result<Writer, OpenError> {
    let Beside { ballast, mut mark } = beside;
    let path = &place.given;
    let io = |source| OpenError::Io { path: path.clone(), source };
    let opened = Files::of(place).map_err(io)?;
    let mut con = connect(&place.file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    con.busy_handler(Some(patience)).map_err(|error| ledger_error(path, &error))?;
    look(path, &con)?;
    let mismatch = mark.mismatch(&con).map_err(|error| ledger_error(path, &error))?;
    if let Some(why) = mismatch {
        return Err(OpenError::NotAsMarked { path: path.clone(), why });
    }
    upgrade(&con, &mut mark, clock.now()).map_err(|error| ledger_error(path, &error))?;
    mark.begun(&con, created == Created::New);
    settings(path, &con)?;
    // From here on the writer's own loop waits for locks, job by job.
    con.busy_timeout(Duration::ZERO).map_err(|error| ledger_error(path, &error))?;
    let moved = || OpenError::Ledger { path: path.clone(), source: LedgerError::Moved };
    let files = Files::all_of(place).map_err(|_| moved())?;
    if !opened.in_place() {
        return Err(moved());
    }
    Writer::start(con, clock, files, Beside { ballast, mark }, hooks).map_err(io)
}

/// Waits for another process's lock. SQLite's own handler sleeps up to 100 ms at a time, and beside a busy relay, whose writer
/// takes the lock again at once, it seldom gets its turn.
fn patience(tries: i32) -> bool {
    thread::sleep(Duration::from_millis(limits::LOCK_POLL_MS));
    tries < limits::OPEN_TRIES_MAX
}

/// Applies the schema, adds what a bare ledger lacks, and rewrites `user_version`: a real write, which fails here and not at
/// the first payment.
fn upgrade(con: &Connection, mark: &mut Mark, now: DateTime<Utc>) -> rusqlite::Result<()> {
    con.pragma_update(None, "journal_mode", "WAL")?;
    con.execute_batch("PRAGMA synchronous = FULL; BEGIN IMMEDIATE")?;
    if !columns(con)?.iter().any(|name| name.eq_ignore_ascii_case("owner")) {
        con.execute_batch("ALTER TABLE tx ADD COLUMN owner TEXT")?;
    }
    con.execute_batch(SCHEMA)?;
    for state in State::ALL.into_iter().filter(|state| *state != State::Done) {
        mend(con, state, &ledger_time(now))?;
    }
    mark.begin(con)?;
    con.execute_batch("COMMIT")
}

/// What other programs may have left amiss, where few rows are and an index finds them. The state stands literally, or the
/// index would not be used.
fn mend(con: &Connection, state: State, now: &str) -> rusqlite::Result<()> {
    // A row without a time would never be old, so no routine would ever settle it. From now on it ages.
    let age = "UPDATE tx SET updated_at = ?1 WHERE state = ?2 AND updated_at IS NULL";
    con.execute(&age.replace("?2", &format!("'{state}'")), [now])?;
    // A REPLACE deletes a row without any trigger.
    let count =
        "UPDATE tx_count SET rows = (SELECT count(*) FROM tx WHERE state = ?1) WHERE state = ?1";
    con.execute_batch(&count.replace("?1", &format!("'{state}'")))
}

fn settings(path: &Path, con: &Connection) -> Result<(), OpenError> {
    for (pragma, value) in SETTINGS {
        con.pragma_update(None, pragma, value).map_err(|error| ledger_error(path, &error))?;
    }
    let set = SETTINGS.iter().copied();
    for (pragma, wanted) in set.chain([("journal_mode", "wal"), ("user_version", "1")]) {
        let found = con
            .pragma_query_value(None, pragma, |row| row.get::<_, rusqlite::types::Value>(0))
            .map_err(|error| ledger_error(path, &error))?;
        let found = match found {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        };
        if found != wanted {
            return Err(OpenError::Pragma { path: path.to_owned(), pragma, found, wanted });
        }
    }
    Ok(())
}

/// A connection that reads; SQLite itself refuses writes on it.
pub(super) fn reader(path: &Path) -> Result<Connection, OpenError> {
    let con = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    con.busy_timeout(Duration::from_millis(limits::READER_BUSY_MS))
        .map_err(|error| ledger_error(path, &error))?;
    Ok(con)
}

/// A connection that sees the file alone, without log and locks, and leaves nothing beside it. Good for a look, not for work.
fn at_rest(path: &Path) -> Result<Connection, OpenError> {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        let _ = match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                write!(uri, "{}", char::from(*byte))
            }
            _ => write!(uri, "%{byte:02x}"),
        };
    }
    uri.push_str("?immutable=1");
    connect(Path::new(&uri), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, OpenError> {
    Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| ledger_error(path, &error))
}

fn ledger_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    OpenError::Ledger { path: path.to_owned(), source: committer::name(error) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_does_not_read_back_is_refused() {
        // PRAGMAs with a typing error, or that can't be had, return Ok.
        let con = Connection::open_in_memory().unwrap();
        let error = settings(Path::new("l.db"), &con).unwrap_err();
        assert_eq!(error.to_string(), "l.db: PRAGMA journal_mode is memory, not wal");
    }

    #[test]
    fn without_hard_links_the_first_one_makes_the_ledger_and_nobody_takes_half_of_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l.db");
        assert_eq!(create_in_place(&path).unwrap(), Created::New);
        assert_eq!(create_in_place(&path).unwrap(), Created::Existing);
        let cut_short = dir.path().join("half.db");
        fs::write(&cut_short, "").unwrap();
        let refused = create_in_place(&cut_short).unwrap_err();
        assert!(refused.to_string().ends_with("is no ledger: it is empty"), "{refused}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
