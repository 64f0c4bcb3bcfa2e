//! The integration tests, one binary: a module per part of the product.

mod core_client;
mod crash;
mod http_server;
mod layouts;
mod relay;
mod simulated_core;
mod support;
mod telegram;
