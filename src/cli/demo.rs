//! `oncegate demo`: runs the demo and says in a few lines what happened.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::args::Failure;
use super::out::Out;
use crate::clock::{Clock, SystemClock};
use crate::demo::{self, Outcome, Progress};

const EXAMPLES: &str = "\
It sets up everything itself: a simulated core that is not idempotent and misbehaves, a relay on a \
new ledger, and channels that resend and lose answers. Then it settles what is open, as an operator would with \
resolve and reprocess, and shows what the core counted. The ledger is kept; the last lines say where. On a terminal the operator's console then opens on it, \
with some transfers left stuck on purpose.

Examples:
  oncegate demo
  oncegate demo --headless

Exit codes: 0 no money moved more than once and everything is settled, 1 otherwise or it could not run, 2 usage.";

/// See it work: a core that misbehaves, channels that resend, and no double payment
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DemoArgs {
    /// Plain lines, no progress bar and no console
    #[arg(long)]
    headless: bool,
}

pub(super) fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let clock = SystemClock::new();
    let mut shown = Shown::new(args.headless || !std::io::stderr().is_terminal());
    let ran = demo::run(&mut |progress| shown.tell(progress));
    shown.bar.finish_and_clear();
    let outcome = ran.map_err(Failure::failed)?;
    let mut out = shown.out;
    out.lines(&report(&outcome, clock.monotonic()));
    let at_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if args.headless || !at_terminal || !outcome.is_good() {
        out.end().map_err(Failure::failed)?;
        return Ok(ExitCode::from(u8::from(!outcome.is_good())));
    }
    console(&outcome, out)
}

/// On a terminal the newcomer goes on as the operator, on the same ledger, with some rows left stuck for it.
fn console(outcome: &Outcome, mut out: Out) -> Result<ExitCode, Failure> {
    let drill = demo::leave_stuck(&outcome.ledger).map_err(Failure::failed)?;
    out.line("");
    out.line("Now eight transfers are left stuck on purpose. Enter opens the operator's console; q leaves it.");
    out.end().map_err(Failure::failed)?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(Failure::failed)?;
    let hint = "UNKNOWN: R asks the core. FAILED: P sends again. Space marks, ? helps, q leaves.";
    super::console_on(&outcome.ledger, &drill.core, "2", hint.to_owned())
}

/// How progress is shown: a bar on a terminal, a line per part elsewhere.
struct Shown {
    bar: ProgressBar,
    plain: bool,
    out: Out,
}

impl Shown {
    fn new(plain: bool) -> Shown {
        let style = ProgressStyle::with_template("{msg:<42} [{bar:30}] {pos}/{len}");
        let style = style.expect("our own template is well-formed");
        let bar = if plain { ProgressBar::hidden() } else { ProgressBar::new(0).with_style(style) };
        Shown { bar, plain, out: Out::new() }
    }

    fn tell(&mut self, progress: Progress) {
        match progress {
            Progress::Part(name, _) if self.plain => self.out.line(&format!("… {name}")),
            Progress::Part(name, steps) => {
                self.bar.set_length(steps as u64);
                self.bar.set_position(0);
                self.bar.set_message(name);
            }
            Progress::Step => self.bar.inc(1),
        }
    }
}

fn report(outcome: &Outcome, took: Duration) -> Vec<String> {
    let Outcome { sent, told, resolved, reprocessed, core, .. } = outcome;
    let db = outcome.ledger.display();
    let (channels, seconds) = (outcome.channels, took.as_secs_f64());
    let mut lines = vec![
        format!(
            "transfers asked for: {} (by {channels} channels, in {seconds:.1} s)",
            sent.transfers
        ),
        format!("telegrams sent: {}", sent.telegrams + told.telegrams),
        format!(
            "resends stopped: {} ({} got the stored answer, {} \"being processed\", {} \"unknown\"{})",
            sent.stopped() + told.stopped(),
            sent.replayed + told.replayed,
            sent.in_progress + told.in_progress,
            sent.unknown + told.unknown,
            other(sent.other + told.other)
        ),
        format!(
            "unknown -> settled: {} (resolve asked the core; nothing was sent)",
            resolved.done + resolved.failed
        ),
        format!(
            "never sent -> sent: {} ({} by their channel, {} by reprocess, under the same GUID)",
            sent.by_right + reprocessed.done,
            sent.by_right,
            reprocessed.done
        ),
        format!("refused by the core: {} (that is a result too)", told.refused),
        format!("not settled: {}", outcome.unsettled),
    ];
    if told.done != core.transfers {
        let (told, made) = (told.done, core.transfers);
        lines.push(format!("channels were told of {told} transfers, the core made {made}"));
    }
    lines.push(format!(
        "money moved more than once: {} (the core counted {} calls for {} GUIDs)",
        outcome.moved_more_than_once(),
        core.calls,
        core.by_guid.len()
    ));
    lines.push(format!("ledger: {db}"));
    let program = std::env::args().next().unwrap_or_else(|| "oncegate".to_owned());
    lines.push(format!("look at it: {program} list --db {db} --state DONE --limit 5"));
    lines
}

fn other(n: u64) -> String {
    if n == 0 { String::new() } else { format!(", {n} nothing in time") }
}
