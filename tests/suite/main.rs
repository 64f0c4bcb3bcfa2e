//! The product's one integration binary: a module per part.

mod http_server;
mod outbox;
