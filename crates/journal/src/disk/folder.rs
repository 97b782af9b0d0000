//! One folder of the real file system: by an open descriptor on Unix, by its path elsewhere.
//!
//! Invariant: on Unix a name is looked up once, when the folder is opened; whatever happens to that
//! name later, the folder stays the same. On Windows an open file in a folder keeps its volume from
//! being dismounted.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// How a file is opened, always for reading and writing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// It must exist.
    Existing,
    /// It is made if it is missing, and keeps what is in it.
    Keep,
    /// It is made, or emptied.
    Empty,
}

/// Creates the folder at `path` if it is missing, for its owner alone, and makes its name durable.
fn create_folder(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)?;
    }
    #[cfg(unix)]
    flush_above(path)?;
    Ok(())
}

/// Makes the names of a folder and of all folders above it durable, as far as their file system
/// goes. Each name lies in the next folder. Those that were found are no exception: a start that
/// was killed may have made them and not come so far as to flush them.
#[cfg(unix)]
fn flush_above(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    let path = path.canonicalize()?;
    let device = path.metadata()?.dev();
    for above in path.ancestors().skip(1) {
        match above.metadata() {
            Ok(found) if found.dev() == device => {}
            _ => break,
        }
        match File::open(above).and_then(|folder| folder.sync_all()) {
            // What lies above may be closed to this user, or can't be flushed. Its name is then the
            // business of the one who made it.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                ) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

#[cfg(unix)]
pub(super) use by_descriptor::Folder;
#[cfg(not(unix))]
pub(super) use by_path::Folder;

#[cfg(unix)]
mod by_descriptor {
    use rustix::fs::{AtFlags, Dir, FileType, Mode as Permissions, OFlags};

    use super::{File, Mode, Path, PathBuf, create_folder, io};

    const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

    pub(crate) struct Folder(File);

    impl Folder {
        pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
            create_folder(&path)?;
            Ok(Self(File::open(path)?))
        }

        /// The folder `name` in this one, created if it is missing.
        pub(crate) fn folder(&self, name: &str) -> io::Result<Self> {
            match rustix::fs::mkdirat(&self.0, name, Permissions::RWXU) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(Self(rustix::fs::openat(&self.0, name, FOLDER, Permissions::empty())?.into()))
        }

        pub(crate) fn file(&self, name: &str, mode: Mode) -> io::Result<File> {
            plain(name)?;
            let how = match mode {
                Mode::Existing => OFlags::empty(),
                Mode::Keep => OFlags::CREATE,
                Mode::Empty => OFlags::CREATE | OFlags::TRUNC,
            };
            let flags = OFlags::RDWR | OFlags::CLOEXEC | how;
            Ok(rustix::fs::openat(&self.0, name, flags, Permissions::RUSR | Permissions::WUSR)?.into())
        }

        pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
            plain(name)?;
            Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
        }

        /// Names, and whether each is a folder.
        pub(crate) fn list(&self) -> io::Result<Vec<(String, bool)>> {
            let mut names = Vec::new();
            for entry in Dir::read_from(&self.0)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    let is_folder = match entry.file_type() {
                        FileType::Directory => true,
                        // Some file systems do not say.
                        FileType::Unknown => {
                            rustix::fs::openat(&self.0, entry.file_name(), FOLDER, Permissions::empty()).is_ok()
                        }
                        _ => false,
                    };
                    names.push((name, is_folder));
                }
            }
            Ok(names)
        }

        pub(crate) fn sync(&self) -> io::Result<()> {
            self.0.sync_all()
        }

        /// Bytes that are free to this user.
        pub(crate) fn free(&self) -> io::Result<u64> {
            let stat = rustix::fs::fstatvfs(&self.0)?;
            Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
        }

        /// Bytes of the file system.
        pub(crate) fn size(&self) -> io::Result<u64> {
            let stat = rustix::fs::fstatvfs(&self.0)?;
            Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
        }
    }

    fn plain(name: &str) -> io::Result<()> {
        match Path::new(name).file_name() {
            Some(last) if last == name => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is not the name of a file"))),
        }
    }
}

#[cfg(not(unix))]
mod by_path {
    use std::fs::OpenOptions;

    use super::{File, Mode, PathBuf, create_folder, io};

    pub(crate) struct Folder(PathBuf);

    impl Folder {
        pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
            create_folder(&path)?;
            Ok(Self(path))
        }

        pub(crate) fn folder(&self, name: &str) -> io::Result<Self> {
            Self::open(self.0.join(name))
        }

        pub(crate) fn file(&self, name: &str, mode: Mode) -> io::Result<File> {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(mode != Mode::Existing).truncate(mode == Mode::Empty);
            options.open(self.0.join(name))
        }

        pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
            std::fs::remove_file(self.0.join(name))
        }

        pub(crate) fn list(&self) -> io::Result<Vec<(String, bool)>> {
            let entries = std::fs::read_dir(&self.0)?.map(|entry| {
                let entry = entry?;
                Ok((entry.file_name().to_string_lossy().into_owned(), entry.file_type()?.is_dir()))
            });
            entries.collect()
        }

        /// Windows has no way to flush a folder; its file systems journal the names themselves.
        pub(crate) fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        pub(crate) fn free(&self) -> io::Result<u64> {
            fs4::available_space(&self.0)
        }

        pub(crate) fn size(&self) -> io::Result<u64> {
            fs4::total_space(&self.0)
        }
    }
}
