//! Stress: servers and workers of both kinds do everything at once, and every event is accounted
//! for.
//!
//! | variable | means |
//! |---|---|
//! | `UMCG_STRESS_SECONDS` | for how long each test goes on; 2 where it is not set |
//! | `UMCG_STRESS_SEED` | the first round's seed, as a failure prints it |
//! | `UMCG_STRESS_PATIENCE` | seconds without progress before the watchdog ends the process; 120 |
//!
//! A round takes its shape (servers, workers, preemption) and all choices in it from its seed. The
//! kernel's scheduling is not in the seed, so a failure may take a few runs to come again.

mod by_tid;
mod harness;
mod tokens;
