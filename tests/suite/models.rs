//! The exhaustive models (tests/model), in configurations that a debug build walks through in seconds, and docs/guards.md, which
//! says of each guard what breaks without it, where it stands in the code, and which test shows it there.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::model::explore::explore;
use crate::model::outbox::Outbox;
use crate::model::relay::{Relay, Sweep};
use crate::model::{Missing, missing};

const GUARDS: &str = include_str!("../../docs/guards.md");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A line of the tables: guard (or *premise*), code, tests, mutants; each cell's words in backticks.
struct Line {
    guard: String,
    code: Vec<String>,
    tests: Vec<String>,
    mutants: Vec<String>,
}

fn table() -> Vec<Line> {
    let words = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let lines = GUARDS.lines().filter(|line| line.starts_with("| `") || line.starts_with("| *"));
    let line = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        assert_eq!(cells.len(), 5, "{line}");
        Line {
            guard: cells[0].trim().trim_matches('`').to_owned(),
            code: words(cells[2]),
            tests: words(cells[3]),
            mutants: words(cells[4]),
        }
    };
    lines.map(line).collect()
}

/// Whether `text` has `name` as a whole word after one of `before`.
fn defines(text: &str, before: &[&str], name: &str) -> bool {
    before.iter().any(|before| {
        let wanted = format!("{before}{name}");
        text.match_indices(&wanted).any(|(at, _)| {
            let after = text[at + wanted.len()..].chars().next().unwrap_or(' ');
            !after.is_alphanumeric() && after != '_'
        })
    })
}

/// The file of a module of this suite.
fn file_of(modules: &[&str]) -> PathBuf {
    let path = root().join("tests/suite").join(modules.join("/"));
    let file = path.with_extension("rs");
    if file.exists() { file } else { path.join("mod.rs") }
}

#[test]
fn with_all_guards_nothing_breaks_and_everything_settles() {
    let small = Relay { attempts_max: 2, crashes: 1, ..Relay::FULL };
    let aged =
        Relay { sweep: Sweep::Older(3), pause_max: Some(2), crashes: 0, jumps: 0, ..small.clone() };
    for (what, relay) in [("orphans by proof", small), ("orphans by age", aged)] {
        let found = explore(&relay);
        println!(
            "relay, {what}: {} states, {} moves, {}",
            found.states,
            found.moves,
            found.verdict()
        );
        assert_eq!(found.verdict(), "PASS", "{:?}", found.counterexamples);
        assert!(found.states > 1_000, "{what}: a model in which nothing happens finds nothing");
    }
    let found = explore(&Outbox::FULL);
    println!("outbox: {} states, {} moves, {}", found.states, found.moves, found.verdict());
    assert_eq!(found.verdict(), "PASS", "{:?}", found.counterexamples);
}

#[test]
fn each_guard_taken_away_breaks_what_the_document_says_and_by_that_trace() {
    let missing = missing();
    for line in missing.iter().map(Missing::line) {
        assert!(GUARDS.lines().any(|known| known == line), "docs/guards.md lacks\n{line}");
    }
    let guards = |all: Vec<String>| {
        let mut all = all;
        all.sort();
        all
    };
    let (models, documented) = (
        guards(missing.into_iter().map(|missing| missing.guard).collect()),
        guards(
            table().into_iter().map(|line| line.guard).filter(|g| !g.starts_with('*')).collect(),
        ),
    );
    assert_eq!(models, documented, "the model's guards are the table's");
}

#[test]
fn the_code_that_the_table_names_is_there() {
    const KINDS: &[&str] = &["fn ", "const ", "struct ", "enum ", "trait ", "static "];
    for Line { guard, code, .. } in table() {
        assert!(!code.is_empty(), "{guard}: no code is named");
        for place in code {
            let (path, name) = place.split_once(": ").unwrap_or_else(|| panic!("{guard}: {place}"));
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            assert!(defines(&text, KINDS, name), "{guard}: {path} defines no {name}");
        }
    }
}

#[test]
fn the_tests_that_the_table_names_are_there() {
    for Line { guard, tests, .. } in table() {
        assert!(!tests.is_empty(), "{guard}: no test is named");
        for test in tests {
            let mut modules: Vec<&str> = test.split("::").collect();
            let name = modules.pop().unwrap();
            let text = fs::read_to_string(file_of(&modules)).unwrap_or_default();
            assert!(defines(&text, &["fn "], name), "{guard}: there is no test {test}");
        }
    }
}

#[test]
fn every_mutant_of_the_simulation_stands_in_the_table_and_no_other() {
    let mut named: Vec<String> = table().into_iter().flat_map(|line| line.mutants).collect();
    let mut mutants = crate::simulation::mutant_names();
    named.sort();
    mutants.sort();
    assert_eq!(named, mutants);
}
