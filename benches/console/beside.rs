//! The relay's p99 beside an open console, compared with the same relay without one.
//!
//! One relay serves a copy of the million rows all the time, and turns of load alternate: a turn alone, a turn beside a console on
//! the list (which loads its window anew whenever the ledger has changed), a turn beside one on the overview. The ratio is of
//! neighbouring turns.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::figures;
use crate::load::{self, Load, Tongue};
use crate::subjects::{self, Process};
use crate::terminal::Console;
use crate::{Anyhow, Options};

const RATIO_MAX: f64 = 1.2;

/// How the relay is loaded: connections that ask again at once.
const LOADS: [usize; 2] = [8, 64];

/// Measures and prints.
pub fn measure(ledger: &Path, options: &Options) -> Anyhow<()> {
    let copy = copied(ledger)?;
    let core = subjects::core("0")?;
    let core_at = core.address("http").ok_or("the core has no address")?;
    let relay = Process::start(&mut subjects::oncegate(&copy, &format!("http://{core_at}")))?;
    let at = relay.address("tcp").ok_or("the relay has no TCP front")?;
    let mut serial = 0;
    let mut turn = |connections: usize, seconds: f64| -> Anyhow<f64> {
        serial += 1;
        let taken = load::run(&Load {
            tongue: Tongue::Tcp,
            at,
            connections,
            span: Duration::from_secs_f64(seconds),
            memo: "RENT",
            serial,
            replay: false,
            questions_max: u64::MAX,
        })?;
        Ok(taken.p99.as_secs_f64() * 1e3)
    };
    for connections in LOADS {
        turn(connections, 1.0)?;
        let (mut alone, mut ratios) = (Vec::new(), [Vec::new(), Vec::new()]);
        let mut beside = [Vec::new(), Vec::new()];
        for _ in 0..options.rounds {
            let without = turn(connections, options.seconds)?;
            alone.push(without);
            for (at, keys) in ["", "1"].into_iter().enumerate() {
                let mut console = Console::open(&copy, &[])?;
                console.until(|screen| screen.contains("What you can do"))?;
                console.press(keys)?;
                let with = turn(connections, options.seconds)?;
                console.quit()?;
                beside[at].push(with);
                ratios[at].push(with / without);
            }
        }
        let of = format!("relay, {connections} connections");
        figures::line(&format!("{of}: p99 alone"), "ms", &alone, None);
        for (at, name) in ["list", "overview"].into_iter().enumerate() {
            figures::line(&format!("{of}: p99 beside the {name}"), "ms", &beside[at], None);
            figures::line(&format!("{of}: beside / alone"), "x", &ratios[at], Some(RATIO_MAX));
        }
    }
    drop(relay);
    std::fs::remove_dir_all(copy.parent().ok_or("the copy has no folder")?)?;
    Ok(())
}

fn copied(ledger: &Path) -> Anyhow<PathBuf> {
    let folder = ledger.with_extension("copy");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let copy = folder.join("ledger.db");
    std::fs::copy(ledger, &copy)?;
    Ok(copy)
}
