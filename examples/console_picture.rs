//! Makes `assets/console.svg`: the console itself, on a ledger file that is filled for the occasion, drawn cell by cell.
//!
//! ```sh
//! cargo run --example console_picture > assets/console.svg
//! ```

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use oncegate::clock::Clock;
use oncegate::console::app::{App, Effect, Facts, Look, Msg};
use oncegate::console::input::{Code, Input, Key};
use oncegate::console::keys::Keymap;
use oncegate::console::text::width;
use oncegate::console::theme::Theme;
use oncegate::console::words::Lang;
use oncegate::console::{view, work};
use oncegate::core_api::{Core, Inquiry, Seen, Transfer};
use oncegate::engine::desk::{Act, Desk, Settings};
use oncegate::ledger::parse_ledger_time;
use oncegate::ledger::sqlite::{Access, Hooks, SqliteLedger};
use oncegate::telegram::{Layout, Request};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

const SIZE: (u16, u16) = (120, 34);
const CELL: (f32, f32) = (8.4, 18.0);
const BACKGROUND: &str = "#14171c";
const FOREGROUND: &str = "#d8dee6";

/// A moment that never passes: the picture is the same whenever it is made.
struct Moment;

impl Clock for Moment {
    fn now(&self) -> DateTime<Utc> {
        parse_ledger_time("2026-09-28 03:12:44").expect("a time of the ledger's form")
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// Nobody is called for a picture.
struct NoCore;

impl Core for NoCore {
    fn transfer(&self, _: &Request) -> Transfer {
        Transfer::NotSent(Seen("a picture sends nothing".to_owned()))
    }

    fn inquire(&self, _: &Request) -> Inquiry {
        Inquiry::NoAnswer(Seen("a picture asks nobody".to_owned()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("relay.db");
    fill(&path)?;
    let clock: Arc<dyn Clock> = Arc::new(Moment);
    let (ledger, _) =
        SqliteLedger::open(&path, Access::Read, Arc::clone(&clock), Hooks::default())?;
    let desk = Desk {
        ledger: Arc::new(ledger),
        core: Some(Arc::new(NoCore)),
        layout: Layout::std128(),
        clock,
        locks: None,
        settings: Settings {
            min_age: TimeDelta::seconds(61),
            attempts_max: 3,
            days: Some(90),
            who: "ops@relay1".to_owned(),
            read_only: false,
        },
    };
    let mut app = open(&desk);
    let effects = app.refresh();
    answer(&mut app, &desk, effects);
    for key in [' ', 'j', 'j', ' '] {
        let input = Input::Key(Key::plain(Code::Char(key)));
        let effects = app.update(Msg::Input(input, Duration::from_secs(1)));
        answer(&mut app, &desk, effects);
    }
    let mut buffer = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
    view::draw(&app, &mut buffer);
    println!("{}", svg(&buffer)?);
    Ok(())
}

fn open(desk: &Desk) -> App {
    let facts = Facts {
        ledger: "relay.db".to_owned(),
        who: desk.settings.who.clone(),
        off: Act::ALL.map(|act| desk.off(act)),
        read_only: false,
        outbox: false,
        min_age_s: 61,
        days: Some(90),
        attempts_max: 3,
        tmux: false,
        hint: None,
    };
    let look =
        Look { lang: Lang::En, theme: Theme::Dark, ascii: false, local: false, mouse: false };
    App::new(facts, Keymap::default(), look, SIZE, desk.clock.now())
}

fn answer(app: &mut App, desk: &Desk, effects: Vec<Effect>) {
    for effect in effects {
        if let Effect::Ask(ask) = effect {
            let effects = app.update(work::answer(desk, None, &ask));
            answer(app, desk, effects);
        }
    }
}

/// A night's worth of transfers.
fn fill(path: &Path) -> Result<(), Box<dyn Error>> {
    let con = rusqlite::Connection::open(path)?;
    con.execute_batch(include_str!("../schema.sql"))?;
    let timeout = "read timeout after 3.0 s";
    let refused = "connect refused 10.9.0.4:9201";
    let rows = [
        ("MOBAP001", 101, "UNKNOWN", 8_040, 1_250_000, timeout),
        ("MOBAP001", 107, "UNKNOWN", 7_860, 18_400, timeout),
        ("ATMSW002", 44, "UNKNOWN", 7_080, 300_000, "connection reset after the request"),
        ("MOBAP001", 131, "FAILED", 6_000, 75_000_000, refused),
        ("MOBAP003", 12, "FAILED", 5_940, 12_000, refused),
        ("WEBBK001", 871, "UNKNOWN", 4_920, 31_000, "HTTP 503: upstream busy"),
        ("WEBBK001", 874, "UNKNOWN", 4_900, 5_500, "HTTP 503: upstream busy"),
        ("MOBAP001", 150, "FAILED", 3_720, 44_900, refused),
        ("MOBAP002", 9, "UNKNOWN", 3_069, 2_000_000, timeout),
        ("ATMSW002", 61, "FAILED", 2_670, 60_000, refused),
        ("WEBBK002", 7, "SENT", 600, 9_900, "its owner is silent"),
    ];
    for (channel, number, state, age_s, amount, seen) in rows {
        let guid = format!("20260928{channel}{number:014}");
        put(&con, &guid, state, age_s, amount, seen)?;
    }
    for number in 0..240 {
        put(&con, &format!("20260928MOBAP009{number:014}"), "DONE", 90_000 + number, 10_000, "")?;
    }
    Ok(())
}

fn put(
    con: &rusqlite::Connection,
    guid: &str,
    state: &str,
    age_s: i64,
    amount: u64,
    seen: &str,
) -> Result<(), Box<dyn Error>> {
    let at = (Moment.now() - TimeDelta::seconds(age_s)).format("%Y-%m-%d %H:%M:%S").to_string();
    let code = match state {
        "UNKNOWN" => Some("E901"),
        "FAILED" => Some("E902"),
        "DONE" => Some("0000"),
        _ => None,
    };
    let request = format!(
        "{:08}01{guid:<30}01TRF00100S1MOB20260928011244123{:17}030{:36}{:<16}{:<16}{amount:013}{:<20}{:15}",
        200, "", "", "1002345678901234", "3529876543210987", "rent sep", ""
    );
    con.execute(
        "INSERT INTO tx (guid, tx_code, state, rsp_code, request, attempts, updated_at)
         VALUES (?1, 'TRF00100', ?2, ?3, CAST(?4 AS BLOB), 1, ?5)",
        rusqlite::params![guid, state, code, request, at],
    )?;
    if matches!(state, "UNKNOWN" | "FAILED") {
        con.execute(
            "INSERT INTO history (at, guid, from_state, to_state, attempt, cause, who, seen)
             VALUES (?1, ?2, 'SENT', ?3, 1, 'relay', 'relay', ?4)",
            rusqlite::params![at, guid, state, seen],
        )?;
    }
    Ok(())
}

fn svg(buffer: &Buffer) -> Result<String, std::fmt::Error> {
    let (columns, lines) = (f32::from(SIZE.0), f32::from(SIZE.1));
    let (w, h) = (columns * CELL.0 + 24.0, lines * CELL.1 + 24.0);
    let mut out = String::new();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w:.0} {h:.0}\" width=\"{w:.0}\" height=\"{h:.0}\" role=\"img\">\n\
         <title>The console of oncegate: what is stuck, oldest first, and what can be done with the row under the cursor</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\" xml:space=\"preserve\">"
    )?;
    for y in 0..SIZE.1 {
        line(&mut out, buffer, y)?;
    }
    write!(out, "</g>\n</svg>")?;
    Ok(out)
}

/// Runs of cells of one look become one text; lines of boxes are drawn as lines.
fn line(out: &mut String, buffer: &Buffer, y: u16) -> std::fmt::Result {
    let mut x = 0;
    while x < SIZE.0 {
        let first = &buffer[(x, y)];
        let begin = x;
        let mut text = String::new();
        while x < SIZE.0 && same_look(first, &buffer[(x, y)]) {
            let symbol = buffer[(x, y)].symbol();
            text.push_str(symbol);
            x += u16::try_from(width(symbol).max(1)).unwrap_or(1);
        }
        run(out, first, (begin, y), x - begin, &text)?;
    }
    Ok(())
}

fn same_look(a: &Cell, b: &Cell) -> bool {
    a.fg == b.fg && a.modifier == b.modifier && box_lines(a).is_none() && box_lines(b).is_none()
        || std::ptr::eq(a, b)
}

fn run(
    out: &mut String,
    cell: &Cell,
    (x, y): (u16, u16),
    cells: u16,
    text: &str,
) -> std::fmt::Result {
    let (left, top) = (12.0 + f32::from(x) * CELL.0, 12.0 + f32::from(y) * CELL.1);
    let (mut ink, mut paper) = (colour(cell.fg), BACKGROUND);
    if cell.modifier.contains(Modifier::REVERSED) {
        (ink, paper) = (paper, ink);
        let wide = f32::from(cells) * CELL.0;
        writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{}\" fill=\"{paper}\"/>",
            CELL.1
        )?;
    }
    if let Some(sides) = box_lines(cell) {
        let (mx, my) = (left + CELL.0 / 2.0, top + CELL.1 / 2.0);
        let ends = [(left, my), (left + CELL.0, my), (mx, top), (mx, top + CELL.1)];
        for (end, _) in ends.into_iter().zip(sides).filter(|(_, side)| *side) {
            writeln!(
                out,
                "<path d=\"M{mx:.1} {my:.1}L{:.1} {:.1}\" stroke=\"{ink}\"/>",
                end.0, end.1
            )?;
        }
        return Ok(());
    }
    if text.trim().is_empty() {
        return Ok(());
    }
    let bold = if cell.modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let (base, wide) = (top + 13.5, f32::from(cells) * CELL.0);
    writeln!(
        out,
        "<text x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{wide:.1}\" fill=\"{ink}\"{bold}>{escaped}</text>"
    )
}

/// To which sides (left, right, up, down) a box character has a line.
fn box_lines(cell: &Cell) -> Option<[bool; 4]> {
    Some(match cell.symbol() {
        "─" => [true, true, false, false],
        "│" => [false, false, true, true],
        "┌" => [false, true, false, true],
        "┐" => [true, false, false, true],
        "└" => [false, true, true, false],
        "┘" => [true, false, true, false],
        _ => return None,
    })
}

fn colour(colour: Color) -> &'static str {
    match colour {
        Color::Gray => "#8b96a5",
        Color::Cyan => "#5fc9d8",
        Color::Yellow => "#e3c15a",
        Color::LightYellow => "#ffd866",
        Color::LightRed => "#ff7b72",
        Color::LightGreen => "#7ee08a",
        Color::LightBlue => "#79b8ff",
        Color::LightCyan => "#8be9fd",
        _ => FOREGROUND,
    }
}
