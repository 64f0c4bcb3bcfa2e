//! The orphan sweep's thread: once at start, then every few seconds. It also closes connections to the core that idle.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chrono::TimeDelta;
use tracing::{info, warn};

use crate::core_api::HttpCore;
use crate::engine::age::Ages;
use crate::engine::orphans::Sweep;
use crate::engine::relay::Relay;
use crate::ledger::owner::LockFiles;
use crate::limits;

pub(super) struct Sweeper {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Sweeper {
    /// Stops after the sweep in hand.
    pub(super) fn stop(self) {
        drop(self.stop);
        // A panic there has been reported by the panic hook.
        let _ = self.thread.join();
    }
}

pub(super) fn start(
    relay: &Arc<Relay>,
    locks: LockFiles,
    core: Arc<HttpCore>,
    orphan_after: Duration,
) -> io::Result<Sweeper> {
    let relay = Arc::clone(relay);
    let orphan_after = TimeDelta::from_std(orphan_after).unwrap_or(TimeDelta::MAX);
    // Before the first claim: a jump is seen only against an earlier look.
    if let Err(error) = Ages::look(&*relay.ledger, &*relay.clock, relay.owner.as_str()) {
        warn!("the clock could not be compared with the ledger's notes: {error}");
    }
    let (stop, stopped) = channel::<()>();
    let sweep = move || {
        loop {
            sweep(&relay, &locks, orphan_after);
            core.reap();
            if stopped.recv_timeout(limits::SWEEP_PAUSE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("orphan-sweep".to_owned()).spawn(sweep)?;
    Ok(Sweeper { stop, thread })
}

fn sweep(relay: &Relay, locks: &LockFiles, orphan_after: TimeDelta) {
    let sweep = Sweep {
        ledger: &*relay.ledger,
        owners: locks,
        layout: &relay.layout,
        clock: &*relay.clock,
        own: &relay.owner,
        given_up: &relay.given_up,
        orphan_after,
    };
    match sweep.run() {
        Ok(swept) => {
            for guid in swept {
                info!(%guid, "orphan: taken over from a claimant that will not record its result");
            }
        }
        Err(error) => warn!("the orphan sweep will try again: {error}"),
    }
    if let Err(error) = locks.remove_unnamed() {
        warn!("can't look for lock files that were never used: {error}");
    }
}
