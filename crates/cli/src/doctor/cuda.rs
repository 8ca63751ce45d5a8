//! What keeps NVIDIA's GPUs from opening.

use rig_cuda::Obstacle;

use super::system::System;
use super::{Diagnosis, NVIDIA, State, access, has_gpu, in_container};

/// Where the kernel's module says its version.
const MODULE: &str = "/proc/driver/nvidia/version";
/// The device files that CUDA uses beside one a GPU.
const CONTROL: &str = "/dev/nvidiactl";
const MEMORY: &str = "/dev/nvidia-uvm";
const FIRST: &str = "/dev/nvidia0";

/// The packages that have the driver.
const INSTALL: &str = "install NVIDIA's driver for CUDA 12.4 or later (550 or later), and restart: on Debian nvidia-driver, on Ubuntu \
                       nvidia-driver-550 or later, on Fedora (RPM Fusion) akmod-nvidia and xorg-x11-drv-nvidia-cuda";
/// How a container gets it.
const CONTAINER: &str = "give the container the host's driver: install the NVIDIA Container Toolkit on the host, and start with --gpus all \
                         (podman: --device nvidia.com/gpu=all)";

/// Numbers of CUDA's (`CUresult`) that have a remedy of their own.
mod code {
    pub const NO_DEVICE: i32 = 100;
    pub const SYSTEM_NOT_READY: i32 = 802;
    pub const DRIVER_MISMATCH: i32 = 803;
    pub const COMPAT_NOT_SUPPORTED: i32 = 804;
}

/// What the driver's check found, and what of the system it comes from.
pub fn diagnose(found: Result<usize, Obstacle>, system: &dyn System) -> Diagnosis {
    let module = system.text(MODULE);
    match found {
        Ok(count) => Diagnosis::broken(
            format!("CUDA sees {count} GPUs, and none opens"),
            "see what its open says below; nvidia-smi shows who uses the GPU, and whether it faulted",
        ),
        Err(Obstacle::NoLibrary(_)) => no_library(module.as_deref(), system),
        Err(Obstacle::OldDriver(_)) if in_container(system) => {
            Diagnosis::broken("the driver of the host is for a CUDA before 12.4", format!("on the host, {INSTALL}"))
        }
        Err(Obstacle::OldDriver(_)) => Diagnosis::broken("the driver is for a CUDA before 12.4", INSTALL),
        Err(Obstacle::NoGpu) => no_gpu(system),
        Err(Obstacle::Refused { code, why }) => refused(code, &why, module.as_deref(), system),
        Err(other) => Diagnosis::broken(other.to_string(), INSTALL),
    }
}

fn no_library(module: Option<&str>, system: &dyn System) -> Diagnosis {
    match module {
        Some(_) if in_container(system) => Diagnosis::broken(
            "the kernel has NVIDIA's driver, and this container has not its library (libcuda.so.1)",
            CONTAINER,
        ),
        Some(module) => Diagnosis::broken(
            format!("the kernel has NVIDIA's driver ({}), and its library (libcuda.so.1) is missing", version(module)),
            "install the library of the same version: on Debian libcuda1, on Ubuntu libnvidia-compute-NNN with the driver's first \
             number, on Fedora (RPM Fusion) xorg-x11-drv-nvidia-cuda-libs; or set LD_LIBRARY_PATH to the folder that has it",
        ),
        None if !has_gpu(system, NVIDIA) => Diagnosis::new(State::Absent, "no GPU of NVIDIA's is on the PCI bus"),
        None if in_container(system) => {
            Diagnosis::broken("a GPU of NVIDIA's is there, and this container has no driver for it", CONTAINER)
        }
        None if system.is_there("/sys/module/nouveau") => Diagnosis::broken(
            "a GPU of NVIDIA's is there, and the kernel's own driver (nouveau) has it, which knows no CUDA",
            format!("{INSTALL}; the package keeps nouveau from loading"),
        ),
        None => Diagnosis::broken("a GPU of NVIDIA's is there, and no driver for it is installed", INSTALL),
    }
}

fn no_gpu(system: &dyn System) -> Diagnosis {
    if let Some(visible) = system.variable("CUDA_VISIBLE_DEVICES") {
        return Diagnosis::broken(
            format!("the variable CUDA_VISIBLE_DEVICES is {visible:?}, which hides every GPU from CUDA"),
            "unset CUDA_VISIBLE_DEVICES, or set it to the numbers of the GPUs to use, such as 0",
        );
    }
    let files = [CONTROL, FIRST, MEMORY];
    if let Some(denied) = files.iter().find(|file| system.is_there(file) && !system.may_use(file)) {
        return access(denied, system);
    }
    if !has_gpu(system, NVIDIA) && !system.is_there(FIRST) {
        return Diagnosis::new(State::Absent, "NVIDIA's driver is installed, and no GPU of NVIDIA's is on the PCI bus");
    }
    match files.iter().find(|file| !system.is_there(file)) {
        Some(missing) if in_container(system) => {
            Diagnosis::broken(format!("this container has no {missing}"), CONTAINER)
        }
        Some(missing) => Diagnosis::broken(
            format!("there is no {missing}"),
            "sudo modprobe nvidia nvidia-uvm && sudo nvidia-modprobe -c 0 -u makes it, and nvidia-smi shows whether the module finds \
             the GPU",
        ),
        None => Diagnosis::broken(
            "a GPU of NVIDIA's is there, and CUDA does not see it",
            "nvidia-smi and sudo dmesg (lines with NVRM) say why",
        ),
    }
}

fn refused(code: i32, why: &str, module: Option<&str>, system: &dyn System) -> Diagnosis {
    let what = format!("CUDA does not start: {why}");
    match code {
        code::NO_DEVICE => no_gpu(system),
        code::SYSTEM_NOT_READY => Diagnosis::broken(
            what,
            "the GPUs are joined by a switch that no service runs yet: sudo systemctl start nvidia-fabricmanager (of the driver's \
             version)",
        ),
        code::DRIVER_MISMATCH => {
            let module = module.map(|module| format!(" ({})", version(module))).unwrap_or_default();
            Diagnosis::broken(
                what,
                format!(
                    "the library and the kernel's module{module} are of different versions, as after an update: restart the machine"
                ),
            )
        }
        code::COMPAT_NOT_SUPPORTED => Diagnosis::broken(
            what,
            "a library of the package cuda-compat stands before the driver's own, and the GPU does not take it: remove that package, or \
             its folder from LD_LIBRARY_PATH",
        ),
        _ => match [CONTROL, FIRST, MEMORY].into_iter().find(|file| system.is_there(file) && !system.may_use(file)) {
            Some(denied) => access(denied, system),
            None => Diagnosis::broken(
                what,
                "nvidia-smi and sudo dmesg (lines with NVRM) say more; restarting the machine often mends it",
            ),
        },
    }
}

/// The version in the module's first line: `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  ...`.
fn version(module: &str) -> String {
    let is_version = |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    module.split_whitespace().find(is_version).unwrap_or("of a version that it does not say").to_owned()
}
