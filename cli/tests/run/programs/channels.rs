// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust's channels, condition variables and barriers, and its sockets: a ring of threads, bounded
//! channels that make senders wait, limits of time, an echo server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn ring() {
    const THREADS: usize = 20;
    let (first, mut from) = mpsc::channel::<u32>();
    for _ in 0..THREADS {
        let (to, next) = mpsc::channel();
        let here = std::mem::replace(&mut from, next);
        thread::spawn(move || {
            for value in here {
                to.send(value + 1).unwrap();
            }
        });
    }
    for round in 0..50 {
        first.send(round).unwrap();
        assert_eq!(from.recv(), Ok(round + THREADS as u32));
    }
    drop(first);
    assert!(from.recv().is_err());
}

fn bounded() {
    for room in [0, 1, 7] {
        let (sender, receiver) = mpsc::sync_channel(room);
        let senders: Vec<_> = (0..4_u64)
            .map(|own| {
                let sender = sender.clone();
                thread::spawn(move || (0..300).for_each(|at| sender.send(own * at).unwrap()))
            })
            .collect();
        drop(sender);
        assert_eq!(receiver.iter().sum::<u64>(), 6 * 300 * 299 / 2);
        senders.into_iter().for_each(|one| one.join().unwrap());
    }
}

fn limits() {
    let (sender, receiver) = mpsc::channel::<u32>();
    let began = Instant::now();
    let pause = Duration::from_millis(5);
    assert_eq!(receiver.recv_timeout(pause), Err(RecvTimeoutError::Timeout));
    assert!(began.elapsed() >= pause);
    let state = Mutex::new(());
    let (guard, timeout) = Condvar::new()
        .wait_timeout_while(state.lock().unwrap(), pause, |()| true)
        .unwrap();
    assert!(timeout.timed_out());
    drop(guard);
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(1));
        sender.send(3).unwrap();
    });
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(3));
    assert!(receiver.recv().is_err());
}

fn meetings() {
    const THREADS: usize = 12;
    let barrier = Arc::new(Barrier::new(THREADS));
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|own| {
            let (barrier, shared) = (Arc::clone(&barrier), Arc::clone(&shared));
            thread::spawn(move || {
                let leads = (0..50).filter(|_| barrier.wait().is_leader()).count();
                let (turn, changed) = &*shared;
                let mut turn = changed
                    .wait_while(turn.lock().unwrap(), |turn| *turn != own)
                    .unwrap();
                *turn += 1;
                changed.notify_all();
                leads
            })
        })
        .collect();
    let leads: usize = threads.into_iter().map(|one| one.join().unwrap()).sum();
    assert_eq!(leads, 50);
    assert_eq!(*shared.0.lock().unwrap(), THREADS);
}

fn serve(mut stream: TcpStream) {
    let mut bytes = [0; 256];
    while let Ok(size @ 1..) = stream.read(&mut bytes) {
        stream.write_all(&bytes[..size]).unwrap();
    }
}

fn echo() {
    const CLIENTS: usize = 8;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let served: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (stream, _) = listener.accept().unwrap();
                thread::spawn(move || serve(stream))
            })
            .collect();
        served.into_iter().for_each(|one| one.join().unwrap());
    });
    thread::scope(|scope| {
        for own in 0..CLIENTS {
            scope.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                for at in 0..30 {
                    let sent = format!("client {own} line {at}\n");
                    stream.write_all(sent.as_bytes()).unwrap();
                    let mut line = String::new();
                    lines.read_line(&mut line).unwrap();
                    assert_eq!(line, sent);
                }
            });
        }
    });
    server.join().unwrap();
}

fn main() {
    for (name, test) in [
        ("a ring", ring as fn()),
        ("bounded", bounded),
        ("limits of time", limits),
        ("meetings", meetings),
        ("echo", echo),
    ] {
        test();
        println!("{name}");
    }
}
