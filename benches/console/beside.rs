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

/// What stands open beside the relay: nothing, or a console after these keys, once it shows this.
const WAYS: [(&str, Option<(&str, &str)>); 3] = [
    ("alone", None),
    ("beside the list", Some(("", "What you can do"))),
    ("beside the overview", Some(("1", "one snapshot"))),
];

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
        let mut p99_ms: [Vec<f64>; 3] = Default::default();
        for round in 0..options.rounds {
            // Each round begins with another one: the machine's moods fall on all of them.
            for at in 0..WAYS.len() {
                let way = (at + round) % WAYS.len();
                let console =
                    WAYS[way].1.map(|(keys, sign)| watching(&copy, keys, sign)).transpose()?;
                p99_ms[way].push(turn(connections, options.seconds)?);
                console.map_or(Ok(()), Console::quit)?;
            }
        }
        let of = format!("relay, {connections} connections");
        let [alone, others @ ..] = &p99_ms;
        figures::line(&format!("{of}: p99 alone"), "ms", alone, None);
        for ((name, _), beside) in WAYS.iter().skip(1).zip(others) {
            let ratios: Vec<f64> =
                beside.iter().zip(alone).map(|(with, without)| with / without).collect();
            figures::line(&format!("{of}: p99 {name}"), "ms", beside, None);
            figures::line("  of what it is alone", "x", &ratios, Some(RATIO_MAX));
        }
    }
    drop(relay);
    std::fs::remove_dir_all(copy.parent().ok_or("the copy has no folder")?)?;
    Ok(())
}

fn watching(ledger: &Path, keys: &str, sign: &str) -> Anyhow<Console> {
    let mut console = Console::open(ledger, &[])?;
    console.until(|screen| screen.contains("What you can do"))?;
    console.press(keys)?;
    console.until(|screen| screen.contains(sign))?;
    Ok(console)
}

fn copied(ledger: &Path) -> Anyhow<PathBuf> {
    let folder = ledger.with_extension("copy");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let copy = folder.join("ledger.db");
    std::fs::copy(ledger, &copy)?;
    Ok(copy)
}
