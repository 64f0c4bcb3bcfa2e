//! The integration tests, one binary: a module per part of the product.

mod http_server;
mod telegram;
