//! Stacks of workers.

use crate::support::Kind;
use umcg::{Builder, Error, Runtime, SpawnError};

/// However small a stack is asked for, the library itself fits, and a function that does little.
#[test]
fn the_smallest_stack_is_large_enough_for_nothing() {
    let runtime = Runtime::builder().servers(1).stack_size(1).build().unwrap();
    for kind in [Kind::Full, Kind::Light] {
        for bytes in [0, 1, 4096] {
            let builder = Builder::new().stack_size(bytes);
            let worker = kind.build_on(&runtime, &builder, umcg::yield_now);
            worker.unwrap().join().unwrap();
        }
    }
}

#[test]
fn stacks_beyond_all_bounds_are_an_error() {
    let runtime = Runtime::builder().servers(1).build().unwrap();
    for bytes in [(1 << 30) + 1, usize::MAX / 2, usize::MAX] {
        let error = Kind::Full.build_on(&runtime, &Builder::new().stack_size(bytes), || ()).unwrap_err();
        assert!(matches!(error, SpawnError::Stack(_)) && error.to_string().contains("1 GiB"), "{error}");
        let error = Runtime::builder().stack_size(bytes).build().unwrap_err();
        assert!(matches!(error, Error::Stack(_)), "{error}");
    }
}

/// What ordinary code needs without optimisation, and a thread has: see also `ci/ordinary`.
#[test]
fn the_default_stack_has_room() {
    fn deep(n: u64) -> u64 {
        let frame = std::hint::black_box([n; 128]);
        if n == 0 { 0 } else { frame[100] - n + deep(n - 1) + 1 }
    }
    let runtime = Runtime::builder().servers(1).build().unwrap();
    for kind in [Kind::Full, Kind::Light] {
        assert_eq!(kind.run(&runtime, || deep(90)), 90);
    }
}
