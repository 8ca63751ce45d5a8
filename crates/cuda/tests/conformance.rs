//! The conformance suite on the GPU.
//!
//! The cases run one after the other in this process. Those that lose the device run each in a process of their own, since
//! only a new process recovers from CUDA's sticky errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use rig::{Device, write};
use rig_conformance::suite::{self, Fixtures};
use rig_cuda::GpuOpener;

#[expect(dead_code, reason = "each test binary uses some of it")]
#[path = "gpu/mod.rs"]
mod gpu;

/// The cases that lose the device.
const LOSSES: [&str; 10] = [
    "failure::a_lost_device_says_why_and_keeps_what_was_reached",
    "failure::what_follows_a_lost_device_is_lost_and_others_go_on",
    "failure::memory_of_a_lost_device_drops_at_any_time",
    "failure::a_lost_device_can_be_opened_again_at_once",
    "sharing::a_wrapped_owner_comes_back_after_a_loss",
    "reports::a_fault_behind_the_programs_back_ends_the_next_wait",
    "reports::a_fault_behind_the_programs_back_ends_the_next_submits",
    "reports::a_fault_behind_the_programs_back_ends_the_next_read",
    "reports::a_process_ends_after_work_that_traps",
    "reports::the_loss_of_the_first_of_three_devices_reaches_the_last",
];

struct Gpu {
    loses: bool,
}

impl Fixtures for Gpu {
    type Opener = GpuOpener;

    fn opener(&self) -> GpuOpener {
        rig_cuda::gpu(0)
    }

    fn second(&self) -> GpuOpener {
        rig_cuda::gpu(rig_cuda::count().saturating_sub(1).min(1))
    }

    fn image(&self) -> Vec<u8> {
        gpu::SUITE.to_vec()
    }

    fn bad_images(&self) -> Vec<(String, Vec<u8>)> {
        let mut host = vec![0; 64];
        host[..6].copy_from_slice(b"\x7fELF\x02\x01");
        host[18] = 62;
        vec![
            ("no PTX".into(), b"nonsense".to_vec()),
            ("a text that is cut short".into(), gpu::SUITE[..900].to_vec()),
            ("an ELF object for the host".into(), host),
            ("a fatbin that is cut short".into(), vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 9, 0, 0, 0, 0, 0, 0, 0]),
        ]
    }

    fn spin_rounds(&self) -> u32 {
        2_000_000
    }

    fn dma_function(&self) -> Option<String> {
        let mut functions = std::fs::read_dir("/sys/bus/pci/devices").ok()?.flatten();
        functions.next().map(|entry| entry.file_name().to_string_lossy().into_owned())
    }

    fn lose(&self, device: &Device) -> bool {
        if self.loses {
            let trap = device.load(gpu::TEST).and_then(|image| image.function("trap"));
            let made = trap.and_then(|trap| device.submission().launch(&trap, [write(0)]).make());
            if let (Ok(submission), Ok(y)) = (made, device.buffer(4)) {
                let mut run = submission.take();
                run.part(0).groups([1; 3]).threads([1; 3]);
                let _ = gpu::launch(&mut run, &[&y]);
            }
        }
        self.loses
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        suite::CASES.iter().for_each(|name| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Some(why) = gpu::absent() {
        println!("{why}");
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let (start, mut counts) = (Instant::now(), [0, 0]);
    for (name, case) in suite::cases::<Gpu>() {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        let (began, passed) = (Instant::now(), passes(name, case));
        println!("test {name} ... {} ({} ms)", if passed { "ok" } else { "FAILED" }, began.elapsed().as_millis());
        counts[usize::from(!passed)] += 1;
    }
    let [passed, failed] = counts;
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; finished in {:.2}s",
        start.elapsed().as_secs_f64()
    );
    ExitCode::from(u8::from(failed > 0))
}

/// Runs a case, here or in a process of its own.
fn passes(name: &'static str, case: fn(&Gpu)) -> bool {
    let loses = LOSSES.contains(&name);
    if loses && !gpu::is_child(name) {
        let output = gpu::child(name, &[name]);
        if !output.status.success() {
            println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        }
        return output.status.success();
    }
    catch_unwind(AssertUnwindSafe(|| suite::process::of_test(name, || case(&Gpu { loses })))).is_ok()
}
