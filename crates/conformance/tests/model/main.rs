//! The suite on the model device, in several of its shapes; and on devices that are broken, where it must fail.
#![expect(clippy::unwrap_used, reason = "all of this is tests")]

mod broken;
mod drivers;
mod seeds;

use std::sync::Mutex;
use std::time::Duration;

use rig_conformance::model::{Model, ModelOpener, Options, Pace, image};
use rig_conformance::suite::Fixtures;
use rig_edge::{Completion, Kinds, Memory, WaitFacts};

/// Models of one shape: a new one for each opener, so that a case finds its own by name.
pub struct Models {
    shape: Box<dyn Fn() -> Options + Send + Sync>,
    change: fn(&Model),
    made: Mutex<Vec<(String, Model)>>,
    /// When the shape's work runs, where many values are in flight at a time: then it can be held.
    holds: Option<Pace>,
    /// Whether this is the shape that takes great numbers: the others run the same code of rig's over another model.
    full: bool,
}

/// A model whose work is held, and runs as its shape has it once this is dropped.
struct Held(Model, Pace);

impl Drop for Held {
    fn drop(&mut self) {
        (0..self.0.opened()).for_each(|index| self.0.device(index).pace(self.1));
    }
}

impl Models {
    fn new(shape: impl Fn() -> Options + Send + Sync + 'static) -> Models {
        Models::changed(shape, |_| ())
    }

    /// Models that are changed before they open a device.
    fn changed(shape: impl Fn() -> Options + Send + Sync + 'static, change: fn(&Model)) -> Models {
        Models { shape: Box::new(shape), change, made: Mutex::new(Vec::new()), holds: None, full: false }
    }

    /// These models, whose devices take many values at a time.
    fn holding(mut self, pace: Pace) -> Models {
        self.holds = Some(pace);
        self
    }

    /// These models, with great numbers.
    fn in_full(mut self) -> Models {
        self.full = true;
        self
    }

    fn make(&self, options: Options) -> ModelOpener {
        let mut made = self.made.lock().unwrap();
        let name = format!("MODEL:{}", made.len());
        let model = Model::with(&name, options);
        (self.change)(&model);
        let opener = model.opener();
        made.push((name, model));
        opener
    }

    fn model(&self, device: &rig::Device) -> Model {
        let made = self.made.lock().unwrap();
        made.iter().find(|(name, _)| name == device.name()).unwrap().1.clone()
    }
}

impl Drop for Models {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.made.lock().unwrap().iter().for_each(|(_, model)| model.assert_clean());
        }
    }
}

impl Fixtures for Models {
    type Opener = ModelOpener;

    fn opener(&self) -> ModelOpener {
        self.make((self.shape)())
    }

    /// A second device of the same model, so that the one's queues may wait for the other's word.
    fn second(&self) -> ModelOpener {
        self.made.lock().unwrap().last().expect("a first device").1.opener()
    }

    fn image(&self) -> Vec<u8> {
        image(&["add params=24", "scale params=16", "iota threads=64", "spin"])
    }

    fn bad_images(&self) -> Vec<(String, Vec<u8>)> {
        let whole = self.image();
        vec![
            ("a truncated image".into(), whole[..whole.len() - 8].to_vec()),
            ("an image of a kernel that there is not".into(), image(&["no_such_kernel"])),
            ("an image of another model".into(), b"rig-model 2 functions=0\nend\n".to_vec()),
        ]
    }

    fn spin_rounds(&self) -> u32 {
        3
    }

    fn dma_function(&self) -> Option<String> {
        Some("0000:41:00.0".into())
    }

    fn lose(&self, device: &rig::Device) -> bool {
        self.model(device).device(0).fault("the test let it burn");
        true
    }

    fn hold(&self, device: &rig::Device) -> Option<Box<dyn Send>> {
        let pace = self.holds?;
        let model = self.model(device);
        (0..model.opened()).for_each(|index| model.device(index).pace(Pace::Stepped));
        Some(Box::new(Held(model, pace)))
    }

    fn hanging(&self) -> Option<ModelOpener> {
        self.holds.map(|_| self.make((self.shape)().hang(Duration::from_millis(150))))
    }

    fn in_full(&self) -> bool {
        self.full
    }
}

/// Work runs at once, and completes in submit.
mod at_once {
    use super::*;

    fn fixtures() -> Models {
        let shape = || Options::default().pace(Pace::AtOnce).maps_host().dma_buf();
        Models::new(shape).holding(Pace::AtOnce).in_full()
    }

    rig_conformance::conformance! { fixtures = fixtures }
}

/// Work runs in the driver's sleep, after the host committed it; values of other devices are waited for on the queue; few
/// values fit.
mod slept {
    use super::*;

    fn fixtures() -> Models {
        Models::new(|| {
            let waits = WaitFacts { stores: true, hosts: true, most: 2 };
            Options::default().pace(Pace::Slept).waits(waits).depth(4).peers().dma_bus()
        })
    }

    rig_conformance::conformance! { fixtures = fixtures }
}

/// Everything from a seed: Encoded values, Later, growths, steps of all devices inside any call; queue waits.
mod seeded {
    use super::*;

    fn fixtures() -> Models {
        Models::new(|| {
            let waits = WaitFacts { stores: true, hosts: true, most: 2 };
            Options::default().seed(1).waits(waits).depth(8).maps_host()
        })
    }

    rig_conformance::conformance! { fixtures = fixtures }
}

/// A device far from the host: its memory has no host address, its code is placed in it, its word is its own.
mod far {
    use super::*;

    fn fixtures() -> Models {
        Models::new(|| {
            let options = Options::default().seed(2).no_host_addresses().placed_code_in(Memory::Mapped);
            options.own_word(1000).alignment(4096).peers().maps_host()
        })
    }

    rig_conformance::conformance! { fixtures = fixtures }
}

/// A device of launches alone, whose submit blocks when it is full, with a coarse alignment and no cache line stated.
mod narrow {
    use super::*;

    fn fixtures() -> Models {
        Models::new(|| {
            let kinds = Kinds { launch: true, fill: true, ..Kinds::NONE };
            let options = Options::default().pace(Pace::AtOnce).queues(&[("COMPUTE:0", kinds)]);
            options.may_block().depth(2).completion(Completion::Host).cache_bytes(None)
        })
    }

    rig_conformance::conformance! { fixtures = fixtures }
}

/// Memory is short at random.
mod short {
    use super::*;

    fn fixtures() -> Models {
        Models::new(|| Options::default().seed(3).shortages().peers().maps_host())
    }

    rig_conformance::conformance! {
        fixtures = fixtures,
        skip = [
            "reclamation::memory_comes_back_while_a_program_goes_on: the rounds that make room are those that outlast a shortage",
            "reclamation::memory_that_runs_out_is_an_error_and_loses_nothing: the model runs out sooner than the budget",
            "reports::sizes_that_grow_by_a_hundredth_keep_the_budget_and_reach_it: the model runs out sooner than the budget",
        ],
    }
}
