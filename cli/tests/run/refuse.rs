//! Programs without system calls that a kernel may lack, or a filter may forbid: those that the
//! library makes where it can, and does without where it cannot.
//!
//! `UMCG_RUN_REFUSED` chooses. The filter is installed in the child before its `exec`, so it holds
//! for the program, for `umcg run`, and for all that they start. The program runs natively under
//! the same filter, too, and is compared with that run. A program that is not right natively needs
//! the call itself, and is skipped with a line.
//!
//! Rejected: a filter that the program installs. What the C library and the library find at their
//! begin would not be refused.

use crate::settings::list;
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// System calls that come and go together.
struct Feature {
    name: &'static str,
    calls: &'static [c_long],
    /// Their first argument, if it has to be this one.
    option: Option<u64>,
    /// The errors to refuse them by, and their names.
    errors: &'static [(&'static str, i32)],
    /// Whether `all` refuses them, too.
    is_in_all: bool,
}

const MISSING: (&str, i32) = ("ENOSYS", libc::ENOSYS);
const FORBIDDEN: (&str, i32) = ("EPERM", libc::EPERM);

const fn feature(name: &'static str, calls: &'static [c_long]) -> Feature {
    Feature {
        name,
        calls,
        option: None,
        errors: &[MISSING, FORBIDDEN],
        is_in_all: true,
    }
}

impl Feature {
    /// For one without which programs of the corpus are not right natively, or stay on their own
    /// kernel threads: `all` would say less of the other ones.
    const fn alone(self) -> Self {
        Self {
            is_in_all: false,
            ..self
        }
    }

    /// For one that the C library does without only where the kernel has no such call.
    const fn missing(self) -> Self {
        Self {
            errors: &[MISSING],
            ..self
        }
    }

    /// With the error of this name; with each if it is empty.
    fn refusals(&self, chosen: &str) -> impl Iterator<Item = Refusal> {
        self.errors
            .iter()
            .filter(move |(error, _)| chosen.is_empty() || chosen == *error)
            .map(|(error, number)| {
                let title = format!("{}:{error}", self.name);
                Refusal::of_option(title, self.calls, self.option, *number)
            })
    }
}

/// Not among them: calls without which the process ends, by `docs/refusals.md`, and
/// `rt_tgsigqueueinfo`, without which signals come without their information.
const FEATURES: [Feature; 18] = [
    feature("clone3", &[libc::SYS_clone3]).missing(),
    feature("close_range", &[libc::SYS_close_range]).alone(),
    feature("epoll_pwait2", &[libc::SYS_epoll_pwait2]),
    feature("futex_waitv", &[libc::SYS_futex_waitv]),
    feature(
        "io_uring",
        &[
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
        ],
    ),
    feature("fstatfs", &[libc::SYS_fstatfs]),
    feature("madvise", &[libc::SYS_madvise]).alone(),
    feature("membarrier", &[libc::SYS_membarrier]),
    feature("memfd_create", &[libc::SYS_memfd_create]),
    feature(
        "pidfd",
        &[
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_send_signal,
            libc::SYS_pidfd_getfd,
        ],
    ),
    feature("preadv2", &[libc::SYS_preadv2, libc::SYS_pwritev2]),
    feature(
        "process_vm_readv",
        &[libc::SYS_process_vm_readv, libc::SYS_process_vm_writev],
    ),
    feature("rseq", &[libc::SYS_rseq]),
    feature("rt_sigpending", &[libc::SYS_rt_sigpending]).alone(),
    feature("rt_sigqueueinfo", &[libc::SYS_rt_sigqueueinfo]).alone(),
    feature("rt_sigtimedwait", &[libc::SYS_rt_sigtimedwait]).alone(),
    feature("statx", &[libc::SYS_statx]),
    Feature {
        option: Some(PR_SET_SYSCALL_USER_DISPATCH),
        errors: &[("EINVAL", libc::EINVAL), FORBIDDEN],
        ..feature("user_dispatch", &[libc::SYS_prctl]).alone()
    },
];

const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;

/// Calls that are refused, and the error.
#[derive(Clone)]
pub(crate) struct Refusal {
    /// As `UMCG_RUN_REFUSED` names it.
    pub(crate) title: String,
    filter: BpfProgram,
}

/// What `UMCG_RUN_REFUSED` asks for: `all` at once, `each` in turn, or names, which an error may
/// follow (`rseq:EPERM`). Nothing is refused if it is not set.
pub(crate) fn chosen() -> Vec<Refusal> {
    list("UMCG_RUN_REFUSED", "", ',')
        .iter()
        .flat_map(|word| named(word))
        .collect()
}

/// What a word of it asks for.
pub(crate) fn named(word: &str) -> Vec<Refusal> {
    if word == "all" {
        let together = FEATURES.iter().filter(|feature| feature.is_in_all);
        let calls: Vec<c_long> = together
            .flat_map(|feature| feature.calls)
            .copied()
            .collect();
        return vec![Refusal::new(word.to_owned(), &calls, libc::ENOSYS)];
    }
    let (name, error) = word.split_once(':').unwrap_or((word, ""));
    let refusals: Vec<Refusal> = FEATURES
        .iter()
        .filter(|feature| name == "each" || name == feature.name)
        .flat_map(|feature| feature.refusals(error))
        .collect();
    assert!(
        !refusals.is_empty(),
        "UMCG_RUN_REFUSED: no such feature: {word}"
    );
    refusals
}

impl Refusal {
    /// These calls, by this error.
    pub(crate) fn new(title: String, calls: &[c_long], error: i32) -> Self {
        Self::of_option(title, calls, None, error)
    }

    /// Those of them with this first argument.
    fn of_option(title: String, calls: &[c_long], option: Option<u64>, error: i32) -> Self {
        let is_first = |value| {
            let (place, equal) = (0, SeccompCmpOp::Eq);
            SeccompCondition::new(place, SeccompCmpArgLen::Dword, equal, value)
        };
        let condition = option.map(|value| vec![is_first(value).expect("a condition")]);
        let rule = condition.map(|condition| SeccompRule::new(condition).expect("a rule"));
        let rules = calls
            .iter()
            .map(|call| (*call, rule.clone().into_iter().collect()));
        Self::of_rules(title, rules.collect(), error)
    }

    /// No memory is made executable that was not: as by a policy against writable code.
    pub(crate) fn of_executable_memory() -> Self {
        const PROTECTION: u8 = 2;
        let executable = libc::PROT_EXEC.unsigned_abs().into();
        let asks = SeccompCondition::new(
            PROTECTION,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(executable),
            executable,
        );
        let rule = SeccompRule::new(vec![asks.expect("a condition")]).expect("a rule");
        let rules = BTreeMap::from([(libc::SYS_mprotect, vec![rule])]);
        Self::of_rules("executable memory".to_owned(), rules, libc::EPERM)
    }

    fn of_rules(title: String, rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Self {
        let errno = SeccompAction::Errno(error.unsigned_abs());
        let here = std::env::consts::ARCH.try_into().expect("an architecture");
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, errno, here);
        Self {
            title,
            filter: filter.and_then(TryInto::try_into).expect("a filter"),
        }
    }

    /// The command runs under the filter, as does all that it starts.
    pub(crate) fn hold_for(&self, command: &mut Command) {
        let filter = self.filter.clone();
        let install =
            move || seccompiler::apply_filter(&filter).map_err(|_| io::Error::last_os_error());
        // SAFETY: it makes two system calls, and takes no lock and no memory.
        unsafe { command.pre_exec(install) };
    }

    /// Whether this machine lets a process have filters.
    pub(crate) fn is_possible(&self) -> io::Result<()> {
        let mut command = Command::new("true");
        self.hold_for(&mut command);
        command.status().map(drop)
    }
}
