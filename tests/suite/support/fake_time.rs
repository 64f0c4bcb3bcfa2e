//! Clocks that are set while programs run, without touching the machine's.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

/// A wall clock that a test sets: for processes, by libfaketime.
pub struct FakeTime {
    library: &'static str,
    setting: PathBuf,
    ahead_s: AtomicI64,
}

impl FakeTime {
    const LIBRARIES: [&'static str; 3] = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib64/faketime/libfaketimeMT.so.1",
    ];

    /// None where libfaketime is not installed.
    pub fn new(folder: &Path) -> Option<FakeTime> {
        let there = |library: &&str| Path::new(library).exists();
        let library = FakeTime::LIBRARIES.into_iter().find(there)?;
        let setting = folder.join("wall-clock");
        let time = FakeTime { library, setting, ahead_s: AtomicI64::default() };
        time.set(0);
        Some(time)
    }

    /// How far it is ahead of the true time, in seconds.
    pub fn ahead_s(&self) -> i64 {
        self.ahead_s.load(Ordering::Relaxed)
    }

    /// Sets it so far ahead of the true time (negative: back), in seconds, for every process at once.
    pub fn set(&self, ahead_s: i64) {
        self.ahead_s.store(ahead_s, Ordering::Relaxed);
        // Whole, at once: the processes read it all the time.
        let new = self.setting.with_extension("new");
        std::fs::write(&new, format!("{ahead_s:+}\n")).expect("a file");
        std::fs::rename(new, &self.setting).expect("its name");
    }

    /// What a process has to find in its environment.
    pub fn environment(&self) -> [(String, &str); 4] {
        let setting = self.setting.to_str().expect("a name in UTF-8");
        [
            ("LD_PRELOAD", self.library),
            ("FAKETIME_TIMESTAMP_FILE", setting),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }
}

/// Removes what libfaketime leaves in shared memory of a process that was killed: the next process with its number would not start.
pub fn forget(pid: u32) {
    for name in ["faketime_shm", "sem.faketime_sem"] {
        let _ = std::fs::remove_file(format!("/dev/shm/{name}_{pid}"));
    }
}
