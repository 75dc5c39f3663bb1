//! Blocking calls of workers that are noticed without an announcement (`umcg::intercept`).
//!
//! Each test has a runtime of one server: a call that kept it would make the others wait.

#![cfg(all(feature = "intercept", target_arch = "x86_64", target_os = "linux"))]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};
use umcg::rt::Runtime;

fn runtime() -> Runtime {
    umcg::intercept::notice_blocking().unwrap();
    Runtime::builder().servers(1).build().unwrap()
}

fn kernel_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_thousand_workers_sleep_at_once_and_take_no_threads() {
    const WORKERS: usize = 1000;
    let runtime = runtime();
    let began = Instant::now();
    let before = kernel_threads();
    let most = runtime.run(|| {
        let sleep = || std::thread::sleep(Duration::from_millis(200));
        let workers: Vec<_> = (0..WORKERS).map(|_| umcg::spawn(sleep)).collect();
        std::thread::sleep(Duration::from_millis(50));
        let most = kernel_threads();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        most
    });
    // One after the other they would take 200 s.
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(
        most <= before + 8,
        "{most} kernel threads, and {before} before"
    );
}

#[test]
fn std_net_parks_the_worker_and_not_its_server() {
    const CLIENTS: usize = 16;
    let runtime = runtime();
    runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = umcg::spawn(move || {
            let echo = |mut stream: TcpStream| {
                let mut bytes = [0; 16];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    stream.write_all(&bytes[..count]).unwrap();
                }
            };
            let serve = |_| {
                let (stream, _) = listener.accept().unwrap();
                umcg::spawn(move || echo(stream))
            };
            let echoes: Vec<_> = (0..CLIENTS).map(serve).collect();
            echoes.into_iter().for_each(|echo| echo.join().unwrap());
        });
        let client = move || {
            let mut stream = TcpStream::connect(address).unwrap();
            for turn in 0..50u8 {
                let mut answer = [0];
                stream.write_all(&[turn]).unwrap();
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(answer, [turn]);
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| umcg::spawn(client)).collect();
        clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
        server.join().unwrap();
    });
}

#[test]
fn a_contended_mutex_of_std_hands_over_between_workers_of_one_server() {
    const WORKERS: usize = 8;
    let runtime = runtime();
    let counter = Arc::new(Mutex::new(0u64));
    let total = runtime.run(|| {
        let count = |_| {
            let counter = counter.clone();
            umcg::spawn(move || {
                for _ in 0..1000 {
                    let mut counter = counter.lock().unwrap();
                    *counter += 1;
                    umcg::yield_now(); // all others want it meanwhile
                }
            })
        };
        let workers: Vec<_> = (0..WORKERS).map(count).collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        *counter.lock().unwrap()
    });
    assert_eq!(total, WORKERS as u64 * 1000);
}

#[test]
fn threads_and_workers_wait_for_each_other_by_std() {
    let runtime = runtime();
    let barrier = Arc::new(Barrier::new(3));
    let (to_worker, from_thread) = mpsc::channel::<u32>();
    let (to_thread, from_worker) = mpsc::channel::<u32>();
    let thread = {
        let barrier = barrier.clone();
        std::thread::spawn(move || {
            for turn in 0..1000 {
                to_worker.send(turn).unwrap();
                assert_eq!(from_worker.recv(), Ok(turn + 1));
            }
            drop(to_worker);
            barrier.wait();
        })
    };
    runtime.run(|| {
        let own = barrier.clone();
        let worker = umcg::spawn(move || {
            for turn in from_thread {
                let _ = to_thread.send(turn + 1);
            }
            own.wait();
        });
        barrier.wait();
        worker.join().unwrap();
    });
    thread.join().unwrap();
}

#[test]
fn the_registers_of_a_worker_survive_a_wait() {
    let runtime = runtime();
    let sums = runtime.run(|| {
        let compute = |seed: u32| {
            umcg::spawn(move || {
                let mut lanes: [f64; 16] =
                    std::array::from_fn(|lane| f64::from(seed) + lane as f64);
                for _ in 0..200 {
                    lanes
                        .iter_mut()
                        .for_each(|lane| *lane = lane.mul_add(1.0, 1.0));
                    std::thread::sleep(Duration::from_micros(50));
                }
                lanes.iter().sum::<f64>()
            })
        };
        let workers: Vec<_> = (0..8).map(compute).collect();
        let join = |worker: umcg::JoinHandle<f64>| worker.join().unwrap();
        workers.into_iter().map(join).collect::<Vec<_>>()
    });
    for (seed, sum) in sums.into_iter().enumerate() {
        assert_eq!(sum, 16.0 * (seed as f64 + 200.0) + 120.0);
    }
}

mod calls;
mod edges;
mod files;
#[allow(dead_code, reason = "others of its functions are for other tests")]
#[path = "../refusals/filter.rs"]
mod filter;
mod numbers;
mod outsiders;
mod processes;
mod slow;
