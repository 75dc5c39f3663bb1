//! `umcg dump`: the threads of a program under `umcg run`, and where each of them stands.
//!
//! The library in the program keeps a file of memory, and answers there (see
//! `umcg/src/intercept/dump.rs`). It is asked by a signal of its own, which never ends a process:
//! SIGURG, queued for the library's thread. So the same user may ask, and nothing attaches to the
//! process.

use crate::output;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The process
    #[arg(value_name = "PID")]
    pid: i32,
}

/// The file's name, as the kernel shows it.
const NAME: &str = "/memfd:umcg-dump";
const MAGIC: &[u8; 8] = b"umcgdump";
const VERSION: u32 = 1;
const ANSWERED: u64 = 24;
const TEXT: u64 = 64;

/// How long an answer may take. The process may be stopped.
const PATIENCE: Duration = Duration::from_secs(10);
/// After this time the request is repeated: another one may have replaced it.
const AGAIN: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &Args) -> Result<()> {
    let pid = args.pid;
    let folder = PathBuf::from(format!("/proc/{pid}"));
    if pid <= 0 || !folder.exists() {
        bail!("there is no process {pid}");
    }
    let Some(file) = find(&folder).with_context(|| format!("cannot look into process {pid}"))?
    else {
        bail!("process {pid} {}", why_not(&folder));
    };
    let head = Head::read(&file)?;
    if head.process != pid {
        bail!("process {pid} was forked by one under `umcg run`, and runs natively");
    }
    let list = ask(&file, pid, head.courier)?;
    output::print(format!("process {pid}: {list}").as_bytes())
}

/// The file of memory in which the process answers.
fn find(folder: &Path) -> std::io::Result<Option<File>> {
    for entry in fs::read_dir(folder.join("fd"))?.flatten() {
        let is_it = |target: PathBuf| target.to_string_lossy().starts_with(NAME);
        if fs::read_link(entry.path()).is_ok_and(is_it) {
            return File::open(entry.path()).map(Some);
        }
    }
    Ok(None)
}

/// Why a process without the file has no list.
fn why_not(folder: &Path) -> &'static str {
    let maps = fs::read_to_string(folder.join("maps")).unwrap_or_default();
    if maps.contains("libumcg_preload.so") {
        "is under `umcg run`, but has made no thread yet, or runs natively"
    } else {
        "is not under `umcg run`"
    }
}

struct Head {
    process: i32,
    courier: i32,
}

impl Head {
    fn read(file: &File) -> Result<Head> {
        let mut bytes = [0; 24];
        file.read_exact_at(&mut bytes, 0)
            .context("the process has no answer ready")?;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        if &bytes[..8] != MAGIC || word(8) != VERSION {
            bail!("the process is under `umcg run` of another version");
        }
        Ok(Head {
            process: word(12) as i32,
            courier: word(16) as i32,
        })
    }
}

/// Asks, and waits for the answer.
fn ask(file: &File, pid: i32, courier: i32) -> Result<String> {
    let request = number();
    let end = Instant::now() + PATIENCE;
    loop {
        send(pid, courier, request)?;
        let again = Instant::now() + AGAIN;
        while Instant::now() < again {
            sleep(Duration::from_millis(1));
            if let Some(list) = answer(file, request) {
                return Ok(list);
            }
            if !Path::new(&format!("/proc/{pid}/task/{courier}")).exists() {
                bail!("the process has ended");
            }
        }
        if Instant::now() > end {
            bail!("the process does not answer: is it stopped?");
        }
    }
}

/// A number that no other request has, and not 0.
fn number() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map_or(0, |now| now.as_nanos() as u64);
    (nanoseconds ^ u64::from(std::process::id()) << 44) | 1
}

/// Queues the library's signal, with the number, for its thread.
fn send(pid: i32, courier: i32, request: u64) -> Result<()> {
    /// The kernel's layout of a queued signal's information, on 64-bit machines.
    #[repr(C)]
    struct Queued {
        signal: i32,
        error: i32,
        code: i32,
        padding: i32,
        pid: u32,
        uid: u32,
        value: u64,
        rest: [u64; 12],
    }
    let information = Queued {
        signal: libc::SIGURG,
        error: 0,
        code: libc::SI_QUEUE,
        padding: 0,
        pid: std::process::id(),
        // SAFETY: no precondition.
        uid: unsafe { libc::getuid() },
        value: request,
        rest: [0; 12],
    };
    // SAFETY: information of the kernel's size and layout.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            pid,
            courier,
            libc::SIGURG,
            &raw const information,
        )
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error()).context("cannot ask the process");
    }
    Ok(())
}

/// The answer to this request, if it is there.
fn answer(file: &File, request: u64) -> Option<String> {
    let length = is_answered(file, request)?;
    let mut text = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut text, TEXT).ok()?;
    // Another request may have been answered meanwhile.
    is_answered(file, request)?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The length of the answer, if it is the one to this request.
fn is_answered(file: &File, request: u64) -> Option<u64> {
    let mut words = [0; 16];
    file.read_exact_at(&mut words, ANSWERED).ok()?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| words[at + byte]));
    (word(0) == request).then(|| word(8))
}
