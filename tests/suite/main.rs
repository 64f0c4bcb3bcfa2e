//! The integration tests, one binary: a module per part of the product.

mod clock_jumps;
mod conformance;
mod core_client;
mod crash;
mod http_server;
mod layouts;
mod ledger_model;
mod ledgers;
#[path = "../model/src/model/mod.rs"]
mod model;
mod models;
mod orphans;
mod outbox;
mod relay;
mod simulated_core;
mod simulation;
mod sqlite_ledger;
mod support;
mod telegram;
