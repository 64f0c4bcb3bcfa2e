//! The real binary in a terminal of its own.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use chrono::Utc;

use oncegate::console::input::{Code, Key};
use oncegate::console::keys::{Action, TABLE, sequence};

use super::rig::{File, Put, put};
use super::terminal::{Pty, text};
use crate::support::alone::skipped;
use crate::support::crooked_core::CrookedCore;
use crate::support::wait::wait_until;

/// Four rows that are stuck.
pub fn file() -> File {
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
    pty.confirm("( Send 2 transfers again )", "ticket 8812", 2);
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

// T04: two consoles and the command line on one row at once.
#[test]
fn of_two_consoles_and_the_command_line_on_one_row_exactly_one_calls_the_core() {
    // Slow enough that all of them come while the first one waits for its answer.
    let core = CrookedCore::start(Duration::from_millis(400));
    for round in 0..3 {
        let file = File::new();
        let guid = format!("20261129MOB{round:019}");
        let memo = Put { memo: "SLOW", ..put(&guid, "FAILED", 3_000) };
        file.put_at(Utc::now(), &[memo]);
        let mut consoles = [(); 2].map(|()| Pty::open(&file.path, &["--core", &core.url()], &[]));
        for pty in &mut consoles {
            pty.shows("1-1 of 1");
            pty.press("P");
            pty.armed("( Send 1 transfer again )", "", 1);
        }
        let db = file.path.to_str().unwrap();
        let line = std::process::Command::new(env!("CARGO_BIN_EXE_oncegate"))
            .args(["reprocess", "--db", db, "--core", &core.url()])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        for pty in &mut consoles {
            pty.press("\t\r");
        }
        let line = line.wait_with_output().unwrap();
        let mut sent = usize::from(text(&line.stdout).contains("done 1"));
        for pty in &mut consoles {
            pty.shows("run 1 ended");
            let (sent_it, left_it) = ("1 done, 0 left, 0 skipped", "0 done, 0 left, 1 skipped");
            assert!(pty.screen().contains(sent_it) || pty.screen().contains(left_it));
            sent += usize::from(pty.screen().contains(sent_it));
        }
        assert_eq!((core.calls(&guid), core.effects(&guid), sent), (1, 1, 1), "round {round}");
        assert_eq!(file.state(&guid).as_deref(), Some("DONE"));
        let claims = file.history(&guid);
        let claims = claims.iter().filter(|line| line.contains("reprocess FAILED SENT"));
        assert_eq!(claims.count(), 1, "round {round}");
        for pty in &mut consoles {
            pty.press("q");
            assert_eq!(pty.code(), 0);
        }
    }
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
    pty.confirm("( Ask the core about 1 transfer )", "", 1);
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

// T38, ratatui#2483: `clear()` asks for the cursor and times out. Whatever a key makes it draw, it asks nothing.
#[test]
fn no_key_of_the_table_makes_it_ask_the_terminal_anything() {
    let file = file();
    let mut pty = Pty::open(&file.path, &["--days", "30"], &[]);
    pty.shows("4711");
    for binding in TABLE {
        for keys in binding.keys.split("  ").filter_map(sequence) {
            if matches!(binding.action, Action::Quit | Action::Interrupt | Action::Export) {
                continue;
            }
            for key in keys {
                pty.press(&sent_for(key));
            }
            pty.press("\x1b");
            // Alone, so that it is no Alt of the next key.
            std::thread::park_timeout(Duration::from_millis(80));
        }
    }
    pty.resize(80, 24);
    pty.press("\x0c");
    pty.resize(120, 36);
    pty.press("2q");
    assert_eq!(pty.code(), 0);
    let sent = text(&pty.bytes());
    // Cursor, attributes, status, size, colours, version: every question that terminals answer on the keyboard's way.
    for question in
        ["\x1b[6n", "\x1b[5n", "\x1b[c", "\x1b[>c", "\x1b[18t", "\x1b]10;?", "\x1b]11;?", "\x1b[>q"]
    {
        assert!(!sent.contains(question), "{question:?}");
    }
}

/// What a keyboard sends for a key.
fn sent_for(key: Key) -> String {
    match key.code {
        Code::Char(c) if key.control => char::from(u8::try_from(c).unwrap() & 0x1f).to_string(),
        Code::Char(c) => c.to_string(),
        Code::Enter => "\r".to_owned(),
        Code::Tab => "\t".to_owned(),
        Code::BackTab => "\x1b[Z".to_owned(),
        Code::Esc => "\x1b".to_owned(),
        Code::Backspace => "\x7f".to_owned(),
        Code::Delete => "\x1b[3~".to_owned(),
        Code::Up => "\x1b[A".to_owned(),
        Code::Down => "\x1b[B".to_owned(),
        Code::Right => "\x1b[C".to_owned(),
        Code::Left => "\x1b[D".to_owned(),
        Code::PageUp => "\x1b[5~".to_owned(),
        Code::PageDown => "\x1b[6~".to_owned(),
        Code::Home => "\x1b[H".to_owned(),
        Code::End => "\x1b[F".to_owned(),
        Code::Other => String::new(),
    }
}

// T55, vifm#1078: wide characters leave residue when the list is scrolled.
#[test]
fn after_two_hundred_rows_of_wide_characters_the_screen_is_what_a_fresh_drawing_is() {
    let file = File::new();
    let seen =
        ["시간 초과 3.0초 경과", "読取りタイムアウト", "😀 emoji", "e\u{301}\u{301}n", "plain"];
    let guids: Vec<String> = (0..300)
        .map(|at| if at % 3 == 0 { format!("한글키{at:04}") } else { format!("KEY漢字{at:03}") })
        .collect();
    let rows: Vec<Put<'_>> = guids
        .iter()
        .zip(seen.iter().cycle())
        .zip(0..)
        .map(|((guid, seen), at)| Put {
            seen: Some(seen),
            ..put(guid, "UNKNOWN", 90 * 86_400 - at)
        })
        .collect();
    file.put_at(Utc::now(), &rows);
    let mut pty = Pty::open(&file.path, &[], &[]);
    pty.shows("of 300");
    for _ in 0..200 {
        pty.press("j");
    }
    pty.shows("174-201 of 300");
    pty.press("\x1b[5~\x1b[6~");
    // All but the first line, where the clock goes on.
    let body = |pty: &Pty| pty.screen().lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let is_settled = |pty: &Pty| pty.screen().contains("── History ──");
    wait_until("the row beside it", || is_settled(&pty));
    let mut scrolled = body(&pty);
    wait_until("it is still", || {
        std::thread::park_timeout(Duration::from_millis(200));
        let before = std::mem::replace(&mut scrolled, body(&pty));
        before == scrolled
    });
    let drawn = pty.bytes().len();
    pty.press("\x0c");
    wait_until("it is drawn anew", || pty.bytes().len() > drawn + 3_000);
    std::thread::park_timeout(Duration::from_millis(200));
    // A terminal that has seen nothing but that drawing.
    let mut fresh = vt100::Parser::new(36, 120, 0);
    fresh.process(&pty.bytes()[drawn..]);
    let fresh: Vec<String> = fresh.screen().contents().lines().skip(1).map(str::to_owned).collect();
    assert_eq!(scrolled, fresh);
    assert_eq!(scrolled, body(&pty));
    pty.press("q");
    assert_eq!(pty.code(), 0);
}

// T50, tmux#4214: tmux drops OSC 52 by default.
#[test]
fn in_tmux_it_says_what_has_to_be_set_for_a_copy() {
    let file = file();
    let Some(tmux) = Tmux::open(&file) else {
        return skipped("console::pty::in_tmux_it_says…", "there is no tmux");
    };
    tmux.shows("4711");
    tmux.keys(&["y", "g"]);
    tmux.shows("tmux wants: set -g set-clipboard on");
    // Borders and wide characters survive tmux, too.
    tmux.keys(&[":lang ko", "Enter"]);
    tmux.shows("┌─ 거래 목록 ─");
    let widths: Vec<usize> = tmux
        .screen()
        .lines()
        .filter(|line| line.starts_with('│'))
        .map(|line| oncegate::console::text::width(line.trim_end()))
        .collect();
    assert!(widths.len() > 20 && widths.iter().all(|width| *width == 120), "{widths:?}");
    tmux.keys(&["q"]);
    tmux.is_gone();
}

/// A console in a tmux server of its own, as tmux is installed: no configuration.
struct Tmux {
    socket: String,
}

impl Tmux {
    fn open(file: &File) -> Option<Tmux> {
        let tmux = Tmux { socket: file.path.with_extension("tmux").to_str()?.to_owned() };
        let command = format!(
            "LC_ALL=C.UTF-8 {} --db {}",
            env!("CARGO_BIN_EXE_oncegate"),
            file.path.display()
        );
        let began = ["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "37", &command];
        tmux.run(&began)?;
        Some(tmux)
    }

    fn run(&self, arguments: &[&str]) -> Option<String> {
        let mut command = std::process::Command::new("tmux");
        command.args(["-u", "-S", &self.socket]).args(arguments).env_remove("TMUX");
        let output = command.env("LC_ALL", "C.UTF-8").output().ok()?;
        output.status.success().then(|| text(&output.stdout))
    }

    fn keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat()).unwrap();
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"]).unwrap_or_default()
    }

    fn shows(&self, what: &str) {
        wait_until(what, || self.screen().contains(what));
    }

    fn is_gone(&self) {
        wait_until("tmux ends with it", || self.run(&["has-session"]).is_none());
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
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
    pty.lets_go_of("moved, deleted");
    pty.press("q");
    assert_eq!(pty.code(), 0);
}
