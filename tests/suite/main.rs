//! The integration tests, one binary: a module per part of the product.

mod conformance;
mod core_client;
mod http_server;
mod ledger_model;
mod ledgers;
mod orphans;
mod simulated_core;
mod sqlite_ledger;
mod support;
mod telegram;
