//! Ballast: a file of some size beside the ledger that is worth nothing but its room.
//!
//! A full disk refuses the claim, and nothing is lost: nothing was sent. But it also refuses the *result* of a call that was
//! made, and then a payment whose outcome we know becomes one that somebody has to ask about. So room is kept for results:
//! when one of them meets a full disk, the writer deletes the ballast and writes it. From then on nothing new is claimed, or
//! claims would use up the room of the results that are still to come; results, settlements and the orphan sweep go on.
//! A purge goes on too, for it makes room, but it may not take the ballast. Every few seconds the ballast is laid again; when
//! that succeeds, the disk has room for it beside everything else, and claims go on.
//!
//! The file is the only state: two relays on one ledger share it, and each sees when the other has used it. A routine lays
//! none and is not stopped by its absence, since it has one call under way at most; but its result may use it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::open::Place;
use crate::limits;

/// What a write does when the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Begins something: it is refused while there is no ballast.
    Claim,
    /// Ends something that has begun: it may use the ballast.
    Result,
    /// Neither: it is tried, and may not use the ballast.
    Upkeep,
}

/// What became of the ballast. Told once per change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BallastNews {
    /// It lies: there is room for results.
    Laid,
    /// The disk is full. A result has used it, or there was no room for it: nothing is claimed until there is.
    NoRoom,
    /// It can't be laid for another reason than room. Claims go on without it.
    Impossible(String),
}

/// Is told what became of the ballast, on the writer's thread.
pub type BallastObserver = Box<dyn Fn(&BallastNews) + Send>;

/// The ballast of one ledger, as one process sees it.
pub(super) struct Ballast {
    path: PathBuf,
    /// It is for a relay: laid if missing, and claims depend on it.
    laid_here: bool,
    tried: Option<Instant>,
    told: Option<BallastNews>,
    observer: Option<BallastObserver>,
}

impl Ballast {
    /// A relay's: it is laid at the first [`Ballast::look_after`].
    pub(super) fn laid(place: &Place, observer: Option<BallastObserver>) -> Ballast {
        Ballast { laid_here: true, observer, ..Ballast::used(place) }
    }

    /// A routine's: it may be used up, and is never laid.
    pub(super) fn used(place: &Place) -> Ballast {
        let path = place.beside(".ballast");
        Ballast { path, laid_here: false, tried: None, told: None, observer: None }
    }

    /// Lays it if it is missing and was not tried just now.
    pub(super) fn look_after(&mut self) {
        if !self.laid_here {
            return;
        }
        if self.lies() {
            return self.tell(BallastNews::Laid);
        }
        let pause = Duration::from_secs(limits::BALLAST_RETRY_SECS);
        if self.tried.is_some_and(|tried| tried.elapsed() < pause) {
            return;
        }
        self.tried = Some(Instant::now());
        self.tell(match lay(&self.path) {
            Ok(()) => BallastNews::Laid,
            // Another relay was quicker.
            Err(_) if self.lies() => BallastNews::Laid,
            Err(error) if is_want_of_room(&error) => BallastNews::NoRoom,
            Err(error) => BallastNews::Impossible(error.to_string()),
        });
    }

    /// Whether something new may begin, at first sight.
    pub(super) fn lets_claims_pass(&self) -> bool {
        // A short one is not used up: a relay that started with us filled the file that we then gave its name, and will end it.
        !self.laid_here
            || matches!(self.told, Some(BallastNews::Impossible(_)))
            || self.path.exists()
    }

    /// Whether something new may begin. If it is gone, it is laid again, unless that was tried just now.
    pub(super) fn allows_claims(&mut self) -> bool {
        if self.lets_claims_pass() {
            return true;
        }
        self.look_after();
        if self.lets_claims_pass() {
            return true;
        }
        // Another relay of this ledger may have used it.
        self.tell(BallastNews::NoRoom);
        false
    }

    /// Makes room for a result; false if there was none to make.
    pub(super) fn release(&mut self) -> bool {
        self.tried = Some(Instant::now());
        let released = fs::remove_file(&self.path).is_ok();
        self.tell(BallastNews::NoRoom);
        released
    }

    fn lies(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|meta| meta.len() == limits::BALLAST_BYTES)
    }

    fn tell(&mut self, news: BallastNews) {
        if self.told.as_ref() != Some(&news) {
            if let Some(observer) = &self.observer {
                observer(&news);
            }
            self.told = Some(news);
        }
    }
}

fn is_want_of_room(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// It gets its name when it is whole. What could not be finished is removed at once: it stands in the way of the results.
fn lay(path: &Path) -> io::Result<()> {
    let unfinished = path.with_added_extension("new");
    let laid = fill(&unfinished).and_then(|()| fs::rename(&unfinished, path));
    if laid.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    laid
}

fn fill(path: &Path) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let piece = incompressible();
    let mut left = limits::BALLAST_BYTES;
    while left > 0 {
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        file.write_all(&piece[..bytes])?;
        left -= bytes as u64;
    }
    Ok(())
}

/// Bytes that a compressing file system can't save: those of a xorshift generator, longer than any block it compresses.
fn incompressible() -> Vec<u8> {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        Some(word)
    };
    std::iter::from_fn(next).take(32 * 1024).flat_map(u64::to_le_bytes).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::{Arc, Mutex};

    use super::*;

    fn ballast(dir: &Path) -> (Ballast, Arc<Mutex<Vec<BallastNews>>>) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let place = Place { given: dir.join("l.db"), file: dir.join("l.db") };
        let told = Arc::clone(&heard);
        let observer: BallastObserver =
            Box::new(move |news| told.lock().unwrap().push(news.clone()));
        (Ballast::laid(&place, Some(observer)), heard)
    }

    #[test]
    fn it_is_laid_once_really_takes_room_and_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (mut ballast, heard) = ballast(dir.path());
        ballast.look_after();
        ballast.look_after();
        let meta = fs::metadata(dir.path().join("l.db.ballast")).unwrap();
        assert!(meta.blocks() * 512 >= limits::BALLAST_BYTES);
        assert_eq!(meta.mode() & 0o777, 0o600);
        assert!(ballast.allows_claims());
        assert_eq!(*heard.lock().unwrap(), [BallastNews::Laid]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn without_it_nothing_is_claimed_and_it_is_not_laid_again_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut ballast, heard) = ballast(dir.path());
        ballast.look_after();
        assert!(ballast.release());
        assert!(!ballast.release(), "it was there once");
        ballast.look_after();
        assert!(!ballast.allows_claims());
        assert_eq!(*heard.lock().unwrap(), [BallastNews::Laid, BallastNews::NoRoom]);
        ballast.tried = None;
        ballast.look_after();
        assert!(ballast.allows_claims());
    }

    /// Its look is only every now and then: the next claim found no ballast, and was told that the disk was full.
    #[test]
    fn one_that_somebody_removed_is_laid_again_before_a_claim_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (mut ballast, heard) = ballast(dir.path());
        ballast.look_after();
        fs::remove_file(dir.path().join("l.db.ballast")).unwrap();
        ballast.tried = None;
        assert!(!ballast.lets_claims_pass());
        assert!(ballast.allows_claims() && ballast.lies());
        assert_eq!(*heard.lock().unwrap(), [BallastNews::Laid]);
    }

    #[test]
    fn another_relays_use_of_it_stops_our_claims_too() {
        let dir = tempfile::tempdir().unwrap();
        let ((mut ours, heard), (mut theirs, _)) = (ballast(dir.path()), ballast(dir.path()));
        ours.look_after();
        assert!(theirs.release());
        assert!(!ours.allows_claims());
        assert_eq!(*heard.lock().unwrap(), [BallastNews::Laid, BallastNews::NoRoom]);
    }

    /// Two relays that started at once filled the same unfinished file. The first to end gave it its name while the other had
    /// just begun, saw that it was short, and told its channels E909 on a disk with room for everything.
    #[test]
    fn one_that_another_relay_still_fills_is_no_sign_of_a_full_disk() {
        let dir = tempfile::tempdir().unwrap();
        let (mut ballast, heard) = ballast(dir.path());
        fs::write(dir.path().join("l.db.ballast"), b"begun").unwrap();
        assert!(ballast.allows_claims());
        ballast.look_after();
        assert!(ballast.lies(), "what nobody ends is laid anew");
        assert_eq!(*heard.lock().unwrap(), [BallastNews::Laid]);
    }

    #[test]
    fn where_it_can_not_be_for_another_reason_claims_go_on_with_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let (mut ballast, heard) = ballast(dir.path());
        fs::create_dir_all(dir.path().join("l.db.ballast.new")).unwrap();
        ballast.look_after();
        assert!(ballast.allows_claims());
        assert!(matches!(heard.lock().unwrap()[..], [BallastNews::Impossible(_)]));
    }

    #[test]
    fn a_routine_lays_none_and_is_not_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { given: dir.path().join("l.db"), file: dir.path().join("l.db") };
        let mut ballast = Ballast::used(&place);
        ballast.look_after();
        assert!(ballast.allows_claims() && !ballast.release() && ballast.allows_claims());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
