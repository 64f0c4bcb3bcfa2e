//! The real binary in a terminal of its own. The terminal answers nothing, as a broken or slow one.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::Utc;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::rig::{File, put};
use crate::support::crooked_core::CrookedCore;
use crate::support::wait::wait_until;

/// A console running in a pseudo-terminal.
struct Pty {
    child: Box<dyn Child + Send + Sync>,
    master: Option<Box<dyn MasterPty + Send>>,
    writer: Option<Box<dyn Write + Send>>,
    sent: Arc<Mutex<Vec<u8>>>,
    /// The reader lets go of the terminal at the next byte.
    closing: Arc<AtomicBool>,
}

impl Pty {
    fn open(path: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Pty {
        let size = PtySize { rows: 36, cols: 120, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_oncegate"));
        command.args(["--db", path.to_str().unwrap()]);
        command.args(arguments);
        command.env("LC_ALL", "C.UTF-8");
        command.env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR");
        command.env_remove("TMUX");
        command.cwd(path.parent().unwrap());
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let writer = pair.master.take_writer().unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&sent);
        let closing = Arc::new(AtomicBool::new(false));
        let is_closing = Arc::clone(&closing);
        std::thread::spawn(move || {
            let mut bytes = [0; 8_192];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                to.lock().unwrap().extend_from_slice(&bytes[..count]);
                if is_closing.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        Pty { child, master: Some(pair.master), writer: Some(writer), sent, closing }
    }

    fn bytes(&self) -> Vec<u8> {
        self.sent.lock().unwrap().clone()
    }

    fn parser(&self) -> vt100::Parser {
        let mut parser = vt100::Parser::new(36, 120, 0);
        parser.process(&self.bytes());
        parser
    }

    fn screen(&self) -> String {
        self.parser().screen().contents()
    }

    fn shows(&self, text: &str) {
        let end = Instant::now() + Duration::from_mins(1);
        while !self.screen().contains(text) {
            assert!(Instant::now() < end, "{text:?} never came:\n{}", self.screen());
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn press(&mut self, bytes: &str) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(bytes.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.process_id().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn code(&mut self) -> u32 {
        let mut code = None;
        wait_until("the console ends", || {
            code = self.child.try_wait().unwrap().map(|status| status.exit_code());
            code.is_some()
        });
        code.unwrap()
    }

    /// The screen is left, the cursor is shown, pastes and mouse are off; in this order, and nothing asked the terminal.
    fn is_restored(&self) {
        wait_until("the terminal is left", || text(&self.bytes()).contains("\x1b[?1049l"));
        let bytes = text(&self.bytes());
        let end = bytes.rfind("\x1b[?1049l").unwrap();
        assert!(bytes[end..].contains("\x1b[?25h"), "the cursor is shown");
        assert!(bytes.rfind("\x1b[?2004l").unwrap() < end, "pastes are off");
        assert!(!bytes.contains("\x1b[6n"), "the terminal was asked for its cursor");
        for (on, off) in [("\x1b[?1000h", "\x1b[?1000l"), ("\x1b[?1006h", "\x1b[?1006l")] {
            assert_eq!(bytes.matches(on).count(), bytes.matches(off).count(), "the mouse");
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn file() -> File {
    let file = File::new();
    file.put_at(
        Utc::now(),
        &[
            put("20261129MOB0000000000000004711", "UNKNOWN", 8_000),
            put("20261129MOB0000000000000004712", "FAILED", 3_000),
            put("20261129MOB0000000000000004713", "FAILED", 2_000),
            put("20261129MOB0000000000000004714", "FAILED", 1_000),
        ],
    );
    file
}

#[test]
fn two_marked_rows_are_sent_again_and_a_third_is_not() {
    let (file, core) = (file(), CrookedCore::start(Duration::from_millis(10)));
    let mut pty = Pty::open(&file.path, &["--core", &core.url()], &[]);
    pty.shows("4711");
    pty.press("/state:failed\r");
    pty.shows("1-3 of 3");
    pty.press("  ");
    pty.shows("marked 2");
    pty.press("P");
    pty.shows("( Send 2 transfers again )");
    pty.press("\tticket 8812\t2");
    pty.shows("armed");
    pty.press("\t\r");
    pty.shows("run 1 ended: 2 done, 0 left, 0 skipped, 0 failed of 2");
    pty.press("f7");
    pty.shows("D + DONE");
    for guid in ["20261129MOB0000000000000004712", "20261129MOB0000000000000004713"] {
        assert_eq!((file.state(guid).as_deref(), core.calls(guid)), (Some("DONE"), 1));
        assert!(file.history(guid).last().unwrap().contains("reprocess SENT DONE"));
        assert!(file.history(guid).last().unwrap().ends_with("ticket 8812"));
    }
    assert_eq!(core.calls("20261129MOB0000000000000004714"), 0);
    pty.press("q");
    assert_eq!(pty.code(), 0);
    pty.is_restored();
    let owners = std::fs::read_dir(file.path.parent().unwrap()).unwrap();
    let left =
        owners.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().contains(".owner."));
    assert_eq!(left.count(), 0, "the owner's lock is gone");
}

#[test]
fn an_unknown_row_is_resolved_and_never_sent() {
    let (file, core) = (file(), CrookedCore::start(Duration::from_millis(10)));
    let guid = "20261129MOB0000000000000004711";
    let mut pty = Pty::open(&file.path, &["--core", &core.url()], &[]);
    pty.shows("U ? UNKNOWN");
    pty.press("P");
    pty.shows("nothing to do");
    pty.press("\x1b");
    pty.shows("cancelled");
    pty.press("R");
    pty.shows("( Ask the core about 1 transfer )");
    pty.press("\t\t1\t\r");
    pty.shows("run 1 ended");
    assert_eq!(file.state(guid).as_deref(), Some("FAILED"), "the core does not have it");
    assert_eq!(core.calls(guid), 0);
    pty.press("\x03\x03");
    assert_eq!(pty.code(), 0);
    pty.is_restored();
}

#[test]
fn read_only_refuses_and_says_so() {
    let (file, core) = (file(), CrookedCore::start(Duration::from_millis(10)));
    let mut pty = Pty::open(&file.path, &["--core", &core.url(), "--read-only"], &[]);
    pty.shows("READ-ONLY");
    pty.press("RPXa");
    pty.shows("off: the ledger was opened read-only");
    pty.press("q");
    assert_eq!(pty.code(), 0);
    pty.is_restored();
}

// T36, tui-rs#177: panic text lost; `?` skipped restore; cursor stayed hidden.
#[test]
fn every_signal_leaves_the_terminal_as_it_was() {
    use rustix::process::Signal;
    let file = file();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut pty = Pty::open(&file.path, &[], &[]);
        pty.shows("4711");
        pty.signal(signal);
        assert_eq!(pty.code(), code);
        pty.is_restored();
        assert!(text(&pty.bytes()).contains("the console was ended by"), "a readable line");
    }
}

// T40, bottom#1230: core dump when the terminal was closed; and crossterm's poll alone spins.
#[test]
fn a_terminal_that_goes_away_ends_the_process_within_seconds() {
    let file = file();
    let mut pty = Pty::open(&file.path, &[], &[]);
    pty.shows("4711");
    (pty.writer, pty.master) = (None, None);
    // The clock is drawn every second: that is when the last handle goes.
    pty.closing.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    assert_ne!(pty.code(), 0);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn an_error_at_the_start_is_a_line_and_no_screen() {
    let dir = tempfile::tempdir().unwrap();
    let mut pty = Pty::open(&dir.path().join("none.db"), &[], &[]);
    assert_eq!(pty.code(), 1);
    wait_until("the line comes", || text(&pty.bytes()).contains("no ledger at"));
    assert!(!text(&pty.bytes()).contains("\x1b[?1049h"));
}

// T15 and T16: pasted text ran as commands; a paste without an end froze the keyboard.
#[test]
fn a_paste_does_nothing_and_one_without_an_end_freezes_nothing() {
    let (file, core) = (file(), CrookedCore::start(Duration::from_millis(10)));
    let mut pty = Pty::open(&file.path, &["--core", &core.url()], &[]);
    pty.shows("4711");
    pty.press("\x1b[200~RPX\n4\nq\x1b[201~");
    pty.shows("pasted text is ignored here");
    pty.press("\x1b[200~P");
    std::thread::park_timeout(Duration::from_millis(600));
    pty.press("?");
    pty.shows("type to search");
    pty.press("\x1b");
    assert_eq!(file.state("20261129MOB0000000000000004712").as_deref(), Some("FAILED"));
}

// T45, crossterm PR#1069: selection invisible with NO_COLOR.
#[test]
fn without_colour_the_cursor_is_reversed_and_no_colour_is_sent() {
    let file = file();
    let mut pty = Pty::open(&file.path, &[], &[("NO_COLOR", "1")]);
    pty.shows("> U ? UNKNOWN".replace("> U", ">  U").as_str());
    let parser = pty.parser();
    let screen = parser.screen();
    let row =
        (0..36).find(|row| screen.cell(*row, 1).is_some_and(|c| c.contents() == ">")).unwrap();
    for column in 1..60 {
        let cell = screen.cell(row, column).unwrap();
        assert!(cell.inverse(), "column {column}");
        assert_eq!(
            (cell.fgcolor(), cell.bgcolor()),
            (vt100::Color::Default, vt100::Color::Default)
        );
    }
    pty.press("q");
    pty.code();
    for sgr in text(&pty.bytes()).split("\x1b[").skip(1).filter_map(|s| s.split_once('m')) {
        let colour = |n: &str| {
            n.parse::<u8>()
                .is_ok_and(|n| (30..=38).contains(&n) || (40..=48).contains(&n) || n >= 90)
        };
        let is_sgr = sgr.0.bytes().all(|byte| byte.is_ascii_digit() || byte == b';');
        assert!(!is_sgr || !sgr.0.split(';').any(colour), "{}", sgr.0);
    }
}

// T48, k9s#3209: copy over ssh went nowhere. T41: mouse reports fill the shell.
#[test]
fn a_copy_is_osc_52_and_the_mouse_is_never_switched_on_by_itself() {
    let file = file();
    let mut pty = Pty::open(&file.path, &[], &[]);
    pty.shows("4711");
    pty.press("yg");
    pty.shows("the terminal does not confirm it");
    let sent = text(&pty.bytes());
    let copy = sent.split("\x1b]52;c;").nth(1).and_then(|rest| rest.split("\x1b\\").next());
    assert_eq!(copy, Some("MjAyNjExMjlNT0IwMDAwMDAwMDAwMDAwMDA0NzEx"));
    assert!(!sent.contains("\x1b[?100"));
    pty.press("m");
    pty.shows("mouse on");
    pty.press("q");
    pty.code();
    pty.is_restored();
}

// T58, cursive#13: box characters are garbage without UTF-8.
#[test]
fn without_a_utf_8_locale_only_plain_bytes_are_sent() {
    let file = file();
    let mut pty = Pty::open(&file.path, &["--lang", "ko"], &[("LC_ALL", "C")]);
    pty.shows("+- Rows ");
    pty.press("1");
    pty.shows("+- States ");
    pty.press("q");
    pty.code();
    let plain = |byte: &u8| matches!(byte, 0x20..=0x7e | 0x1b | b'\r' | b'\n');
    assert!(pty.bytes().iter().all(plain));
}

// T60, ratatui#1338: CPU and bytes while idle.
#[test]
fn idle_it_draws_at_most_once_a_second() {
    let file = file();
    let pty = Pty::open(&file.path, &[], &[]);
    pty.shows("what you can do".replace('w', "W").as_str());
    std::thread::park_timeout(Duration::from_secs(2));
    let (before, begun) = (pty.bytes().len(), Instant::now());
    std::thread::park_timeout(Duration::from_secs(6));
    let drawn = pty.bytes()[before..].to_vec();
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap() + 2;
    // Each drawing ends with one reset of all attributes.
    let drawings = text(&drawn).matches("\x1b[39m\x1b[49m\x1b[0m").count();
    assert!(drawings <= seconds, "{drawings} drawings in {seconds} s");
    assert!(drawn.len() < 1_000 * seconds, "{} bytes", drawn.len());
}

// crossterm#396: stdin is a pipe.
#[test]
fn without_a_terminal_it_names_the_list_and_exits_2() {
    let file = file();
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_oncegate"))
        .args(["--db", file.path.to_str().unwrap()])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("oncegate list") && out.stdout.is_empty());
}

// T44, yazi#3008: SIGTSTP is discarded for an orphaned group.
#[test]
fn with_no_shell_to_return_to_control_z_says_so() {
    let file = file();
    let mut pty = Pty::open(&file.path, &[], &[]);
    pty.shows("4711");
    pty.press("\x1a");
    pty.shows("not suspended");
    pty.press("q");
    assert_eq!(pty.code(), 0);
}

// The ledger goes away and comes back: the old rows stay, and it recovers by itself.
#[test]
fn a_ledger_that_is_moved_away_is_said_and_found_again() {
    let file = file();
    let away = file.path.with_extension("away");
    let mut pty = Pty::open(&file.path, &[], &[]);
    pty.shows("4711");
    std::fs::rename(&file.path, &away).unwrap();
    pty.shows("moved, deleted or replaced");
    assert!(pty.screen().contains("4711"), "the old rows stay");
    std::fs::rename(&away, &file.path).unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while pty.screen().contains("moved, deleted") {
        assert!(Instant::now() < end, "{}", pty.screen());
        std::thread::park_timeout(Duration::from_millis(50));
    }
    pty.press("q");
    assert_eq!(pty.code(), 0);
}
