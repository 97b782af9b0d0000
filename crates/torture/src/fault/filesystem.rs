//! The disk of [`super::disk`] as a file system of Linux, through FUSE and without its library.
//! Nothing is cached by the kernel, so what the disk knows is what the broker did.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::Stop;
use super::disk::{Disk, Kind, Node, Trouble};

const BLOCK: u32 = 4096;
/// What the file system says that it has room for, in blocks.
const BLOCKS: u64 = 65_536;
/// Nothing that the kernel was told may be remembered.
const FORGET: Duration = Duration::ZERO;
/// The file type in a mode, and a socket's.
const TYPE_BITS: u32 = 0o170_000;
const SOCKET_BITS: u32 = 0o140_000;

/// A mounted disk. Dropping it unmounts it.
pub(super) struct MountedDisk {
    disk: Arc<Mutex<Disk>>,
    session: Option<BackgroundSession>,
}

impl MountedDisk {
    /// Mounts an empty disk, each of whose flushes takes at least so long.
    pub(super) fn mount(at: &Path, flush_takes: Duration) -> Result<Self, Stop> {
        let mut disk = Disk::new();
        disk.flush_takes = flush_takes;
        Self::of(at, disk)
    }

    /// Mounts this disk.
    pub(super) fn of(at: &Path, disk: Disk) -> Result<Self, Stop> {
        std::fs::create_dir_all(at).map_err(|error| format!("cannot create {}: {error}", at.display()))?;
        let disk = Arc::new(Mutex::new(disk));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("hermod-fault".to_owned())];
        let view = View { disk: Arc::clone(&disk) };
        let session = fuser::spawn_mount(view, at, &config);
        let session = session.map_err(|error| Stop::Skipped(format!("cannot mount a FUSE file system: {error}")))?;
        Ok(Self { disk, session: Some(session) })
    }

    /// The disk itself.
    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            eprintln!("a disk stays mounted: {error}");
        }
    }
}

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

struct View {
    disk: Arc<Mutex<Disk>>,
}

impl View {
    /// The disk, unless it is gone.
    fn disk(&self) -> Result<MutexGuard<'_, Disk>, Errno> {
        let disk = lock(&self.disk);
        if disk.trouble == Trouble::Gone { Err(Errno::EIO) } else { Ok(disk) }
    }

    fn lookup(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let disk = self.disk()?;
        let number = disk.find(parent.0, name).ok_or(Errno::ENOENT)?;
        disk.node(number).map(|node| attributes(number, node)).ok_or(Errno::ENOENT)
    }

    fn make(&self, parent: INodeNo, name: &OsStr, kind: Kind, mode: u32) -> Result<FileAttr, Errno> {
        let mut disk = self.disk()?;
        let number = disk.make(parent.0, name, kind, (mode & 0o777) as u16).ok_or(Errno::ENOENT)?;
        disk.node(number).map(|node| attributes(number, node)).ok_or(Errno::ENOENT)
    }

    fn flush(&self, number: INodeNo) -> Result<(), Errno> {
        let takes = self.disk()?.flush_takes;
        std::thread::sleep(takes);
        if self.disk()?.flush(number.0) { Ok(()) } else { Err(Errno::EIO) }
    }

    fn unlink(&self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        if self.disk()?.unlink(parent.0, name) { Ok(()) } else { Err(Errno::ENOENT) }
    }
}

fn attributes(number: u64, node: &Node) -> FileAttr {
    let kind = match node.kind {
        Kind::File => FileType::RegularFile,
        Kind::Folder => FileType::Directory,
        Kind::Socket => FileType::Socket,
    };
    let size = node.bytes.len() as u64;
    let (atime, mtime, ctime, crtime) = (UNIX_EPOCH, UNIX_EPOCH, UNIX_EPOCH, UNIX_EPOCH);
    let (ino, perm, blocks) = (INodeNo(number), node.mode, size.div_ceil(512));
    FileAttr {
        ino,
        size,
        blocks,
        atime,
        mtime,
        ctime,
        crtime,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

fn answer(reply: ReplyEmpty, outcome: Result<(), Errno>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn answer_entry(reply: ReplyEntry, outcome: Result<FileAttr, Errno>) {
    match outcome {
        Ok(attributes) => reply.entry(&FORGET, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for View {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.lookup(parent, name));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.disk().map(|disk| disk.node(ino.0).map(|node| attributes(ino.0, node))) {
            Ok(Some(attributes)) => reply.attr(&FORGET, &attributes),
            Ok(None) => reply.error(Errno::ENOENT),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = match self.disk() {
            Ok(disk) => disk,
            Err(error) => return reply.error(error),
        };
        if let Some(size) = size {
            disk.resize(ino.0, size);
        }
        match disk.node_mut(ino.0) {
            Some(node) => {
                node.mode = mode.map_or(node.mode, |mode| (mode & 0o777) as u16);
                reply.attr(&FORGET, &attributes(ino.0, node));
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn mknod(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: u32, reply: ReplyEntry) {
        let kind = if mode & TYPE_BITS == SOCKET_BITS { Kind::Socket } else { Kind::File };
        answer_entry(reply, self.make(parent, name, kind, mode));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        answer_entry(reply, self.make(parent, name, Kind::Folder, mode));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.unlink(parent, name));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.disk() {
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.disk() {
            Ok(disk) => match disk.node(ino.0) {
                Some(node) => {
                    let from = node.bytes.len().min(offset as usize);
                    reply.data(&node.bytes[from..node.bytes.len().min(from + size as usize)]);
                }
                None => reply.error(Errno::ENOENT),
            },
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.disk().map(|mut disk| disk.write(ino.0, offset, data)) {
            Ok(Some(count)) => reply.written(count as u32),
            Ok(None) => reply.error(Errno::ENOENT),
            Err(error) => reply.error(error),
        }
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, View::flush(self, ino));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, View::flush(self, ino));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let disk = match self.disk() {
            Ok(disk) => disk,
            Err(error) => return reply.error(error),
        };
        let Some(folder) = disk.node(ino.0) else { return reply.error(Errno::ENOENT) };
        for (at, (name, number)) in folder.names.iter().enumerate().skip(offset as usize) {
            let Some(node) = disk.node(*number) else { continue };
            if reply.add(INodeNo(*number), at as u64 + 1, attributes(*number, node).kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS / 2, BLOCKS / 2, 1000, 1000, BLOCK, 255, BLOCK);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        match self.make(parent, name, Kind::File, mode) {
            Ok(attributes) => {
                reply.created(&FORGET, &attributes, Generation(0), FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
            }
            Err(error) => reply.error(error),
        }
    }
}
