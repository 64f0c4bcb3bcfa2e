//! The screens themselves: snapshots, every size, every byte.

use std::fmt::Write;

use oncegate::console::app::Look;
use oncegate::console::app::Msg;
use oncegate::console::text::width;
use oncegate::console::theme::Theme;
use oncegate::console::words::Lang;
use oncegate::visible::is_hidden;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

use super::rig::{File, Options, Put, Rig, put};

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
const SCREENS: [(&str, &[&str]); 13] = [
    ("overview", &["1"]),
    ("list", &["j", " "]),
    ("detail", &["\r"]),
    ("request", &["\r", "\t", "j", "j"]),
    ("runs_empty", &["3"]),
    ("runs", &["P", "3"]),
    ("outbox", &["4"]),
    ("history", &["5"]),
    ("plan", &["*", "P"]),
    ("plan_nothing", &["P"]),
    ("help", &["?"]),
    ("menu", &["f"]),
    ("empty", &["/guid:none\r"]),
];

fn at(file: &File, options: &Options, way: &[&str], runs: bool) -> Rig {
    let mut rig = Rig::with(file, options);
    rig.hold = true;
    if runs {
        rig.press("/state:failed\r");
        rig.keys(&["*", "P"]);
        rig.confirm("ticket 8812");
        rig.press("3");
        return rig;
    }
    rig.keys(way);
    rig
}

#[test]
fn every_screen_looks_as_it_did() {
    let file = file();
    for (columns, lines) in SIZES {
        let mut out = String::new();
        for (name, way) in SCREENS {
            let options = Options { size: (columns, lines), ..Options::default() };
            let rig = at(&file, &options, way, name == "runs");
            let _ = writeln!(out, "=== {name}\n{}", rig.screen());
        }
        insta::assert_snapshot!(format!("screens_{columns}x{lines}"), out);
    }
}

#[test]
fn every_language_and_the_plain_characters_look_as_they_did() {
    let file = file();
    for lang in [Lang::Ko, Lang::Ja, Lang::En] {
        let ascii = lang == Lang::En;
        let mut out = String::new();
        for (name, way) in SCREENS {
            let look = Look { lang, ascii, ..Options::default().look };
            let options = Options { size: (80, 24), look, ..Options::default() };
            let rig = at(&file, &options, way, name == "runs");
            let _ = writeln!(out, "=== {name}\n{}", rig.screen());
        }
        let name = if ascii { "ascii" } else { lang.name() };
        insta::assert_snapshot!(format!("screens_{name}"), out);
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

// T57, ratatui#1379: small sizes panic. Each screen takes every seventh width, together they take all of them.
#[test]
fn no_size_panics_on_any_screen() {
    let file = file();
    let mut rig = Rig::open(&file);
    rig.hold = true;
    for (at, (name, way)) in SCREENS.into_iter().enumerate() {
        rig.fresh();
        if name == "runs" {
            rig.press("/state:failed\r");
            rig.keys(&["*", "P"]);
            rig.confirm("ticket 8812");
        } else {
            rig.keys(way);
        }
        for columns in (1 + at % 7..=130).step_by(7) {
            for lines in 1..=40 {
                rig.send(Msg::Resized(u16::try_from(columns).unwrap(), lines));
                rig.buffer();
            }
        }
        rig.send(Msg::Resized(120, 36));
    }
    rig.send(Msg::Resized(59, 14));
    assert!(rig.screen().contains("needs 60x15, is 59x14"));
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
