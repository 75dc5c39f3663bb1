//! A little of everything that the library does, each part of which says how it went.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::time::{Duration, Instant};
use umcg::io::DriverKind;
use umcg::net::{TcpListener, TcpStream, UdpSocket, unix::UnixStream};
use umcg::{Builder, Event, Ready, Runtime, Server, Worker, WorkerId};

type Outcome = Result<(), String>;

const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(10);
/// How long an idle process is watched, and how much of a processor it may use meanwhile. One thread that spins uses the whole of one.
const IDLE: Duration = Duration::from_millis(200);
const IDLE_CPU: Duration = Duration::from_millis(120);

/// The runtimes that the parts run on.
pub(crate) struct World {
    runtime: Runtime,
    preemptive: Result<Runtime, String>,
}

impl World {
    pub(crate) fn new() -> Result<World, String> {
        let interval = Some(Duration::from_millis(4));
        Ok(World {
            runtime: Runtime::builder().servers(2).build().map_err(text)?,
            preemptive: Runtime::builder().servers(1).preemption(interval).driver(DriverKind::Epoll).build().map_err(text),
        })
    }

    /// Runs each part, and prints what came of it.
    pub(crate) fn run(&self) {
        let on = |part: fn() -> Outcome| self.on(part);
        report("workers", || self.workers());
        report("waits", || on(waits));
        report("sockets", || on(sockets));
        report("files", || on(files));
        report("processes", || on(processes));
        report("blocking", || on(blocking));
        report("preemption", || self.preemption());
        report("servers", servers);
        report("segment", segment);
        report("words", words);
        report("timers", timers);
        report("dump", || if self.runtime.dump().is_empty() { Err("empty".into()) } else { Ok(()) });
    }

    /// Says whether nobody computes when nobody has anything to do.
    pub(crate) fn idle(&self) {
        report("idle", idle);
    }

    fn on(&self, part: fn() -> Outcome) -> Outcome {
        self.runtime.build(&Builder::new(), part).map_err(text)?.join().map_err(text)?
    }

    fn workers(&self) -> Outcome {
        let builder = Builder::new();
        let works = || {
            umcg::yield_now();
            umcg::sleep(SHORT);
        };
        let workers: Vec<_> = (0..8).map(|_| self.runtime.build(&builder, works)).collect();
        for worker in workers {
            worker.map_err(text)?.join().map_err(text)?;
        }
        // SAFETY: it keeps nothing of the thread's.
        let light = unsafe { self.runtime.build_light(&builder, || umcg::sleep(SHORT)) };
        light.map_err(text)?.join().map_err(text)
    }

    fn preemption(&self) -> Outcome {
        let runtime = self.preemptive.as_ref().map_err(Clone::clone)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let busy = move || {
            let began = Instant::now();
            while !seen.load(Relaxed) && began.elapsed() < LONG {
                std::hint::spin_loop();
            }
            seen.load(Relaxed)
        };
        let busy = runtime.build(&Builder::new(), busy).map_err(text)?;
        let over = is_over.clone();
        let other = runtime.build(&Builder::new(), move || is_over.store(true, Relaxed));
        // Without the other one it would compute on, beside the parts that come next.
        let other = other.inspect_err(|_| over.store(true, Relaxed)).map_err(text)?;
        other.join().map_err(text)?;
        if busy.join().map_err(text)? { Ok(()) } else { Err("nobody was preempted".into()) }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn report(part: &str, run: impl FnOnce() -> Outcome) {
    let outcome = catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().cloned();
        Err(message.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    });
    let outcome = outcome.map_or_else(|error| format!("error {error}"), |()| "fine".into());
    say(&format!("@ {part}: {outcome}"));
}

/// A line on standard error, which is a pipe, also where one way of writing is refused.
pub(crate) fn say(line: &str) {
    let line = format!("{line}\n");
    let stderr = rustix::stdio::stderr();
    let _ = rustix::io::write(stderr, line.as_bytes())
        .or_else(|_| rustix::io::writev(stderr, &[std::io::IoSlice::new(line.as_bytes())]));
}

fn waits() -> Outcome {
    let unparked = Arc::new(AtomicBool::new(false));
    let (seen, me) = (unparked.clone(), umcg::Handle::current());
    let thread = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(SHORT);
        seen.store(true, Relaxed);
        me.unpark();
    });
    let thread = thread.map_err(text)?;
    while !unparked.load(Relaxed) {
        umcg::park();
    }
    thread.join().map_err(|_| "a thread panicked")?;
    let (sender, receiver) = umcg::tube::tube(0);
    let sending = Builder::new().spawn(move || sender.send(1).is_ok()).map_err(text)?;
    receiver.recv().map_err(text)?;
    sending.join().map_err(text)?;
    match umcg::timeout(SHORT, || umcg::sleep(LONG)) {
        Ok(()) => Err("slept for long".into()),
        Err(_) => Ok(()),
    }
}

fn sockets() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let address = listener.local_addr().map_err(text)?;
    let server = move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut byte = [0];
        while stream.read(&mut byte)? != 0 {
            umcg::sleep(SHORT);
            stream.write_all(&byte)?;
        }
        Ok(())
    };
    let server = Builder::new().spawn(server).map_err(text)?;
    let ask = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        for _ in 0..3 {
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0])?;
        }
        stream.shutdown(std::net::Shutdown::Write)?;
        let (mut one, mut other) = UnixStream::pair()?;
        one.write_all(b"x")?;
        other.read_exact(&mut [0])?;
        let [one, other] = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
        other.set_read_timeout(Some(LONG))?;
        one.send_to(b"x", other.local_addr()?)?;
        other.recv_from(&mut [0]).map(drop)
    };
    let asked = ask().map_err(text);
    if asked.is_err() {
        server.abort(); // it may never have been asked
    }
    let served = server.join();
    asked?;
    served.map_err(text)?.map_err(text)
}

fn files() -> Outcome {
    let path = std::env::temp_dir().join(format!("umcg-refusals-{}", std::process::id()));
    let work = || -> std::io::Result<()> {
        umcg::fs::write(&path, "text")?;
        let mut file = umcg::fs::File::open(&path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        file.sync_data()?;
        file.metadata()?;
        let (reader, writer) = rustix::pipe::pipe()?;
        rustix::io::write(&writer, b"x")?;
        umcg::fs::File::from(reader).read_exact(&mut [0])
    };
    let outcome = work().map_err(text);
    let _ = std::fs::remove_file(&path);
    outcome
}

fn processes() -> Outcome {
    let output = umcg::process::Command::new("true").output().map_err(text)?;
    if output.status.success() { Ok(()) } else { Err(text(output.status)) }
}

fn blocking() -> Outcome {
    umcg::blocking(|| std::thread::sleep(SHORT));
    umcg::scope(|scope| {
        scope.spawn(|| umcg::blocking(|| std::thread::sleep(SHORT)));
        umcg::blocking(|| std::thread::sleep(SHORT));
    });
    Ok(())
}

/// A program's own server, with a thread and a light one to run, which block too.
fn servers() -> Outcome {
    let server = Server::register().map_err(text)?;
    let blocks = || umcg::blocking(|| std::thread::sleep(SHORT));
    // SAFETY: it keeps nothing of the thread's.
    let light = unsafe { umcg::light(WorkerId::from_index(1)).spawn(blocks) }.map_err(text)?;
    let mut left = 1;
    let thread = std::thread::Builder::new().spawn(move || {
        let worker = Worker::register(WorkerId::from_index(2)).map_err(text);
        worker.map(|_worker| blocks())
    });
    let mut event = server.switch_to(light);
    if thread.is_ok() {
        left += 1;
    }
    let began = Instant::now();
    while left > 0 {
        if began.elapsed() > LONG {
            return Err("the workers did not end".into());
        }
        let ready: Option<Ready> = match event {
            Event::Exit(_) => {
                left -= 1;
                None
            }
            Event::Wait(ready) | Event::Wake(ready) | Event::Preempt(ready) => Some(ready),
            _ => None,
        };
        if left == 0 {
            break;
        }
        event = match ready {
            Some(ready) => server.switch_to(ready),
            None => match server.wait_timeout(Duration::from_secs(1)) {
                Ok(event) => event,
                Err(_) if thread.as_ref().is_ok_and(|thread| thread.is_finished()) => break,
                Err(_) => return Err("no event".into()),
            },
        };
    }
    thread.map_err(text)?.join().map_err(|_| "a thread panicked")?
}

fn segment() -> Outcome {
    let segment = umcg::segment::Segment::create().map_err(text)?;
    let semaphore = segment.semaphore("tokens", 0).map_err(text)?;
    let other = umcg::segment::Segment::open(segment.as_fd().try_clone_to_owned().map_err(text)?).map_err(text)?;
    let thread = std::thread::Builder::new().spawn(move || {
        let semaphore = other.semaphore("tokens", 0).map_err(text)?;
        semaphore.acquire_timeout(LONG).map_err(text)
    });
    let thread = thread.map_err(text)?;
    std::thread::sleep(SHORT);
    semaphore.release(1).map_err(text)?;
    thread.join().map_err(|_| "a thread panicked")?
}

/// Words that threads wait for: one, several, and one that processes share.
fn words() -> Outcome {
    let words: Arc<[AtomicU32; 3]> = Arc::default();
    let waiting = words.clone();
    let thread = std::thread::Builder::new().spawn(move || {
        use umcg::futex::{Wait, WaitMultipleError, shared, wait_multiple_timeout};
        let list: Vec<_> = waiting[..2].iter().map(|word| Wait::new(word, 0)).collect();
        if matches!(wait_multiple_timeout(&list, LONG), Err(WaitMultipleError::TimedOut)) {
            return Err("not woken".to_owned());
        }
        match shared::wait_timeout(&waiting[2], 0, LONG) {
            Err(umcg::futex::WaitError::TimedOut) => Err("not woken".to_owned()),
            _ => Ok(()),
        }
    });
    let thread = thread.map_err(text)?;
    std::thread::sleep(SHORT);
    words[1].store(1, Relaxed);
    umcg::futex::wake(&words[1], 1);
    std::thread::sleep(SHORT);
    words[2].store(1, Relaxed);
    umcg::futex::shared::wake(&words[2], 1);
    thread.join().map_err(|_| "a thread panicked")?
}

fn timers() -> Outcome {
    use umcg::nt::{Timer, Wait, Woken};
    let timer = Timer::new(false);
    timer.set(Instant::now() + SHORT, None).map_err(text)?;
    match Wait::any(&[timer.as_handle()]).wait_timeout(LONG) {
        Ok(Woken::Object(0)) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Nobody computes when nobody has anything to do.
fn idle() -> Outcome {
    let before = cpu();
    std::thread::sleep(IDLE);
    let used = cpu() - before;
    if used < IDLE_CPU { Ok(()) } else { Err(format!("{used:?} of processor in {IDLE:?}")) }
}

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
