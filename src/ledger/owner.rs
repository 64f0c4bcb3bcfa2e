//! Owners: who made a claim, and the proof that he is dead.
//!
//! A SENT row must not be taken from a process that merely sleeps: between its claim and its call nothing in the ledger could
//! stop it. So each process that claims holds an OS lock on `<ledger>.owner.<id>`; the lock goes when the process does, however
//! it ends. A lock that can be taken is the proof. The file is locked before it gets that name, so nobody ever sees it free
//! while its owner lives. Who dies before leaves a file that has no name yet, `<ledger>.owner.<id>.new`, and the sweep removes
//! it. That one it may see free while its maker lives; so the maker looks whether it was removed, and then makes it again.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::limits;

/// What a lock file's name ends in before it has been locked.
const UNNAMED: &str = ".new";

/// The name of a process that claims: its process id and the time of its start, so that no name is ever used twice on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(String);

impl OwnerId {
    /// The name of process `pid`, started at `at`; `serial` tells several owners of one process apart.
    #[must_use]
    pub fn new(pid: u32, at: DateTime<Utc>, serial: u32) -> OwnerId {
        OwnerId(format!("{pid}-{:x}-{serial}", at.timestamp_micros()))
    }

    /// An owner as a ledger holds it. Another program may have written anything: it is checked before it becomes a file name.
    #[must_use]
    pub fn from_ledger(text: String) -> OwnerId {
        OwnerId(text)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The process id in it, if it is one of our names.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.0.split('-').next()?.parse().ok()
    }

    fn is_file_name(&self) -> bool {
        !self.0.is_empty()
            && self.0.len() <= 64
            && self.0.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It holds its lock: it lives, however silent it is.
    Alive,
    /// Its lock is free: it is dead. The proof.
    Dead,
    /// There is no lock to ask: the ledger was copied here, or the file was removed. No proof of anything; only age can tell.
    NoLock,
}

/// Who can say whether an owner lives.
pub trait Owners: Send + Sync {
    /// The fate of `owner`, now. `Dead` is for ever.
    fn fate(&self, owner: &OwnerId) -> io::Result<Fate>;

    /// Forgets a dead owner of whom no row is left. Harmless if he is already forgotten.
    fn forget(&self, owner: &OwnerId) -> io::Result<()>;

    /// Every owner that has left a lock behind or holds one.
    fn all(&self) -> io::Result<Vec<OwnerId>>;
}

/// Lock files beside a ledger.
#[derive(Clone, Debug)]
pub struct LockFiles {
    ledger: PathBuf,
}

impl LockFiles {
    /// The lock files beside the ledger at `ledger`: beside the file itself, all symbolic links followed. Two relays that reach
    /// it by two names must see each other's locks, or one would take the other's claims by age.
    #[must_use]
    pub fn beside(ledger: &Path) -> LockFiles {
        LockFiles { ledger: fs::canonicalize(ledger).unwrap_or_else(|_| ledger.to_owned()) }
    }

    /// Becomes an owner: creates and locks the file. The lock lasts until the returned value is dropped or the process ends.
    pub fn take(&self, id: OwnerId) -> io::Result<OwnerLock> {
        let path = self.path(&id);
        for _ in 0..limits::OWNER_TAKES_MAX {
            if let Some(file) = make_locked(&path)? {
                return Ok(OwnerLock { id, path, _file: file });
            }
        }
        Err(io::Error::other("somebody removes the new lock file again and again"))
    }

    /// Removes what was left by owners that died before their file had its name. Whoever is just making his holds its lock, or
    /// will see that it is gone. What can't be opened or removed stays: nobody reads it. Errors: the directory can't be read.
    pub fn remove_unnamed(&self) -> io::Result<()> {
        for name in self.names()? {
            let id = name.strip_suffix(UNNAMED).map(|id| OwnerId(id.to_owned()));
            if let Some(id) = id.filter(OwnerId::is_file_name) {
                let path = with_suffix(&self.path(&id), UNNAMED);
                let free = File::open(&path).ok().filter(|file| file.try_lock().is_ok());
                let _ = free.map(|_locked| fs::remove_file(path));
            }
        }
        Ok(())
    }

    /// What follows on [`LockFiles::prefix`] in the names of the files there.
    fn names(&self) -> io::Result<Vec<String>> {
        let directory = match self.ledger.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let prefix = self.prefix();
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_prefix(prefix.as_str()));
            names.extend(name.map(str::to_owned));
        }
        Ok(names)
    }

    fn path(&self, id: &OwnerId) -> PathBuf {
        with_suffix(&self.ledger, &format!(".owner.{id}"))
    }

    /// The name of the ledger's file and `.owner.`: what every lock file's name begins with.
    fn prefix(&self) -> String {
        let name = self.ledger.file_name().unwrap_or_default().to_string_lossy();
        format!("{name}.owner.")
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

impl Owners for LockFiles {
    fn fate(&self, owner: &OwnerId) -> io::Result<Fate> {
        if !owner.is_file_name() {
            return Ok(Fate::NoLock);
        }
        let file = match File::open(self.path(owner)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Fate::NoLock),
            Err(error) => return Err(error),
        };
        // Shared, so that two who ask at once do not take each other for the owner.
        match file.try_lock_shared() {
            Ok(()) => Ok(Fate::Dead),
            Err(TryLockError::WouldBlock) => Ok(Fate::Alive),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn forget(&self, owner: &OwnerId) -> io::Result<()> {
        remove(&self.path(owner))
    }

    fn all(&self) -> io::Result<Vec<OwnerId>> {
        let owners = self.names()?.into_iter().map(OwnerId);
        Ok(owners.filter(OwnerId::is_file_name).collect())
    }
}

/// A new file, locked, under the name `path`. None: it was removed by a sweep that saw it free.
fn make_locked(path: &Path) -> io::Result<Option<File>> {
    let unnamed = with_suffix(path, UNNAMED);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unnamed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return remove(&unnamed).map(|()| None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    match fs::rename(&unnamed, path) {
        Ok(()) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes it, unless it is gone already.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The proof of life of this process as an owner. Dropping it is dying: do so only when no call of its claims can begin any more.
#[derive(Debug)]
pub struct OwnerLock {
    id: OwnerId,
    path: PathBuf,
    _file: File,
}

impl OwnerLock {
    /// Whose it is.
    #[must_use]
    pub fn id(&self) -> &OwnerId {
        &self.id
    }

    /// Goes in order: no claim of its is left, so the file goes too.
    pub fn leave(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::thread;

    use super::*;

    fn owner(serial: u32) -> OwnerId {
        OwnerId::new(4711, DateTime::UNIX_EPOCH, serial)
    }

    #[test]
    fn an_owner_lives_as_long_as_it_holds_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let files = LockFiles::beside(&dir.path().join("l.db"));
        assert_eq!(files.fate(&owner(1)).unwrap(), Fate::NoLock);
        let lock = files.take(owner(1)).unwrap();
        assert_eq!(files.fate(&owner(1)).unwrap(), Fate::Alive);
        assert_eq!(files.all().unwrap(), [owner(1)]);
        drop(lock);
        assert_eq!(files.fate(&owner(1)).unwrap(), Fate::Dead);
        assert_eq!(files.fate(&owner(1)).unwrap(), Fate::Dead, "asking takes nothing away");
        files.forget(&owner(1)).unwrap();
        files.forget(&owner(1)).unwrap();
        assert_eq!(files.fate(&owner(1)).unwrap(), Fate::NoLock);
    }

    #[test]
    fn who_leaves_in_order_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let files = LockFiles::beside(&dir.path().join("l.db"));
        files.take(owner(1)).unwrap().leave().unwrap();
        assert!(files.all().unwrap().is_empty());
    }

    #[test]
    fn two_names_of_one_ledger_have_one_set_of_locks() {
        // Locks stood beside the name that was given: relays started with a link and with the file saw no lock of each other
        // and took each other's claims by age, asleep or not.
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (file, link) = (dir.path().join("l.db"), elsewhere.path().join("link.db"));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let _lock = LockFiles::beside(&link).take(owner(1)).unwrap();
        assert_eq!(LockFiles::beside(&file).fate(&owner(1)).unwrap(), Fate::Alive);
    }

    #[test]
    fn two_who_ask_at_once_both_learn_that_the_owner_is_dead() {
        let dir = tempfile::tempdir().unwrap();
        let files = LockFiles::beside(&dir.path().join("l.db"));
        drop(files.take(owner(1)).unwrap());
        let asking = File::open(files.path(&owner(1))).unwrap();
        asking.try_lock_shared().unwrap();
        assert_eq!(files.fate(&owner(1)).unwrap(), Fate::Dead);
    }

    #[test]
    fn what_was_left_before_it_had_its_name_is_removed_and_what_is_just_being_made_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let files = LockFiles::beside(&dir.path().join("l.db"));
        let unnamed = |serial| with_suffix(&files.path(&owner(serial)), UNNAMED);
        let (left, making) = (unnamed(1), unnamed(2));
        fs::write(&left, "").unwrap();
        let made = File::create(&making).unwrap();
        made.lock().unwrap();
        let strange = dir.path().join("l.db.owner.a b.new");
        fs::write(&strange, "").unwrap();
        let named = files.take(owner(3)).unwrap();
        files.remove_unnamed().unwrap();
        assert!(!left.exists() && making.exists() && strange.exists());
        assert_eq!(files.fate(named.id()).unwrap(), Fate::Alive);
    }

    #[test]
    fn who_loses_the_file_he_is_making_to_a_sweep_makes_it_again() {
        let dir = tempfile::tempdir().unwrap();
        let files = LockFiles::beside(&dir.path().join("l.db"));
        thread::scope(|scope| {
            let taking = scope.spawn(|| {
                for serial in 0..2_000 {
                    let lock = files.take(owner(serial)).unwrap();
                    assert_eq!(files.fate(lock.id()).unwrap(), Fate::Alive);
                    lock.leave().unwrap();
                }
            });
            while !taking.is_finished() {
                files.remove_unnamed().unwrap();
            }
        });
        assert!(files.names().unwrap().is_empty());
    }

    #[test]
    fn an_owner_written_by_another_program_never_becomes_a_path() {
        let files = LockFiles::beside(Path::new("/nowhere/l.db"));
        for text in ["../../etc/passwd", "", "a/b", "a b"] {
            let id = OwnerId::from_ledger(text.to_owned());
            assert_eq!(files.fate(&id).unwrap(), Fate::NoLock, "{text:?}");
        }
        assert_eq!(owner(1).pid(), Some(4711));
    }
}
