//! Renders the manual into the program: each page compressed, in a table that is included by
//! `src/manual.rs`. The checks of the pages are tests of the crate `book`, so that a page that is
//! being written stops no build.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use book::Book;
use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
    let output = std::env::var("OUT_DIR")?;
    for folder in ["manual", "tutorials", "mapping"] {
        println!("cargo::rerun-if-changed={}", docs.join(folder).display());
    }
    let book = Book::read(docs, env!("CARGO_PKG_VERSION")).map_err(|problem| problem.to_string())?;
    let mut table = "&[\n".to_owned();
    for (number, file) in book.files().iter().enumerate() {
        let name = format!("{output}/{number}.gz");
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&file.bytes)?;
        std::fs::write(&name, packed.finish()?)?;
        writeln!(
            table,
            "Document {{ path: {:?}, kind: {:?}, packed: include_bytes!({name:?}) }},",
            file.path, file.kind
        )?;
    }
    Ok(std::fs::write(format!("{output}/manual.rs"), table + "]\n")?)
}
