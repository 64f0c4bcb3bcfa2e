//! `update`: one message in, effects out.

use std::time::Duration;

use super::confirm::{Verdict, What};
use super::{
    Answer, App, Ask, Confirm, Edit, Effect, Looking, Meaning, Menu, MenuKind, Mode, Msg, Pane,
    PromptKind, Run, RunNews, RunState, Tab,
};
use crate::console::input::{Code, Input, Key};
use crate::console::keys::{self, Action};
use crate::console::text::fill;
use crate::console::view;
use crate::engine::desk::{Lines, Shown};
use crate::guid::Guid;
use crate::ledger::LedgerError;
use crate::limits;

impl App {
    /// Takes a message in; returns what is wished for.
    pub fn update(&mut self, msg: Msg) -> Vec<Effect> {
        match msg {
            Msg::Input(Input::Key(key), at) => self.key(keys_by_mode(&self.mode, key), at),
            Msg::Input(Input::Paste(text), _) => self.paste(&text),
            Msg::Input(Input::Wheel(lines), _) => self.wheel(lines),
            Msg::Drawn(at) => {
                if let Mode::Confirming(confirm) = &mut self.mode {
                    confirm.drawn_at.get_or_insert(at);
                }
                Vec::new()
            }
            Msg::Resized(columns, lines) => self.resized(columns, lines),
            Msg::Tick => Vec::new(),
            Msg::Changed => {
                // Whatever else was wrong is over when an answer says so, and not because somebody asks again.
                self.trouble.take_if(|(what, _)| *what == LedgerError::Moved);
                if self.paused { Vec::new() } else { self.refresh() }
            }
            Msg::Answer(answer) => self.answer(answer),
            Msg::Trouble(what) => {
                (self.list.asked, self.list.owed) = (None, 0);
                let since = self.trouble.as_ref().map_or(self.now, |(_, since)| *since);
                self.trouble = Some((what, since));
                Vec::new()
            }
            Msg::Planning(serial, done) => {
                if let Mode::Planning(plans) = &mut self.mode
                    && plans.serial == serial
                {
                    plans.done = done;
                }
                Vec::new()
            }
            Msg::Run(number, news) => self.run_news(number, news),
            Msg::Broken(what) => {
                self.broken = Some(what);
                if matches!(self.mode, Mode::Confirming(_) | Mode::Planning(_)) {
                    self.mode = Mode::Normal;
                }
                Vec::new()
            }
            Msg::Refused(refused) => {
                self.warn(self.words().refused(&refused));
                Vec::new()
            }
        }
    }

    fn resized(&mut self, columns: u16, lines: u16) -> Vec<Effect> {
        self.size = (columns, lines);
        let page = self.page();
        if let Some(at) = self.list.at() {
            self.list.keep_in_sight(at, page);
        }
        Vec::new()
    }

    fn key(&mut self, key: Key, at: Duration) -> Vec<Effect> {
        if self.said.is_some() && matches!(self.mode, Mode::Normal) {
            self.said = None;
        }
        let is_interrupt = key == Key::control('c');
        let interrupted = std::mem::take(&mut self.interrupted);
        if is_interrupt && interrupted {
            return vec![Effect::Quit];
        }
        if is_interrupt {
            return self.interrupt();
        }
        match &mut self.mode {
            Mode::Normal => self.normal(key),
            Mode::Typing(_) => self.typing(key),
            Mode::Choosing(menu) => match (key.code, menu.kind.other()) {
                (Code::Tab | Code::BackTab | Code::Char('f'), Some(other)) => self.menu(other),
                _ => menu.key(key).map_or(Vec::new(), |chosen| self.chosen(chosen)),
            },
            Mode::Planning(_) => {
                if matches!(key.code, Code::Esc | Code::Char('q')) {
                    self.mode = Mode::Normal;
                    self.say(self.words().given_up);
                    return vec![Effect::GiveUp];
                }
                Vec::new()
            }
            Mode::Confirming(confirm) => {
                let verdict = confirm.key(key, at);
                self.keep_dialog_in_sight();
                self.verdict(verdict)
            }
            Mode::Help { .. } => self.help(key),
            Mode::AskQuit => {
                self.mode = Mode::Normal;
                match key.code {
                    Code::Char('y' | 'Y') => vec![Effect::Quit],
                    _ => Vec::new(),
                }
            }
        }
    }

    /// The first C-c closes what is open and says that a second one quits.
    fn interrupt(&mut self) -> Vec<Effect> {
        self.interrupted = true;
        let planning = matches!(self.mode, Mode::Planning(_));
        self.mode = Mode::Normal;
        self.pending.clear();
        self.warn(self.words().interrupt_again);
        if planning { vec![Effect::GiveUp] } else { Vec::new() }
    }

    fn normal(&mut self, key: Key) -> Vec<Effect> {
        self.pending.push(key);
        match self.keys.meaning(self.place(), &self.pending) {
            keys::Meaning::Does(action) => {
                self.pending.clear();
                self.act(action)
            }
            keys::Meaning::Begins => Vec::new(),
            keys::Meaning::Nothing => {
                let pending = std::mem::take(&mut self.pending);
                // Esc ends a sequence that was begun, and does nothing else then.
                if pending.len() > 1 && key.code != Code::Esc {
                    return self.normal(key);
                }
                Vec::new()
            }
        }
    }

    fn paste(&mut self, text: &str) -> Vec<Effect> {
        match &mut self.mode {
            Mode::Typing(prompt) => prompt.edit.paste(text),
            // Whatever is pasted elsewhere was not typed: it moves nothing and confirms nothing.
            Mode::Normal
            | Mode::Choosing(_)
            | Mode::Planning(_)
            | Mode::Confirming(_)
            | Mode::Help { .. }
            | Mode::AskQuit => self.warn(self.words().paste_ignored),
        }
        Vec::new()
    }

    fn wheel(&mut self, lines: i8) -> Vec<Effect> {
        if !self.look.mouse || !matches!(self.mode, Mode::Normal) {
            return Vec::new();
        }
        self.move_by(isize::from(lines))
    }

    fn help(&mut self, key: Key) -> Vec<Effect> {
        let Mode::Help { search, top } = &mut self.mode else { return Vec::new() };
        match key.code {
            Code::Esc => self.mode = Mode::Normal,
            Code::Char('q' | '?') if search.is_empty() => self.mode = Mode::Normal,
            Code::Down => *top += 1,
            Code::Up => *top = top.saturating_sub(1),
            Code::PageDown => *top += 10,
            Code::PageUp => *top = top.saturating_sub(10),
            Code::Backspace => {
                search.pop();
                *top = 0;
            }
            Code::Char(c) if !key.control && !key.alt => {
                search.push(c);
                *top = 0;
            }
            _ => {}
        }
        self.keep_dialog_in_sight();
        Vec::new()
    }

    /// A key that scrolls beyond the end must not have to be taken back.
    fn keep_dialog_in_sight(&mut self) {
        let most = match &self.mode {
            Mode::Confirming(confirm) => view::dialog::confirm_top_max(self, confirm),
            Mode::Help { search, .. } => view::help::top_max(self, search),
            Mode::Normal
            | Mode::Typing(_)
            | Mode::Choosing(_)
            | Mode::Planning(_)
            | Mode::AskQuit => return,
        };
        match &mut self.mode {
            Mode::Confirming(confirm) => confirm.top = confirm.top.min(most),
            Mode::Help { top, .. } => *top = (*top).min(most),
            Mode::Normal
            | Mode::Typing(_)
            | Mode::Choosing(_)
            | Mode::Planning(_)
            | Mode::AskQuit => {}
        }
    }

    fn verdict(&mut self, verdict: Verdict) -> Vec<Effect> {
        match verdict {
            Verdict::Stays => Vec::new(),
            Verdict::NotArmed => {
                self.warn(self.words().not_armed);
                Vec::new()
            }
            Verdict::Cancelled => {
                self.mode = Mode::Normal;
                self.say(self.words().cancelled);
                Vec::new()
            }
            Verdict::Confirmed(reason) => self.confirmed(reason),
        }
    }

    /// The only way to a run.
    fn confirmed(&mut self, reason: Option<String>) -> Vec<Effect> {
        // Taken out of the mode: a second Enter finds no dialog.
        let Mode::Confirming(confirm) = std::mem::replace(&mut self.mode, Mode::Normal) else {
            return Vec::new();
        };
        let number = self.next_run;
        self.next_run += 1;
        let (kind, planned) = match &confirm.what {
            What::Rows(plan) => {
                let rows = plan.rows.iter().map(|row| row.planned.guid.clone()).collect();
                (super::runs::Kind::Rows(plan.act), rows)
            }
            What::Batch(events) => {
                let ids = events.iter().map(|event| Guid::from_ledger(event.id.clone())).collect();
                (super::runs::Kind::Dispatch, ids)
            }
        };
        self.runs.insert(
            0,
            Run {
                number,
                kind,
                reason: reason.clone(),
                planned,
                began: self.now,
                state: RunState::Going,
                stopping: false,
                told: Vec::new(),
            },
        );
        (self.run_at, self.run_top) = (0, None);
        let text =
            fill(self.words().run_begins, &[&number.to_string(), &confirm.rows().to_string()]);
        self.say(text);
        vec![match confirm.what {
            What::Rows(plan) => Effect::Run(number, Box::new(plan), reason),
            What::Batch(events) => Effect::Dispatch(number, events),
        }]
    }

    fn run_news(&mut self, number: usize, news: RunNews) -> Vec<Effect> {
        let now = self.now;
        let Some(run) = self.runs.iter_mut().find(|run| run.number == number) else {
            return Vec::new();
        };
        let ended = matches!(news, RunNews::Ended(_));
        if let Some(settled) = run.take(news, now) {
            self.list.marks.remove(&settled);
        }
        if ended {
            let sum = run.sum();
            let failed = matches!(run.state, RunState::Failed(..));
            let numbers = [number, sum.done, sum.left, sum.skipped, sum.failed, run.planned.len()];
            let numbers = numbers.map(|number| number.to_string());
            let text = fill(self.words().run_ended, &numbers.each_ref().map(String::as_str));
            if failed {
                self.warn(text);
            } else {
                self.say(text);
            }
            return self.refresh();
        }
        Vec::new()
    }

    fn answer(&mut self, answer: Answer) -> Vec<Effect> {
        let is_of_the_ledger = matches!(
            answer,
            Answer::Lines(..) | Answer::Numbers(_) | Answer::Counts(_) | Answer::Trail(..)
        );
        if is_of_the_ledger {
            self.trouble.take_if(|(what, _)| *what != LedgerError::Moved);
        }
        match answer {
            Answer::Lines(serial, lines) => self.lines(serial, *lines),
            Answer::Shown(guid, shown) => {
                if self.looking.guid.as_ref() == Some(&guid) {
                    self.looking.shown = Some(shown);
                    self.looking.at = self.looking.at.min(self.bytes().len().saturating_sub(1));
                }
                Vec::new()
            }
            Answer::Numbers(numbers) => {
                self.counts = Some(numbers.counts.clone());
                self.numbers = Some((*numbers, self.now));
                Vec::new()
            }
            Answer::Counts(counts) => {
                self.counts = Some(*counts);
                Vec::new()
            }
            Answer::Keys(serial, keys) => self.mark_all(serial, keys),
            Answer::Meaning(serial, meaning) => self.meaning(serial, meaning),
            Answer::Plan(serial, plan) => self.planned(serial, plan.map(What::Rows)),
            Answer::OutboxPlan(serial, events) => self.planned(serial, Some(What::Batch(events))),
            Answer::Trail(lines, continues) => {
                self.take_trail(lines, continues);
                Vec::new()
            }
            Answer::Outbox(outbox) => {
                self.outbox_at = self.outbox_at.min(outbox.pending.len().saturating_sub(1));
                self.outbox = Some((*outbox, self.now));
                Vec::new()
            }
            Answer::Noted(guid) => {
                self.say(fill(self.words().noted, &[guid.as_str()]));
                self.refresh()
            }
            Answer::Revealed(guid) => {
                self.say(fill(self.words().revealed, &[guid.as_str()]));
                self.revealed.insert(guid);
                self.refresh()
            }
            Answer::Exported(rows, path) => {
                self.say(fill(self.words().exported, &[&rows.to_string(), &path]));
                Vec::new()
            }
        }
    }

    fn lines(&mut self, serial: u64, lines: Lines) -> Vec<Effect> {
        // A late answer to an older question must not bring back rows of another filter.
        if self.list.asked != Some(serial) {
            return Vec::new();
        }
        self.list.asked = None;
        // Of the same moment as the list: header and list never disagree.
        self.counts = Some(lines.counts.clone());
        let (now, page) = (self.now, self.page());
        self.list.take(lines, now, page);
        match std::mem::take(&mut self.list.owed) {
            0 => self.look_at_cursor(),
            owed => self.move_in_list(owed),
        }
    }

    /// Asks for the row under the cursor, unless it is the one that is looked at.
    pub(super) fn look_at_cursor(&mut self) -> Vec<Effect> {
        let Some(guid) = self.list.cursor.clone() else {
            if !self.looking.open {
                self.looking = Looking::default();
            }
            return Vec::new();
        };
        if self.looking.guid.as_ref() != Some(&guid) && !self.looking.open {
            self.looking = Looking {
                guid: Some(guid.clone()),
                pane: self.looking.pane,
                response: self.looking.response,
                ..Looking::default()
            };
        }
        vec![Effect::Ask(Ask::Detail(self.looking.guid.clone().unwrap_or(guid)))]
    }

    fn mark_all(&mut self, serial: u64, keys: Vec<Guid>) -> Vec<Effect> {
        if self.serial != serial {
            return Vec::new();
        }
        if keys.len() > limits::MARKS_MAX {
            let most = limits::MARKS_MAX.to_string();
            self.warn(fill(self.words().too_many, &[&most]));
            return Vec::new();
        }
        let text = fill(self.words().marked_all, &[&keys.len().to_string()]);
        self.list.marks = keys.into_iter().collect();
        self.say(text);
        Vec::new()
    }

    fn meaning(&mut self, serial: u64, meaning: Meaning) -> Vec<Effect> {
        if self.serial != serial {
            return Vec::new();
        }
        match meaning {
            Meaning::Guid(word) => self.list.filter.guid = Some(word),
            Meaning::TxCode(word) => self.list.filter.tx_code = Some(word),
            Meaning::Reason(word) => self.list.filter.reason = Some(word),
        }
        self.reload()
    }

    fn planned(&mut self, serial: u64, what: Option<What>) -> Vec<Effect> {
        match (&self.mode, what) {
            (Mode::Planning(plans), Some(what)) if plans.serial == serial => {
                self.mode = Mode::Confirming(Box::new(Confirm::new(what)));
            }
            // Given up meanwhile.
            _ => {}
        }
        Vec::new()
    }

    fn take_trail(&mut self, lines: Vec<crate::ledger::HistoryLine>, continues: bool) {
        self.trail.whole = lines.len() < limits::TRAIL_ROWS;
        self.trail.as_of = Some(self.now);
        if continues {
            self.trail.lines.extend(lines);
        } else {
            self.trail.lines = lines;
        }
        let at = self.trail_at();
        self.trail.cursor = self.trail.lines.get(at).map(|line| line.id);
        self.keep_trail_in_sight(at);
    }

    /// The row is opened alone.
    pub(super) fn open(&mut self, guid: Guid) -> Vec<Effect> {
        self.tab = Tab::Ledger;
        let keep = self.looking.guid.as_ref() == Some(&guid);
        let shown: Option<Shown> = self.looking.shown.take().filter(|_| keep);
        self.looking =
            Looking { guid: Some(guid.clone()), shown, open: true, ..Looking::default() };
        self.looking.pane = Pane::Facts;
        vec![Effect::Ask(Ask::Detail(guid))]
    }

    fn typing(&mut self, key: Key) -> Vec<Effect> {
        let Mode::Typing(prompt) = &mut self.mode else { return Vec::new() };
        match key.code {
            Code::Esc => {
                self.mode = Mode::Normal;
                Vec::new()
            }
            Code::Enter => {
                let (kind, text) = (prompt.kind.clone(), prompt.edit.text());
                self.typed(kind, text.trim())
            }
            Code::Tab if prompt.kind == PromptKind::Command => {
                if let Some(whole) = super::act::completed(&prompt.edit.text()) {
                    prompt.edit = Edit::of(&whole);
                }
                Vec::new()
            }
            _ => {
                prompt.edit.key(key);
                prompt.complaint = None;
                Vec::new()
            }
        }
    }

    fn chosen(&mut self, chosen: Option<usize>) -> Vec<Effect> {
        let Mode::Choosing(Menu { kind, .. }) = std::mem::replace(&mut self.mode, Mode::Normal)
        else {
            return Vec::new();
        };
        match (kind, chosen) {
            (_, None) => Vec::new(),
            (MenuKind::States, Some(at)) => self.choose_states(at),
            (MenuKind::Ages, Some(at)) => self.choose_age(at),
            (MenuKind::Export, Some(at)) => self.export(at),
        }
    }

    /// Asks again for what is on the screen.
    pub fn refresh(&mut self) -> Vec<Effect> {
        let mut effects = match self.tab {
            Tab::Overview => vec![Effect::Ask(Ask::Numbers)],
            Tab::Ledger | Tab::Runs => self.ask_lines(),
            Tab::Outbox if self.facts.outbox => vec![Effect::Ask(Ask::Outbox)],
            Tab::Outbox => Vec::new(),
            Tab::History => self.ask_trail(),
        };
        if matches!(self.tab, Tab::Outbox | Tab::History) {
            // The header's counts are on every screen; the others bring them with what they show.
            effects.push(Effect::Ask(Ask::Counts));
        }
        if self.looking.open
            && let Some(guid) = self.looking.guid.clone()
        {
            effects.push(Effect::Ask(Ask::Detail(guid)));
        }
        effects
    }

    pub(super) fn ask_lines(&mut self) -> Vec<Effect> {
        let serial = self.next_serial();
        let list = &mut self.list;
        list.asked = Some(serial);
        let browse = list.filter.browse(self.now, list.column, list.descending);
        vec![Effect::Ask(Ask::Lines(serial, Box::new(browse), list.part()))]
    }

    /// From the start, with another filter or order.
    pub(super) fn reload(&mut self) -> Vec<Effect> {
        (self.list.cursor, self.list.spot, self.list.top) = (None, None, 0);
        (self.list.range, self.list.by_hand, self.list.owed) = (None, true, 0);
        // Rows of another filter under the name of the new one would be a lie, however short.
        (self.list.lines, self.list.as_of) = (Lines::default(), None);
        self.ask_lines()
    }

    /// Whether `action` is bound to what was pressed so far: for the line that shows what may follow.
    #[must_use]
    pub fn may_follow(&self) -> Vec<(Action, String)> {
        let pending = &self.pending;
        self.keys
            .all()
            .filter(|(action, keys)| {
                !pending.is_empty()
                    && keys.starts_with(pending)
                    && keys::binding(*action).is_in(self.place())
            })
            .map(|(action, _)| (action, self.keys.spelled(action)))
            .collect()
    }
}

/// In command mode a key is read by its place on the keyboard; in text it is what it is.
fn keys_by_mode(mode: &Mode, key: Key) -> Key {
    match mode {
        Mode::Normal | Mode::Choosing(_) | Mode::Planning(_) | Mode::AskQuit => {
            keys::by_position(key)
        }
        Mode::Typing(_) | Mode::Confirming(_) | Mode::Help { .. } => key,
    }
}
