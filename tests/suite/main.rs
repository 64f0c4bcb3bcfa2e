//! The integration tests, one binary: a module per part of the product.

mod conformance;
mod http_server;
mod ledger_model;
mod ledgers;
mod sqlite_ledger;
mod telegram;
