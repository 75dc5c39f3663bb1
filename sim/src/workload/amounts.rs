//! How much work there is, and how long its pieces take, in nanoseconds. The real runtime does the
//! same beside the simulation.

/// `fork-join`: leaves of each server's part, and how long each computes.
pub const LEAVES: u64 = 512;
/// See [`LEAVES`].
pub const LEAF: u64 = 20_000;
/// What an inner node computes before its children, and after.
pub const NODE: u64 = 200;

/// `pipeline`: stages for each server, so that one has something to do while others wait.
pub const STAGES: usize = 4;
/// The most stages in a row. With more there are several rows.
pub const ROW: usize = 32;
/// Items of each row.
pub const ITEMS: u64 = 600;
/// Of a channel.
pub const ROOM: usize = 8;
/// What a stage computes for an item.
pub const STAGE: u64 = 4_000;

/// `echo`: connections for each server, and messages of each.
pub const CONNECTIONS: usize = 16;
/// See [`CONNECTIONS`].
pub const MESSAGES: u64 = 40;
/// What a message takes: a read, an answer, and a read that finds nothing.
pub const SERVICE: u64 = 10_000;
/// From an answer to the next message, in the mean. With this servers are busy for 60 % of their
/// time, if no message waits.
pub const THINK: u64 = 256_000;

/// `ping-pong`: pairs for each server.
pub const PAIRS: usize = 2;
/// How often each of a pair has its turn.
pub const ROUNDS: u64 = 1_500;
/// What each computes before it wakes the other one.
pub const STEP: u64 = 1_500;

/// `bursts`: how many there are.
pub const BURSTS: u64 = 5;
/// Workers of a burst for each server, and what each computes.
pub const WORKERS: u64 = 12;
/// See [`WORKERS`].
pub const WORK: u64 = 200_000;
/// Between two bursts all servers fall asleep.
pub const PAUSE: u64 = 2_000_000;
