//! The soak of the core: mixed load of real threads on the host's cores, its memory, and two model devices that are peers, with
//! memory that stays flat and handles that all come back. What a thread does and what is looked at: [`rig_conformance::soak`].
//!
//! Each thread opens, loses and closes model devices of its own. At the end every region, image and plan of every model is back.
//!
//! `cargo xtask soak --minutes N` runs it. Without `--minutes` it runs for two seconds, which says nothing of growth.
#![expect(clippy::unwrap_used, reason = "a test program: what it cannot do is its failure")]

mod kernels;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use rig::Device;
use rig_conformance::model::{Model, Options, Pace, image};
use rig_conformance::soak::{Count, Kernels, LEN, Own, Soak, THREADS};
use rig_edge::WaitFacts;

/// How many devices a model opens before a new one takes its place: a model remembers each of its devices.
const OPENED_MOST: usize = 200;

fn main() -> ExitCode {
    rig_conformance::soak::main("soak_of_cores_memory_and_models", Duration::from_secs(2), |time| Some(soak(time)))
}

fn soak(time: Duration) -> Result<(), String> {
    // The one whose devices are shared, and each thread's.
    let models: Vec<Mutex<Model>> = (0..=THREADS).map(|number| Mutex::new(model(&format!("SOAK-{number}")))).collect();
    let (host, of_model) = (of_image(kernels::suite()), of_image(image(KERNELS)));
    let own = |thread: u64| Models { kernels: of_model.clone(), thread, model: &models[thread as usize + 1] };
    let shared = || rig::open(models[0].lock().unwrap().opener());
    Soak::new("cores, memory and models", own)
        .shared(&host, || rig::open(rig_host::cores()))
        .shared(&host, || rig::open(rig_host::memory()))
        .shared(&of_model, shared)
        .shared(&of_model, shared)
        .counts(|| counts(&models))
        .run(time)?;
    models.iter().for_each(|model| model.lock().unwrap().assert_empty());
    Ok(())
}

/// What all models have. Their devices' plans are of submissions, of which the load's threads keep four for each shared one.
fn counts(models: &[Mutex<Model>]) -> Vec<Count> {
    let mut counted = [("regions", 0), ("images", 0), ("plans", 0), ("unfinished values", 0)];
    for model in models {
        let model = model.lock().unwrap();
        for device in (0..model.opened()).map(|index| model.device(index)) {
            let all = [device.regions(), device.images(), device.plans(), device.unfinished()];
            counted.iter_mut().zip(all).for_each(|((_, count), more)| *count += more);
        }
    }
    counted.map(|(what, count)| Count::exact(what, count as u64)).into()
}

/// The suite's kernels, as the model has them.
const KERNELS: &[&str] = &["add params=24", "scale params=16", "iota", "spin"];

/// They take no time on a model or on the host's memory, whose work is under way for as long as its threads are busy.
fn of_image(image: Vec<u8>) -> Kernels {
    Kernels { image, groups: [LEN as u32 / 256, 1, 1], threads: [256, 1, 1], spin_rounds: 40 }
}

/// A model whose devices are peers and wait for one another.
fn model(name: &str) -> Model {
    let waits = WaitFacts { stores: true, hosts: true, most: 4 };
    let options = Options::default().waits(waits).peers().maps_host().pace(Pace::Slept).depth(16).budget(4 << 20);
    Model::with(name, options)
}

/// The models of one thread, one after the other.
struct Models<'m> {
    kernels: Kernels,
    thread: u64,
    model: &'m Mutex<Model>,
}

impl Own for Models<'_> {
    fn open(&mut self) -> rig::Result<Device> {
        rig::open(self.model.lock().unwrap().opener())
    }

    fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    fn faults(&self) -> bool {
        true
    }

    fn fault(&mut self, _: &Device) {
        let model = self.model.lock().unwrap();
        model.device(model.opened() - 1).fault("the soak's own fault");
    }

    fn closed(&mut self) {
        let mut now = self.model.lock().unwrap();
        if now.opened() > OPENED_MOST {
            now.assert_clean();
            *now = model(&format!("SOAK-{}", self.thread + 1));
        }
    }
}
