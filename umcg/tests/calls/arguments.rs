//! Classes that depend on arguments.

use crate::class::{self, Class, Made, State, Trial, User, Watched};
use crate::number;

/// Checks the classes of calls with these first arguments; those left out are 0.
fn expect(name: &str, cases: &[(&[i64], Class)]) {
    for (given, class) in cases {
        let mut arguments = [0; 6];
        for (to, from) in arguments.iter_mut().zip(*given) {
            *to = *from as usize;
        }
        assert_eq!(
            class::of(number(name), &arguments),
            *class,
            "{name} {given:x?}"
        );
    }
}

#[test]
fn arguments_about_words_decide() {
    use Class::{Home, Pass, User as Own};
    let private = Own(User::Futex);
    expect(
        "futex",
        &[
            (&[0, 128], private),
            (&[0, 129], private),
            (&[0, 9 | 128 | 256], private),
            (&[0, 5 | 128], private),
            (&[0, 0], Own(User::SharedWait)),
            (&[0, 9 | 256], Own(User::SharedWait)),
            (&[0, 1], Pass),
            (&[0, 4], Pass),
            (&[0, 6 | 128], Home),
            (&[0, 7], Home),
            (&[0, 11 | 128], Home),
            (&[0, 13 | 128], Home),
            (&[0, 2], Home),
            (&[0, 99 | 128], Home),
        ],
    );
}

#[test]
fn arguments_of_sleeps_and_polls_decide() {
    use Class::{Home, Pass, Try, User as Own};
    let sleep = Own(User::Sleep);
    expect(
        "clock_nanosleep",
        &[
            (&[1, 0], sleep),
            (&[1, 1], sleep),
            (&[0, 0], sleep),
            (&[0, 1], Home),
            (&[2, 0], Home),
            (&[7, 0], Home),
        ],
    );
    expect(
        "poll",
        &[(&[0, 0, -1], Try(Trial::Poll)), (&[0, 0, 0], Pass)],
    );
    // An int in the lower half of its register.
    expect("poll", &[(&[0, 0, 1 << 32], Pass)]);
    expect(
        "ppoll",
        &[(&[0; 4], Try(Trial::Poll)), (&[0, 0, 0, 4096], Home)],
    );
    expect(
        "pselect6",
        &[
            (&[0; 6], Try(Trial::Select)),
            (&[0, 0, 0, 0, 0, 4096], Home),
        ],
    );
    expect(
        "epoll_wait",
        &[(&[3, 0, 1, 5], Try(Trial::Epoll)), (&[3, 0, 1, 0], Pass)],
    );
    let mask = [3, 0, 1, 5, 4096];
    expect(
        "epoll_pwait",
        &[(&mask[..4], Try(Trial::Epoll)), (&mask, Home)],
    );
    expect(
        "epoll_pwait2",
        &[(&mask[..4], Try(Trial::Epoll)), (&mask, Home)],
    );
}

#[test]
fn arguments_about_messages_decide() {
    use Class::{Pass, Try};
    let (dont_wait, no_signal) = (0x40, 0x4000);
    expect(
        "recvfrom",
        &[
            (&[0; 4], Try(Trial::Receive)),
            (&[0, 0, 0, dont_wait], Pass),
        ],
    );
    expect(
        "recvmsg",
        &[(&[0; 3], Try(Trial::Receive)), (&[0, 0, dont_wait], Pass)],
    );
    let quiet = dont_wait | no_signal;
    expect(
        "sendto",
        &[
            (&[0, 0, 0, dont_wait], Try(Trial::Send)),
            (&[0, 0, 0, quiet], Pass),
        ],
    );
    expect(
        "sendmsg",
        &[
            (&[0, 0, no_signal], Try(Trial::Send)),
            (&[0, 0, quiet], Pass),
        ],
    );
    expect(
        "msgsnd",
        &[(&[0; 4], Try(Trial::Message)), (&[0, 0, 0, 0x800], Pass)],
    );
    expect(
        "msgrcv",
        &[(&[0; 5], Try(Trial::Message)), (&[0, 0, 0, 0, 0x800], Pass)],
    );
}

#[test]
fn arguments_about_children_decide() {
    use Class::{Home, Pass, Thread, Try};
    let child = Try(Trial::Child);
    expect(
        "wait4",
        &[
            (&[7, 0, 0], child),
            (&[7, 0, 0x4000_0000], child),
            (&[-1, 0, 1], Pass),
            (&[-1, 0, 0], Home),
            (&[0, 0, 0], Home),
            (&[7, 0, 2], Home),
            (&[7, 0, 8], Home),
            (&[7, 0, 0x2000_0001], Home),
        ],
    );
    expect(
        "waitid",
        &[
            (&[1, 7, 0, 4], child),
            (&[3, 5, 0, 4 | 0x100_0000], child),
            (&[0, 0, 0, 4], Home),
            (&[1, 7, 0, 2], Home),
            (&[1, 7, 0, 4 | 8], Home),
            (&[0, 0, 0, 5], Pass),
        ],
    );
    // As glibc makes threads, posix_spawn and fork.
    expect(
        "clone",
        &[
            (&[0x3d_0f00], Thread(Made::Thread)),
            (&[0x4111], Thread(Made::Vfork)),
            (&[0x120_0011], Thread(Made::Fork)),
            (&[0x0f00 | 17], Thread(Made::Sharing)),
        ],
    );
    let (threads, files) = (0x3d_0f00, 0x400);
    assert_eq!(State::of_clone(threads), State::NONE);
    assert_eq!(State::of_clone(threads & !files), State::DESCRIPTORS);
    assert_eq!(State::of_clone(threads | 0x4000_0000), State::NAMESPACES);
}

#[test]
fn arguments_about_memory_decide() {
    use Class::{Home, Pass, Watch};
    let (anonymous, fixed, populate) = (0x22, 0x10, 0x8000);
    expect(
        "mmap",
        &[
            (&[0, 4096, 3, anonymous], Pass),
            (&[0, 4096, 3, anonymous | populate], Home),
            (&[0, 4096, 1, 2, 3], Home),
            (&[0, 4096, 7, anonymous], Watch(Watched::Map)),
            (&[0, 4096, 0, anonymous | fixed], Watch(Watched::Map)),
            (&[0, 4096, 5, 2, 3], Watch(Watched::MapFile)),
            (&[0, 4096, 1, 2 | fixed, 3], Watch(Watched::MapFile)),
        ],
    );
    expect(
        "mprotect",
        &[(&[0, 0, 3], Pass), (&[0, 0, 5], Watch(Watched::Protect))],
    );
    expect(
        "pkey_mprotect",
        &[(&[0, 0, 1, 1], Pass), (&[0, 0, 4], Watch(Watched::Protect))],
    );
    expect(
        "madvise",
        &[
            (&[0, 0, 4], Pass),
            (&[0, 0, 8], Pass),
            (&[0, 0, 22], Home),
            (&[0, 0, 25], Home),
        ],
    );
    expect(
        "membarrier",
        &[
            (&[0], Pass),
            (&[8], Pass),
            (&[32], Pass),
            (&[1], Home),
            (&[16], Home),
        ],
    );
}

#[test]
fn arguments_about_descriptors_decide() {
    use Class::{Home, Pass, Watch};
    expect(
        "fcntl",
        &[
            (&[0, 3], Pass),
            (&[0, 1030, 64], Pass),
            (&[0, 1033], Pass),
            (&[0, 6], Home),
            (&[0, 7], Home),
            (&[0, 38], Home),
            (&[0, 1024], Home),
            (&[0, 1026], Home),
        ],
    );
    expect(
        "ioctl",
        &[
            (&[0, 0x5421], Pass),
            (&[0, 0x541b], Pass),
            (&[0, 0x5401], Home),
        ],
    );
    expect(
        "lseek",
        &[
            (&[0, 0, 0], Pass),
            (&[0, 0, 1], Pass),
            (&[0, 0, 2], Home),
            (&[0, 0, 3], Home),
        ],
    );
    expect(
        "setsockopt",
        &[
            (&[0, 1, 13], Watch(Watched::Linger)),
            (&[0, 1, 2], Pass),
            (&[0, 6, 13], Pass),
        ],
    );
    expect(
        "close_range",
        &[
            (&[3, -1, 0], Watch(Watched::CloseRange)),
            (&[3, -1, 2], Watch(Watched::CloseRange)),
        ],
    );
}

#[test]
fn clocks_of_threads_are_the_librarys() {
    use Class::{Home, Pass, User as Own};
    expect(
        "clock_gettime",
        &[
            (&[1], Pass),
            (&[2], Pass),
            (&[3], Own(User::ThreadClock)),
            (&[-2], Own(User::ThreadClock)),
            (&[!1234 << 3 | 6], Own(User::ThreadClock)),
            // Of a process, and of a descriptor.
            (&[!1234 << 3 | 2], Home),
            (&[!5 << 3 | 3], Home),
            (&[!5 << 3 | 7], Home),
        ],
    );
    expect(
        "getrusage",
        &[
            (&[0], Pass),
            (&[-1], Pass),
            (&[1], Own(User::ThreadUsage)),
            (&[7], Home),
        ],
    );
}

#[test]
fn arguments_about_the_thread_decide() {
    use Class::{Change, Home, Pass, User as Own};
    expect("sched_getaffinity", &[(&[0], Home), (&[77], Pass)]);
    expect("sched_setaffinity", &[(&[0], Home), (&[77], Home)]);
    expect(
        "prctl",
        &[
            (&[0x5356_4d41], Pass),
            (&[15], Home),
            (&[22], Change(State::FILTERS)),
            (&[38], Change(State::FILTERS)),
            (&[59], Change(State::FILTERS)),
            (&[28], Change(State::CREDENTIALS)),
            (&[26], Change(State::MACHINE)),
        ],
    );
    let base = Own(User::Base);
    let change = Change(State::MACHINE);
    expect(
        "arch_prctl",
        &[
            (&[0x1001], base),
            (&[0x1003], base),
            (&[0x1012], change),
            (&[0x1023], Home),
        ],
    );
    expect(
        "personality",
        &[
            (&[0xffff_ffff], Home),
            (&[0x4_0000], Change(State::PERSONALITY)),
        ],
    );
    expect("seccomp", &[(&[1], Change(State::FILTERS)), (&[2], Home)]);
    expect(
        "keyctl",
        &[(&[0], Home), (&[1], Change(State::CREDENTIALS))],
    );
    expect(
        "unshare",
        &[
            (&[0], Home),
            (&[0x200], Change(State::DIRECTORIES)),
            (&[0x600], Change(State::DIRECTORIES.and(State::DESCRIPTORS))),
            (
                &[0x2_0000],
                Change(State::NAMESPACES.and(State::DIRECTORIES)),
            ),
            (&[0x800_0000], Change(State::NAMESPACES.and(State::UNDO))),
        ],
    );
}
