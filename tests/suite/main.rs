//! The product's one integration binary: a module per part.

mod http_server;
//! The integration tests, one binary: a module per part of the product.

mod telegram;
