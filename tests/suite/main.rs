//! The integration tests, one binary: a module per part of the product.

mod cli;
mod conformance;
mod console;
mod core_client;
mod crash;
mod docs;
mod http_server;
mod layouts;
mod ledger_model;
mod ledgers;
mod orphans;
mod outbox;
mod relay;
mod simulated_core;
mod sqlite_ledger;
mod support;
mod telegram;
mod tidy;
