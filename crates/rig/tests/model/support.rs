//! What the core's tests on the model share.

use std::sync::atomic::{AtomicU32, Ordering};

use rig::{Buffer, Device, Error, Point, Run, read, write};
use rig_conformance::model::{Model, ModelDevice, Options, image};

/// A device of a model, the test's hand on it, and two kinds of run.
pub struct Bench {
    pub model: Model,
    pub control: ModelDevice,
    pub device: Device,
    pub add: Run,
    pub iota: Run,
}

/// Elements of every buffer here.
pub const LEN: usize = 16;

impl Bench {
    pub fn new(name: &str) -> Bench {
        Bench::with(name, Options::default())
    }

    /// A device of a name of its own: an open of a name stops that name's lost devices, and tests run side by side.
    pub fn with(name: &str, options: Options) -> Bench {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Bench::of(&Model::with(&format!("{name}-{number}"), options))
    }

    /// Opens one more device of the model.
    pub fn of(model: &Model) -> Bench {
        let device = rig::open(model.opener()).unwrap();
        let control = model.device(model.opened() - 1);
        let image = device.load(&image(&["add", "iota"])).unwrap();
        let (add, iota) = (image.function("add").unwrap(), image.function("iota").unwrap());
        let mut add = device.submission().launch(&add, [read(0), write(1)]).make().unwrap().take();
        add.part(0).threads([LEN as u32, 1, 1]);
        let mut iota = device.submission().launch(&iota, [write(0)]).params(16).make().unwrap().take();
        iota.part(0).set(8, LEN as u32);
        Bench { model: model.clone(), control, device, add, iota }
    }

    pub fn buffer(&self) -> Buffer {
        self.device.buffer(4 * LEN).unwrap()
    }

    /// `y += x`, over floats.
    pub fn add(&mut self, x: &Buffer, y: &Buffer) -> rig::Result<Point> {
        launch(&mut self.add, &[x, y])
    }

    /// `y[i] = start + i`, over u32.
    pub fn iota(&mut self, y: &Buffer, start: u32) -> rig::Result<Point> {
        self.iota.part(0).set(12, start);
        launch(&mut self.iota, &[y])
    }
}

#[expect(unsafe_code, reason = "a launch")]
pub fn launch(run: &mut Run, buffers: &[&Buffer]) -> rig::Result<Point> {
    // SAFETY: the model's kernels check every access against the slots, and fault instead of touching more.
    unsafe { run.launch(buffers) }
}

/// The reason of a Lost.
#[track_caller]
pub fn lost<T: std::fmt::Debug>(result: rig::Result<T>) -> String {
    match result {
        Err(Error::Lost { why, .. }) => why.to_string(),
        other => panic!("not Lost: {other:?}"),
    }
}

/// The sentence of an Invalid.
#[track_caller]
pub fn invalid<T: std::fmt::Debug>(result: rig::Result<T>) -> String {
    match result {
        Err(Error::Invalid(why)) => why,
        other => panic!("not Invalid: {other:?}"),
    }
}

/// The values of a buffer.
pub fn values(buffer: &Buffer) -> rig::Result<Vec<u32>> {
    buffer.read(|values: &[u32]| values.to_vec())
}

/// What iota writes.
pub fn counted(start: u32) -> Vec<u32> {
    (0..LEN as u32).map(|i| start + i).collect()
}
