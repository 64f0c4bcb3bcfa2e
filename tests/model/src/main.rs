//! Explores the models and compares each verdict with the one that is written down. Exit code 1 on a surprise.

use std::process::ExitCode;
use std::time::Instant;

mod model;

use model::explore::{Found, Model, explore};
use model::relay::Size;

/// What was asked for on the command line.
struct Wishes {
    traces: bool,
    guards: bool,
    big: bool,
    name: Option<String>,
}

impl Wishes {
    fn read() -> Wishes {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let says = |flag: &str| words.iter().any(|word| word == flag);
        let name = words.iter().find(|word| !word.starts_with("--")).cloned();
        Wishes { traces: says("--traces"), guards: says("--guards"), big: says("--big"), name }
    }

    fn takes(&self, name: &str) -> bool {
        self.name.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }
}

fn main() -> ExitCode {
    let wishes = Wishes::read();
    if wishes.guards {
        for missing in model::missing() {
            println!("{}", missing.line());
        }
        return ExitCode::SUCCESS;
    }
    let (mut explored, mut surprises) = (0, 0);
    let relays = model::relay::configurations().into_iter();
    for of in relays.filter(|of| wishes.takes(of.name) && (wishes.big || of.size != Size::Big)) {
        explored += 1;
        surprises += u32::from(!run("relay", of.name, &of.relay, of.verdict, wishes.traces));
    }
    for (name, outbox, verdict) in model::outbox::configurations() {
        if wishes.takes(name) {
            explored += 1;
            surprises += u32::from(!run("outbox", name, &outbox, verdict, wishes.traces));
        }
    }
    println!("{explored} configurations, {surprises} surprises");
    ExitCode::from(u8::from(surprises > 0))
}

/// Explores one; whether its verdict is the one that was expected.
fn run<M: Model>(part: &str, name: &str, model: &M, expected: &str, traces: bool) -> bool {
    let begun = Instant::now();
    let found = explore(model);
    let Found { states, moves, .. } = &found;
    let (seconds, verdict) = (begun.elapsed().as_secs_f64(), found.verdict());
    println!("{part}: {name:<66} {states:>9} states {moves:>10} moves {seconds:>6.1} s  {verdict}");
    if traces {
        tell(&found);
    }
    if verdict != expected {
        println!("    expected {expected}");
    }
    verdict == expected
}

fn tell(found: &Found) {
    for example in &found.counterexamples {
        println!("    {}", example.property);
        for (at, (action, state)) in example.steps.iter().enumerate() {
            println!("      {:>2} {action:<22} {state}", at + 1);
        }
    }
}
