//! A little of everything that the library does, each part of which says how it went.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::AsFd;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::time::{Duration, Instant};
use umcg::io::DriverKind;
use umcg::net::{TcpListener, TcpStream, UdpSocket, unix::UnixStream};
use umcg::{Builder, Event, Ready, Runtime, Server, WaitError, Worker, WorkerId};

type Outcome = Result<(), String>;

const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(10);
/// How long an idle process is watched, and how much of a processor it may use meanwhile. One
/// thread that spins uses the whole of one.
const IDLE: Duration = Duration::from_millis(200);
const IDLE_CPU: Duration = Duration::from_millis(120);
/// Initialisation is over by then, without optimisation and beside others.
const ONCE: Duration = Duration::from_secs(10);

/// The runtimes that the parts run on.
pub(crate) struct World {
    runtime: Runtime,
    preemptive: Result<Runtime, String>,
}

impl World {
    pub(crate) fn new() -> Result<World, String> {
        let runtime = Runtime::builder().servers(2).build().map_err(text)?;
        let preemptive = Runtime::builder()
            .servers(1)
            .preemption(Some(Duration::from_millis(4)));
        let preemptive = preemptive
            .driver(DriverKind::Epoll)
            .pin(true)
            .build()
            .map_err(text);
        // Changes that helpers have to follow.
        change_main_thread();
        Ok(World {
            runtime,
            preemptive,
        })
    }

    /// Runs each part, and prints its result.
    pub(crate) fn run(&self) {
        let on = |part: fn() -> Outcome| self.on(part);
        report("workers", || self.workers());
        report("waits", || on(waits));
        report("sockets", || {
            on(sockets).and_then(|()| self.on_epoll(sockets))
        });
        report("vectored", || on(vectored));
        report("readiness", || {
            on(readiness).and_then(|()| self.on_epoll(readiness))
        });
        report("files", || on(files));
        report("helpers", || self.on_epoll(files));
        report("processes", || on(processes));
        report("blocking", || on(blocking));
        report("preemption", || self.preemption());
        report("servers", servers);
        report("segment", segment);
        report("words", words);
        report("timers", timers);
        report("memory", || on(memory));
        report("dump", || {
            if self.runtime.dump().is_empty() {
                Err("empty".into())
            } else {
                Ok(())
            }
        });
    }

    /// The part after which the process may be another one.
    pub(crate) fn change_credentials(&self) {
        report("credentials", || credentials(|| ()));
    }

    /// Reports whether all threads are idle when there is nothing to do.
    pub(crate) fn idle(&self) {
        report("idle", idle);
    }

    fn on(&self, part: fn() -> Outcome) -> Outcome {
        self.runtime
            .build(&Builder::new(), part)
            .map_err(text)?
            .join()
            .map_err(text)?
    }

    /// Without a ring. Where there is no such runtime the part `preemption` says so.
    fn on_epoll(&self, part: fn() -> Outcome) -> Outcome {
        let Ok(runtime) = &self.preemptive else {
            return Ok(());
        };
        runtime
            .build(&Builder::new(), part)
            .map_err(text)?
            .join()
            .map_err(text)?
    }

    fn workers(&self) -> Outcome {
        let builder = Builder::new();
        let works = || {
            umcg::yield_now();
            umcg::sleep(SHORT);
        };
        let workers: Vec<_> = (0..8)
            .map(|_| self.runtime.build(&builder, works))
            .collect();
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
        let other = other
            .inspect_err(|_| over.store(true, Relaxed))
            .map_err(text)?;
        other.join().map_err(text)?;
        if busy.join().map_err(text)? {
            Ok(())
        } else {
            Err("nobody was preempted".into())
        }
    }
}

/// Nice value, class and I/O priority of the process, as `nice`, `chrt` and `ionice` change them.
fn change_main_thread() {
    let main = rustix::process::getpid();
    let _ = rustix::process::setpriority_process(Some(main), 1);
    let main = main.as_raw_nonzero().get();
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters outlive the call.
    unsafe { libc::sched_setscheduler(main, libc::SCHED_BATCH, &parameters) };
    const OF_A_THREAD: i32 = 1;
    // SAFETY: no precondition; "best effort", the last level.
    unsafe { libc::syscall(libc::SYS_ioprio_set, OF_A_THREAD, main, 2 << 13 | 7) };
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn report(part: &str, run: impl FnOnce() -> Outcome) {
    let outcome = catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().cloned();
        Err(message
            .or_else(|| {
                payload
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
            })
            .unwrap_or_default())
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
    let sending = Builder::new()
        .spawn(move || sender.send(1).is_ok())
        .map_err(text)?;
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
        let [one, other] = [
            UdpSocket::bind("127.0.0.1:0")?,
            UdpSocket::bind("127.0.0.1:0")?,
        ];
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

/// Several buffers at once.
fn vectored() -> Outcome {
    let work = || -> std::io::Result<()> {
        let (mut one, mut other) = UnixStream::pair()?;
        let written = one.write_vectored(&[IoSlice::new(b"x"), IoSlice::new(b"y")])?;
        let (mut first, mut second) = ([0], [0]);
        let read = other
            .read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)])?;
        assert_eq!((written, read, &first, &second), (2, 2, b"x", b"y"));
        Ok(())
    };
    work().map_err(text)
}

/// A descriptor, waited for beside other things.
fn readiness() -> Outcome {
    let (reader, writer) = rustix::pipe::pipe().map_err(text)?;
    let writing = Builder::new().spawn(move || {
        umcg::sleep(SHORT);
        rustix::io::write(&writer, b"x").map(drop)
    });
    let writing = writing.map_err(text)?;
    let ready = umcg::select! {
        ready = umcg::io::readable(&reader) => ready.map_err(text),
        () = umcg::select::after(LONG) => Err("not ready".into()),
    };
    writing.join().map_err(text)?.map_err(text)?;
    ready
}

fn files() -> Outcome {
    // On two runtimes, one after the other.
    let path = std::env::temp_dir().join(format!("umcg-refusals-{}", std::process::id()));
    let work = || -> std::io::Result<()> {
        umcg::fs::write(&path, "text")?;
        let mut file = umcg::fs::File::open(&path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        file.sync_data()?;
        file.metadata()?;
        let file = umcg::fs::File::options().write(true).open(&path)?;
        file.write_all_at(b"more", 4)?;
        file.sync_all()?;
        // Nothing of the page cache's.
        umcg::fs::File::open("/proc/self/stat")?.read_exact_at(&mut [0], 0)?;
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
    if output.status.success() {
        Ok(())
    } else {
        Err(text(output.status))
    }
}

fn blocking() -> Outcome {
    umcg::blocking(|| std::thread::sleep(SHORT));
    umcg::scope(|scope| {
        scope.spawn(|| umcg::blocking(|| std::thread::sleep(SHORT)));
        umcg::blocking(|| std::thread::sleep(SHORT));
    });
    Ok(())
}

type Thread = std::io::Result<std::thread::JoinHandle<Outcome>>;

/// A thread that begins at home, and becomes a worker of the program's own server.
fn thread_worker(
    begins: impl FnOnce() + Send + 'static,
    body: impl FnOnce() -> Outcome + Send + 'static,
) -> Thread {
    std::thread::Builder::new().spawn(move || {
        begins();
        let _worker = Worker::register(WorkerId::from_index(2)).map_err(text)?;
        body()
    })
}

/// A program's own server, with a thread and a light one to run, which block too.
fn servers() -> Outcome {
    let server = Server::register().map_err(text)?;
    let blocks = || umcg::blocking(|| std::thread::sleep(SHORT));
    let measures = move || {
        let _ = umcg_core::uth::current().map(umcg_core::uth::Uth::stack_high_water);
        blocks();
    };
    // SAFETY: it keeps nothing of the thread's.
    let light = unsafe { umcg::light(WorkerId::from_index(1)).spawn(measures) }.map_err(text)?;
    let blocks = move || {
        blocks();
        Ok(())
    };
    let thread = thread_worker(|| (), blocks);
    let event = server.switch_to(light);
    serve(&server, thread, 1, Some(event))
}

/// Runs the thread, and this many others, of which one has caused this event.
fn serve(server: &Server, thread: Thread, others: u32, mut event: Option<Event>) -> Outcome {
    let mut left = others + u32::from(thread.is_ok());
    let began = Instant::now();
    loop {
        if began.elapsed() > LONG {
            return Err("the workers did not end".into());
        }
        let ready: Option<Ready> = match event.take() {
            Some(Event::Exit(_)) => {
                left -= 1;
                None
            }
            Some(Event::Wait(ready) | Event::Wake(ready) | Event::Preempt(ready)) => Some(ready),
            _ => None,
        };
        if left == 0 {
            break;
        }
        event = match ready {
            Some(ready) => Some(server.switch_to(ready)),
            None => match server.wait_timeout(Duration::from_secs(1)) {
                Ok(event) => Some(event),
                Err(_) if thread.as_ref().is_ok_and(|thread| thread.is_finished()) => break,
                Err(WaitError::TimedOut) => None,
                Err(_) => return Err("no event".into()),
            },
        };
    }
    thread
        .map_err(text)?
        .join()
        .map_err(|_| "a thread panicked")?
}

/// A thread worker that is away from home changes the credentials of the process; in the end they
/// are as before. Before that it calls `begins`, at home.
pub(crate) fn credentials(begins: impl FnOnce() + Send + 'static) -> Outcome {
    let server = Server::register().map_err(text)?;
    let thread = thread_worker(begins, change_credentials);
    serve(&server, thread, 0, None)
}

/// Whether the process may change them. For root, which need not have the right.
pub(crate) fn may_change_credentials() -> bool {
    const SETGID_AND_SETUID: u64 = 0b11 << 6;
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .unwrap_or_default();
    let has =
        u64::from_str_radix(line.trim(), 16).unwrap_or(0) & SETGID_AND_SETUID == SETGID_AND_SETUID;
    rustix::process::geteuid().is_root() && has
}

fn change_credentials() -> Outcome {
    const OTHER: u32 = 65_534;
    let done = |what: &str, result: i32| match result {
        0 => Ok(()),
        _ => Err(format!("{what}: {}", std::io::Error::last_os_error())),
    };
    let user = rustix::process::getuid().as_raw();
    // SAFETY: no precondition.
    done("setuid", unsafe { libc::setuid(user) })?;
    if may_change_credentials() {
        let group = rustix::process::getgid().as_raw();
        let mut groups = [OTHER; 33];
        // SAFETY: room for this many.
        let count = unsafe { libc::getgroups(32, groups.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| "getgroups")?;
        // SAFETY: no precondition.
        done("setregid", unsafe { libc::setregid(OTHER, u32::MAX) })?;
        same_at_home()?;
        // SAFETY: no precondition.
        done("setregid", unsafe { libc::setregid(group, group) })?;
        // SAFETY: no precondition; the effective user stays, and with it the right to go back.
        done("setreuid", unsafe { libc::setreuid(OTHER, u32::MAX) })?;
        same_at_home()?;
        // SAFETY: no precondition.
        done("setreuid", unsafe { libc::setreuid(user, user) })?;
        // SAFETY: the list has that many and one more.
        done("setgroups", unsafe {
            libc::setgroups(count + 1, groups.as_ptr())
        })?;
        same_at_home()?;
        // SAFETY: the list has that many.
        done("setgroups", unsafe {
            libc::setgroups(count, groups.as_ptr())
        })?;
    }
    same_at_home()
}

/// The home thread has the credentials that the server has.
fn same_at_home() -> Outcome {
    let now = || -> Result<Vec<String>, String> {
        let status = std::fs::read_to_string("/proc/thread-self/status").map_err(text)?;
        let is_one = |line: &&str| {
            ["Uid:", "Gid:", "Groups:"]
                .iter()
                .any(|key| line.starts_with(key))
        };
        Ok(status.lines().filter(is_one).map(str::to_owned).collect())
    };
    let (here, at_home) = (now()?, umcg::blocking(now)?);
    if here == at_home {
        Ok(())
    } else {
        Err(format!("{here:?}, and at home {at_home:?}"))
    }
}

fn segment() -> Outcome {
    let segment = umcg::segment::Segment::create().map_err(text)?;
    let semaphore = segment.semaphore("tokens", 0).map_err(text)?;
    let other = umcg::segment::Segment::open(segment.as_fd().try_clone_to_owned().map_err(text)?)
        .map_err(text)?;
    let thread = std::thread::Builder::new().spawn(move || {
        let semaphore = other.semaphore("tokens", 0).map_err(text)?;
        semaphore.acquire_timeout(LONG).map_err(text)
    });
    let thread = thread.map_err(text)?;
    std::thread::sleep(SHORT);
    semaphore.release(1).map_err(text)?;
    thread.join().map_err(|_| "a thread panicked")?
}

/// Words that threads wait for: several, and one and several that processes share.
fn words() -> Outcome {
    use umcg::futex::{Wait, WaitError, WaitMultipleError, shared, wait_multiple_timeout};
    let words: Arc<[AtomicU32; 5]> = Arc::default();
    let waiting = words.clone();
    let thread = std::thread::Builder::new().spawn(move || {
        let not_woken = || Err("not woken".to_owned());
        let several = |list: [Wait<'_>; 2]| wait_multiple_timeout(&list, LONG);
        if let Err(WaitMultipleError::TimedOut) =
            several([0, 1].map(|index| Wait::new(&waiting[index], 0)))
        {
            return not_woken();
        }
        if let Err(WaitError::TimedOut) = shared::wait_timeout(&waiting[2], 0, LONG) {
            return not_woken();
        }
        match several([3, 4].map(|index| Wait::shared(&waiting[index], 0))) {
            Err(WaitMultipleError::TimedOut) => not_woken(),
            _ => Ok(()),
        }
    });
    let thread = thread.map_err(text)?;
    let wakes: [fn(&AtomicU32); 3] = [
        |word| _ = umcg::futex::wake(word, 1),
        |word| _ = shared::wake(word, 1),
        |word| _ = shared::wake(word, 1),
    ];
    for (word, wake) in [&words[1], &words[2], &words[4]].into_iter().zip(wakes) {
        std::thread::sleep(SHORT);
        word.store(1, Relaxed);
        wake(word);
    }
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

/// Memory of workers that have ended is given back.
fn memory() -> Outcome {
    let deep = || _ = std::hint::black_box([1u8; 32 << 10]);
    let workers: Vec<_> = (0..8)
        .map(|_| Builder::new().stack_size(256 << 10).spawn(deep))
        .collect();
    for worker in workers {
        worker.map_err(text)?.join().map_err(text)?;
    }
    umcg::rt::trim();
    Ok(())
}

/// No thread computes when there is nothing to do, except for the single cost of a refusal: a look
/// for all threads of the process, where the kernel does not list them.
fn idle() -> Outcome {
    let began = Instant::now();
    loop {
        let before = cpu();
        std::thread::sleep(IDLE);
        let used = cpu() - before;
        if used < IDLE_CPU {
            return Ok(());
        }
        if began.elapsed() > ONCE {
            return Err(format!("{used:?} of processor in {IDLE:?}"));
        }
    }
}

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
