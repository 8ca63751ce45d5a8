//! Which GPUs there are, as the kernel's topology in sysfs tells: the folder `nodes`, one for each processor.

use crate::sys::{Errno, Port};

/// The folder of the topology.
pub(crate) const NODES: &str = "/sys/devices/virtual/kfd/kfd/topology/nodes";

/// `heap_type` of memory that the host addresses through the GPU's window, all of it.
const HEAP_PUBLIC: u64 = 1;
/// `heap_type` of memory that the host does not address.
const HEAP_PRIVATE: u64 = 2;

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its number among the processors.
    pub number: u32,
    /// The kernel driver's number for it.
    pub gpu_id: u32,
    /// The version of the graphics core: 110000 is gfx1100.
    pub gfx_target_version: u32,
    pub simd_count: u32,
    pub simd_per_cu: u32,
    pub array_count: u32,
    pub simd_arrays_per_engine: u32,
    pub max_waves_per_simd: u32,
    pub num_xcc: u32,
    /// The waves of a compute unit that may have scratch.
    pub scratch_waves_per_unit: u32,
    pub lds_kib: u32,
    pub drm_render_minor: u32,
    pub num_sdma_engines: u32,
    /// The size of the area that waves are saved to, where the kernel tells it.
    pub cwsr_size: u32,
    /// The size of the control stack in that area, where the kernel tells it.
    pub ctl_stack_size: u32,
    /// The bytes of its memory.
    pub vram: u64,
    /// Whether the host addresses all of its memory.
    pub window: bool,
    /// Its PCI address, where it has one.
    pub bus: Option<String>,
    /// The numbers of the processors that it reaches by a link.
    pub links: Vec<u32>,
}

impl Node {
    /// The compute units.
    pub fn compute_units(&self) -> u32 {
        self.simd_count / self.simd_per_cu.max(1)
    }

    /// The shader engines.
    pub fn shader_engines(&self) -> u32 {
        (self.array_count / self.simd_arrays_per_engine.max(1)).max(1)
    }
}

/// The value of a line `key value`.
fn value(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// The GPUs, in the order of their nodes. Those that the process may not see are left out.
pub(crate) fn gpus(port: &dyn Port) -> Result<Vec<Node>, Errno> {
    let mut numbers: Vec<u32> = port.list(NODES)?.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers.into_iter().filter_map(|number| gpu(port, number)).collect())
}

/// The node's GPU, if it is one.
fn gpu(port: &dyn Port, number: u32) -> Option<Node> {
    let folder = format!("{NODES}/{number}");
    let gpu_id = port.read_text(&format!("{folder}/gpu_id")).ok()?.trim().parse().ok()?;
    let text = port.read_text(&format!("{folder}/properties")).ok()?;
    if gpu_id == 0 {
        return None;
    }
    let of = |key| value(&text, key).unwrap_or(0) as u32;
    let banks = folders(port, &format!("{folder}/mem_banks"));
    let banks: Vec<(u64, u64)> = banks
        .iter()
        .map(|bank| (value(bank, "heap_type").unwrap_or(0), value(bank, "size_in_bytes").unwrap_or(0)))
        .collect();
    let heap = |kind| {
        let of_kind = banks.iter().filter(|(heap, _)| *heap == kind);
        of_kind.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes))
    };
    let mut links: Vec<u32> = ["io_links", "p2p_links"]
        .iter()
        .flat_map(|kind| folders(port, &format!("{folder}/{kind}")))
        .filter_map(|link| Some(value(&link, "node_to")? as u32))
        .collect();
    links.sort_unstable();
    links.dedup();
    Some(Node {
        number,
        gpu_id,
        gfx_target_version: of("gfx_target_version"),
        simd_count: of("simd_count"),
        simd_per_cu: of("simd_per_cu"),
        array_count: of("array_count"),
        simd_arrays_per_engine: of("simd_arrays_per_engine"),
        max_waves_per_simd: of("max_waves_per_simd"),
        num_xcc: of("num_xcc").max(1),
        scratch_waves_per_unit: of("max_slots_scratch_cu"),
        lds_kib: of("lds_size_in_kb"),
        drm_render_minor: of("drm_render_minor"),
        num_sdma_engines: of("num_sdma_engines"),
        cwsr_size: of("cwsr_size"),
        ctl_stack_size: of("ctl_stack_size"),
        vram: heap(HEAP_PUBLIC).saturating_add(heap(HEAP_PRIVATE)),
        window: heap(HEAP_PUBLIC) > 0 && heap(HEAP_PRIVATE) == 0,
        bus: bus(&text),
        links,
    })
}

/// The properties in each folder below a folder.
fn folders(port: &dyn Port, folder: &str) -> Vec<String> {
    let names = port.list(folder).unwrap_or_default();
    names.iter().filter_map(|name| port.read_text(&format!("{folder}/{name}/properties")).ok()).collect()
}

/// The PCI address: `location_id` holds bus, device and function.
fn bus(text: &str) -> Option<String> {
    let id = value(text, "location_id").filter(|&id| id != 0)?;
    let domain = value(text, "domain").unwrap_or(0);
    Some(format!("{domain:04x}:{:02x}:{:02x}.{}", id >> 8 & 0xff, id >> 3 & 0x1f, id & 7))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Played;

    fn texts(files: &[(&str, &str)]) -> Played {
        Played::below(NODES, files.iter().copied())
    }

    #[test]
    fn gpus_are_the_nodes_with_a_gpus_number_in_the_order_of_nodes() {
        let properties = "cpu_cores_count 0\nsimd_count 192\nmax_waves_per_simd 16\nlds_size_in_kb 64\nnum_xcc 1\n\
                          array_count 12\nsimd_arrays_per_engine 2\nsimd_per_cu 2\ngfx_target_version 110000\n\
                          max_slots_scratch_cu 32\nlocation_id 768\ndomain 0\ndrm_render_minor 128\nnum_sdma_engines 2\nlocal_mem_size 0\n";
        let texts = texts(&[
            ("0/gpu_id", "0\n"),
            ("0/properties", "cpu_cores_count 16\nsimd_count 0\n"),
            ("10/gpu_id", "5\n"),
            ("10/properties", properties),
            ("2/gpu_id", "51234\n"),
            ("2/properties", properties),
            ("2/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 25753026560\nflags 0\n"),
            ("2/p2p_links/0/properties", "type 2\nnode_from 2\nnode_to 10\n"),
            ("2/io_links/0/properties", "type 2\nnode_from 2\nnode_to 0\n"),
            ("3/gpu_id", "7\n"),
        ]);
        let gpus = gpus(&texts).unwrap();
        assert_eq!(gpus.iter().map(|node| node.number).collect::<Vec<_>>(), [2, 10], "3 may not be seen");
        let gpu = &gpus[0];
        assert_eq!((gpu.gpu_id, gpu.gfx_target_version, gpu.compute_units()), (51234, 110_000, 96));
        assert_eq!((gpu.shader_engines(), gpu.scratch_waves_per_unit), (6, 32));
        assert_eq!((gpu.vram, gpu.window), (25_753_026_560, true));
        assert_eq!(gpu.bus.as_deref(), Some("0000:03:00.0"));
        assert_eq!(gpu.links, [0, 10]);
        assert_eq!((gpus[1].vram, gpus[1].window), (0, false));
    }

    #[test]
    fn a_machine_without_the_kernel_driver_has_no_topology() {
        assert_eq!(gpus(&texts(&[])), Err(Errno::NOENT));
    }
}
