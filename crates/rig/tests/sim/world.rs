//! What the threads of a program share: devices, handles to memory, claims, points.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rig::{Buffer, Claim, Device, Function, Image, Point};
use rig_conformance::model::{Args, Model, ModelDevice, ModelDriver, image};

use crate::functions::Export;
use crate::hang::Slow;
use crate::log::{Allocation, Budget, DeviceLife, HandleLife, Key, Log, Place, key};
use crate::plan::{Extras, ModelPlan, Plan};
use crate::primitive::{Mutex, lock, passed, pause};

/// The end of a life that still lasts.
pub const ALIVE: u64 = u64::MAX;

/// A device that was opened.
pub struct Dev {
    pub number: usize,
    pub seat: usize,
    pub model: usize,
    /// Whether it has stopped answering.
    pub hung: AtomicBool,
    /// How many growths its driver was told to ask for.
    pub growths: AtomicU32,
    pub control: ModelDevice,
    open: Mutex<Option<(Device, Image, Function, Function)>>,
    /// A lost device that the program forgot, to be closed for those whom it holds up.
    lost: Mutex<Option<Device>>,
}

impl Dev {
    /// The device, while the program has a handle to it.
    pub fn device(&self) -> Option<Device> {
        lock(&self.open).as_ref().map(|open| open.0.clone())
    }

    pub fn functions(&self) -> Option<(Function, Function)> {
        lock(&self.open).as_ref().map(|open| (open.2.clone(), open.3.clone()))
    }

    pub fn image(&self) -> Option<Image> {
        lock(&self.open).as_ref().map(|open| open.1.clone())
    }

    /// The device, also if the program has forgotten it.
    pub fn any_device(&self) -> Option<Device> {
        self.device().or_else(|| lock(&self.lost).clone())
    }

    /// Drops the program's handle.
    pub fn forget(&self, log: &Log) {
        let open = lock(&self.open).take();
        let lost = open.as_ref().map(|open| open.0.clone()).filter(|device| device.lost().is_some());
        *lock(&self.lost) = lost;
        log.in_no_time("a drop", || drop(open));
    }

    /// Drops every handle to the device that is here.
    pub fn forget_all(&self, log: &Log) {
        self.forget(log);
        let lost = lock(&self.lost).take();
        log.in_no_time("a drop", || drop(lost));
    }
}

/// A handle to memory.
pub struct Handle {
    buffer: Option<Buffer>,
    pub place: Place,
    pub dev: Arc<Dev>,
    pub number: usize,
    log: Arc<Log>,
}

impl Handle {
    /// Notes a handle that was made since `begun`.
    pub fn new(log: &Arc<Log>, buffer: Buffer, place: Place, dev: &Arc<Dev>, begun: u64) -> Handle {
        let mut inner = log.lock();
        inner.clock += 1;
        let life = HandleLife { allocation: place.allocation, begun, born: inner.clock, dying: ALIVE, dead: ALIVE };
        inner.handles.push(life);
        inner.allocations[place.allocation].handles += 1;
        let number = inner.handles.len() - 1;
        drop(inner);
        Handle { buffer: Some(buffer), place, dev: Arc::clone(dev), number, log: Arc::clone(log) }
    }

    pub fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("a handle has its buffer until it is dropped")
    }

    /// The bytes of the handle itself.
    pub fn part(&self, range: Range<usize>) -> Place {
        let start = self.place.range.start;
        Place { allocation: self.place.allocation, range: start + range.start..start + range.end }
    }

    pub fn len(&self) -> usize {
        self.place.range.len()
    }

    pub fn is_whole(&self) -> bool {
        self.log.lock().allocations[self.place.allocation].len == self.len()
    }

    pub fn again(&self) -> Handle {
        let begun = self.log.now();
        Handle::new(&self.log, self.buffer().clone(), self.place.clone(), &self.dev, begun)
    }

    pub fn view(&self, range: Range<usize>) -> rig::Result<Handle> {
        let begun = self.log.now();
        let view = self.buffer().view(range.clone())?;
        Ok(Handle::new(&self.log, view, self.part(range), &self.dev, begun))
    }

    /// Takes the buffer out: the handle's life goes on by its number.
    pub fn take(mut self) -> (Buffer, Place, Arc<Dev>, usize) {
        let buffer = self.buffer.take().expect("a handle has its buffer until it is dropped");
        (buffer, self.place.clone(), Arc::clone(&self.dev), self.number)
    }

    /// Puts a buffer back that was taken out.
    pub fn back(log: &Arc<Log>, buffer: Buffer, place: Place, dev: Arc<Dev>, number: usize) -> Handle {
        Handle { buffer: Some(buffer), place, dev, number, log: Arc::clone(log) }
    }
}

/// Notes the end of a handle's life around `end`.
fn die(log: &Log, number: usize, end: impl FnOnce()) {
    {
        let mut inner = log.lock();
        inner.clock += 1;
        inner.handles[number].dying = inner.clock;
    }
    log.in_no_time("a drop", end);
    let mut inner = log.lock();
    inner.clock += 1;
    let now = inner.clock;
    inner.handles[number].dead = now;
    let allocation = inner.handles[number].allocation;
    let of = &mut inner.allocations[allocation];
    of.handles -= 1;
    if of.handles == 0 {
        of.dropped = Some(now);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            die(&self.log, self.number, || drop(buffer));
        }
    }
}

/// A claim, which keeps the memory too.
pub struct Claimed {
    claim: Option<Claim>,
    number: usize,
    log: Arc<Log>,
}

impl Claimed {
    pub fn new(handle: &Handle) -> Claimed {
        let log = &handle.log;
        let begun = log.now();
        let claim = handle.buffer().claim();
        let mut inner = log.lock();
        inner.clock += 1;
        let allocation = handle.place.allocation;
        let life = HandleLife { allocation, begun, born: inner.clock, dying: ALIVE, dead: ALIVE };
        inner.handles.push(life);
        inner.allocations[allocation].handles += 1;
        let number = inner.handles.len() - 1;
        drop(inner);
        Claimed { claim: Some(claim), number, log: Arc::clone(log) }
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let claim = self.claim.take();
        die(&self.log, self.number, || drop(claim));
    }
}

pub struct World {
    pub log: Arc<Log>,
    pub models: Vec<Model>,
    pub plans: Vec<ModelPlan>,
    /// Every device that was opened.
    pub devices: Mutex<Vec<Arc<Dev>>>,
    /// The device of each seat.
    pub seats: Mutex<Vec<Arc<Dev>>>,
    pub handles: Mutex<Vec<Handle>>,
    pub claims: Mutex<Vec<Claimed>>,
    pub points: Mutex<Vec<(Point, Key)>>,
    opening: Mutex<()>,
    /// Whether devices may be lost.
    pub loses: bool,
    /// Whether they may be for a fault.
    pub faults: bool,
    pub short: bool,
    pub lazy: bool,
    pub extras: Extras,
    pub slow: Mutex<Vec<Slow>>,
    /// What PCI functions were given by bus addresses.
    pub exports: Mutex<Vec<Export>>,
    names: AtomicU64,
    /// Objects that submissions and wrapped memory keep: made, dropped.
    pub kept: Arc<[AtomicU64; 2]>,
    pub owners: Arc<[AtomicU64; 2]>,
}

/// The functions of every image here.
const LINES: [&str; 3] = ["mix params=32", "scale params=32", "fault"];

impl World {
    pub fn new(plan: &Plan, log: &Arc<Log>) -> Arc<World> {
        let model = |(index, of): (usize, &ModelPlan)| {
            let model = Model::with(&format!("SIM-{index}"), of.options.clone());
            add_kernels(&model, log);
            let told = Arc::clone(log);
            model.watch(move |ran| told.ran(index, ran));
            model
        };
        let pair = || Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        Arc::new(World {
            log: Arc::clone(log),
            models: plan.models.iter().enumerate().map(model).collect(),
            plans: plan.models.clone(),
            devices: Mutex::new(Vec::new()),
            seats: Mutex::new(Vec::new()),
            handles: Mutex::new(Vec::new()),
            claims: Mutex::new(Vec::new()),
            points: Mutex::new(Vec::new()),
            opening: Mutex::new(()),
            loses: plan.loses,
            faults: plan.faults,
            short: plan.short,
            lazy: plan.lazy,
            extras: plan.extras,
            slow: Mutex::new(Vec::new()),
            exports: Mutex::new(Vec::new()),
            names: AtomicU64::new(0),
            kept: pair(),
            owners: pair(),
        })
    }

    /// Opens the devices that the program begins with.
    pub fn open_all(&self, plan: &Plan) {
        for (seat, &model) in plan.seats.iter().enumerate() {
            let opened = self.open(seat, model);
            let dev = opened.unwrap_or_else(|error| self.log.broken("C01", &format!("no open: {error}")));
            lock(&self.seats).push(dev);
        }
    }

    /// A text that no other has.
    pub fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// Opens a device of a model for a seat.
    pub fn open(&self, seat: usize, model: usize) -> rig::Result<Arc<Dev>> {
        let of = &self.models[model];
        let (device, control, id) = {
            // One at a time, so that the model's last device is this one.
            let _opening = lock(&self.opening);
            let device = rig::open(of.opener())?;
            let id = of.opened() - 1;
            (device, of.device(id), id)
        };
        let number = {
            let mut inner = self.log.lock();
            let budgets = vec![Budget { bytes: self.plans[model].budget, begun: 0, set: 0 }];
            let causes = self.closing_causes();
            let (name, of, moved) = (device.name().into(), (model, id), passed());
            inner.devices.push(DeviceLife { name, of, causes, budgets, moved, ..DeviceLife::default() });
            inner.devices.len() - 1
        };
        control.encode_only(self.plans[model].encodes);
        let image = device.load(&image(&LINES))?;
        let (mix, scale) = (image.function("mix")?, image.function("scale")?);
        let timeline = key(&trial(&device)?).0;
        self.log.lock().timelines.insert((model, id), timeline);
        let open = Mutex::new(Some((device, image, mix, scale)));
        let (hung, growths, lost) = (AtomicBool::new(false), AtomicU32::new(0), Mutex::new(None));
        let dev = Arc::new(Dev { number, seat, model, hung, growths, control, open, lost });
        lock(&self.devices).push(Arc::clone(&dev));
        Ok(dev)
    }

    /// What anybody may do to a device at the end.
    fn closing_causes(&self) -> Vec<String> {
        vec!["every handle to it was dropped".into()]
    }

    pub fn seat(&self, number: u32) -> Arc<Dev> {
        let seats = lock(&self.seats);
        Arc::clone(&seats[number as usize % seats.len()])
    }

    /// Notes why a device may be lost from now on.
    pub fn cause(&self, dev: &Dev, why: &str) {
        self.log.lock().devices[dev.number].causes.push(why.into());
    }

    /// Adds a handle for everybody.
    pub fn keep(&self, handle: Handle) {
        lock(&self.handles).push(handle);
    }

    /// A further handle to memory that the device reaches, if there is any.
    pub fn some(&self, dev: Option<&Dev>, number: u32) -> Option<Handle> {
        let handles = lock(&self.handles);
        let fits = |handle: &&Handle| dev.is_none_or(|dev| handle.dev.number == dev.number);
        let fitting: Vec<&Handle> = handles.iter().filter(fits).collect();
        if fitting.is_empty() { None } else { Some(fitting[number as usize % fitting.len()].again()) }
    }

    /// Takes a handle out.
    pub fn take(&self, number: u32) -> Option<Handle> {
        let mut handles = lock(&self.handles);
        if handles.is_empty() {
            return None;
        }
        let at = number as usize % handles.len();
        Some(handles.swap_remove(at))
    }

    /// Notes a new allocation.
    pub fn allocated(&self, device: usize, len: usize, counts: bool, made: u64) -> usize {
        let mut inner = self.log.lock();
        inner.allocations.push(Allocation { device, len, counts, made, dropped: None, handles: 0, exported: false });
        inner.allocations.len() - 1
    }

    pub fn point(&self, point: Point) -> Key {
        let key = key(&point);
        let mut points = lock(&self.points);
        points.push((point, key));
        key
    }

    pub fn some_point(&self, number: u32) -> Option<(Point, Key)> {
        let points = lock(&self.points);
        // Rather one of the last.
        let last = points.len().min(6);
        points.len().checked_sub(1 + number as usize % last.max(1)).map(|at| points[at])
    }
}

/// Submits work that does nothing, whose point tells the device's timeline.
pub fn trial(device: &Device) -> rig::Result<Point> {
    let mut tried = try_trial(device);
    // A shortage that was drawn, and that nobody met so far.
    for _ in 0..16 {
        match tried {
            Err(rig::Error::OutOfMemory { .. }) => tried = try_trial(device),
            done => return done,
        }
    }
    tried
}

#[expect(unsafe_code, reason = "a launch")]
pub fn try_trial(device: &Device) -> rig::Result<Point> {
    let mut run = device.submission().fill::<ModelDriver>([], |_, _| Ok(())).make()?.take();
    // SAFETY: the fill does nothing.
    unsafe { run.launch(&[]) }
}

fn add_kernels(model: &Model, log: &Arc<Log>) {
    let mixed = Arc::clone(log);
    model.kernel("mix", move |args| mix(args, &mixed));
    let scaled = Arc::clone(log);
    model.kernel("scale", move |args| scale(args, &scaled));
}

fn scalars(args: &Args<'_>) -> Result<(usize, u8, u64), String> {
    let n: u32 = args.scalar(16).ok_or("no count")?;
    let c: u32 = args.scalar(20).ok_or("no constant")?;
    Ok((n as usize, c as u8, args.scalar(24).ok_or("no number")?))
}

/// `y = 3 y + x + c`, byte by byte, with a pause in which whoever may not come in would be seen.
fn mix(args: &mut Args<'_>, log: &Log) -> Result<(), String> {
    let (n, c, op) = scalars(args)?;
    let x: Vec<u8> = args.read(0, n)?;
    let mut y: Vec<u8> = args.read(1, n)?;
    log.input(op, vec![x.clone(), y.clone()]);
    pause();
    y.iter_mut().zip(&x).for_each(|(y, x)| *y = y.wrapping_mul(3).wrapping_add(*x).wrapping_add(c));
    args.write(1, &y)
}

/// `y = 5 y + c`.
fn scale(args: &mut Args<'_>, log: &Log) -> Result<(), String> {
    let (n, c, op) = scalars(args)?;
    let mut y: Vec<u8> = args.read(0, n)?;
    log.input(op, vec![y.clone()]);
    pause();
    y.iter_mut().for_each(|y| *y = y.wrapping_mul(5).wrapping_add(c));
    args.write(0, &y)
}
