//! Context switches, stacks and stack pools: the base of everything else in umcg.
//!
//! A [`Context`] is saved registers and a stack pointer, nothing else. [`switch`] goes from one to
//! another in user mode. Stacks come from [`stack`], and [`pool`] keeps them.
//!
//! Nothing is promised about the caller's right to run a flow: the crates above see to that.
#![no_std]

pub mod annotate;
mod arch;
mod context;
pub mod guard;
pub mod local;
pub mod lock;
pub mod pool;
#[cfg(feature = "portable")]
pub mod portable;
pub mod stack;
pub mod way;

pub use context::{
    Context, EntryFn, inject, resume, set_thread_pointer, switch, switch_with, thread_pointer,
    thread_pointer_writable,
};
