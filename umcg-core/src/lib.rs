//! The mechanism under umcg: underlying threads, servers, workers.
//!
//! Where speed asks for it, this crate leaves safety to its callers. The crate `umcg` puts safe
//! types above.

mod arch;
mod base;
pub mod ctl;
mod identity;
mod os;
pub mod raw;
pub mod storage;
mod umcg;
pub mod uth;

pub use crate::base::call::call;
pub use crate::umcg::guest::{FAULTS, GuestHead};
pub use crate::umcg::reach;
pub use base::granted::{Granted, granted};
pub use base::scarce::{SpareList, try_box};
pub use base::uncancelled::Uncancelled;
pub use os::fatal::{fatal, say};
pub use os::sanitizer::is_sanitized;
pub use os::{asymmetric, boundary, guarded, kernel_thread};
pub use umcg_context as context;

/// Forks, for the parts of the library that they concern.
pub mod fork {
    pub use crate::os::fork::{Part, after, by_interception, prepare};
}

/// Handlers of signals.
pub mod signal {
    pub use crate::os::signal::{
        Handler, HandlerFn, UnwindingHandlerFn, install, take_pending, unwinding, without,
    };
}
