//! Waiting for a condition, with an end.

use std::time::{Duration, Instant};

/// How long a test waits for something that is sure to happen, on a slow machine too.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` holds; `what` is said if it never does.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "it did not happen: {what}");
        std::thread::park_timeout(PAUSE);
    }
}
