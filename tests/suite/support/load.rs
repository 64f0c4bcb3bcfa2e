//! Channels that send at the same time as relays die, and what they know in the end: the books are held against it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use super::channel::{Channel, Telegram, code};
use super::ledger_file::LedgerFile;
use super::random::Random;
use super::relays::Process;
use super::wait::wait_until;

/// Channels that send at the same time.
const CHANNELS: usize = 8;

/// Operators who send again what was not sent, at the same time.
const OPERATORS: usize = 8;

/// Of 100 telegrams so many were sent before.
const RESENT_PERCENT: usize = 40;

/// Those are among the last so many: somebody may have them in hand just now.
const RECENT: usize = 500;

/// Codes that a channel may get under load: final ones (E906: final, the answer purged), and those that ask for patience.
const CODES: [&str; 8] = ["0000", "C051", "E901", "E902", "E903", "E906", "E907", "E909"];

/// Rows that are not settled, each state by its index.
const OPEN: &str = "SELECT (SELECT count(*) FROM tx WHERE state = 'RECEIVED')
                         + (SELECT count(*) FROM tx WHERE state = 'SENT')
                         + (SELECT count(*) FROM tx WHERE state = 'UNKNOWN')
                         + (SELECT count(*) FROM tx WHERE state = 'FAILED')";

/// So long nothing has got done when it will never be: much more than a transfer's longest way, `--min-age` included.
const STANDSTILL: Duration = Duration::from_mins(3);

/// A line of progress comes so often.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// The load on the relays of one ledger.
pub struct Load {
    /// What the transfers ask for: blank, or a trick of the core.
    memos: &'static [&'static str],
    /// Where relays listen just now; none while they are dead.
    at: RwLock<Vec<SocketAddr>>,
    known: Mutex<Known>,
    over: AtomicBool,
}

/// What the channels know.
#[derive(Default)]
pub struct Known {
    pub telegrams: Vec<Telegram>,
    /// The first final answer of each GUID.
    finals: BTreeMap<String, Vec<u8>>,
    /// How often each code was told.
    pub codes: BTreeMap<String, u64>,
    /// Telegrams whose answer never came.
    pub lost: u64,
    wrong: Vec<String>,
}

/// What is wrong in the end: each with its row and its history.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The money moved more often than it should.
    doubled: Vec<String>,
    /// It did not move.
    lost: Vec<String>,
    /// A channel was told a final answer that is not the ledger's.
    untrue: Vec<String>,
    /// Not done.
    open: Vec<String>,
}

/// Says how far a long run is, seldom enough to be read.
pub struct NowAndThen {
    begun: Instant,
    last: Instant,
}

/// Sets the flag however it goes: a panic of whoever does the harm must end the channels too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Load {
    /// Transfers with these memos.
    pub fn new(memos: &'static [&'static str]) -> Load {
        Load { memos, at: RwLock::default(), known: Mutex::default(), over: AtomicBool::new(false) }
    }

    /// Sends until `harm` has returned: new transfers and resends, settled or not, over connections that die with their relay.
    pub fn during<T>(&self, random: &mut Random, harm: impl FnOnce(&mut Random) -> T) -> T {
        thread::scope(|scope| {
            for _ in 0..CHANNELS {
                let random = random.fork();
                scope.spawn(move || self.be_a_channel(random));
            }
            let _over = Over(&self.over);
            harm(random)
        })
    }

    /// Only these are called from now on. Said before a relay dies: its port may be another process's a moment later.
    pub fn appear<'a>(&self, relays: impl IntoIterator<Item = &'a Process>) {
        *self.at.write().expect("no panic there") =
            relays.into_iter().map(|relay| relay.at.tcp).collect();
    }

    /// How many transfers there are by now. Panics if a channel was told what can't be: it would not get better.
    pub fn transfers(&self) -> usize {
        let known = self.known();
        assert_eq!(known.wrong, [""; 0]);
        known.telegrams.len()
    }

    /// What the channels know by now.
    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no panic there")
    }

    /// Sends every telegram once more to the relay at `to`; returns how often each code came.
    pub fn ask_all(&self, to: SocketAddr) -> BTreeMap<String, u64> {
        let telegrams = self.known().telegrams.clone();
        let codes = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for part in telegrams.chunks(telegrams.len().div_ceil(CHANNELS).max(1)) {
                let codes = &codes;
                scope.spawn(move || {
                    let mut channel = Channel::connect(to).expect("the relay accepts");
                    for telegram in part {
                        let reply = channel.ask(&telegram.bytes());
                        self.known().told(&telegram.guid, &reply);
                        let mut codes = codes.lock().expect("no panic there");
                        *codes.entry(code(&reply).to_owned()).or_default() += 1;
                    }
                });
            }
        });
        codes.into_inner().expect("no panic there")
    }

    /// Holds what was told against the ledger and the core's books, now that all should be settled. `effects`: how often the money
    /// moved, by GUID.
    pub fn verdict(&self, ledger: &LedgerFile, effects: &BTreeMap<String, u64>) -> Verdict {
        let (known, look, mut verdict) = (self.known(), ledger.look(), Verdict::default());
        assert_eq!(known.wrong, [""; 0]);
        for telegram in &known.telegrams {
            let (guid, told) = (&telegram.guid, known.finals.get(&telegram.guid));
            let (wanted, rsp_code) =
                if telegram.memo == b"REJECT" { (0, "C051") } else { (1, "0000") };
            let story = || format!("{guid}: {} {:?}", look.told(guid), look.history(guid));
            let times = effects.get(guid).copied().unwrap_or_default();
            verdict.doubled.extend((times > wanted).then(story));
            verdict.lost.extend((times < wanted).then(story));
            if let Some(row) = look.find(guid) {
                let is_done = row.state == "DONE" && row.rsp_code.as_deref() == Some(rsp_code);
                verdict.open.extend((!is_done).then(story));
                verdict.untrue.extend((told != row.response.as_ref()).then(story));
            } else {
                // Purged: then it was done.
                let is_gone = look.history(guid).contains(&"purge DONE>purged".to_owned());
                verdict.open.extend((!is_gone).then(story));
            }
        }
        let rows = "SELECT (SELECT count(*) FROM tx) + (SELECT count(*) FROM purged)";
        assert_eq!(usize::try_from(look.number(rows)).ok(), Some(known.telegrams.len()));
        let refused = known.telegrams.iter().filter(|telegram| telegram.memo == b"REJECT").count();
        assert_eq!(effects.len(), known.telegrams.len() - refused, "and nothing that nobody sent");
        verdict
    }

    /// What operators do when it is over and the core works again: they ask, and send what was certainly not sent, until all is
    /// done. Ends with a panic only when nothing has got done for a while, however long all of it takes.
    pub fn settle(ledger: &LedgerFile, routine: impl Fn(&[&str]) -> Command, min_age: &str) {
        let look = ledger.look();
        wait_until("the sweep", || {
            look.number("SELECT count(*) FROM tx WHERE state = 'SENT'") == 0
        });
        let (mut fewest, mut since) = (i64::MAX, Instant::now());
        let mut now_and_then = NowAndThen::new();
        let resolve = vec!["resolve", "--min-age", min_age];
        let reprocess = vec!["reprocess", "--max-attempts", "100000", "--keep-going"];
        // Each waits for the core most of the time, and they get in each other's way: a row is one's alone.
        for operators in [vec![resolve], vec![reprocess; OPERATORS]].iter().cycle() {
            let start = |arguments: &Vec<&str>| routine(arguments).spawn().expect("the program");
            let mut running: Vec<Child> = operators.iter().map(start).collect();
            while !running.is_empty() {
                running.retain_mut(|one| one.try_wait().expect("its status").is_none());
                thread::park_timeout(Duration::from_millis(20));
                let open = look.number(OPEN);
                if open < fewest {
                    (fewest, since) = (open, Instant::now());
                }
                assert!(
                    since.elapsed() < STANDSTILL,
                    "{open} rows are left, and nothing gets done"
                );
                now_and_then.say(|| format!("{open} rows are open"));
            }
            if look.number(OPEN) == 0 {
                return;
            }
        }
    }

    fn be_a_channel(&self, mut random: Random) {
        let mut channel = None;
        while !self.over.load(Ordering::SeqCst) {
            let Some(mut open) = channel.take().or_else(|| self.connect(&mut random)) else {
                thread::park_timeout(Duration::from_millis(10));
                continue;
            };
            let telegram = self.next_telegram(&mut random);
            let answered = open.try_ask(&telegram.bytes());
            let mut known = self.known();
            if let Ok(reply) = answered {
                known.told(&telegram.guid, &reply);
                channel = Some(open);
            } else {
                known.lost += 1;
            }
        }
    }

    fn connect(&self, random: &mut Random) -> Option<Channel> {
        let at = self.at.read().expect("no panic there");
        let to = (!at.is_empty()).then(|| *random.pick(&at))?;
        Channel::connect(to).ok()
    }

    /// A new one, or one that somebody may have in hand just now.
    fn next_telegram(&self, random: &mut Random) -> Telegram {
        let mut known = self.known();
        let recent = known.telegrams.len().min(RECENT);
        if recent > 0 && random.chance(RESENT_PERCENT) {
            return known.telegrams[known.telegrams.len() - 1 - random.below(recent)].resent();
        }
        let telegram = Telegram::new(random.pick::<&str>(self.memos));
        known.telegrams.push(telegram.clone());
        telegram
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { doubled, lost, untrue, open } = self;
        let [doubled, lost, untrue, open] = [doubled, lost, untrue, open].map(Vec::len);
        write!(
            f,
            "{doubled} doubled, {lost} lost, {untrue} acknowledged and not DONE, {open} not settled"
        )
    }
}

impl NowAndThen {
    /// The first line is due after a while.
    pub fn new() -> NowAndThen {
        NowAndThen { begun: Instant::now(), last: Instant::now() }
    }

    /// Says it if a line is due.
    pub fn say(&mut self, what: impl FnOnce() -> String) {
        if self.last.elapsed() >= TELL_EVERY {
            self.last = Instant::now();
            println!("{:.0} s: {}", self.begun.elapsed().as_secs_f64(), what());
        }
    }
}

impl Known {
    fn told(&mut self, guid: &str, reply: &[u8]) {
        let code = code(reply);
        if code == "0000" || code == "C051" {
            let first = self.finals.entry(guid.to_owned()).or_insert_with(|| reply.to_vec());
            if *first != reply {
                self.wrong.push(format!("{guid}: two final answers"));
            }
        } else if !CODES.contains(&code) {
            self.wrong.push(format!("{guid}: {code} can't be"));
        }
        *self.codes.entry(code.to_owned()).or_default() += 1;
    }
}
