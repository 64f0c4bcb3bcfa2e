//! A test in a process of its own: with mounts or limits that the other tests must not have.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A user and mount namespace: mounts without being root, which vanish with the process.
pub const OWN_MOUNTS: &[&str] = &["unshare", "--user", "--map-root-user", "--mount"];

/// Says so even where the test runner keeps what tests print.
pub fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

/// Runs this test (its path within the suite) in a process of its own under `wrapper`; true in that process, false (when it is
/// through) in the first.
pub fn in_a_process_of_its_own(test: &str, wrapper: &[&str]) -> bool {
    if std::env::var_os("ONCEGATE_TEST_ALONE").is_some() {
        return true;
    }
    let able = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output();
    if !able.as_ref().is_ok_and(|output| output.status.success()) {
        skipped(test, &format!("`{}` does not work here: {able:?}", wrapper.join(" ")));
        return false;
    }
    let output = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("ONCEGATE_TEST_ALONE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// Mounts at `dir`.
pub fn mount(arguments: &[&str], dir: &Path) {
    assert!(Command::new("mount").args(arguments).arg(dir).status().unwrap().success());
}

/// Writes until the disk is full.
pub fn fill(path: &Path) {
    let mut filler = fs::File::create(path).unwrap();
    for piece in [1 << 16, 1 << 10, 1] {
        while filler.write_all(&vec![b'x'; piece]).is_ok() {}
    }
}
