//! Readiness of file descriptors.

use crate::support::{HOUR, Kind, child_succeeds, is_child, over_drivers};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;
use umcg::io::{readable, writable};
use umcg::select::{Operation, Select, Selectable, after};
use umcg::sync::Semaphore;
use umcg::{JoinError, Runtime};

const SOON: Duration = Duration::from_millis(3);

/// The end to read from, and the one to write to.
fn pipe() -> (File, File) {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    (reader.into(), writer.into())
}

/// Calls do not wait for it any more.
fn make_impatient(fd: &File) {
    fcntl_setfl(fd, fcntl_getfl(fd).unwrap() | OFlags::NONBLOCK).unwrap();
}

/// Whether any descriptor of the reading end is open.
fn has_reader(writer: &mut File) -> bool {
    match writer.write_all(&[0]) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            false
        }
    }
}

/// A worker of the runtime, of either kind, or a plain thread.
fn each_caller(runtime: &Runtime, kind: Kind, body: impl Fn() + Clone + Send + 'static) {
    let worker = kind.spawn_on(runtime, body.clone());
    worker.join().unwrap_or_else(|error| error.resume_unwind());
    std::thread::spawn(body).join().unwrap();
}

#[test]
fn what_is_there_and_what_comes() {
    over_drivers("comes", |runtime, kind| {
        each_caller(runtime, kind, || {
            let (mut reader, mut writer) = pipe();
            let never = Semaphore::new(0);
            assert_eq!(Select::new().try_wait(&mut [readable(&reader)]), None);
            assert_eq!(
                Select::new().wait_timeout(&mut [readable(&reader)], SOON),
                None
            );
            writer.write_all(&[1]).unwrap();
            umcg::select! {
                taken = never.acquiring() => taken.unwrap(),
                ready = readable(&reader) => ready.unwrap(),
            }
            reader.read_exact(&mut [0]).unwrap();
            let later = std::thread::spawn(move || {
                std::thread::sleep(SOON);
                writer.write_all(&[2]).unwrap();
                writer
            });
            umcg::select! {
                () = after(HOUR) => unreachable!(),
                taken = never.acquiring() => taken.unwrap(),
                ready = readable(&reader) => ready.unwrap(),
            }
            reader.read_exact(&mut [0]).unwrap();
            assert_eq!(Select::new().try_wait(&mut [readable(&reader)]), None);
            later.join().unwrap();
        });
    });
}

#[test]
fn room_to_write() {
    over_drivers("room", |runtime, kind| {
        each_caller(runtime, kind, || {
            let (mut reader, mut writer) = pipe();
            make_impatient(&writer);
            while writer.write(&[0; 4096]).is_ok() {}
            assert_eq!(
                Select::new().wait_timeout(&mut [writable(&writer)], SOON),
                None
            );
            let drains = std::thread::spawn(move || {
                std::thread::sleep(SOON);
                reader.read_exact(&mut [0; 32 << 10]).unwrap();
                reader
            });
            let (quiet, _other) = pipe();
            umcg::select! {
                ready = writable(&writer) => ready.unwrap(),
                ready = readable(&quiet) => panic!("{ready:?}"),
                () = after(HOUR) => unreachable!(),
            }
            assert_eq!(writer.write(&[0; 4096]).unwrap(), 4096);
            drains.join().unwrap();
        });
    });
}

/// Both ends are told when the other one goes.
#[test]
fn the_peer_goes() {
    over_drivers("the peer goes", |runtime, kind| {
        let closing = |fd: Box<dyn Send>| {
            std::thread::spawn(move || {
                std::thread::sleep(SOON);
                drop(fd);
            })
        };
        each_caller(runtime, kind, move || {
            let (mut reader, writer) = pipe();
            let closer = closing(Box::new(writer));
            umcg::select! {
                ready = readable(&reader) => ready.unwrap(),
                () = after(HOUR) => unreachable!()
            }
            assert_eq!(reader.read(&mut [0]).unwrap(), 0);
            closer.join().unwrap();

            let (reader, mut writer) = pipe();
            make_impatient(&writer);
            while writer.write(&[0; 4096]).is_ok() {}
            let closer = closing(Box::new(reader));
            umcg::select! {
                ready = writable(&writer) => ready.unwrap(),
                () = after(HOUR) => unreachable!()
            }
            assert!(!has_reader(&mut writer));
            closer.join().unwrap();

            let (mut near, far) = UnixStream::pair().unwrap();
            let closer = closing(Box::new(far));
            umcg::select! {
                ready = readable(&near) => ready.unwrap(),
                () = after(HOUR) => unreachable!()
            }
            assert_eq!(near.read(&mut [0]).unwrap(), 0);
            closer.join().unwrap();
        });
    });
}

/// Bytes and wakeups that come at once: each is taken once, by operations that are kept, and by
/// those that are new each time.
#[test]
fn beside_a_semaphore() {
    const BYTES: usize = 200;
    over_drivers("beside a semaphore", |runtime, kind| {
        let semaphore = Arc::new(Semaphore::new(0));
        let body = |mut reader: File, is_kept: bool| {
            let semaphore = semaphore.clone();
            move || {
                let (mut bytes, mut wakeups) = (0, 0);
                let fd = reader.try_clone().unwrap();
                let mut kept = (readable(&fd), semaphore.acquiring());
                loop {
                    if !is_kept {
                        kept = (readable(&fd), semaphore.acquiring());
                    }
                    let mut operations: [&mut dyn Selectable; 2] = [&mut kept.0, &mut kept.1];
                    if Select::new().wait(&mut operations) == 1 {
                        kept.1.outcome().unwrap();
                        wakeups += 1;
                        continue;
                    }
                    kept.0.outcome().unwrap();
                    match reader.read(&mut [0]).unwrap() {
                        0 => return (bytes, wakeups),
                        _ => bytes += 1,
                    }
                }
            }
        };
        let (readers, mut writers): (Vec<_>, Vec<_>) = (0..4).map(|_| pipe()).unzip();
        let mut readers = readers.into_iter();
        let mut next = || readers.next().unwrap();
        let workers = [true, false].map(|is_kept| kind.spawn_on(runtime, body(next(), is_kept)));
        let threads = [true, false].map(|is_kept| std::thread::spawn(body(next(), is_kept)));
        for turn in 0..BYTES {
            writers
                .iter_mut()
                .for_each(|writer| writer.write_all(&[0]).unwrap());
            semaphore.release(4).unwrap();
            if turn % 16 == 0 {
                std::thread::yield_now();
            }
        }
        drop(writers);
        let mut counts: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect();
        counts.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        let wakeups: usize = counts.iter().map(|(_, wakeups)| wakeups).sum();
        assert_eq!(wakeups + semaphore.available() as usize, 4 * BYTES);
        assert!(
            counts.iter().all(|(bytes, _)| *bytes == BYTES),
            "{counts:?}"
        );
    });
}

/// Several that wait for the same descriptor: bytes that one has taken are not there for another,
/// which is not told that they are.
#[test]
fn many_readers() {
    const BYTES: u64 = 300;
    over_drivers("many readers", |runtime, kind| {
        let (reader, mut writer) = pipe();
        let (reader, taken) = (Arc::new(reader), Arc::new(AtomicU64::new(0)));
        make_impatient(&reader);
        let body = || {
            let (reader, taken) = (reader.clone(), taken.clone());
            move || {
                let mut operation = [readable(&*reader)];
                loop {
                    Select::new().wait(&mut operation);
                    operation[0].outcome().unwrap();
                    match (&*reader).read(&mut [0]) {
                        Ok(0) => return,
                        Ok(_) => {
                            taken.fetch_add(1, Relaxed);
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                    }
                }
            }
        };
        let workers: Vec<_> = (0..3).map(|_| kind.spawn_on(runtime, body())).collect();
        let thread = std::thread::spawn(body());
        for _ in 0..BYTES {
            writer.write_all(&[0]).unwrap();
        }
        drop(writer);
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        thread.join().unwrap();
        assert_eq!(taken.load(Relaxed), BYTES);
    });
}

/// A worker that is aborted has taken nothing, and leaves no descriptor open. In a process of its
/// own: one that another test starts has copies of this one's descriptors until it executes its
/// program.
#[test]
fn an_aborted_wait_leaves_nothing() {
    const SELF: &str = "descriptors::an_aborted_wait_leaves_nothing";
    if !is_child(SELF) {
        return child_succeeds(SELF);
    }
    over_drivers("aborts", |runtime, kind| {
        let semaphore = Arc::new(Semaphore::new(0));
        for turn in 0..20 {
            let (reader, mut writer) = pipe();
            let inside = semaphore.clone();
            let waiter = kind.spawn_on(runtime, move || {
                umcg::select! {
                    ready = readable(&reader) => { ready.unwrap(); 0 }
                    taken = inside.acquiring() => { taken.unwrap(); 1 }
                }
            });
            if turn % 2 == 0 {
                umcg::sleep(Duration::from_micros(300));
            }
            if turn % 3 == 0 {
                writer.write_all(&[0]).unwrap();
            }
            waiter.abort();
            match waiter.join() {
                Ok(index) => assert_eq!((index, turn % 3), (0, 0)),
                Err(error) => assert!(matches!(error, JoinError::Cancelled), "{error}"),
            }
            assert!(!has_reader(&mut writer));
            semaphore.release(1).unwrap();
            semaphore.try_acquire().unwrap();
        }
    });
}

/// One that the driver knows already, as its worker has waited for it; in both directions at once.
#[test]
fn a_socket_of_ours() {
    over_drivers("a socket of ours", |runtime, kind| {
        let listener = umcg::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        kind.run(runtime, move || {
            let far = kind.spawn(move || {
                let mut far = listener.accept().unwrap().0;
                for _ in 0..20 {
                    far.write_all(&[0]).unwrap();
                    far.read_exact(&mut [0]).unwrap();
                }
            });
            let mut near = umcg::net::TcpStream::connect(address).unwrap();
            for turn in 0..20 {
                let is_writable = umcg::select! {
                    ready = writable(&near) => { ready.unwrap(); true }
                    () = after(HOUR) => unreachable!(),
                };
                if turn % 2 == 0 {
                    umcg::select! {
                        ready = readable(&near) => ready.unwrap(),
                        () = after(HOUR) => unreachable!(),
                    }
                }
                near.read_exact(&mut [0]).unwrap();
                assert!(is_writable);
                near.write_all(&[0]).unwrap();
            }
            far.join().unwrap();
        });
    });
}

/// A descriptor that has no readiness is ready; one that is not open is reported at once.
#[test]
fn files_and_what_is_none() {
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let mut operations = [writable(&file), readable(&file)];
    let index = Select::new().wait(&mut operations);
    operations[index].outcome().unwrap();
    // SAFETY: no code has it open, which the test is about. It never will be, being beyond the
    // numbers that a process may have, so nothing of other code is touched.
    let none = unsafe { BorrowedFd::borrow_raw(i32::MAX) };
    let mut operations = [readable(&none)];
    assert_eq!(Select::new().wait(&mut operations), 0);
    assert_eq!(
        operations[0].outcome().unwrap_err().raw_os_error(),
        Some(libc::EBADF)
    );
}

/// Where the driver cannot be told, the waiter is.
#[test]
fn no_descriptor_left() {
    const SELF: &str = "descriptors::no_descriptor_left";
    if !is_child(SELF) {
        return child_succeeds(SELF);
    }
    let (reader, _writer) = pipe();
    umcg::spawn(|| ()).join().unwrap();
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(3),
            maximum: Some(1024),
        },
    )
    .unwrap();
    let mut operations = [readable(&reader)];
    assert_eq!(Select::new().try_wait(&mut operations), None);
    for _ in 0..2 {
        assert_eq!(Select::new().wait_timeout(&mut operations, HOUR), Some(0));
        let error = operations[0].outcome().unwrap_err();
        assert!(
            matches!(error.raw_os_error(), Some(libc::EMFILE | libc::EINVAL)),
            "{error}"
        );
    }
}

#[test]
#[should_panic(expected = "not selected")]
fn one_that_was_not_selected() {
    let (reader, _writer) = pipe();
    let _ = readable(&reader).outcome();
}
