//! Threads that wait for private words in the kernel, beside workers that wait in user mode: a
//! worker's calls wake as many of them as the kernel would.

use super::runtime;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread::JoinHandle;

const WAIT: usize = libc::FUTEX_WAIT_BITSET as usize;
const WAKE: usize = libc::FUTEX_WAKE as usize;
const WAKE_BITSET: usize = libc::FUTEX_WAKE_BITSET as usize;
const WAKE_OP: usize = libc::FUTEX_WAKE_OP as usize;
const REQUEUE: usize = libc::FUTEX_REQUEUE as usize;
const CMP_REQUEUE: usize = libc::FUTEX_CMP_REQUEUE as usize;
const ALL: usize = u32::MAX as usize;

type Words = &'static [AtomicU32; 2];

fn words() -> Words {
    Box::leak(Box::new([const { AtomicU32::new(0) }; 2]))
}

fn at(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).expose_provenance()
}

/// futex(2) of private words; a negative result for an error.
fn futex(operation: usize, [word, value, other, to, last]: [usize; 5]) -> isize {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG as usize;
    // SAFETY: the words live for ever, and are changed by atomic operations only.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, value, other, to, last) as isize }
}

/// Waits while the word is 0. The end says whether it was woken.
fn wait(word: &'static AtomicU32, bits: usize) -> bool {
    futex(WAIT, [at(word), 0, 0, 0, bits]) == 0
}

fn wake(word: &AtomicU32, count: i32) -> isize {
    futex(WAKE, [at(word), count as usize, 0, 0, 0])
}

/// A thread that waits in the kernel, once this returns.
fn sleeper(word: &'static AtomicU32, bits: usize) -> JoinHandle<bool> {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid()).unwrap();
        wait(word, bits)
    });
    let tid = told.recv().unwrap().as_raw_nonzero();
    let call = format!("/proc/self/task/{tid}/syscall");
    let waits = format!("{} {:#x} ", libc::SYS_futex, at(word));
    while !std::fs::read_to_string(&call).unwrap().starts_with(&waits) {
        std::thread::yield_now();
    }
    thread
}

fn sleepers<const N: usize>(word: &'static AtomicU32) -> [JoinHandle<bool>; N] {
    [(); N].map(|()| sleeper(word, ALL))
}

fn all_were_woken(threads: impl IntoIterator<Item = JoinHandle<bool>>) {
    for thread in threads {
        assert!(thread.join().unwrap(), "it was not woken");
    }
}

#[test]
fn a_thread_is_woken_by_one_of_its_bits_only() {
    runtime().run(|| {
        let [word, _] = words();
        let threads = [1, 6].map(|bits| sleeper(word, bits));
        let wake = |bits| futex(WAKE_BITSET, [at(word), 9, 0, 0, bits]);
        assert_eq!([8, 2, 4, 1, ALL].map(wake), [0, 1, 0, 1, 0]);
        all_were_woken(threads);
    });
}

#[test]
fn counts_of_0_and_less_wake_one_thread() {
    runtime().run(|| {
        let [word, _] = words();
        let threads = sleepers::<5>(word);
        assert_eq!(
            [0, -1, i32::MIN, 2, 1].map(|count| wake(word, count)),
            [1, 1, 1, 2, 0]
        );
        all_were_woken(threads);
    });
}

#[test]
fn workers_come_first_and_threads_get_the_rest() {
    runtime().run(|| {
        let [word, _] = words();
        let workers = [(); 2].map(|()| umcg::spawn(|| wait(word, ALL)));
        // Once both can be moved to where they are, they wait.
        while futex(REQUEUE, [at(word), 0, 9, at(word), 0]) < 2 {
            umcg::yield_now();
        }
        let threads = sleepers::<2>(word);
        assert_eq!(wake(word, 1), 1);
        // A worker, which may have run at once: one wake-up in some gives way.
        let finished = workers.iter().filter(|worker| worker.is_finished());
        assert!(finished.count() <= 1);
        assert!(!threads.iter().any(JoinHandle::is_finished));
        assert_eq!(wake(word, 2), 2);
        assert_eq!([0, 1].map(|count| wake(word, count)), [1, 0]);
        for worker in workers {
            assert!(worker.join().unwrap());
        }
        all_were_woken(threads);
    });
}

/// Adds 1 to the second word, whose waiters are woken if it was 0.
const ADD: usize = 1 << 28 | 1 << 12;
/// The same, if it was not 0.
const ADD_UNLESS: usize = ADD | 1 << 24;

#[test]
fn an_operation_wakes_threads_of_both_words() {
    runtime().run(|| {
        let [first, second] = words();
        let operate = |counts: [i32; 2], op| {
            let [here, there] = counts.map(|count| count as usize);
            futex(WAKE_OP, [at(first), here, there, at(second), op])
        };
        let (here, there) = (sleepers::<5>(first), sleepers::<3>(second));
        assert_eq!(operate([1, 1], ADD_UNLESS), 1);
        assert_eq!(operate([0, 0], ADD_UNLESS), 2);
        assert_eq!(second.swap(0, SeqCst), 2);
        assert_eq!(operate([1, 2], ADD), 3);
        // No such comparison: the word is changed.
        assert_eq!(operate([9, 9], ADD | 9 << 24), -1);
        assert_eq!(second.load(SeqCst), 2);
        assert_eq!(wake(first, 9), 2);
        all_were_woken(here);
        all_were_woken(there);
    });
}

#[test]
fn threads_that_would_be_moved_are_woken() {
    runtime().run(|| {
        let [from, to] = words();
        let requeue =
            |[wakes, moves]: [usize; 2]| futex(REQUEUE, [at(from), wakes, moves, at(to), 0]);
        let threads = sleepers::<5>(from);
        assert_eq!([[0, 0], [1, 0], [0, 1], [1, 1]].map(requeue), [0, 1, 1, 2]);
        let compare = |value| futex(CMP_REQUEUE, [at(from), 0, 9, at(to), value]);
        assert_eq!([1, 0, 0].map(compare), [-1, 1, 0]);
        assert_eq!(wake(to, 9), 0);
        all_were_woken(threads);
    });
}
