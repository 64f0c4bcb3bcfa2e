//! Random numbers from a seed that is printed, so that a failure can be had again (as far as threads allow).

use std::time::{SystemTime, UNIX_EPOCH};

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each run, or that of `ONCEGATE_SEED`; printed first.
    pub fn seeded(test: &str) -> Random {
        let given = std::env::var("ONCEGATE_SEED").ok();
        let seed = given.map_or_else(now, |seed| seed.parse().expect("ONCEGATE_SEED is a number"));
        println!("{test}: ONCEGATE_SEED={seed}");
        Random(seed)
    }

    /// A sequence that follows from this one, for a thread.
    pub fn fork(&mut self) -> Random {
        Random(self.next())
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("it is below a usize")
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    u64::try_from(since.as_micros()).expect("this millennium")
}
