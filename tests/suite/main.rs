//! The integration tests, one binary: a module per part of the product.

mod conformance;
mod console;
mod core_client;
mod crash;
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
