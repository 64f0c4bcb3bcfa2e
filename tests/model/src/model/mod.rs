//! The models: [`explore`] walks through all their states, [`relay`] is the ledger relay, [`outbox`] the outbox.

pub mod explore;
pub mod outbox;
pub mod relay;

use explore::{Counterexample, breaks};

/// A guard that was taken away, and the shortest way to what it prevents.
pub struct Missing {
    /// The guard: the word after "without" in a configuration's name.
    pub guard: String,
    pub example: Counterexample,
}

impl Missing {
    /// One line, as docs/guards.md has it.
    #[must_use]
    pub fn line(&self) -> String {
        let steps = self.example.steps.iter().map(|(action, _)| action.as_str());
        let steps = steps.collect::<Vec<_>>().join(" · ");
        format!("- `{}` {}: {steps}", self.guard, &self.example.property[..2])
    }
}

/// Each guard once: without it, the first property of its verdict breaks, in small configurations already.
#[must_use]
pub fn missing() -> Vec<Missing> {
    let mut all: Vec<Missing> = Vec::new();
    // The big ones have all guards.
    for of in relay::configurations().into_iter().filter(|of| of.size != relay::Size::Big) {
        let Some(guard) = guard(of.name, of.verdict, &all) else { continue };
        let example = breaks(&of.relay.small(), &of.verdict[..2]);
        all.extend(example.map(|example| Missing { guard, example }));
    }
    for (name, outbox, verdict) in outbox::configurations() {
        let Some(guard) = guard(name, verdict, &all) else { continue };
        let example = breaks(&outbox, &verdict[..2]);
        all.extend(example.map(|example| Missing { guard, example }));
    }
    all
}

/// The guard that a configuration is the first to take away.
fn guard(name: &str, verdict: &str, known: &[Missing]) -> Option<String> {
    let guard = name.strip_prefix("without ")?.split([' ', ',', ':']).next()?;
    let is_new = guard.contains('-') && known.iter().all(|missing| missing.guard != guard);
    (is_new && verdict != "PASS").then(|| guard.to_owned())
}
