//! Pictures of a report as people see it: at a desk in both colour schemes, on a phone, on paper.
//! By hand only: it needs a Chromium, and the pictures are for eyes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

/// How wide a window can't be for a headless browser; a phone is therefore shown in a frame.
const PHONE_WIDTH: u32 = 390;

/// Options of `screenshots`.
#[derive(Args)]
pub(crate) struct Options {
    /// The page that `hermod-bench report` drew
    page: PathBuf,
    /// Where the pictures go
    #[arg(long, default_value = "target/screenshots")]
    out: PathBuf,
    /// Program of the browser
    #[arg(long, default_value = "chromium")]
    browser: String,
    /// Pixels of the page's height that are shown
    #[arg(long, default_value_t = 8000)]
    height: u32,
}

/// Takes the pictures.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let out = root.join(&options.out);
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let page = fs::canonicalize(&options.page).map_err(|error| format!("{}: {error}", options.page.display()))?;
    let frame = out.join("phone.html");
    let inside = format!(
        "<!DOCTYPE html><title>phone</title><body style=margin:0><iframe src=\"file://{}\" width={PHONE_WIDTH} height={} style=border:0>",
        page.display(),
        options.height
    );
    fs::write(&frame, inside).map_err(|error| format!("{}: {error}", frame.display()))?;
    let dark = "--blink-settings=preferredColorScheme=0";
    let shots = [("light", &page, 1280, None), ("dark", &page, 1280, Some(dark)), ("phone", &frame, 500, None)];
    for (name, page, width, scheme) in shots {
        let picture = out.join(format!("{name}.png"));
        let size = format!("--window-size={width},{}", options.height);
        take(options, page, &format!("--screenshot={}", picture.display()), scheme.into_iter().chain([size.as_str()]))?;
        println!("{}", picture.display());
    }
    let paper = out.join("paper.pdf");
    take(options, &page, &format!("--print-to-pdf={}", paper.display()), std::iter::once("--no-pdf-header-footer"))?;
    println!("{}", paper.display());
    Ok(())
}

/// Runs the browser once, without a sandbox: it sees nothing but a page of our own.
fn take<'a>(options: &Options, page: &Path, what: &str, more: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let done = Command::new(&options.browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--allow-file-access-from-files",
            what,
        ])
        .args(more)
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}; install a Chromium or name yours with --browser", options.browser))?;
    if done.success() { Ok(()) } else { Err(format!("{} ended with {done}", options.browser)) }
}
