//! Flows without a kernel thread have storage of their own.

use rustix::process::{Pid, WaitOptions, waitpid};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Instant;
use umcg_core::context::stack::{self, SizeClass};
use umcg_core::context::{Context, set_thread_pointer, switch, thread_pointer};
use umcg_core::storage::{self, Block, BlockPool};

type Body = Box<dyn FnOnce(&Flow)>;

/// A flow with a block, run by the thread that has it.
struct Flow {
    context: UnsafeCell<Context>,
    /// The runner's context, and its thread pointer.
    runner: UnsafeCell<Context>,
    runner_tp: Cell<usize>,
    block: Cell<Option<Block>>,
    /// The block's thread pointer.
    tp: usize,
    body: Cell<Option<Body>>,
    done: Cell<bool>,
}

// SAFETY: one thread has it at a time, and only that thread runs it. Values in the bodies here are
// `Send`, or are made and dropped within the flow, whose storage goes with it.
unsafe impl Send for Flow {}

impl Flow {
    fn new(pool: &mut BlockPool, body: impl FnOnce(&Flow) + 'static) -> Box<Flow> {
        let stack = stack::allocate(SizeClass::for_size(128 << 10).unwrap()).unwrap();
        let block = pool.take().unwrap();
        let mut flow = Box::new(Flow {
            context: UnsafeCell::new(Context::empty()),
            runner: UnsafeCell::new(Context::empty()),
            runner_tp: Cell::new(0),
            tp: block.thread_pointer(),
            block: Cell::new(Some(block)),
            body: Cell::new(Some(Box::new(body))),
            done: Cell::new(false),
        });
        let argument = (&raw const *flow).cast_mut().cast();
        // SAFETY: the stack is the flow's own.
        unsafe {
            flow.context
                .get_mut()
                .prepare(stack.top(), first_frame, argument)
        };
        flow
    }

    /// Runs the flow until it pauses. Returns whether it has more to do.
    #[inline(never)]
    fn run(&self) -> bool {
        self.runner_tp.set(thread_pointer());
        // SAFETY: there are blocks, so the thread pointer can be written (`here`). No other thread
        // runs with this storage, as no other thread runs the flow. The switch is next.
        unsafe { set_thread_pointer(self.tp) };
        // SAFETY: the flow was made ready, or has paused. Both contexts stay where they are, as
        // this call does not return before.
        unsafe { switch(self.runner.get(), self.context.get()) };
        !self.done.get()
    }

    /// Lets the runner continue.
    #[inline(never)]
    fn pause(&self) {
        // SAFETY: the runner waits in `run`, so its storage is not in use. The switch is next.
        unsafe { set_thread_pointer(self.runner_tp.get()) };
        // SAFETY: the runner is in `run`, where it continues. This flow's context stays where it
        // is.
        unsafe { switch(self.context.get(), self.runner.get()) };
    }

    fn take_block(&self) -> Block {
        self.block.take().unwrap()
    }

    fn with_block(&self, f: impl FnOnce(&Block)) {
        let block = self.take_block();
        f(&block);
        self.block.set(Some(block));
    }
}

unsafe extern "C" fn first_frame(flow: *mut ()) -> ! {
    // SAFETY: the argument of `prepare`. It lives as long as any thread runs it.
    let flow = unsafe { &*flow.cast::<Flow>() };
    // SAFETY: `run` has set the thread pointer.
    flow.with_block(|block| unsafe { block.begin() });
    let body = flow.body.take().unwrap();
    body(flow);
    // SAFETY: as above. Nothing below uses a thread-local.
    flow.with_block(|block| unsafe { block.finish() });
    flow.done.set(true);
    loop {
        flow.pause();
    }
}

/// Whether this machine has blocks. Fails with the reason if it has none and should have them.
fn here() -> bool {
    match storage::available() {
        Ok(()) => true,
        Err(why) => {
            let expected = cfg!(all(
                target_env = "gnu",
                any(target_arch = "x86_64", target_arch = "aarch64"),
                not(any(umcg_asan, umcg_tsan))
            ));
            let forbidden = ["UMCG_NO_OWN_STORAGE", "UMCG_NO_FSGSBASE"]
                .iter()
                .any(|name| std::env::var_os(name).is_some());
            assert!(
                !expected || forbidden || !umcg_core::context::thread_pointer_writable(),
                "{why}"
            );
            false
        }
    }
}

/// Runs these bodies in turn until all are done, and gives the blocks back.
fn interleave(pool: &mut BlockPool, bodies: Vec<Body>) {
    let flows: Vec<_> = bodies
        .into_iter()
        .map(|body| Flow::new(pool, body))
        .collect();
    let mut left: Vec<&Flow> = flows.iter().map(|flow| &**flow).collect();
    while !left.is_empty() {
        left.retain(|flow| flow.run());
    }
    for flow in &flows {
        pool.give(flow.take_block());
    }
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Counted(usize);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Relaxed);
    }
}

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(7) };
    static NAME: RefCell<String> = RefCell::new("new".into());
    static COUNTED: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

fn set_errno(to: i32) {
    // SAFETY: only asks for the address.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the calling flow's own.
    unsafe { *errno = to };
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// Uses everything that a thread has of its own, over several pauses.
fn use_all(flow: &Flow, me: usize, ids: &Mutex<HashSet<ThreadId>>) {
    assert_eq!(errno(), 0);
    assert_eq!(NUMBER.replace(me), 7);
    NAME.with_borrow_mut(|name| {
        assert_eq!(*name, "new");
        *name = me.to_string();
    });
    COUNTED.with_borrow_mut(|counted| assert!(counted.replace(Counted(me)).is_none()));
    let id = std::thread::current().id();
    assert!(ids.lock().unwrap().insert(id));
    for round in 0..5 {
        set_errno(me as i32);
        let chunks: Vec<Vec<u8>> = (0..50).map(|size| vec![me as u8; 16 + size * me]).collect();
        let map: HashMap<usize, String> =
            (0..20).map(|key| (key, format!("{key} of {me}"))).collect();
        flow.pause();
        assert_eq!(errno(), me as i32);
        assert_eq!(NUMBER.get(), me);
        NAME.with_borrow(|name| assert_eq!(*name, me.to_string()));
        COUNTED.with_borrow(|counted| assert_eq!(counted.as_ref().unwrap().0, me));
        assert_eq!(std::thread::current().id(), id);
        assert!(
            chunks
                .iter()
                .all(|chunk| chunk.iter().all(|byte| *byte == me as u8))
        );
        assert_eq!(map[&19], format!("19 of {me}"));
        let caught = std::panic::catch_unwind(|| {
            assert!(!std::thread::panicking());
            std::panic::resume_unwind(Box::new(round));
        });
        assert_eq!(caught.unwrap_err().downcast_ref::<i32>(), Some(&round));
    }
}

#[test]
fn interleaved_flows_have_their_own() {
    if !here() {
        return;
    }
    let mut pool = BlockPool::new();
    let ids = Arc::new(Mutex::new(HashSet::new()));
    NUMBER.set(1);
    for generation in 1..=3 {
        let body = |me: usize| -> Body {
            let ids = ids.clone();
            Box::new(move |flow| use_all(flow, me, &ids))
        };
        interleave(&mut pool, (0..64).map(body).collect());
        assert_eq!(ids.lock().unwrap().len(), 64 * generation);
        assert_eq!(DROPPED.load(Relaxed), 64 * generation);
        assert_eq!(NUMBER.get(), 1);
    }
    println!("{} bytes a block", storage::bytes_a_block());
}

#[test]
fn a_panic_is_counted_for_the_flow_that_panics() {
    if !here() {
        return;
    }
    struct Pausing<'a>(&'a Flow);
    impl Drop for Pausing<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            self.0.pause();
            assert!(std::thread::panicking());
        }
    }
    let mut pool = BlockPool::new();
    let body = |panics: bool| -> Body {
        Box::new(move |flow| {
            if panics {
                let flow = std::panic::AssertUnwindSafe(flow);
                let caught = std::panic::catch_unwind(|| {
                    let _pausing = Pausing(&flow);
                    std::panic::panic_any(1);
                });
                assert!(caught.is_err());
            }
            flow.pause();
            assert!(!std::thread::panicking());
        })
    };
    std::panic::set_hook(Box::new(|info| {
        if info.payload().downcast_ref::<i32>().is_none() {
            eprintln!("{info}")
        }
    }));
    interleave(&mut pool, (0..8).map(|me| body(me % 2 == 0)).collect());
    let _ = std::panic::take_hook();
    assert!(!std::thread::panicking());
}

static DESTROYED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn destroy(value: *mut libc::c_void) {
    DESTROYED.fetch_add(value as usize, Relaxed);
}

#[test]
fn values_of_thread_keys_are_destroyed() {
    if !here() {
        return;
    }
    // More than the first level of the table holds.
    let mut keys = [0; 40];
    for key in &mut keys {
        // SAFETY: the destructor takes numbers for pointers, and adds them up.
        assert_eq!(unsafe { libc::pthread_key_create(key, Some(destroy)) }, 0);
    }
    let (first, last) = (keys[0], keys[39]);
    let mut pool = BlockPool::new();
    for round in 1..=2 {
        let body: Body = Box::new(move |flow| {
            for (key, value) in [(first, 1), (last, 100)] {
                // SAFETY: the key was made.
                assert!(unsafe { libc::pthread_getspecific(key) }.is_null());
                assert_eq!(
                    // SAFETY: likewise; the value is a number, as the destructor takes it.
                    unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(value)) },
                    0
                );
            }
            flow.pause();
            // SAFETY: the key was made.
            assert_eq!(unsafe { libc::pthread_getspecific(last) }.addr(), 100);
        });
        interleave(&mut pool, vec![body]);
        assert_eq!(DESTROYED.load(Relaxed), 101 * round);
    }
}

/// A mutex of the C library.
struct CMutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

impl CMutex {
    fn new(kind: i32, robust: bool) -> CMutex {
        let mutex = CMutex(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        let mut attributes = MaybeUninit::uninit();
        let robustness = if robust {
            libc::PTHREAD_MUTEX_ROBUST
        } else {
            libc::PTHREAD_MUTEX_STALLED
        };
        assert_eq!(
            // SAFETY: there is room for the attributes.
            unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) },
            0
        );
        assert_eq!(
            // SAFETY: the attributes were initialised.
            unsafe { libc::pthread_mutexattr_settype(attributes.as_mut_ptr(), kind) },
            0
        );
        assert_eq!(
            // SAFETY: likewise.
            unsafe { libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), robustness) },
            0
        );
        assert_eq!(
            // SAFETY: no other thread has the mutex yet, and it stays where it is.
            unsafe { libc::pthread_mutex_init(mutex.0.get(), attributes.as_ptr()) },
            0
        );
        mutex
    }

    fn lock(&self) -> i32 {
        // SAFETY: it was initialised. A flow that has it locked unlocks it before the mutex ends,
        // or forgets it.
        unsafe { libc::pthread_mutex_lock(self.0.get()) }
    }

    fn try_lock(&self) -> i32 {
        // SAFETY: as in `lock`.
        unsafe { libc::pthread_mutex_trylock(self.0.get()) }
    }

    fn unlock(&self) -> i32 {
        // SAFETY: as in `lock`. These mutexes are of kinds that know their owner.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) }
    }
}

#[test]
fn mutexes_tell_flows_apart() {
    if !here() {
        return;
    }
    let checking = Rc::new(CMutex::new(libc::PTHREAD_MUTEX_ERRORCHECK, false));
    let theirs = checking.clone();
    let mut pool = BlockPool::new();
    let holder: Body = Box::new(move |flow| {
        assert_eq!(checking.lock(), 0);
        assert_eq!(checking.lock(), libc::EDEADLK);
        flow.pause();
        flow.pause();
        assert_eq!(checking.unlock(), 0);
    });
    let other: Body = Box::new(move |flow| {
        assert_eq!(theirs.try_lock(), libc::EBUSY);
        assert_eq!(theirs.unlock(), libc::EPERM);
        flow.pause();
    });
    let robust: Body = Box::new(|flow| {
        let locks: Vec<_> = (0..4)
            .map(|_| CMutex::new(libc::PTHREAD_MUTEX_RECURSIVE, true))
            .collect();
        for lock in &locks {
            assert_eq!((lock.lock(), lock.lock()), (0, 0));
            flow.pause();
        }
        for lock in &locks {
            assert_eq!((lock.unlock(), lock.unlock()), (0, 0));
        }
        let left = CMutex::new(libc::PTHREAD_MUTEX_NORMAL, true);
        assert_eq!(left.lock(), 0);
        std::mem::forget(left);
    });
    interleave(&mut pool, vec![holder, other, robust]);
}

#[test]
fn the_c_library_works() {
    if !here() {
        return;
    }
    unsafe extern "C" {
        fn __res_state() -> *mut u8;
    }
    let mut pool = BlockPool::new();
    for _ in 0..2 {
        let body: Body = Box::new(|flow| {
            // SAFETY: only asks.
            let cpu = unsafe { libc::sched_getcpu() };
            // SAFETY: only asks.
            let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
            assert!((0..cpus).contains(&i64::from(cpu)), "{cpu}");
            // SAFETY: a character's number.
            assert_ne!(unsafe { libc::isalpha('a' as i32) }, 0);
            // SAFETY: likewise.
            assert_eq!(unsafe { libc::toupper('a' as i32) }, 'A' as i32);
            // SAFETY: only asks.
            assert_eq!(unsafe { libc::uselocale(null_mut()) }.addr(), usize::MAX);
            // SAFETY: a name, and no base locale.
            let c = unsafe { libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), null_mut()) };
            // SAFETY: made just now, and never freed.
            unsafe { libc::uselocale(c) };
            // SAFETY: only asks.
            let mine = unsafe { libc::pthread_self() } as usize;
            // SAFETY: only asks.
            let state = unsafe { __res_state() }.addr();
            assert!(state > mine && state < mine + 4096);
            // SAFETY: a number's text, as a C string.
            let number = unsafe { libc::strtod(c"1.5".as_ptr(), null_mut()) };
            let mut text = [0u8; 32];
            // SAFETY: the buffer has that size, and the format asks for a `double`.
            unsafe {
                libc::snprintf(
                    text.as_mut_ptr().cast(),
                    text.len(),
                    c"%.2f".as_ptr(),
                    number,
                )
            };
            assert_eq!(&text[..5], b"1.50\0");
            flow.pause();
            let thread = std::thread::spawn(|| 3);
            assert_eq!(thread.join().unwrap(), 3);
        });
        interleave(&mut pool, vec![body]);
    }
}

#[test]
fn a_flow_may_fork() {
    // qemu does not fork a process with several threads correctly.
    if !here() || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let body: Body = Box::new(|flow| {
        // SAFETY: the child ends in its own branch.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let chunk = vec![1u8; 100_000];
            let length = umcg_core::kernel_thread::spawn("child", move || chunk.len());
            let own = length.is_ok_and(|made| made.join().is_ok_and(|length| length == 100_000));
            // SAFETY: it ends the process, without the parent's exit handlers.
            unsafe { libc::_exit(if own { 42 } else { 1 }) };
        }
        flow.pause();
        let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty())
            .unwrap()
            .unwrap();
        assert_eq!(status.exit_status(), Some(42), "{status:?}");
    });
    interleave(&mut BlockPool::new(), vec![body]);
}

#[test]
fn flows_move_between_threads_and_run_on_many() {
    if !here() {
        return;
    }
    let flows: Vec<Box<Flow>> = {
        let mut pool = BlockPool::new();
        let ids = Arc::new(Mutex::new(HashSet::new()));
        let body = |me: usize| {
            let ids = ids.clone();
            move |flow: &Flow| {
                let id = std::thread::current().id();
                assert!(ids.lock().unwrap().insert(id));
                for size in 0..200 {
                    let chunk = vec![me as u8; size * 7];
                    NUMBER.set(me + size);
                    flow.pause();
                    assert_eq!(NUMBER.get(), me + size);
                    assert!(chunk.iter().all(|byte| *byte == me as u8));
                }
            }
        };
        (0..32).map(|me| Flow::new(&mut pool, body(me))).collect()
    };
    let queue = Mutex::new(flows);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut pool = BlockPool::new();
                loop {
                    let Some(flow) = queue.lock().unwrap().pop() else {
                        return;
                    };
                    if flow.run() {
                        queue.lock().unwrap().insert(0, flow);
                    } else {
                        pool.give(flow.take_block());
                    }
                }
            });
        }
    });
}

/// A library made for the test, if there is a C compiler: its thread-local is 5 at first, and each
/// call adds 1.
fn library(name: &str, options: &[&str]) -> Option<std::path::PathBuf> {
    let folder = std::env::temp_dir().join(format!("umcg-storage-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, object) = (
        folder.join(format!("{name}.c")),
        folder.join(format!("{name}.so")),
    );
    std::fs::write(
        &source,
        "static __thread int five = 5; static __thread char zeros[99]; int next(void) \
         { return ++five + zeros[98]++; }",
    )
    .unwrap();
    // The first is also the one for another architecture, under qemu.
    let compilers = [
        format!("{}-linux-gnu-gcc", std::env::consts::ARCH),
        "cc".into(),
    ];
    let compile = |compiler: &String| {
        let mut compile = std::process::Command::new(compiler);
        compile
            .args(options)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&object)
            .arg(&source);
        compile.status().is_ok_and(|status| status.success())
    };
    compilers.iter().any(compile).then_some(object)
}

fn next_of(library: &std::path::Path) -> (*mut libc::c_void, extern "C" fn() -> i32) {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(library.as_os_str().as_bytes()).unwrap();
    // SAFETY: it has no constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    // SAFETY: a library that is there.
    let next = unsafe { libc::dlsym(handle, c"next".as_ptr()) };
    assert!(!next.is_null());
    // SAFETY: it has this type in the source above.
    (handle, unsafe {
        std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> i32>(next)
    })
}

/// Libraries come and go, with storage that is made at first use and with storage that is in every
/// block.
#[test]
fn libraries_loaded_later_are_reset() {
    if !here() {
        return;
    }
    let models = [["-ftls-model=global-dynamic"], ["-ftls-model=initial-exec"]];
    let made: Vec<_> = models
        .iter()
        .enumerate()
        .filter_map(|(at, model)| library(&format!("late{at}"), model))
        .collect();
    if made.len() < 2 {
        return println!("no C compiler");
    }
    let mut pool = BlockPool::new();
    interleave(
        &mut pool,
        (0..4)
            .map(|_| -> Body { Box::new(|flow| flow.pause()) })
            .collect(),
    );
    for round in 0..6 {
        let path = &made[round % 2];
        let (handle, next) = next_of(path);
        for _ in 0..2 {
            let bodies = (0..8).map(|_| -> Body {
                Box::new(move |flow| {
                    assert_eq!(NUMBER.replace(9), 7);
                    for call in 0..3 {
                        assert_eq!(next(), 6 + 2 * call, "round {round}");
                        flow.pause();
                    }
                })
            });
            interleave(&mut pool, bodies.collect());
        }
        // SAFETY: no code calls its functions any more.
        assert_eq!(unsafe { libc::dlclose(handle) }, 0);
    }
    std::fs::remove_dir_all(made[0].parent().unwrap()).unwrap();
}

#[test]
#[ignore = "a measurement"]
fn cost() {
    if !here() {
        return;
    }
    let mut pool = BlockPool::new();
    let started = Instant::now();
    let blocks: Vec<Block> = (0..10_000).map(|_| pool.take().unwrap()).collect();
    println!("fresh block: {} ns", started.elapsed().as_nanos() / 10_000);
    let blocks: Vec<Block> = blocks;
    blocks.into_iter().for_each(|block| pool.give(block));
    for uses in [false, true] {
        let body: Body = Box::new(move |flow| {
            for _ in 0..3 {
                let (mut beginning, mut finishing) = (0, 0);
                for _ in 0..100_000 {
                    if uses {
                        NAME.with_borrow_mut(|name| name.clear());
                        drop(std::hint::black_box(std::thread::current()));
                    }
                    let now = Instant::now();
                    // SAFETY: the flow's own block. The flow uses no thread-local before the next
                    // `begin`.
                    flow.with_block(|block| unsafe { block.finish() });
                    finishing += now.elapsed().as_nanos();
                    let now = Instant::now();
                    // SAFETY: the flow's own block.
                    flow.with_block(|block| unsafe { block.begin() });
                    beginning += now.elapsed().as_nanos();
                }
                let clock = Instant::now();
                for _ in 0..100_000 {
                    std::hint::black_box(Instant::now());
                }
                println!(
                    "thread-locals {uses}: finish {} ns, begin {} ns, each with a clock reading of \
                     {} ns",
                    finishing / 100_000,
                    beginning / 100_000,
                    clock.elapsed().as_nanos() / 100_000
                );
            }
        });
        interleave(&mut pool, vec![body]);
    }
    let started = Instant::now();
    for _ in 0..1_000_000 {
        let block = std::hint::black_box(pool.take().unwrap());
        pool.give(block);
    }
    println!(
        "take and give: {} ns",
        started.elapsed().as_nanos() as f64 / 1e6
    );
}
