//! Host memory: a device works in memory that the program already has, with no copy in and none out.
//!
//! Here it is a file, mapped into the program's memory. The device reads and writes the file's pages where they are, and
//! when no work can use them any more, and not before, rig drops their owner, which closes the file.
//!
//! `cargo run --release --example host_memory`
#![expect(unsafe_code, reason = "an owner promises what rig cannot check, and a launch runs a kernel")]

use std::fs::OpenOptions;
use std::path::Path;
use std::ptr::NonNull;

use memmap2::MmapMut;
use rig::{Buffer, HostMemory, HostPages, write};
use rig_host::{Group, Kernels, Params};

/// The bytes that a group works on.
const CHUNK: usize = 4096;

/// Turns letters into capitals.
fn shout(params: &Params<'_>, at: &Group) {
    // SAFETY: the launch has a group for each chunk of slot 0, and no other group touches this one's.
    let text: &mut [u8] = unsafe { params.slice_mut(0, at.group[0] as usize * CHUNK, CHUNK) };
    text.make_ascii_uppercase();
}

/// A file's pages. Dropping it closes the file.
struct File(MmapMut);

impl File {
    fn open(path: &Path) -> std::io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        // SAFETY: the file is in a folder of this program's own, which no other process looks into.
        Ok(File(unsafe { MmapMut::map_mut(&file)? }))
    }
}

// SAFETY: a mapping starts a page and stays until it is dropped, wherever it is moved. Its bytes are the file's, all of them
// initialised; the rest of the last page is zero. Only this value leads to them, and whoever wraps it owns it.
unsafe impl HostPages for File {
    fn pages(&mut self) -> NonNull<[u8]> {
        NonNull::from(&mut *self.0)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        println!("the file is closed");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("rig-host-memory-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("poem.txt");
    std::fs::write(&path, "a device works where the bytes are\n".repeat(CHUNK))?;

    let device = rig::open(rig_host::cores())?;
    let shout = device.load(&Kernels::new().group("shout", 8, shout).image())?.function("shout")?;
    let mut run = device.submission().launch(&shout, [write(0)]).make()?.take();

    let before = device.allocated();
    let text = Buffer::from_host(&device, File::open(&path)?)?;
    println!("{} bytes wrapped, {} of the device's budget used", text.len(), device.allocated() - before);
    run.part(0).groups([(text.len() / CHUNK) as u32, 1, 1]);
    // SAFETY: the kernel reads and writes the chunks of slot 0, which make up all of it, and nothing else.
    let point = unsafe { run.launch(&[&text])? };
    // The buffer goes while the device works in it. The file stays open for as long as it must.
    drop(text);
    println!("the buffer is dropped");
    point.wait()?;
    device.reclaim();
    println!("the file reads: {}", std::fs::read_to_string(&path)?.lines().last().unwrap_or_default());
    std::fs::remove_dir_all(&folder)?;

    // Memory with no file behind it.
    let mut memory = HostMemory::zeroed(1 << 20)?;
    memory[0] = b'r';
    let start = memory.as_ptr();
    let wrapped = Buffer::from_host(&device, memory)?;
    let same = wrapped.read(|bytes: &[u8]| bytes.as_ptr() == start && bytes[0] == b'r')?;
    println!("a megabyte of the program's own, in place: {same}");
    Ok(())
}
