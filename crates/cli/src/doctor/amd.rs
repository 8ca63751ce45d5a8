//! What keeps AMD's GPUs from opening.

use rig_amd::Obstacle;

use super::system::System;
use super::{AMD, Diagnosis, State, access, has_gpu, in_container};

/// How a container gets the device files.
const CONTAINER: &str = "start the container with --device /dev/kfd --device /dev/dri --group-add render";

/// What the driver's check found, and what of the system it comes from.
pub fn diagnose(found: Result<(), Obstacle>, system: &dyn System) -> Diagnosis {
    match found {
        Ok(()) | Err(Obstacle::Other) => Diagnosis::broken(
            "the GPU can be reached, and does not open",
            "see what its open says below; sudo dmesg (lines with amdgpu and kfd) says more",
        ),
        Err(Obstacle::NoKernelDriver { path }) => no_kernel_driver(&path, system),
        Err(Obstacle::NoAccess { path }) => access(&path, system),
        Err(Obstacle::NoGpu) => no_gpu(system),
        Err(Obstacle::Chip { name }) => {
            let known = rig_amd::CHIPS.join(", ");
            Diagnosis::new(State::Unsupported, format!("the GPU is a {name}, and the driver knows {known}"))
        }
        Err(Obstacle::NoRenderNode { path }) if in_container(system) => {
            Diagnosis::broken(format!("this container has no {path}"), CONTAINER)
        }
        Err(Obstacle::NoRenderNode { path }) => Diagnosis::broken(
            format!("there is no {path}, though the kernel's driver lists it"),
            "sudo udevadm trigger --subsystem-match=drm makes it",
        ),
        Err(other) => Diagnosis::new(State::Broken, format!("{other:?}")),
    }
}

fn no_kernel_driver(path: &str, system: &dyn System) -> Diagnosis {
    let loaded = system.is_there("/sys/module/amdgpu");
    if !cfg!(target_os = "linux") {
        return Diagnosis::new(State::Absent, "AMD's GPUs are driven on Linux alone");
    }
    if !has_gpu(system, AMD) && !loaded {
        return Diagnosis::new(State::Absent, "no GPU of AMD's is on the PCI bus");
    }
    if in_container(system) {
        return Diagnosis::broken(format!("a GPU of AMD's may be there, and this container has no {path}"), CONTAINER);
    }
    if loaded {
        return Diagnosis::broken(
            format!(
                "the kernel's driver (amdgpu) is loaded, and makes no {path}: the kernel is built without CONFIG_HSA_AMD, or the GPU is one that it computes nothing on"
            ),
            "boot the distribution's own kernel (Debian's and Ubuntu's have it); sudo dmesg (lines with kfd) says which",
        );
    }
    let mut diagnosis = Diagnosis::broken(
        "a GPU of AMD's is there, and the kernel's driver for it (amdgpu) is not loaded",
        "sudo modprobe amdgpu; where it is not found, install the package with the kernel's further modules (on Ubuntu \
         linux-modules-extra-$(uname -r))",
    );
    if system.text("/proc/cmdline").is_some_and(|line| line.contains("nomodeset")) {
        diagnosis = diagnosis
            .and("the kernel was started with nomodeset, with which amdgpu drives nothing", "start without nomodeset");
    }
    let firmware = ["/lib/firmware/amdgpu", "/usr/lib/firmware/amdgpu"];
    if !firmware.iter().any(|folder| system.is_there(folder)) {
        diagnosis = diagnosis.and(
            "the GPUs' firmware is not installed",
            "install it: on Debian firmware-amd-graphics, on Ubuntu and Fedora linux-firmware",
        );
    }
    diagnosis
}

fn no_gpu(system: &dyn System) -> Diagnosis {
    if !has_gpu(system, AMD) {
        return Diagnosis::new(
            State::Absent,
            "the kernel's driver for AMD's GPUs is loaded, and no GPU of AMD's is on the PCI bus",
        );
    }
    Diagnosis::broken(
        "a GPU of AMD's is there, and the kernel's driver lists none for computing",
        "sudo dmesg (lines with kfd) says why it skips the GPU; in a container, its devices' cgroup must allow the render nodes",
    )
}
