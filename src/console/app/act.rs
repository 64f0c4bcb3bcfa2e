//! What each action does.

use std::collections::HashMap;

use super::runs::Kind;
use super::{
    App, Ask, Edit, Effect, Export, Menu, MenuKind, Mode, Pane, Plans, Prompt, PromptKind,
    RunState, Tab,
};
use crate::console::filter::{self, BadFilter, Filter};
use crate::console::keys::{Action, TABLE};
use crate::console::text::fill;
use crate::console::theme::Theme;
use crate::console::view::hex::ENCODINGS;
use crate::console::words::Lang;
use crate::engine::desk::{Act, Off, Shown, WhyNot};
use crate::guid::Guid;
use crate::ledger::survey::{Column, Part};
use crate::limits;
use crate::state::State;

/// What the menu of states offers, in order, between "what is stuck" and "every state".
const STATE_MENU: [State; 5] =
    [State::Unknown, State::Failed, State::Sent, State::Received, State::Done];

/// What the menu of ages offers, in order, after "any age": the bounds of the overview's classes, and the last hour.
const AGE_MENU: [AgeChoice; 6] = [
    AgeChoice::Older(60),
    AgeChoice::Older(300),
    AgeChoice::Older(1_800),
    AgeChoice::Older(7_200),
    AgeChoice::Older(86_400),
    AgeChoice::Younger(3_600),
];

/// An age, in seconds.
#[derive(Clone, Copy)]
enum AgeChoice {
    Older(i64),
    Younger(i64),
}

/// Commands beside the table's names.
const COMMANDS: [&str; 4] = ["goto ", "theme ", "lang ", "filter "];

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// The only command that begins so, or what all of them share.
pub(super) fn completed(text: &str) -> Option<String> {
    let names: Vec<&str> = TABLE
        .iter()
        .map(|binding| binding.name)
        .chain(COMMANDS)
        .filter(|name| name.starts_with(text))
        .collect();
    let first = *names.first()?;
    let shared = (0..=first.len())
        .rev()
        .find(|end| names.iter().all(|name| name.starts_with(&first[..*end])))?;
    Some(first[..shared].to_owned())
}

impl App {
    /// Does it. An action that is off says why.
    pub fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Down => self.move_by(1),
            Action::Up => self.move_by(-1),
            Action::PageDown => self.move_by(self.step(1)),
            Action::PageUp => self.move_by(-self.step(1)),
            Action::HalfDown => self.move_by(self.step(2)),
            Action::HalfUp => self.move_by(-self.step(2)),
            Action::Top => self.move_to_end(false),
            Action::Bottom => self.move_to_end(true),
            Action::Left => self.move_byte(-1),
            Action::Right => self.move_byte(1),
            Action::NextPane => self.pane(1),
            Action::PreviousPane => self.pane(Pane::ALL.len() - 1),
            Action::Overview => self.show(Tab::Overview),
            Action::Ledger => self.show(Tab::Ledger),
            Action::Runs => self.show(Tab::Runs),
            Action::Outbox => self.show(Tab::Outbox),
            Action::History => self.show(Tab::History),
            Action::Open => self.open_line(),
            Action::Back => self.back(true),
            Action::Quit => self.back(false),
            Action::Filter => self.prompt(PromptKind::Filter),
            Action::Command => self.prompt(PromptKind::Command),
            Action::NextMatch => self.match_by(1),
            Action::PreviousMatch => self.match_by(-1),
            Action::FilterMenu => self.menu(MenuKind::States),
            Action::Sort => self.sort(),
            Action::Reverse => {
                self.list.descending = !self.list.descending;
                self.reload()
            }
            Action::Mark => self.mark(),
            Action::Range => self.range(),
            Action::MarkAll => self.ask_all(),
            Action::MarkNone => {
                self.list.marks.clear();
                self.list.range = None;
                self.list.by_hand = true;
                self.ask_lines()
            }
            Action::Resolve => self.plan(Act::Resolve),
            Action::Reprocess => self.plan(Act::Reprocess),
            Action::Purge => self.plan(Act::Purge),
            Action::Dispatch => self.plan_batch(),
            Action::Note => self.note(),
            Action::CopyGuid | Action::CopyHex | Action::CopyDecoded | Action::CopyAll => {
                self.copy(action)
            }
            Action::Export => self.menu(MenuKind::Export),
            Action::Reveal => self.reveal(),
            Action::StopRun => self.stop_run(),
            Action::Refresh => {
                self.list.by_hand = true;
                self.refresh()
            }
            _ => self.look(action),
        }
    }

    /// Actions that change only how it looks.
    fn look(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Pause => {
                self.paused = !self.paused;
                if self.paused { Vec::new() } else { self.refresh() }
            }
            Action::Zone => {
                self.look.local = !self.look.local;
                Vec::new()
            }
            Action::Zoom => {
                self.looking.zoom = !self.looking.zoom;
                Vec::new()
            }
            Action::Encoding => {
                self.encoding = (self.encoding + 1) % ENCODINGS.len();
                self.say(fill(self.words().text_column, &[ENCODINGS[self.encoding].as_str()]));
                Vec::new()
            }
            Action::Mouse => {
                self.look.mouse = !self.look.mouse;
                vec![Effect::Mouse(self.look.mouse)]
            }
            Action::Redraw => vec![Effect::Redraw],
            Action::Suspend => vec![Effect::Suspend],
            Action::Help => {
                self.mode = Mode::Help { search: String::new(), top: 0 };
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn step(&self, part: usize) -> isize {
        isize::try_from((self.page() / part).max(1)).unwrap_or(1)
    }

    fn show(&mut self, tab: Tab) -> Vec<Effect> {
        self.tab = tab;
        if tab == Tab::Outbox && !self.facts.outbox {
            self.warn(self.words().no_outbox);
        }
        self.refresh()
    }

    /// Moves the cursor of the screen.
    pub(super) fn move_by(&mut self, by: isize) -> Vec<Effect> {
        let moved =
            |at: usize, count: usize| at.saturating_add_signed(by).min(count.saturating_sub(1));
        match self.tab {
            Tab::Overview => {
                let lines = self.overview_blocks().iter().sum();
                self.overview_at = moved(self.overview_at, lines);
            }
            Tab::Ledger if self.looking.open => self.move_in_row(by),
            Tab::Ledger => return self.move_in_list(by),
            Tab::Runs => {
                self.run_at = moved(self.run_at, self.runs.len());
                self.run_top = None;
            }
            Tab::Outbox => {
                let count = self.outbox.as_ref().map_or(0, |(outbox, _)| outbox.pending.len());
                self.outbox_at = moved(self.outbox_at, count);
            }
            Tab::History => return self.move_in_trail(by),
        }
        Vec::new()
    }

    pub(super) fn move_in_list(&mut self, by: isize) -> Vec<Effect> {
        let page = self.page();
        let before = self.list.cursor.clone();
        self.list.move_by(by, page);
        let mut effects =
            if self.list.cursor == before { Vec::new() } else { self.look_at_cursor() };
        if self.list.wants_more(page) && self.list.asked.is_none() {
            // The rows beyond are no news: they come in where there are marks, too.
            self.list.by_hand = true;
            effects.extend(self.ask_lines());
        }
        effects
    }

    fn move_to_end(&mut self, last: bool) -> Vec<Effect> {
        match self.tab {
            Tab::Ledger if !self.looking.open => {
                let lines = &self.list.lines;
                let whole = lines.rows.len() as u64 == lines.total;
                if whole {
                    let at = if last { lines.rows.len() } else { 0 };
                    let page = self.page();
                    self.list.go(at, page);
                    return self.look_at_cursor();
                }
                (self.list.cursor, self.list.spot, self.list.top) = (None, None, 0);
                self.list.owed = 0;
                self.ask_end(last)
            }
            _ => self.move_by(if last { isize::MAX / 2 } else { isize::MIN / 2 }),
        }
    }

    fn ask_end(&mut self, last: bool) -> Vec<Effect> {
        let mut effects = self.ask_lines();
        if let Some(Effect::Ask(Ask::Lines(_, _, part))) = effects.first_mut() {
            *part = if last { Part::End } else { Part::Start };
        }
        // The answer's last row is where the cursor goes: a spot beyond every other.
        if last {
            self.list.spot = Some(crate::ledger::survey::Spot {
                guid: Guid::from_ledger(char::MAX.to_string()),
                updated_at: char::MAX.to_string(),
                attempts: i64::MAX,
            });
            if self.list.descending {
                self.list.spot = Some(crate::ledger::survey::Spot {
                    guid: Guid::from_ledger(String::new()),
                    updated_at: String::new(),
                    attempts: i64::MIN,
                });
            }
        }
        self.list.by_hand = true;
        effects
    }

    fn pane(&mut self, by: usize) -> Vec<Effect> {
        if self.tab == Tab::Overview {
            self.overview_block(by);
        }
        if self.tab != Tab::Ledger {
            return Vec::new();
        }
        if !self.looking.open {
            // The pane beside the list is the row under the cursor.
            return self.open_line();
        }
        let at = Pane::ALL.iter().position(|pane| *pane == self.looking.pane).unwrap_or(0);
        self.looking.pane = Pane::ALL[(at + by) % Pane::ALL.len()];
        match self.looking.pane {
            Pane::Facts => {}
            Pane::Request => self.looking.response = false,
            Pane::Response => self.looking.response = true,
        }
        self.looking.at = self.looking.at.min(self.bytes().len().saturating_sub(1));
        Vec::new()
    }

    /// The fields of the telegram that is looked at.
    #[must_use]
    pub fn fields(&self) -> &[crate::telegram::DescribedField] {
        match &self.looking.shown {
            Some(Shown::Row(detail)) if self.looking.response => &detail.response,
            Some(Shown::Row(detail)) => &detail.request,
            Some(Shown::Purged(_) | Shown::Nothing) | None => &[],
        }
    }

    /// The bytes of the telegram that is looked at.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.looking.shown {
            Some(Shown::Row(detail)) if self.looking.response => {
                detail.row.response.as_deref().unwrap_or_default()
            }
            Some(Shown::Row(detail)) => &detail.row.request,
            Some(Shown::Purged(_) | Shown::Nothing) | None => &[],
        }
    }

    /// The field under the cursor.
    #[must_use]
    pub fn field_at(&self) -> Option<usize> {
        self.fields().iter().position(|field| {
            (field.offset..field.offset + field.length.max(1)).contains(&self.looking.at)
        })
    }

    fn move_in_row(&mut self, by: isize) {
        if self.looking.pane == Pane::Facts {
            let most = crate::console::view::detail::facts_top_max(self);
            self.looking.top = self.looking.top.saturating_add_signed(by).min(most);
            return;
        }
        let last = self.fields().len().saturating_sub(1);
        let at = self.field_at().unwrap_or(0).saturating_add_signed(by).min(last);
        self.looking.at = self.fields().get(at).map_or(0, |field| field.offset);
    }

    fn move_byte(&mut self, by: isize) -> Vec<Effect> {
        let last = self.bytes().len().saturating_sub(1);
        self.looking.at = self.looking.at.saturating_add_signed(by).min(last);
        Vec::new()
    }

    /// The next row of the list; with a row open, that one is opened.
    fn match_by(&mut self, by: isize) -> Vec<Effect> {
        let open = std::mem::replace(&mut self.looking.open, false);
        let effects = self.move_in_list(by);
        match (open, self.list.cursor.clone()) {
            (true, Some(guid)) => {
                let (pane, response) = (self.looking.pane, self.looking.response);
                let effects = self.open(guid);
                (self.looking.pane, self.looking.response) = (pane, response);
                effects
            }
            _ => effects,
        }
    }

    fn open_line(&mut self) -> Vec<Effect> {
        match self.tab {
            Tab::Overview => self.open_overview_line(),
            Tab::Ledger if !self.looking.open => match self.list.cursor.clone() {
                Some(guid) => self.open(guid),
                None => Vec::new(),
            },
            Tab::Ledger => self.pane(1),
            Tab::Runs => {
                let ended = self.runs.get(self.run_at).is_some_and(|r| r.state != RunState::Going);
                if ended {
                    self.runs.remove(self.run_at);
                    self.run_at = self.run_at.min(self.runs.len().saturating_sub(1));
                    self.say(self.words().acknowledged);
                }
                Vec::new()
            }
            Tab::Outbox => Vec::new(),
            Tab::History => match self.current().cloned() {
                Some(guid) => self.open(guid),
                None => Vec::new(),
            },
        }
    }

    /// How many lines each block of the overview has that can have the cursor: states, reasons, last runs.
    #[must_use]
    pub fn overview_blocks(&self) -> [usize; 3] {
        let numbers = self.numbers.as_ref().map(|(numbers, _)| numbers);
        let reasons = numbers.map_or(0, |numbers| numbers.reasons.len());
        [State::ALL.len(), reasons, numbers.map_or(0, |numbers| numbers.last_lines.len())]
    }

    /// The block that has the cursor, and its place there.
    #[must_use]
    pub fn overview_place(&self) -> (usize, usize) {
        let mut at = self.overview_at;
        for (block, lines) in self.overview_blocks().into_iter().enumerate() {
            match at.checked_sub(lines) {
                None => return (block, at),
                Some(rest) => at = rest,
            }
        }
        (0, 0)
    }

    /// Goes to the first line of another block; blocks without a line are passed over.
    fn overview_block(&mut self, by: usize) {
        let blocks = self.overview_blocks();
        let mut block = self.overview_place().0;
        loop {
            block = (block + by) % blocks.len();
            if blocks[block] > 0 {
                break;
            }
        }
        self.overview_at = blocks[..block].iter().sum();
    }

    fn open_overview_line(&mut self) -> Vec<Effect> {
        let (block, at) = self.overview_place();
        let numbers = self.numbers.as_ref().map(|(numbers, _)| numbers);
        let filter = match (block, numbers) {
            (0, _) => State::ALL.get(at).map(|state| Filter::of(*state)),
            (1, Some(numbers)) => numbers.reasons.get(at).map(|reason| Filter {
                states: vec![(State::Unknown, None), (State::Failed, None)],
                reason: Some(reason.seen.clone()),
                ..Filter::everything()
            }),
            (_, Some(numbers)) => {
                let guid = numbers.last_lines.get(at).map(|line| line.guid.clone());
                return guid.map_or(Vec::new(), |guid| self.open(guid));
            }
            (_, None) => None,
        };
        filter.map_or(Vec::new(), |filter| self.set_filter(filter))
    }

    fn set_filter(&mut self, filter: Filter) -> Vec<Effect> {
        self.list.filter = filter;
        self.tab = Tab::Ledger;
        self.looking.open = false;
        self.reload()
    }

    /// One step back. `esc`: clears range, marks and filter, then stops; else it quits at the top.
    fn back(&mut self, esc: bool) -> Vec<Effect> {
        if self.tab == Tab::Ledger && self.looking.zoom {
            self.looking.zoom = false;
            return Vec::new();
        }
        if self.tab == Tab::Ledger && self.looking.open {
            self.looking.open = false;
            return self.look_at_cursor();
        }
        if !esc {
            return self.quit();
        }
        match self.tab {
            Tab::Ledger if self.list.range.take().is_some() => Vec::new(),
            Tab::Ledger if !self.list.marks.is_empty() => self.act(Action::MarkNone),
            Tab::Ledger if self.list.filter != Filter::default() => {
                self.set_filter(Filter::default())
            }
            Tab::History if !self.trail.filter.is_empty() => {
                self.trail.filter.clear();
                self.ask_trail()
            }
            Tab::Overview | Tab::Ledger | Tab::Runs | Tab::Outbox | Tab::History => Vec::new(),
        }
    }

    fn quit(&mut self) -> Vec<Effect> {
        if self.is_running() {
            self.mode = Mode::AskQuit;
            return Vec::new();
        }
        vec![Effect::Quit]
    }

    fn prompt(&mut self, kind: PromptKind) -> Vec<Effect> {
        let edit = match (&kind, self.tab) {
            (PromptKind::Filter, Tab::History) => Edit::of(&self.trail.filter),
            (PromptKind::Filter, _) if self.list.filter != Filter::default() => {
                Edit::of(&format!("{} ", self.list.filter))
            }
            (PromptKind::Filter | PromptKind::Command | PromptKind::Note(_), _) => Edit::default(),
        };
        self.mode = Mode::Typing(Prompt { kind, edit, complaint: None });
        Vec::new()
    }

    /// Enter in a line that was typed.
    pub(super) fn typed(&mut self, kind: PromptKind, text: &str) -> Vec<Effect> {
        match kind {
            PromptKind::Filter if self.tab == Tab::History => self.filter_trail(text),
            PromptKind::Filter => self.filter(text),
            PromptKind::Command => {
                self.mode = Mode::Normal;
                self.command(text)
            }
            PromptKind::Note(guid) => {
                self.mode = Mode::Normal;
                if text.is_empty() {
                    return Vec::new();
                }
                vec![Effect::Ask(Ask::Note(guid, text.to_owned()))]
            }
        }
    }

    fn filter(&mut self, text: &str) -> Vec<Effect> {
        match self.list.filter.parse(text) {
            Err(bad) => {
                self.complain(&bad);
                Vec::new()
            }
            Ok((filter, bare)) => {
                self.mode = Mode::Normal;
                let filter = if text.is_empty() { Filter::default() } else { filter };
                let Some(word) = bare else { return self.set_filter(filter) };
                self.list.filter = filter;
                let serial = self.next_serial();
                vec![Effect::Ask(Ask::Meaning(serial, word))]
            }
        }
    }

    fn filter_trail(&mut self, text: &str) -> Vec<Effect> {
        if let Err(bad) = filter::trail(text) {
            self.complain(&bad);
            Vec::new()
        } else {
            self.mode = Mode::Normal;
            text.clone_into(&mut self.trail.filter);
            self.trail.cursor = None;
            self.trail.top = 0;
            self.ask_trail()
        }
    }

    fn complain(&mut self, bad: &BadFilter) {
        let words = self.words();
        let text = match bad {
            BadFilter::Word(word) => fill(words.bad_word, &[word]),
            BadFilter::State(word) => fill(words.bad_state, &[word]),
            BadFilter::Age(word) => fill(words.bad_age, &[word]),
            BadFilter::TwoWords(word) => fill(words.two_words, &[word]),
        };
        if let Mode::Typing(prompt) = &mut self.mode {
            prompt.complaint = Some(text);
        } else {
            self.warn(text);
        }
    }

    /// A command: the name of an action, or one that takes a word.
    fn command(&mut self, text: &str) -> Vec<Effect> {
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        match name {
            "" => return Vec::new(),
            "goto" if !rest.is_empty() => return self.open(Guid::from_ledger(rest.to_owned())),
            "filter" if !rest.is_empty() => {
                self.tab = Tab::Ledger;
                return self.filter(rest);
            }
            "note" if !rest.is_empty() => {
                return match self.note_target() {
                    Ok(guid) => vec![Effect::Ask(Ask::Note(guid, rest.to_owned()))],
                    Err(why) => self.refuse(why),
                };
            }
            "theme" => {
                if let Some(theme) = Theme::named(rest) {
                    self.look.theme = theme;
                    return Vec::new();
                }
            }
            "lang" => {
                if let Some(lang) = Lang::named(rest) {
                    self.look.lang = lang;
                    return Vec::new();
                }
            }
            "q" => return self.quit(),
            _ => {}
        }
        let Some(binding) = TABLE.iter().find(|binding| binding.name == name) else {
            return self.refuse(fill(self.words().no_command, &[text]));
        };
        if !binding.is_in(self.place()) {
            return self.refuse(fill(self.words().not_here, &[name]));
        }
        self.act(binding.action)
    }

    fn refuse(&mut self, why: impl Into<String>) -> Vec<Effect> {
        self.warn(why);
        Vec::new()
    }

    pub(super) fn menu(&mut self, kind: MenuKind) -> Vec<Effect> {
        let words = self.words();
        let (lines, at) = match (kind, self.tab) {
            (MenuKind::States, _) => self.state_menu(),
            (MenuKind::Ages, _) => self.age_menu(),
            (MenuKind::Export, Tab::Ledger) => {
                (owned(&[words.export_csv, words.export_json, words.export_bundle]), 0)
            }
            (MenuKind::Export, Tab::Runs) => (owned(&[words.export_report]), 0),
            (MenuKind::Export, _) => (owned(&[words.export_trail]), 0),
        };
        self.mode = Mode::Choosing(Menu { kind, lines, at });
        Vec::new()
    }

    /// The states, and which of them the list shows now.
    fn state_menu(&self) -> (Vec<String>, usize) {
        let words = self.words();
        let mut lines = vec![words.stuck.to_owned()];
        lines.extend(STATE_MENU.iter().map(|state| format!("{state} {}", words.state(*state))));
        lines.push(words.every_state.to_owned());
        let shown = &self.list.filter.states;
        let one = STATE_MENU.iter().position(|state| Filter::of(*state).states == *shown);
        let all = (Filter::everything().states == *shown).then_some(STATE_MENU.len());
        let at = one.or(all).map_or(0, |at| at + 1);
        (lines, at)
    }

    /// The ages, and which of them the list shows now.
    fn age_menu(&self) -> (Vec<String>, usize) {
        let words = self.words();
        let mut lines = vec![words.any_age.to_owned()];
        lines.extend(AGE_MENU.iter().map(|choice| match choice {
            AgeChoice::Older(s) => fill(words.older_than, &[&filter::span(*s)]),
            AgeChoice::Younger(s) => fill(words.younger_than, &[&filter::span(*s)]),
        }));
        let filter = &self.list.filter;
        let at = AGE_MENU.iter().position(|choice| match choice {
            AgeChoice::Older(s) => filter.older_s == Some(*s),
            AgeChoice::Younger(s) => filter.younger_s == Some(*s),
        });
        (lines, at.map_or(0, |at| at + 1))
    }

    /// What is stuck is what the console opened on; every other choice keeps the words and the age that were given.
    pub(super) fn choose_states(&mut self, at: usize) -> Vec<Effect> {
        let states = match at.checked_sub(1) {
            None => return self.set_filter(Filter::default()),
            Some(at) => STATE_MENU.get(at).map_or(Filter::everything(), |s| Filter::of(*s)).states,
        };
        self.set_filter(Filter { states, ..self.list.filter.clone() })
    }

    pub(super) fn choose_age(&mut self, at: usize) -> Vec<Effect> {
        let choice = at.checked_sub(1).and_then(|at| AGE_MENU.get(at));
        let (older_s, younger_s) = match choice {
            None => (None, None),
            Some(AgeChoice::Older(s)) => (Some(*s), None),
            Some(AgeChoice::Younger(s)) => (None, Some(*s)),
        };
        self.set_filter(Filter { older_s, younger_s, ..self.list.filter.clone() })
    }

    pub(super) fn export(&mut self, at: usize) -> Vec<Effect> {
        let list = &self.list;
        let browse = list.filter.browse(self.now, list.column, list.descending);
        let marks = list.marks.clone();
        let export = match (self.tab, at) {
            (Tab::Ledger, 0) => Some(Export::Csv(browse, marks)),
            (Tab::Ledger, 1) => Some(Export::Json(browse, marks)),
            (Tab::Ledger, _) => self.current().cloned().map(|guid| {
                let revealed = self.revealed.contains(&guid);
                Export::Bundle(guid, revealed)
            }),
            (Tab::Runs, _) => {
                self.runs.get(self.run_at).map(|run| Export::Report(Box::new(run.clone())))
            }
            (Tab::Overview | Tab::Outbox | Tab::History, _) => {
                Some(Export::Trail(self.trail.lines.clone()))
            }
        };
        export.map(|export| Effect::Ask(Ask::Export(Box::new(export)))).into_iter().collect()
    }

    fn sort(&mut self) -> Vec<Effect> {
        let at = Column::ALL.iter().position(|column| *column == self.list.column).unwrap_or(0);
        self.list.column = Column::ALL[(at + 1) % Column::ALL.len()];
        self.reload()
    }

    fn mark(&mut self) -> Vec<Effect> {
        let Some(guid) = self.list.cursor.clone() else { return Vec::new() };
        if self.list.range.is_some() {
            return self.range();
        }
        self.list.toggle(guid);
        self.move_in_list(1)
    }

    /// Begins a range or ends it. What lies between is known only among the loaded rows: a range that began elsewhere is not
    /// guessed at.
    fn range(&mut self) -> Vec<Effect> {
        let was_begun = self.list.range.is_some();
        if self.list.end_range() {
            return Vec::new();
        }
        self.list.range = self.list.cursor.clone();
        if was_begun {
            self.warn(self.words().range_too_far);
        } else {
            self.say(self.words().range_begun);
        }
        Vec::new()
    }

    fn ask_all(&mut self) -> Vec<Effect> {
        let serial = self.next_serial();
        let list = &self.list;
        let browse = list.filter.browse(self.now, list.column, list.descending);
        vec![Effect::Ask(Ask::Keys(serial, Box::new(browse)))]
    }

    /// Opens a plan; acts on nothing.
    fn plan(&mut self, act: Act) -> Vec<Effect> {
        if let Some(off) = self.off(act) {
            return self.refuse(self.why_off(off));
        }
        let chosen = if self.looking.open {
            self.looking.guid.iter().cloned().collect()
        } else {
            self.list.chosen()
        };
        if chosen.is_empty() {
            return self.refuse(self.words().no_row);
        }
        if self.runs.iter().filter(|run| run.state == RunState::Going).count() >= limits::RUNS_MAX {
            return self.refuse(self.words().too_many_runs);
        }
        let serial = self.next_serial();
        let rows = chosen.len();
        self.mode = Mode::Planning(Plans { act: Some(act), serial, rows, done: 0 });
        vec![Effect::Ask(Ask::Plan(serial, act, chosen, self.busy()))]
    }

    fn busy(&self) -> HashMap<Guid, usize> {
        let going = self.runs.iter().filter(|run| run.state == RunState::Going);
        going
            .filter(|run| matches!(run.kind, Kind::Rows(_)))
            .flat_map(|run| run.planned.iter().map(|guid| (guid.clone(), run.number)))
            .collect()
    }

    fn plan_batch(&mut self) -> Vec<Effect> {
        let words = self.words();
        if !self.facts.outbox {
            return self.refuse(words.no_outbox);
        }
        if self.facts.read_only {
            return self.refuse(self.why_off(Off::ReadOnly));
        }
        if self.outbox.as_ref().is_some_and(|(outbox, _)| outbox.no_url) {
            return self.refuse(words.no_outbox_url);
        }
        if self.runs.iter().any(|r| r.kind == Kind::Dispatch && r.state == RunState::Going) {
            return self.refuse(words.too_many_runs);
        }
        let serial = self.next_serial();
        self.mode = Mode::Planning(Plans { act: None, serial, rows: 0, done: 0 });
        vec![Effect::Ask(Ask::OutboxPlan(serial))]
    }

    fn note(&mut self) -> Vec<Effect> {
        match self.note_target() {
            Ok(guid) => self.prompt(PromptKind::Note(guid)),
            Err(why) => self.refuse(why),
        }
    }

    fn note_target(&self) -> Result<Guid, String> {
        if self.facts.read_only {
            return Err(self.why_off(Off::ReadOnly));
        }
        if self.broken.is_some() {
            return Err(self.why_off(Off::Broken));
        }
        self.current().cloned().ok_or_else(|| self.words().no_row.to_owned())
    }

    fn reveal(&mut self) -> Vec<Effect> {
        match self.note_target() {
            Ok(guid) => vec![Effect::Ask(Ask::Reveal(guid))],
            Err(why) => self.refuse(why),
        }
    }

    fn stop_run(&mut self) -> Vec<Effect> {
        let run = self.runs.get_mut(self.run_at).filter(|run| run.state == RunState::Going);
        let Some(run) = run else { return self.refuse(self.words().no_run) };
        run.stopping = true;
        let number = run.number;
        self.say(self.words().stopping);
        vec![Effect::Stop(number)]
    }

    pub(super) fn ask_trail(&mut self) -> Vec<Effect> {
        match filter::trail(&self.trail.filter) {
            Ok(query) => vec![Effect::Ask(Ask::Trail(query, false))],
            Err(_) => Vec::new(),
        }
    }

    /// The place of the cursor in the history.
    #[must_use]
    pub fn trail_at(&self) -> usize {
        let lines = &self.trail.lines;
        let Some(cursor) = self.trail.cursor else { return 0 };
        // Ids descend; where the line is gone, the next older one.
        lines.partition_point(|line| line.id > cursor).min(lines.len().saturating_sub(1))
    }

    pub(super) fn keep_trail_in_sight(&mut self, at: usize) {
        let page = self.page();
        self.trail.top = self.trail.top.clamp((at + 1).saturating_sub(page), at);
    }

    fn move_in_trail(&mut self, by: isize) -> Vec<Effect> {
        let last = self.trail.lines.len().saturating_sub(1);
        let at = self.trail_at().saturating_add_signed(by).min(last);
        self.trail.cursor = self.trail.lines.get(at).map(|line| line.id);
        self.keep_trail_in_sight(at);
        let near_end = at + self.page() >= last && !self.trail.whole;
        let room = self.trail.lines.len() < limits::PAGE_ROWS_MAX * 10;
        match (filter::trail(&self.trail.filter), self.trail.lines.last()) {
            (Ok(mut query), Some(oldest)) if near_end && room => {
                query.before = Some(oldest.id);
                // Asked once: until the answer comes there is nothing older to ask for.
                self.trail.whole = true;
                vec![Effect::Ask(Ask::Trail(query, true))]
            }
            _ => Vec::new(),
        }
    }

    /// Why a routine is off, in words.
    #[must_use]
    pub fn why_off(&self, off: Off) -> String {
        let words = self.words();
        match off {
            Off::ReadOnly => words.off_read_only.to_owned(),
            Off::NoCore => words.off_no_core.to_owned(),
            Off::NoDays => words.off_no_days.to_owned(),
            Off::Broken => fill(words.off_broken, &[self.broken.as_deref().unwrap_or_default()]),
        }
    }

    /// Why a routine leaves a row out, in words.
    #[must_use]
    pub fn why_not(&self, act: Act, why: &WhyNot) -> String {
        let words = self.words();
        match (why, act) {
            (WhyNot::State(State::Unknown), Act::Reprocess) => words.why_unknown.to_owned(),
            (WhyNot::State(State::Unknown), Act::Purge) => words.why_not_final.to_owned(),
            (WhyNot::State(state), Act::Purge) => fill(words.why_not_done, &[state.as_str()]),
            (WhyNot::State(state), Act::Resolve) => fill(words.why_not_unknown, &[state.as_str()]),
            (WhyNot::State(state), Act::Reprocess) => fill(words.why_not_failed, &[state.as_str()]),
            (WhyNot::TooYoung { age_s, wait_s }, _) => fill(
                words.why_young,
                &[
                    &crate::console::text::age(*age_s),
                    words.act(act),
                    &crate::console::text::age(*wait_s),
                ],
            ),
            (WhyNot::OtherCode(code), _) => fill(words.why_code, &[code]),
            (WhyNot::Attempts { tried, most }, _) => {
                fill(words.why_attempts, &[&tried.to_string(), &most.to_string()])
            }
            (WhyNot::Unreadable, _) => words.why_unreadable.to_owned(),
            (WhyNot::Gone, _) => words.why_gone.to_owned(),
            (WhyNot::InRun(run), _) => fill(words.why_in_run, &[&run.to_string()]),
        }
    }
}
