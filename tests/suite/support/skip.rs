//! What this machine can't show.

use std::io::Write as _;

/// Says so even where the test runner keeps what tests print: a test that was left out has not passed.
pub fn skipped(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}: {why}");
}
