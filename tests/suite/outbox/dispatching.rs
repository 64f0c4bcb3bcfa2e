//! Dispatch, one by one and with the marks of a batch in one commit: the same rules for both.

use std::cell::RefCell;
use std::path::Path;

use oncegate::outbox::{
    Event, OutboxError, Point, Role, Send, dispatch, dispatch_all, dispatch_batch, enqueue,
    mark_sent, no_fault, receive,
};
use rusqlite::Connection;

use super::{Stores, event, execute, is_trouble, rows, trouble_at};

/// A dispatch in a shape that both have: how many it marked, and its error.
type Way = fn(&Connection, &mut Send<'_>, usize, &mut oncegate::outbox::Fault<'_>) -> Outcome;
type Outcome = (Option<usize>, Option<OutboxError>);

fn one_by_one(
    con: &Connection,
    send: &mut Send<'_>,
    limit: usize,
    fault: &mut oncegate::outbox::Fault<'_>,
) -> Outcome {
    match dispatch(con, send, limit, fault) {
        Ok(marked) => (Some(marked), None),
        Err(error) => (None, Some(error)),
    }
}

fn together(
    con: &Connection,
    send: &mut Send<'_>,
    limit: usize,
    fault: &mut oncegate::outbox::Fault<'_>,
) -> Outcome {
    let batch = dispatch_batch(con, send, limit, fault);
    (Some(batch.marked), batch.stopped.map(|stopped| stopped.error))
}

const WAYS: [Way; 2] = [one_by_one, together];

/// A source with these events, for each way.
fn with_pending(ids: &[&str], check: impl Fn(&Stores, &Connection, Way)) {
    for way in WAYS {
        let stores = Stores::new();
        let source = stores.open(Role::Source);
        for id in ids {
            enqueue(&source, &event(id, 3), &mut no_fault).unwrap();
        }
        check(&stores, &source, way);
        assert!(source.is_autocommit());
    }
}

fn sent(stores: &Stores) -> Vec<String> {
    rows(&stores.source, "SELECT id FROM outbox WHERE sent = 1 ORDER BY seq")
}

#[test]
fn one_finite_batch_is_sent_in_order_and_marked() {
    with_pending(&["z", "a", "m"], |stores, source, way| {
        let seen = RefCell::new(Vec::new());
        let mut send = |event: Event| {
            seen.borrow_mut().push(event.id.clone());
            // What is enqueued meanwhile belongs to the next batch.
            enqueue(source, &Event::new(format!("{}-more", event.id), 1)?, &mut no_fault)
        };
        assert_eq!(way(source, &mut send, 2, &mut no_fault).0, Some(2));
        assert_eq!(*seen.borrow(), ["z", "a"]);
        assert_eq!(sent(stores), ["z", "a"]);
    });
}

#[test]
fn an_answer_that_is_not_true_is_no_acknowledgement() {
    with_pending(&["a", "b"], |stores, source, way| {
        let (_, error) = way(source, &mut |_| Ok(false), 8, &mut no_fault);
        assert!(matches!(error, Some(OutboxError::Delivery(_))), "{error:?}");
        assert!(sent(stores).is_empty());
    });
}

#[test]
fn it_stops_at_the_first_failure_and_keeps_what_was_acknowledged_before() {
    with_pending(&["a", "b", "c", "d"], |stores, source, way| {
        let mut calls = 0;
        let mut send = |event: Event| {
            calls += 1;
            if event.id == "c" {
                return Err(OutboxError::fault(super::Trouble(Point::AfterOrder)));
            }
            Ok(true)
        };
        let (_, error) = way(source, &mut send, 8, &mut no_fault);
        is_trouble::<()>(Err(error.unwrap()), Point::AfterOrder);
        assert_eq!(calls, 3, "d was not sent");
        assert_eq!(sent(stores), ["a", "b"]);
    });
}

#[test]
fn the_fault_comes_after_the_ack_and_before_the_mark() {
    with_pending(&["a", "b"], |stores, source, way| {
        let log = RefCell::new(Vec::new());
        let mut send = |event: Event| {
            log.borrow_mut().push(event.id);
            Ok(true)
        };
        let mut fault = |point: Point| {
            let id = log.borrow().last().unwrap().clone();
            assert!(!sent(stores).contains(&id), "{id} is marked already");
            log.borrow_mut().push(point.to_string());
            Ok(())
        };
        assert_eq!(way(source, &mut send, 8, &mut fault).0, Some(2));
        assert_eq!(*log.borrow(), ["a", "after-delivery", "b", "after-delivery"]);
    });
}

#[test]
fn a_fault_after_the_ack_comes_back_as_it_was_and_nothing_is_marked() {
    with_pending(&["a", "b"], |stores, source, way| {
        let point = Point::AfterDelivery;
        let (_, error) = way(source, &mut |_| Ok(true), 8, &mut trouble_at(point));
        is_trouble::<()>(Err(error.unwrap()), point);
        assert!(sent(stores).is_empty());
    });
}

#[test]
fn whatever_the_callback_does_to_its_copy_the_event_first_chosen_is_marked() {
    with_pending(&["a", "b"], |stores, source, way| {
        let mut send = |mut event: Event| {
            event.id = "b".to_owned();
            event.qty = 99;
            Ok(event.qty == 99)
        };
        assert_eq!(way(source, &mut send, 1, &mut no_fault).0, Some(1));
        assert_eq!(sent(stores), ["a"]);
    });
}

#[test]
fn no_transaction_is_open_while_it_sends() {
    with_pending(&["a", "b", "c"], |stores, source, way| {
        let other = stores.open(Role::Source);
        let mut send = |event: Event| {
            assert!(source.is_autocommit());
            // Another writer finds the door open, and may even mark what is being sent.
            other.execute_batch("BEGIN IMMEDIATE; COMMIT")?;
            if event.id == "b" {
                mark_sent(&other, &event)?;
            }
            Ok(true)
        };
        assert_eq!(way(source, &mut send, 8, &mut no_fault).0, Some(2), "b was marked by another");
        assert_eq!(sent(stores), ["a", "b", "c"]);
    });
}

#[test]
fn the_limit_is_checked_and_the_default_is_8() {
    with_pending(&["a"], |_, source, way| {
        for limit in [0, 17] {
            let (_, error) = way(source, &mut |_| panic!("sent"), limit, &mut no_fault);
            assert!(matches!(error, Some(OutboxError::Value(_))), "{error:?}");
        }
    });
    assert_eq!(oncegate::outbox::LIMIT_DEFAULT, 8);
}

#[test]
fn a_connection_inside_a_transaction_is_refused_before_anything_is_sent() {
    with_pending(&["a"], |_, source, way| {
        source.execute_batch("BEGIN").unwrap();
        let (_, error) = way(source, &mut |_| panic!("sent"), 8, &mut no_fault);
        assert!(matches!(error, Some(OutboxError::NotAutocommit)), "{error:?}");
        source.execute_batch("ROLLBACK").unwrap();
    });
}

#[test]
fn a_stored_row_that_is_no_event_stops_it_there() {
    with_pending(&["a"], |stores, source, way| {
        execute(&stores.source, "INSERT INTO outbox VALUES (9, 'not an id', 3, 0)");
        let (_, error) = way(source, &mut |_| Ok(true), 8, &mut no_fault);
        assert!(matches!(error, Some(OutboxError::Value(_))), "{error:?}");
        assert_eq!(sent(stores), ["a"]);
    });
}

#[test]
fn a_mark_that_fails_is_an_error_and_those_before_it_are_kept() {
    with_pending(&["a", "b"], |stores, source, way| {
        execute(
            &stores.source,
            "CREATE TRIGGER no BEFORE UPDATE ON outbox WHEN OLD.id = 'b'
             BEGIN SELECT RAISE(ABORT, 'not b'); END",
        );
        let (_, error) = way(source, &mut |_| Ok(true), 8, &mut no_fault);
        assert_eq!(error.unwrap().to_string(), "not b");
        assert_eq!(sent(stores), ["a"]);
    });
}

#[test]
fn a_row_that_changed_while_it_was_sent_is_a_conflict() {
    with_pending(&["a", "b", "c"], |stores, source, way| {
        let mut send = |event: Event| {
            if event.id == "b" {
                execute(&stores.source, "UPDATE outbox SET qty = 4 WHERE id = 'b'");
            }
            Ok(true)
        };
        let (_, error) = way(source, &mut send, 8, &mut no_fault);
        assert!(matches!(error, Some(OutboxError::Conflict { held: 4, .. })), "{error:?}");
        assert_eq!(sent(stores)[0], "a");
    });
}

#[test]
fn a_batch_with_a_failure_says_which_event_and_how_many_were_marked() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    for id in ["a", "b", "c"] {
        enqueue(&source, &event(id, 3), &mut no_fault).unwrap();
    }
    let batch = dispatch_batch(&source, &mut |event| Ok(event.id != "b"), 8, &mut no_fault);
    assert_eq!((batch.chosen, batch.marked), (3, 1));
    assert_eq!(batch.stopped.unwrap().event, Some(event("b", 3)));
}

#[test]
fn all_goes_on_batch_by_batch_until_nothing_is_pending() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    for n in 0..20 {
        enqueue(&source, &event(&format!("e{n}"), 1), &mut no_fault).unwrap();
    }
    let mut batches = Vec::new();
    let mut seen = Vec::new();
    let mut send = |sent: Event| {
        if sent.id == "e19" {
            // Late, and with a lower seq than all: another program's.
            execute(&stores.source, "INSERT INTO outbox VALUES (-5, 'early', 1, 0)");
            enqueue(&source, &event("late", 1), &mut no_fault)?;
        }
        seen.push(sent.id);
        Ok(true)
    };
    let sum = dispatch_all(&source, &mut send, 8, &mut no_fault, &mut |batch| {
        batches.push((batch.chosen, batch.marked));
    });
    assert_eq!((sum.chosen, sum.marked), (22, 22));
    assert!(sum.stopped.is_none());
    assert_eq!(batches, [(8, 8), (8, 8), (4, 4), (1, 1), (0, 0), (1, 1), (0, 0), (0, 0)]);
    assert_eq!(seen[20..], ["late", "early"]);
    assert_eq!(sent(&stores).len(), 22);
}

#[test]
fn all_stops_at_the_first_failure() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    for n in 0..9 {
        enqueue(&source, &event(&format!("e{n}"), 1), &mut no_fault).unwrap();
    }
    let mut calls = 0;
    let mut send = |event: Event| {
        calls += 1;
        Ok(event.id != "e5")
    };
    let sum = dispatch_all(&source, &mut send, 2, &mut no_fault, &mut |_| {});
    assert_eq!((sum.marked, calls), (5, 6));
    assert!(matches!(sum.stopped.unwrap().error, OutboxError::Delivery(_)));
    assert_eq!(sent(&stores).len(), 5);
}

/// The commits in the log of a store that is open: each is one fdatasync.
fn commits(store: &Path) -> usize {
    let mut log = store.as_os_str().to_owned();
    log.push("-wal");
    let log = std::fs::read(log).unwrap();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let page = number(&log[8..12]) as usize;
    // A frame's head says how long the store is after the commit that it ends, 0 if it ends none.
    log[32..].chunks(24 + page).filter(|frame| number(&frame[4..8]) > 0).count()
}

#[test]
fn one_by_one_each_mark_is_a_commit_and_together_those_of_a_batch_share_one() {
    let mut counts = Vec::new();
    for way in WAYS {
        let stores = Stores::new();
        let (source, sink) = (stores.open(Role::Source), stores.open(Role::Sink));
        for n in 0..16 {
            enqueue(&source, &event(&format!("e{n}"), 1), &mut no_fault).unwrap();
        }
        let before = (commits(&stores.source), commits(&stores.sink));
        let mut send = |event: Event| receive(&sink, &event, &mut no_fault);
        assert_eq!(way(&source, &mut send, 16, &mut no_fault).0, Some(16));
        counts.push((commits(&stores.source) - before.0, commits(&stores.sink) - before.1));
    }
    assert_eq!(counts, [(16, 16), (1, 16)]);
}
