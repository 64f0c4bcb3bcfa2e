//! Bytes of the terminal → keys and pastes. Pure: bytes and the length of a silence come in as values.
//!
//! crossterm's own reader is not used: after the beginning of a paste without its end it waits for ever, and after a hang-up it
//! spins. Here a paste ends with the silence that follows it, and what is no key of ours is passed over.

use std::time::Duration;

use crate::limits;

/// A key, as far as the console tells keys apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A character, with Shift already in it.
    Char(char),
    /// Enter.
    Enter,
    /// Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
    /// Esc.
    Esc,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// An arrow.
    Left,
    /// An arrow.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// A key that the console has no use for.
    Other,
}

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Which.
    pub code: Code,
    /// With Control.
    pub control: bool,
    /// With Alt; no binding has it.
    pub alt: bool,
}

impl Key {
    /// A key without Control and Alt.
    #[must_use]
    pub const fn plain(code: Code) -> Key {
        Key { code, control: false, alt: false }
    }

    /// A character.
    #[must_use]
    pub const fn char(c: char) -> Key {
        Key::plain(Code::Char(c))
    }

    /// A character with Control.
    #[must_use]
    pub const fn control(c: char) -> Key {
        Key { code: Code::Char(c), control: true, alt: false }
    }
}

/// What the terminal sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A key.
    Key(Key),
    /// Text that was pasted.
    Paste(String),
    /// The mouse's wheel: lines down (negative: up).
    Wheel(i8),
}

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Cuts the stream of bytes into inputs.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    pasting: bool,
}

impl Decoder {
    /// Takes bytes, returns what is complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Input> {
        self.bytes.extend_from_slice(bytes);
        let mut inputs = Vec::new();
        loop {
            if self.pasting {
                let Some(end) = find(&self.bytes, PASTE_ENDS) else { break };
                inputs.push(self.paste(end));
                self.bytes.drain(..PASTE_ENDS.len());
                continue;
            }
            match decode(&self.bytes) {
                Step::Paste => {
                    self.bytes.drain(..PASTE_BEGINS.len());
                    self.pasting = true;
                }
                Step::Take(used, input) => {
                    self.bytes.drain(..used);
                    inputs.extend(input);
                }
                Step::Wait => break,
            }
        }
        inputs
    }

    /// How long the stream may be silent before [`Decoder::end_of_silence`] is to be called; none: nothing is waited for.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        if self.pasting {
            Some(limits::PASTE_SILENCE)
        } else {
            (!self.bytes.is_empty()).then_some(limits::ESCAPE_SILENCE)
        }
    }

    /// The rest will not come: a lone ESC is the key, an open paste has ended.
    pub fn end_of_silence(&mut self) -> Vec<Input> {
        if self.pasting {
            let end = self.bytes.len();
            return vec![self.paste(end)];
        }
        let bytes = std::mem::take(&mut self.bytes);
        match bytes.as_slice() {
            [] => Vec::new(),
            [0x1b] => vec![Input::Key(Key::plain(Code::Esc))],
            [0x1b, b'['] => vec![Input::Key(Key { alt: true, ..Key::char('[') })],
            _ => vec![Input::Key(Key::plain(Code::Other))],
        }
    }

    fn paste(&mut self, end: usize) -> Input {
        let text: Vec<u8> = self.bytes.drain(..end).collect();
        self.pasting = false;
        Input::Paste(String::from_utf8_lossy(&text).into_owned())
    }
}

enum Step {
    /// More bytes are needed.
    Wait,
    /// A paste begins.
    Paste,
    /// So many bytes were this; none: nothing of use.
    Take(usize, Option<Input>),
}

fn decode(bytes: &[u8]) -> Step {
    let key = |used, code| Step::Take(used, Some(Input::Key(Key::plain(code))));
    match bytes {
        [] | [0x1b] => Step::Wait,
        [0x1b, b'[', rest @ ..] => sequence(rest),
        [0x1b, b'O', rest @ ..] => match rest.first() {
            None => Step::Wait,
            Some(last) => key(3, named(*last)),
        },
        // Two ESC: the first one was a key of its own.
        [0x1b, 0x1b, ..] => key(1, Code::Esc),
        [0x1b, ..] => match decode(&bytes[1..]) {
            Step::Take(used, Some(Input::Key(key))) => {
                Step::Take(used + 1, Some(Input::Key(Key { alt: true, ..key })))
            }
            Step::Take(used, input) => Step::Take(used + 1, input),
            other => other,
        },
        [b'\r' | b'\n', ..] => key(1, Code::Enter),
        [b'\t', ..] => key(1, Code::Tab),
        [0x7f | 0x08, ..] => key(1, Code::Backspace),
        [0, ..] => Step::Take(1, Some(Input::Key(Key::control(' ')))),
        [byte @ 1..=26, ..] => {
            Step::Take(1, Some(Input::Key(Key::control(char::from(byte - 1 + b'a')))))
        }
        [0x1c..=0x1f, ..] => key(1, Code::Other),
        [byte, ..] if byte.is_ascii() => key(1, Code::Char(char::from(*byte))),
        [first, ..] => character(bytes, *first),
    }
}

fn character(bytes: &[u8], first: u8) -> Step {
    let length = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Step::Take(1, Some(Input::Key(Key::plain(Code::Other)))),
    };
    if bytes.len() < length {
        return Step::Wait;
    }
    match std::str::from_utf8(&bytes[..length]).ok().and_then(|text| text.chars().next()) {
        Some(c) => Step::Take(length, Some(Input::Key(Key::char(c)))),
        None => Step::Take(1, Some(Input::Key(Key::plain(Code::Other)))),
    }
}

/// What follows `ESC [`, up to its last byte.
fn sequence(rest: &[u8]) -> Step {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        // No sequence is that long: give it up.
        return if rest.len() < 64 { Step::Wait } else { Step::Take(rest.len() + 2, None) };
    };
    let (parameters, last, used) = (&rest[..end], rest[end], end + 3);
    let modified = parameters.contains(&b';');
    let input = match (parameters, last) {
        (b"200", b'~') => return Step::Paste,
        (b"201", b'~') => None,
        ([b'<', wheel @ ..], b'M') if wheel.starts_with(b"64;") => Some(Input::Wheel(-3)),
        ([b'<', wheel @ ..], b'M') if wheel.starts_with(b"65;") => Some(Input::Wheel(3)),
        ([b'<', ..], _) => None,
        _ if modified => Some(Input::Key(Key::plain(Code::Other))),
        (_, b'~') => Some(Input::Key(Key::plain(match parameters {
            b"1" | b"7" => Code::Home,
            b"3" => Code::Delete,
            b"4" | b"8" => Code::End,
            b"5" => Code::PageUp,
            b"6" => Code::PageDown,
            _ => Code::Other,
        }))),
        (b"", b'Z') => Some(Input::Key(Key::plain(Code::BackTab))),
        (b"", last) => Some(Input::Key(Key::plain(named(last)))),
        // Answers of a terminal that somebody else has asked.
        _ => None,
    };
    Step::Take(used, input)
}

fn named(last: u8) -> Code {
    match last {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'H' => Code::Home,
        b'F' => Code::End,
        b'M' => Code::Enter,
        _ => Code::Other,
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Input> {
        let mut decoder = Decoder::default();
        let mut inputs = decoder.feed(bytes);
        inputs.extend(decoder.end_of_silence());
        inputs
    }

    fn plain(code: Code) -> Input {
        Input::Key(Key::plain(code))
    }

    #[test]
    fn what_the_usual_terminals_send_is_understood() {
        assert_eq!(keys(b"j"), [Input::Key(Key::char('j'))]);
        assert_eq!(keys("ㅓ".as_bytes()), [Input::Key(Key::char('ㅓ'))]);
        assert_eq!(keys(b"\x04"), [Input::Key(Key::control('d'))]);
        assert_eq!(keys(b"\x1b[A\x1bOB"), [plain(Code::Up), plain(Code::Down)]);
        assert_eq!(keys(b"\x1b[5~\x1b[6~"), [plain(Code::PageUp), plain(Code::PageDown)]);
        assert_eq!(
            keys(b"\x1b[Z\t\r\x7f"),
            [plain(Code::BackTab), plain(Code::Tab), plain(Code::Enter), plain(Code::Backspace)]
        );
        assert_eq!(keys(b"\x1b"), [plain(Code::Esc)]);
        assert_eq!(keys(b"\x1b\x1b"), [plain(Code::Esc), plain(Code::Esc)]);
        assert_eq!(keys(b"\x1bx"), [Input::Key(Key { alt: true, ..Key::char('x') })]);
    }

    #[test]
    fn a_sequence_may_come_byte_by_byte() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b"), []);
        assert_eq!(decoder.feed(b"["), []);
        assert_eq!(decoder.feed(b"5"), []);
        assert_eq!(decoder.feed(b"~"), [plain(Code::PageUp)]);
        assert_eq!(decoder.patience(), None);
    }

    #[test]
    fn pasted_text_is_never_keys_however_it_is_cut() {
        assert_eq!(keys(b"\x1b[200~RPX\n4\n\x1b[201~"), [Input::Paste("RPX\n4\n".to_owned())]);
        let mut decoder = Decoder::default();
        let mut inputs = Vec::new();
        for byte in b"\x1b[200~RPX\x1b[201~j" {
            inputs.extend(decoder.feed(&[*byte]));
        }
        assert_eq!(inputs, [Input::Paste("RPX".to_owned()), Input::Key(Key::char('j'))]);
    }

    // T16, codegraff#548: a paste without an end froze the keyboard.
    #[test]
    fn a_paste_that_never_ends_ends_with_the_silence() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b[200~P"), []);
        assert_eq!(decoder.patience(), Some(limits::PASTE_SILENCE));
        assert_eq!(decoder.end_of_silence(), [Input::Paste("P".to_owned())]);
        assert_eq!(decoder.feed(b"q"), [Input::Key(Key::char('q'))]);
    }

    #[test]
    fn answers_of_the_terminal_and_rubbish_are_no_keys_of_ours() {
        assert_eq!(keys(b"\x1b[12;40R"), [plain(Code::Other)]);
        assert_eq!(keys(b"\x1b[?1;2c"), [plain(Code::Other)]);
        assert_eq!(keys(b"\xff\xfe"), [plain(Code::Other), plain(Code::Other)]);
        assert_eq!(keys(b"\x1b[3;2~"), [plain(Code::Other)], "Shift+Delete");
        assert_eq!(keys(b"\x1b[<64;3;4M"), [Input::Wheel(-3)]);
    }
}
