//! wgpu on lavapipe, Mesa's Vulkan for the processor.
//!
//! Command buffers serve once, so each submit records anew. Bind groups name the buffers, and are made once.

use pollster::FutureExt as _;

use crate::peer::{ALLOCATION, GROUP, LARGE, PAIRS, Peer, Result, SMALL};

/// y += x, a float a thread. The large grid has two axes, since one holds at most 65,535 groups.
const ADD: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(256)
fn add(@builtin(global_invocation_id) at: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = at.y * groups.x * 256u + at.x;
    y[i] = y[i] + x[i];
}";

/// The groups of the large grid's first axis.
const LARGE_AXIS: usize = 256;

/// A pair of buffers and the group that binds them.
struct Pair {
    y: wgpu::Buffer,
    bound: wgpu::BindGroup,
}

/// A device of wgpu's with the work's buffers.
pub struct Wgpu {
    about: String,
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    small: Vec<Pair>,
    large: Pair,
    /// Where the large buffer is copied to be read.
    staging: wgpu::Buffer,
}

impl Wgpu {
    /// Opens lavapipe; `None` where it is not installed.
    pub fn open() -> Result<Option<Wgpu>> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN;
        descriptor.flags = wgpu::InstanceFlags::empty();
        let adapters = wgpu::Instance::new(descriptor).enumerate_adapters(wgpu::Backends::VULKAN).block_on();
        let Some(adapter) = adapters.into_iter().find(|one| one.get_info().device_type == wgpu::DeviceType::Cpu) else {
            return Ok(None);
        };
        let info = adapter.get_info();
        let about = format!("wgpu 30, {}, {}", info.name, info.driver_info);
        let asked = adapter.request_device(&wgpu::DeviceDescriptor::default()).block_on();
        let (device, queue) = asked.map_err(|error| format!("wgpu gives no device: {error}"))?;
        let source = wgpu::ShaderSource::Wgsl(ADD.into());
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("add"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let small = (0..PAIRS).map(|_| pair(&device, &queue, &pipeline, SMALL)).collect();
        let large = pair(&device, &queue, &pipeline, LARGE);
        let staging = buffer(&device, 4 * LARGE, wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ);
        let wgpu = Wgpu { about, device, queue, pipeline, small, large, staging };
        wgpu.finish()?;
        Ok(Some(wgpu))
    }

    /// Records launches over pairs into one command buffer, and submits it.
    fn submit<'a>(&self, pairs: impl IntoIterator<Item = &'a Pair>, grid: [u32; 2]) {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.pipeline);
        for pair in pairs {
            pass.set_bind_group(0, &pair.bound, &[]);
            pass.dispatch_workgroups(grid[0], grid[1], 1);
        }
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }

    /// Waits for all that was submitted.
    fn finish(&self) -> Result {
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        polled.map(drop).map_err(|error| format!("wgpu does not finish: {error}"))
    }

    /// Copies a buffer's bytes through the staging buffer, and hands them over.
    fn read_back(&self, from: &wgpu::Buffer, len: usize, take: impl FnOnce(&[u8])) -> Result {
        let len = len as u64;
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(from, 0, &self.staging, 0, len);
        self.queue.submit([encoder.finish()]);
        // Should mapping fail, the range below is refused.
        self.staging.map_async(wgpu::MapMode::Read, ..len, drop);
        self.finish()?;
        let mapped = self.staging.get_mapped_range(..len).map_err(|error| format!("wgpu maps nothing: {error}"))?;
        take(&mapped);
        drop(mapped);
        self.staging.unmap();
        Ok(())
    }
}

fn buffer(device: &wgpu::Device, len: usize, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor { label: None, size: len as u64, usage, mapped_at_creation: false })
}

/// The usage of every buffer that a launch names.
fn storage() -> wgpu::BufferUsages {
    wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC
}

fn pair(device: &wgpu::Device, queue: &wgpu::Queue, pipeline: &wgpu::ComputePipeline, floats: usize) -> Pair {
    let [x, y] = [1.0_f32, 0.0].map(|value| {
        let buffer = buffer(device, 4 * floats, storage());
        queue.write_buffer(&buffer, 0, &value.to_ne_bytes().repeat(floats));
        buffer
    });
    let bound = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            wgpu::BindGroupEntry { binding: 0, resource: x.as_entire_binding() },
            wgpu::BindGroupEntry { binding: 1, resource: y.as_entire_binding() },
        ],
    });
    Pair { y, bound }
}

/// The grid of a small launch.
const SMALL_GRID: [u32; 2] = [(SMALL / GROUP) as u32, 1];

impl Peer for Wgpu {
    fn name(&self) -> &'static str {
        "wgpu on lavapipe"
    }

    fn about(&self) -> String {
        self.about.clone()
    }

    fn singles(&mut self, submitted: &mut dyn FnMut()) -> Result {
        self.small.iter().for_each(|pair| self.submit([pair], SMALL_GRID));
        submitted();
        self.finish()
    }

    fn batch(&mut self, submitted: &mut dyn FnMut()) -> Result {
        self.submit(&self.small, SMALL_GRID);
        submitted();
        self.finish()
    }

    fn round_trip(&mut self) -> Result {
        self.submit([&self.small[0]], SMALL_GRID);
        self.finish()
    }

    fn add(&mut self) -> Result {
        self.submit([&self.large], [LARGE_AXIS as u32, (LARGE / GROUP / LARGE_AXIS) as u32]);
        self.finish()
    }

    fn allocate(&mut self) -> Result {
        drop(buffer(&self.device, ALLOCATION, storage()));
        Ok(())
    }

    fn write(&mut self, from: &[f32]) -> Result {
        self.queue.write_buffer(&self.large.y, 0, bytemuck::cast_slice(from));
        self.queue.submit([]);
        self.finish()
    }

    fn read(&mut self, to: &mut [f32]) -> Result {
        self.read_back(&self.large.y, 4 * LARGE, |bytes| bytemuck::cast_slice_mut(to).copy_from_slice(bytes))
    }

    fn small(&mut self, pair: usize) -> Result<Vec<f32>> {
        let mut floats = vec![0.0; SMALL];
        let take = |bytes: &[u8]| bytemuck::cast_slice_mut(&mut floats).copy_from_slice(bytes);
        self.read_back(&self.small[pair].y, 4 * SMALL, take)?;
        Ok(floats)
    }
}
