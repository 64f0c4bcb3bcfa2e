//! What an operator does, timed: from the key to the screen that it asks for.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::Anyhow;
use crate::figures;
use crate::ledger::{self, guid};
use crate::machine;
use crate::terminal::Console;

const BOUND_MS: f64 = 300.0;
/// Rows on a page of the list at this size.
const PAGE: u64 = 28;
/// Pages in a row: some windows' worth, so that new windows are loaded on the way.
const PAGES: u64 = 40;

type Times = BTreeMap<&'static str, Vec<f64>>;

/// Opens, pages, filters; several consoles one after the other.
pub fn measure(ledger: &Path, rounds: usize) -> Anyhow<()> {
    let mut times = Times::new();
    let mut memory = Vec::new();
    for _ in 0..rounds {
        // Nobody listens there: plans are made, nothing is sent.
        let mut console = Console::open(ledger, &["--core", "http://127.0.0.1:9"])?;
        let mut took = |name, ms| times.entry(name).or_default().push(ms);
        took("open", console.until(is_whole)?);
        pages(&mut console, &mut took)?;
        filters(&mut console, &mut took)?;
        plans(&mut console, &mut took)?;
        screens(&mut console, &mut took)?;
        memory.push(machine::mib_of(console.pid(), "VmHWM:"));
        console.quit()?;
    }
    for (name, bound) in LINES {
        figures::line(name, "ms", &times[name], bound.then_some(BOUND_MS));
    }
    figures::line("memory at its peak, after all of these", "MiB", &memory, Some(200.0));
    Ok(())
}

/// The lines in the order in which they are printed, and whether the bound is for them.
const LINES: [(&str, bool); 19] = [
    ("open", true),
    ("page down", true),
    ("end", true),
    ("page up from the end", true),
    ("begin", true),
    ("filter: a whole GUID", true),
    ("filter: a GUID's beginning, 530 rows", true),
    ("filter: a GUID's beginning, 53,000 rows", true),
    ("filter: a GUID's beginning, 530,000 rows", true),
    ("filter: a bare word that is a GUID", true),
    ("filter: one state", true),
    ("filter: an age", true),
    ("overview", true),
    ("mark all: too many", true),
    ("mark all: 53,000", true),
    ("plan of 53,000: it says that it is made", true),
    ("plan of 53,000: it is there", false),
    ("filter: part of a reason", false),
    ("sorted by attempts", false),
];

/// The first page of all that is stuck, the row beside it, and the counts.
fn is_whole(screen: &str) -> bool {
    range(screen) == Some((1, PAGE))
        && total(screen) == ledger::STUCK
        && screen.contains("What you can do")
        && screen.contains("?500000")
}

fn pages(console: &mut Console, took: &mut dyn FnMut(&'static str, f64)) -> Anyhow<()> {
    for page in 1..=PAGES {
        console.press("\x1b[6~")?;
        let ms = console.until(|screen| range(screen).is_some_and(|(_, to)| to > page * PAGE))?;
        took("page down", ms);
    }
    console.press("G")?;
    took("end", console.until(|s| range(s).is_some_and(|(_, to)| to == total(s)))?);
    let last = total(&console.screen());
    console.press("\x1b[5~\x1b[5~")?;
    took("page up from the end", console.until(|s| range(s).is_some_and(|(_, to)| to < last))?);
    console.press("gg")?;
    took("begin", console.until(is_whole)?);
    Ok(())
}

/// The first and the last row shown, as the screen says it.
fn range(screen: &str) -> Option<(u64, u64)> {
    let (before, _) = screen.split_once(" of ")?;
    let (from, to) = before.split_whitespace().last()?.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// How many rows match.
fn total(screen: &str) -> u64 {
    let rest = screen.split_once(" of ").map_or("", |(_, rest)| rest);
    rest.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn filters(console: &mut Console, took: &mut dyn FnMut(&'static str, f64)) -> Anyhow<()> {
    let one = guid(500_000);
    let beginning = |left_out: usize| one[..one.len() - left_out].to_owned();
    let filters: [(&'static str, String, u64); 8] = [
        ("filter: a whole GUID", format!("guid:{one}"), 1),
        ("filter: a GUID's beginning, 530 rows", format!("guid:{}", beginning(3)), 530),
        ("filter: a GUID's beginning, 53,000 rows", format!("guid:{}", beginning(5)), 53_000),
        ("filter: a GUID's beginning, 530,000 rows", "guid:20260928".to_owned(), 530_000),
        ("filter: a bare word that is a GUID", one.clone(), 1),
        ("filter: one state", "state:failed".to_owned(), 20_000),
        ("filter: an age", "state:unknown age:>10d".to_owned(), 0),
        ("filter: part of a reason", "reason:reset".to_owned(), 0),
    ];
    for (name, filter, rows) in filters {
        console.press(&format!("/{filter}"))?;
        console.until(|screen| screen.contains(&filter))?;
        console.press("\r")?;
        let is_there = |screen: &str| match rows {
            0 => total(screen) > 0 && range(screen).is_some_and(|(from, _)| from == 1),
            rows => total(screen) == rows,
        };
        let is_shown = |screen: &str| is_there(screen) && screen.contains("What you can do");
        took(name, console.until(is_shown)?);
        console.press("\x1b")?;
        console.until(|screen| is_whole(screen) && !screen.contains(&filter))?;
    }
    Ok(())
}

/// The greatest plan that can be made, and what is too much for one.
fn plans(console: &mut Console, took: &mut dyn FnMut(&'static str, f64)) -> Anyhow<()> {
    console.press("*")?;
    took("mark all: too many", console.until(|screen| screen.contains("narrow the filter"))?);
    let one = guid(500_000);
    console.press(&format!("/guid:{}\r", &one[..one.len() - 5]))?;
    console.until(|screen| total(screen) == 53_000)?;
    console.press("*")?;
    took("mark all: 53,000", console.until(|screen| screen.contains("marked 53000"))?);
    console.press("P")?;
    let begun = console.until(|screen| screen.contains("making the plan"))?;
    took("plan of 53,000: it says that it is made", begun);
    took(
        "plan of 53,000: it is there",
        console.until(|screen| screen.contains("of 53000 chosen rows"))?,
    );
    for _ in 0..3 {
        console.press("\x1b")?;
        console.rest(Duration::from_millis(100));
    }
    console.until(is_whole)?;
    Ok(())
}

fn screens(console: &mut Console, took: &mut dyn FnMut(&'static str, f64)) -> Anyhow<()> {
    console.press("1")?;
    took("overview", console.until(|screen| screen.contains("one snapshot"))?);
    console.press("2")?;
    console.until(is_whole)?;
    console.press("ss")?;
    let sorted = |s: &str| s.contains("by attempts") && range(s).is_some_and(|(from, _)| from == 1);
    took("sorted by attempts", console.until(sorted)?);
    Ok(())
}

/// Nothing changes, nobody presses anything: only the clock moves.
pub fn idle(ledger: &Path) -> Anyhow<()> {
    const SPAN: Duration = Duration::from_secs(10);
    let mut console = Console::open(ledger, &[])?;
    console.until(is_whole)?;
    console.rest(Duration::from_secs(2));
    let before = machine::cpu_seconds(console.pid());
    let bytes = console.rest(SPAN);
    let cpu = machine::cpu_seconds(console.pid()) - before;
    let share = 100.0 * cpu / SPAN.as_secs_f64();
    figures::line("idle: CPU", "%", &[share], Some(0.5));
    figures::line("idle: bytes to the terminal a second", "B", &[bytes as f64 / 10.0], None);
    console.quit()
}
