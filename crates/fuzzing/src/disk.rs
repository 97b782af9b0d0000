//! A directory of files in memory, so that recovery can run a thousand times per second.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use journal::{Disk, DiskFile, Lock};
use parking_lot::Mutex;

/// Free bytes that the disk reports.
const FREE: u64 = 1 << 40;
/// No file grows beyond this, so that a damaged length can't take much memory.
const MAX_FILE: u64 = 16 << 20;

type Content = Arc<Mutex<Vec<u8>>>;

/// The files by name.
#[derive(Default)]
pub(super) struct Files(Mutex<BTreeMap<String, Content>>);

struct Open(Content);

impl Files {
    /// A copy of every file.
    pub(super) fn copy(&self) -> Vec<(String, Vec<u8>)> {
        self.0.lock().iter().map(|(name, content)| (name.clone(), content.lock().clone())).collect()
    }

    /// A disk with these files.
    pub(super) fn with(files: Vec<(String, Vec<u8>)>) -> Self {
        Self(Mutex::new(files.into_iter().map(|(name, content)| (name, Arc::new(Mutex::new(content)))).collect()))
    }
}

impl Disk for Files {
    fn lock(&self) -> io::Result<Option<Lock>> {
        Ok(Some(Box::new(())))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let files = self.0.lock();
        let content = files.get(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Arc::new(Open(content.clone())))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let content = Content::default();
        self.0.lock().insert(name.to_owned(), content.clone());
        Ok(Arc::new(Open(content)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().remove(name).map(drop).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn free(&self) -> io::Result<u64> {
        Ok(FREE)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(FREE)
    }
}

/// `offset` as an index into a file, if a file may be that long.
fn place(offset: u64) -> io::Result<usize> {
    if offset > MAX_FILE {
        return Err(io::Error::from(io::ErrorKind::StorageFull));
    }
    usize::try_from(offset).map_err(io::Error::other)
}

impl DiskFile for Open {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.0.lock();
        let Some(rest) = place(offset).ok().and_then(|start| content.get(start..)) else {
            return Ok(0);
        };
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut content = self.0.lock();
        let (start, end) = (place(offset)?, place(offset.saturating_add(bytes.len() as u64))?);
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }
}
