//! The runtime: servers that run workers until there are none.

mod here;
mod per_server;
mod sync;
mod wheel;

pub use here::Here;
pub use per_server::{Load, PerServer};
