//! Standard output for commands: a reader that has gone (`| head`) is no error; any other failure to write is.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};

use serde_json::Value;

use crate::visible::is_hidden;

/// Writes lines until the reader goes.
pub(super) struct Out {
    gone: bool,
    failed: Option<io::Error>,
}

impl Out {
    pub(super) fn new() -> Out {
        Out { gone: false, failed: None }
    }

    /// Writes one line at once, so that who reads along sees it.
    pub(super) fn line(&mut self, text: &str) {
        self.bytes(format!("{text}\n").as_bytes());
    }

    /// Writes lines.
    pub(super) fn lines(&mut self, lines: &[String]) {
        for line in lines {
            self.line(line);
        }
    }

    /// Writes a JSON value in one line.
    pub(super) fn json(&mut self, value: &Value) {
        self.line(&json_line(value));
    }

    /// Writes bytes at once.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if self.gone {
            return;
        }
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            self.gone = true;
            if error.kind() != ErrorKind::BrokenPipe {
                self.failed = Some(error);
            }
        }
    }

    /// Whether nobody reads any more: who goes on writing works for nothing.
    pub(super) fn gone(&self) -> bool {
        self.gone
    }

    /// The failure to write, if there was one.
    pub(super) fn end(self) -> io::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}

/// JSON in one line. What a terminal would act upon or hide is escaped as JSON escapes, so that a program reads the very text
/// and a terminal is not driven by it.
pub(super) fn json_line(value: &Value) -> String {
    let plain = value.to_string();
    let mut line = String::with_capacity(plain.len());
    for c in plain.chars() {
        if c == '\x7f' || is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(line, "\\u{unit:04x}").expect("a String takes whatever is written to it");
            }
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_the_same_text_and_drives_no_terminal() {
        let text = "a\u{1b}\u{7f}\u{9b}\u{202e}\u{e0001}\"월세";
        let line = json_line(&Value::from(text));
        assert_eq!(line, "\"a\\u001b\\u007f\\u009b\\u202e\\udb40\\udc01\\\"월세\"");
        assert_eq!(serde_json::from_str::<String>(&line).ok().as_deref(), Some(text));
    }
}
