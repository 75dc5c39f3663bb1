//! Builds libumcg, compiles the C programs in `tests/c` and the C examples with every warning an
//! error, and runs each.
//!
//! A program passes with exit status 0, and is skipped with 77. If a file `NAME.expected` stands
//! beside it, its output must match, `*` standing for anything. Every program runs with thread
//! workers that move between kernel threads. Where it matters, it runs once more with
//! `UMCG_NO_FSGSBASE=1`, which makes them stay on their own. Programs of the runtime run with 2
//! servers here. Where everything is asked for (`--include-ignored`, as by `ci/c.sh`), they also
//! run with 1 and 8 servers, with light workers, and as C++.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Longer than any watchdog of theirs.
const TIMEOUT: Duration = Duration::from_secs(700);
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// The programs, and whether each runs a second time without FSGSBASE.
macro_rules! programs {
    ($($name:ident $file:literal $twice:ident;)*) => {
        const FILES: &[&str] = &[$($file),*];
        mod moving {
            $(#[test] fn $name() { super::check($file, &[]); })*
        }
        mod staying {
            $(programs!(@$twice $name $file);)*
        }
        mod one_server {
            $(programs!(%$twice $name $file "UMCG_TEST_SERVERS" "1");)*
        }
        mod eight_servers {
            $(programs!(%$twice $name $file "UMCG_TEST_SERVERS" "8");)*
        }
        mod light_workers {
            $(programs!(%$twice $name $file "UMCG_TEST_LIGHT" "1");)*
        }
        mod cplusplus {
            $(programs!(&$twice $name $file);)*
        }
    };
    (%runtime $name:ident $file:literal $variable:literal $value:literal) => {
        #[test]
        #[ignore = "one more way to run it, for ci/c.sh"]
        fn $name() {
            super::check($file, &[($variable, $value)]);
        }
    };
    (%$other:ident $name:ident $file:literal $variable:literal $value:literal) => {};
    (&runtime $name:ident $file:literal) => {
        #[test]
        #[ignore = "one more way to run it, for ci/c.sh"]
        fn $name() {
            super::check_as($file, "CXX", &[]);
        }
    };
    (&$other:ident $name:ident $file:literal) => {};
    (@runtime $name:ident $file:literal) => {};
    (@twice $name:ident $file:literal) => {
        #[test] fn $name() { super::check($file, &[("UMCG_NO_FSGSBASE", "1")]); }
    };
    (@once $name:ident $file:literal) => {};
}

programs! {
    ctl_args "ctl_args.c" twice;
    ctl_block "ctl_block.c" twice;
    ctl_cancel "ctl_cancel.c" twice;
    ctl_cleanup "ctl_cleanup.c" twice;
    ctl_efault "ctl_efault.c" twice;
    ctl_exit "ctl_exit.c" twice;
    ctl_fork "ctl_fork.c" twice;
    ctl_gettid "ctl_gettid.c" twice;
    ctl_handlers "ctl_handlers.c" once;
    ctl_light "ctl_light.c" once;
    ctl_notice "ctl_notice.c" twice;
    ctl_preempt "ctl_preempt.c" twice;
    ctl_server "ctl_server.c" twice;
    ctl_signal "ctl_signal.c" twice;
    ctl_timeout "ctl_timeout.c" twice;
    ctl_worker "ctl_worker.c" twice;
    exception "exception.cc" twice;
    rt_cancel "rt_cancel.c" runtime;
    rt_exception "rt_exception.cc" runtime;
    rt_futex "rt_futex.c" runtime;
    rt_inherit "rt_inherit.c" runtime;
    rt_io "rt_io.c" runtime;
    rt_nt "rt_nt.c" runtime;
    rt_overflow "rt_overflow.c" runtime;
    rt_places "rt_places.c" runtime;
    rt_segment "rt_segment.c" runtime;
    rt_segment_deaths "rt_segment_deaths.c" runtime;
    rt_select "rt_select.c" runtime;
    rt_sem "rt_sem.c" runtime;
    rt_spawn "rt_spawn.c" runtime;
    rt_stack "rt_stack.c" runtime;
    rt_sync "rt_sync.c" runtime;
    rt_talt "rt_talt.c" runtime;
    rt_tube "rt_tube.c" runtime;
    rt_tube_ends "rt_tube_ends.c" runtime;
    rt_wait "rt_wait.c" runtime;
    tls "tls.cc" twice;
    uth_errors "uth_errors.c" once;
    uth_figure1 "uth_figure1.c" once;
    uth_many "uth_many.c" once;
    uth_methods "uth_methods.c" once;
    uth_vps "uth_vps.c" once;
}

/// For some questions about threads, the shared library answers for workers in place of the C
/// library.
#[test]
fn workers_know_their_stacks_by_the_shared_library() {
    let Some(tools) = tools() else { return };
    let (folder, program) = (
        tools.library.parent().unwrap(),
        tools.out.join("rt_stack-shared"),
    );
    let mut command = compiler_command("CC");
    command
        .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-pthread"])
        .args(WARNINGS)
        .arg("-I")
        .arg(&tools.include);
    command
        .arg("-o")
        .arg(&program)
        .arg(manifest_dir().join("tests/c/rt_stack.c"))
        .arg("-L")
        .arg(folder)
        .arg("-lumcg");
    command.arg(format!("-Wl,-rpath,{}", folder.display()));
    finish(command).unwrap_or_else(|why| panic!("{why}"));
    for environment in [&[][..], &[("UMCG_NO_OWN_STORAGE", "1")]] {
        run(&program, environment, TIMEOUT).unwrap_or_else(|why| panic!("{why}"));
    }
}

/// Programs compiled with a sanitizer, and a library that knows nothing of it.
mod sanitized {
    use super::*;

    /// A program; none, with a message, where the compiler has no such sanitizer.
    fn compiled(file: &str, sanitizer: &str) -> Option<PathBuf> {
        let tools = tools()?;
        let compiler = if file.ends_with(".cc") { "CXX" } else { "CC" };
        let empty = tools.out.join(format!("empty-{sanitizer}.c"));
        std::fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
        if let Err(why) = tools.compile_with(&empty, "CC", sanitizer) {
            eprintln!("SKIPPED: no {sanitizer} sanitizer: {why}");
            return None;
        }
        let program = tools.compile_with(
            &manifest_dir().join("tests/c").join(file),
            compiler,
            sanitizer,
        );
        Some(program.unwrap_or_else(|why| panic!("{file}: {why}")))
    }

    /// Full workers are threads then, so the sanitizer knows everything about them that it asks
    /// for. Leaks are not checked: descriptors stay.
    fn address(file: &str) {
        for after_return in ["0", "1"] {
            let Some(program) = compiled(file, "address") else {
                return;
            };
            let options = format!("detect_leaks=0:detect_stack_use_after_return={after_return}");
            run(&program, &[("ASAN_OPTIONS", &options)], TIMEOUT)
                .unwrap_or_else(|why| panic!("{file}: {why}"));
        }
    }

    #[test]
    fn exceptions_are_thrown_under_the_address_sanitizer() {
        address("rt_exception.cc");
    }

    #[test]
    fn aborted_workers_unwind_under_the_address_sanitizer() {
        address("rt_cancel.c");
    }

    #[test]
    fn the_thread_sanitizer_is_refused() {
        let Some(program) = compiled("rt_sem.c", "thread") else {
            return;
        };
        let why = run(&program, &[], TIMEOUT).unwrap_err();
        assert!(
            why.contains("UMCG_TSAN=1") && why.contains("umcg_tsan"),
            "{why}"
        );
        run(
            &program,
            &[
                ("UMCG_TSAN", "1"),
                ("TSAN_OPTIONS", "exitcode=0:report_bugs=0"),
            ],
            TIMEOUT,
        )
        .unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn every_program_is_listed() {
    for file in sources(&manifest_dir().join("tests/c")) {
        assert!(
            FILES.contains(&file.as_str()),
            "{file} is not in the list of programs"
        );
    }
}

#[test]
fn examples() {
    let Some(tools) = tools() else { return };
    let dir = manifest_dir().join("../examples/c");
    for file in sources(&dir) {
        let result = tools
            .compile(&dir.join(&file))
            .and_then(|program| run(&program, &[], TIMEOUT).map(drop));
        result.unwrap_or_else(|why| panic!("{file}: {why}"));
    }
}

#[test]
fn headers_compile_alone() {
    let Some(tools) = tools() else { return };
    for header in [
        "umcg.h",
        "umcg/futex.h",
        "umcg/nt.h",
        "umcg/rt.h",
        "umcg/segment.h",
        "umcg/select.h",
        "umcg/sem.h",
        "umcg/sync.h",
        "umcg/tube.h",
        "uth.h",
    ] {
        for (compiler, language, standard) in [
            ("CC", "c", "c99"),
            ("CC", "c", "c11"),
            ("CXX", "c++", "c++17"),
        ] {
            let mut command = compiler_command(compiler);
            command
                .args(WARNINGS)
                .arg(format!("-std={standard}"))
                .args(["-fsyntax-only", "-x", language]);
            command.arg(tools.include.join(header));
            finish(command).unwrap_or_else(|why| panic!("{header} as {standard}: {why}"));
        }
    }
}

/// The reports of this file for a program that fails: it is shown one of each kind.
#[test]
fn failures_are_noticed() {
    let Some(tools) = tools() else { return };
    let limited = |name: &str, body: &str, limit| {
        let source = tools.out.join(name);
        std::fs::write(
            &source,
            format!("#include \"check.h\"\nint main(void) {{ {body} return check_done(); }}\n"),
        )
        .unwrap();
        tools
            .compile(&source)
            .and_then(|program| run(&program, &[], limit))
    };
    let outcome = |name: &str, body: &str| limited(name, body, TIMEOUT);
    assert!(outcome("good.c", r#"check_start(9); CHECK("one", 1);"#).is_ok());
    assert!(
        outcome("wrong.c", r#"check_start(9); CHECK("one", 0);"#)
            .unwrap_err()
            .contains("FAILED: one")
    );
    assert!(
        outcome("errno.c", r#"FAILS("row", EINVAL, (errno = EPERM, -1));"#)
            .unwrap_err()
            .contains("not permitted")
    );
    assert!(
        outcome("hung.c", "check_start(9); alarm(1); for (;;) pause();")
            .unwrap_err()
            .contains("watchdog")
    );
    let deaf = limited("deaf.c", "for (;;) pause();", Duration::from_secs(1));
    assert!(deaf.unwrap_err().contains("took longer"));
    assert!(
        outcome("crash.c", "check_start(9); abort();")
            .unwrap_err()
            .contains("signal")
    );
    assert!(
        outcome("warned.c", "int unused; check_start(9);")
            .unwrap_err()
            .contains("unused")
    );
}

fn check(file: &str, environment: &[(&str, &str)]) {
    check_as(
        file,
        if file.ends_with(".cc") { "CXX" } else { "CC" },
        environment,
    );
}

fn check_as(file: &str, compiler: &str, environment: &[(&str, &str)]) {
    let Some(tools) = tools() else { return };
    let source = manifest_dir().join("tests/c").join(file);
    let expected = std::fs::read_to_string(source.with_extension("expected")).ok();
    let result = tools
        .compile_as(&source, compiler)
        .and_then(|program| run(&program, environment, TIMEOUT))
        .and_then(|output| match expected {
            Some(pattern) if !matches(&pattern, &output) => Err(format!(
                "the output should be like\n{pattern}\nbut is\n{output}"
            )),
            _ => Ok(()),
        });
    result.unwrap_or_else(|why| panic!("{file}: {why}"));
}

/// Whether a program was compiled, and the compiler's messages if not.
type Made = OnceLock<Result<(), String>>;

/// The tools that compile a program; none without a C and a C++ compiler.
struct Tools {
    include: PathBuf,
    library: PathBuf,
    out: PathBuf,
    /// The programs that are compiled, or being compiled, by their paths.
    programs: Mutex<HashMap<PathBuf, Arc<Made>>>,
}

fn tools() -> Option<&'static Tools> {
    static TOOLS: OnceLock<Option<Tools>> = OnceLock::new();
    TOOLS.get_or_init(find_tools).as_ref()
}

fn find_tools() -> Option<Tools> {
    for variable in ["CC", "CXX"] {
        if compiler_command(variable)
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_err()
        {
            eprintln!("SKIPPED: no C and C++ compiler, so no C program was tested");
            return None;
        }
    }
    // target/PROFILE/deps/this-test
    let profile_dir = std::env::current_exe()
        .unwrap()
        .ancestors()
        .nth(2)
        .unwrap()
        .to_path_buf();
    let out = profile_dir.join("c-tests");
    // Nothing of an earlier run.
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&out).unwrap();
    let mut build = Command::new(manifest_dir().join("build-lib.sh"));
    build.env("CARGO_TARGET_DIR", profile_dir.parent().unwrap());
    if profile_dir.ends_with("debug") {
        build.arg("--debug");
    }
    finish(build).expect("libumcg does not build");
    Some(Tools {
        include: manifest_dir().join("include"),
        library: profile_dir.join("libumcg.a"),
        out,
        programs: Mutex::default(),
    })
}

impl Tools {
    /// Compiles a source file and links it with libumcg.a.
    fn compile(&self, source: &Path) -> Result<PathBuf, String> {
        self.compile_as(
            source,
            if source.extension().unwrap() == "cc" {
                "CXX"
            } else {
                "CC"
            },
        )
    }

    /// Likewise, with the compiler of one language.
    fn compile_as(&self, source: &Path, compiler: &str) -> Result<PathBuf, String> {
        self.compile_with(source, compiler, "")
    }

    /// Likewise, with a sanitizer if it is not empty.
    fn compile_with(
        &self,
        source: &Path,
        compiler: &str,
        sanitizer: &str,
    ) -> Result<PathBuf, String> {
        let mut program = self.out.join(source.file_stem().unwrap()).into_os_string();
        let (language, standard) = if compiler == "CXX" {
            ("c++", "-std=c++17")
        } else {
            ("c", "-std=c11")
        };
        program.push(format!("-{language}{sanitizer}"));
        let program = PathBuf::from(program);
        let made = Arc::clone(
            self.programs
                .lock()
                .unwrap()
                .entry(program.clone())
                .or_default(),
        );
        let make = || {
            let mut command = compiler_command(compiler);
            command
                .args([standard, "-D_GNU_SOURCE", "-O2", "-g", "-pthread"])
                .args(WARNINGS);
            if !sanitizer.is_empty() {
                command.arg(format!("-fsanitize={sanitizer}"));
            }
            command
                .arg("-I")
                .arg(&self.include)
                .arg("-I")
                .arg(manifest_dir().join("tests/c"));
            command
                .arg("-o")
                .arg(&program)
                .args(["-x", language])
                .arg(source)
                .args(["-x", "none"])
                .arg(&self.library)
                .args(["-lgcc_s", "-ldl", "-lm"]);
            finish(command)
        };
        made.get_or_init(make).clone().map(|()| program)
    }
}

fn manifest_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn compiler_command(variable: &str) -> Command {
    let default = if variable == "CC" { "cc" } else { "c++" };
    Command::new(std::env::var(variable).unwrap_or(default.to_string()))
}

fn sources(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.ends_with(".c") || name.ends_with(".cc"))
        .collect()
}

/// Runs a command that must succeed.
fn finish(mut command: Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

/// The right to run a program: two at a time have it.
struct Turn;

static RUNNING: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

impl Turn {
    fn take() -> Turn {
        let running = RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner);
        *RUNNING
            .1
            .wait_while(running, |running| *running >= 2)
            .unwrap_or_else(PoisonError::into_inner) += 1;
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        RUNNING.1.notify_one();
    }
}

/// Runs a program. Returns its standard output.
fn run(program: &Path, environment: &[(&str, &str)], timeout: Duration) -> Result<String, String> {
    let _turn = Turn::take();
    let caller = std::thread::current().id();
    let files = ["out", "err"].map(|kind| program.with_extension(format!("{caller:?}.{kind}.txt")));
    let [out, err] = files
        .each_ref()
        .map(|file| std::fs::File::create(file).unwrap());
    let mut command = Command::new(program);
    command
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let began = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if began.elapsed() > timeout => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let [out, err] =
        files.map(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned());
    match status {
        None => Err(format!("took longer than {timeout:?}\n{out}{err}")),
        Some(status) if status.success() => Ok(out),
        Some(status) if status.code() == Some(77) => {
            eprintln!("SKIPPED: {}: {out}", program.display());
            Ok(out)
        }
        Some(status) => Err(format!("{status}\n{out}{err}")),
    }
}

/// Whether each line of `text` is like the line of `pattern` with the same number, `*` standing for
/// anything.
fn matches(pattern: &str, text: &str) -> bool {
    fn like(pattern: &str, text: &str) -> bool {
        match pattern.split_once('*') {
            None => pattern == text,
            Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
                (0..=rest.len()).any(|at| rest.is_char_boundary(at) && like(after, &rest[at..]))
            }),
        }
    }
    pattern.lines().count() == text.lines().count()
        && pattern
            .lines()
            .zip(text.lines())
            .all(|(pattern, text)| like(pattern, text))
}
