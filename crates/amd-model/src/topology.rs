//! What sysfs says of the machine: a node of the host's processors, and a node for each GPU, as a 7900 XTX has it.

use crate::errno;
use crate::state::{Core, FIRST_MINOR};

/// Where the topology is.
pub(crate) const ROOT: &str = "/sys/devices/virtual/kfd/kfd/topology";
const CLASS: &str = "/sys/class/kfd/kfd/topology";

/// Compute units, as the topology counts them.
pub(crate) const COMPUTE_UNITS: u32 = 96;
const SIMD_PER_CU: u32 = 2;
/// Shader engines, among which the waves that have scratch are parted.
pub(crate) const ENGINES: u32 = 6;
/// Waves of a compute unit that may have scratch.
pub(crate) const SCRATCH_SLOTS: u32 = 32;

/// Bytes of the areas that save waves, by the kernel's rule (kfd_queue.c): what it wants of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Areas {
    pub(crate) control_stack: u32,
    /// The control stack and the waves' registers and group memory.
    pub(crate) save: u32,
    /// What a debugger adds to the mapping.
    pub(crate) debug: u32,
}

/// The end-of-pipe buffer that the kernel wants.
pub(crate) const EOP_BYTES: u32 = 4096;

/// The areas of gfx1100 with [`COMPUTE_UNITS`].
pub(crate) fn areas() -> Areas {
    let page = |bytes: u32| bytes.next_multiple_of(4096);
    let waves = COMPUTE_UNITS * 32;
    let data = page(COMPUTE_UNITS * (0x60000 + 0x4000 + 0x10000 + 0x1000));
    let stack = page(40 + waves * 12 + 8);
    let debug = (waves * 32).next_multiple_of(64);
    Areas { control_stack: stack, save: stack + data, debug }
}

/// The text of a file.
pub(crate) fn read(core: &Core, path: &str) -> Result<String, i32> {
    let path = path.strip_prefix(ROOT).or_else(|| path.strip_prefix(CLASS)).ok_or(errno::ENOENT)?;
    if core.gpus.is_empty() {
        return Err(errno::ENOENT);
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        ["generation_id"] => Ok("2\n".to_owned()),
        ["system_properties"] => Ok(system()),
        ["nodes", node, ref rest @ ..] => {
            let node: usize = node.parse().map_err(|_| errno::ENOENT)?;
            if node > core.gpus.len() {
                return Err(errno::ENOENT);
            }
            file(core, node, rest)
        }
        _ => Err(errno::ENOENT),
    }
}

/// The names in a directory.
pub(crate) fn list(core: &Core, path: &str) -> Result<Vec<String>, i32> {
    let gpus = core.gpus.len();
    if gpus == 0 {
        return Err(errno::ENOENT);
    }
    let names = |names: &[&str]| Ok(names.iter().map(|&name| name.to_owned()).collect());
    if path.trim_end_matches('/') == "/dev/dri" {
        return Ok((0..gpus as u32).map(|gpu| format!("renderD{}", FIRST_MINOR + gpu)).collect());
    }
    if path.trim_end_matches('/') == "/sys/bus/pci/devices" {
        let gpu = std::iter::once("0000:03:00.0".to_owned());
        return Ok(gpu.chain(core.options.functions.iter().cloned()).collect());
    }
    let path = path.strip_prefix(ROOT).or_else(|| path.strip_prefix(CLASS)).ok_or(errno::ENOENT)?;
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [] => names(&["generation_id", "nodes", "system_properties"]),
        ["nodes"] => Ok((0..=gpus).map(|node| node.to_string()).collect()),
        ["nodes", node] if node.parse::<usize>().is_ok_and(|node| node <= gpus) => {
            names(&["caches", "gpu_id", "io_links", "mem_banks", "name", "p2p_links", "properties"])
        }
        ["nodes", node, folder] => {
            let node = node.parse::<usize>().ok().filter(|&node| node <= gpus).ok_or(errno::ENOENT)?;
            let count = match folder {
                "mem_banks" => 1,
                "io_links" => io_links(core, node).len(),
                "p2p_links" => peers(core, node).len(),
                "caches" => 0,
                _ => return Err(errno::ENOENT),
            };
            Ok((0..count).map(|entry| entry.to_string()).collect())
        }
        _ => Err(errno::ENOENT),
    }
}

fn system() -> String {
    "platform_oem 0\nplatform_id 0\nplatform_rev 0\n".to_owned()
}

fn file(core: &Core, node: usize, rest: &[&str]) -> Result<String, i32> {
    let gpu = node.checked_sub(1).map(|gpu| &core.gpus[gpu]);
    match (rest, gpu) {
        (["gpu_id"], None) => Ok("0\n".to_owned()),
        (["gpu_id"], Some(gpu)) => Ok(format!("{}\n", gpu.id)),
        (["name"], None) => Ok("\n".to_owned()),
        (["name"], Some(_)) => Ok("gfx1100\n".to_owned()),
        (["properties"], None) => Ok(text(&host_properties(core))),
        (["properties"], Some(gpu)) => Ok(text(&properties(core, node, gpu.minor))),
        (["mem_banks", "0", "properties"], None) => Ok(bank(0, core.options.gtt, 64)),
        // The kind says whether the host's window covers all of the memory.
        (["mem_banks", "0", "properties"], Some(_)) => {
            Ok(bank(if core.options.window { 1 } else { 2 }, core.options.vram, 384))
        }
        (["io_links", entry, "properties"], _) => link(node, &io_links(core, node), entry),
        (["p2p_links", entry, "properties"], _) => link(node, &peers(core, node), entry),
        _ => Err(errno::ENOENT),
    }
}

fn text(properties: &[(&str, u64)]) -> String {
    properties.iter().map(|(name, value)| format!("{name} {value}\n")).collect()
}

fn bank(heap: u32, bytes: u64, width: u32) -> String {
    format!("heap_type {heap}\nsize_in_bytes {bytes}\nflags 0\nwidth {width}\nmem_clk_max 1249\n")
}

/// The nodes that a node has a link of the host's to.
fn io_links(core: &Core, node: usize) -> Vec<usize> {
    if node == 0 { (1..=core.gpus.len()).collect() } else { vec![0] }
}

/// The GPUs whose memory a GPU reaches by itself, over the host's bus.
fn peers(core: &Core, node: usize) -> Vec<usize> {
    let others = (1..=core.gpus.len()).filter(|&other| node != 0 && other != node);
    others.filter(|_| core.options.peers).collect()
}

fn link(node: usize, links: &[usize], entry: &str) -> Result<String, i32> {
    let to = entry.parse::<usize>().ok().and_then(|entry| links.get(entry)).ok_or(errno::ENOENT)?;
    Ok(format!("type 2\nversion_major 0\nversion_minor 0\nnode_from {node}\nnode_to {to}\nweight 20\nflags 1\n"))
}

fn host_properties(core: &Core) -> Vec<(&'static str, u64)> {
    let mut all = vec![("cpu_cores_count", 16), ("simd_count", 0), ("mem_banks_count", 1), ("caches_count", 0)];
    all.extend([("io_links_count", core.gpus.len() as u64), ("cpu_core_id_base", 0), ("simd_id_base", 0)]);
    all.extend([("gfx_target_version", 0), ("vendor_id", 0), ("device_id", 0), ("drm_render_minor", 0)]);
    all
}

fn properties(core: &Core, node: usize, minor: u32) -> Vec<(&'static str, u64)> {
    let areas = areas();
    let mut all = vec![
        ("cpu_cores_count", 0),
        ("simd_count", u64::from(COMPUTE_UNITS * SIMD_PER_CU)),
        ("mem_banks_count", 1),
        ("caches_count", 0),
        ("io_links_count", 1),
        ("p2p_links_count", peers(core, node).len() as u64),
        ("cpu_core_id_base", 0),
        ("simd_id_base", 2_147_487_744),
        ("max_waves_per_simd", 16),
        ("lds_size_in_kb", 64),
        ("gds_size_in_kb", 0),
        ("num_gws", 64),
        ("wave_front_size", 32),
        ("array_count", u64::from(ENGINES * 2)),
        ("simd_arrays_per_engine", 2),
        ("cu_per_simd_array", 8),
        ("simd_per_cu", u64::from(SIMD_PER_CU)),
        ("max_slots_scratch_cu", u64::from(SCRATCH_SLOTS)),
        ("gfx_target_version", u64::from(core.options.gfx_target)),
        ("vendor_id", 4098),
        ("device_id", 29_772),
        ("location_id", 768),
        ("domain", 0),
        ("drm_render_minor", u64::from(minor)),
        ("hive_id", 0),
        ("num_sdma_engines", 2),
        ("num_sdma_xgmi_engines", 0),
        ("num_sdma_queues_per_engine", 6),
        ("num_cp_queues", 8),
        ("max_engine_clk_fcompute", 2304),
        ("local_mem_size", 0),
        ("fw_version", 550),
        ("capability", 671_588_992),
        ("sdma_fw_version", 19),
        ("unique_id", 0x5e1f_0000 + u64::from(minor)),
        ("num_xcc", 1),
        ("max_engine_clk_ccompute", 4500),
    ];
    if core.options.areas_in_topology {
        all.extend([("cwsr_size", u64::from(areas.save)), ("ctl_stack_size", u64::from(areas.control_stack))]);
        all.extend([("eop_buffer_size", u64::from(EOP_BYTES)), ("debug_memory_size", u64::from(areas.debug))]);
    }
    all
}
