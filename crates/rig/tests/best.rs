//! The best device that opens: in the caller's order, with what was passed over and why.

use std::cell::Cell;
use std::rc::Rc;

use rig::{Candidate, Error, best_of};
use rig_edge::{Opener, Timeline};
use rig_host::Host;

/// Hardware that is not there; counts how often it is asked.
#[derive(Clone)]
struct Absent {
    name: &'static str,
    asked: Rc<Cell<u32>>,
}

impl Absent {
    fn new(name: &'static str) -> Absent {
        Absent { name, asked: Rc::default() }
    }
}

impl Opener for Absent {
    type Driver = Host;

    fn name(&self) -> String {
        self.name.into()
    }

    fn make(&self, _: Timeline) -> Result<Host, String> {
        self.asked.set(self.asked.get() + 1);
        Err(format!("no {} is plugged in", self.name))
    }
}

#[test]
fn the_first_that_opens_is_the_best_and_says_why_none_before_it_is() {
    let (gpu, later) = (Absent::new("GPU"), Absent::new("LATER"));
    let candidates = [Candidate::new(gpu.clone()), Candidate::new(rig_host::memory()), Candidate::new(later.clone())];
    let best = best_of(candidates).unwrap();
    assert_eq!((best.device.name(), best.passed.len()), ("MEMORY", 1));
    let arch = &best.device.facts().arch;
    assert_eq!(best.to_string(), format!("MEMORY ({arch}), since GPU cannot be opened: no GPU is plugged in"));
    assert_eq!((gpu.asked.get(), later.asked.get()), (1, 0), "nothing is opened behind the best");
    let first = best_of([Candidate::new(rig_host::memory()), Candidate::new(gpu)]).unwrap();
    assert_eq!(first.to_string(), format!("MEMORY ({arch})"));
}

#[test]
fn where_none_opens_each_reason_is_told() {
    let none = best_of([Candidate::new(Absent::new("A")), Candidate::new(Absent::new("B"))]).unwrap_err();
    let why = "A cannot be opened: no A is plugged in; and B cannot be opened: no B is plugged in";
    assert!(matches!(&none, Error::Refused(told) if told == why), "{none}");
    assert!(matches!(best_of([]), Err(Error::Invalid(_))));
}

#[test]
fn inside_a_kernel_nothing_is_passed_over() {
    let device = rig::open(rig_host::memory()).unwrap();
    let kernels = rig_host::Kernels::new().group("open", 8, |_, _| {
        let inside = best_of([Candidate::new(Absent::new("A")), Candidate::new(rig_host::memory())]);
        assert!(matches!(inside, Err(Error::Invalid(_))), "{inside:?}");
    });
    let open = device.load(&kernels.image()).unwrap().function("open").unwrap();
    let mut run = device.submission().launch(&open, [rig::write(0)]).make().unwrap().take();
    let block = device.buffer(64).unwrap();
    // SAFETY: the kernel touches no memory.
    #[expect(unsafe_code, reason = "a launch")]
    let point = unsafe { run.launch(&[&block]) }.unwrap();
    point.wait().unwrap();
    assert_eq!(device.lost(), None, "an assertion that fails in the kernel loses the device");
}
