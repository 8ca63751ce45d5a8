//! rig, on the host's cores.

use rig::{Buffer, Device, Point, Run, read, write};
use rig_host::{Group, Kernels, Params};

use crate::peer::{ALLOCATION, GROUP, LARGE, PAIRS, Peer, Result, SMALL};

/// The threads of a group of the large launch: a few pages of each buffer.
const LARGE_GROUP: usize = 4096;

/// y += x. A group takes as many floats as it has threads.
fn add(params: &Params<'_>, at: &Group) {
    let threads = at.threads[0] as usize;
    let first = at.group[0] as usize * threads;
    // SAFETY: each launch here has a thread for each float of slot 0, which nothing writes.
    #[expect(unsafe_code, reason = "a kernel makes slices of what its launch named")]
    let x: &[f32] = unsafe { params.slice(0, first, threads) };
    // SAFETY: and one for each of slot 1, of which no other group touches these.
    #[expect(unsafe_code, reason = "a kernel makes slices of what its launch named")]
    let y: &mut [f32] = unsafe { params.slice_mut(8, first, threads) };
    y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
}

/// rig's cores device with the work's buffers.
pub struct Rig {
    device: Device,
    single: Run,
    batch: Run,
    large: Run,
    /// The pairs, one after the other: as the slots of the batch.
    small: Vec<Buffer>,
    large_pair: [Buffer; 2],
}

/// rig's errors in words.
fn why(error: rig::Error) -> String {
    format!("rig: {error}")
}

/// Runs over buffers that the kernel fits.
fn launch(run: &mut Run, buffers: &[&Buffer]) -> Result<Point> {
    // SAFETY: `add` touches a float of two slots for each thread, and the grids here have one for each float of the buffers.
    #[expect(unsafe_code, reason = "a launch")]
    let point = unsafe { run.launch(buffers) };
    point.map_err(why)
}

impl Rig {
    /// Opens the device, and makes everything that the work needs.
    pub fn open() -> Result<Rig> {
        Rig::make().map_err(why)
    }

    fn make() -> rig::Result<Rig> {
        let device = rig::open(rig_host::cores())?;
        let add = device.load(&Kernels::new().group("add", 16, add).image())?.function("add")?;
        let mut single = device.submission().launch(&add, [read(0), write(1)]).make()?.take();
        single.part(0).groups([(SMALL / GROUP) as u32, 1, 1]).threads([GROUP as u32, 1, 1]);
        let pairs = 0..PAIRS as u32;
        let batch =
            pairs.fold(device.submission(), |all, pair| all.launch(&add, [read(2 * pair), write(2 * pair + 1)]));
        let mut batch = batch.make()?.take();
        for part in 0..PAIRS {
            batch.part(part).groups([(SMALL / GROUP) as u32, 1, 1]).threads([GROUP as u32, 1, 1]);
        }
        let mut large = device.submission().launch(&add, [read(0), write(1)]).make()?.take();
        large.part(0).groups([(LARGE / LARGE_GROUP) as u32, 1, 1]).threads([LARGE_GROUP as u32, 1, 1]);
        let pair = |floats: usize| -> rig::Result<[Buffer; 2]> {
            let (x, y) = (device.buffer(4 * floats)?, device.buffer(4 * floats)?);
            x.write(|x: &mut [f32]| x.fill(1.0))?;
            y.write(|y: &mut [f32]| y.fill(0.0))?;
            Ok([x, y])
        };
        let small = (0..PAIRS).map(|_| pair(SMALL)).collect::<rig::Result<Vec<[Buffer; 2]>>>()?.into_flattened();
        let large_pair = pair(LARGE)?;
        Ok(Rig { single, batch, large, small, large_pair, device })
    }
}

impl Peer for Rig {
    fn name(&self) -> &'static str {
        "rig"
    }

    fn about(&self) -> String {
        format!("{} on {}", env!("CARGO_PKG_VERSION"), self.device.name())
    }

    fn singles(&mut self, submitted: &mut dyn FnMut()) -> Result {
        let mut last = None;
        for pair in self.small.as_chunks::<2>().0 {
            last = Some(launch(&mut self.single, &pair.each_ref())?);
        }
        submitted();
        last.map_or(Ok(()), |point| point.wait().map_err(why))
    }

    fn batch(&mut self, submitted: &mut dyn FnMut()) -> Result {
        let buffers: Vec<&Buffer> = self.small.iter().collect();
        let point = launch(&mut self.batch, &buffers)?;
        submitted();
        point.wait().map_err(why)
    }

    fn round_trip(&mut self) -> Result {
        launch(&mut self.single, &[&self.small[0], &self.small[1]])?.wait().map_err(why)
    }

    fn add(&mut self) -> Result {
        let [x, y] = &self.large_pair;
        launch(&mut self.large, &[x, y])?.wait().map_err(why)
    }

    fn allocate(&mut self) -> Result {
        self.device.buffer(ALLOCATION).map(drop).map_err(why)
    }

    fn write(&mut self, from: &[f32]) -> Result {
        self.large_pair[1].copy_from_slice(from).map_err(why)
    }

    fn read(&mut self, to: &mut [f32]) -> Result {
        self.large_pair[1].copy_to_slice(to).map_err(why)
    }

    fn small(&mut self, pair: usize) -> Result<Vec<f32>> {
        self.small[2 * pair + 1].read(|y: &[f32]| y.to_vec()).map_err(why)
    }
}
