//! What every ledger does, whatever it is made of: each case runs on the memory ledger and on SQLite.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::sync::mpsc;

use chrono::TimeDelta;
use oncegate::clock::Clock as _;
use oncegate::code::{Code, CoreCode};
use oncegate::guid::Attempt;
use oncegate::ledger::{
    CallResult, Cause, Claimed, ClaimedAgain, Counts, Found, OnlyFailed, Orphan, Outline, Purge,
    Query, Recorded, Row, Settled,
};
use oncegate::limits;
use oncegate::state::{Event, State, next};

use crate::ledgers::{
    Subject, again, claim, claimed, id, orphan, owner, record, request, settle, trail,
};

/// A case is a function of the ledger under test; each becomes a test per ledger.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        mod on_the_memory_ledger {
            $(#[test] fn $case() { super::$case(&crate::ledgers::Subject::memory()); })+
        }
        mod on_the_sqlite_ledger {
            $(#[test] fn $case() { super::$case(&crate::ledgers::Subject::sqlite()); })+
        }
    };
}

cases![
    an_unknown_guid_is_found_as_nothing,
    a_claim_stores_the_request_and_is_sent_by_its_owner,
    a_claimed_guid_is_never_claimed_twice_in_any_state,
    a_failed_row_is_claimed_again_with_one_attempt_more,
    only_failed_rows_are_claimed_again,
    reprocess_claims_only_what_meets_all_its_conditions,
    a_result_is_written_only_where_the_table_of_transitions_allows_it,
    a_result_of_another_attempt_never_writes,
    a_definite_result_keeps_the_cores_code,
    the_plain_way_leaves_no_history_and_every_other_way_one_line,
    only_an_unknown_row_of_the_seen_attempt_is_settled,
    a_row_that_is_not_there_is_gone,
    a_sweep_turns_sent_into_unknown_and_received_into_failed,
    a_sweep_takes_a_row_only_as_it_was_seen,
    a_sweep_takes_no_other_state,
    a_purge_takes_only_old_done_rows,
    a_purged_guid_is_never_claimed_again,
    what_is_purgeable_is_found_in_pages_and_only_once,
    a_page_is_ordered_by_time_then_guid_and_goes_on_where_it_ended,
    a_page_takes_only_the_states_times_and_guids_that_were_asked_for,
    a_prefix_is_no_pattern_and_has_no_end_but_its_own,
    an_outline_is_its_page_without_telegrams,
    counts_are_those_of_one_look,
    a_history_is_told_in_order_and_is_bounded,
    a_probe_of_a_ledger_that_can_be_written_succeeds,
    a_claim_and_a_record_whose_callers_do_not_wait_are_the_same,
    everything_is_as_it_was_after_a_refusal,
];

const GUID: &str = "20260928MOBAP00100000000000001";

fn results() -> [CallResult; 4] {
    let core = Code::Core(CoreCode::parse("K042").unwrap());
    [
        CallResult::Definite(Code::Done),
        CallResult::Definite(core),
        CallResult::Open,
        CallResult::NotSent,
    ]
}

fn event(result: CallResult) -> Event {
    match result {
        CallResult::Definite(_) => Event::Result,
        CallResult::Open => Event::NoResult,
        CallResult::NotSent => Event::NotSent,
    }
}

fn an_unknown_guid_is_found_as_nothing(s: &Subject) {
    assert_eq!(s.ledger.find(&id(GUID)).unwrap(), Found::Nothing);
    assert_eq!(s.ledger.history(&id(GUID)).unwrap(), []);
    assert_eq!(s.ledger.counts().unwrap(), Counts::default());
}

fn a_claim_stores_the_request_and_is_sent_by_its_owner(s: &Subject) {
    claimed(&*s.ledger, GUID);
    let row = Row { owner: Some(owner("1-a-1")), ..s.row(GUID, State::Sent, 1) };
    assert_eq!(s.get(GUID), row);
    assert_eq!(s.story(GUID), [""; 0], "a first claim is no change");
}

fn a_claimed_guid_is_never_claimed_twice_in_any_state(s: &Subject) {
    for state in State::ALL {
        let row = s.row(state.as_str(), state, 3);
        s.put(&row);
        let answer = s.ledger.claim(&claim(state.as_str())).unwrap();
        assert_eq!(answer, Claimed::Found(Box::new(row.clone())), "{state}");
        assert_eq!(s.get(state.as_str()), row, "{state}: untouched");
    }
}

fn a_failed_row_is_claimed_again_with_one_attempt_more(s: &Subject) {
    let row = s.row(GUID, State::Failed, 2);
    s.put(&row);
    s.clock.pass(60);
    assert_eq!(s.ledger.claim_failed(&again(GUID)).unwrap(), ClaimedAgain::Claimed(Attempt(3)));
    let sent = Row { owner: Some(owner("2-b-1")), ..s.row(GUID, State::Sent, 3) };
    assert_eq!(s.get(GUID), sent, "no code, no reply, the first request");
    assert_eq!(s.story(GUID), ["FAILED>SENT 3 relay"]);
    assert_eq!(s.ledger.claim_failed(&again(GUID)).unwrap(), ClaimedAgain::Lost);
}

fn only_failed_rows_are_claimed_again(s: &Subject) {
    assert_eq!(s.ledger.claim_failed(&again(GUID)).unwrap(), ClaimedAgain::Lost, "no row");
    for state in State::ALL.into_iter().filter(|state| *state != State::Failed) {
        let row = s.row(state.as_str(), state, 1);
        s.put(&row);
        let lost = s.ledger.claim_failed(&again(state.as_str())).unwrap();
        assert_eq!((lost, s.get(state.as_str())), (ClaimedAgain::Lost, row), "{state}");
        assert_eq!(s.story(state.as_str()), [""; 0]);
    }
}

fn reprocess_claims_only_what_meets_all_its_conditions(s: &Subject) {
    let only = |attempts_below, attempt| {
        let only = Some(OnlyFailed { attempts_below, attempt: Attempt(attempt) });
        oncegate::ledger::ClaimFailed { only, trail: trail(Cause::Reprocess), ..again(GUID) }
    };
    let failed = s.row(GUID, State::Failed, 2);
    let lost = |why: &str, row: &Row, wish| {
        s.put(row);
        assert_eq!(s.ledger.claim_failed(&wish).unwrap(), ClaimedAgain::Lost, "{why}");
        assert_eq!(s.get(GUID), *row, "{why}: untouched");
    };
    lost("attempts used up", &failed, only(2, 2));
    lost("another attempt", &failed, only(9, 1));
    lost("another code", &Row { rsp_code: Some("E905".into()), ..failed.clone() }, only(9, 2));
    lost("no code", &Row { rsp_code: None, ..failed.clone() }, only(9, 2));
    lost("unknown", &s.row(GUID, State::Unknown, 2), only(9, 2));
    s.put(&failed);
    assert_eq!(s.ledger.claim_failed(&only(3, 2)).unwrap(), ClaimedAgain::Claimed(Attempt(3)));
    assert_eq!(s.story(GUID), ["FAILED>SENT 3 reprocess"]);
}

fn a_result_is_written_only_where_the_table_of_transitions_allows_it(s: &Subject) {
    for from in State::ALL {
        for result in results() {
            let guid = format!("{from}-{}", result.code());
            let row = Row { owner: Some(owner("1-a-1")), ..s.row(&guid, from, 2) };
            s.put(&row);
            s.clock.pass(1);
            let answer = s.ledger.record(&record(&guid, 2, result)).unwrap();
            let expected = next(Some(from), event(result));
            assert_eq!(result.may_follow(from), expected.is_some(), "{guid}");
            if let Some(to) = expected {
                assert_eq!((answer, to), (Recorded::Written, Some(result.state())), "{guid}");
                let written = Row {
                    rsp_code: Some(result.code().to_string()),
                    response: Some(format!("reply {}", result.code()).into_bytes()),
                    ..s.row(&guid, result.state(), 2)
                };
                assert_eq!(s.get(&guid), written, "{guid}");
                assert_eq!(s.story(&guid), [format!("{from}>{} 2 relay", result.state())]);
            } else {
                assert_eq!(answer, Recorded::Stale(Box::new(row.clone())), "{guid}");
                assert_eq!((s.get(&guid), s.story(&guid)), (row, vec![]), "{guid}");
            }
        }
    }
}

fn a_result_of_another_attempt_never_writes(s: &Subject) {
    for from in State::ALL {
        for result in results() {
            for attempt in [1, 3] {
                let guid = format!("{from}-{}-{attempt}", result.code());
                let row = s.row(&guid, from, 2);
                s.put(&row);
                let answer = s.ledger.record(&record(&guid, attempt, result)).unwrap();
                assert_eq!(answer, Recorded::Stale(Box::new(row.clone())), "{guid}");
                assert_eq!((s.get(&guid), s.story(&guid)), (row, vec![]), "{guid}");
            }
        }
    }
}

fn a_definite_result_keeps_the_cores_code(s: &Subject) {
    claimed(&*s.ledger, GUID);
    let core = CallResult::Definite(Code::Core(CoreCode::parse("K042").unwrap()));
    assert_eq!(s.ledger.record(&record(GUID, 1, core)).unwrap(), Recorded::Written);
    assert_eq!(s.get(GUID).rsp_code.as_deref(), Some("K042"));
}

fn the_plain_way_leaves_no_history_and_every_other_way_one_line(s: &Subject) {
    let due = [
        (1, CallResult::Definite(Code::Done), vec![]),
        (1, CallResult::Definite(Code::Refused), vec![]),
        (1, CallResult::Open, vec!["SENT>UNKNOWN 1 relay"]),
        (1, CallResult::NotSent, vec!["SENT>FAILED 1 relay"]),
        (2, CallResult::Definite(Code::Done), vec!["SENT>DONE 2 relay"]),
    ];
    for (at, (attempt, result, lines)) in due.into_iter().enumerate() {
        let guid = format!("G{at}");
        s.put(&s.row(&guid, State::Sent, attempt));
        assert_eq!(s.ledger.record(&record(&guid, attempt, result)).unwrap(), Recorded::Written);
        assert_eq!(s.story(&guid), lines, "{result:?}");
    }
    let line = s.ledger.history(&id("G2")).unwrap().remove(0);
    assert_eq!((line.at, line.who), (s.clock.text(), "op@host".to_owned()));
    let words = (line.reason.as_deref(), line.seen.as_deref());
    assert_eq!(words, (Some("because"), Some("seen")));
}

fn only_an_unknown_row_of_the_seen_attempt_is_settled(s: &Subject) {
    for from in State::ALL {
        for (result, event) in
            [(Settled::Known, Event::InquiryKnown), (Settled::Absent, Event::InquiryAbsent)]
        {
            for attempt in [1, 2, 3] {
                let guid = format!("{from}-{result:?}-{attempt}");
                let row = s.row(&guid, from, 2);
                s.put(&row);
                s.clock.pass(1);
                let answer = s.ledger.settle(&settle(&guid, attempt, result)).unwrap();
                let to = next(Some(from), event).flatten().filter(|_| attempt == 2);
                if let Some(to) = to {
                    assert_eq!(answer, Recorded::Written, "{guid}");
                    let response = Some(format!("{result:?}").into_bytes());
                    assert_eq!(s.get(&guid), Row { response, ..s.row(&guid, to, 2) });
                    assert_eq!(s.story(&guid), [format!("UNKNOWN>{to} 2 resolve")]);
                } else {
                    assert_eq!(answer, Recorded::Stale(Box::new(row.clone())), "{guid}");
                    assert_eq!((s.get(&guid), s.story(&guid)), (row, vec![]), "{guid}");
                }
            }
        }
    }
}

fn a_row_that_is_not_there_is_gone(s: &Subject) {
    for result in results() {
        assert_eq!(s.ledger.record(&record(GUID, 1, result)).unwrap(), Recorded::Gone);
    }
    let settled = s.ledger.settle(&settle(GUID, 1, Settled::Known)).unwrap();
    assert_eq!(settled, Recorded::Gone);
    assert_eq!(s.ledger.find(&id(GUID)).unwrap(), Found::Nothing, "nothing came into being");
}

fn a_sweep_turns_sent_into_unknown_and_received_into_failed(s: &Subject) {
    let sent = Row { owner: Some(owner("1-a-1")), ..s.row("S", State::Sent, 2) };
    let received = s.row("R", State::Received, 1);
    let silent = s.row("N", State::Sent, 1);
    for row in [&sent, &received, &silent] {
        s.put(row);
    }
    s.clock.pass(100);
    let no_reply = Orphan { response: None, ..orphan(&silent) };
    let swept = s.ledger.sweep_orphans(&[orphan(&sent), orphan(&received), no_reply]).unwrap();
    assert_eq!(swept, [id("S"), id("R"), id("N")]);
    let response = Some(b"swept".to_vec());
    let unknown = Row { response: response.clone(), ..s.row("S", State::Unknown, 2) };
    assert_eq!(s.get("S"), unknown);
    assert_eq!(s.get("R"), Row { response, ..s.row("R", State::Failed, 1) });
    assert_eq!(s.get("N"), Row { response: None, ..s.row("N", State::Unknown, 1) });
    assert_eq!(s.story("S"), ["SENT>UNKNOWN 2 orphan"]);
    assert_eq!(s.story("R"), ["RECEIVED>FAILED 1 orphan"]);
}

fn a_sweep_takes_a_row_only_as_it_was_seen(s: &Subject) {
    let row = Row { owner: Some(owner("1-a-1")), ..s.row(GUID, State::Sent, 2) };
    s.put(&row);
    let seen = orphan(&row);
    let others = [
        Orphan { attempt: Attempt(1), ..seen.clone() },
        Orphan { owner: None, ..seen.clone() },
        Orphan { owner: Some(owner("2-b-1")), ..seen.clone() },
        Orphan { updated_at: "2020-01-01 00:00:00".to_owned(), ..seen.clone() },
        Orphan { from: State::Received, ..seen.clone() },
        Orphan { guid: id("elsewhere"), ..seen.clone() },
    ];
    assert_eq!(s.ledger.sweep_orphans(&others).unwrap(), []);
    assert_eq!((s.get(GUID), s.story(GUID)), (row, vec![]));
    assert_eq!(s.ledger.sweep_orphans(&[seen.clone(), seen]).unwrap(), [id(GUID)], "once");
}

fn a_sweep_takes_no_other_state(s: &Subject) {
    for state in [State::Done, State::Unknown, State::Failed] {
        let row = s.row(state.as_str(), state, 1);
        s.put(&row);
        assert_eq!(s.ledger.sweep_orphans(&[orphan(&row)]).unwrap(), [], "{state}");
        assert_eq!(s.get(state.as_str()), row);
    }
    assert_eq!(s.ledger.sweep_orphans(&[]).unwrap(), []);
}

fn purge(s: &Subject, days: i64, guids: &[&str]) -> Purge {
    let cutoff = s.clock.now() - TimeDelta::days(days);
    Purge { cutoff, guids: guids.iter().map(|g| id(g)).collect(), trail: trail(Cause::Purge) }
}

fn a_purge_takes_only_old_done_rows(s: &Subject) {
    let names = State::ALL.map(State::as_str);
    for state in State::ALL {
        s.put(&s.row(state.as_str(), state, 1));
    }
    s.clock.pass(86_400);
    s.put(&s.row("young", State::Done, 1));
    let all: Vec<&str> = names.into_iter().chain(["young", "never", "DONE"]).collect();
    assert_eq!(s.ledger.purge_batch(&purge(s, 1, &all)).unwrap(), [id("DONE")], "on the second");
    assert_eq!(s.ledger.find(&id("DONE")).unwrap(), Found::Purged);
    assert_eq!(s.story("DONE"), ["DONE>- 1 purge"]);
    for name in ["RECEIVED", "SENT", "UNKNOWN", "FAILED", "young"] {
        assert!(matches!(s.ledger.find(&id(name)).unwrap(), Found::Row(_)), "{name} stays");
    }
    assert_eq!(s.ledger.counts().unwrap().rows, [1, 1, 1, 1, 1]);
}

fn a_purged_guid_is_never_claimed_again(s: &Subject) {
    s.put(&s.row(GUID, State::Done, 1));
    assert_eq!(s.ledger.purge_batch(&purge(s, 0, &[GUID])).unwrap(), [id(GUID)]);
    assert_eq!(s.ledger.claim(&claim(GUID)).unwrap(), Claimed::Purged);
    assert_eq!(s.ledger.claim_failed(&again(GUID)).unwrap(), ClaimedAgain::Lost);
    let late = record(GUID, 1, CallResult::Definite(Code::Done));
    assert_eq!(s.ledger.record(&late).unwrap(), Recorded::Gone);
    assert_eq!(s.ledger.purge_batch(&purge(s, 0, &[GUID])).unwrap(), []);
    assert_eq!(s.ledger.find(&id(GUID)).unwrap(), Found::Purged);
}

fn what_is_purgeable_is_found_in_pages_and_only_once(s: &Subject) {
    let mut expected = Vec::new();
    for at in 0..30 {
        let state = State::ALL[at % State::ALL.len()];
        let guid = format!("G{at:02}");
        s.put(&s.row(&guid, state, 1));
        expected.extend((state == State::Done).then(|| id(&guid)));
    }
    let cutoff = s.clock.now();
    s.clock.pass(1);
    s.put(&s.row("young", State::Done, 1));
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let (guids, next) = s.ledger.purgeable(cutoff, after).unwrap();
        found.extend(guids);
        after = next;
        if after.is_none() {
            break;
        }
    }
    found.sort();
    assert_eq!(found, expected);
}

fn guids(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.guid.as_str()).collect()
}

fn a_page_is_ordered_by_time_then_guid_and_goes_on_where_it_ended(s: &Subject) {
    // Three seconds, and in each all states, the GUIDs descending where time ascends.
    let mut expected = Vec::new();
    for second in 0..3 {
        for name in ["c", "a", "b"] {
            for state in [State::Unknown, State::Done, State::Sent] {
                let guid = format!("{name}{}{second}", state.as_str());
                s.put(&s.row(&guid, state, 1));
                expected.push((second, guid));
            }
        }
        s.clock.pass(1);
    }
    expected.sort();
    let mut query = Query::of(&[State::Sent, State::Unknown, State::Done, State::Sent]);
    query.rows_max = 4;
    let mut found = Vec::new();
    loop {
        let page = s.ledger.page(&query).unwrap();
        assert!(page.len() <= 4);
        let Some(last) = page.last() else { break };
        query.after = Some(last.place());
        found.extend(page.into_iter().map(|row| row.guid.to_string()));
    }
    assert_eq!(found, expected.into_iter().map(|(_, guid)| guid).collect::<Vec<_>>());
}

fn a_page_takes_only_the_states_times_and_guids_that_were_asked_for(s: &Subject) {
    s.put(&s.row("old", State::Failed, 1));
    let until = s.clock.now();
    s.clock.pass(1);
    s.put(&s.row("new", State::Failed, 1));
    s.put(&s.row("done", State::Done, 1));
    let page = |query: &Query| guids(&s.ledger.page(query).unwrap()).join(" ");
    let failed = Query::of(&[State::Failed]);
    assert_eq!(page(&failed), "old new");
    assert_eq!(page(&Query { until: Some(until), ..failed.clone() }), "old");
    let named = |names: &[&str]| Some(names.iter().map(|name| id(name)).collect());
    let three = Query { guids: named(&["new", "done", "new", "none"]), ..failed.clone() };
    assert_eq!(page(&three), "new", "named twice, shown once; in another state, not at all");
    assert_eq!(page(&Query { guids: named(&[]), ..failed.clone() }), "");
    let after = Some(s.get("old").place());
    assert_eq!(page(&Query { guids: named(&["old", "new"]), after, ..failed.clone() }), "new");
    assert_eq!(page(&Query { guids: named(&["old", "new"]), rows_max: 1, ..failed }), "old");
}

fn a_prefix_is_no_pattern_and_has_no_end_but_its_own(s: &Subject) {
    let max = char::MAX;
    let names = [
        "A%".to_owned(),
        "A_1".to_owned(),
        "AB".to_owned(),
        "a%".to_owned(),
        "A~".to_owned(),
        "A~~".to_owned(),
        "B".to_owned(),
        "가나".to_owned(),
        "각".to_owned(),
        "\u{d7ff}1".to_owned(),
        "\u{e000}1".to_owned(),
        format!("{max}"),
        format!("{max}{max}"),
        format!("A{max}1"),
    ];
    for name in &names {
        s.put(&s.row(name, State::Unknown, 1));
    }
    let prefixes = ["", "A", "A%", "A_", "A~", "a", "가", "\u{d7ff}", "nothing"].map(str::to_owned);
    let edges = [format!("{max}"), format!("A{max}"), format!("{max}{max}{max}")];
    for prefix in prefixes.into_iter().chain(edges) {
        let query = Query { guid_prefix: Some(prefix.clone()), ..Query::of(&[State::Unknown]) };
        let mut expected: Vec<&String> = names.iter().filter(|n| n.starts_with(&prefix)).collect();
        expected.sort();
        assert_eq!(guids(&s.ledger.page(&query).unwrap()), expected, "{prefix:?}");
    }
}

fn an_outline_is_its_page_without_telegrams(s: &Subject) {
    for (at, state) in State::ALL.into_iter().enumerate() {
        let owner = (state == State::Sent).then(|| owner("1-a-1"));
        s.put(&Row { owner, ..s.row(&format!("G{at}"), state, 1) });
    }
    let query = Query::of(&State::ALL);
    let page: Vec<Outline> = s.ledger.page(&query).unwrap().into_iter().map(Row::outline).collect();
    assert_eq!(page.len(), State::ALL.len());
    assert_eq!(s.ledger.outline(&query).unwrap(), page);
}

fn counts_are_those_of_one_look(s: &Subject) {
    let first = s.clock.text();
    for (at, state) in State::ALL.into_iter().enumerate() {
        for n in 0..=at {
            s.put(&s.row(&format!("{state}{n}"), state, 1));
        }
    }
    s.clock.pass(5);
    s.put(&s.row("later", State::Sent, 1));
    let counts = s.ledger.counts().unwrap();
    assert_eq!(counts.rows, [1, 3, 3, 4, 5]);
    let oldest = State::ALL.map(|state| (state != State::Done).then(|| first.clone()));
    assert_eq!(counts.oldest, oldest);
    let sent = s.get("SENT0");
    assert_eq!(s.ledger.sweep_orphans(&[orphan(&sent)]).unwrap().len(), 1);
    assert_eq!(s.ledger.counts().unwrap().rows, [1, 2, 3, 5, 5]);
}

fn a_history_is_told_in_order_and_is_bounded(s: &Subject) {
    s.put(&s.row(GUID, State::Failed, 1));
    claimed(&*s.ledger, "another");
    for attempt in 2..=i64::try_from(limits::HISTORY_LINES_MAX).unwrap() {
        s.ledger.claim_failed(&again(GUID)).unwrap();
        s.ledger.record(&record(GUID, attempt, CallResult::NotSent)).unwrap();
    }
    let lines = s.ledger.history(&id(GUID)).unwrap();
    assert_eq!(lines.len(), limits::HISTORY_LINES_MAX);
    assert!(lines.windows(2).all(|two| two[0].id < two[1].id));
    assert_eq!(s.story(GUID)[..2], ["FAILED>SENT 2 relay", "SENT>FAILED 2 relay"]);
    assert_eq!(s.story("another"), [""; 0]);
}

fn a_probe_of_a_ledger_that_can_be_written_succeeds(s: &Subject) {
    claimed(&*s.ledger, GUID);
    assert_eq!(s.ledger.probe(), Ok(()));
    assert_eq!(s.get(GUID).request, request(GUID));
}

fn a_claim_and_a_record_whose_callers_do_not_wait_are_the_same(s: &Subject) {
    let told = || {
        let (tell, told) = mpsc::channel();
        let then = Box::new(move |claimed| tell.send(claimed).unwrap());
        s.ledger.claim_then(claim(GUID), then);
        // Once: then the sender is gone.
        let all: Vec<_> = told.iter().collect();
        <[_; 1]>::try_from(all).unwrap()
    };
    assert_eq!(told(), [Ok(Claimed::Claimed(Attempt::FIRST))]);
    let row = s.get(GUID);
    assert_eq!((row.state, row.request.clone()), (State::Sent, request(GUID)));
    assert_eq!(told(), [Ok(Claimed::Found(Box::new(row)))]);
    let (tell, told) = mpsc::channel();
    let result = record(GUID, 1, CallResult::Definite(Code::Done));
    let then = Box::new(move |record, recorded| tell.send((record, recorded)).unwrap());
    s.ledger.record_then(result.clone(), then);
    assert_eq!(told.iter().collect::<Vec<_>>(), [(result, Ok(Recorded::Written))]);
    assert_eq!(s.get(GUID).state, State::Done);
}

fn everything_is_as_it_was_after_a_refusal(s: &Subject) {
    let done = s.row(GUID, State::Done, 1);
    s.put(&done);
    s.clock.pass(1_000_000);
    s.ledger.claim(&claim(GUID)).unwrap();
    s.ledger.claim_failed(&again(GUID)).unwrap();
    for result in results() {
        s.ledger.record(&record(GUID, 1, result)).unwrap();
    }
    s.ledger.settle(&settle(GUID, 1, Settled::Absent)).unwrap();
    s.ledger.sweep_orphans(&[orphan(&done)]).unwrap();
    assert_eq!((s.get(GUID), s.story(GUID)), (done, vec![]), "a DONE row never changes");
}
