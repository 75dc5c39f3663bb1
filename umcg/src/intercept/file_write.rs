//! Writes to files of known file systems, made on the server.
//!
//! Such a write copies into the page cache, and mostly waits for nothing. But ext4 and tmpfs do not
//! know a write that does not wait (RWF_NOWAIT), and a way home takes several times as long as the
//! write. Threads of databases and of logs wait for each other and write in turn, so each write
//! would take that way: RocksDB's `fillrandom` with eight threads made 0.41 times as many writes as
//! natively.
//!
//! - Only file systems of this machine's disks and memory: a daemon of FUSE may be a thread that
//!   waits for this server.
//! - A write that takes long has waited: for a disk (O_DSYNC, O_DIRECT), or because too much is
//!   dirty. Meanwhile its server runs nobody. So the writes of some time after that are made at
//!   home; if the next one takes long again, for twice that time.
//! - To find out which file it is takes as long as the write, and asks such a daemon. So the first
//!   write does that at home. It is noted by the descriptor's number, until the program closes or
//!   replaces it (`descriptor`). An answer that is found while another thread does that is not
//!   noted: numbers have versions.
//! - SIGXFSZ is for the thread that writes. It is taken back, and the call made again at home.

use super::in_place::{is_answer, is_on_disk, take_back};
use crate::rt::base::clock;
use rustix::fs::fstatfs;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use umcg_core::call as make;
use umcg_intercept::Call;

const EFBIG: isize = -(libc::EFBIG as isize);
/// In nanoseconds: a write that takes longer has waited.
const LONG: u64 = 200_000;
/// For how long writes are made at home then, and how often in a row that is doubled at most.
const REST: u64 = 5_000_000;
const DOUBLINGS: u32 = 10;

/// Until when writes are made at home.
static RESTS_UNTIL: AtomicU64 = AtomicU64::new(0);
/// How many in a row have taken long.
static LONG_ONES: AtomicU32 = AtomicU32::new(0);

/// What is known of descriptors: [`IS_LOCAL`], and above it a version.
static KNOWN: [AtomicU32; 4096] = [const { AtomicU32::new(0) }; 4096];
const IS_LOCAL: u32 = 1;
const VERSION: u32 = 2;

/// Whether the descriptor is known to be of such a file.
pub(super) fn is_known(fd: usize) -> bool {
    let known = KNOWN.get(fd).map(|known| known.load(Relaxed));
    known.is_some_and(|known| known & IS_LOCAL != 0)
}

/// These descriptors are about to be closed or replaced.
pub(super) fn forget(fds: RangeInclusive<usize>) {
    let (first, last) = (*fds.start(), *fds.end());
    for known in KNOWN.iter().take(last.saturating_add(1)).skip(first) {
        let next = |known: u32| Some((known & !IS_LOCAL).wrapping_add(VERSION));
        let _ = known.fetch_update(Relaxed, Relaxed, next);
    }
}

/// Makes the call, a write to the descriptor that is its first argument, if that is known to be of
/// such a file. None if it is to be made at home.
pub(super) fn attempt(call: &Call) -> Option<isize> {
    let begin = clock::now();
    if !is_known(call.arguments[0]) || begin < RESTS_UNTIL.load(Relaxed) {
        return None;
    }
    // SAFETY: as the guest asks.
    let result = unsafe { make(call.number as libc::c_long, call.arguments) };
    note_time(begin, clock::now());
    if result == EFBIG {
        take_back(libc::SIGXFSZ);
        return None;
    }
    (result >= 0 || is_answer(result)).then_some(result)
}

fn note_time(begin: u64, end: u64) {
    let in_a_row = LONG_ONES.load(Relaxed);
    if end - begin > LONG {
        RESTS_UNTIL.store(end + (REST << in_a_row.min(DOUBLINGS)), Relaxed);
        LONG_ONES.store(in_a_row.saturating_add(1), Relaxed);
    } else if in_a_row > 0 {
        LONG_ONES.store(0, Relaxed);
    }
}

/// Notes whether the descriptor is of such a file. Called at home: it may wait.
pub(super) fn find_out(fd: usize) {
    let Some(known) = KNOWN.get(fd) else { return };
    let before = known.load(Relaxed);
    if is_local(fd) {
        let _ = known.compare_exchange(before, before | IS_LOCAL, Relaxed, Relaxed);
    }
}

/// Whether it is a regular file, or a block device, of a file system that waits for no other
/// thread.
fn is_local(fd: usize) -> bool {
    const EXT4: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683e;
    const F2FS: i64 = 0xf2f5_2010;
    const ZFS: i64 = 0x2fc1_2fc1;
    const TMPFS: i64 = 0x0102_1994;
    /// Of containers.
    const OVERLAY: i64 = 0x794c_7630;
    const LOCAL: [i64; 7] = [EXT4, XFS, BTRFS, F2FS, ZFS, TMPFS, OVERLAY];
    // SAFETY: if it is not open, the kernel says so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd as i32) };
    let is_known = fstatfs(borrowed).is_ok_and(|it| LOCAL.contains(&it.f_type));
    is_known && is_on_disk(fd)
}
