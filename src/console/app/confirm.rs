//! The dialog between a plan and its run. Nothing in it happens by itself: Cancel has the focus, Tab moves, Enter acts on what
//! has the focus, and the action's button is dead until the number of rows has been typed.
//!
//! Keys that were typed before the dialog was drawn, and pasted text, do nothing.

use std::time::Duration;

use super::prompt::Edit;
use crate::console::input::{Code, Key};
use crate::console::outbox::Pending;
use crate::engine::desk::{Act, Plan};

/// What is being planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plans {
    /// The routine; none: a batch of the outbox.
    pub act: Option<Act>,
    /// The question whose answer is awaited.
    pub serial: u64,
    /// Rows that it is made for; none are counted of a batch.
    pub rows: usize,
    /// Rows that have been looked at.
    pub done: usize,
}

/// What has the focus, in the order of Tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Cancel: has it when the dialog opens.
    Cancel,
    /// The reason.
    Reason,
    /// The number of rows.
    Count,
    /// The action's button.
    Act,
}

impl Focus {
    const ALL: [Focus; 4] = [Focus::Cancel, Focus::Reason, Focus::Count, Focus::Act];

    fn moved(self, by: usize) -> Focus {
        let at = Focus::ALL.iter().position(|focus| *focus == self).unwrap_or(0);
        Focus::ALL[(at + by) % Focus::ALL.len()]
    }
}

/// What is to be confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A routine over rows.
    Rows(Plan),
    /// A batch of the outbox.
    Batch(Vec<Pending>),
}

/// The dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// What it is about.
    pub what: What,
    /// What has the focus.
    pub focus: Focus,
    /// The reason so far.
    pub reason: Edit,
    /// The number so far.
    pub count: Edit,
    /// When it was first drawn; until then no key counts.
    pub drawn_at: Option<Duration>,
    /// The first line shown.
    pub top: usize,
}

/// What a key in the dialog leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The dialog stays.
    Stays,
    /// It closes, nothing happens.
    Cancelled,
    /// The plan is confirmed, with this reason.
    Confirmed(Option<String>),
    /// The button was pressed and is not armed.
    NotArmed,
}

impl Confirm {
    /// A dialog that has just opened.
    #[must_use]
    pub fn new(what: What) -> Confirm {
        Confirm {
            what,
            focus: Focus::Cancel,
            reason: Edit::default(),
            count: Edit::default(),
            drawn_at: None,
            top: 0,
        }
    }

    /// The number of rows that will be taken.
    #[must_use]
    pub fn rows(&self) -> usize {
        match &self.what {
            What::Rows(plan) => plan.rows.len(),
            What::Batch(events) => events.len(),
        }
    }

    /// Whether the button acts: there are rows, and their number has been typed.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        let rows = self.rows();
        rows > 0 && self.count.text() == rows.to_string()
    }

    /// Takes a key that was read at `at`.
    pub fn key(&mut self, key: Key, at: Duration) -> Verdict {
        if self.drawn_at.is_none_or(|drawn_at| at <= drawn_at) {
            return Verdict::Stays;
        }
        match key.code {
            Code::Esc => return Verdict::Cancelled,
            Code::Char('c') if key.control => return Verdict::Cancelled,
            // With nothing to do there is nothing but Cancel.
            Code::Tab | Code::BackTab if self.rows() == 0 => {}
            Code::Tab => self.focus = self.focus.moved(1),
            Code::BackTab => self.focus = self.focus.moved(Focus::ALL.len() - 1),
            Code::Down => self.top += 1,
            Code::Up => self.top = self.top.saturating_sub(1),
            Code::PageDown => self.top += 10,
            Code::PageUp => self.top = self.top.saturating_sub(10),
            Code::Enter => return self.enter(),
            _ => self.typed(key),
        }
        Verdict::Stays
    }

    fn enter(&self) -> Verdict {
        match self.focus {
            Focus::Cancel => Verdict::Cancelled,
            Focus::Reason | Focus::Count => Verdict::Stays,
            Focus::Act if self.is_armed() => {
                let reason = self.reason.text();
                let reason = reason.trim();
                Verdict::Confirmed((!reason.is_empty()).then(|| reason.to_owned()))
            }
            Focus::Act => Verdict::NotArmed,
        }
    }

    fn typed(&mut self, key: Key) {
        match self.focus {
            Focus::Cancel | Focus::Act => {}
            Focus::Reason => self.reason.key(key),
            Focus::Count => {
                let is_digit = matches!(key.code, Code::Char(c) if c.is_ascii_digit());
                if is_digit || !matches!(key.code, Code::Char(_)) {
                    self.count.key(key);
                }
            }
        }
    }
}
