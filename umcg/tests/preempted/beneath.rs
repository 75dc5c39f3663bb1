//! Code of the program's that a library has called which may keep a lock meanwhile.

use crate::library::{Library, build};
use crate::storm::{self, Shape};
use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Once, OnceLock};

const ONE_SERVER: Shape = Shape {
    servers: 1,
    workers: 8,
    ranked: false,
};
const TWO_SERVERS: Shape = Shape {
    servers: 2,
    workers: 8,
    ranked: true,
};

fn compute(length: u64) {
    (0..length).for_each(|n| _ = black_box(n));
}

/// Only one flow at a time is in there.
struct Alone(AtomicI32);

impl Alone {
    const fn new() -> Alone {
        Alone(AtomicI32::new(0))
    }

    fn compute(&self, length: u64) {
        assert_eq!(
            self.0.fetch_add(1, Relaxed),
            0,
            "somebody was taken off in there"
        );
        compute(length);
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Constructors and destructors of a library that comes and goes run under a lock of the loader's.
#[test]
fn in_a_constructor() {
    // The program calls the library, and is called by it, before `dlopen` returns.
    const SOURCE: &str = "
        #include <stdlib.h>
        static volatile int begun;
        static void call(void) {
            ((void (*)(void))strtoul(getenv(\"UMCG_TEST_CALL\"), NULL, 16))();
        }
        static __attribute__((constructor)) void begin(void) { call(); begun = 1; }
        static __attribute__((destructor)) void end(void) { begun = 0; call(); }
        int has_begun(void) { return begun; }
    ";
    static ALONE: Alone = Alone::new();
    static PATH: OnceLock<CString> = OnceLock::new();
    extern "C" fn call() {
        ALONE.compute(3000);
    }
    let Some(path) = build("constructor", SOURCE) else {
        return;
    };
    PATH.get_or_init(|| path);
    let address = format!("{:x}", call as extern "C" fn() as usize);
    // SAFETY: no other thread of this process looks at the environment yet.
    unsafe { std::env::set_var("UMCG_TEST_CALL", address) };
    let load = || {
        // SAFETY: its constructor and its destructor only compute.
        let library = unsafe { Library::open(PATH.get().unwrap()) };
        // SAFETY: the function has this type, in the source above.
        let has_begun = unsafe {
            std::mem::transmute::<*mut c_void, extern "C" fn() -> i32>(library.symbol(c"has_begun"))
        };
        assert_eq!(has_begun(), 1);
        compute(200);
        drop(library);
        compute(200);
    };
    storm::survives("beneath::in_a_constructor", ONE_SERVER, load);
    storm::survives("beneath::in_a_constructor", TWO_SERVERS, load);
}

/// No comparison comes in the midst of another sort, as there is one server.
#[test]
fn in_a_comparison() {
    unsafe extern "C" {
        fn qsort_r(
            base: *mut u64,
            count: usize,
            size: usize,
            compare: extern "C" fn(&u64, &u64, &AtomicU64) -> i32,
            comparisons: *const AtomicU64,
        );
    }
    /// The sort that is going on.
    static SORT: AtomicUsize = AtomicUsize::new(0);
    static ALONE: Alone = Alone::new();
    extern "C" fn compare(one: &u64, other: &u64, comparisons: &AtomicU64) -> i32 {
        let sort = (&raw const *comparisons).addr();
        let is_first = comparisons.fetch_add(1, Relaxed) == 0;
        assert!(
            SORT.swap(sort, Relaxed) == sort || is_first,
            "somebody was taken off in the midst of a sort"
        );
        ALONE.compute(if is_first { 20_000 } else { 20 });
        one.cmp(other) as i32
    }
    let sort = || {
        // So many that the C library may allocate memory for them.
        let mut numbers: Vec<u64> = (0..200u64)
            .map(|n| n.wrapping_mul(6364136223846793005))
            .collect();
        let comparisons = AtomicU64::new(0);
        // A former sort may have had its count in this place.
        SORT.store(0, Relaxed);
        // SAFETY: as many numbers, of this size.
        unsafe {
            qsort_r(
                numbers.as_mut_ptr(),
                numbers.len(),
                size_of::<u64>(),
                compare,
                &raw const comparisons,
            )
        };
        assert!(numbers.is_sorted() && comparisons.into_inner() > 0);
        compute(200);
    };
    storm::survives("beneath::in_a_comparison", ONE_SERVER, sort);
}

unsafe extern "C" {
    fn pthread_once(once: *const AtomicI32, routine: extern "C" fn()) -> i32;
}

/// If it was due, a critical section gives way at its end, but not while a frame beneath it holds a
/// lock.
#[test]
fn at_the_end_of_a_critical_section() {
    extern "C" fn routine() {
        umcg::critical(|| compute(2000));
        compute(100);
    }
    static ONCE: AtomicPtr<AtomicI32> = AtomicPtr::new(null_mut());
    let once = || {
        let current = ONCE.load(Acquire);
        if !current.is_null() {
            // SAFETY: zero at first, as PTHREAD_ONCE_INIT is; never freed.
            assert_eq!(unsafe { pthread_once(current, routine) }, 0);
        }
        compute(2000);
        ONCE.store(Box::into_raw(Box::new(AtomicI32::new(0))), Release);
    };
    storm::survives(
        "beneath::at_the_end_of_a_critical_section",
        ONE_SERVER,
        once,
    );
}

/// Nor in a signal handler: the kernel thread blocks its signal until it returns.
#[test]
fn at_the_end_of_a_critical_section_in_a_handler() {
    static ALONE: Alone = Alone::new();
    extern "C" fn handler(_: i32) {
        umcg::critical(|| compute(2000));
        ALONE.compute(100);
    }
    let raise = || {
        static INSTALL: Once = Once::new();
        umcg::critical(|| INSTALL.call_once(|| storm::handle(libc::SIGUSR1, handler, 0)));
        storm::raise(libc::SIGUSR1);
        compute(2000);
        assert!(!storm::is_blocked(libc::SIGUSR1));
    };
    storm::survives(
        "beneath::at_the_end_of_a_critical_section_in_a_handler",
        ONE_SERVER,
        raise,
    );
}

/// A language runtime that is loaded when workers are preempted already, and its lock: no worker is
/// taken off in it, or in functions that it calls.
#[test]
fn a_runtime_that_is_loaded_late() {
    const SOURCE: &str = "
        #include <pthread.h>
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static volatile unsigned long sum;
        void locked(void (*call)(void))
        {
            pthread_mutex_lock(&lock);
            for (int n = 0; n < 2000; n++)
                sum = sum + 1;
            call();
            pthread_mutex_unlock(&lock);
        }
    ";
    static ALONE: Alone = Alone::new();
    static PATH: OnceLock<CString> = OnceLock::new();
    extern "C" fn call() {
        ALONE.compute(2000);
    }
    // By its name it is one.
    let Some(path) = build("libstdc++-of-the-test", SOURCE) else {
        return;
    };
    PATH.get_or_init(|| path);
    let lock = || {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        let library = umcg::critical(|| {
            // SAFETY: it has no constructors.
            LIBRARY.get_or_init(|| unsafe { Library::open(PATH.get().unwrap()) })
        });
        let locked = library.symbol(c"locked");
        // SAFETY: the function has this type, in the source above.
        let locked =
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(extern "C" fn())>(locked) };
        locked(call);
        compute(2000);
    };
    storm::survives("beneath::a_runtime_that_is_loaded_late", ONE_SERVER, lock);
    storm::survives("beneath::a_runtime_that_is_loaded_late", TWO_SERVERS, lock);
}
