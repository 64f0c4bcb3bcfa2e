//! The integration tests, one binary: a module per part of the product.

mod canary;
mod chaos;
mod cli;
mod clock_jumps;
mod conformance;
mod console;
mod core_client;
mod core_tls;
mod crash;
mod docs;
mod http_server;
mod kill_points;
mod layouts;
mod ledger_model;
mod ledgers;
mod marks;
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
mod tidy;
