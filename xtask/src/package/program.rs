//! The programs that are packed: built here for each system that this machine has a target and a
//! linker for, and stripped.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Job, Outcome, allow, capture, copy, folder, is_there};

/// A program that is ready to be packed.
pub(super) struct Program {
    /// Stripped.
    pub(super) path: PathBuf,
    /// What it runs on, as in the names of artefacts.
    pub(super) system: String,
    /// It needs no shared library, so it runs on any Linux.
    pub(super) is_static: bool,
}

/// A system that releases are for.
pub(super) struct System {
    pub(super) target: &'static str,
    /// The C compiler for the parts that are written in C, and for linking.
    compiler: &'static str,
}

impl System {
    pub(super) const ALL: &[Self] = &[
        Self { target: "x86_64-unknown-linux-gnu", compiler: "cc" },
        Self { target: "x86_64-unknown-linux-musl", compiler: "musl-gcc" },
        Self { target: "aarch64-unknown-linux-musl", compiler: "aarch64-linux-musl-gcc" },
        Self { target: "x86_64-pc-windows-gnu", compiler: "x86_64-w64-mingw32-gcc" },
        Self { target: "aarch64-apple-darwin", compiler: "oa64-clang" },
    ];

    /// Why nothing is built for it here, if so.
    fn missing(&self) -> Option<String> {
        let no_compiler = || (!is_there(self.compiler)).then(|| format!("there is no {}", self.compiler));
        self.no_library().or_else(no_compiler)
    }

    /// Why nothing can be compiled for it here, if so.
    pub(super) fn no_library(&self) -> Option<String> {
        let library = capture(Command::new("rustc").args(["--print", "target-libdir", "--target", self.target]));
        let is_here = library.is_ok_and(|folder| Path::new(folder.trim()).is_dir());
        (!is_here).then(|| format!("the toolchain has no target {0}; rustup target add {0}", self.target))
    }

    /// What is said of a system that none of the programs is for.
    pub(super) fn left(&self, programs: &[Program]) -> Option<Outcome> {
        let made = programs.iter().any(|program| program.system == self.target);
        (!made).then(|| {
            Outcome::Left(self.target, self.missing().unwrap_or_else(|| "only one program was to be packed".to_owned()))
        })
    }

    fn build(&self, job: &Job) -> Result<PathBuf, String> {
        let built = crate::interop::server::target_folder(&job.root).join(self.target).join("release");
        let variable = self.target.to_uppercase().replace('-', "_");
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--locked", "--package", "hermod", "--target", self.target]);
        cargo.env(format!("CARGO_TARGET_{variable}_LINKER"), self.compiler);
        cargo.env(format!("CC_{}", self.target.replace('-', "_")), self.compiler);
        let status = cargo.current_dir(&job.root).status().map_err(|error| format!("cannot run cargo: {error}"))?;
        if !status.success() {
            return Err(format!("the program does not build for {}", self.target));
        }
        Ok(built.join(if self.target.contains("windows") { "hermod.exe" } else { "hermod" }))
    }
}

/// Builds for all systems that can be built for here.
pub(super) fn build_all(job: &Job) -> Result<Vec<Program>, String> {
    let here = System::ALL.iter().filter(|system| system.missing().is_none());
    here.map(|system| Program::strip(job, &system.build(job)?, system.target)).collect()
}

impl Program {
    /// A program that was built before, for this system.
    pub(super) fn given(job: &Job, path: &Path) -> Result<Self, String> {
        Self::strip(job, path, &super::host()?)
    }

    /// Without the symbols, which are as large as the rest.
    fn strip(job: &Job, built: &Path, system: &str) -> Result<Self, String> {
        let name = built.file_name().unwrap_or_default();
        let path = job.work.join("programs").join(system).join(name);
        folder(path.parent().unwrap_or(&job.work))?;
        copy(built, &path)?;
        let strip = if system.contains("windows") { "x86_64-w64-mingw32-strip" } else { "strip" };
        capture(Command::new(strip).arg("--strip-all").arg(&path))?;
        allow(&path, 0o755)?;
        let is_static = system.contains("linux") && libraries(&path).is_empty();
        Ok(Self { path, system: system.to_owned(), is_static })
    }

    /// Whether it can be started here.
    pub(super) fn runs_here(&self) -> bool {
        cfg!(target_os = "linux") && self.system.starts_with(std::env::consts::ARCH) && self.system.contains("linux")
    }
}

/// The shared libraries that a program is started with, and its loader.
pub(super) fn libraries(program: &Path) -> Vec<PathBuf> {
    // ldd fails for a program without any.
    let listed = capture(Command::new("ldd").arg(program)).unwrap_or_default();
    let words = listed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    words.map(PathBuf::from).filter(|path| path != program).collect()
}
