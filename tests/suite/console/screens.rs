//! The screens themselves: snapshots, every size, every byte.

use std::collections::BTreeMap;
use std::fmt::Write;

use oncegate::console::app::{Answer, Look, Msg, RunNews, Tab};
use oncegate::console::outbox::{Outbox, Pending};
use oncegate::console::text::width;
use oncegate::console::theme::Theme;
use oncegate::console::words::Lang;
use oncegate::engine::Reason;
use oncegate::engine::desk::{Became, Line, Lines, RowTold};
use oncegate::guid::Guid;
use oncegate::ledger::{Counts, LedgerError};
use oncegate::state::State;
use oncegate::visible::is_hidden;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

use super::rig::{File, Options, Put, Rig, put, text};

/// Transfers as they come at a bank with customers in three countries.
fn file() -> File {
    let file = File::new();
    let row = |guid, state, age_s, amount, memo| Put { memo, amount, ..put(guid, state, age_s) };
    file.put(&[
        row("20261129MOB0000000000000004711", "UNKNOWN", 8_040, 1_250_000, "월세 11월분"),
        row("20261129MOB0000000000000004712", "UNKNOWN", 7_500, 18_400, "rent nov"),
        row("20261129ATM0000000000000000391", "FAILED", 6_000, 75_000_000, "家賃"),
        row("20261129MOB0000000000000004733", "FAILED", 3_720, 990, "e\u{301}te\u{301}"),
        row("20261129WEB0000000000000000017", "SENT", 600, 44, "order 4711"),
        row("20261129WEB0000000000000000018", "RECEIVED", 20, 12, "x"),
        row("20261001WEB0000000000000000001", "DONE", 50 * 86_400, 500, "x"),
    ]);
    file
}

const SIZES: [(u16, u16); 3] = [(120, 36), (80, 24), (60, 15)];

/// Ways to every screen and dialog.
const SCREENS: [(&str, &[&str]); 21] = [
    ("overview", &["1"]),
    ("overview_reasons", &["1", "\t", "j"]),
    ("list", &["j", " "]),
    ("list_by_guid", &["s", "S"]),
    ("detail", &["\r"]),
    ("request", &["\r", "\t", "j", "j"]),
    ("response", &["\r", "\t", "\t", "b"]),
    ("detail_gone", &[":goto 20261129WEB0000000000000000099\r"]),
    ("runs_empty", &["3"]),
    ("outbox", &["4"]),
    ("history", &["5"]),
    ("plan", &["*", "P"]),
    ("plan_purge", &["/state:done\r", "X"]),
    ("plan_nothing", &["P"]),
    ("help", &["?"]),
    ("menu_states", &["f"]),
    ("menu_ages", &["f", "\t"]),
    ("menu_export", &["e"]),
    ("filter_typed", &["/colour:red\r"]),
    ("empty", &["/guid:none\r"]),
    ("interrupted", &["\x03"]),
];

/// Screens that take more than keys.
const SPECIAL: [&str; 10] = [
    "runs_going",
    "runs_ended",
    "outbox_waiting",
    "trouble",
    "broken",
    "read_only",
    "nothing_at_all",
    "nothing_at_all_overview",
    "a_million",
    "a_million_overview",
];

fn at(file: &File, options: &Options, way: &[&str]) -> Rig {
    let mut rig = Rig::with(file, options);
    rig.hold = true;
    rig.keys(way);
    rig
}

/// Every screen, one after the other, as `told` tells it.
fn each(file: &File, options: &Options, told: fn(&Buffer) -> String) -> String {
    let mut out = String::new();
    let mut rig = at(file, options, &[]);
    for (name, way) in SCREENS {
        rig.fresh();
        rig.keys(way);
        let _ = writeln!(out, "=== {name}\n{}", told(&rig.buffer()));
    }
    for name in SPECIAL {
        let _ = writeln!(out, "=== {name}\n{}", told(&special(name, file, options).buffer()));
    }
    out
}

fn special(name: &str, file: &File, options: &Options) -> Rig {
    match name {
        "runs_going" | "runs_ended" => runs(options, name == "runs_ended"),
        "outbox_waiting" => {
            let mut rig = at(file, options, &[]);
            rig.app.facts.outbox = true;
            rig.app.tab = Tab::Outbox;
            rig.send(Msg::Answer(Answer::Outbox(Box::new(outbox()))));
            rig
        }
        "trouble" => {
            let mut rig = at(file, options, &["j"]);
            rig.clock.forward(75);
            rig.send(Msg::Trouble(LedgerError::Busy));
            rig
        }
        "broken" => {
            let mut rig = at(file, options, &[]);
            rig.send(Msg::Broken("refresh: index out of bounds".to_owned()));
            rig.press("P");
            rig
        }
        "read_only" => {
            let options = Options { read_only: true, ..options.clone() };
            at(file, &options, &["X"])
        }
        "nothing_at_all" => at(&File::new(), options, &[]),
        "nothing_at_all_overview" => at(&File::new(), options, &["1"]),
        "a_million" => million(at(file, options, &[])),
        "a_million_overview" => {
            let mut rig = million(at(file, options, &["1"]));
            rig.app.counts = Some(million_counts());
            rig
        }
        other => panic!("{other} is no screen"),
    }
}

/// A run over four rows: one was tried too often meanwhile, one has gone; the others are sent.
fn runs(options: &Options, ended: bool) -> Rig {
    let file = File::new();
    let guids = ["20261129MOB1", "20261129MOB2", "20261129MOB3", "20261129MOB4"];
    let rows: Vec<Put<'_>> = guids.iter().map(|guid| put(guid, "FAILED", 3_000)).collect();
    file.put(&rows);
    let mut rig = at(&file, options, &["*", "P"]);
    rig.confirm("ticket 8812, 담당자 확인");
    file.con().execute("UPDATE tx SET attempts = 3 WHERE guid LIKE '%1'", []).unwrap();
    file.con().execute("DELETE FROM tx WHERE guid LIKE '%2'", []).unwrap();
    rig.press("3");
    rig.clock.forward(4);
    if ended {
        rig.run_held();
    } else {
        let guid = Guid::from_ledger(guids[0].to_owned());
        let told = RowTold { guid, became: Became::Failed, reason: Reason::Unreachable };
        rig.send(Msg::Run(1, RunNews::Row(told)));
    }
    rig
}

fn outbox() -> Outbox {
    let pending = |seq| Pending { seq, id: format!("order-{seq}"), qty: 3 };
    Outbox {
        orders: 40,
        waiting: 12,
        pending: (29..=40).map(pending).collect(),
        inbox: Some((28, 84)),
        no_url: false,
    }
}

fn million_counts() -> Counts {
    let oldest = Some("2026-10-30 09:00:00".to_owned());
    let oldest = [oldest.clone(), oldest.clone(), None, oldest.clone(), oldest];
    Counts { rows: [1_000, 10_000, 469_000, 500_000, 20_000], oldest }
}

/// The console as if its ledger had a million rows, the cursor in the midst of them.
fn million(mut rig: Rig) -> Rig {
    let line = |at: u64| Line {
        guid: Guid::from_ledger(format!("20261129MOB{at:019}")),
        state: if at.is_multiple_of(26) { State::Failed } else { State::Unknown },
        tx_code: "TRF00100".to_owned(),
        code: Some("E901".to_owned()),
        attempts: 3,
        updated_at: format!("2026-11-{:02} 09:00:00", 1 + at % 26),
        amount: Some(9_999_999_999_999),
        seen: Some("read timeout after 3.0 s".to_owned()),
    };
    let before = 264_900;
    let rows = (before..before + 400).map(line).collect();
    let lines = Lines { rows, total: 530_000, before, counts: million_counts() };
    rig.app.list.asked = Some(1);
    rig.send(Msg::Answer(Answer::Lines(1, Box::new(lines))));
    rig.app.list.go(200, rig.app.page());
    if let Some((numbers, _)) = &mut rig.app.numbers {
        numbers.counts = million_counts();
        numbers.ages = [[1_000, 0, 0, 0, 0, 0], [10_000; 6], [0; 6], [83_333; 6], [3_333; 6]];
        numbers.unknown_per_minute = std::array::from_fn(|at| at as u64 * 700);
        numbers.reasons.iter_mut().for_each(|reason| reason.rows *= 250_000);
    }
    rig
}

#[test]
fn every_screen_in_every_language_and_size_looks_as_it_did() {
    let file = file();
    for lang in Lang::ALL {
        for size in SIZES {
            let look = Look { lang, ..Options::default().look };
            let options = Options { size, look, ..Options::default() };
            let (columns, lines) = size;
            let name = format!("screens_{}_{columns}x{lines}", lang.name());
            insta::assert_snapshot!(name, each(&file, &options, text));
        }
    }
}

#[test]
fn every_screen_in_plain_characters_looks_as_it_did() {
    let look = Look { ascii: true, ..Options::default().look };
    let options = Options { size: (80, 24), look, ..Options::default() };
    insta::assert_snapshot!("screens_ascii", each(&file(), &options, text));
}

/// Which texts have which style: `Cyan BOLD: Rows · STATE AGE`.
fn styles(buffer: &Buffer) -> String {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let area = *buffer.area();
    for y in area.top()..area.bottom() {
        let mut last = None;
        for x in area.left()..area.right() {
            let cell = &buffer[(x, y)];
            let style = format!("{:?}/{:?} {:?}", cell.fg, cell.bg, cell.modifier);
            let runs = texts.entry(style.clone()).or_default();
            if last.as_ref() != Some(&style) {
                runs.push(String::new());
            }
            runs.last_mut().unwrap().push_str(cell.symbol());
            last = Some(style);
        }
    }
    let mut out = String::new();
    for (style, runs) in texts {
        let words = |run: &String| run.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut runs: Vec<String> = runs.iter().map(words).filter(|run| !run.is_empty()).collect();
        runs.dedup();
        if !runs.is_empty() && !style.starts_with("Reset/Reset NONE") {
            let _ = writeln!(out, "{style}: {}", runs.join(" · "));
        }
    }
    out
}

#[test]
fn every_theme_gives_every_screen_the_styles_that_it_did() {
    let file = file();
    for theme in Theme::ALL {
        let look = Look { theme, ..Options::default().look };
        let options = Options { size: (80, 24), look, ..Options::default() };
        let name = format!("styles_{}", theme.name());
        insta::assert_snapshot!(name, each(&file, &options, styles));
    }
}

// T58, cursive#13: box characters are garbage without UTF-8.
#[test]
fn plain_characters_are_bytes_20_to_7e_only() {
    let file = file();
    let look = Look { ascii: true, ..Options::default().look };
    let mut rig = Rig::with(&file, &Options { look, ..Options::default() });
    for (_, way) in SCREENS {
        rig.fresh();
        rig.keys(way);
        assert!(rig.screen().bytes().all(|b| b == b'\n' || (0x20..=0x7e).contains(&b)));
    }
}

// T57, ratatui#1379: small sizes panic. Each screen takes every thirteenth width, together they take all of them;
// ONCEGATE_SIZES=all takes every size on every screen.
#[test]
fn no_size_panics_on_any_screen() {
    let file = file();
    let mut rig = Rig::open(&file);
    rig.hold = true;
    for (at, (_, way)) in SCREENS.into_iter().enumerate() {
        rig.fresh();
        rig.keys(way);
        sweep(&mut rig, at);
    }
    for (at, name) in SPECIAL.into_iter().enumerate() {
        sweep(&mut special(name, &file, &Options::default()), at);
    }
    rig.send(Msg::Resized(59, 14));
    assert!(rig.screen().contains("needs 60x15, is 59x14"));
}

/// Every height, and every so many widths from here on.
fn sweep(rig: &mut Rig, from: usize) {
    let step =
        if std::env::var("ONCEGATE_SIZES").is_ok_and(|sizes| sizes == "all") { 1 } else { 13 };
    for columns in (1 + from % step..=130).step_by(step) {
        for lines in 1..=40 {
            rig.send(Msg::Resized(u16::try_from(columns).unwrap(), lines));
            rig.buffer();
        }
    }
    rig.send(Msg::Resized(120, 36));
}

/// Where the vertical borders stand in each line of the list.
fn borders(rig: &Rig) -> Vec<Vec<usize>> {
    rig.screen()
        .lines()
        .skip(4)
        .take(20)
        .map(|line| line.match_indices('│').map(|(at, _)| width(&line[..at])).collect())
        .collect()
}

// T55, vifm#1078: wide characters misalign.
#[test]
fn wide_characters_keep_the_borders_straight() {
    let file = File::new();
    let seen = ["시간 초과 3.0초", "読取りタイムアウト", "😀 emoji", "e\u{301}\u{301}", "plain"];
    let guids: Vec<String> = (0..20).map(|at| format!("G{at:02}")).collect();
    let rows: Vec<Put<'_>> = guids
        .iter()
        .zip(seen.iter().cycle())
        .map(|(guid, seen)| Put {
            seen: Some(seen),
            memo: "월세 家賃",
            ..put(guid, "UNKNOWN", 900)
        })
        .collect();
    file.put(&rows);
    let mut rig = Rig::open(&file);
    for columns in 100..=130 {
        rig.send(Msg::Resized(columns, 36));
        let borders = borders(&rig);
        assert!(borders.iter().all(|line| *line == borders[0]), "{columns}: {borders:?}");
    }
    // A dialog over half a wide character leaves no half behind.
    rig.send(Msg::Resized(121, 36));
    rig.keys(&["*", "R"]);
    for line in rig.screen().lines() {
        assert!(width(line) <= 121, "{line}");
    }
}

// T47, tilt#3047: states told apart by colour only.
#[test]
fn without_colours_every_state_is_still_named() {
    let file = file();
    let look = Look { theme: Theme::Mono, ..Options::default().look };
    let mut rig = Rig::with(&file, &Options { look, ..Options::default() });
    for way in ["1", "2"] {
        rig.press(way);
        for cell in &rig.buffer().content {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
    }
    rig.press("/state:received,sent,done,unknown,failed\r");
    for state in ["U ? UNKNOWN", "F ! FAILED", "S > SENT", "R · RECEIVED", "D + DONE"] {
        assert!(rig.screen().contains(state), "{state}");
    }
}

// T46, lazygit#508: unreadable on light backgrounds.
#[test]
fn no_theme_sets_a_background_or_a_colour_of_its_own() {
    let file = file();
    for (theme, bad) in [
        (
            Theme::Light,
            vec![
                Color::Yellow,
                Color::LightYellow,
                Color::White,
                Color::Gray,
                Color::LightCyan,
                Color::LightGreen,
            ],
        ),
        (Theme::Dark, vec![Color::Black, Color::Blue, Color::DarkGray]),
    ] {
        let look = Look { theme, ..Options::default().look };
        let mut rig = Rig::with(&file, &Options { look, ..Options::default() });
        for (_, way) in SCREENS {
            rig.fresh();
            rig.keys(way);
            for cell in &rig.buffer().content {
                assert_eq!(cell.bg, Color::Reset);
                assert!(
                    !bad.contains(&cell.fg)
                        && !matches!(cell.fg, Color::Rgb(..) | Color::Indexed(_))
                );
            }
        }
    }
}

/// Fails if a character that a terminal acts upon or swallows is in the buffer.
fn is_clean(buffer: &Buffer) -> bool {
    buffer.content.iter().all(|cell| {
        let symbol = cell.symbol();
        let quiet = symbol.chars().all(|c| !c.is_control() && !is_hidden(c));
        quiet && (symbol.is_empty() || width(symbol) > 0)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    // T53, winget-tui#32 and T54, gitui#188: bytes in data drove the terminal, or cutting them panicked.
    #[test]
    fn no_byte_of_any_data_reaches_the_terminal_as_what_it_is(
        request in prop::collection::vec(any::<u8>(), 0..300),
        response in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        guid in "\\PC{1,12}|[\u{0}-\u{20}\u{80}-\u{a0}\u{200b}-\u{202e}\u{2066}\u{feff}a한\u{301}😀]{1,12}",
        seen in "[\u{0}-\u{9f}\u{200d}\u{202e}\u{2069}漢é\u{301}😀]{0,40}",
    ) {
        let file = File::new();
        let con = file.con();
        con.execute(
            "INSERT INTO tx (guid, tx_code, state, rsp_code, request, response, attempts, updated_at)
             VALUES (?1, ?2, 'FAILED', ?2, ?3, ?4, 1, ?2)",
            rusqlite::params![guid, seen, request, response],
        ).unwrap();
        con.execute(
            "INSERT INTO history (at, guid, from_state, to_state, attempt, cause, who, reason, seen)
             VALUES (?2, ?1, ?2, ?2, 1, ?2, ?2, ?2, ?2)",
            rusqlite::params![guid, seen],
        ).unwrap();
        let mut rig = Rig::open(&file);
        rig.hold = true;
        for way in [&["1"][..], &["2"], &["\r"], &["\t"], &["b", "b"], &["b", "\t"], &[":reveal\r"], &["5"], &["2", "\x1b", "*", "P"]] {
            rig.keys(way);
            for columns in [60, 83, 120] {
                rig.send(Msg::Resized(columns, 30));
                prop_assert!(is_clean(&rig.buffer()), "{}", rig.screen());
            }
        }
        for text in &rig.copied {
            prop_assert!(text.chars().all(|c| c == '\n' || (!c.is_control() && !is_hidden(c))));
        }
    }
}
