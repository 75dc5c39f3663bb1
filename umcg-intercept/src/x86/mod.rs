//! The engine on x86-64.

pub(crate) mod arena;
pub(crate) mod child;
pub(crate) mod code;
pub(crate) mod decode;
pub(crate) mod engine;
pub(crate) mod entries;
pub(crate) mod extended;
pub(crate) mod image;
pub(crate) mod isa;
pub(crate) mod length;
pub(crate) mod maps;
pub(crate) mod net;
pub(crate) mod own;
pub(crate) mod patch;
pub(crate) mod raw;
pub(crate) mod refused;
pub(crate) mod scan;
pub(crate) mod step;
pub(crate) mod stub;
pub(crate) mod trampoline;
pub(crate) mod trap;
pub(crate) mod unwind;
pub(crate) mod window;
pub(crate) mod zone;
