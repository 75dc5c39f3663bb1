//! What the header of the table promises.

use crate::class::{self, Afterwards, Blocking, Class, Made, Rule, State, Trial};
use crate::{names, number, rows};

#[test]
fn rows_keep_the_invariants() {
    for row in rows() {
        let name = row.calls[0].1;
        let own = |state: State| {
            State::ALL.iter().any(|(kind, ..)| {
                !kind.within(state).is_none() && kind.within(State::COMMON).is_none()
            })
        };
        match row.class {
            Class::Pass => {
                assert_ne!(row.blocking, Blocking::Long, "{name}: C2");
                assert!(row.changes.is_none() && !own(row.reads), "{name}: C2");
                assert_eq!(row.rule, Rule::Never, "{name}: C5");
            }
            Class::Try(_) => assert!(row.changes.is_none() && !own(row.reads), "{name}: C2"),
            Class::Watch(watched) => {
                assert!(!own(row.reads) && !own(row.changes), "{name}: C2");
                let is_long = row.blocking == Blocking::Long;
                assert_eq!(is_long, !watched.is_in_place(), "{name}");
            }
            Class::Change(state) => {
                assert!(!state.is_none() && !own(state), "{name}: C3");
                assert_eq!(row.changes.within(state), state, "{name}: C3");
            }
            Class::Home | Class::User(_) | Class::Thread(_) | Class::Bare => {
                // A rule may know better, and says so.
                assert!(row.changes.within(State::COMMON).is_none(), "{name}: C3");
            }
        }
    }
}

#[test]
fn only_sites_that_always_pass_are_left_alone() {
    let names = names();
    let is_passed = |number| matches!(class::class(number), Class::Pass);
    for (number, code) in class::HOOKED.into_iter().enumerate() {
        assert_eq!(code == 0, is_passed(number), "{number}");
        assert!(code == 0 || names.contains_key(&number) || code == class::HOOKED[400]);
    }
    let passing = |name| class::HOOKED[number(name)] == 0;
    assert!(passing("getpid") && passing("brk") && passing("epoll_ctl"));
    for hooked in [
        "rt_sigreturn",
        "futex",
        "close",
        "execve",
        "exit",
        "munmap",
        "openat",
    ] {
        assert!(!passing(hooked), "{hooked}");
    }
}

#[test]
fn numbers_outside_of_the_table_go_home() {
    const X32: usize = 0x4000_0000;
    let none = [0; 6];
    for number in [
        512,
        547,
        10_000,
        X32 - 1,
        X32,
        X32 + 39,
        X32 + 202,
        u32::MAX as usize,
    ] {
        assert_eq!(class::class(number), Class::Home, "{number:#x}");
        assert_eq!(class::of(number, &none), Class::Home, "{number:#x}");
    }
    assert_eq!(class::class(X32 + 58), Class::Thread(Made::Vfork));
    assert_eq!(class::class(X32 + 520), Class::Thread(Made::Exec));
    assert_eq!(class::class(X32 + 513), Class::Bare);
    // Not its number there.
    assert_eq!(class::class(X32 + 15), Class::Home);
    // The kernel reads 32 bits.
    assert_eq!(class::class(0x1_0000_0000 + 39), Class::Pass);
}

#[test]
fn waits_without_an_event_go_home() {
    assert_eq!(Trial::Semaphore.afterwards(), Afterwards::Home);
    assert_eq!(Trial::Read.afterwards(), Afterwards::Parks);
}
