//! What is copied: the GUID, a telegram as hex, its fields, everything. Masked fields stay masked unless they were revealed.

use super::{App, Effect};
use crate::console::export::{fields_text, masked_hex, row_text};
use crate::console::keys::Action;
use crate::console::text::fill;
use crate::engine::desk::Shown;
use crate::limits;

impl App {
    pub(super) fn copy(&mut self, action: Action) -> Vec<Effect> {
        let Some(guid) = self.current().cloned() else {
            self.warn(self.words().no_row);
            return Vec::new();
        };
        let text = match action {
            Action::CopyGuid => Some(guid.as_str().to_owned()),
            _ => self.copied(action, self.revealed.contains(&guid)),
        };
        let Some(text) = text else {
            self.warn(self.words().not_loaded);
            return Vec::new();
        };
        if text.len() > limits::COPY_BYTES_MAX {
            let (is, most) = (text.len().to_string(), limits::COPY_BYTES_MAX.to_string());
            self.warn(fill(self.words().copy_too_long, &[&is, &most]));
            return Vec::new();
        }
        let mut said = fill(self.words().copied, &[&text.len().to_string()]);
        if self.facts.tmux {
            said.push_str(self.words().copied_tmux);
        }
        self.say(said);
        vec![Effect::Copy(text)]
    }

    fn copied(&self, action: Action, revealed: bool) -> Option<String> {
        let Some(Shown::Row(detail)) = &self.looking.shown else { return None };
        if self.current() != self.looking.guid.as_ref() {
            return None;
        }
        Some(match action {
            Action::CopyHex => masked_hex(self.bytes(), self.fields(), revealed),
            Action::CopyDecoded => fields_text(self.fields(), revealed, self.words()),
            _ => row_text(detail, revealed, self.words()),
        })
    }
}
