//! Objects that exclude, and objects that let through: mutexes, locks for readers and writers,
//! condition variables, events, once-only initialisation.

#[path = "../checked/condvar.rs"]
mod condvar;
#[path = "../checked/event.rs"]
mod event;
#[path = "../checked/mutex.rs"]
mod mutex;
#[path = "../checked/once.rs"]
mod once;
#[path = "../checked/rwlock.rs"]
mod rwlock;
