//! A console on a real ledger file without a terminal and without threads: questions are answered at once, runs run at once
//! (or when the test says so), and the clock stands still unless it is moved.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use oncegate::clock::Clock;
use oncegate::console::app::{App, Ask, Effect, Facts, Look, Mode, Msg, RunNews};
use oncegate::console::input::{Decoder, Input};
use oncegate::console::keys::Keymap;
use oncegate::console::theme::Theme;
use oncegate::console::view;
use oncegate::console::words::Lang;
use oncegate::console::work;
use oncegate::core_api::{Core, Inquiry, Seen, Transfer};
use oncegate::engine::Stop;
use oncegate::engine::desk::{Act, Desk, Plan, Settings};
use oncegate::ledger::parse_ledger_time;
use oncegate::ledger::sqlite::{Access, Hooks, SqliteLedger};
use oncegate::telegram::{Layout, ReplyBody, Request};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rusqlite::{Connection, params};

/// What time it is when a test begins.
pub fn noon() -> DateTime<Utc> {
    parse_ledger_time("2026-11-29 14:03:07").unwrap()
}

/// A clock that stands still until it is moved.
#[derive(Default)]
pub struct StillClock {
    seconds: AtomicI64,
    ms: AtomicU64,
}

impl StillClock {
    pub fn forward(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for StillClock {
    fn now(&self) -> DateTime<Utc> {
        noon() + TimeDelta::seconds(self.seconds.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        // Each look is a millisecond later than the last one.
        Duration::from_millis(self.ms.fetch_add(1, Ordering::SeqCst))
    }
}

/// What the core does with whatever comes.
#[derive(Clone, Copy)]
pub enum Mood {
    Done,
    Silent,
    Absent,
    Down,
}

/// A core that keeps count.
pub struct CountingCore {
    mood: Mutex<Mood>,
    pub calls: Mutex<HashMap<String, u32>>,
    pub inquiries: Mutex<HashMap<String, u32>>,
}

impl CountingCore {
    pub fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub fn called(&self) -> Vec<String> {
        let mut called: Vec<String> = self.calls.lock().unwrap().keys().cloned().collect();
        called.sort();
        called
    }
}

/// A body of the right length.
fn body() -> ReplyBody {
    ReplyBody(b"CT202611290000120261129140307+00000012500000  ".iter().copied().take(45).collect())
}

impl Core for CountingCore {
    fn transfer(&self, request: &Request) -> Transfer {
        *self.calls.lock().unwrap().entry(request.guid().to_string()).or_default() += 1;
        match *self.mood.lock().unwrap() {
            Mood::Done | Mood::Absent => Transfer::Done(body()),
            Mood::Silent => Transfer::Unknown(Seen("read timeout after 3.0 s".to_owned())),
            Mood::Down => Transfer::NotSent(Seen("connect refused".to_owned())),
        }
    }

    fn inquire(&self, request: &Request) -> Inquiry {
        *self.inquiries.lock().unwrap().entry(request.guid().to_string()).or_default() += 1;
        match *self.mood.lock().unwrap() {
            Mood::Done => Inquiry::Known(body()),
            Mood::Absent => Inquiry::Absent,
            Mood::Silent | Mood::Down => Inquiry::NoAnswer(Seen("no connection".to_owned())),
        }
    }
}

/// A row to put into a ledger.
pub struct Put<'a> {
    pub guid: &'a str,
    pub state: &'a str,
    pub age_s: i64,
    pub attempts: i64,
    pub seen: Option<&'a str>,
    pub memo: &'a str,
    pub amount: u64,
}

pub fn put<'a>(guid: &'a str, state: &'static str, age_s: i64) -> Put<'a> {
    let seen = match state {
        "UNKNOWN" => Some("read timeout after 3.0 s"),
        "FAILED" => Some("connect refused 10.9.0.4:9201"),
        _ => None,
    };
    Put { guid, state, age_s, attempts: 1, seen, memo: "rent nov", amount: 1_250_000 }
}

/// A request telegram of the built-in layout.
pub fn telegram(guid: &str, amount: u64, memo: &str) -> Vec<u8> {
    let (memo, _, _) = encoding_rs::EUC_KR.encode(memo);
    let mut memo = memo.into_owned();
    memo.resize(20, b' ');
    let mut bytes = format!(
        "{:08}01{guid:<30}01TRF00100S1MOB20261129140307123{:17}030{:4}{:3}{:29}{:<16}{:<16}{amount:013}",
        200, "", "", "", "", "1002345678901234", "3529876543210987"
    )
    .into_bytes();
    bytes.extend(memo);
    bytes.extend([b' '; 15]);
    bytes
}

/// A ledger file.
pub struct File {
    _dir: Option<tempfile::TempDir>,
    pub path: PathBuf,
}

impl File {
    pub fn new() -> File {
        let dir = tempfile::tempdir().unwrap();
        let file = File::at(&dir.path().join("ledger.db"));
        File { _dir: Some(dir), ..file }
    }

    /// In a directory that somebody else takes care of.
    pub fn at(path: &Path) -> File {
        let con = Connection::open(path).unwrap();
        con.pragma_update(None, "journal_mode", "WAL").unwrap();
        con.execute_batch(include_str!("../../../schema.sql")).unwrap();
        File { _dir: None, path: path.to_owned() }
    }

    pub fn con(&self) -> Connection {
        let con = Connection::open(&self.path).unwrap();
        con.busy_timeout(Duration::from_secs(5)).unwrap();
        con
    }

    pub fn put(&self, rows: &[Put<'_>]) {
        self.put_at(noon(), rows);
    }

    pub fn put_at(&self, now: DateTime<Utc>, rows: &[Put<'_>]) {
        let mut con = self.con();
        let tx = con.transaction().unwrap();
        for row in rows {
            let at = (now - TimeDelta::seconds(row.age_s)).format("%Y-%m-%d %H:%M:%S").to_string();
            let code = match row.state {
                "UNKNOWN" => Some("E901"),
                "FAILED" => Some("E902"),
                "DONE" => Some("0000"),
                _ => None,
            };
            let request = telegram(row.guid, row.amount, row.memo);
            let response = code.map(|_| request[..128].to_vec());
            tx.execute(
                "INSERT INTO tx (guid, tx_code, state, rsp_code, request, response, attempts, updated_at)
                 VALUES (?1, 'TRF00100', ?2, ?3, ?4, ?5, ?6, ?7)",
                params![row.guid, row.state, code, request, response, row.attempts, at],
            )
            .unwrap();
            if let Some(seen) = row.seen {
                tx.execute(
                    "INSERT INTO history (at, guid, from_state, to_state, attempt, cause, who, seen)
                     VALUES (?1, ?2, 'SENT', ?3, ?4, 'relay', 'relay', ?5)",
                    params![at, row.guid, row.state, row.attempts, seen],
                )
                .unwrap();
            }
        }
        tx.commit().unwrap();
    }

    pub fn state(&self, guid: &str) -> Option<String> {
        self.con().query_row("SELECT state FROM tx WHERE guid = ?1", [guid], |row| row.get(0)).ok()
    }

    /// `cause from to who reason` of each line, oldest first.
    pub fn history(&self, guid: &str) -> Vec<String> {
        let con = self.con();
        let mut statement = con
            .prepare(
                "SELECT cause || ' ' || ifnull(from_state, '-') || ' ' || ifnull(to_state, '-') || ' ' || who
                        || ' ' || ifnull(reason, '-')
                   FROM history WHERE guid = ?1 ORDER BY id",
            )
            .unwrap();
        statement.query_map([guid], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

/// How a rig is opened.
#[derive(Clone)]
pub struct Options {
    pub size: (u16, u16),
    pub read_only: bool,
    pub core: bool,
    pub days: Option<u32>,
    pub look: Look,
}

impl Default for Options {
    fn default() -> Options {
        let look =
            Look { lang: Lang::En, theme: Theme::Dark, ascii: false, local: false, mouse: false };
        Options { size: (120, 36), read_only: false, core: true, days: Some(30), look }
    }
}

/// A console under test.
pub struct Rig {
    pub app: App,
    pub desk: Desk,
    pub core: Arc<CountingCore>,
    pub clock: Arc<StillClock>,
    pub copied: Vec<String>,
    pub quit: bool,
    /// Confirmed plans that were not run yet: with `hold`, they wait for [`Rig::run_held`].
    pub held: Vec<(usize, Box<Plan>, Option<String>)>,
    pub hold: bool,
    /// Every effect that changes data, by name.
    pub changes: Vec<&'static str>,
}

pub fn desk(path: &Path, clock: &Arc<StillClock>, options: &Options) -> (Desk, Arc<CountingCore>) {
    let core = Arc::new(CountingCore {
        mood: Mutex::new(Mood::Done),
        calls: Mutex::default(),
        inquiries: Mutex::default(),
    });
    let access = if options.read_only { Access::Read } else { Access::Routine };
    let as_clock: Arc<dyn Clock> = clock.clone();
    let (ledger, _) =
        SqliteLedger::open(path, access, Arc::clone(&as_clock), Hooks::default()).unwrap();
    let desk = Desk {
        ledger: Arc::new(ledger),
        core: options.core.then(|| core.clone() as Arc<dyn Core>),
        layout: Layout::std128(),
        clock: as_clock,
        locks: Some(oncegate::ledger::owner::LockFiles::beside(path)),
        settings: Settings {
            min_age: TimeDelta::seconds(60),
            attempts_max: 3,
            days: options.days,
            who: "ops@bank".to_owned(),
            read_only: options.read_only,
        },
    };
    (desk, core)
}

impl Rig {
    pub fn open(file: &File) -> Rig {
        Rig::with(file, &Options::default())
    }

    pub fn with(file: &File, options: &Options) -> Rig {
        let clock = Arc::new(StillClock::default());
        let (desk, core) = desk(&file.path, &clock, options);
        let facts = Facts {
            ledger: "ledger.db".to_owned(),
            who: "ops@bank".to_owned(),
            off: Act::ALL.map(|act| desk.off(act)),
            read_only: options.read_only,
            outbox: false,
            min_age_s: 60,
            days: options.days,
            attempts_max: 3,
            tmux: false,
            hint: None,
        };
        let app = App::new(facts, Keymap::default(), options.look, options.size, noon());
        let mut rig = Rig {
            app,
            desk,
            core,
            clock,
            copied: Vec::new(),
            quit: false,
            held: Vec::new(),
            hold: false,
            changes: Vec::new(),
        };
        let effects = rig.app.refresh();
        rig.carry_out(effects);
        rig
    }

    /// The console opened anew on the same ledger.
    pub fn fresh(&mut self) {
        let (facts, look, size) = (self.app.facts.clone(), self.app.look, self.app.size);
        self.app = App::new(facts, Keymap::default(), look, size, self.clock.now());
        self.held.clear();
        self.changes.clear();
        self.quit = false;
        let effects = self.app.refresh();
        self.carry_out(effects);
    }

    pub fn send(&mut self, msg: Msg) {
        self.app.now = self.clock.now();
        let effects = self.app.update(msg);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask(ask) => {
                    if matches!(ask, Ask::Note(..) | Ask::Reveal(_)) {
                        self.changes.push("note");
                    }
                    let msg = work::answer(&self.desk, None, &ask);
                    self.send(msg);
                }
                Effect::Run(number, plan, reason) => {
                    self.changes.push(plan.act.as_str());
                    self.held.push((number, plan, reason));
                }
                Effect::Dispatch(..) => self.changes.push("dispatch"),
                Effect::Copy(text) => self.copied.push(text),
                Effect::Quit => self.quit = true,
                Effect::Stop(_)
                | Effect::GiveUp
                | Effect::Mouse(_)
                | Effect::Redraw
                | Effect::Suspend => {}
            }
        }
        if !self.hold {
            self.run_held();
        }
    }

    /// Runs what was confirmed.
    pub fn run_held(&mut self) {
        for (number, plan, reason) in std::mem::take(&mut self.held) {
            let mut rows = Vec::new();
            let serial = u32::try_from(number).unwrap();
            let ran =
                self.desk.run(&plan, reason, serial, &Stop::default(), &mut |row| rows.push(row));
            for row in rows {
                self.send(Msg::Run(number, RunNews::Row(row)));
            }
            self.send(Msg::Run(number, RunNews::Ended(ran.err().map(Into::into))));
        }
    }

    /// Bytes as a keyboard sends them, after whatever is open was drawn.
    pub fn press(&mut self, bytes: &str) {
        self.drawn();
        self.press_early(bytes);
    }

    /// The same, but nothing was drawn meanwhile.
    pub fn press_early(&mut self, bytes: &str) {
        let mut decoder = Decoder::default();
        let mut inputs = decoder.feed(bytes.as_bytes());
        inputs.extend(decoder.end_of_silence());
        for input in inputs {
            let at = self.clock.monotonic();
            self.send(Msg::Input(input, at));
        }
    }

    /// As `press`, key by key, each after a drawing.
    pub fn keys(&mut self, keys: &[&str]) {
        for key in keys {
            self.press(key);
        }
    }

    pub fn input(&mut self, input: Input) {
        self.drawn();
        let at = self.clock.monotonic();
        self.send(Msg::Input(input, at));
    }

    /// What the loop says after it has drawn.
    pub fn drawn(&mut self) {
        if matches!(self.app.mode, Mode::Confirming(_)) {
            let at = self.clock.monotonic();
            self.send(Msg::Drawn(at));
        }
    }

    pub fn buffer(&self) -> Buffer {
        let (columns, lines) = self.app.size;
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, lines));
        view::draw(&self.app, &mut buffer);
        buffer
    }

    /// The screen as text.
    pub fn screen(&self) -> String {
        text(&self.buffer())
    }

    pub fn cursor(&self) -> String {
        self.app.list.cursor.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// Confirms the open plan as a person does.
    pub fn confirm(&mut self, reason: &str) {
        let Mode::Confirming(confirm) = &self.app.mode else { panic!("no plan is open") };
        let count = confirm.rows().to_string();
        self.keys(&["\t", reason, "\t", &count, "\t", "\r"]);
    }
}

/// A buffer as text, a line each; the second cell of a wide character is not written.
pub fn text(buffer: &Buffer) -> String {
    let area = *buffer.area();
    let mut out = String::new();
    for y in area.top()..area.bottom() {
        let (mut line, mut x) = (String::new(), area.left());
        while x < area.right() {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(oncegate::console::text::width(symbol).max(1)).unwrap();
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
