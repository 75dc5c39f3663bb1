//! Servers whose number follows the processors that the process may use.

use crate::support::{child_succeeds, counter, eventually, flag, is_child, say, with};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;
use umcg::rt::scheduler::{EarliestDeadline, Fifo, Priority, Weighted};
use umcg::rt::{Here, Runnable, RuntimeBuilder, Scheduler, Wake, Why};
use umcg::{Builder, Runtime};

/// The kernel threads of this process.
fn tasks() -> BTreeSet<i32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let number = |task: fs::DirEntry| task.file_name().to_str()?.parse().ok();
    tasks
        .filter_map(|task| task.ok().and_then(number))
        .collect()
}

/// All threads of the process may use these processors only, as by `taskset -a`.
fn confine(to: &CpuSet) {
    let mut done = BTreeSet::new();
    loop {
        let new: Vec<i32> = tasks().difference(&done).copied().collect();
        if new.is_empty() {
            return;
        }
        for task in new {
            allow(task, to);
            done.insert(task);
        }
    }
}

fn allow(task: i32, processors: &CpuSet) {
    // One that has ended needs none.
    let _ = sched_setaffinity(Pid::from_raw(task), processors);
}

/// The first of these processors.
fn first_of(all: &CpuSet) -> CpuSet {
    let mut first = CpuSet::new();
    let is_set = |cpu: &usize| all.is_set(*cpu);
    first.set((0..CpuSet::MAX_CPU).find(is_set).unwrap());
    first
}

/// Queues of which each is for one server, whatever the worker asks for.
#[derive(Default)]
struct Apart {
    queues: Vec<Mutex<VecDeque<Runnable>>>,
    next: AtomicUsize,
}

impl Scheduler for Apart {
    fn start(&mut self, servers: usize) {
        self.queues = (0..servers).map(|_| Mutex::default()).collect();
    }

    fn ready(&self, worker: Runnable, _: Why, _: Option<&Here>) -> Wake {
        let server = self.next.fetch_add(1, Relaxed) % self.queues.len();
        self.queues[server].lock().unwrap().push_back(worker);
        Wake::Server(server)
    }

    fn next(&self, here: &Here) -> Option<Runnable> {
        self.queues[here.index()].lock().unwrap().pop_front()
    }

    fn has_work(&self, here: &Here) -> bool {
        !self.queues[here.index()].lock().unwrap().is_empty()
    }
}

/// Workers of all kinds, all of which end: that yield, sleep, block, wait for each other, make
/// others, and are for one server.
fn work(runtime: &Runtime) {
    let ended = counter();
    let servers = runtime.servers();
    let workers: Vec<_> = (0..120)
        .map(|number: usize| {
            let ended = ended.clone();
            let builder = Builder::new().priority((number % 7) as u8);
            let builder = match number % 3 {
                0 => builder.server(number / 3 % servers),
                _ => builder,
            };
            let body = move || {
                let inner: Vec<_> = (0..3).map(|_| umcg::spawn(umcg::yield_now)).collect();
                match number % 4 {
                    0 => umcg::sleep(Duration::from_micros(50 * number as u64)),
                    1 => umcg::blocking(|| std::thread::sleep(Duration::from_micros(100))),
                    2 => (0..20).for_each(|_| umcg::yield_now()),
                    _ => (),
                }
                inner.into_iter().for_each(|worker| worker.join().unwrap());
                ended.fetch_add(1, Relaxed);
            };
            runtime.build(&builder, body).unwrap()
        })
        .collect();
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    assert_eq!(ended.load(Relaxed), 120);
}

/// The names of the kernel threads that have run so many workers.
fn carriers(runtime: &Runtime, builder: &Builder<'_>) -> BTreeSet<String> {
    let name = || {
        let name = || fs::read_to_string("/proc/thread-self/comm").unwrap();
        (0..10).for_each(|_| umcg::yield_now());
        name()
    };
    let workers: Vec<_> = (0..50)
        .map(|_| runtime.build(builder, name).unwrap())
        .collect();
    workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .collect()
}

/// As many workers run at once as there are servers.
fn at_once(runtime: &Runtime) {
    let servers = runtime.servers();
    let together = Arc::new(Barrier::new(servers));
    let spawn = |_| {
        let together = together.clone();
        runtime.spawn(move || together.wait())
    };
    let workers: Vec<_> = (0..servers).map(spawn).collect();
    workers.into_iter().for_each(|worker| {
        worker.join().unwrap();
    });
}

/// The servers follow the affinity of the process, down and up. `leaves` says that the scheduler
/// knows of inactive servers: none but the active ones run what is for all.
fn follows(what: &str, builder: RuntimeBuilder, leaves: bool) {
    let all: CpuSet = sched_getaffinity(None).unwrap();
    with("adapting", 0, builder, |runtime| {
        let servers = runtime.servers();
        assert_eq!(runtime.active_servers(), servers, "{what}");
        // The watch asks while servers are awake.
        let over = flag();
        let beat = {
            let over = over.clone();
            runtime.spawn(move || {
                while !over.load(Relaxed) {
                    umcg::sleep(Duration::from_millis(1));
                }
            })
        };
        work(runtime);
        for round in 0..2 {
            confine(&first_of(&all));
            eventually("one server is active", || {
                work(runtime);
                runtime.active_servers() == 1
            });
            work(runtime);
            if leaves {
                eventually("one server runs all", || {
                    let carriers = carriers(runtime, &Builder::new());
                    carriers.len() == 1 && carriers.iter().all(|name| name.ends_with("-0\n"))
                });
            }
            let last = Builder::new().server(servers - 1);
            let of_last = carriers(runtime, &last);
            let is_last = |name: &String| name.ends_with(&format!("-{}\n", servers - 1));
            assert!(
                !leaves || of_last.iter().all(is_last),
                "{what}: {of_last:?}"
            );
            if round == 0 {
                assert!(runtime.dump().contains(" inactive)"), "{what}");
            }
            confine(&all);
            eventually("all servers are active", || {
                work(runtime);
                runtime.active_servers() == servers
            });
            at_once(runtime);
            work(runtime);
        }
        over.store(true, Relaxed);
        beat.join().unwrap();
    });
}

/// Without descriptors the watch cannot read the limits of cgroups: the number of active servers
/// grows when there are some again.
fn grows_with_descriptors() {
    let all: CpuSet = sched_getaffinity(None).unwrap();
    with("without descriptors", 0, Runtime::builder(), |runtime| {
        confine(&first_of(&all));
        let threads = tasks();
        eventually("one server is active", || {
            work(runtime);
            runtime.active_servers() == 1
        });
        let limits = getrlimit(Resource::Nofile);
        let current = Some(0);
        setrlimit(Resource::Nofile, Rlimit { current, ..limits }).unwrap();
        assert!(fs::File::open("/proc/self/cgroup").is_err());
        threads.iter().for_each(|thread| allow(*thread, &all));
        let waits = runtime.spawn(|| umcg::sleep(Duration::from_millis(2500)));
        while !waits.is_finished() {
            work(runtime);
            assert_eq!(runtime.active_servers(), 1);
        }
        setrlimit(Resource::Nofile, limits).unwrap();
        eventually("all servers are active", || {
            work(runtime);
            runtime.active_servers() == runtime.servers()
        });
    });
}

/// A number that was asked for stays, and so do servers that are pinned.
fn stays(builder: RuntimeBuilder, servers: usize) {
    let all: CpuSet = sched_getaffinity(None).unwrap();
    with("staying", servers, builder, |runtime| {
        confine(&first_of(&all));
        let runs = runtime.spawn(|| umcg::sleep(Duration::from_millis(2500)));
        while !runs.is_finished() {
            work(runtime);
            assert_eq!(runtime.active_servers(), runtime.servers());
        }
        confine(&all);
    });
}

#[test]
fn servers_follow_the_processors() {
    const TEST: &str = "adapting::servers_follow_the_processors";
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    if cpus == 1 {
        return say("SKIPPED: servers that follow the processors: there is one");
    }
    if !is_child(TEST) {
        return child_succeeds(TEST);
    }
    let builder = Runtime::builder;
    let millisecond = Some(Duration::from_millis(1));
    follows("stealing", builder(), true);
    follows("preempted", builder().preemption(millisecond), true);
    follows("fifo", builder().scheduler(Fifo::new()), true);
    let priority = builder().scheduler(Priority::new());
    follows("priority", priority.preemption(millisecond), true);
    let deadlines = builder().scheduler(EarliestDeadline::new());
    follows("deadlines", deadlines.preemption(millisecond), true);
    follows(
        "weighted",
        builder().scheduler(Weighted::new(&[1, 2])),
        true,
    );
    follows("apart", builder().scheduler(Apart::default()), false);
    grows_with_descriptors();
    stays(builder(), 2);
    stays(builder().pin(true), 0);
}
