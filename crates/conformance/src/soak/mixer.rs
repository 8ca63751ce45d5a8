//! One device with the suite's kernels, ready to launch over the soak's buffers, and the same on the host.

use rig::{Buffer, Device, Point, RefSpec, Result, Run, read, write};

use crate::suite::kit::{launch, params_of, spun};

/// The elements of the load's buffers.
pub const LEN: usize = 1 << 10;

/// The [suite](crate::suite)'s kernels for a device, and how it launches them over [`LEN`] elements.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// An image that holds them.
    pub image: Vec<u8>,
    /// How many groups have a thread for each element.
    pub groups: [u32; 3],
    /// The threads of a group.
    pub threads: [u32; 3],
    /// How many rounds of `spin` over the elements take some ten milliseconds.
    pub spin_rounds: u32,
}

/// A device, and a run of each kernel on it.
pub(super) struct Mixer {
    pub device: Device,
    add: Run,
    scale: Run,
    iota: Run,
    spin: Run,
}

impl Mixer {
    pub fn new(device: &Device, kernels: &Kernels) -> Result<Mixer> {
        let image = device.load(&kernels.image)?;
        // The refs, and then the number of elements.
        let run = |name: &str, refs: &[RefSpec]| -> Result<Run> {
            let (function, at) = (image.function(name)?, 8 * refs.len());
            let builder = device.submission().launch(&function, refs.iter().copied());
            let mut run = builder.params(params_of(&function, at + 8)).make()?.take();
            run.part(0).groups(kernels.groups).threads(kernels.threads).set(at, LEN as u32);
            Ok(run)
        };
        Ok(Mixer {
            add: run("add", &[read(0), write(1)])?,
            scale: run("scale", &[write(0)])?,
            iota: run("iota", &[write(0)])?,
            spin: run("spin", &[write(0)])?,
            device: device.clone(),
        })
    }

    /// A buffer of the load's length, of unknown elements.
    pub fn buffer(&self) -> Result<Buffer> {
        self.device.buffer(4 * LEN)
    }

    pub fn add(&mut self, x: &Buffer, y: &Buffer) -> Result<Point> {
        launch(&mut self.add, &[x, y])
    }

    pub fn scale(&mut self, y: &Buffer, a: f32) -> Result<Point> {
        self.scale.part(0).set(12, a);
        launch(&mut self.scale, &[y])
    }

    pub fn iota(&mut self, y: &Buffer, start: u32) -> Result<Point> {
        self.iota.part(0).set(12, start);
        launch(&mut self.iota, &[y])
    }

    pub fn spin(&mut self, y: &Buffer, rounds: u32) -> Result<Point> {
        self.spin.part(0).set(12, rounds);
        launch(&mut self.spin, &[y])
    }
}

/// What a buffer should hold.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Due(pub Vec<u32>);

impl Due {
    pub fn iota(start: u32) -> Due {
        Due((0..LEN as u32).map(|at| start.wrapping_add(at)).collect())
    }

    pub fn fill(&mut self, word: u32) {
        self.0.fill(word);
    }

    pub fn spin(&mut self, rounds: u32) {
        self.0.iter_mut().for_each(|word| *word = spun(*word, rounds));
    }

    pub fn add(&mut self, x: &Due) {
        for (y, x) in self.0.iter_mut().zip(&x.0) {
            *y = (f32::from_bits(*y) + f32::from_bits(*x)).to_bits();
        }
    }

    pub fn scale(&mut self, a: f32) {
        self.0.iter_mut().for_each(|y| *y = (f32::from_bits(*y) * a).to_bits());
    }

    /// Sees that a buffer holds it.
    #[track_caller]
    pub fn is_in(&self, buffer: &Buffer) {
        let found = buffer.read(|found: &[u32]| found.iter().zip(&self.0).position(|(found, due)| found != due));
        let found = found.unwrap_or_else(|why| panic!("the read of a buffer of {}: {why}", buffer.device()));
        assert_eq!(found, None, "the first element that is not what was due on {}", buffer.device());
    }
}
