//! Fills and indirect command buffers, in Rust and in C.
#![cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "the tests call compiled code and launch kernels")]

use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use objc2::runtime::ProtocolObject;
use rig::{Buffer, Builder, Device, read, write};
use rig_conformance::c;
use rig_edge::{Driver, Submitted};
use rig_metal::sys::{
    MTLBlitCommandEncoder, MTLBuffer, MTLCommandBuffer, MTLCommandEncoder, MTLComputeCommandEncoder, MTLSize,
};
use rig_metal::{Capability, Entry, Icb, IndirectLaunch, Metal, abi};
use rig_metal_model::machine::{Machine, What};
use rig_metal_model::protocol::MTLGPUFamily;

use kit::direct::Direct;
use kit::machine::{Mac, until};
use kit::{Kernels, invalid, launch, library, lost, spun, words};

#[expect(dead_code, reason = "each test binary uses some of it")]
mod kit;

fn capability(device: &Device) -> &Capability {
    device.capability::<Metal>().unwrap()
}

/// A size of threads along x.
fn along(width: u32) -> MTLSize {
    MTLSize { width: width as usize, height: 1, depth: 1 }
}

/// The parameters of a kernel of the suite over the memory at an address.
fn params(address: u64, n: u32, scalar: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_ne_bytes());
    bytes[8..12].copy_from_slice(&n.to_ne_bytes());
    bytes[12..].copy_from_slice(&scalar.to_ne_bytes());
    bytes
}

/// The GPU address of a buffer's first byte, which a fill sees.
fn address(device: &Device, buffer: &Buffer) -> u64 {
    let seen = Arc::new(AtomicUsize::new(0));
    let fill = device.submission().fill::<Metal>([read(0)], {
        let seen = Arc::clone(&seen);
        move |_, slots| {
            seen.store(slots[0].device as usize, Ordering::Relaxed);
            Ok(())
        }
    });
    launch(&mut fill.make().unwrap().take(), &[buffer]).unwrap().wait().unwrap();
    seen.load(Ordering::Relaxed) as u64
}

/// Promise M35.
#[test]
fn a_fill_encodes_into_the_open_encoder_in_its_parts_place() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let device = &kernels.device;
    let image = device.load(&library("suite")).unwrap();
    let spin = image.function("spin").unwrap();
    let entry = spin.entry::<Metal>().unwrap().clone();
    let arguments = device.buffer(256).unwrap();
    let y = device.buffer(4 * 64).unwrap();
    let at = address(device, &y);
    arguments.write(|bytes: &mut [u8]| bytes[..16].copy_from_slice(&params(at, 64, 2))).unwrap();
    // iota, then the fill's own dispatch of spin, then rig's.
    let submission = device
        .submission()
        .launch(&image.function("iota").unwrap(), [write(0)])
        .fill::<Metal>([write(0), read(1)], move |encoder, slots| {
            // SAFETY: the handle is the buffer of the slot, which lives for the submit.
            let arguments: &ProtocolObject<dyn MTLBuffer> = unsafe { &*slots[1].handle.cast() };
            let compute = encoder.compute()?;
            compute.setComputePipelineState(entry.pipeline());
            // SAFETY: the parameters lie there.
            unsafe { compute.setBuffer_offset_atIndex(Some(arguments), slots[1].handle_offset as usize, 0) };
            compute.dispatchThreadgroups_threadsPerThreadgroup(along(1), along(64));
            Ok(())
        })
        .launch(&spin, [write(0)])
        .keep(image.clone());
    let mut run = submission.make().unwrap().take();
    run.part(0).groups([1; 3]).threads([64, 1, 1]).set(8, 64u32).set(12, 5u32);
    run.part(2).groups([1; 3]).threads([64, 1, 1]).set(8, 64u32).set(12, 3u32);
    for _ in 0..3 {
        launch(&mut run, &[&y, &arguments]).unwrap();
    }
    let due: Vec<u32> = (0..64).map(|i| spun(5 + i, 5)).collect();
    assert_eq!(words(&y), due);
}

/// Promises M35, M36.
#[test]
fn a_fill_starts_new_command_buffers_and_the_last_stores_its_value() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    direct.submit(&mut direct.iota(1));
    direct.wait(1);
    mac.machine.hold();
    direct.submit(&mut direct.iota(2));
    direct.submit(&mut direct.iota(3));
    direct.submit(&mut direct.iota(4));
    // Value 5 is open when the fill of value 6 starts three more command buffers.
    assert_eq!(direct.submit(&mut direct.iota(5)), Submitted::Encoded);
    let mut fill = direct.fill(|encoder, _| (0..3).try_for_each(|_| encoder.next_buffer()));
    fill.launch(direct.function("iota"), 16);
    let last = fill.params.len() - 1;
    fill.params[last] = bytemuck::cast([64u32, 600]);
    assert_eq!(direct.submit(&mut fill), Submitted::Encoded);
    assert_eq!(mac.machine.counts().committed, 7);
    let mut seen = Vec::new();
    for released in 2..=7 {
        mac.machine.release_one();
        until("the handler", || mac.machine.counts().handlers == released);
        seen.push(direct.shown());
    }
    // The first of the fill's ends value 5; the others hold no value's end; the open one is committed by a completion.
    assert_eq!(seen, [2, 3, 4, 5, 5, 5]);
    mac.machine.release();
    direct.driver.commit(direct.last).unwrap();
    direct.wait(6);
    assert_eq!(direct.words()[1], 601);
    direct.close();
}

/// Promise M36.
#[test]
fn each_command_buffer_that_a_fill_starts_waits_for_its_place() {
    let mac = Mac::new();
    let mut direct = Direct::new();
    mac.machine.hold();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            direct.submit(&mut direct.fill(|encoder, _| (0..1100).try_for_each(|_| encoder.next_buffer())));
            direct
        });
        until("all there is place for", || mac.machine.counts().committed == 1024);
        // TIMEOUT: time enough for a submit that does not block.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!thread.is_finished());
        assert_eq!(mac.machine.counts().command_buffers, 1024);
        mac.machine.release();
        let direct = thread.join().unwrap();
        direct.driver.commit(direct.last).unwrap();
        direct.wait(1);
        direct.close();
    });
}

/// Promise M35.
#[test]
fn a_fill_may_end_the_encoder_and_use_its_own() {
    let mac = Mac::of(Machine::builder().seed(2));
    let kernels = Kernels::new(mac.open());
    let (x, y) = (kernels.device.buffer(4 * 64).unwrap(), kernels.device.buffer(4 * 64).unwrap());
    let submission = kernels.device.submission().fill::<Metal>([read(0), write(1)], |encoder, slots| {
        encoder.end()?;
        // SAFETY: the handles are the buffers of the slots, which live for the submit.
        let from: &ProtocolObject<dyn MTLBuffer> = unsafe { &*slots[0].handle.cast() };
        // SAFETY: as above.
        let to: &ProtocolObject<dyn MTLBuffer> = unsafe { &*slots[1].handle.cast() };
        let fence = objc2::Message::retain(encoder.fence()?);
        let blit = encoder.command_buffer()?.blitCommandEncoder().ok_or("no blit encoder")?;
        blit.waitForFence(&fence);
        // SAFETY: both slots have these bytes.
        unsafe {
            blit.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                from,
                slots[0].handle_offset as usize,
                to,
                slots[1].handle_offset as usize,
                slots[1].len as usize,
            );
        }
        blit.updateFence(&fence);
        blit.endEncoding();
        Ok(())
    });
    let mut run = submission.make().unwrap().take();
    for start in 0..5 {
        kernels.iota(&x, start).unwrap();
        launch(&mut run, &[&x, &y]).unwrap();
        kernels.spin(&y, 1).unwrap();
    }
    assert_eq!(words(&y)[3], spun(4 + 3, 1));
}

fn spins(entry: &Entry, at: u64, rounds: &[u32], capability: &Capability) -> Result<Icb, String> {
    let all: Vec<_> = rounds.iter().map(|&rounds| params(at, 64, rounds)).collect();
    let launches: Vec<_> = all
        .iter()
        .map(|params| IndirectLaunch { entry, params, groups: [1; 3], threads: [64, 1, 1], group_bytes: 0 })
        .collect();
    capability.icb(&launches)
}

/// A fill that runs an indirect command buffer.
fn executes(device: &Device, icb: &Icb) -> rig::Submission {
    let icb = icb.clone();
    device.submission().fill::<Metal>([write(0)], move |encoder, _| encoder.execute(&icb)).make().unwrap()
}

/// Promises M71, M28.
#[test]
fn launches_that_are_recorded_once_run_in_fills_and_keep_their_pipelines() {
    for families in [&[MTLGPUFamily::Apple7][..], &[MTLGPUFamily::Mac2]] {
        let mac = Mac::of(Machine::builder().families(families));
        let kernels = Kernels::new(mac.open());
        let device = &kernels.device;
        let y = device.buffer(4 * 64).unwrap();
        let at = address(device, &y);
        mac.machine.settle();
        let pipelines = mac.live("Pipeline");
        let icb = {
            let image = device.load(&library("suite")).unwrap();
            let spin = image.function("spin").unwrap();
            spins(spin.entry::<Metal>().unwrap(), at, &[1, 2, 3], capability(device)).unwrap()
        };
        assert_eq!(icb.len(), 3);
        device.reclaim();
        assert!(mac.live("Pipeline") > pipelines, "the image is gone, and its pipeline is not");
        let mut run = executes(device, &icb).take();
        kernels.iota(&y, 10).unwrap();
        launch(&mut run, &[&y]).unwrap();
        kernels.spin(&y, 1).unwrap();
        launch(&mut run, &[&y]).unwrap();
        assert_eq!(words(&y)[7], spun(17, 13), "{families:?}");
        drop((run, icb));
        device.reclaim();
        mac.machine.settle();
        until("the release of the pipeline", || mac.live("Pipeline") == pipelines);
        assert_eq!(mac.live("IndirectCommandBuffer"), 0);
    }
}

/// Promise M71.
#[test]
fn recorded_launches_run_one_after_the_other() {
    // The model runs commands that no barrier orders in an order of chance.
    for seed in 0..6 {
        let mac = Mac::of(Machine::builder().seed(seed));
        let kernels = Kernels::new(mac.open());
        let device = &kernels.device;
        let y = device.buffer(4 * 64).unwrap();
        let at = address(device, &y);
        let image = device.load(&library("suite")).unwrap();
        let [iota, spin] = ["iota", "spin"].map(|name| image.function(name).unwrap());
        let [iota, spin] = [&iota, &spin].map(|function| function.entry::<Metal>().unwrap());
        let all = [(spin, params(at, 64, 1)), (iota, params(at, 64, 30)), (spin, params(at, 64, 3))];
        let launches: Vec<_> = all
            .iter()
            .map(|(entry, params)| IndirectLaunch {
                entry,
                params,
                groups: [1; 3],
                threads: [64, 1, 1],
                group_bytes: 0,
            })
            .collect();
        let icb = capability(device).icb(&launches).unwrap();
        launch(&mut executes(device, &icb).take(), &[&y]).unwrap();
        assert_eq!(words(&y)[7], spun(37, 3), "seed {seed}");
    }
}

/// Promise M71.
#[test]
fn an_indirect_command_buffer_that_is_dropped_lasts_until_its_work_is_done() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let device = &kernels.device;
    let y = device.buffer(4 * 64).unwrap();
    let at = address(device, &y);
    let image = device.load(&library("suite")).unwrap();
    let spin = image.function("spin").unwrap();
    let icb = spins(spin.entry::<Metal>().unwrap(), at, &[4], capability(device)).unwrap();
    kernels.iota(&y, 1).unwrap().wait().unwrap();
    let slot = Arc::new(std::sync::Mutex::new(Some(icb)));
    // The fill's own handle is the last, and goes with the fill's run.
    let fill = device.submission().fill::<Metal>([write(0)], {
        let slot = Arc::clone(&slot);
        move |encoder, _| encoder.execute(&slot.lock().unwrap().take().ok_or("once")?)
    });
    mac.machine.hold();
    let point = launch(&mut fill.make().unwrap().take(), &[&y]).unwrap();
    assert_eq!(mac.live("IndirectCommandBuffer"), 1);
    assert!(!point.reached().unwrap());
    mac.machine.release();
    point.wait().unwrap();
    assert_eq!(words(&y)[2], spun(3, 4));
    mac.machine.settle();
    until("its release", || mac.live("IndirectCommandBuffer") == 0);
}

/// Promises M71, C24.
#[test]
fn what_cannot_be_recorded_is_refused_with_the_reason() {
    let mac = Mac::new();
    let device = mac.open();
    let image = device.load(&library("test")).unwrap();
    let function = image.function("limited").unwrap();
    let entry = function.entry::<Metal>().unwrap();
    let one = |threads: u32, group_bytes: u32| IndirectLaunch {
        entry,
        params: &[0; 8],
        groups: [1; 3],
        threads: [threads, 1, 1],
        group_bytes,
    };
    let refused = |launches: &[IndirectLaunch<'_>]| capability(&device).icb(launches).unwrap_err();
    assert!(refused(&[]).contains("1 to 16384"));
    let why = refused(&[one(1, 0), one(97, 0)]);
    assert!(why.contains("launch 1") && why.contains("96"), "{why}");
    assert!(refused(&[one(0, 0)]).contains("threads along x"));
    assert!(refused(&[one(1, 33 << 10)]).contains("threadgroup memory"));
    for (what, part) in [(What::IndirectCommandBuffer, "indirect"), (What::Buffer, "parameters")] {
        mac.machine.faults().refuse(what, 1);
        assert!(refused(&[one(1, 0)]).contains(part), "{what:?}");
        mac.machine.faults().throw(what, 1);
        assert!(refused(&[one(1, 0)]).contains("exception"), "{what:?}");
    }
    mac.machine.faults().clear();
    assert_eq!(mac.live("IndirectCommandBuffer"), 0);
    capability(&device).icb(&[one(96, 16)]).unwrap();
    // Not from a fill.
    let entry = entry.clone();
    let fill = device.submission().fill::<Metal>([], {
        let device = device.clone();
        move |_, _| {
            let launch =
                IndirectLaunch { entry: &entry, params: &[0; 8], groups: [1; 3], threads: [1; 3], group_bytes: 0 };
            match capability(&device).icb(&[launch]) {
                Err(why) if why.contains("a fill") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        }
    });
    launch(&mut fill.keep(image).make().unwrap().take(), &[]).unwrap().wait().unwrap();
}

/// Promise M71.
#[test]
fn an_indirect_command_buffer_of_another_device_fails_the_fill() {
    let mac = Mac::new();
    let (one, two) = (mac.open(), mac.open());
    let image = one.load(&library("test")).unwrap();
    let function = image.function("nothing").unwrap();
    let launch_one = IndirectLaunch {
        entry: function.entry::<Metal>().unwrap(),
        params: &[],
        groups: [1; 3],
        threads: [1; 3],
        group_bytes: 0,
    };
    let icb = capability(&one).icb(&[launch_one]).unwrap();
    let y = two.buffer(64).unwrap();
    assert!(lost(launch(&mut executes(&two, &icb).take(), &[&y])).contains("another device"));
    let y = one.buffer(64).unwrap();
    launch(&mut executes(&one, &icb).take(), &[&y]).unwrap().wait().unwrap();
}

/// Promise C24.
#[test]
fn in_a_fill_rig_is_not_called_and_no_device_opens() {
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let y = kernels.device.buffer(64).unwrap();
    let device = kernels.device.clone();
    let other = y.clone();
    let fill = kernels.device.submission().fill::<Metal>([], move |_, _| {
        assert!(invalid(device.submission().make()).len() > 5);
        assert!(invalid(other.read(|_: &[u8]| ())).len() > 5);
        let timeline = rig_edge::Timeline::new(rig_edge::WordIndex::new(2999));
        let opened = rig_edge::Opener::make(&rig_metal::gpu(0), timeline);
        assert!(opened.err().unwrap().contains("fill"));
        Ok(())
    });
    launch(&mut fill.make().unwrap().take(), &[]).unwrap().wait().unwrap();
    kernels.iota(&y, 1).unwrap();
    assert_eq!(words(&y)[0], 1);
}

/// A folder of this crate's or of rig-host's.
fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The C fills of tests/fills/fill.c, or none where there is no C compiler.
fn compiled() -> Option<libloading::Library> {
    c::library(&folder("include"), &folder("tests/fills/fill.c"), |path| {
        // SAFETY: the library has no code that runs when it is loaded.
        unsafe { libloading::Library::new(path) }.unwrap()
    })
}

/// Promise M70.
#[test]
fn every_compiler_of_c_and_cxx_takes_the_header_without_a_warning() {
    c::takes(&folder("include"), &folder("tests/fills/fill.c"));
}

type Record = unsafe extern "C" fn(
    *const abi::Record,
    *const abi::CEntry,
    *const u8,
    usize,
    u32,
    *mut c_char,
    usize,
) -> *mut abi::CIcb;

/// Promise M70.
#[test]
fn compiled_code_records_launches_and_runs_them_in_its_fills() {
    let Some(code) = compiled() else { return };
    let mac = Mac::new();
    let kernels = Kernels::new(mac.open());
    let device = &kernels.device;
    let y = device.buffer(4 * 64).unwrap();
    let at = address(device, &y);
    let spin = device.load(&library("suite")).unwrap().function("spin").unwrap();
    let all = [params(at, 64, 1), params(at, 64, 2)].concat();
    let metal = capability(device).record();
    let mut why = [0 as c_char; 64];
    let mut record = |threads: u32| {
        // SAFETY: this is the type of the function in fill.c.
        let record = unsafe { code.get::<Record>(b"record") }.unwrap();
        let entry = abi::entry(spin.entry::<Metal>().unwrap());
        // SAFETY: what it is given is alive, and as long as it says.
        unsafe { record(metal, entry, all.as_ptr(), 2, threads, why.as_mut_ptr(), why.len()) }
    };
    assert!(record(4000).is_null());
    let icb = record(64);
    assert!(!icb.is_null());
    // SAFETY: the text has its zero byte.
    let why = unsafe { std::ffi::CStr::from_ptr(why.as_ptr()) }.to_str().unwrap();
    assert!(why.contains("launch 0 asks for 4000") && why.len() == 63, "cut to the caller's bytes: {why}");
    // SAFETY: this is the type of the function in fill.c.
    let twice = unsafe { code.get::<abi::CFill>(b"twice") }.unwrap();
    // SAFETY: the library and the indirect command buffer outlive the submission.
    let fill = unsafe { abi::c_fill(*twice, icb.cast()) };
    let submission = device.submission().fill::<Metal>([write(0)], fill).make().unwrap();
    kernels.iota(&y, 3).unwrap();
    let committed = mac.machine.counts().command_buffers;
    launch(&mut submission.take(), &[&y]).unwrap();
    assert_eq!(words(&y)[9], spun(12, 6));
    assert!(mac.machine.counts().command_buffers > committed, "it started another");
    // SAFETY: the capability that gave the record is alive.
    let release = unsafe { (*metal).icb_release };
    // SAFETY: the record's icb made it, and it is not used again.
    unsafe { release(icb) };
}

/// Promises M70, M60.
#[test]
fn a_fill_in_c_that_fails_gives_its_reason() {
    let Some(code) = compiled() else { return };
    let mac = Mac::new();
    for (name, due) in
        [("fails", "the reason of a fill in C"), ("silent", "the fill answered 7"), ("another", "asked to")]
    {
        let device = mac.open();
        if name == "another" {
            mac.machine.faults().throw(What::Commit, 1);
        }
        // SAFETY: this is the type of the functions in fill.c.
        let function = unsafe { code.get::<abi::CFill>(name.as_bytes()) }.unwrap();
        // SAFETY: they use nothing that they are given but the encoder.
        let fill = unsafe { abi::c_fill(*function, std::ptr::null_mut()) };
        let submission = device.submission().fill::<Metal>([], fill).make().unwrap();
        let why = lost(launch(&mut submission.take(), &[]));
        assert!(why.contains(due), "{name}: {why}");
    }
}

/// `struct work` of both.c.
#[repr(C)]
struct Work {
    icb: *const abi::CIcb,
    spin: *const rig_host::abi::CEntry,
}

// SAFETY: addresses of objects that may be used from any thread.
unsafe impl Send for Work {}

/// The words of `y`, `0, 1, 2 ...` at first, after a fill ran over it twice, with the host's work between.
fn filled(y: &Buffer, fill: Builder) -> Vec<u32> {
    let mut run = fill.make().unwrap().take();
    y.write(|y: &mut [u32]| y.iter_mut().zip(0..).for_each(|(y, i)| *y = i)).unwrap();
    launch(&mut run, &[y]).unwrap();
    y.write(|y: &mut [u32]| y.iter_mut().for_each(|y| *y ^= 0xff)).unwrap();
    launch(&mut run, &[y]).unwrap();
    words(y)
}

/// Promise M70.
#[test]
fn fills_of_one_c_file_give_the_same_on_the_cores_and_on_software_metal() {
    const N: u32 = 1000;
    let both = folder("tests/fills/both.c");
    // SAFETY: the library has no code that runs when it is loaded.
    let open = |path: &Path| unsafe { libloading::Library::new(path) }.unwrap();
    let Some(code) = c::library(&folder("include"), &both, open) else { return };
    let object = c::object(&folder("../host/include"), &folder("../host/tests/c/kernels.c")).unwrap();

    let cores = rig::open(rig_host::cores()).unwrap();
    let y = cores.buffer(4 * N as usize).unwrap();
    let spin = cores.load(&object).unwrap().function("spin").unwrap();
    let spin_entry = rig_host::abi::entry(spin.entry::<rig_host::Host>().unwrap());
    let work = Box::new(Work { icb: std::ptr::null(), spin: spin_entry });
    let user = (&raw const *work).cast_mut().cast();
    // SAFETY: this is the type of the function in both.c.
    let fill = unsafe { code.get::<rig_host::abi::CFill>(b"on_host") }.unwrap();
    // SAFETY: the fill works on its slot, and the submission keeps what it is given.
    let fill = unsafe { rig_host::abi::c_fill(*fill, user) };
    let on_host = filled(&y, cores.submission().fill::<rig_host::Host>([write(0)], fill).keep(work).keep(spin));

    let mac = Mac::new();
    let device = mac.open();
    let y = device.buffer(4 * N as usize).unwrap();
    let spin = device.load(&library("suite")).unwrap().function("spin").unwrap();
    let at = address(&device, &y);
    let all = [params(at, N, 1), params(at, N, 2)];
    let entry = spin.entry::<Metal>().unwrap();
    let launches = all.each_ref().map(|params| IndirectLaunch {
        entry,
        params,
        groups: [N.div_ceil(64), 1, 1],
        threads: [64, 1, 1],
        group_bytes: 0,
    });
    let icb = Box::new(capability(&device).icb(&launches).unwrap());
    let work = Box::new(Work { icb: abi::icb(&icb), spin: std::ptr::null() });
    let user = (&raw const *work).cast_mut().cast();
    // SAFETY: this is the type of the function in both.c.
    let fill = unsafe { code.get::<abi::CFill>(b"on_metal") }.unwrap();
    // SAFETY: the fill runs launches over its slot, and the submission keeps what it is given.
    let fill = unsafe { abi::c_fill(*fill, user) };
    let on_metal = filled(&y, device.submission().fill::<Metal>([write(0)], fill).keep(work).keep(icb));

    assert_eq!(on_host, on_metal);
    assert!((0..N).zip(on_host).all(|(i, word)| word == spun(spun(i, 3) ^ 0xff, 3)));
}
