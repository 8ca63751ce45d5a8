//! A Chromium without a window, where the machine has one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// What came of opening a page.
#[derive(Debug)]
pub struct Opened {
    /// What the script answered.
    pub answer: Value,
    /// The page after it, as HTML.
    pub dom: String,
    /// How it looks then: its pixels, red, green, blue.
    pub pixels: Vec<[u8; 3]>,
}

/// How a page is opened.
#[derive(Clone, Copy)]
pub struct How<'a> {
    /// The end of the address.
    pub hash: &'a str,
    /// The window's width and height.
    pub window: (u32, u32),
    /// Whether the reader likes it dark.
    pub dark: bool,
    /// Run after the page's own scripts, as the body of a function.
    pub script: &'a str,
}

/// The Chromium of this machine; `None` where there is none, which is printed.
fn found() -> Option<&'static str> {
    let runs = |name: &&str| {
        let mut command = Command::new(name);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(runs);
    if browser.is_none() {
        println!("skipped: no Chromium");
    }
    browser
}

/// Opens a page of this HTML; `None` where there is no browser.
pub fn open(html: &str, how: How<'_>) -> Option<Opened> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let browser = found()?;
    let name = format!("rig-page-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("page.html"), asking(html, how.script)).unwrap();
    let opened = opened(browser, &folder, how);
    std::fs::remove_dir_all(&folder).unwrap();
    Some(opened)
}

/// The page with a script behind its own, whose answer it then holds.
fn asking(html: &str, script: &str) -> String {
    let script = format!(
        "<script>\nconst answer = (() => {{ {script} }})();\nconst note = document.createElement('pre');\n\
         note.id = 'answer';\nnote.hidden = true;\nnote.textContent = JSON.stringify(answer);\n\
         document.body.append(note);\n</script>\n</html>"
    );
    html.replace("</html>", &script)
}

fn opened(browser: &str, folder: &Path, how: How<'_>) -> Opened {
    let shot = folder.join("shot.png");
    let mut command = Command::new(browser);
    // Programs in containers have no rights for a sandbox of their own.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update"]);
    // TIMEOUT: what a page does in its first seconds, on a clock that runs as fast as the page is done.
    command.arg("--virtual-time-budget=5000");
    command.arg(format!("--user-data-dir={}", folder.join("browser").display()));
    command.arg(format!("--window-size={},{}", how.window.0, how.window.1));
    command.arg(format!("--blink-settings=preferredColorScheme={}", u32::from(!how.dark)));
    command.arg("--dump-dom").arg(format!("--screenshot={}", shot.display()));
    command.arg(format!("file://{}/page.html{}", folder.display(), how.hash));
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dom = String::from_utf8(output.stdout).unwrap();
    let answer = dom.split_once("<pre id=\"answer\" hidden=\"\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (answer, _) = answer.unwrap_or_else(|| panic!("the script did not come to its end: {dom}"));
    let answer = answer.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Opened { answer: serde_json::from_str(&answer).unwrap(), pixels: pixels(&shot), dom }
}

fn pixels(file: &Path) -> Vec<[u8; 3]> {
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(file).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let samples = info.color_type.samples();
    assert!(samples >= 3 && info.bit_depth == png::BitDepth::Eight, "{info:?}");
    bytes[..info.buffer_size()].chunks_exact(samples).map(|of| [of[0], of[1], of[2]]).collect()
}
