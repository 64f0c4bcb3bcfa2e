//! The terminal: entered once, left by one idempotent [`stop`], whoever calls it: the end, an error, a panic, a signal.
//!
//! Asks the terminal nothing: no answer is ever waited for.

use std::io::{self, BufWriter, Stdout, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;

const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1000l";

/// What was switched on and has to be switched off again.
struct Entered {
    mouse: bool,
}

static ENTERED: Mutex<Option<Entered>> = Mutex::new(None);

/// The screen.
pub type Screen = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// Enters: raw mode, alternate screen, pastes marked, no cursor.
pub fn enter() -> io::Result<Screen> {
    switch_on()?;
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(64 * 1024, io::stdout())))
}

fn switch_on() -> io::Result<()> {
    let mut entered = ENTERED.lock().unwrap_or_else(PoisonError::into_inner);
    enable_raw_mode()?;
    *entered = Some(Entered { mouse: false });
    drop(entered);
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Hide)
}

/// Leaves: everything is as before. Does nothing if it has been left. Never fails: there may be no terminal any more.
pub fn stop() {
    let entered = ENTERED.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(Entered { mouse }) = entered else { return };
    let mut out = io::stdout();
    if mouse {
        let _ = out.write_all(MOUSE_OFF);
    }
    let _ = queue!(out, DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = out.flush();
    let _ = disable_raw_mode();
}

/// Listens to the mouse, or not any more.
pub fn mouse(on: bool) -> io::Result<()> {
    if let Some(entered) = ENTERED.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        entered.mouse = on;
    }
    let mut out = io::stdout();
    out.write_all(if on { MOUSE_ON } else { MOUSE_OFF })?;
    out.flush()
}

/// Hands a text to the terminal's clipboard. Whether it arrives, nobody tells.
pub fn copy(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    write!(out, "\x1b]52;c;{}\x1b\\", STANDARD.encode(text))?;
    out.flush()
}

/// The terminal's size: columns and lines. Asked of the kernel, not of the terminal.
#[must_use]
pub fn size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stdout().as_fd()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Draws every cell anew at the next drawing.
pub fn forget(screen: &mut Screen) -> io::Result<()> {
    let (columns, lines) = size().unwrap_or((80, 24));
    screen.resize(Rect::new(0, 0, columns, lines))
}

/// Stops the process as a shell's user expects, and enters again when it goes on. False: there is no shell to go back to.
pub fn suspend(screen: &mut Screen) -> io::Result<bool> {
    use rustix::process::{getpid, getsid};
    if getsid(None).is_ok_and(|session| session == getpid()) {
        return Ok(false);
    }
    let mouse_was_on =
        ENTERED.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|e| e.mouse);
    stop();
    // The default action: an orphaned group has it discarded, and we go on at once.
    signal_hook::low_level::raise(signal_hook::consts::SIGTSTP)?;
    switch_on()?;
    if mouse_was_on {
        mouse(true)?;
    }
    forget(screen)?;
    Ok(true)
}

/// Makes a panic of the main thread leave the terminal before it is told; a panic of another thread is not told here, for the
/// screen lives on: whoever started the thread says what became of it.
pub fn tell_panics() {
    let main = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == main {
            stop();
            before(info);
        }
    }));
}
