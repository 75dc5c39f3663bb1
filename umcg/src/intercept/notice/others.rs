//! Calls that wait for another party, for as long as that party likes.
//!
//! The rest of the calls that may block waits for memory, a disk or a file server. It is made in
//! place: it nearly always finds its data in memory, and a scope costs two hops.

use umcg_intercept::Call;

/// Whether the call may wait for another party. It was not tried.
pub(super) fn are_waited_for(call: &Call) -> bool {
    let [_, second, third, ..] = call.arguments;
    match call.number as libc::c_long {
        libc::SYS_fcntl => matches!(
            second as i32,
            libc::F_SETLKW | libc::F_OFD_SETLKW | libc::F_SETLEASE
        ),
        libc::SYS_flock => second as i32 & libc::LOCK_NB == 0,
        // With a number of completions to wait for.
        libc::SYS_io_uring_enter => third != 0,
        libc::SYS_futex
        | libc::SYS_pause
        | libc::SYS_rt_sigtimedwait
        | libc::SYS_rt_sigsuspend
        | libc::SYS_clock_nanosleep
        | libc::SYS_sendfile
        | libc::SYS_splice
        | libc::SYS_tee
        | libc::SYS_vmsplice
        | libc::SYS_io_getevents
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_sync
        | libc::SYS_syncfs
        | libc::SYS_sync_file_range
        | libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2
        | libc::SYS_ppoll
        | libc::SYS_pselect6
        | libc::SYS_wait4
        | libc::SYS_waitid => true,
        _ => false,
    }
}
