//! Code of the program's at a bad moment. Every public operation of `tube`, `select`, `sync`, `rt`,
//! `nt`, `futex` and `segment` that runs such code (wakers, destructors, clones, objects of one's
//! own, closures, iterators) is tried with each bad callback there is, at each point where one may
//! be called, in workers of both kinds and in plain threads. Then everything is counted: each value
//! was dropped once, no queue has a waiter, nothing hangs, and every callback that was due was
//! called.
//!
//! The rule under test: `umcg/src/rt/base/last.rs`. The operations are tables (`tubes::rows`,
//! `selects::HOWS`, `syncs::ROWS`, `runtimes::ROWS`, `servers::ROWS`, `objects::ROWS`): a new
//! operation is one more row. Operations that have no row run none of the program's code, or may
//! not be given such code: `syncs`, `runtimes`, `servers` and `objects` say of which.

mod ledger;
mod objects;
mod parties;
mod rows;
mod runtimes;
mod selects;
mod servers;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "../rt/support.rs"]
mod support;
mod syncs;
mod trap;
mod tubes;
