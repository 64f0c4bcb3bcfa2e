//! Receive: each sentence, each fault, looked at through a connection of one's own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use oncegate::outbox::{Event, OutboxError, Point, Role, no_fault, receive};

use super::{Stores, event, execute, is_trouble, rows_on, sink_rows, texts, trouble_at};

fn done(inbox: &[&str], total: i64) -> (Vec<String>, Vec<String>) {
    (texts(inbox), vec![format!("1|{total}")])
}

#[test]
fn a_new_event_is_received_with_its_effect() {
    let stores = Stores::new();
    let sink = stores.open(Role::Sink);
    assert!(receive(&sink, &event("a", 3), &mut no_fault).unwrap());
    assert!(receive(&sink, &event("b", 3), &mut no_fault).unwrap(), "another business event");
    assert!(sink.is_autocommit());
    assert_eq!(sink_rows(&stores.sink), done(&["a|3", "b|3"], 6));
}

#[test]
fn the_same_event_again_is_a_valid_duplicate_and_another_quantity_a_conflict() {
    let stores = Stores::new();
    let sink = stores.open(Role::Sink);
    receive(&sink, &event("a", 3), &mut no_fault).unwrap();
    let mut never = |point| panic!("{point} was called");
    assert!(!receive(&sink, &event("a", 3), &mut never).unwrap());
    let conflict = receive(&sink, &event("a", 4), &mut never);
    assert!(
        matches!(&conflict, Err(OutboxError::Conflict { id, held: 3, given: 4 }) if id == "a"),
        "{conflict:?}"
    );
    assert!(sink.is_autocommit());
    assert_eq!(sink_rows(&stores.sink), done(&["a|3"], 3));
}

#[test]
fn the_faults_come_in_order_and_nobody_sees_an_effect_before_the_commit() {
    let stores = Stores::new();
    let sink = stores.open(Role::Sink);
    let mut seen = Vec::new();
    let mut look = |point| {
        let own = rows_on(&sink, "SELECT (SELECT count(*) FROM inbox), (SELECT total FROM stock)");
        seen.push((point, own[0].clone(), sink_rows(&stores.sink)));
        Ok(())
    };
    assert!(receive(&sink, &event("a", 3), &mut look).unwrap());
    assert_eq!(
        seen,
        [
            (Point::AfterInbox, "1|0".to_owned(), done(&[], 0)),
            (Point::AfterTotal, "1|3".to_owned(), done(&[], 0)),
            (Point::AfterCommit, "1|3".to_owned(), done(&["a|3"], 3)),
        ]
    );
}

#[test]
fn an_error_before_the_commit_leaves_nothing_and_comes_back_as_it_was() {
    let stores = Stores::new();
    let sink = stores.open(Role::Sink);
    for point in [Point::AfterInbox, Point::AfterTotal] {
        is_trouble(receive(&sink, &event("a", 3), &mut trouble_at(point)), point);
        assert!(sink.is_autocommit());
        assert_eq!(sink_rows(&stores.sink), done(&[], 0));
    }
    assert!(receive(&sink, &event("a", 3), &mut no_fault).unwrap());
}

#[test]
fn an_error_after_the_commit_deletes_nothing() {
    let stores = Stores::new();
    let sink = stores.open(Role::Sink);
    let point = Point::AfterCommit;
    is_trouble(receive(&sink, &event("a", 3), &mut trouble_at(point)), point);
    assert!(sink.is_autocommit());
    assert_eq!(sink_rows(&stores.sink), done(&["a|3"], 3));
    assert!(!receive(&sink, &event("a", 3), &mut no_fault).unwrap());
}

#[test]
fn a_panic_before_the_commit_leaves_nothing_and_restores_autocommit() {
    let stores = Stores::new();
    let sink = stores.open(Role::Sink);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        receive(&sink, &event("a", 3), &mut |_| panic!("on purpose"))
    }));
    assert!(panicked.is_err() && sink.is_autocommit());
    assert_eq!(sink_rows(&stores.sink), done(&[], 0));
}

#[test]
fn autocommit_is_restored_also_when_rollback_itself_fails() {
    use rusqlite::hooks::{AuthAction, AuthContext, Authorization, TransactionOperation};
    let stores = Stores::new();
    let mut sink = stores.open(Role::Sink);
    let hook = |context: AuthContext<'_>| match context.action {
        AuthAction::Transaction { operation: TransactionOperation::Rollback } => {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    };
    sink.authorizer(Some(hook)).unwrap();
    for point in [Point::AfterInbox, Point::AfterTotal] {
        is_trouble(receive(&sink, &event("a", 3), &mut trouble_at(point)), point);
        assert!(sink.is_autocommit());
        assert_eq!(sink_rows(&stores.sink), done(&[], 0));
    }
}

#[test]
fn an_event_outside_the_contract_or_a_connection_inside_a_transaction_is_refused() {
    let stores = Stores::new();
    let sink = stores.open(Role::Sink);
    let bad = Event { id: "a\n".to_owned(), qty: 1 };
    assert!(matches!(receive(&sink, &bad, &mut no_fault), Err(OutboxError::Value(_))));
    sink.execute_batch("BEGIN").unwrap();
    let refused = receive(&sink, &event("a", 1), &mut no_fault);
    assert!(matches!(refused, Err(OutboxError::NotAutocommit)), "{refused:?}");
    assert!(!sink.is_autocommit());
}

#[test]
fn an_id_without_its_effect_is_never_kept() {
    for spoil in [
        "DELETE FROM stock",
        "UPDATE stock SET total = 9223372036854775806",
        "UPDATE stock SET total = 'much'",
        "CREATE TRIGGER no BEFORE UPDATE ON stock BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TRIGGER no BEFORE UPDATE ON stock BEGIN SELECT RAISE(ABORT, 'no'); END",
        "CREATE TRIGGER no BEFORE INSERT ON inbox BEGIN SELECT RAISE(IGNORE); END",
    ] {
        let stores = Stores::new();
        let sink = stores.open(Role::Sink);
        execute(&stores.sink, spoil);
        let before = sink_rows(&stores.sink);
        let failed = receive(&sink, &event("a", 3), &mut no_fault);
        assert!(
            matches!(failed, Err(OutboxError::Row { .. } | OutboxError::Sqlite(_))),
            "{spoil}: {failed:?}"
        );
        assert!(sink.is_autocommit(), "{spoil}");
        assert_eq!(sink_rows(&stores.sink), before, "{spoil}");
    }
}

#[test]
fn the_greatest_total_is_reached_exactly() {
    let stores = Stores::new();
    let sink = stores.open(Role::Sink);
    execute(&stores.sink, "UPDATE stock SET total = 9223372036854775804");
    assert!(receive(&sink, &event("a", 3), &mut no_fault).unwrap());
    assert_eq!(sink_rows(&stores.sink), done(&["a|3"], i64::MAX));
}
