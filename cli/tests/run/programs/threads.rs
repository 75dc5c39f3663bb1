// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of Rust's library: scopes, parking, panics that joins return, storage with destructors,
//! sleeps, locks that a panic poisons, child processes.

use std::cell::{Cell, RefCell};
use std::panic;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once, OnceLock, RwLock};
use std::thread;
use std::time::{Duration, Instant};

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Counted(Cell<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0.get(), SeqCst);
    }
}

thread_local! {
    static COUNTED: Counted = const { Counted(Cell::new(0)) };
    static TEXT: RefCell<String> = RefCell::new("initial".to_owned());
}

fn storage() {
    let threads: Vec<_> = (1..=16)
        .map(|own| {
            thread::spawn(move || {
                COUNTED.with(|counted| counted.0.set(own));
                TEXT.with_borrow_mut(|text| text.push_str(&own.to_string()));
                thread::sleep(Duration::from_micros(100));
                TEXT.with_borrow(|text| assert_eq!(*text, format!("initial{own}")));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(DROPPED.load(SeqCst), 136);
}

fn scopes() {
    let mut values = vec![0_u64; 64];
    let sum = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (at, part) in values.chunks_mut(8).enumerate() {
            let sum = &sum;
            scope.spawn(move || {
                for value in part.iter_mut() {
                    *value = at as u64;
                    thread::yield_now();
                }
                sum.fetch_add(at, SeqCst);
            });
        }
    });
    assert_eq!(sum.load(SeqCst), 28);
    assert_eq!(values.iter().sum::<u64>(), 8 * 28);
}

fn parking() {
    let turn = Arc::new(AtomicUsize::new(0));
    let main = thread::current();
    let parked = thread::spawn({
        let turn = Arc::clone(&turn);
        move || {
            for at in 0..500 {
                while turn.load(SeqCst) != 2 * at + 1 {
                    thread::park();
                }
                turn.fetch_add(1, SeqCst);
                main.unpark();
            }
        }
    });
    for at in 0..500 {
        while turn.load(SeqCst) != 2 * at {
            thread::park();
        }
        turn.fetch_add(1, SeqCst);
        parked.thread().unpark();
    }
    parked.join().unwrap();
    // What main was told last may be pending.
    thread::park_timeout(Duration::ZERO);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(5) {
        thread::park_timeout(Duration::from_millis(5) - began.elapsed());
    }
}

fn panics() {
    let lock = Arc::new(Mutex::new(1));
    let result = thread::spawn({
        let lock = Arc::clone(&lock);
        move || {
            let _guard = lock.lock().unwrap();
            thread::sleep(Duration::from_micros(50));
            panic!("on purpose");
        }
    })
    .join();
    let payload = result.unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"));
    assert!(lock.is_poisoned() && lock.lock().is_err());
    for _ in 0..20 {
        let caught = thread::spawn(|| panic::catch_unwind(|| panic!("caught")).is_err());
        assert!(caught.join().unwrap());
    }
}

fn once_and_read() {
    static ONCE: Once = Once::new();
    static VALUE: OnceLock<usize> = OnceLock::new();
    let calls = AtomicUsize::new(0);
    let lock = RwLock::new(0);
    thread::scope(|scope| {
        for own in 0..8 {
            let (calls, lock) = (&calls, &lock);
            scope.spawn(move || {
                ONCE.call_once(|| {
                    thread::sleep(Duration::from_millis(1));
                    calls.fetch_add(1, SeqCst);
                });
                assert_eq!(*VALUE.get_or_init(|| 5), 5);
                for turn in 0..200 {
                    if (own + turn) % 4 == 0 {
                        *lock.write().unwrap() += 1;
                    } else {
                        assert!(*lock.read().unwrap() <= 400);
                    }
                }
            });
        }
    });
    assert_eq!(calls.load(SeqCst), 1);
    assert_eq!(*lock.read().unwrap(), 400);
}

fn children() {
    let threads: Vec<_> = (0..4)
        .map(|own| {
            thread::Builder::new()
                .name(format!("child-{own}"))
                .stack_size(128 * 1024)
                .spawn(move || {
                    assert_eq!(thread::current().name(), Some(&*format!("child-{own}")));
                    let output = Command::new("sh").arg("-c").arg(format!("echo {own}")).output();
                    String::from_utf8(output.unwrap().stdout).unwrap()
                })
                .unwrap()
        })
        .collect();
    for (own, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), format!("{own}\n"));
    }
}

fn main() {
    panic::set_hook(Box::new(|info| {
        if info.payload().downcast_ref::<&str>().is_none() {
            eprintln!("{info}");
        }
    }));
    for (name, test) in [
        ("storage", storage as fn()),
        ("scopes", scopes),
        ("parking", parking),
        ("panics", panics),
        ("once and read-write locks", once_and_read),
        ("children", children),
    ] {
        test();
        println!("{name}");
    }
}
