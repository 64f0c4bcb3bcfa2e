//! The source inside a business transaction of one's own: a customer, an order and the intent to send it are saved together or not at
//! all; then it is sent, and its effect is once, although the first acknowledgement is lost.
//!
//! `cargo run --example outbox_embedded`

use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use oncegate::outbox::{
    self, Event, HttpSender, LIMIT_DEFAULT, OutboxError, Receiver, Role, Status, no_fault,
};
use rusqlite::{Connection, TransactionBehavior};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let mut shop = open_shop(&dir.path().join("shop.db"))?;
    place_order(&mut shop, "a customer", "order-1", 3)?;
    place_order(&mut shop, "another", "order-2", 4)?;

    // The same id with another quantity is refused, and takes the customer back with it.
    let refused = place_order(&mut shop, "a third", "order-2", 5);
    assert!(matches!(refused, Err(OutboxError::Conflict { .. })));
    let customers: i64 = shop.query_row("SELECT count(*) FROM customers", [], |row| row.get(0))?;
    assert_eq!(customers, 2);

    // The warehouse, which is another process in real life.
    let sink = dir.path().join("warehouse.db");
    let warehouse = Receiver::start(&sink, TcpListener::bind("127.0.0.1:0")?)?;
    let sender = HttpSender::new(&format!("http://{}/events", warehouse.local_addr()), 1.0)?;

    // The first acknowledgement is lost: not marked, sent again, received once.
    let mut lose_it = |event: Event| {
        sender.send(&event)?;
        Err(OutboxError::fault("the answer was lost"))
    };
    assert!(outbox::dispatch(&shop, &mut lose_it, LIMIT_DEFAULT, &mut no_fault).is_err());
    let mut send = |event: Event| sender.send(&event);
    let marked = outbox::dispatch(&shop, &mut send, LIMIT_DEFAULT, &mut no_fault)?;

    warehouse.shutdown(Duration::from_secs(1));
    let status = outbox::status(&outbox::open_existing(&sink, Role::Sink)?, Role::Sink)?;
    assert_eq!((marked, status), (2, Status::Sink { received: 2, stock: Some(7) }));
    println!("{marked} orders sent; {status}");
    Ok(())
}

/// Tables of one's own beside the source's, which lets them be.
fn open_shop(path: &Path) -> Result<Connection, OutboxError> {
    let shop = outbox::open_store(path, Role::Source)?;
    shop.execute_batch("CREATE TABLE IF NOT EXISTS customers (name TEXT, order_id TEXT)")?;
    Ok(shop)
}

/// One transaction: dropped without its commit, all of it is undone.
fn place_order(
    shop: &mut Connection,
    customer: &str,
    id: &str,
    qty: i64,
) -> Result<(), OutboxError> {
    let event = Event::new(id, qty)?;
    let tx = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute("INSERT INTO customers (name, order_id) VALUES (?1, ?2)", (customer, id))?;
    outbox::enqueue_within(&tx, &event)?;
    Ok(tx.commit()?)
}
