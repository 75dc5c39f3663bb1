//! Where the kernel comes in: calls that block, and input and output by both drivers.

use crate::support::{Kind, counter, eventually, flag, over, over_drivers};
use std::io::{Read, Write};
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// The other workers of a server run on while one blocks, and all that block do so at once.
#[test]
fn blocking_stops_nobody_else() {
    over("blocking", |runtime, kind| {
        let (over, steps) = (flag(), counter());
        let (seen, count) = (over.clone(), steps.clone());
        let other = kind.spawn_on(runtime, move || {
            while !seen.load(Relaxed) {
                count.fetch_add(1, Relaxed);
                umcg::yield_now();
            }
        });
        let (blocked, gate) = (counter(), flag());
        let blockers: Vec<_> = (0..10)
            .map(|_| {
                let (blocked, gate) = (blocked.clone(), gate.clone());
                let blocks = move || {
                    blocked.fetch_add(1, Relaxed);
                    while !gate.load(Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                };
                kind.spawn_on(runtime, move || umcg::blocking(blocks))
            })
            .collect();
        eventually("all block at once", || blocked.load(Relaxed) == 10);
        let before = steps.load(Relaxed);
        eventually("the other goes on", || steps.load(Relaxed) > before + 100);
        assert!(blockers.iter().all(|blocker| !blocker.is_finished()));
        gate.store(true, Relaxed);
        blockers
            .into_iter()
            .for_each(|blocker| blocker.join().unwrap());
        over.store(true, Relaxed);
        other.join().unwrap();
    });
}

/// A panic inside is the worker's, and touches no other; not the server's count of panics either.
#[test]
fn a_panic_in_blocking() {
    over("panic in blocking", |runtime, kind| {
        kind.run(runtime, move || {
            for _ in 0..20 {
                let caught = std::panic::catch_unwind(|| umcg::blocking(|| panic!("expected")));
                assert!(caught.is_err() && !std::thread::panicking());
                assert!(
                    kind.spawn(|| umcg::blocking(|| panic!("expected")))
                        .join()
                        .is_err()
                );
                assert!(!std::thread::panicking());
                assert_eq!(umcg::blocking(|| umcg::blocking(|| 3)), 3);
            }
        });
    });
}

/// In a blocking scope a worker can do everything that a thread can.
#[test]
fn all_sorts_in_blocking() {
    over("in blocking", |runtime, kind| {
        kind.run(runtime, move || {
            umcg::blocking(|| {
                umcg::yield_now();
                umcg::sleep(Duration::from_micros(100));
                assert_eq!(kind.spawn(|| 3).join().unwrap(), 3);
                assert_eq!(
                    umcg::scope(|scope| kind.spawn_in(scope, || 4).join().unwrap()),
                    4
                );
                let (sender, receiver) = std::sync::mpsc::channel();
                let child = kind.spawn(move || sender.send(5).unwrap());
                assert_eq!(receiver.recv().unwrap(), 5);
                child.join().unwrap();
            });
            umcg::yield_now();
        });
    });
}

#[test]
fn pairs_of_sockets() {
    over_drivers("sockets", |runtime, kind| {
        kind.run(runtime, move || {
            let listener = umcg::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = kind.spawn(move || {
                for _ in 0..10 {
                    let (mut stream, _) = listener.accept().unwrap();
                    drop(kind.spawn(move || {
                        let mut bytes = [0; 64];
                        loop {
                            match stream.read(&mut bytes).unwrap() {
                                0 => break,
                                len => stream.write_all(&bytes[..len]).unwrap(),
                            }
                        }
                    }));
                }
            });
            let clients: Vec<_> = (0..10u8)
                .map(|n| {
                    kind.spawn(move || {
                        let mut stream = umcg::net::TcpStream::connect(address).unwrap();
                        for _ in 0..30 {
                            stream.write_all(&[n; 50]).unwrap();
                            let mut bytes = [0; 50];
                            stream.read_exact(&mut bytes).unwrap();
                            assert_eq!(bytes, [n; 50]);
                        }
                    })
                })
                .collect();
            clients
                .into_iter()
                .for_each(|client| client.join().unwrap());
            server.join().unwrap();
        });
    });
}

/// A worker that waits for input can be cut short like any other, by abort and by timeout, and
/// others go on.
#[test]
fn reads_that_are_cut() {
    over_drivers("cut reads", |runtime, kind| {
        kind.run(runtime, move || {
            let (mut one, mut other) = umcg::net::unix::UnixStream::pair().unwrap();
            for _ in 0..10 {
                let late = umcg::timeout(Duration::from_micros(300), || {
                    one.read(&mut [0; 8]).map(drop)
                });
                assert!(late.is_err());
            }
            other.write_all(b"words").unwrap();
            let mut bytes = [0; 5];
            one.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"words");
            let reader = kind.spawn(move || one.read(&mut [0; 8]).map(drop));
            umcg::sleep(Duration::from_micros(300));
            reader.abort();
            assert!(matches!(reader.join(), Err(umcg::JoinError::Cancelled)));
            assert!(
                other.write_all(b"to nobody").is_err(),
                "the other end went with its worker"
            );
        });
    });
}

/// Input wakes a worker although its server is busy with others that never stop.
#[test]
fn input_comes_while_others_compute() {
    over_drivers("busy input", |runtime, kind| {
        let over = flag();
        let busy: Vec<_> = (0..runtime.servers() + 1)
            .map(|_| {
                let over = over.clone();
                kind.spawn_on(runtime, move || {
                    while !over.load(Relaxed) {
                        (0..100).for_each(|_| std::hint::spin_loop());
                        umcg::yield_now();
                    }
                })
            })
            .collect();
        kind.run(runtime, move || {
            let (mut one, mut other) = umcg::net::unix::UnixStream::pair().unwrap();
            let echo = kind.spawn(move || {
                let mut byte = [0];
                while other.read(&mut byte).unwrap() > 0 {
                    other.write_all(&byte).unwrap();
                }
            });
            for n in 0..20 {
                one.write_all(&[n]).unwrap();
                let mut byte = [0];
                one.read_exact(&mut byte).unwrap();
                assert_eq!(byte, [n]);
            }
            drop(one);
            echo.join().unwrap();
        });
        over.store(true, Relaxed);
        busy.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// Workers of both kinds that hold a lock of the standard library across nothing that waits.
#[test]
fn both_kinds_and_threads_count() {
    over("a lock", |runtime, kind| {
        let sum = std::sync::Arc::new(std::sync::Mutex::new(0u64));
        let other = if kind == Kind::Full {
            Kind::Light
        } else {
            Kind::Full
        };
        let add = |sum: std::sync::Arc<std::sync::Mutex<u64>>| {
            move || {
                for n in 0..500 {
                    *sum.lock().unwrap() += 1;
                    if n % 16 == 0 {
                        umcg::yield_now();
                    }
                }
            }
        };
        let workers: Vec<_> = (0..10)
            .flat_map(|_| [kind, other].map(|kind| kind.spawn_on(runtime, add(sum.clone()))))
            .collect();
        let thread = std::thread::spawn(add(sum.clone()));
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        thread.join().unwrap();
        assert_eq!(*sum.lock().unwrap(), 21 * 500);
    });
}
