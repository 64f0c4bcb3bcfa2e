//! What the machine says of a process and of its disk.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// User and system time of a process, in seconds.
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold blanks: fields count from behind it.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = |at: usize| {
        behind.split_whitespace().nth(at).and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / 100.0
}

/// Resident memory of a process now, in MiB.
pub fn memory_mib(pid: u32) -> f64 {
    mib_of(pid, "VmRSS:")
}

/// What `/proc/PID/status` says under a name, in MiB.
pub fn mib_of(pid: u32, name: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or("");
    let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// How often a second 4 KiB can be appended to a file and synced, one after the other: what bounds a ledger without group commit.
pub fn syncs_per_second(directory: &Path, span: Duration) -> io::Result<f64> {
    let path = directory.join("syncs");
    let mut file = File::create(&path)?;
    let (start, mut n) = (Instant::now(), 0.0);
    while start.elapsed() < span {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        n += 1.0;
    }
    let rate = n / start.elapsed().as_secs_f64();
    fs::remove_file(path)?;
    Ok(rate)
}
