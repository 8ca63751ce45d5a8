//! The Mandelbrot set on the cores of this machine, as a PNG.
//!
//! `cargo run --release --example mandelbrot -- mandelbrot.png`: 960 by 640 pixels, smooth in colour. Groups of whole rows
//! differ much in work, and the cores take them as they come free.
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use std::f32::consts::TAU;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rig::{Buffer, write};
use rig_host::{Group, Kernels, Params};

const WIDTH: usize = 960;
const HEIGHT: usize = 640;
/// The rows of a group.
const ROWS: usize = 4;
/// Past this a point counts as of the set.
const STEPS_MAX: u32 = 500;
/// A point outside this circle never comes back; a larger circle than 2 makes the colours smoother.
const ESCAPE: f32 = 16.0;

/// Where the kernel finds what, in its parameters.
const PIXELS: usize = 0;
const CENTRE: usize = 8;
const PIXEL_SIZE: usize = 16;
const PARAMS_BYTES: usize = 24;

/// One thread a pixel: red, green and blue, a byte each.
fn mandelbrot(params: &Params<'_>, at: &Group) {
    let centre: [f32; 2] = params.get(CENTRE);
    let size: f32 = params.get(PIXEL_SIZE);
    let first = at.group[0] as usize * ROWS;
    let rows = ROWS.min(HEIGHT - first);
    // SAFETY: the groups take rows of their own, and the buffer holds all of them.
    let pixels: &mut [[u8; 3]] = unsafe { params.slice_mut(PIXELS, first * WIDTH, rows * WIDTH) };
    for (index, pixel) in pixels.iter_mut().enumerate() {
        let (column, row) = (index % WIDTH, first + index / WIDTH);
        let x = centre[0] + size * (column as f32 - WIDTH as f32 / 2.0);
        let y = centre[1] + size * (row as f32 - HEIGHT as f32 / 2.0);
        *pixel = steps(x, y).map_or([0; 3], colour);
    }
}

/// After how many steps z = z z + c leaves the circle, as a real number; `None` if it stays.
fn steps(x: f32, y: f32) -> Option<f32> {
    let (mut a, mut b) = (0.0, 0.0);
    for step in 0..STEPS_MAX {
        let (aa, bb): (f32, f32) = (a * a, b * b);
        if aa + bb > ESCAPE * ESCAPE {
            // How far the last step overshot the circle, between 0 and 1 in steps.
            return Some(step as f32 + 1.0 - ((aa + bb).log2() / (2.0 * ESCAPE.log2())).log2());
        }
        (a, b) = (aa - bb + x, 2.0 * a * b + y);
    }
    None
}

/// A cycle through deep blue, white and amber, slower the further out it gets.
fn colour(steps: f32) -> [u8; 3] {
    let turn = TAU * steps.max(0.0).sqrt() * 0.16;
    [3.1, 2.7, 2.0].map(|phase| (127.5 - 127.5 * (turn + phase - 2.6).cos()) as u8)
}

fn save(path: &Path, pixels: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("mandelbrot.png"), PathBuf::from);
    let device = rig::open(rig_host::cores())?;
    let kernels = Kernels::new().group("mandelbrot", PARAMS_BYTES, mandelbrot);
    let mandelbrot = device.load(&kernels.image())?.function("mandelbrot")?;
    let pixels: Buffer = device.buffer(3 * WIDTH * HEIGHT)?;

    let mut run = device.submission().launch(&mandelbrot, [write(0)]).make()?.take();
    run.part(0)
        .groups([HEIGHT.div_ceil(ROWS) as u32, 1, 1])
        .threads([WIDTH as u32, ROWS as u32, 1])
        .set(CENTRE, [-0.7_f32, 0.0])
        .set(PIXEL_SIZE, 3.5 / WIDTH as f32);
    let start = Instant::now();
    // SAFETY: the kernel writes the pixels of its rows in slot 0, and nothing else.
    let point = unsafe { run.launch(&[&pixels])? };
    point.wait()?;
    println!("{WIDTH} x {HEIGHT} pixels on {device} in {:.1?}", start.elapsed());

    // Straight from the device's memory to the encoder.
    pixels.read(|pixels: &[u8]| save(&path, pixels))??;
    println!("wrote {}", path.display());
    Ok(())
}
