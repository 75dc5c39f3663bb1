//! What things cost, in nanoseconds of virtual time.

/// The costs of a machine. The defaults were measured on a virtual machine with two processors of
/// the kind AMD EPYC 9005, but for those that say where they come from. In a virtual machine
/// processors interrupt and wake each other at several times the usual cost. `umcg bench scale
/// --measure-costs` measures those that the machine at hand can tell, and simulates with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A load or store of a line that the core has.
    pub hit: u64,
    /// A locked operation on a line that the core alone has.
    pub locked: u64,
    /// A full fence, beside the stores that it waits for.
    pub fence: u64,
    /// A line that another core of the socket has written, if the next step waits for it.
    pub line: u64,
    /// The same where loads follow each other that do not wait for each other, as when all servers
    /// are looked at: the processor has several under way.
    pub line_in_scan: u64,
    /// Both for a core of the other socket, in percent. A machine with one socket cannot tell.
    /// Molka et al., "Cache coherence protocol and memory performance of the Intel Haswell-EP
    /// architecture" (2015), and later measurements of AMD's two-socket machines, have two to three
    /// times the latency within a socket.
    pub far: u64,
    /// One pause of the processor.
    pub pause: u64,
    /// A reading of the clock.
    pub clock: u64,
    /// A switch from one worker to the next, and the library's steps around it that the simulation
    /// does not take. From `ping-pong` with one server beside the real runtime.
    pub switch: u64,
    /// A worker is made: its stack and descriptor. From `umcg bench rt`, `spawn_join`.
    pub make: u64,
    /// A system call that finds nothing to do.
    pub call: u64,
    /// A futex wake-up or a write to an eventfd, for the thread that makes it.
    pub wake: u64,
    /// From there until the woken thread runs, on a processor that idles.
    pub wake_latency: u64,
    /// How much later than asked a sleep ends that nobody ends: the timer's slack, and as above.
    pub late: u64,
    /// Whether the kernel has membarriers. Without them, and where a runtime has many servers,
    /// every `light` and every `heavy` is a full fence.
    pub has_barriers: bool,
    /// A membarrier, if no other thread of the process runs.
    pub barrier: u64,
    /// How much longer it takes if there are others, which have to be interrupted: the way there,
    /// and the wait for an answer.
    pub barrier_others: u64,
    /// How much longer still for each of these. A machine with two processors cannot tell. Kumar et
    /// al., "LATR: Lazy translation coherence" (2018), measured the interrupts of TLB shootdowns,
    /// which go the same way: 6 us with 16 cores on two sockets, 82 us with 120 on eight.
    pub barrier_each: u64,
    /// What a membarrier takes from a thread that runs.
    pub interrupted: u64,
    /// Whether the kernel makes one membarrier of the system at a time, as Linux does from 6.8 on.
    pub barriers_in_turn: bool,
    /// A look at the driver, and each event that it finds: system calls of epoll.
    pub poll: u64,
    /// See `poll`.
    pub event: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            hit: 1,
            locked: 4,
            fence: 4,
            line: 64,
            line_in_scan: 4,
            far: 250,
            pause: 24,
            clock: 22,
            switch: 10,
            make: 80,
            call: 160,
            wake: 7_000,
            wake_latency: 15_000,
            late: 70_000,
            has_barriers: true,
            barrier: 340,
            barrier_others: 8_600,
            barrier_each: 200,
            interrupted: 5_600,
            barriers_in_turn: true,
            poll: 400,
            event: 150,
        }
    }
}
