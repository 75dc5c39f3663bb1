//! A moment without threads: it is reported as such, and over when it is over.

use crate::support::{child_succeeds, is_child, say, threads};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;
use umcg::{Error, Runtime, SpawnError};

/// Lets the calling process have this many kernel threads. It is a user of its own for that, as the
/// kernel counts by user.
fn limit(threads: u64) {
    let maximum = getrlimit(Resource::Nproc).maximum;
    setrlimit(
        Resource::Nproc,
        Rlimit {
            current: Some(threads),
            maximum,
        },
    )
    .unwrap();
}

fn as_user_of_its_own(test: &str, f: impl FnOnce()) {
    // SAFETY: no precondition.
    if unsafe { libc::geteuid() } != 0 {
        return say(&format!(
            "SKIPPED: {test}: it takes privileges to be another user"
        ));
    }
    if !is_child(test) {
        return child_succeeds(test);
    }
    let user = 200_000 + std::process::id();
    // SAFETY: no precondition.
    assert_eq!(unsafe { libc::setuid(user) }, 0);
    f();
}

#[test]
fn without_threads_is_not_for_good() {
    as_user_of_its_own("shortage::without_threads_is_not_for_good", || {
        limit(1);
        let error = Runtime::builder().servers(1).build().unwrap_err();
        assert!(matches!(error, Error::Thread(libc::EAGAIN)), "{error:?}");
        assert!(error.to_string().starts_with("no thread: "), "{error}");
        let is_ruled_out = umcg::storage::is_ruled_out();
        if !is_ruled_out {
            assert_eq!(
                umcg::storage::available(),
                Err("the system gives no thread to try it with")
            );
        }
        limit(1000);
        let runtime = Runtime::builder().servers(1).build().unwrap();
        assert_eq!(umcg::storage::is_ruled_out(), is_ruled_out);
        if is_ruled_out {
            return;
        }
        let before = threads("").len();
        let workers: Vec<_> = (0..100)
            .map(|_| runtime.spawn(|| umcg::sleep(Duration::from_millis(20))))
            .collect();
        assert_eq!(threads("").len(), before);
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn a_runtime_with_threads_for_its_servers_alone_makes_full_workers() {
    as_user_of_its_own(
        "shortage::a_runtime_with_threads_for_its_servers_alone_makes_full_workers",
        || {
            // This one, the test's main one, a server and the watch.
            limit(4);
            let runtime = Runtime::builder().servers(1).build().unwrap();
            match runtime.build(&umcg::Builder::new(), || 7) {
                Ok(worker) => assert_eq!(worker.join().unwrap(), 7),
                Err(error) => assert!(
                    umcg::storage::is_ruled_out() && error == SpawnError::Thread,
                    "{error}"
                ),
            }
        },
    );
}
