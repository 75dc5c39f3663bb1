//! The load generator: a process of one thread that sends messages to an echo server and records
//! how long each answer took.
//!
//! Two ways. *Closed loop*: each connection has one message under way, always; this finds the rate
//! that the server can do. *Open loop*: messages are sent at fixed times on connections in turn,
//! however long the answers take, and a delay counts from when a message was due. So a server that
//! stalls cannot hide that by slowing the generator down. It measures how long an answer takes on a
//! machine that is busy, so the generator puts itself in front of all other threads (SCHED_FIFO, or
//! as nice as it may be): the server's delay counts.
//!
//! The first quarter of the time warms up: its answers do not count.

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Bytes a message.
const MESSAGE: usize = 64;
/// After this many new connections one message goes there and back: the server's queue of
/// connections is short.
const CONNECT: usize = 32;
/// How long the open loop waits for messages still under way, at its end.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 120 } else { 2 });
/// When nothing at all comes for this long, the server is dead.
const DEAD: Duration = Duration::from_secs(30);

/// The messages to send.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Load {
    /// Of the server, on the loopback device.
    pub(super) port: u16,
    /// The server's process.
    pub(super) server: i32,
    pub(super) connections: usize,
    /// The time altogether.
    pub(super) nanos: u64,
    /// Open loop: a message is due after each interval of this many nanoseconds. Else closed loop.
    pub(super) every: Option<u64>,
}

/// The results. Delays are in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) requests: u64,
    /// How long they took altogether; 0 for the open loop, where that is no result.
    pub(super) nanos: u64,
    /// CPU time of the server meanwhile; 0 for the open loop, whose server has other work too.
    pub(super) cpu: u64,
    pub(super) median: u64,
    pub(super) p99: u64,
}

impl Outcome {
    /// Requests a second.
    pub(super) fn rate(&self) -> f64 {
        self.requests as f64 * 1e9 / self.nanos as f64
    }

    /// CPU time of the server for a request, in microseconds.
    pub(super) fn cpu_each(&self) -> f64 {
        self.cpu as f64 / self.requests as f64 / 1e3
    }
}

pub(super) fn run(load: &Load) -> Result<Outcome> {
    ensure!(load.connections > 0 && load.every != Some(0), "no load");
    let mut clients = Clients::connect(load)?;
    let budget = Duration::from_nanos(load.nanos);
    match load.every {
        None => closed(&mut clients, load, budget),
        Some(every) => open(&mut clients, budget, Duration::from_nanos(every)),
    }
}

/// A connection, and when the message under way on it was sent, or due.
struct Client {
    stream: TcpStream,
    under_way: VecDeque<Instant>,
    /// Of the answer that comes in, this many bytes are here.
    received: usize,
}

impl Client {
    fn send(&mut self, due: Instant) -> Result<()> {
        self.under_way.push_back(due);
        let sent = self.stream.write(&[b'x'; MESSAGE])?;
        ensure!(sent == MESSAGE, "the socket is full");
        Ok(())
    }

    /// Takes the bytes that have come and calls `answered` with the time of each message that is
    /// whole.
    fn receive(&mut self, mut answered: impl FnMut(Instant)) -> Result<()> {
        let mut buffer = [0; 16 * MESSAGE];
        let length = match self.stream.read(&mut buffer) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(length) => length,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.received += length;
        while self.received >= MESSAGE {
            self.received -= MESSAGE;
            answered(
                self.under_way
                    .pop_front()
                    .context("an answer that nobody asked for")?,
            );
        }
        Ok(())
    }
}

struct Clients {
    all: Vec<Client>,
    poll: Poll,
}

impl Clients {
    fn connect(load: &Load) -> Result<Self> {
        let poll = Poll::new()?;
        let mut all = Vec::new();
        for index in 0..load.connections {
            let mut stream =
                TcpStream::connect((Ipv4Addr::LOCALHOST, load.port)).context("cannot connect")?;
            stream.set_nodelay(true)?;
            if load.every.is_none() && (index + 1) % CONNECT == 0 {
                stream.write_all(&[b'x'; MESSAGE])?;
                stream.read_exact(&mut [0; MESSAGE])?;
            }
            stream.set_nonblocking(true)?;
            poll.watch(stream.as_raw_fd(), index as u64)?;
            all.push(Client {
                stream,
                under_way: VecDeque::new(),
                received: 0,
            });
        }
        Ok(Self { all, poll })
    }

    fn under_way(&self) -> impl Iterator<Item = Instant> {
        self.all
            .iter()
            .flat_map(|client| client.under_way.iter().copied())
    }
}

/// Delays from 1 ns to a minute, to three digits.
fn histogram() -> Result<Histogram<u64>> {
    let mut delays = Histogram::new_with_bounds(1, 60_000_000_000, 3)?;
    delays.auto(true);
    Ok(delays)
}

fn outcome(delays: &Histogram<u64>, took: Duration, cpu: Duration) -> Result<Outcome> {
    ensure!(!delays.is_empty(), "no answer came");
    Ok(Outcome {
        requests: delays.len(),
        nanos: took.as_nanos().try_into()?,
        cpu: cpu.as_nanos().try_into()?,
        median: delays.value_at_quantile(0.5),
        p99: delays.value_at_quantile(0.99),
    })
}

fn since(then: Instant, now: Instant) -> u64 {
    now.saturating_duration_since(then).as_nanos() as u64
}

fn closed(clients: &mut Clients, load: &Load, budget: Duration) -> Result<Outcome> {
    let mut delays = histogram()?;
    let began = Instant::now();
    let mut counted_from = None;
    for client in &mut clients.all {
        client.send(Instant::now())?;
    }
    loop {
        let mut now = Instant::now();
        if counted_from.is_none() && now - began >= budget / 4 {
            counted_from = Some((now, cpu_time(load.server)?));
        }
        if let Some((start, cpu)) = counted_from {
            // At least one answer, however short the time.
            if now - began >= budget && !delays.is_empty() {
                return outcome(
                    &delays,
                    now - start,
                    cpu_time(load.server)?.saturating_sub(cpu),
                );
            }
        }
        let events = clients.poll.wait(DEAD)?;
        ensure!(events.len() > 0, "the server is silent");
        for index in events {
            let client = &mut clients.all[index as usize];
            let mut answered = false;
            client.receive(|sent| {
                answered = true;
                now = Instant::now();
                if counted_from.is_some() {
                    delays.saturating_record(since(sent, now));
                }
            })?;
            if answered {
                client.send(now)?;
            }
        }
    }
}

fn open(clients: &mut Clients, budget: Duration, every: Duration) -> Result<Outcome> {
    const TICK: u64 = u64::MAX;
    go_first();
    let mut delays = histogram()?;
    let began = Instant::now();
    let (warm, end) = (began + budget / 4, began + budget);
    let timer = timer(every)?;
    clients.poll.watch(timer.as_raw_fd(), TICK)?;
    let (mut due, mut turn) = (began + every, 0);
    while due < end || (clients.under_way().next().is_some() && Instant::now() < end + PATIENCE) {
        for index in clients.poll.wait(PATIENCE)? {
            let now = Instant::now();
            if index != TICK {
                let answered = |due| {
                    if due >= warm {
                        delays.saturating_record(since(due, now))
                    }
                };
                clients.all[index as usize].receive(answered)?;
                continue;
            }
            drain(&timer);
            while due <= now && due < end {
                let count = clients.all.len();
                clients.all[turn % count].send(due)?;
                turn += 1;
                due += every;
            }
        }
    }
    ensure!(!delays.is_empty(), "no answer came in {PATIENCE:?}");
    // A message that never came took at least as long as it has been due.
    let now = Instant::now();
    clients
        .under_way()
        .filter(|due| *due >= warm)
        .for_each(|due| delays.saturating_record(since(due, now)));
    outcome(&delays, Duration::ZERO, Duration::ZERO)
}

/// As far as this process is allowed to.
pub(crate) fn go_first() {
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: a valid parameter, for the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &first) } != 0 {
        // SAFETY: plain system call, for the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    }
}

/// CPU time of a process, all its threads together. The clock of another process, unlike `/proc`,
/// counts nanoseconds.
fn cpu_time(process: i32) -> Result<Duration> {
    let mut clock = 0;
    // SAFETY: the clock's id is writable.
    let error = unsafe { libc::clock_getcpuclockid(process, &mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error)).context("the server has no clock");
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is writable.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(io::Error::last_os_error()).context("the server's clock");
    }
    Ok(Duration::new(
        time.tv_sec.try_into()?,
        time.tv_nsec.try_into()?,
    ))
}

/// A descriptor that becomes readable at an interval.
fn timer(every: Duration) -> Result<OwnedFd> {
    // SAFETY: plain system call.
    let fd = unsafe {
        libc::timerfd_create(
            libc::CLOCK_MONOTONIC,
            libc::TFD_CLOEXEC | libc::TFD_NONBLOCK,
        )
    };
    ensure!(fd >= 0, "timerfd_create: {}", io::Error::last_os_error());
    // SAFETY: just opened, and owned by this function only.
    let timer = unsafe { OwnedFd::from_raw_fd(fd) };
    let every = libc::timespec {
        tv_sec: every.as_secs().try_into()?,
        tv_nsec: every.subsec_nanos().into(),
    };
    let times = libc::itimerspec {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: the times are readable, and the old ones are not asked for.
    let rc = unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &times, std::ptr::null_mut()) };
    ensure!(rc == 0, "timerfd_settime: {}", io::Error::last_os_error());
    Ok(timer)
}

fn drain(timer: &OwnedFd) {
    let mut count = 0_u64;
    // SAFETY: the counter is writable and its size is given.
    unsafe {
        libc::read(
            timer.as_raw_fd(),
            (&raw mut count).cast(),
            mem::size_of_val(&count),
        )
    };
}

/// An epoll set.
struct Poll(OwnedFd);

impl Poll {
    fn new() -> Result<Self> {
        // SAFETY: plain system call.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        ensure!(fd >= 0, "epoll_create1: {}", io::Error::last_os_error());
        // SAFETY: just opened, and owned by this function only.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn watch(&self, fd: i32, index: u64) -> Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: index,
        };
        // SAFETY: the event is readable.
        let rc =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        ensure!(rc == 0, "epoll_ctl: {}", io::Error::last_os_error());
        Ok(())
    }

    /// The indices of those that can be read; none once the time is over, and not before. A signal
    /// ends the kernel's wait, and so does a stop of the process that is over again.
    fn wait(&self, timeout: Duration) -> Result<impl ExactSizeIterator<Item = u64> + use<>> {
        const ROOM: usize = 256;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; ROOM];
        let deadline = Instant::now() + timeout;
        let count = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let millis = left.as_micros().div_ceil(1000).try_into()?;
            let (epoll, room) = (self.0.as_raw_fd(), events.as_mut_ptr());
            // SAFETY: there is room for as many events as it says.
            match unsafe { libc::epoll_wait(epoll, room, ROOM as i32, millis) } {
                count @ 0.. => break count as usize,
                _ if io::Error::last_os_error().kind() == ErrorKind::Interrupted => {}
                _ => bail!("epoll_wait: {}", io::Error::last_os_error()),
            }
        };
        Ok(events.into_iter().take(count).map(|event| event.u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::request::{Request, Work, side};
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::sync::mpsc;
    use std::thread;

    /// A server of that side in this process. It lives as long as the process does.
    fn serve(case: &str, batch: u64) -> u16 {
        let (tell, told) = mpsc::channel();
        let (case, kind) = case.split_once(' ').unwrap_or((case, ""));
        let (case, kind) = (case.to_owned(), kind.to_owned());
        let request = Request {
            case,
            kind,
            servers: 1,
            work: Work::Serve,
            size: batch,
            nanos: 0,
        };
        thread::spawn(move || {
            let ready = Box::new(move |port| tell.send(port).unwrap());
            let failed = side(&request).and_then(|side| side.serve(request.size as usize, ready));
            crate::harness::tell(format_args!("{}: {failed:?}", request.case));
        });
        told.recv().unwrap()
    }

    fn load(port: u16, connections: usize, every: Option<u64>) -> Load {
        Load {
            port,
            server: std::process::id() as i32,
            connections,
            nanos: 20_000_000,
            every,
        }
    }

    #[test]
    fn every_side_answers_any_number_of_connections() {
        for case in [
            "umcg light",
            "umcg full",
            "threads",
            "tokio",
            "may",
            #[cfg(epoll_c)]
            "epoll-c",
        ] {
            let port = serve(case, 0);
            for connections in [1, 3, 70, 2] {
                let outcome = run(&load(port, connections, None)).unwrap();
                assert!(
                    outcome.requests > 0 && outcome.nanos > 0 && outcome.cpu > 0,
                    "{case}: {outcome:?}"
                );
                assert!(
                    outcome.median > 0 && outcome.median <= outcome.p99,
                    "{case}: {outcome:?}"
                );
            }
        }
    }

    #[test]
    fn the_open_loop_sends_as_much_as_is_due() {
        let port = serve("threads", 0);
        // Its own thread: it puts itself in front of all others.
        let outcome = thread::spawn(move || run(&load(port, 3, Some(100_000))).unwrap())
            .join()
            .unwrap();
        // Every 0.1 ms for 20 ms, except for the first quarter and the messages that would be due
        // at the end.
        assert_eq!(outcome.requests, 150, "{outcome:?}");
        assert!(outcome.median <= outcome.p99);
    }

    #[test]
    fn a_stalled_server_shows_in_all_that_was_due_meanwhile() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stall = Duration::from_millis(30);
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 65536];
            // From the first message on, whenever that comes.
            assert_eq!(stream.peek(&mut buffer[..1]).unwrap(), 1);
            thread::sleep(stall);
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                stream.write_all(&buffer[..length]).unwrap();
            }
        });
        let outcome = thread::spawn(move || run(&load(port, 1, Some(1_000_000))).unwrap())
            .join()
            .unwrap();
        server.join().unwrap();
        // All were due in the first 20 ms, and the stall was over after 31 ms at the earliest.
        assert_eq!(outcome.requests, 15);
        assert!(
            outcome.median >= Duration::from_millis(10).as_nanos() as u64,
            "{outcome:?}"
        );
    }

    /// How many signals came.
    static SIGNALS: AtomicU32 = AtomicU32::new(0);

    extern "C" fn note(_signal: i32) {
        SIGNALS.fetch_add(1, Relaxed);
    }

    #[test]
    fn a_wait_goes_on_when_a_signal_has_come() {
        const TIME: Duration = Duration::from_millis(50);
        let handler: extern "C" fn(i32) = note;
        // SAFETY: a handler that may run anywhere. The kernel's wait would not be taken up again
        // with any flags.
        unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
        let waits = thread::spawn(|| {
            let poll = Poll::new().unwrap();
            loop {
                let (before, began) = (SIGNALS.load(Relaxed), Instant::now());
                assert_eq!(poll.wait(TIME).unwrap().len(), 0);
                assert!(began.elapsed() >= TIME);
                // Not those alone that came before it or behind it.
                if SIGNALS.load(Relaxed) >= before + 5 {
                    break;
                }
            }
        });
        while !waits.is_finished() {
            // SAFETY: a thread that was not joined.
            unsafe { libc::pthread_kill(waits.as_pthread_t(), libc::SIGUSR1) };
            thread::sleep(Duration::from_millis(1));
        }
        waits.join().unwrap();
    }

    #[test]
    fn dead_servers_and_empty_loads_are_errors() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || drop(listener.accept()));
        let error = run(&load(port, 1, None)).unwrap_err();
        assert!(
            format!("{error:#}").contains("closed") || format!("{error:#}").contains("reset"),
            "{error:#}"
        );
        assert!(run(&load(port, 0, None)).is_err() && run(&load(port, 1, Some(0))).is_err());
    }

    #[test]
    fn the_clock_of_a_process_goes_on() {
        let me = std::process::id() as i32;
        let before = cpu_time(me).unwrap();
        crate::rt::side::compute(1 << 20);
        assert!(cpu_time(me).unwrap() > before);
        // More than a kernel ever gives out.
        assert!(cpu_time(1 << 23).is_err());
    }
}
