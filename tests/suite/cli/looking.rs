//! `list`, `show` and `counts`.

use serde_json::Value;

use super::program::{LedgerFile, Put, command, read_one_line, run};

const EVIL: &str = "G\u{1b}[2J\u{202e}evil\u{200b}";

fn some_rows() -> LedgerFile {
    LedgerFile::with(&[
        Put::new("20260928MOB3", "UNKNOWN", 8_040),
        Put {
            code: Some("E902"),
            seen: Some("connection refused"),
            ..Put::new("20260928MOB2", "FAILED", 300)
        },
        Put { code: Some("0000"), ..Put::new("20260928MOB1", "DONE", 9_000) },
        Put::new("20260928ATM1", "SENT", 1),
    ])
}

/// The GUIDs of a list in JSON, in order.
fn guids(args: &[&str]) -> Vec<String> {
    let ran = run(&[args, &["--json"]].concat());
    let lines = ran.printed(0).lines();
    lines
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["guid"].as_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn a_list_shows_what_is_stuck_oldest_first() {
    let ledger = some_rows();
    let path = ledger.path();
    assert_eq!(guids(&["list", "--db", &path]), ["20260928MOB3", "20260928MOB2", "20260928ATM1"]);
    assert_eq!(guids(&["list", "--db", &path, "--state", "DONE"]), ["20260928MOB1"]);
    assert_eq!(guids(&["list", "--db", &path, "--state", "failed,SENT,failed"]).len(), 2);
    assert_eq!(
        guids(&["list", "--db", &path, "--guid", "20260928MOB"]),
        ["20260928MOB1", "20260928MOB3", "20260928MOB2"]
    );
    assert_eq!(
        guids(&["list", "--db", &path, "--guid", "20260928MOB", "--state", "UNKNOWN"]),
        ["20260928MOB3"]
    );
    assert_eq!(guids(&["list", "--db", &path, "--older-than", "200"]).len(), 2);
    assert_eq!(guids(&["list", "--db", &path, "--limit", "1"]), ["20260928MOB3"]);
}

#[test]
fn a_line_has_all_its_columns() {
    let ledger = some_rows();
    let ran = run(&["list", "--db", &ledger.path(), "--state", "UNKNOWN,FAILED"]);
    let lines: Vec<&str> = ran.printed(0).lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(lines[0].starts_with("STATE     AGE"));
    let failed = words(lines[2]);
    assert_eq!(failed[..3], ["FAILED", "5", "min"]);
    for word in ["20260928MOB2", "TRF00100", "E902", "1", "150000", "connection", "refused"] {
        assert!(failed.iter().any(|w| w == word), "no {word} in {failed:?}");
    }
}

#[test]
fn json_lines_have_these_keys() {
    let ledger = some_rows();
    let ran = run(&["list", "--db", &ledger.path(), "--state", "FAILED", "--json"]);
    let mut value: Value = serde_json::from_str(ran.printed(0)).unwrap();
    let age = value["age_seconds"].take().as_i64().unwrap();
    assert!((300..400).contains(&age), "{age}");
    let updated_at = value["updated_at"].take();
    assert_eq!(updated_at.as_str().unwrap().len(), "2026-09-28 00:00:00".len());
    let rest = r#"{"guid":"20260928MOB2","tx_code":"TRF00100","state":"FAILED","rsp_code":"E902","attempts":1,"updated_at":null,"age_seconds":null,"amount":150000,"reason":"connection refused"}"#;
    assert_eq!(value.to_string(), rest);
}

#[test]
fn csv_is_quoted_and_holds_no_formula() {
    let rows = [
        Put { seen: Some("a, \"b\""), ..Put::new("=HYPERLINK(1)", "UNKNOWN", 60) },
        Put::new("+G", "UNKNOWN", 30),
    ];
    let ledger = LedgerFile::with(&rows);
    let ran = run(&["list", "--db", &ledger.path(), "--csv"]);
    let lines: Vec<&str> = ran.printed(0).lines().collect();
    assert_eq!(
        lines[0],
        "guid,tx_code,state,rsp_code,attempts,updated_at,age_seconds,amount,reason"
    );
    assert!(lines[1].starts_with("'=HYPERLINK(1),TRF00100,UNKNOWN,,1,"), "{}", lines[1]);
    assert!(lines[1].ends_with(",150000,\"a, \"\"b\"\"\""), "{}", lines[1]);
    assert!(lines[2].starts_with("'+G,"), "{}", lines[2]);
}

#[test]
fn what_would_drive_a_terminal_is_made_visible() {
    let rows = [Put { seen: Some("\u{1b}]0;x\u{7}\u{9b}"), ..Put::new(EVIL, "UNKNOWN", 60) }];
    let ledger = LedgerFile::with(&rows);
    let db = ledger.path();
    for args in [
        &["list", "--db", &db][..],
        &["list", "--db", &db, "--csv"],
        &["list", "--db", &db, "--json"],
        &["show", EVIL, "--db", &db],
        &["show", EVIL, "--db", &db, "--json"],
        &["show", EVIL, "--db", &db, "--hex"],
    ] {
        let ran = run(args);
        let bad = |c: char| (c.is_control() && c != '\n') || oncegate::visible::is_hidden(c);
        assert_eq!(ran.printed(0).chars().find(|c| bad(*c)), None, "{args:?}: {ran:?}");
    }
    assert!(run(&["list", "--db", &db]).out.contains("G^[[2J\\u{202e}evil\\u{200b}"));
    assert_eq!(guids(&["list", "--db", &db]), [EVIL]);
    let absent = run(&["show", "\u{1b}[2J", "--db", &db]);
    absent.failed(1, &["no transfer ^[[2J"]);
}

#[test]
fn nothing_that_matches_is_one_line_on_stderr() {
    let ledger = LedgerFile::new();
    for more in [&[][..], &["--json"], &["--csv"], &["--fail-if-any"], &["--guid", "\u{1b}"]] {
        let ran = run(&[&["list", "--db", &ledger.path()], more].concat());
        assert_eq!((ran.code, ran.out.as_str()), (0, ""));
        assert!(ran.err.starts_with("oncegate: no transfer in "), "{ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
        assert!(!ran.err.contains('\u{1b}'));
    }
}

#[test]
fn fail_if_any_exits_3_when_a_row_was_printed() {
    let ledger = some_rows();
    let db = ledger.path();
    run(&["list", "--db", &db, "--state", "UNKNOWN", "--fail-if-any"]).printed(3);
    let old = ["--older-than", "9000", "--fail-if-any"];
    assert_eq!(run(&[&["list", "--db", &db], &old[..]].concat()).code, 0);
}

#[test]
fn a_list_longer_than_a_page_is_whole_and_in_order_and_a_closed_pipe_ends_it_quietly() {
    let names: Vec<String> = (0..2_500).map(|n| format!("G{n:04}")).collect();
    let rows: Vec<Put<'_>> =
        names.iter().zip(0_u32..).map(|(name, n)| Put::new(name, "FAILED", 5_000 - n)).collect();
    let ledger = LedgerFile::with(&rows);
    let db = ledger.path();
    assert_eq!(guids(&["list", "--db", &db]), names);
    assert_eq!(guids(&["list", "--db", &db, "--limit", "1700"]), names[..1_700]);
    let (first, code, err) = read_one_line(&["list", "--db", &db, "--json"]);
    assert!(first.contains("G0000"), "{first}");
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

#[test]
fn show_says_in_words_what_is_true_and_what_to_do() {
    let rows = [
        Put {
            code: Some("E901"),
            seen: Some("read timeout after 3.0 s"),
            ..Put::new("G1", "UNKNOWN", 8_050)
        },
        Put { code: Some("E902"), ..Put::new("G2", "FAILED", 60) },
        Put::new("G3", "SENT", 60),
        Put::new("G4", "RECEIVED", 60),
        Put { code: Some("0000"), ..Put::new("G5", "DONE", 60) },
        Put { code: Some("C051"), ..Put::new("G6", "DONE", 60) },
    ];
    let ledger = LedgerFile::with(&rows);
    let db = ledger.path();
    let show = |guid: &str| run(&["show", guid, "--db", &db]).printed(0).to_owned();
    let unknown = show("G1");
    assert!(
        unknown.contains(
            "UNKNOWN for 2 h 14 min: read timeout after 3.0 s; the core may have done it"
        )
    );
    assert!(unknown.contains(&format!("oncegate resolve --db {db} --core URL --guid G1")));
    assert!(unknown.contains("SENT -> UNKNOWN     relay"), "{unknown}");
    assert!(unknown.contains("memo        월세 3월분"), "{unknown}");
    for (guid, words) in [
        ("G2", &["certainly not sent", "oncegate reprocess"][..]),
        ("G3", &["a call is under way", "next: wait"]),
        ("G4", &["not sent yet"]),
        ("G5", &["the core has done it", "next: nothing"]),
        ("G6", &["refused it", "C051 refused by the core with its own code"]),
    ] {
        let shown = show(guid);
        for word in words {
            assert!(shown.contains(word), "no {word:?} in {shown}");
        }
    }
}

#[test]
fn accounts_are_masked_everywhere_unless_they_are_revealed() {
    let ledger = some_rows();
    let db = ledger.path();
    let account = "110123456789";
    let hex = "31 31 30 31 32 33";
    for form in [&[][..], &["--hex"], &["--json"]] {
        let show = [&["show", "20260928MOB3", "--db", &db], form].concat();
        let masked = run(&show);
        assert!(!masked.printed(0).contains(account) && !masked.out.contains(hex), "{masked:?}");
        let revealed = run(&[&show[..], &["--reveal"]].concat());
        assert!(
            revealed.printed(0).contains(account) || revealed.out.contains(hex),
            "{revealed:?}"
        );
    }
    for form in [&[][..], &["--csv"], &["--json"]] {
        let list = run(&[&["list", "--db", &db], form].concat());
        assert!(!list.printed(0).contains(account));
    }
}

#[test]
fn raw_writes_the_bytes_themselves() {
    let ledger = some_rows();
    let raw = |which: &str| {
        let args = ["show", "20260928MOB3", "--db", &ledger.path(), "--raw", which];
        command(&args).output().unwrap()
    };
    let request = raw("request");
    assert!(request.status.success());
    assert_eq!(request.stdout, include_bytes!("../../vectors/req_euckr.bin"));
    let response = raw("response");
    assert_eq!((response.status.code(), response.stdout.len()), (Some(1), 0));
    assert!(
        String::from_utf8_lossy(&response.stderr).contains("no response: the transfer is UNKNOWN")
    );
}

#[test]
fn a_request_that_is_no_telegram_is_shown_all_the_same() {
    let rows = [Put { request: b"\x1b[2Jjunk".to_vec(), ..Put::new("G1", "UNKNOWN", 60) }];
    let ledger = LedgerFile::with(&rows);
    let ran = run(&["show", "G1", "--db", &ledger.path()]);
    assert!(ran.printed(0).contains("request, 8 bytes"), "{ran:?}");
    run(&["list", "--db", &ledger.path()]).printed(0);
}

#[test]
fn what_is_not_there_is_said_and_what_was_purged_too() {
    let ledger = some_rows();
    let db = ledger.path();
    run(&["show", "NONE", "--db", &db]).failed(1, &["no transfer NONE", &db]);
    assert_eq!(run(&["purge", "--db", &db, "--days", "0"]).code, 0);
    run(&["show", "20260928MOB1", "--db", &db])
        .failed(1, &["purged on 20", "UTC", "a resend gets E906"]);
}

#[test]
fn counts_tell_rows_and_the_oldest_of_each_state() {
    let ledger = some_rows();
    let ran = run(&["counts", "--db", &ledger.path()]);
    let lines: Vec<Vec<&str>> =
        ran.printed(0).lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["RECEIVED", "0", "-"]);
    assert_eq!(lines[3], ["DONE", "1", "-"]);
    assert_eq!(lines[4], ["UNKNOWN", "1", "2", "h", "14", "min"]);
    let ran = run(&["counts", "--db", &ledger.path(), "--json"]);
    let value: Value = serde_json::from_str(ran.printed(0)).unwrap();
    assert_eq!(value["DONE"].to_string(), r#"{"rows":1,"oldest_seconds":null}"#);
    assert!(
        value["FAILED"]["oldest_seconds"].as_i64().is_some_and(|age| (300..400).contains(&age))
    );
}

#[test]
fn looking_leaves_the_ledger_as_it_is() {
    let ledger = some_rows();
    let before = std::fs::read(ledger.file()).unwrap();
    let db = ledger.path();
    run(&["list", "--db", &db]).printed(0);
    run(&["show", "20260928MOB3", "--db", &db, "--json"]).printed(0);
    run(&["counts", "--db", &db]).printed(0);
    assert_eq!(std::fs::read(ledger.file()).unwrap(), before);
}

#[test]
fn an_amount_that_the_layout_calls_sensitive_is_in_no_list() {
    let ledger = some_rows();
    let std128 = include_str!("../../../assets/layouts/std128.toml");
    let secret = std128.replace(
        r#"{ name = "amount",    length = 13, type = "N" }"#,
        r#"{ name = "amount",    length = 13, type = "N", sensitive = true }"#,
    );
    assert_ne!(secret, std128);
    let layout = ledger.write("secret.toml", &secret);
    for args in [&["list"][..], &["list", "--json"], &["list", "--csv"], &["show", "20260928MOB3"]]
    {
        let ran = run(&[args, &["--db", &ledger.path(), "--layout", &layout]].concat());
        assert!(!ran.printed(0).contains("150000"), "{ran:?}");
    }
}
