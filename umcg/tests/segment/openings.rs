//! Making, opening and naming.

use crate::again;
use std::ffi::c_void;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::ptr::{null, null_mut, without_provenance_mut};
use std::time::Duration;
use umcg::segment::{Fault, NameError, OpenError, Segment, WaitError};

#[test]
fn what_is_no_segment() {
    assert!(matches!(
        Segment::open_file("/no/such/file"),
        Err(OpenError::Io(_))
    ));
    assert!(matches!(
        Segment::open_file("/dev/null"),
        Err(OpenError::NotASegment)
    ));
    for options in [
        Segment::options().objects(0),
        Segment::options().processes(5000),
        Segment::options().waiters(0),
    ] {
        assert!(matches!(options.create(), Err(OpenError::Sizes)));
    }
    assert!(matches!(
        Segment::options().bytes(1 << 41).create(),
        Err(OpenError::Sizes)
    ));
    // Each word of the header, with some values.
    for at in (0..48).step_by(8) {
        for value in [0, 1 << 12, u64::MAX, 1 << 40, 0x6d67_6573_6763_6d76] {
            let segment = Segment::create().unwrap();
            let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().unwrap());
            let mut old = [0; 8];
            file.read_exact_at(&mut old, at).unwrap();
            file.write_all_at(&u64::to_ne_bytes(value), at).unwrap();
            let opened = Segment::open(file);
            // Fewer bytes, or other numbers that fit, look just as valid.
            assert!(
                opened.is_err()
                    || u64::from_ne_bytes(old) == value
                    || (at >= 16 && value <= 1 << 12),
                "{at}: {value}"
            );
        }
    }
}

#[test]
fn a_file() {
    let path = std::env::temp_dir().join(format!("umcg-segment-{}", std::process::id()));
    let segment = Segment::create_file(&path).unwrap();
    assert!(matches!(Segment::create_file(&path), Err(OpenError::Io(_))));
    segment.semaphore("s", 3).unwrap();
    drop(segment);
    let segment = Segment::open_file(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(segment.semaphore("s", 0).unwrap().available(), 3);
}

#[test]
fn names() {
    let segment = Segment::options().objects(4).bytes(1000).create().unwrap();
    let long = "x".repeat(64);
    for name in ["", "a\0b", &format!("{long}x")] {
        assert_eq!(segment.semaphore(name, 0).unwrap_err(), NameError::Name);
    }
    segment.semaphore(&long, 0).unwrap();
    segment.auto_event("e", false).unwrap();
    assert_eq!(
        segment.manual_event("e", false).unwrap_err(),
        NameError::Mismatch
    );
    assert_eq!(segment.tube::<u8>("t", 0).unwrap_err(), NameError::Size);
    assert_eq!(
        segment.tube::<u64>("t", u32::MAX).unwrap_err(),
        NameError::Size
    );
    segment.tube::<u64>("t", 100).unwrap();
    assert_eq!(
        segment.tube::<u64>("t", 99).unwrap_err(),
        NameError::Mismatch
    );
    assert_eq!(
        segment.tube::<u32>("t", 100).unwrap_err(),
        NameError::Mismatch
    );
    assert_eq!(segment.tube::<u64>("u", 100).unwrap_err(), NameError::Full);
    segment.tube::<u64>("u", 10).unwrap();
    assert_eq!(
        segment.semaphore("one too many", 0).unwrap_err(),
        NameError::Full
    );
    assert!(again(&segment).semaphore(&long, 0).is_ok());
}

#[test]
fn as_many_processes_and_waiters_as_there_is_room_for() {
    let segment = Segment::options().processes(2).waiters(3).create().unwrap();
    let other = again(&segment);
    assert!(matches!(
        Segment::open(segment.as_fd().try_clone_to_owned().unwrap()),
        Err(OpenError::Full)
    ));
    let semaphore = other.semaphore("s", 0).unwrap();
    let four = [&semaphore, &semaphore, &semaphore, &semaphore];
    assert_eq!(umcg::segment::acquire_any(&four), Err(Fault::Full));
    assert_eq!(
        umcg::segment::acquire_any_timeout(&four[..3], Duration::from_millis(2)),
        Err(WaitError::TimedOut)
    );
    drop((other, semaphore));
    let semaphore = again(&segment).semaphore("s", 0).unwrap();
    let two = [&semaphore, &semaphore];
    assert_eq!(
        umcg::segment::acquire_any_timeout(&two, Duration::from_millis(2)),
        Err(WaitError::TimedOut)
    );
}

/// Places that parties have had for their waits are there for others when no party waits.
#[test]
fn waits_that_are_over_leave_room() {
    let first = Segment::options()
        .processes(8)
        .waiters(64)
        .create()
        .unwrap();
    let parties: Vec<_> = (0..7).map(|_| again(&first)).collect();
    for _ in 0..3 {
        for party in &parties {
            let semaphore = party.semaphore("s", 0).unwrap();
            let late =
                umcg::segment::acquire_any_timeout(&[&semaphore; 40], Duration::from_millis(1));
            assert_eq!(late, Err(WaitError::TimedOut));
        }
    }
    let semaphore = first.semaphore("s", 0).unwrap();
    let late = umcg::segment::acquire_any_timeout(&[&semaphore; 64], Duration::from_millis(1));
    assert_eq!(late, Err(WaitError::TimedOut), "all of it is free");
}

/// Makes the object that has this name corrupt, as a stray write would.
fn condemn(segment: &Segment, name: &str) {
    /// Where an object has its name, and the bit for corrupt in its word.
    const NAME: u64 = 128;
    const CORRUPT: u64 = 1 << 34;
    let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().unwrap());
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let at = bytes
        .windows(name.len())
        .position(|bytes| bytes == name.as_bytes())
        .unwrap() as u64;
    file.write_all_at(&CORRUPT.to_ne_bytes(), at - NAME)
        .unwrap();
}

/// The name of an object that is lost can be had again; the holders of the old object get its error
/// as before.
#[test]
fn names_of_what_is_lost() {
    let segment = Segment::options().objects(4).bytes(1000).create().unwrap();
    let old = segment.semaphore("precious", 1).unwrap();
    assert_eq!(segment.forget("precious"), Ok(false), "it is in order");
    assert_eq!(segment.forget("unknown"), Ok(false));
    assert_eq!(segment.forget(""), Err(NameError::Name));
    condemn(&segment, "precious");
    assert_eq!(
        old.try_acquire(),
        Err(umcg::segment::TryError::Fault(Fault::Corrupt))
    );
    assert_eq!(
        again(&segment).semaphore("precious", 1).unwrap().fault(),
        Some(Fault::Corrupt)
    );
    assert_eq!(again(&segment).forget("precious"), Ok(true));
    assert_eq!(segment.forget("precious"), Ok(false), "nobody has the name");
    let new = segment.tube::<u64>("precious", 3).unwrap();
    new.send(7).unwrap();
    assert_eq!((new.recv(), old.fault()), (Ok(7), Some(Fault::Corrupt)));
    assert!(
        again(&segment)
            .tube::<u64>("precious", 3)
            .unwrap()
            .as_bytes()
            .is_empty()
    );
}

/// A thread that is to end at its next point of cancellation of the C library's opens a segment all
/// the same: or the lock for the files that are open would be taken for good.
#[test]
fn opening_is_no_point_of_cancellation() {
    unsafe extern "C" {
        fn pthread_cancel(thread: libc::pthread_t) -> i32;
        fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
    }
    extern "C" fn main(segment: *mut c_void) -> *mut c_void {
        const DISABLE: i32 = 1;
        // SAFETY: passed below, which joins this thread.
        let segment = unsafe { &*segment.cast::<Segment>() };
        // SAFETY: no preconditions.
        let me = unsafe { libc::pthread_self() };
        // SAFETY: the calling thread.
        unsafe { pthread_cancel(me) };
        let opened = again(segment);
        let made = opened
            .semaphore("s", 3)
            .map(|semaphore| semaphore.available());
        // SAFETY: for the rest of this thread's life.
        unsafe { pthread_setcancelstate(DISABLE, null_mut()) };
        without_provenance_mut(made.unwrap_or(0) as usize)
    }
    let segment = Segment::create().unwrap();
    let (mut thread, mut result) = (0, null_mut());
    let argument = (&raw const segment).cast_mut().cast();
    assert_eq!(
        // SAFETY: `main` takes the segment, which outlives the thread.
        unsafe { libc::pthread_create(&raw mut thread, null(), main, argument) },
        0
    );
    // SAFETY: made just now, and joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, &raw mut result) }, 0);
    assert_eq!(result.addr(), 3, "it was cancelled in there");
}
