//! A program in a terminal of its own. The terminal answers nothing, as a broken or slow one.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::support::wait::wait_until;

/// A console running in a pseudo-terminal.
pub struct Pty {
    pub child: Box<dyn Child + Send + Sync>,
    pub master: Option<Box<dyn MasterPty + Send>>,
    pub writer: Option<Box<dyn Write + Send>>,
    sent: Arc<Mutex<Vec<u8>>>,
    /// The reader lets go of the terminal at the next byte.
    pub closing: Arc<AtomicBool>,
}

impl Pty {
    /// The program on the ledger at `path`.
    pub fn open(path: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Pty {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_oncegate"));
        command.args(["--db", path.to_str().unwrap()]);
        command.args(arguments);
        command.cwd(path.parent().unwrap());
        Pty::run(command, environment)
    }

    /// Any program.
    pub fn run(mut command: CommandBuilder, environment: &[(&str, &str)]) -> Pty {
        let size = PtySize { rows: 36, cols: 120, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        command.env("LC_ALL", "C.UTF-8");
        command.env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR");
        command.env_remove("TMUX");
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let writer = pair.master.take_writer().unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&sent);
        let closing = Arc::new(AtomicBool::new(false));
        let is_closing = Arc::clone(&closing);
        std::thread::spawn(move || {
            let mut bytes = [0; 8_192];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                to.lock().unwrap().extend_from_slice(&bytes[..count]);
                if is_closing.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        Pty { child, master: Some(pair.master), writer: Some(writer), sent, closing }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.sent.lock().unwrap().clone()
    }

    pub fn parser(&self) -> vt100::Parser {
        let mut parser = vt100::Parser::new(36, 120, 0);
        parser.process(&self.bytes());
        parser
    }

    pub fn screen(&self) -> String {
        self.parser().screen().contents()
    }

    pub fn shows(&self, text: &str) {
        let end = Instant::now() + Duration::from_mins(1);
        while !self.screen().contains(text) {
            assert!(Instant::now() < end, "{text:?} never came:\n{}", self.screen());
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Waits until the screen does not show this any more.
    pub fn lets_go_of(&self, text: &str) {
        let end = Instant::now() + Duration::from_mins(1);
        while self.screen().contains(text) {
            assert!(Instant::now() < end, "{text:?} stays:\n{}", self.screen());
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    pub fn press(&mut self, bytes: &str) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(bytes.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    /// Confirms the plan whose button is on the screen, as a person does: not before it can be read. A key that comes while the
    /// dialog is still being drawn does nothing, and is pressed again.
    pub fn confirm(&mut self, button: &str, reason: &str, count: usize) {
        self.armed(button, reason, count);
        self.press("\t\r");
    }

    /// As [`Pty::confirm`], up to the last two keys.
    pub fn armed(&mut self, button: &str, reason: &str, count: usize) {
        self.shows(button);
        let end = Instant::now() + Duration::from_mins(1);
        while !self.screen().contains("> reason") {
            assert!(Instant::now() < end, "Tab does nothing:\n{}", self.screen());
            self.press("\t");
            let pause = Instant::now() + Duration::from_millis(300);
            while Instant::now() < pause && !self.screen().contains("> reason") {
                std::thread::park_timeout(Duration::from_millis(10));
            }
        }
        self.press(&format!("{reason}\t{count}"));
        self.shows(")  armed");
    }

    pub fn resize(&self, cols: u16, rows: u16) {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        self.master.as_ref().unwrap().resize(size).unwrap();
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.process_id().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn code(&mut self) -> u32 {
        let mut code = None;
        wait_until("the console ends", || {
            code = self.child.try_wait().unwrap().map(|status| status.exit_code());
            code.is_some()
        });
        code.unwrap()
    }

    /// The screen is left, the cursor is shown, pastes and mouse are off; in this order, and nothing asked the terminal.
    pub fn is_restored(&self) {
        wait_until("the terminal is left", || text(&self.bytes()).contains("\x1b[?1049l"));
        let bytes = text(&self.bytes());
        let end = bytes.rfind("\x1b[?1049l").unwrap();
        assert!(bytes[end..].contains("\x1b[?25h"), "the cursor is shown");
        assert!(bytes.rfind("\x1b[?2004l").unwrap() < end, "pastes are off");
        assert!(!bytes.contains("\x1b[6n"), "the terminal was asked for its cursor");
        for (on, off) in [("\x1b[?1000h", "\x1b[?1000l"), ("\x1b[?1006h", "\x1b[?1006l")] {
            assert_eq!(bytes.matches(on).count(), bytes.matches(off).count(), "the mouse");
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
