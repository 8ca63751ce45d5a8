//! Systems that are played: what the check meets there, and that an open meets the same.

use std::sync::Arc;

use super::*;
use crate::sys::{Fd, Played};
use crate::system::System;

const NODE: &str = "/sys/devices/virtual/kfd/kfd/topology/nodes/1";

impl Played {
    fn file(mut self, path: &str, answer: Result<(), Errno>) -> Played {
        self.files.insert(path.into(), answer.map(|()| Fd(3)));
        self
    }

    /// A GPU of this version of the graphics core.
    fn gpu(mut self, version: u32) -> Played {
        self.texts.insert(format!("{NODE}/gpu_id"), "51234\n".into());
        let properties = format!("gfx_target_version {version}\ndrm_render_minor 128\nsimd_count 192\nsimd_per_cu 2\n");
        self.texts.insert(format!("{NODE}/properties"), properties);
        self
    }
}

#[test]
fn each_broken_system_is_told_by_its_first_obstacle() {
    let render = "/dev/dri/renderD128";
    let denied = |path: &str| Obstacle::NoAccess { path: path.into() };
    let whole = Played::default().file(KFD, Ok(())).gpu(110_000).file(render, Ok(()));
    let systems = [
        (Played::default(), Err(Obstacle::NoKernelDriver { path: KFD.into() })),
        (Played::default().file(KFD, Err(Errno::ACCES)).gpu(110_000), Err(denied(KFD))),
        (Played::default().file(KFD, Err(Errno::PERM)), Err(denied(KFD))),
        (Played::default().file(KFD, Err(Errno::NODEV)), Err(Obstacle::Other)),
        (Played::default().file(KFD, Ok(())), Err(Obstacle::NoGpu)),
        (Played::default().file(KFD, Ok(())).gpu(100_300), Err(Obstacle::Chip { name: "gfx1030".into() })),
        (Played::default().file(KFD, Ok(())).gpu(110_000), Err(Obstacle::NoRenderNode { path: render.into() })),
        (whole.clone().file(render, Err(Errno::ACCES)), Err(denied(render))),
        (whole.clone(), Ok(())),
    ];
    for (system, meets) in systems {
        assert_eq!(check_by(&system, 0), meets);
    }
    assert_eq!(check_by(&whole, 1), Err(Obstacle::NoGpu), "there is one");
}

#[test]
fn the_chips_are_those_that_an_open_takes() {
    // 9.0.0 to 12.9.9, as versions are numbered.
    let known = (90_000..130_000).filter_map(|version| hal::chip(version).ok());
    assert_eq!(known.map(|chip| chip.arch()).collect::<Vec<_>>(), CHIPS);
}

/// The names of files and the order are an open's own: it refuses the same systems, and says the same.
#[test]
fn an_open_meets_what_the_check_meets() {
    let why = |system: Played| System::new(Arc::new(system)).open(0).map(drop).unwrap_err();
    let missing = why(Played::default());
    assert!(missing.contains(KFD) && missing.contains("not loaded"), "{missing}");
    let denied = why(Played::default().file(KFD, Err(Errno::ACCES)));
    assert!(denied.contains(&format!("no access to {KFD}")), "{denied}");
    let past = why(Played::default().file(KFD, Ok(())));
    assert!(!past.contains(KFD), "an open of {KFD} goes on to ask the kernel: {past}");
}
