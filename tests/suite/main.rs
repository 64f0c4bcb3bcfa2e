//! The integration tests, one binary: a module per part of the product.

mod core_client;
mod http_server;
mod support;
mod telegram;
