//! What the engine's start costs with the named libraries loaded: the median and the minimum of
//! the processor time, in ms, of 41 processes. This program itself, whose only sites are the
//! engine's, is left alone.
//!
//!     cargo run --release -p umcg-intercept --example start -- libgomp.so.1 libz.so.1
//!
//! `--sites` first: instead prints the report, and each patched site of each object: the offsets of
//! its window and of the address behind its `syscall`, and the bytes that were there.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use umcg_memory as _;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod start {
    use std::ffi::CString;
    use std::process::Command;
    use umcg_intercept::{Call, Config, Next, Object, Report};

    const ROUNDS: usize = 41;
    const ONCE: &str = "--once";
    const SITES: &str = "--sites";
    static ALL: [u8; 512] = [1; 512];

    unsafe extern "C" fn hook(call: &mut Call) -> Next {
        match call.number as i64 {
            libc::SYS_clone | libc::SYS_clone3 | libc::SYS_vfork | libc::SYS_munmap => Next::Tail,
            _ => Next::Native,
        }
    }

    pub(super) fn main() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        match arguments.first().map(String::as_str) {
            Some(ONCE) => println!(
                "{}",
                once(&arguments[1..], |object| object.path.ends_with(b"/start")).1
            ),
            Some(SITES) => {
                let (report, _) = once(&arguments[1..], |_| false);
                print!("{report}");
                sites(&report);
            }
            _ => measure(&arguments),
        }
    }

    fn measure(libraries: &[String]) {
        let own = std::env::current_exe().unwrap();
        let mut rounds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let output = Command::new(&own).arg(ONCE).args(libraries).output();
                let text = String::from_utf8(output.unwrap().stdout).unwrap();
                text.trim().parse().unwrap()
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        println!("{:.2} {:.2}", rounds[ROUNDS / 2], rounds[0]);
    }

    /// Installs with the libraries loaded. The report, and how many ms it took.
    fn once(libraries: &[String], except: fn(&Object) -> bool) -> (Report, f64) {
        for name in libraries {
            let name = CString::new(name.as_str()).unwrap();
            // SAFETY: a library that the caller of the program has named.
            let loaded = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
            assert!(!loaded.is_null(), "cannot load {name:?}");
        }
        let config = Config {
            except,
            ..Config::new(hook, &ALL)
        };
        let start = time();
        // SAFETY: the hook keeps to the rules, and one thread runs.
        let report = unsafe { umcg_intercept::install(config) }.unwrap();
        (report, time() - start)
    }

    /// The thread's processor time, in ms.
    fn time() -> f64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: a place for the answer.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
    }

    /// Prints what differs between code in memory and in its file.
    fn sites(report: &Report) {
        let mappings = std::fs::read_to_string("/proc/self/maps").unwrap();
        for (object, _) in &report.objects {
            let path = String::from_utf8(object.path.clone()).unwrap();
            let Ok(file) = std::fs::read(&path) else {
                continue;
            };
            println!("{path}");
            for line in mappings.lines().filter(|line| line.ends_with(&path)) {
                let fields: Vec<&str> = line.split_whitespace().collect();
                if fields[1].contains('x') {
                    let number = |text| usize::from_str_radix(text, 16).unwrap();
                    let (start, end) = fields[0].split_once('-').unwrap();
                    segment(number(start), number(end), number(fields[2]), &file);
                }
            }
        }
    }

    fn segment(start: usize, end: usize, offset: usize, file: &[u8]) {
        // SAFETY: a readable mapping of an object that stays.
        let memory = unsafe { core::slice::from_raw_parts(start as *const u8, end - start) };
        let file = &file[offset..];
        let length = memory.len().min(file.len());
        let mut at = 0;
        while at < length {
            if memory[at] == file[at] {
                at += 1;
                continue;
            }
            let distance = i32::from_le_bytes(memory[at + 1..at + 5].try_into().unwrap());
            let code = (start + at + 5).wrapping_add(distance as usize);
            // SAFETY: a descriptor, right before the code of its trampoline.
            let [next, resume, _] = unsafe { ((code - 24) as *const [usize; 3]).read() };
            let mut behind = at + 5;
            while memory[behind] == 0xcc && file[behind] != 0xcc {
                behind += 1;
            }
            let shape = if resume == next { "before" } else { "around" };
            let (window, next) = (offset + at, next - start + offset);
            println!("  {window:x} {next:x} {shape} {:02x?}", &file[at..behind]);
            at = behind;
        }
    }
}

fn main() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    start::main();
}
