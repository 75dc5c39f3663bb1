//! Kernel threads of the library's own.
//!
//! They are not threads of Rust's standard library, for two reasons. Such a thread has a lock of
//! that library's at times while it begins and ends, and no fork waits for it: in the child, each
//! new thread would wait for that lock for ever. And the library ends the process if it gets no
//! memory for a thread's signal stack.
//!
//! To Rust, these threads have no names. The system shows their names.

use crate::base::granted::granted;
use std::any::Any;
use std::ffi::{CString, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a thread's stack. It runs the library's own code, and handlers of the program's.
const STACK: usize = 2 << 20;

/// A thread that may be joined. If this is dropped instead, the thread goes on, and the system
/// forgets it when it ends. In the child of a fork there is no such thread: there this is to be
/// forgotten, neither joined nor dropped.
#[derive(Debug)]
pub struct KernelThread<T> {
    /// Present until it is joined.
    thread: Option<libc::pthread_t>,
    result: Arc<Slot<T>>,
}

/// The result of a thread's body, or the value that it panicked with, once it has ended.
type Slot<T> = Mutex<Option<Result<T, Box<dyn Any + Send>>>>;

/// What a new thread is given.
struct Start<T, F> {
    name: CString,
    body: F,
    result: Arc<Slot<T>>,
}

/// Makes a thread that calls `body`. The system shows the first 15 bytes of its name. A panic of
/// `body` ends the thread.
///
/// # Errors
/// The system gives no thread, or no memory for its stack.
///
/// # Panics
/// If the name has a zero byte.
pub fn spawn<T, F>(name: &str, body: F) -> io::Result<KernelThread<T>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let result = Arc::new(Mutex::new(None));
    let start = Box::into_raw(Box::new(Start {
        name: CString::new(name).expect("a name without a zero byte"),
        body,
        result: Arc::clone(&result),
    }));
    match create(main::<T, F>, start.cast()) {
        Ok(thread) => Ok(KernelThread {
            thread: Some(thread),
            result,
        }),
        Err(error) => {
            // SAFETY: from a box, and no thread has it.
            drop(unsafe { Box::from_raw(start) });
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

type Body = extern "C" fn(*mut c_void) -> *mut c_void;

fn create(body: Body, start: *mut c_void) -> Result<libc::pthread_t, i32> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: initializes them.
    granted(unsafe { libc::pthread_attr_init(attributes) })?;
    // SAFETY: initialized above.
    let sized = granted(unsafe { libc::pthread_attr_setstacksize(attributes, STACK) });
    let with = |attributes| {
        let mut thread = 0;
        // SAFETY: null or initialized attributes; the body takes what `spawn` gives it.
        granted(unsafe { libc::pthread_create(&raw mut thread, attributes, body, start) })?;
        Ok(thread)
    };
    let made = match sized.and_then(|()| with(attributes.cast_const())) {
        // Thread-local variables of the program take more than that.
        Err(libc::EINVAL) => with(null()),
        made => made,
    };
    // SAFETY: initialized above, and not used any more.
    unsafe { libc::pthread_attr_destroy(attributes) };
    made
}

extern "C" fn main<T, F: FnOnce() -> T>(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` gave it to this thread.
    let Start { name, body, result } = *unsafe { Box::from_raw(start.cast::<Start<T, F>>()) };
    // SAFETY: a string that ends, which the kernel copies.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    drop(name);
    let ended = catch_unwind(AssertUnwindSafe(body));
    *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    null_mut()
}

impl<T> KernelThread<T> {
    /// Waits for the thread's end. Returns the result of its body.
    ///
    /// # Errors
    /// The value of the body's panic.
    pub fn join(mut self) -> std::thread::Result<T> {
        if let Some(thread) = self.thread.take() {
            // SAFETY: made by `create`, and neither joined nor detached before.
            unsafe { libc::pthread_join(thread, null_mut()) };
        }
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        result.take().expect("the thread has ended")
    }
}

impl<T> Drop for KernelThread<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread {
            // SAFETY: as in `join`.
            unsafe { libc::pthread_detach(thread) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn a_joined_thread_gives_its_result_or_its_panic() {
        let name = || std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        let named = spawn("a name of more than fifteen", name).unwrap();
        assert_eq!(named.join().unwrap(), "a name of more \n");
        let panics = spawn("panics", || std::panic::resume_unwind(Box::new(7))).unwrap();
        assert_eq!(*panics.join().unwrap_err().downcast::<i32>().unwrap(), 7);
    }

    /// While other threads of Rust's begin and end, too.
    #[test]
    #[cfg_attr(umcg_tsan, ignore = "ThreadSanitizer allows no threads after a fork")]
    #[cfg_attr(
        not(target_arch = "x86_64"),
        ignore = "qemu does not fork a process with several threads correctly"
    )]
    fn a_child_makes_threads() {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        std::thread::scope(|within| _ = within.spawn(|| ()));
                    }
                });
            }
            for _ in 0..100 {
                // SAFETY: the child makes a thread, and exits.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: ends the child if it hangs.
                    unsafe { libc::alarm(20) };
                    let seven = spawn("child", || 7).is_ok_and(|made| made.join().ok() == Some(7));
                    // SAFETY: ends the child, running nothing of its parent's.
                    unsafe { libc::_exit(i32::from(!seven)) };
                }
                let mut status = -1;
                // SAFETY: waits for the child made above.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!(status, 0);
            }
            is_over.store(true, Relaxed);
        });
    }
}
