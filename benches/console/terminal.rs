//! The console in a pseudo-terminal: keys go in, screens come out, each byte with the time at which it came.

use std::io::{Read as _, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::Anyhow;

const COLUMNS: u16 = 120;
const LINES: u16 = 36;
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of one drawing follow each other sooner than this.
const GAP: Duration = Duration::from_millis(5);

/// A console that runs.
pub struct Console {
    child: Box<dyn Child + Send + Sync>,
    writer: Box<dyn Write + Send>,
    _master: Box<dyn MasterPty + Send>,
    came: Receiver<(Instant, Vec<u8>)>,
    parser: vt100::Parser,
    asked: Instant,
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Console {
    /// Starts one on the ledger at `path`.
    pub fn open(path: &Path, arguments: &[&str]) -> Anyhow<Console> {
        let size = PtySize { rows: LINES, cols: COLUMNS, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size)?;
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_oncegate"));
        command.arg("--db");
        command.arg(path);
        command.args(arguments);
        command.env("LC_ALL", "C.UTF-8");
        command.env("TERM", "xterm-256color");
        command.env_remove("TMUX");
        let asked = Instant::now();
        let child = pair.slave.spawn_command(command)?;
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader()?;
        let (send, came) = channel();
        thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if send.send((Instant::now(), bytes[..count].to_vec())).is_err() {
                    break;
                }
            }
        });
        let writer = pair.master.take_writer()?;
        let parser = vt100::Parser::new(LINES, COLUMNS, 0);
        Ok(Console { child, writer, _master: pair.master, came, parser, asked })
    }

    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap_or(0)
    }

    pub fn screen(&self) -> String {
        self.parser.screen().contents()
    }

    /// Presses keys, after all that came before was taken in.
    pub fn press(&mut self, keys: &str) -> Anyhow<()> {
        while let Ok((_, bytes)) = self.came.try_recv() {
            self.parser.process(&bytes);
        }
        self.asked = Instant::now();
        self.writer.write_all(keys.as_bytes())?;
        self.writer.flush()?;
        Ok(())
    }

    /// How many milliseconds after it was asked for the screen was as it is waited for.
    pub fn until(&mut self, is_there: impl Fn(&str) -> bool) -> Anyhow<f64> {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let (at, bytes) = match self.came.recv_timeout(left) {
                Ok(came) => came,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(
                        format!("the screen never came; this is it:\n{}", self.screen()).into()
                    );
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("the console ended:\n{}", self.screen()).into());
                }
            };
            self.parser.process(&bytes);
            if is_there(&self.screen()) {
                let last = self.rest_of_the_drawing(at);
                return Ok((last - self.asked).as_secs_f64() * 1e3);
            }
        }
    }

    /// Takes in what follows at once; returns when the last of it came.
    fn rest_of_the_drawing(&mut self, mut last: Instant) -> Instant {
        while let Ok((at, bytes)) = self.came.recv_timeout(GAP) {
            self.parser.process(&bytes);
            last = at;
        }
        last
    }

    /// Takes in what comes within this time; returns how many bytes that was.
    pub fn rest(&mut self, span: Duration) -> usize {
        let end = Instant::now() + span;
        let mut count = 0;
        while let Ok((_, bytes)) =
            self.came.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            count += bytes.len();
            self.parser.process(&bytes);
        }
        count
    }

    /// Quits it as an operator does.
    pub fn quit(mut self) -> Anyhow<()> {
        self.press("\x03\x03")?;
        self.child.wait()?;
        Ok(())
    }
}
