//! Enqueue, pending, mark: each sentence, each fault, looked at through a connection of one's own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use oncegate::outbox::{
    Event, OutboxError, Point, Role, enqueue, enqueue_within, mark_sent, no_fault, pending,
};
use rusqlite::hooks::{AuthAction, Authorization};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::{Stores, Trouble, event, execute, is_trouble, rows_on, source_rows, texts, trouble_at};

const EMPTY: (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());

fn saved(orders: &[&str], outbox: &[&str]) -> (Vec<String>, Vec<String>) {
    (texts(orders), texts(outbox))
}

#[test]
fn a_new_order_is_saved_with_the_intent_to_send_it() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    assert!(enqueue(&source, &event("a", 3), &mut no_fault).unwrap());
    assert!(source.is_autocommit());
    assert_eq!(source_rows(&stores.source), saved(&["a|3"], &["a|3|0"]));
}

#[test]
fn the_same_order_again_changes_nothing_and_calls_no_fault() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    enqueue(&source, &event("a", 3), &mut no_fault).unwrap();
    mark_sent(&source, &event("a", 3)).unwrap();
    let mut never = |point| panic!("{point} was called");
    assert!(!enqueue(&source, &event("a", 3), &mut never).unwrap());
    assert!(source.is_autocommit());
    assert_eq!(source_rows(&stores.source), saved(&["a|3"], &["a|3|1"]));
}

#[test]
fn the_same_id_with_another_quantity_is_a_conflict() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    enqueue(&source, &event("a", 3), &mut no_fault).unwrap();
    let conflict = enqueue(&source, &event("a", 4), &mut no_fault);
    assert!(
        matches!(&conflict, Err(OutboxError::Conflict { id, held: 3, given: 4 }) if id == "a"),
        "{conflict:?}"
    );
    assert!(source.is_autocommit());
    assert_eq!(source_rows(&stores.source), saved(&["a|3"], &["a|3|0"]));
}

#[test]
fn the_faults_come_in_order_and_nobody_sees_a_row_before_the_commit() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    let mut seen = Vec::new();
    let mut look = |point| {
        let own =
            rows_on(&source, "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM outbox)");
        let (orders, outbox) = source_rows(&stores.source);
        seen.push((point, own[0].clone(), orders.len() + outbox.len(), source.is_autocommit()));
        Ok(())
    };
    assert!(enqueue(&source, &event("a", 3), &mut look).unwrap());
    assert_eq!(
        seen,
        [
            (Point::AfterOrder, "1|0".to_owned(), 0, false),
            (Point::AfterOutbox, "1|1".to_owned(), 0, false),
            (Point::AfterCommit, "1|1".to_owned(), 2, true),
        ]
    );
}

#[test]
fn an_error_before_the_commit_leaves_nothing_and_comes_back_as_it_was() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    for point in [Point::AfterOrder, Point::AfterOutbox] {
        is_trouble(enqueue(&source, &event("a", 3), &mut trouble_at(point)), point);
        assert!(source.is_autocommit());
        assert_eq!(source_rows(&stores.source), EMPTY);
    }
    assert!(enqueue(&source, &event("a", 3), &mut no_fault).unwrap());
}

#[test]
fn an_error_after_the_commit_deletes_nothing() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    let point = Point::AfterCommit;
    is_trouble(enqueue(&source, &event("a", 3), &mut trouble_at(point)), point);
    assert!(source.is_autocommit());
    assert_eq!(source_rows(&stores.source), saved(&["a|3"], &["a|3|0"]));
    assert!(!enqueue(&source, &event("a", 3), &mut no_fault).unwrap());
}

#[test]
fn a_panic_before_the_commit_leaves_nothing_and_restores_autocommit() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut fault =
            |point| if point == Point::AfterOutbox { panic!("on purpose") } else { Ok(()) };
        enqueue(&source, &event("a", 3), &mut fault)
    }));
    assert!(panicked.is_err() && source.is_autocommit());
    assert_eq!(source_rows(&stores.source), EMPTY);
}

#[test]
fn an_event_outside_the_contract_never_reaches_the_store() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    for (id, qty) in [("a b", 1), ("a", 0), ("a", 1001)] {
        let bad = Event { id: id.to_owned(), qty };
        assert!(matches!(enqueue(&source, &bad, &mut no_fault), Err(OutboxError::Value(_))));
        assert!(matches!(mark_sent(&source, &bad), Err(OutboxError::Value(_))));
    }
    assert_eq!(source_rows(&stores.source), EMPTY);
}

#[test]
fn a_connection_inside_a_transaction_is_refused_and_left_there() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    source.execute_batch("BEGIN").unwrap();
    let refused = enqueue(&source, &event("a", 3), &mut no_fault);
    assert!(matches!(refused, Err(OutboxError::NotAutocommit)), "{refused:?}");
    assert!(matches!(mark_sent(&source, &event("a", 3)), Err(OutboxError::NotAutocommit)));
    assert!(!source.is_autocommit(), "it is not ours to end");
    source.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn what_a_trigger_refuses_leaves_neither_row() {
    for (trigger, is_theirs) in [
        ("BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'no')", true),
        ("BEFORE INSERT ON outbox BEGIN SELECT RAISE(FAIL, 'no')", true),
        ("BEFORE INSERT ON outbox BEGIN SELECT RAISE(ROLLBACK, 'no')", true),
        ("AFTER INSERT ON orders BEGIN SELECT RAISE(ABORT, 'no')", true),
        ("BEFORE INSERT ON outbox BEGIN SELECT RAISE(IGNORE)", false),
        ("BEFORE INSERT ON orders BEGIN SELECT RAISE(IGNORE)", false),
    ] {
        let stores = Stores::new();
        let source = stores.open(Role::Source);
        execute(&stores.source, &format!("CREATE TRIGGER no {trigger}; END"));
        match enqueue(&source, &event("a", 3), &mut no_fault) {
            Err(OutboxError::Sqlite(error)) if is_theirs => assert_eq!(error.to_string(), "no"),
            Err(OutboxError::Row { .. }) if !is_theirs => {}
            other => panic!("{trigger}: {other:?}"),
        }
        assert!(source.is_autocommit(), "{trigger}");
        assert_eq!(source_rows(&stores.source), EMPTY, "{trigger}");
    }
}

#[test]
fn a_fault_that_ends_the_transaction_itself_cannot_make_half_an_order() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    let lost = enqueue(&source, &event("a", 3), &mut |_| Ok(source.execute_batch("ROLLBACK")?));
    assert!(matches!(lost, Err(OutboxError::TransactionLost(Point::AfterOrder))), "{lost:?}");
    assert!(source.is_autocommit());
    assert_eq!(source_rows(&stores.source), EMPTY);
}

/// Forbids these statements of transactions, and the table if one is named.
fn forbid(source: &mut Connection, operations: &'static [&'static str], table: &'static str) {
    let hook = move |context: rusqlite::hooks::AuthContext<'_>| match context.action {
        AuthAction::Transaction { operation }
            if operations.contains(&format!("{operation:?}").as_str()) =>
        {
            Authorization::Deny
        }
        AuthAction::Insert { table_name } if table_name == table => Authorization::Deny,
        _ => Authorization::Allow,
    };
    source.authorizer(Some(hook)).unwrap();
}

#[test]
fn autocommit_is_restored_also_when_rollback_itself_fails() {
    for point in [Point::AfterOrder, Point::AfterOutbox] {
        let stores = Stores::new();
        let mut source = stores.open(Role::Source);
        forbid(&mut source, &["Rollback"], "");
        assert!(source.execute_batch("BEGIN; ROLLBACK").is_err(), "it is really forbidden");
        assert!(!source.is_autocommit());
        source.execute_batch("COMMIT").unwrap();
        is_trouble(enqueue(&source, &event("a", 3), &mut trouble_at(point)), point);
        assert!(source.is_autocommit());
        assert_eq!(source_rows(&stores.source), EMPTY);
        assert!(enqueue(&source, &event("b", 3), &mut no_fault).unwrap(), "and it works on");
    }
}

#[test]
fn autocommit_is_restored_also_when_commit_and_rollback_both_fail() {
    let stores = Stores::new();
    let mut source = stores.open(Role::Source);
    // rusqlite has no name for COMMIT.
    forbid(&mut source, &["Unknown", "Rollback"], "");
    match enqueue(&source, &event("a", 3), &mut no_fault) {
        Err(OutboxError::Sqlite(error)) => {
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::AuthorizationForStatementDenied));
        }
        other => panic!("{other:?}"),
    }
    assert!(source.is_autocommit());
    assert_eq!(source_rows(&stores.source), EMPTY);
}

#[test]
fn a_trigger_in_the_way_of_the_second_way_out_leaves_a_third() {
    let stores = Stores::new();
    let mut source = stores.open(Role::Source);
    execute(
        &stores.source,
        "CREATE TRIGGER no BEFORE INSERT ON orders WHEN NEW.id IS NULL
         BEGIN SELECT RAISE(ABORT, 'no'); END",
    );
    forbid(&mut source, &["Rollback"], "");
    let point = Point::AfterOrder;
    is_trouble(enqueue(&source, &event("a", 3), &mut trouble_at(point)), point);
    assert!(source.is_autocommit());
    assert_eq!(source_rows(&stores.source), EMPTY);
}

#[test]
fn when_every_way_out_is_forbidden_it_says_so_and_closing_rolls_back() {
    let stores = Stores::new();
    let mut source = stores.open(Role::Source);
    execute(
        &stores.source,
        "CREATE TRIGGER no BEFORE INSERT ON orders WHEN NEW.id IS NULL
         BEGIN SELECT RAISE(ABORT, 'no'); END",
    );
    forbid(&mut source, &["Rollback"], "outbox");
    match enqueue(&source, &event("a", 3), &mut trouble_at(Point::AfterOrder)) {
        Err(OutboxError::Stuck { first, .. }) => is_trouble::<()>(Err(*first), Point::AfterOrder),
        other => panic!("{other:?}"),
    }
    drop(source);
    assert_eq!(source_rows(&stores.source), EMPTY);
}

#[test]
fn a_commit_that_is_locked_out_is_rolled_back() {
    let stores = Stores::new();
    // Another program's store without a write-ahead log: there a reader stops the commit.
    execute(&stores.source, "CREATE TABLE notes (text); INSERT INTO notes VALUES ('x')");
    let source = stores.open(Role::Source);
    let reader = Connection::open(&stores.source).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM notes").unwrap();
    match enqueue(&source, &event("a", 3), &mut no_fault) {
        Err(OutboxError::Sqlite(error)) => {
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
        }
        other => panic!("{other:?}"),
    }
    assert!(source.is_autocommit());
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(source_rows(&stores.source), EMPTY);
    assert!(enqueue(&source, &event("a", 3), &mut no_fault).unwrap());
}

#[test]
fn a_writer_waits_about_a_second_for_another_one() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    let other = stores.open(Role::Source);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = Instant::now();
    let busy = enqueue(&source, &event("a", 3), &mut no_fault);
    assert!(matches!(busy, Err(OutboxError::Sqlite(_))), "{busy:?}");
    assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
    assert!(source.is_autocommit());
}

#[test]
fn half_an_order_of_another_program_is_named_and_not_taken_for_a_whole_one() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    execute(
        &stores.source,
        "INSERT INTO orders VALUES ('a', 3); INSERT INTO outbox VALUES (5, 'b', 3, 0)",
    );
    for id in ["a", "b"] {
        let torn = enqueue(&source, &event(id, 3), &mut no_fault);
        assert!(matches!(torn, Err(OutboxError::Row { .. })), "{torn:?}");
        assert!(source.is_autocommit());
    }
    assert_eq!(source_rows(&stores.source), saved(&["a|3"], &["b|3|0"]));
}

#[test]
fn an_order_within_a_transaction_of_ones_own_is_durable_with_it_or_not_at_all() {
    let stores = Stores::new();
    let mut source = stores.open(Role::Source);
    source.execute_batch("CREATE TABLE customers (name TEXT)").unwrap();
    let customers = "SELECT name FROM customers";

    let tx = source.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    tx.execute("INSERT INTO customers VALUES ('one')", []).unwrap();
    assert!(enqueue_within(&tx, &event("a", 3)).unwrap());
    assert!(!enqueue_within(&tx, &event("a", 3)).unwrap());
    assert_eq!(source_rows(&stores.source), EMPTY, "nobody sees it before the commit");
    tx.commit().unwrap();
    assert_eq!(source_rows(&stores.source), saved(&["a|3"], &["a|3|0"]));

    let tx = source.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    assert!(enqueue_within(&tx, &event("b", 3)).unwrap());
    tx.rollback().unwrap();
    assert_eq!(source_rows(&stores.source), saved(&["a|3"], &["a|3|0"]));

    source
        .execute_batch(
            "CREATE TRIGGER no BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .unwrap();
    let tx = source.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    tx.execute("INSERT INTO customers VALUES ('two')", []).unwrap();
    assert!(matches!(enqueue_within(&tx, &event("c", 3)), Err(OutboxError::Sqlite(_))));
    assert!(matches!(enqueue_within(&tx, &event("a", 4)), Err(OutboxError::Conflict { .. })));
    tx.commit().unwrap();
    assert_eq!(source_rows(&stores.source), saved(&["a|3"], &["a|3|0"]));
    assert_eq!(rows_on(&source, customers), ["one", "two"], "the caller's own row is the caller's");
}

#[test]
fn pending_is_in_order_of_seq_not_of_id_and_at_most_the_limit() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    for (id, qty) in [("z", 1), ("a", 2), ("m", 3)] {
        enqueue(&source, &event(id, qty), &mut no_fault).unwrap();
    }
    assert_eq!(pending(&source, 16).unwrap(), [event("z", 1), event("a", 2), event("m", 3)]);
    assert_eq!(pending(&source, 2).unwrap(), [event("z", 1), event("a", 2)]);
    mark_sent(&source, &event("a", 2)).unwrap();
    assert_eq!(pending(&source, 2).unwrap(), [event("z", 1), event("m", 3)]);
}

#[test]
fn pending_takes_a_limit_from_1_to_16_and_only_reads() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    for n in 0..20 {
        enqueue(&source, &event(&format!("e{n}"), 1), &mut no_fault).unwrap();
    }
    source.execute_batch("PRAGMA query_only = ON").unwrap();
    for limit in [1, 8, 16] {
        assert_eq!(pending(&source, limit).unwrap().len(), limit);
    }
    for limit in [0, 17, usize::MAX] {
        assert!(matches!(pending(&source, limit), Err(OutboxError::Value(_))), "{limit}");
    }
    assert!(source.is_autocommit());
}

#[test]
fn a_mark_is_set_once_on_the_one_row_that_matches() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    for id in ["a", "b"] {
        enqueue(&source, &event(id, 3), &mut no_fault).unwrap();
    }
    assert!(mark_sent(&source, &event("a", 3)).unwrap());
    let want = saved(&["a|3", "b|3"], &["a|3|1", "b|3|0"]);
    assert_eq!(source_rows(&stores.source), want);
    assert!(!mark_sent(&source, &event("a", 3)).unwrap());
    let unknown = mark_sent(&source, &event("c", 3));
    assert!(matches!(unknown, Err(OutboxError::Value(_))), "{unknown:?}");
    for id in ["a", "b"] {
        let conflict = mark_sent(&source, &event(id, 4));
        assert!(
            matches!(conflict, Err(OutboxError::Conflict { held: 3, given: 4, .. })),
            "{conflict:?}"
        );
    }
    assert!(source.is_autocommit());
    assert_eq!(source_rows(&stores.source), want);
}

#[test]
fn a_mark_that_a_trigger_swallows_is_an_error() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    enqueue(&source, &event("a", 3), &mut no_fault).unwrap();
    execute(
        &stores.source,
        "CREATE TRIGGER no BEFORE UPDATE ON outbox BEGIN SELECT RAISE(IGNORE); END",
    );
    let swallowed = mark_sent(&source, &event("a", 3));
    assert!(matches!(swallowed, Err(OutboxError::Row { .. })), "{swallowed:?}");
}

#[test]
fn an_error_of_ones_own_is_found_again_by_its_type() {
    let error = OutboxError::fault(Trouble(Point::AfterOrder));
    assert_eq!(error.to_string(), "trouble at after-order");
    let points: Vec<&str> = Point::ALL.iter().map(|point| point.as_str()).collect();
    assert_eq!(
        points,
        [
            "after-order",
            "after-outbox",
            "after-commit",
            "after-inbox",
            "after-total",
            "after-delivery"
        ]
    );
}
