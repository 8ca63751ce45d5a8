//! A submission's CUDA graph: its parts, in a line or in the order of their slots, and behind all of them the kernel that
//! counts.
//!
//! # Invariants
//!
//! 1. Nothing but its plan's hot calls touches a graph, one at a time, and then its drop.

use rig_edge::{Part, PlanError};

use crate::Cuda;
use crate::edges::Edges;
use crate::fault::fault;
use crate::gpu::Gpu;
use crate::plan::Patch;
use crate::sys::abi::{Code, CopyNode, Exec, Function, MemsetNode, Node, Stream};
use crate::sys::stream::Shape;
use crate::sys::{Failure, Result, abi};

/// The bytes that a node is taken to need where CUDA has no memory for a graph and does not say how much.
const NODE_BYTES: u64 = 4 << 10;

/// A made graph.
pub(crate) struct Graph {
    gpu: &'static Gpu,
    graph: abi::Graph,
    exec: Exec,
    /// One a part.
    nodes: Vec<Node>,
}

impl Graph {
    /// Makes the graph of some parts for the device, in the order of `edges`, which counts the device's value at its end where
    /// it `counts`; none where CUDA refuses the parts as nodes.
    pub fn of(
        cuda: &Cuda,
        parts: &[Part<Cuda>],
        edges: &Edges,
        counts: bool,
    ) -> std::result::Result<Option<Graph>, PlanError> {
        match Graph::make(cuda, parts, edges, counts) {
            Ok(graph) => Ok(Some(graph)),
            Err(failure) if failure.code.is_sticky() => Err(PlanError::Fault(fault(cuda.gpu.api, failure))),
            Err(Failure { code: Code::OUT_OF_MEMORY, .. }) => {
                Err(PlanError::NoMemory((parts.len() as u64 + 1) * NODE_BYTES))
            }
            Err(_) => Ok(None),
        }
    }

    #[expect(unsafe_code, reason = "calls on a graph of this call's own")]
    fn make(cuda: &Cuda, parts: &[Part<Cuda>], edges: &Edges, counts: bool) -> Result<Graph> {
        let gpu = cuda.gpu;
        let _current = gpu.enter()?;
        let nodes = Vec::with_capacity(parts.len());
        let mut made = Graph { gpu, graph: gpu.api.graph_create()?, exec: Exec::NULL, nodes };
        for (index, part) in parts.iter().enumerate() {
            let node = made.add(&made.nodes_of(edges.before(index)), part)?;
            made.nodes.push(node);
        }
        if counts {
            // After these everything has run.
            let ends = made.nodes_of(&edges.leaves());
            let mut params = [cuda.word_at.to_ne_bytes(), cuda.counter_at.to_ne_bytes()].concat();
            // SAFETY: the graph was made above and is this call's alone; its nodes and the kernel are alive.
            unsafe { gpu.api.graph_kernel(made.graph, &ends, gpu.count, &Shape::ONE, &mut params) }?;
        }
        // SAFETY: the graph was made above and is this call's alone.
        made.exec = unsafe { gpu.api.graph_instantiate(made.graph) }?;
        // SAFETY: as above; the stream is alive, since stop does not overlap this call.
        unsafe { gpu.api.exec_upload(made.exec, cuda.stream) }?;
        Ok(made)
    }

    fn nodes_of(&self, parts: &[usize]) -> Vec<Node> {
        parts.iter().map(|&part| self.nodes[part]).collect()
    }

    /// Adds a node that does nothing which matters until it is changed.
    #[expect(unsafe_code, reason = "calls on a graph of this call's own")]
    fn add(&self, after: &[Node], part: &Part<Cuda>) -> Result<Node> {
        let (api, graph) = (self.gpu.api, self.graph);
        let (from, to) = self.gpu.spare();
        match part {
            Part::Launch(launch) => {
                let mut params = vec![0; launch.entry.params];
                let mut add = |shape: &Shape| {
                    // SAFETY: the graph is this call's alone and alive, and so are the nodes before and the function.
                    unsafe { api.graph_kernel(graph, after, launch.entry.function, shape, &mut params) }
                };
                // A function that fixes the threads of its groups takes as many as it has at most.
                add(&Shape::ONE).or_else(|_| add(&Shape { threads: [launch.entry.threads, 1, 1], ..Shape::ONE }))
            }
            Part::Copy(_) => {
                // SAFETY: as above; the addresses are of the GPU's own memory.
                unsafe { api.graph_copy(graph, after, &CopyNode::line(from, to, 1), self.gpu.context()) }
            }
            Part::Memset(_) => {
                // SAFETY: as above.
                unsafe { api.graph_memset(graph, after, &MemsetNode::line(to, 0, 1), self.gpu.context()) }
            }
            Part::Fill(_) => Err(Failure { call: "cuGraphCreate", code: Code::INVALID_VALUE }),
        }
    }

    /// Launches the graph as it is now.
    ///
    /// # Safety
    ///
    /// No other call on the graph runs, and all memory and code that its nodes name outlive the launch.
    #[inline]
    #[expect(unsafe_code, reason = "the caller owes the memory")]
    pub unsafe fn launch(&self, stream: Stream) -> Result<()> {
        // SAFETY: the graph is alive; the rest is the caller's promise.
        unsafe { self.gpu.api.exec_launch(self.exec, stream) }
    }
}

// SAFETY of each call: the graph and its nodes are alive, and by invariant 1 nothing else touches them meanwhile; functions
// outlive the submission that launches them.
#[expect(unsafe_code, reason = "calls on a graph")]
impl Patch for Graph {
    #[inline]
    fn launch(&mut self, node: usize, function: Function, shape: &Shape, params: &mut [u8]) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.gpu.api.exec_kernel(self.exec, self.nodes[node], function, shape, params) }
    }

    fn copy(&mut self, node: usize, from: u64, to: u64, len: u64) -> Result<()> {
        let copy = CopyNode::line(from, to, len as usize);
        // SAFETY: see above.
        unsafe { self.gpu.api.exec_copy(self.exec, self.nodes[node], &copy, self.gpu.context()) }
    }

    fn memset(&mut self, node: usize, at: u64, byte: u8, len: u64) -> Result<()> {
        let memset = MemsetNode::line(at, byte, len as usize);
        // SAFETY: see above.
        unsafe { self.gpu.api.exec_memset(self.exec, self.nodes[node], &memset, self.gpu.context()) }
    }

    fn enable(&mut self, node: usize, enabled: bool) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.gpu.api.exec_enable(self.exec, self.nodes[node], enabled) }
    }
}

#[expect(unsafe_code, reason = "gives a graph back")]
impl Drop for Graph {
    fn drop(&mut self) {
        // What fails here fails because the context is gone, and the graph with it.
        let Ok(_current) = self.gpu.enter() else { return };
        if self.exec != Exec::NULL {
            // SAFETY: rig drops a plan once its work is done or can no longer run, with no hot call on it.
            let _ = unsafe { self.gpu.api.exec_destroy(self.exec) };
        }
        // SAFETY: as above.
        let _ = unsafe { self.gpu.api.graph_destroy(self.graph) };
    }
}
