//! Drawing alone: the state of a console on the million rows, drawn without a terminal behind it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use chrono::TimeDelta;
use oncegate::clock::{Clock, SystemClock};
use oncegate::console::app::{App, Effect, Facts, Look, Msg};
use oncegate::console::input::Decoder;
use oncegate::console::keys::Keymap;
use oncegate::console::theme::Theme;
use oncegate::console::words::Lang;
use oncegate::console::{view, work};
use oncegate::engine::desk::{Desk, Settings};
use oncegate::ledger::sqlite::{Access, Hooks, SqliteLedger};
use oncegate::telegram::Layout;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::Anyhow;
use crate::figures;

const BOUND_MS: f64 = 5.0;
const TIMES: usize = 200;

/// Draws the list with the row beside it, the row alone and the overview, each many times.
pub fn measure(ledger: &Path) -> Anyhow<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (ledger, _) =
        SqliteLedger::open(ledger, Access::Read, Arc::clone(&clock), Hooks::default())?;
    let settings = Settings {
        min_age: TimeDelta::seconds(60),
        attempts_max: 3,
        days: None,
        who: "ops@bank".to_owned(),
        read_only: true,
    };
    let layout = Layout::std128();
    let desk = Desk { ledger: Arc::new(ledger), core: None, layout, clock, locks: None, settings };
    let mut app = app(&desk);
    for (name, keys) in [("list", ""), ("row", "\r"), ("overview", "1")] {
        press(&mut app, &desk, keys);
        for (columns, lines) in [(120, 36), (240, 70)] {
            take(&mut app, &desk, Msg::Resized(columns, lines));
            let name = format!("draw: {name}, {columns}x{lines}");
            figures::line(&name, "ms", &drawn(&app), Some(BOUND_MS));
        }
    }
    Ok(())
}

fn app(desk: &Desk) -> App {
    let facts = Facts {
        ledger: "ledger.db".to_owned(),
        who: desk.settings.who.clone(),
        off: [None; 3],
        read_only: true,
        outbox: false,
        min_age_s: 60,
        days: None,
        attempts_max: 3,
        tmux: false,
        hint: None,
    };
    let look =
        Look { lang: Lang::En, theme: Theme::Dark, ascii: false, local: false, mouse: false };
    let mut app = App::new(facts, Keymap::default(), look, (120, 36), desk.clock.now());
    let effects = app.refresh();
    carry_out(&mut app, desk, effects);
    app
}

fn press(app: &mut App, desk: &Desk, keys: &str) {
    for input in Decoder::default().feed(keys.as_bytes()) {
        take(app, desk, Msg::Input(input, desk.clock.monotonic()));
    }
}

fn take(app: &mut App, desk: &Desk, msg: Msg) {
    let effects = app.update(msg);
    carry_out(app, desk, effects);
}

fn carry_out(app: &mut App, desk: &Desk, effects: Vec<Effect>) {
    for effect in effects {
        if let Effect::Ask(ask) = effect {
            take(app, desk, work::answer(desk, None, &ask));
        }
    }
}

/// Milliseconds of each drawing into an empty buffer, every cell of it.
fn drawn(app: &App) -> Vec<f64> {
    let (columns, lines) = app.size;
    (0..TIMES)
        .map(|_| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, columns, lines));
            let begun = Instant::now();
            view::draw(app, &mut buffer);
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect()
}
