//! Systems that are played: folders of files and what a user may not use of them, one for each way to be broken.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;

use super::*;

/// A system: files with their texts, files that the user may not use with their groups, variables.
struct Played {
    folder: Folder,
    root: PathBuf,
    denied: Vec<(&'static str, u32)>,
    variables: Vec<(&'static str, &'static str)>,
}

impl Played {
    fn new(name: &str, files: &[(&str, &str)]) -> Played {
        let root = std::env::temp_dir().join(format!("rig-doctor-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let played = Played { folder: Folder::below(root.clone()), root, denied: Vec::new(), variables: Vec::new() };
        played.file("/etc/group", "root:x:0:\nvideo:x:44:\nrender:x:105:someone\n");
        files.iter().for_each(|(path, text)| played.file(path, text));
        played
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

impl System for Played {
    fn text(&self, path: &str) -> Option<String> {
        self.folder.text(path)
    }
    fn list(&self, path: &str) -> Vec<String> {
        self.folder.list(path)
    }
    fn is_there(&self, path: &str) -> bool {
        self.folder.is_there(path)
    }
    fn may_use(&self, path: &str) -> bool {
        self.denied.iter().all(|(denied, _)| *denied != path)
    }
    fn owner(&self, path: &str) -> Option<u32> {
        self.denied.iter().find(|(denied, _)| *denied == path).map(|(_, group)| *group)
    }
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }
}

type Files = [(&'static str, &'static str)];

const NVIDIA_GPU: [(&str, &str); 2] = [
    ("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n"),
    ("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n"),
];
const AMD_GPU: [(&str, &str); 2] = [
    ("/sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n"),
    ("/sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n"),
];
/// A sound card of AMD's and a USB controller of NVIDIA's are no GPUs.
const OTHERS: [(&str, &str); 4] = [
    ("/sys/bus/pci/devices/0000:03:00.1/vendor", "0x1002\n"),
    ("/sys/bus/pci/devices/0000:03:00.1/class", "0x040300\n"),
    ("/sys/bus/pci/devices/0000:01:00.2/vendor", "0x10de\n"),
    ("/sys/bus/pci/devices/0000:01:00.2/class", "0x0c0330\n"),
];
const MODULE: (&str, &str) = (
    "/proc/driver/nvidia/version",
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc 13.2.0\n",
);
const DOCKER: (&str, &str) = ("/.dockerenv", "");
const NODES: [(&str, &str); 3] = [("/dev/nvidiactl", ""), ("/dev/nvidia0", ""), ("/dev/nvidia-uvm", "")];

/// The state, and words of the findings and of what mends them.
#[track_caller]
fn says(case: &str, diagnosis: &Diagnosis, state: State, what: &str, mend: &str) {
    assert_eq!(diagnosis.state, state, "{case}: {diagnosis:?}");
    let said: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.what.as_str()).collect();
    assert!(said.iter().any(|said| said.contains(what)), "{case}: {said:?} says nothing of {what}");
    let mends: Vec<&str> = diagnosis.findings.iter().filter_map(|finding| finding.mend.as_deref()).collect();
    assert!(
        mends.iter().any(|said| said.contains(mend)) || mend.is_empty(),
        "{case}: {mends:?} says nothing of {mend}"
    );
    if state == State::Broken {
        assert_eq!(mends.len(), said.len(), "{case}: what is broken has a remedy");
    }
}

fn files(parts: &[&Files]) -> Vec<(&'static str, &'static str)> {
    parts.concat()
}

#[test]
fn broken_systems_with_nvidias_gpus_are_told_with_what_mends_them() {
    use rig_cuda::Obstacle;
    let no_library = || Err(Obstacle::NoLibrary("libcuda.so.1: not found".into()));
    let refused = |code| Err(Obstacle::Refused { code, why: format!("the reason ({code})") });
    let old = || Err(Obstacle::OldDriver("for CUDA 12.2".into()));
    type Case = (
        &'static str,
        Vec<(&'static str, &'static str)>,
        std::result::Result<usize, Obstacle>,
        State,
        &'static str,
        &'static str,
    );
    let gpu: &Files = &NVIDIA_GPU;
    let cases: Vec<Case> = vec![
        ("nothing", files(&[&OTHERS, &AMD_GPU]), no_library(), State::Absent, "no GPU of NVIDIA's", ""),
        ("no driver", files(&[gpu]), no_library(), State::Broken, "no driver for it", "nvidia-driver"),
        (
            "nouveau",
            files(&[gpu, &[("/sys/module/nouveau/refcnt", "1")]]),
            no_library(),
            State::Broken,
            "nouveau",
            "550",
        ),
        ("container", files(&[gpu, &[DOCKER]]), no_library(), State::Broken, "this container", "--gpus all"),
        ("container, module", files(&[&[DOCKER, MODULE]]), no_library(), State::Broken, "this container", "--gpus all"),
        ("module, no library", files(&[gpu, &[MODULE]]), no_library(), State::Broken, "550.54.15", "libcuda1"),
        ("old", files(&[gpu, &[MODULE]]), old(), State::Broken, "before 12.4", "550 or later"),
        (
            "old, container",
            files(&[gpu, &[MODULE, DOCKER]]),
            old(),
            State::Broken,
            "of the host",
            "on the host, install",
        ),
        ("library alone", files(&[&OTHERS]), refused(100), State::Absent, "no GPU of NVIDIA's", ""),
        ("no nodes", files(&[gpu, &[MODULE]]), refused(100), State::Broken, "no /dev/nvidiactl", "nvidia-modprobe"),
        ("no node", files(&[gpu, &NODES[..2]]), refused(100), State::Broken, "no /dev/nvidia-uvm", "nvidia-uvm"),
        (
            "container, no nodes",
            files(&[gpu, &[DOCKER]]),
            refused(100),
            State::Broken,
            "container has no /dev/nvidiactl",
            "--gpus all",
        ),
        ("unseen", files(&[gpu, &NODES]), Err(Obstacle::NoGpu), State::Broken, "does not see it", "nvidia-smi"),
        ("no manager", files(&[gpu, &NODES]), refused(802), State::Broken, "(802)", "nvidia-fabricmanager"),
        ("mismatch", files(&[gpu, &NODES, &[MODULE]]), refused(803), State::Broken, "(803)", "550.54.15"),
        ("compat", files(&[gpu, &NODES]), refused(804), State::Broken, "(804)", "cuda-compat"),
        ("unknown", files(&[gpu, &NODES]), refused(999), State::Broken, "(999)", "dmesg"),
        ("none opens", files(&[gpu, &NODES]), Ok(2), State::Broken, "2 GPUs, and none opens", "nvidia-smi"),
    ];
    for (case, files, found, state, what, mend) in cases {
        let played = Played::new(&format!("cuda-{case}").replace([' ', ','], "-"), &files);
        says(case, &cuda::diagnose(found, &played), state, what, mend);
    }
}

#[test]
fn a_hidden_gpu_and_a_denied_device_file_are_told_by_the_variable_and_the_group() {
    use rig_cuda::Obstacle;
    let mut played = Played::new("hidden", &files(&[&NVIDIA_GPU, &NODES]));
    played.denied = vec![("/dev/nvidia0", 44)];
    for found in [Err(Obstacle::NoGpu), Err(Obstacle::Refused { code: 999, why: "unknown".into() })] {
        says("denied", &cuda::diagnose(found, &played), State::Broken, "group video", "usermod -aG video");
    }
    played.variables = vec![("CUDA_VISIBLE_DEVICES", "-1")];
    let found = Err(Obstacle::Refused { code: 100, why: "no device".into() });
    says("hidden", &cuda::diagnose(found, &played), State::Broken, "\"-1\"", "unset CUDA_VISIBLE_DEVICES");
}

#[cfg(target_os = "linux")]
#[test]
fn broken_systems_with_amds_gpus_are_told_with_what_mends_them() {
    use rig_amd::Obstacle;
    let no_driver = || Err(Obstacle::NoKernelDriver { path: "/dev/kfd".into() });
    let no_node = || Err(Obstacle::NoRenderNode { path: "/dev/dri/renderD128".into() });
    type Case = (
        &'static str,
        Vec<(&'static str, &'static str)>,
        std::result::Result<(), Obstacle>,
        State,
        &'static str,
        &'static str,
    );
    let gpu: &Files = &AMD_GPU;
    const LOADED: (&str, &str) = ("/sys/module/amdgpu/refcnt", "1");
    const FIRMWARE: (&str, &str) = ("/lib/firmware/amdgpu/navi31.bin", "");
    const NOMODESET: (&str, &str) = ("/proc/cmdline", "root=/dev/sda nomodeset quiet\n");
    let chip = || Err(Obstacle::Chip { name: "gfx1030".into() });
    let cases: Vec<Case> = vec![
        ("nothing", files(&[&OTHERS, &NVIDIA_GPU]), no_driver(), State::Absent, "no GPU of AMD's", ""),
        (
            "not loaded",
            files(&[gpu, &[FIRMWARE]]),
            no_driver(),
            State::Broken,
            "amdgpu) is not loaded",
            "modprobe amdgpu",
        ),
        (
            "no firmware",
            files(&[gpu]),
            no_driver(),
            State::Broken,
            "firmware is not installed",
            "firmware-amd-graphics",
        ),
        (
            "nomodeset",
            files(&[gpu, &[FIRMWARE, NOMODESET]]),
            no_driver(),
            State::Broken,
            "nomodeset",
            "without nomodeset",
        ),
        ("no kfd", files(&[gpu, &[LOADED]]), no_driver(), State::Broken, "CONFIG_HSA_AMD", "kernel"),
        (
            "container",
            files(&[gpu, &[LOADED, DOCKER]]),
            no_driver(),
            State::Broken,
            "this container",
            "--device /dev/kfd",
        ),
        ("chip", files(&[gpu]), chip(), State::Unsupported, "gfx1030, and the driver knows gfx1100", ""),
        ("no GPU", files(&[&OTHERS, &[LOADED]]), Err(Obstacle::NoGpu), State::Absent, "no GPU of AMD's", ""),
        ("skipped", files(&[gpu, &[LOADED]]), Err(Obstacle::NoGpu), State::Broken, "lists none", "dmesg"),
        ("no node", files(&[gpu]), no_node(), State::Broken, "no /dev/dri/renderD128", "udevadm"),
        ("container, no node", files(&[gpu, &[DOCKER]]), no_node(), State::Broken, "renderD128", "--device /dev/dri"),
        ("other", files(&[gpu]), Err(Obstacle::Other), State::Broken, "does not open", "dmesg"),
    ];
    for (case, files, found, state, what, mend) in cases {
        let played = Played::new(&format!("amd-{case}").replace([' ', ','], "-"), &files);
        says(case, &amd::diagnose(found, &played), state, what, mend);
    }
}

#[test]
fn a_device_file_that_the_user_may_not_use_is_told_with_its_group() {
    use rig_amd::Obstacle;
    let mut played = Played::new("kfd", &AMD_GPU);
    let denied = || Err(Obstacle::NoAccess { path: "/dev/kfd".into() });
    for (group, what, mend) in [
        (105, "the group render", "usermod -aG render $USER"),
        (4711, "the group 4711", "usermod -aG 4711"),
        (0, "root alone", "udev"),
    ] {
        played.denied = vec![("/dev/kfd", group)];
        says("denied", &amd::diagnose(denied(), &played), State::Broken, what, mend);
    }
}

#[test]
fn where_there_is_no_metal_the_way_to_software_metal_is_told_with_its_library() {
    let (mac, linux) = (metal::Here { apple: true, linux: false }, metal::Here { apple: false, linux: true });
    let bare = Played::new("metal", &[]);
    says("mac", &metal::diagnose(&mac, &bare), State::Broken, "Mac's GPU", "macOS 15");
    says("no library", &metal::diagnose(&linux, &bare), State::Absent, "no Mac", "libllvm19");
    let library = Played::new("llvm", &[("/usr/lib/llvm-19/lib/libLLVM.so.19.1", "")]);
    says("library", &metal::diagnose(&linux, &library), State::Absent, "no Mac", "is here");
    let other = metal::Here { apple: false, linux: false };
    says("elsewhere", &metal::diagnose(&other, &bare), State::Absent, "no Mac", "");
}

#[test]
fn a_driver_that_is_not_built_in_is_to_be_mended_where_its_hardware_is() {
    let (with, without) = (Played::new("with", &NVIDIA_GPU), Played::new("without", &OTHERS));
    says("with", &not_built("cuda", &with), State::Broken, "built without", "--features cuda");
    says("without", &not_built("cuda", &without), State::Absent, "built without", "--features cuda");
    says("amd", &not_built("amd", &with), State::Absent, "built without", "--features amd");
}

#[test]
fn health_is_that_something_beyond_the_host_opens_or_nothing_is_broken() {
    let examined = |states: &[(&'static str, State)]| -> Vec<Examined> {
        let of = |&(driver, state)| Examined { driver, built: true, state, devices: vec![], findings: vec![] };
        states.iter().map(of).collect()
    };
    use State::{Absent, Broken, Opens, Unsupported};
    for (states, all, named) in [
        ([("host", Opens), ("cuda", Absent), ("amd", Absent)], true, false),
        ([("host", Opens), ("cuda", Unsupported), ("amd", Absent)], true, false),
        ([("host", Opens), ("cuda", Broken), ("amd", Absent)], false, false),
        ([("host", Opens), ("cuda", Broken), ("amd", Opens)], true, false),
        ([("host", Opens), ("cuda", Opens), ("amd", Opens)], true, true),
    ] {
        assert_eq!(healthy(&examined(&states), false), all, "{states:?}");
        assert_eq!(healthy(&examined(&states), true), named, "{states:?}");
    }
}

#[test]
fn this_machine_is_a_folder_like_any_other() {
    let played = Played::new("folder", &[("/dev/kfd", "")]);
    let folder = &played.folder;
    assert!(folder.is_there("/dev/kfd") && folder.may_use("/dev/kfd") && !folder.is_there("/dev/nvidia0"));
    assert!(folder.may_use("/dev/nvidia0"), "what is not there is not denied");
    assert_eq!((folder.list("/dev"), folder.list("/sys")), (vec!["kfd".to_owned()], vec![]));
    assert_eq!(folder.text("/dev/nvidia0"), None);
    let group = folder.group("/dev/kfd");
    assert!(cfg!(not(unix)) || group.is_some());
}
