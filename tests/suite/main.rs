//! The integration tests, one binary: a module per part of the product.

mod cli;
mod core_client;
mod docs;
mod http_server;
mod simulated_core;
mod support;
mod telegram;
mod tidy;
