//! `memcpy`, `memmove`, `memset`, `memcmp`, `bcmp` and `strlen` without vector registers.
//!
//! The compiler calls these by itself. A hook of system calls must not change vector registers, and
//! those of the C library do. The symbols here are hidden: all references from the object that this
//! crate is linked into bind to them, and no others. So this is a crate of its own: a program that
//! only contains the engine keeps the C library's, which are faster.

#![no_std]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod x86_64;
