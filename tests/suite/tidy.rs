//! The house rules as a test: who may import whom, what stands only in one place, how long a function may be. Each rule is tried
//! on a bad snippet too, so that it can't fall asleep.
#![expect(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::path::Path;

const SRC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// Lines that a function may have, signature and braces included.
const FUNCTION_LINES_MAX: usize = 70;

/// The first boundary in the default layout is at 8: a slice that begins or ends there or behind, by a literal, cuts a telegram.
const OFFSET_MIN: usize = 8;

/// A file of the program, without its tests.
struct Source {
    /// Under `src`, with `/`.
    path: String,
    text: String,
}

/// A rule: what it complains of in a file, line by line.
type Rule = fn(&Source) -> Vec<String>;

const RULES: [(&str, Rule); 9] = [
    ("a file opens with //! and what it is for", opens_with_its_purpose),
    ("imports go downwards only", imports_go_downwards),
    ("SQL only in ledger/ and outbox/", sql_only_in_its_places),
    ("ureq only in core_api/, outbox/ and one_piece.rs", ureq_only_in_its_places),
    ("ratatui only in console/", ratatui_only_in_the_console),
    ("the time is asked for only in clock.rs", time_only_from_the_clock),
    ("no unwrap() outside tests", no_unwrap),
    ("no telegram offset outside telegram/", no_offsets),
    ("functions have at most 70 lines", short_functions),
];

impl Source {
    fn new(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text[..tests_begin(text)].to_owned() }
    }

    /// Lines of code: number from 1, and the line without a comment that fills it.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(at, line)| (at + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| {
            let inside = self.path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'));
            inside || self.path == format!("{place}.rs") || self.path == *place
        })
    }

    /// The module at the top of the crate that the file belongs to.
    fn module(&self) -> &str {
        self.path.split('/').next().unwrap().trim_end_matches(".rs")
    }

    /// Complains of each line of code with one of these words, unless the file is in one of these places.
    fn only_in(&self, places: &[&str], words: &[&str]) -> Vec<String> {
        if self.is_in(places) {
            return Vec::new();
        }
        let hit = |line: &str| words.iter().any(|word| line.contains(word));
        self.code().filter(|(_, line)| hit(line)).map(|(at, line)| self.at(at, line)).collect()
    }

    fn at(&self, line: usize, what: &str) -> String {
        format!("src/{}:{line}: {}", self.path, what.trim())
    }
}

/// Where a file's own tests begin: a `mod` at the first column, under `#[cfg(test)]` and perhaps other attributes.
fn tests_begin(text: &str) -> usize {
    let is_attribute = |line: &&str| line.starts_with(['#', ' ', ')']);
    let opens_tests = |at: &usize| {
        let mut lines = text[at + 1..].lines().skip_while(is_attribute);
        lines.next().is_some_and(|line| line.starts_with("mod "))
    };
    let marks = text.match_indices("\n#[cfg(test)]\n").map(|(at, _)| at);
    marks.into_iter().find(opens_tests).unwrap_or(text.len())
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    let mut folders = vec![Path::new(SRC).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(SRC).unwrap().to_str().unwrap();
                sources.push(Source::new(name, &std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    sources
}

fn opens_with_its_purpose(source: &Source) -> Vec<String> {
    let first = source.text.lines().next().unwrap_or_default();
    if first.starts_with("//! ") { Vec::new() } else { vec![source.at(1, first)] }
}

/// The levels of the crate's modules, lowest first, as the documentation of `lib.rs` lists them.
fn levels() -> Vec<Vec<String>> {
    let lib = std::fs::read_to_string(Path::new(SRC).join("lib.rs")).unwrap();
    let text = lib.replace("//!", " ");
    let list = text.split("Imports go downwards only:").nth(1).unwrap();
    let list = list.split("A test").next().unwrap();
    let names = |level: &str| {
        let inside = level.split('`').nth(1).unwrap();
        inside.split(',').map(|name| name.trim().to_owned()).collect()
    };
    list.split('←').map(names).collect()
}

fn level_of(module: &str) -> Option<usize> {
    levels().iter().position(|level| level.iter().any(|name| name == module))
}

fn imports_go_downwards(source: &Source) -> Vec<String> {
    if source.path == "lib.rs" {
        return Vec::new();
    }
    let Some(own) = level_of(source.module()) else {
        return vec![source.at(1, "the list at the end of lib.rs' docs does not name this module")];
    };
    let upwards = |line: &str| {
        line.split("crate::").skip(1).any(|rest| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            level_of(&rest[..end]).is_some_and(|level| level > own)
        })
    };
    source.code().filter(|(_, line)| upwards(line)).map(|(at, l)| source.at(at, l)).collect()
}

fn sql_only_in_its_places(source: &Source) -> Vec<String> {
    let words = ["rusqlite", "SELECT ", "INSERT ", "UPDATE ", "DELETE FROM", "PRAGMA "];
    source.only_in(&["ledger", "outbox"], &words)
}

fn ureq_only_in_its_places(source: &Source) -> Vec<String> {
    source.only_in(&["core_api", "outbox", "one_piece"], &["ureq"])
}

fn ratatui_only_in_the_console(source: &Source) -> Vec<String> {
    source.only_in(&["console"], &["ratatui", "crossterm"])
}

fn time_only_from_the_clock(source: &Source) -> Vec<String> {
    source.only_in(&["clock.rs"], &["SystemTime::now", "Utc::now", "Local::now"])
}

fn no_unwrap(source: &Source) -> Vec<String> {
    source.only_in(&[], &[".unwrap()"])
}

fn no_offsets(source: &Source) -> Vec<String> {
    if source.is_in(&["telegram"]) {
        return Vec::new();
    }
    source
        .code()
        .filter(|(_, line)| cuts_at_a_literal(line))
        .map(|(at, l)| source.at(at, l))
        .collect()
}

/// Whether a slice in `line` has a literal bound that could be an offset.
fn cuts_at_a_literal(line: &str) -> bool {
    line.match_indices("..").any(|(at, _)| {
        let (before, after) = (&line[..at], line[at + 2..].trim_start_matches('='));
        let digits = |c: &char| c.is_ascii_digit() || *c == '_';
        let first: String = before.chars().rev().take_while(digits).collect();
        let first: String = first.chars().rev().collect();
        let last: String = after.chars().take_while(digits).collect();
        let opening = before[..before.len() - first.len()].trim_end();
        let in_slice =
            opening.ends_with(".get(") || opening.ends_with("get_mut(") || indexes(opening);
        let big = |text: &str| text.replace('_', "").parse().is_ok_and(|n: usize| n >= OFFSET_MIN);
        in_slice && (big(&first) || big(&last))
    })
}

/// Whether the text ends with the `[` of an index: behind a name, a call or another index.
fn indexes(text: &str) -> bool {
    let Some(rest) = text.strip_suffix('[') else { return false };
    rest.ends_with(|c: char| c.is_alphanumeric() || "_)]?".contains(c))
}

fn short_functions(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut complaints = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| begins_a_function(line)) {
        let signature = lines[at..].iter().find(|line| line.ends_with(['{', ';', '}']));
        if signature.is_none_or(|line| !line.ends_with('{')) {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let length = lines[at..].iter().position(|line| *line == end).map_or(0, |n| n + 1);
        if length > FUNCTION_LINES_MAX {
            complaints.push(source.at(at + 1, &format!("{length} lines: {}", line.trim())));
        }
    }
    complaints
}

fn begins_a_function(line: &str) -> bool {
    let mut words = line.trim_start().split(' ');
    let qualifiers = ["const", "async", "unsafe", "pub"];
    let first = words.find(|word| !qualifiers.contains(word) && !word.starts_with("pub("));
    first == Some("fn")
}

#[test]
fn every_source_keeps_every_rule() {
    let sources = sources();
    assert!(sources.len() > 40, "only {} sources found", sources.len());
    let complaints: Vec<String> = RULES
        .iter()
        .flat_map(|(name, rule)| {
            sources.iter().flat_map(rule).map(move |complaint| format!("{name}: {complaint}"))
        })
        .collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn the_list_of_levels_names_every_module_once() {
    let levels = levels();
    let mut named: Vec<String> = levels.concat();
    assert_eq!(levels.len(), 6, "{levels:?}");
    for source in sources().iter().filter(|source| source.path != "lib.rs") {
        assert!(named.iter().any(|name| name == source.module()), "{}", source.module());
    }
    named.sort();
    named.dedup();
    assert_eq!(named.len(), levels.concat().len());
}

/// Complaints of the rule with this name about a snippet.
#[track_caller]
fn complaints(rule: Rule, path: &str, text: &str) -> usize {
    rule(&Source::new(path, text)).len()
}

#[test]
fn a_file_without_a_purpose_is_found() {
    assert_eq!(complaints(opens_with_its_purpose, "a.rs", "use std::io;\n"), 1);
    assert_eq!(complaints(opens_with_its_purpose, "a.rs", "//! What it is for.\n"), 0);
}

#[test]
fn an_import_upwards_is_found() {
    let rule = imports_go_downwards;
    assert_eq!(complaints(rule, "ledger/mod.rs", "use crate::engine::Stop;\n"), 1);
    assert_eq!(complaints(rule, "telegram/reply.rs", "    let now = crate::clock::now();\n"), 1);
    assert_eq!(complaints(rule, "state.rs", "use crate::telegram::Layout;\n"), 1);
    assert_eq!(complaints(rule, "engine/relay.rs", "use crate::ledger::Ledger;\n"), 0);
    assert_eq!(complaints(rule, "code.rs", "use crate::state::State;\n"), 0);
    assert_eq!(complaints(rule, "new_module.rs", ""), 1);
}

#[test]
fn what_stands_in_the_wrong_place_is_found() {
    let select = "const FIND: &str = \"SELECT guid\n  FROM tx\";\n";
    assert_eq!(complaints(sql_only_in_its_places, "engine/view.rs", select), 1);
    assert_eq!(
        complaints(sql_only_in_its_places, "server/admin.rs", "use rusqlite::Connection;\n"),
        1
    );
    assert_eq!(complaints(sql_only_in_its_places, "ledger/sqlite/mod.rs", select), 0);
    assert_eq!(complaints(sql_only_in_its_places, "ledgers.rs", select), 1);
    assert_eq!(complaints(ureq_only_in_its_places, "cli/send.rs", "ureq::get(url)\n"), 1);
    assert_eq!(complaints(ureq_only_in_its_places, "core_api/http.rs", "ureq::get(url)\n"), 0);
    assert_eq!(complaints(ratatui_only_in_the_console, "cli/mod.rs", "use ratatui::Frame;\n"), 1);
    assert_eq!(
        complaints(ratatui_only_in_the_console, "console/app.rs", "use ratatui::Frame;\n"),
        0
    );
    for call in ["SystemTime::now()", "chrono::Utc::now()", "Local::now()"] {
        assert_eq!(complaints(time_only_from_the_clock, "engine/purge.rs", call), 1);
        assert_eq!(complaints(time_only_from_the_clock, "clock.rs", call), 0);
    }
}

#[test]
fn an_unwrap_is_found_outside_tests_and_comments() {
    let text = "fn f() {\n    // .unwrap()\n    a().unwrap();\n}\n\n#[cfg(test)]\nmod tests {\n    b().unwrap();\n}\n";
    assert_eq!(complaints(no_unwrap, "engine/mod.rs", text), 1);
}

#[test]
fn an_offset_is_found_where_a_slice_has_a_literal_bound() {
    for line in [
        "&t[10..40]",
        "t[..128]",
        "bytes[128..].to_vec()",
        "x.get(92..96)",
        "f(t)[0..=127]",
        "a?[8..]",
    ] {
        assert_eq!(complaints(no_offsets, "engine/relay.rs", line), 1, "{line}");
        assert_eq!(complaints(no_offsets, "telegram/reply.rs", line), 0, "{line}");
    }
    for line in [
        "&port[1..]",
        ".range(0..=36_600)",
        "for n in 0..100",
        "[10..20]",
        "t[..header]",
        "t[a..b]",
    ] {
        assert_eq!(complaints(no_offsets, "engine/relay.rs", line), 0, "{line}");
    }
}

#[test]
fn a_long_function_is_found() {
    let function = |lines: usize| {
        format!(
            "impl X {{\n    pub(super) const fn f() {{\n{}    }}\n}}\n",
            "        a();\n".repeat(lines)
        )
    };
    assert_eq!(complaints(short_functions, "a.rs", &function(68)), 0);
    assert_eq!(complaints(short_functions, "a.rs", &function(69)), 1);
    assert_eq!(
        complaints(
            short_functions,
            "a.rs",
            &format!("trait T {{\n    fn f();\n{}", "\n".repeat(99))
        ),
        0
    );
}
