//! The simulated core, asked by the real client: each trick does what it says, and nothing is idempotent.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oncegate::clock::SystemClock;
use oncegate::core_api::simulated::{SimulatedConfig, SimulatedCore};
use oncegate::core_api::{Core, HttpCore, HttpCoreConfig};
use oncegate::telegram::Layout;

use crate::support::calls::{request, told, told_inquiry};

const GUID: &str = "20261129ONCEGATE00000000000001";
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

fn start(slow: Duration, db: Option<PathBuf>) -> std::io::Result<SimulatedCore> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    SimulatedCore::start(
        listener,
        SimulatedConfig { slow, db, clock: Arc::new(SystemClock::new()) },
    )
}

fn client(core: &SimulatedCore, read_timeout: Duration) -> HttpCore {
    let config = HttpCoreConfig {
        url: core.url().parse().expect("a URL"),
        connect_timeout: LONG,
        read_timeout,
        idle_max: LONG,
        layout: Layout::std128(),
        clock: Arc::new(SystemClock::new()),
    };
    HttpCore::new(config).expect("a core")
}

#[test]
fn every_trick_answers_processes_and_counts_as_it_says() {
    for (memo, outcome, transfers, inquiry) in [
        ("rent", "done", 1, "known"),
        ("SLOW rent", "done", 1, "known"),
        ("SLOWLY", "done", 1, "known"),
        ("RESET", "unknown: connection reset", 1, "known"),
        ("HALF", "unknown: half an answer: connection closed after ", 1, "known"),
        ("GARBAGE", "unknown: no HTTP: ", 1, "known"),
        ("E500 rent", "unknown: HTTP 500: {", 1, "known"),
        ("E503", "unknown: HTTP 503: {\"code\":\"BUSY\"}", 0, "absent"),
        ("REJECT", "refused C051", 0, "absent"),
        ("LATE", "done", 1, "known"),
        ("REDIRECT", "unknown: HTTP 307", 0, "absent"),
        ("MISMATCH", "unknown: another GUID in the answer", 1, "known"),
    ] {
        let core = start(SHORT, None).expect("a core");
        let client = client(&core, LONG);
        let begin = Instant::now();
        let told = told(&client.transfer(&request(GUID, memo)));
        let word = memo.split(' ').next().expect("a word");
        assert!(told.starts_with(outcome), "{memo}: {told}");
        assert!(begin.elapsed() >= SHORT || !["SLOW", "LATE"].contains(&word), "{memo}");
        assert_eq!(told_inquiry(&client.inquire(&request(GUID, memo))), inquiry, "{memo}");
        let stats = core.stats();
        assert_eq!((stats.calls, stats.transfers, stats.inquiries), (1, transfers, 1), "{memo}");
        assert_eq!(stats.by_guid, BTreeMap::from([(GUID.to_owned(), 1)]), "{memo}");
    }
}

#[test]
fn the_same_transfer_twice_is_made_twice() {
    let core = start(SHORT, None).expect("a core");
    let client = client(&core, LONG);
    for _ in 0..2 {
        assert_eq!(told(&client.transfer(&request(GUID, "rent"))), "done");
    }
    let stats = core.stats();
    assert_eq!((stats.calls, stats.transfers, stats.by_guid[GUID]), (2, 2, 2));
}

#[test]
fn a_late_transfer_is_absent_until_it_is_made_though_the_caller_has_gone() {
    let core = start(Duration::from_secs(2), None).expect("a core");
    let hasty = client(&core, SHORT);
    let call = told(&hasty.transfer(&request(GUID, "LATE")));
    drop(hasty);
    assert_eq!(call, "unknown: read timeout after 0.2 s");
    let patient = client(&core, LONG);
    let inquire = || told_inquiry(&patient.inquire(&request(GUID, "LATE")));
    assert_eq!((inquire(), core.stats().transfers), ("absent".to_owned(), 0));
    let end = Instant::now() + LONG;
    while inquire() == "absent" {
        assert!(Instant::now() < end, "it was never made");
    }
    assert_eq!((inquire(), core.stats().transfers), ("known".to_owned(), 1));
}

#[test]
fn statistics_are_served_as_json() {
    let core = start(SHORT, None).expect("a core");
    told(&client(&core, LONG).transfer(&request("A-1/?", "rent")));
    assert_eq!(told_inquiry(&client(&core, LONG).inquire(&request("A-1/?", "rent"))), "known");
    let url = format!("{}/_stats", core.url());
    let stats =
        ureq::get(&url).call().expect("statistics").body_mut().read_to_string().expect("text");
    assert_eq!(stats, r#"{"calls":1,"transfers":1,"inquiries":1,"by_guid":{"A-1/?":1}}"#);
}

#[test]
fn a_request_that_is_no_order_is_refused_and_counted() {
    let core = start(SHORT, None).expect("a core");
    for body in ["", "[]", "{}", r#"{"guid":1}"#, "{\"guid\":"] {
        let error = ureq::post(core.url() + "/v1/transfers").send(body).expect_err("refused");
        assert!(matches!(error, ureq::Error::StatusCode(400)), "{body}: {error}");
    }
    let error = ureq::delete(core.url() + "/v1/transfers/1").call().expect_err("refused");
    assert!(matches!(error, ureq::Error::StatusCode(405)), "{error}");
    let stats = core.stats();
    assert_eq!((stats.calls, stats.transfers, stats.by_guid.len()), (5, 0, 0));
}

#[test]
fn a_stopped_core_refuses() {
    let core = start(LONG, None).expect("a core");
    let client = client(&core, LONG);
    assert_eq!(told(&client.transfer(&request(GUID, "rent"))), "done");
    let refused = format!("not sent: connect refused: {}", core.address());
    core.stop();
    assert_eq!(told(&client.transfer(&request(GUID, "rent"))), refused);
}

#[test]
fn transfers_survive_a_restart_with_a_file_and_not_without() {
    let folder = tempfile::tempdir().expect("a folder");
    for (db, inquiry, transfers) in
        [(Some(folder.path().join("core.jsonl")), "known", 2), (None, "absent", 0)]
    {
        let core = start(SHORT, db.clone()).expect("a core");
        let first = client(&core, LONG);
        for _ in 0..2 {
            assert_eq!(told(&first.transfer(&request(GUID, "rent"))), "done");
        }
        let before = body_of_inquiry(&core);
        core.stop();
        let core = start(SHORT, db).expect("a core");
        assert_eq!(core.stats().transfers, transfers);
        assert_eq!(told_inquiry(&client(&core, LONG).inquire(&request(GUID, "rent"))), inquiry);
        assert_eq!(body_of_inquiry(&core) == before, transfers > 0);
    }
}

fn body_of_inquiry(core: &SimulatedCore) -> Option<String> {
    let answer = ureq::get(format!("{}/v1/transfers/{GUID}", core.url())).call();
    answer.ok().map(|mut answer| answer.body_mut().read_to_string().expect("text"))
}

/// A file with one posting in it.
fn written(path: &Path) {
    let core = start(SHORT, Some(path.to_owned())).expect("a core");
    assert_eq!(told(&client(&core, LONG).transfer(&request(GUID, "rent"))), "done");
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::File::options().append(true).create(true).open(path).expect("a file");
    file.write_all(bytes).expect("written");
}

#[test]
fn a_torn_last_line_is_cut_off_and_another_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let torn = folder.path().join("torn");
    written(&torn);
    let whole = std::fs::read(&torn).expect("a file");
    append(&torn, &whole[..whole.len() / 2]);
    let core = start(SHORT, Some(torn.clone())).expect("a core");
    assert_eq!((core.stats().transfers, std::fs::read(&torn).expect("a file")), (1, whole));

    for bytes in ["minutes of the meeting\n", "minutes of the meeting", "{}\n"] {
        let other = folder.path().join("minutes");
        std::fs::write(&other, bytes).expect("written");
        let error = start(SHORT, Some(other.clone())).err().expect("refused").to_string();
        assert!(error.contains("minutes: ") && error.contains("no posting"), "{error}");
        assert_eq!(std::fs::read_to_string(&other).expect("a file"), bytes);
    }
}

#[test]
fn two_cores_do_not_share_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("core.jsonl");
    let first = start(SHORT, Some(path.clone())).expect("a core");
    let error = start(SHORT, Some(path.clone())).err().expect("refused").to_string();
    assert!(error.contains("another core is using it"), "{error}");
    drop(first);
    assert!(start(SHORT, Some(path)).is_ok());
}

#[test]
fn a_thousand_slow_calls_take_as_long_as_one() {
    let core = start(Duration::from_secs(1), None).expect("a core");
    let client = client(&core, LONG);
    let (client, begin) = (&client, Instant::now());
    std::thread::scope(|scope| {
        for n in 0..1000 {
            let call = move || {
                assert_eq!(told(&client.transfer(&request(&format!("G{n}"), "SLOW"))), "done");
            };
            std::thread::Builder::new()
                .stack_size(128 * 1024)
                .spawn_scoped(scope, call)
                .expect("a thread");
        }
    });
    assert!(begin.elapsed() < LONG / 2, "{:?}", begin.elapsed());
    assert_eq!(core.stats().transfers, 1000);
}
