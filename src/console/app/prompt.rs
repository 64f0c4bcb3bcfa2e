//! Text that is typed, and short lists to choose from. While one is open, no key reaches the table.

use unicode_segmentation::UnicodeSegmentation;

use crate::console::input::{Code, Key};
use crate::guid::Guid;
use crate::limits;

/// A line of text with a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Edit {
    before: String,
    after: String,
}

impl Edit {
    /// With this text, the cursor behind it.
    #[must_use]
    pub fn of(text: &str) -> Edit {
        Edit { before: text.to_owned(), after: String::new() }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}", self.before, self.after)
    }

    /// The text before the cursor and the text behind it.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        (&self.before, &self.after)
    }

    /// Takes a key.
    pub fn key(&mut self, key: Key) {
        match key.code {
            Code::Char('u') if key.control => self.before.clear(),
            Code::Char('w') if key.control => {
                let keep = self.before.trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.before.truncate(keep);
            }
            Code::Char(c) if !key.control && !key.alt => self.insert(c),
            Code::Backspace => {
                let last = self.before.grapheme_indices(true).next_back().map(|(at, _)| at);
                self.before.truncate(last.unwrap_or(0));
            }
            Code::Delete => {
                let first = self.after.graphemes(true).next().map_or(0, str::len);
                self.after.drain(..first);
            }
            Code::Left => {
                if let Some((at, _)) = self.before.grapheme_indices(true).next_back() {
                    self.after.insert_str(0, &self.before.split_off(at));
                }
            }
            Code::Right => {
                let first = self.after.graphemes(true).next().map_or(0, str::len);
                self.before.extend(self.after.drain(..first));
            }
            Code::Home => {
                self.after = self.text();
                self.before.clear();
            }
            Code::End => {
                self.before = self.text();
                self.after.clear();
            }
            _ => {}
        }
    }

    fn insert(&mut self, c: char) {
        if self.before.chars().count() + self.after.chars().count() < limits::TYPED_CHARS_MAX {
            self.before.push(c);
        }
    }

    /// Takes pasted text: one line, without what would drive a terminal.
    pub fn paste(&mut self, text: &str) {
        text.chars().filter(|c| !c.is_control()).for_each(|c| self.insert(c));
    }
}

/// What is typed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// A filter of the list or the history.
    Filter,
    /// A command.
    Command,
    /// A note on this row.
    Note(Guid),
}

/// A line being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What for.
    pub kind: PromptKind,
    /// The line.
    pub edit: Edit,
    /// What is wrong with it.
    pub complaint: Option<String>,
}

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MenuKind {
    /// Which states the list shows.
    States,
    /// Rows of which age the list shows.
    Ages,
    /// What is exported, and how.
    Export,
}

impl MenuKind {
    /// The other half of the filter, where there is one.
    #[must_use]
    pub const fn other(self) -> Option<MenuKind> {
        match self {
            MenuKind::States => Some(MenuKind::Ages),
            MenuKind::Ages => Some(MenuKind::States),
            MenuKind::Export => None,
        }
    }
}

/// A short list to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Menu {
    /// What is chosen.
    pub kind: MenuKind,
    /// The lines.
    pub lines: Vec<String>,
    /// The line that has the cursor.
    pub at: usize,
}

impl Menu {
    /// Takes a key; the line that was chosen. Esc and `q` close it: `None` inside.
    pub fn key(&mut self, key: Key) -> Option<Option<usize>> {
        match key.code {
            Code::Down | Code::Char('j') => self.at = (self.at + 1).min(self.lines.len() - 1),
            Code::Up | Code::Char('k') => self.at = self.at.saturating_sub(1),
            Code::Enter => return Some(Some(self.at)),
            Code::Esc | Code::Char('q') => return Some(None),
            Code::Char(c) => {
                let at = c.to_digit(10).and_then(|digit| (digit as usize).checked_sub(1));
                return at.filter(|at| *at < self.lines.len()).map(Some);
            }
            _ => {}
        }
        None
    }
}
