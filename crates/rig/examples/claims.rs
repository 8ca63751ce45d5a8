//! Claims and donation: an operation that is given its input writes in place, unless somebody else can see the memory.
//!
//! A framework's operations take values and give values. Most inputs are not used again, and then the result may take the
//! input's memory. Nobody has to plan that: `consume` gives the memory away where no other handle, view, borrow or claim
//! sees it, and gives the buffer back where one does.
//!
//! `cargo run --release --example claims`
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use rig::{Device, Run, TypedBuffer, read, write};
use rig_host::{Group, Kernels, Params};

/// The floats in each buffer, and the threads of its groups.
const N: usize = 1 << 20;
const THREADS: usize = 4096;

/// to = from + 1.
fn next(params: &Params<'_>, at: &Group) {
    let first = at.group[0] as usize * THREADS;
    // SAFETY: the launch has a thread for each float of slot 0, which nothing writes.
    let from: &[f32] = unsafe { params.slice(0, first, THREADS) };
    // SAFETY: and one for each of slot 1, another buffer, of which no other group touches these.
    let to: &mut [f32] = unsafe { params.slice_mut(8, first, THREADS) };
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from + 1.0);
}

/// x = x + 1.
fn next_in_place(params: &Params<'_>, at: &Group) {
    // SAFETY: the launch has a thread for each float of slot 0, and no other group touches these.
    let x: &mut [f32] = unsafe { params.slice_mut(0, at.group[0] as usize * THREADS, THREADS) };
    x.iter_mut().for_each(|x| *x += 1.0);
}

/// The operation x + 1 of a device.
struct Next {
    device: Device,
    into: Run,
    in_place: Run,
}

impl Next {
    fn new(device: &Device) -> rig::Result<Next> {
        let kernels = Kernels::new().group("next", 16, next).group("next_in_place", 8, next_in_place);
        let image = device.load(&kernels.image())?;
        let into = device.submission().launch(&image.function("next")?, [read(0), write(1)]).make()?;
        let in_place = device.submission().launch(&image.function("next_in_place")?, [write(0)]).make()?;
        let mut runs = [into.take(), in_place.take()];
        for run in &mut runs {
            run.part(0).groups([(N / THREADS) as u32, 1, 1]).threads([THREADS as u32, 1, 1]);
        }
        let [into, in_place] = runs;
        Ok(Next { device: device.clone(), into, in_place })
    }

    /// x + 1, in x's own memory where nobody else sees it, and whether it was.
    fn of(&mut self, x: TypedBuffer<f32>) -> rig::Result<(TypedBuffer<f32>, bool)> {
        match x.consume() {
            Ok(x) => {
                // SAFETY: the kernel reads and writes the N floats of slot 0, and nothing else.
                unsafe { self.in_place.launch(&[&x])? };
                Ok((x, true))
            }
            Err(x) => {
                let to = self.device.typed(N)?;
                // SAFETY: the kernel reads the N floats of slot 0 and writes the N of slot 1, and nothing else.
                unsafe { self.into.launch(&[&x, &to])? };
                Ok((to, false))
            }
        }
    }
}

fn main() -> rig::Result<()> {
    let device = rig::open(rig_host::cores())?;
    let mut next = Next::new(&device)?;

    // A chain of operations whose inputs nobody keeps: not one more buffer, and no wait between them.
    let mut x = device.from_slice(&vec![0.0f32; N])?;
    let before = device.allocated();
    let mut in_place = 0;
    for _ in 0..100 {
        let (result, reused) = next.of(x)?;
        (x, in_place) = (result, in_place + u32::from(reused));
    }
    println!("100 operations, {in_place} in place, {} bytes more", device.allocated() - before);

    // What somebody else can see is never written: the operation makes its own.
    let view = x.view(0..4)?;
    let (y, in_place) = next.of(x)?;
    println!(
        "with a view in the way: in place: {in_place}, x = {:?}, y = {:?}",
        view.to_vec()?,
        y.view(0..4)?.to_vec()?
    );

    // A claim does the same and reads nothing, such as that of a cache that may hand the value out again.
    let claim = y.claim();
    let (z, in_place) = next.of(y)?;
    println!("with a claim in the way: in place: {in_place}");
    drop(claim);
    let (z, in_place) = next.of(z)?;
    println!("with nobody in the way: in place: {in_place}, z[0] = {}", z.read(|z| z[0])?);
    Ok(())
}
