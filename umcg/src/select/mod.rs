//! Waiting for whichever of many things comes first.

pub(crate) mod engine;
