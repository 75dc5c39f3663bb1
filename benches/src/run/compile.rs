//! Builds the bench's own programs, with the compilers of the machine they run on: a program under
//! `umcg run` is one as its user has it, not one that Cargo built.
//!
//! What was built stays in a folder of the user's cache, by a hash of the source, the command and
//! the compiler's version. A new file gets its name when it is complete, so several benches at once
//! do not disturb each other.

use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const COMMON: &str = include_str!("programs/common.h");

/// What a source is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    C,
    Cpp,
    Rust,
    Python,
}

/// A program of the bench.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// Its file's name, whose ending tells the compiler the language too.
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    pub(super) language: Language,
    /// Further options of the compiler.
    pub(super) options: &'static [&'static str],
}

impl Language {
    fn command(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::C => ("cc", &["-O2", "-std=gnu11", "-pthread"]),
            Self::Cpp => ("c++", &["-O2", "-std=c++17", "-pthread"]),
            Self::Rust => ("rustc", &["--edition=2021", "-Copt-level=2"]),
            Self::Python => ("python3", &[]),
        }
    }
}

/// Builds programs, each once.
pub(super) struct Compiler {
    cache: PathBuf,
    /// What the compilers say about themselves, or why they do not.
    versions: HashMap<&'static str, Result<String, String>>,
}

impl Compiler {
    /// Keeps programs in the user's cache, or in the scratch folder if there is none.
    pub(super) fn new(scratch: &Path) -> Result<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let base = variable("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache")))
            .filter(|path| path.is_absolute());
        let wanted = base.map(|base| base.join("umcg").join("bench-run"));
        let cache = wanted
            .filter(|path| make(path).is_ok())
            .unwrap_or_else(|| scratch.join("programs"));
        Self::with(cache)
    }

    fn with(cache: PathBuf) -> Result<Self> {
        make(&cache)?;
        Ok(Self {
            cache,
            versions: HashMap::new(),
        })
    }

    /// The file to start and the arguments before the program's own.
    pub(super) fn program(&mut self, source: &Source) -> Result<(PathBuf, Vec<OsString>)> {
        let (compiler, options) = source.language.command();
        let version = self.version(compiler)?;
        let mut hasher = DefaultHasher::new();
        (COMMON, source.text, source.options, options, version).hash(&mut hasher);
        let stem = source.name.split('.').next().unwrap_or_default();
        let file = self.cache.join(format!("{stem}-{:016x}", hasher.finish()));
        if !file.is_file() {
            self.build(source, &file)
                .with_context(|| format!("{compiler} cannot build it"))?;
        }
        match source.language {
            // The interpreter itself: the first one in the path may be a script that looks for it.
            Language::Python => Ok((interpreter(compiler)?, vec![file.into()])),
            _ => Ok((file, Vec::new())),
        }
    }

    fn version(&mut self, compiler: &'static str) -> Result<String> {
        let ask = || said(Command::new(compiler).arg("--version"));
        self.versions
            .entry(compiler)
            .or_insert_with(|| ask().map_err(|error| format!("{error:#}")))
            .clone()
            .map_err(anyhow::Error::msg)
    }

    fn build(&self, source: &Source, file: &Path) -> Result<()> {
        let (compiler, options) = source.language.command();
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Relaxed));
        let folder = file.with_extension(format!("{process}-{number}"));
        make(&folder)?;
        let (text, new) = (folder.join(source.name), folder.join("program"));
        fs::write(&text, source.text)?;
        fs::write(folder.join("common.h"), COMMON)?;
        let built = if source.language == Language::Python {
            fs::copy(&text, &new).map(drop).map_err(Into::into)
        } else {
            let mut command = Command::new(compiler);
            command.args(options).arg(&text).arg("-o").arg(&new);
            said(command.args(source.options)).map(drop)
        };
        let placed = built.and_then(|()| {
            fs::set_permissions(&new, fs::Permissions::from_mode(0o700))?;
            Ok(fs::rename(&new, file)?)
        });
        fs::remove_dir_all(&folder)?;
        placed
    }
}

/// A folder of this user alone.
fn make(path: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(path)
        .with_context(|| format!("cannot make {}", path.display()))
}

fn interpreter(name: &str) -> Result<PathBuf> {
    let path = said(Command::new(name).args(["-c", "import sys; print(sys.executable)"]))?;
    let path = PathBuf::from(path.trim());
    ensure!(path.is_file(), "{name} does not say where it is");
    Ok(path)
}

/// Runs a command to its end, which must be a good one: its standard output.
fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let is_reason = |line: &&str| line.contains("error") || line.contains("cannot find");
        let line = errors.lines().find(is_reason).or(errors.lines().next());
        bail!("{}", line.unwrap_or("it failed").trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program of this name that is installed. Servers are often where only root looks for them.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| {
            let is_program =
                |data: fs::Metadata| data.is_file() && data.permissions().mode() & 0o111 != 0;
            fs::metadata(file).is_ok_and(is_program)
        })
}

#[cfg(test)]
mod tests {
    use super::super::process::Scratch;
    use super::*;

    const HELLO: Source = Source {
        name: "hello.c",
        text: "#include \"common.h\"\nint main(void) { report(1, 0.5, 2); }\n",
        language: Language::C,
        options: &[],
    };

    #[test]
    fn a_program_is_built_once() {
        let scratch = Scratch::new().unwrap();
        let build = |source| {
            let mut compiler = Compiler::with(scratch.path().join("cache")).unwrap();
            compiler.program(&source).unwrap().0
        };
        let file = build(HELLO);
        let said = said(&mut Command::new(&file)).unwrap();
        assert_eq!(said, "ops 1 seconds 0.500000000 all 2\n");
        let age = fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(build(HELLO), file);
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), age);
        let other = build(Source {
            options: &["-lm"],
            ..HELLO
        });
        assert_ne!(other, file);
        let all = fs::read_dir(scratch.path().join("cache")).unwrap().count();
        assert_eq!(all, 2, "no folder is left");
    }

    #[test]
    fn a_failure_is_the_compilers_first_error() {
        let scratch = Scratch::new().unwrap();
        let mut compiler = Compiler::with(scratch.path().join("cache")).unwrap();
        let mut reason = |text, options| {
            let source = Source {
                text,
                options,
                ..HELLO
            };
            format!("{:#}", compiler.program(&source).unwrap_err())
        };
        let wrong = reason("int main(void) { return nothing; }", &[]);
        assert!(
            wrong.contains("cc cannot build it") && wrong.contains("nothing"),
            "{wrong}"
        );
        let missing = reason("int main(void) { return 0; }", &["-lno-such-library"]);
        assert!(missing.contains("no-such-library"), "{missing}");
        assert_eq!(
            fs::read_dir(scratch.path().join("cache")).unwrap().count(),
            0
        );
    }

    #[test]
    fn programs_are_found_where_they_are_installed() {
        assert!(installed("sh").is_some());
        assert_eq!(installed("no-such-program-anywhere"), None);
    }
}
