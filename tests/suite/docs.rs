//! The documents say what the program does: tables and options in the README are compared with it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use oncegate::code::{Code, CoreCode};
use oncegate::state::{State, TRANSITIONS};

use crate::cli::program::run;

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The lines between a heading and the next one of any level.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let begin = document.find(&format!("\n{heading}\n")).unwrap() + heading.len() + 2;
    let rest = &document[begin..];
    &rest[..rest.find("\n#").unwrap_or(rest.len())]
}

/// The cells of a table's rows, without its head.
fn rows(text: &str) -> Vec<Vec<String>> {
    let table = text.lines().filter(|line| line.starts_with('|')).skip(2);
    table
        .map(|line| {
            line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

/// Every code, the core's own behind 0000.
fn codes() -> Vec<Code> {
    let own = Code::Core(CoreCode::parse("C051").unwrap());
    Code::OURS
        .iter()
        .flat_map(|code| {
            let behind = (*code == Code::Done).then_some(own);
            std::iter::once(*code).chain(behind)
        })
        .collect()
}

#[test]
fn the_table_of_codes_is_what_the_program_says() {
    let expected: Vec<Vec<String>> = codes()
        .iter()
        .map(|code| {
            let shown = match code {
                Code::Core(_) => "the core's code".to_owned(),
                ours => format!("`{ours}`"),
            };
            let words = [code.meaning(), &shown, code.channel_does(), code.operator_does()];
            words.map(str::to_owned).to_vec()
        })
        .collect();
    let readme = document("README.md");
    let found =
        rows(section(&readme, "## What happened, what the channel gets, what the operator does"));
    let table = expected
        .iter()
        .map(|row| format!("| {} |", row.join(" | ")))
        .collect::<Vec<_>>()
        .join("\n");
    assert_eq!(found, expected, "the table should be:\n{table}");
}

#[test]
fn the_short_versions_name_every_code_and_both_commands() {
    for name in ["README.ko.md", "README.ja.md"] {
        let text = document(name);
        for code in Code::OURS {
            assert!(text.contains(&format!("| `{code}` |")), "{name} has no {code}");
        }
        for command in ["cargo run --release -- demo", "cargo test"] {
            assert!(text.contains(command), "{name} has no {command}");
            assert!(document("README.md").contains(command));
        }
    }
}

#[test]
fn the_table_of_states_is_the_table_of_transitions() {
    let readme = document("README.md");
    let rows = rows(section(&readme, "### States"));
    let names: Vec<String> = State::ALL.iter().map(|state| format!("`{state}`")).collect();
    assert_eq!(rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>(), names);
    for (state, row) in State::ALL.into_iter().zip(&rows) {
        let leads = TRANSITIONS.iter().filter(|(from, _, _)| *from == Some(state));
        let expected: BTreeSet<String> = leads
            .map(|(_, _, to)| to.map_or("purged".to_owned(), |to| to.as_str().to_owned()))
            .collect();
        let word = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        let known = |word: &String| {
            word == "purged" || word.parse::<State>().is_ok_and(|s| s.as_str() == word)
        };
        let found: BTreeSet<String> = row[2].split_whitespace().map(word).filter(known).collect();
        assert_eq!(found, expected, "{state}");
    }
}

#[test]
fn the_ledgers_schema_knows_the_same_states() {
    let schema = document("schema.sql");
    let words: Vec<String> = State::ALL.iter().map(|state| format!("state = '{state}'")).collect();
    assert!(schema.contains(&format!("CHECK ({})", words.join(" OR "))));
}

/// Options and defaults that a help text names, without `--help`, `--version` and `--serve`.
fn options_of_help(help: &str) -> BTreeMap<String, Option<String>> {
    let mut options = BTreeMap::new();
    let mut current = None;
    let text = help.split("\nOptions:\n").nth(1).unwrap();
    for line in text.split("\nExamples:").next().unwrap().lines().map(str::trim) {
        if let Some(at) = line
            .find("--")
            .filter(|at| *at == 0 || line.starts_with("-h") || line.starts_with("-V"))
        {
            let name = line[at..].split([' ', ',']).next().unwrap().to_owned();
            current = Some(name.clone());
            options.insert(name, None);
        }
        let value = line.split("[default: ").nth(1).and_then(|rest| rest.split(']').next());
        if let (Some(value), Some(name)) = (value, &current) {
            options.insert(name.clone(), Some(value.to_owned()));
        }
    }
    options.retain(|name, _| !["--help", "--version", "--serve"].contains(&name.as_str()));
    options
}

#[test]
fn the_table_of_options_is_that_of_the_help() {
    let readme = document("README.md");
    let mut all = rows(section(&readme, "## Run a real relay"));
    all.extend(rows(section(&readme, "## The console")));
    let rows = all;
    let help = options_of_help(run(&["--help"]).printed(0));
    let cell = |cell: &String| cell.trim_matches('`').to_owned();
    let named: BTreeSet<String> =
        rows.iter().map(|row| cell(&row[0]).split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(named, help.keys().cloned().collect());
    for row in &rows {
        let name = cell(&row[0]).split(' ').next().unwrap().to_owned();
        let exact = row[1].starts_with('`').then(|| cell(&row[1]));
        // A default that stands in words is told in words; the help breaks its line anywhere.
        if let (Some(default), Some(Some(said))) = (exact, help.get(&name)) {
            assert_eq!(&default, said, "{name}");
        }
    }
}

#[test]
fn the_readme_shows_no_command_that_is_not_there() {
    let readme = document("README.md");
    let help = run(&["--help"]);
    let commands: BTreeSet<&str> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("oncegate "))
        .filter_map(|line| line.split(' ').next())
        .filter(|word| !word.starts_with('-'))
        .collect();
    assert!(commands.len() > 4, "{commands:?}");
    for command in commands {
        assert!(help.printed(0).contains(&format!("\n  {command} ")), "{command}");
    }
}

#[test]
fn the_changelog_names_the_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(document("CHANGELOG.md").contains(&format!("## [{version}]")), "{version}");
}

#[test]
fn the_harnesses_that_the_tests_readme_names_are_there() {
    let readme = document("tests/README.md");
    let table = readme.split("\n## ").next().unwrap();
    let named: Vec<&str> = table
        .split(['`', '(', ')'])
        .filter(|word| ["suite/", "fuzz/", "model/", ".ci/"].iter().any(|at| word.starts_with(at)))
        .map(|word| word.split(' ').next().unwrap())
        .collect();
    assert!(named.len() > 15, "{named:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in named {
        let there = root.join(name).exists() || root.join("tests").join(name).exists();
        assert!(there, "tests/README.md names {name}");
    }
    let filters = table
        .split("--test suite ")
        .skip(1)
        .map(|rest| rest.split(['`', ' ']).next().unwrap().split("::").next().unwrap());
    for module in filters {
        let suite = root.join("tests/suite").join(module);
        assert!(suite.exists() || suite.with_extension("rs").exists(), "no tests in {module}");
    }
}
