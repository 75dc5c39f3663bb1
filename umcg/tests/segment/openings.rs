//! Making, opening and naming.

use crate::again;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use umcg::segment::{Fault, NameError, OpenError, Segment, WaitError};

#[test]
fn what_is_no_segment() {
    assert!(matches!(Segment::open_file("/no/such/file"), Err(OpenError::Io(_))));
    assert!(matches!(Segment::open_file("/dev/null"), Err(OpenError::NotASegment)));
    for options in [Segment::options().objects(0), Segment::options().processes(5000), Segment::options().waiters(0)] {
        assert!(matches!(options.create(), Err(OpenError::Sizes)));
    }
    assert!(matches!(Segment::options().bytes(1 << 41).create(), Err(OpenError::Sizes)));
    // Each word of the header, with some values.
    for at in (0..48).step_by(8) {
        for value in [0, 1 << 12, u64::MAX, 1 << 40, 0x6d67_6573_6763_6d76] {
            let segment = Segment::create().unwrap();
            let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().unwrap());
            let mut old = [0; 8];
            file.read_exact_at(&mut old, at).unwrap();
            file.write_all_at(&u64::to_ne_bytes(value), at).unwrap();
            let opened = Segment::open(file);
            // Fewer bytes, or other numbers that fit, cannot be told from the truth.
            assert!(opened.is_err() || u64::from_ne_bytes(old) == value || (at >= 16 && value <= 1 << 12), "{at}: {value}");
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
    assert_eq!(segment.manual_event("e", false).unwrap_err(), NameError::Mismatch);
    assert_eq!(segment.tube::<u8>("t", 0).unwrap_err(), NameError::Size);
    assert_eq!(segment.tube::<u64>("t", u32::MAX).unwrap_err(), NameError::Size);
    segment.tube::<u64>("t", 100).unwrap();
    assert_eq!(segment.tube::<u64>("t", 99).unwrap_err(), NameError::Mismatch);
    assert_eq!(segment.tube::<u32>("t", 100).unwrap_err(), NameError::Mismatch);
    assert_eq!(segment.tube::<u64>("u", 100).unwrap_err(), NameError::Full);
    segment.tube::<u64>("u", 10).unwrap();
    assert_eq!(segment.semaphore("one too many", 0).unwrap_err(), NameError::Full);
    assert!(again(&segment).semaphore(&long, 0).is_ok());
}

#[test]
fn as_many_processes_and_waiters_as_there_is_room_for() {
    let segment = Segment::options().processes(2).waiters(3).create().unwrap();
    let other = again(&segment);
    assert!(matches!(Segment::open(segment.as_fd().try_clone_to_owned().unwrap()), Err(OpenError::Full)));
    let semaphore = other.semaphore("s", 0).unwrap();
    let four = [&semaphore, &semaphore, &semaphore, &semaphore];
    assert_eq!(umcg::segment::acquire_any(&four), Err(Fault::Full));
    assert_eq!(umcg::segment::acquire_any_timeout(&four[..3], Duration::from_millis(2)), Err(WaitError::TimedOut));
    drop((other, semaphore));
    let semaphore = again(&segment).semaphore("s", 0).unwrap();
    let two = [&semaphore, &semaphore];
    assert_eq!(umcg::segment::acquire_any_timeout(&two, Duration::from_millis(2)), Err(WaitError::TimedOut));
}
