//! Calls on graphs, which are not thread-safe (NVIDIA's documentation): the unsafe ones owe that the graph is alive and
//! that no other call on it runs.

use std::ffi::c_void;

use super::abi::{Context, CopyNode, Exec, Function, Graph, KernelNode, MemsetNode, Node, Stream, extra};
use super::stream::Shape;
use super::{Api, Result, ok};

/// Makes a kernel node's struct, and gives it to `then` while what it points to lives.
fn with_kernel<T>(
    function: Function,
    shape: &Shape,
    params: &mut [u8],
    then: impl FnOnce(*const KernelNode) -> T,
) -> T {
    let mut len = params.len();
    let mut list = extra(params.as_mut_ptr(), &raw mut len);
    let node = KernelNode {
        function,
        groups: shape.groups,
        threads: shape.threads,
        group_bytes: shape.group_bytes,
        kernel_params: std::ptr::null_mut(),
        extra: if params.is_empty() { std::ptr::null_mut() } else { list.as_mut_ptr() },
        kernel: std::ptr::null_mut::<c_void>(),
        context: Context::NULL,
    };
    then(&raw const node)
}

impl Api {
    /// An empty graph.
    pub fn graph_create(&self) -> Result<Graph> {
        let mut graph = Graph::NULL;
        // SAFETY: the call writes one handle.
        ok("cuGraphCreate", unsafe { (self.table.graph_create)(&raw mut graph, 0) })?;
        Ok(graph)
    }

    /// Gives a graph back.
    pub unsafe fn graph_destroy(&self, graph: Graph) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuGraphDestroy", unsafe { (self.table.graph_destroy)(graph) })
    }

    /// Adds a launch after the nodes `after`.
    pub unsafe fn graph_kernel(
        &self,
        graph: Graph,
        after: &[Node],
        function: Function,
        shape: &Shape,
        params: &mut [u8],
    ) -> Result<Node> {
        let (mut node, deps, count) = (Node::NULL, after.as_ptr(), after.len());
        // SAFETY: the struct and what it names live to the end of the call; the rest is the caller's promise.
        let code = with_kernel(function, shape, params, |kernel| unsafe {
            (self.table.graph_kernel)(&raw mut node, graph, deps, count, kernel)
        });
        ok("cuGraphAddKernelNode", code)?;
        Ok(node)
    }

    /// Adds a copy after the nodes `after`.
    pub unsafe fn graph_copy(&self, graph: Graph, after: &[Node], copy: &CopyNode, context: Context) -> Result<Node> {
        let (mut node, deps, count) = (Node::NULL, after.as_ptr(), after.len());
        // SAFETY: the struct lives to the end of the call; the rest is the caller's promise.
        let code = unsafe { (self.table.graph_copy)(&raw mut node, graph, deps, count, copy, context) };
        ok("cuGraphAddMemcpyNode", code)?;
        Ok(node)
    }

    /// Adds a memset after the nodes `after`.
    pub unsafe fn graph_memset(
        &self,
        graph: Graph,
        after: &[Node],
        memset: &MemsetNode,
        context: Context,
    ) -> Result<Node> {
        let (mut node, deps, count) = (Node::NULL, after.as_ptr(), after.len());
        // SAFETY: the struct lives to the end of the call; the rest is the caller's promise.
        let code = unsafe { (self.table.graph_memset)(&raw mut node, graph, deps, count, memset, context) };
        ok("cuGraphAddMemsetNode", code)?;
        Ok(node)
    }

    /// Makes a graph that can be launched.
    pub unsafe fn graph_instantiate(&self, graph: Graph) -> Result<Exec> {
        let mut exec = Exec::NULL;
        // SAFETY: the call writes one handle; the graph is the caller's promise.
        ok("cuGraphInstantiateWithFlags", unsafe { (self.table.graph_instantiate)(&raw mut exec, graph, 0) })?;
        Ok(exec)
    }

    /// Gives a made graph back; launches of it go on.
    pub unsafe fn exec_destroy(&self, exec: Exec) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuGraphExecDestroy", unsafe { (self.table.exec_destroy)(exec) })
    }

    /// Brings a made graph to the GPU.
    pub unsafe fn exec_upload(&self, exec: Exec, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuGraphUpload", unsafe { (self.table.exec_upload)(exec, stream) })
    }

    /// Launches a made graph, as its nodes are now.
    #[inline]
    pub unsafe fn exec_launch(&self, exec: Exec, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuGraphLaunch", unsafe { (self.table.exec_launch)(exec, stream) })
    }

    /// Changes a launch of later launches of the graph. A failure changes nothing.
    #[inline]
    pub unsafe fn exec_kernel(
        &self,
        exec: Exec,
        node: Node,
        function: Function,
        shape: &Shape,
        params: &mut [u8],
    ) -> Result<()> {
        // SAFETY: the struct and what it names live to the end of the call, which copies the parameters; the rest is the
        // caller's promise.
        let code =
            with_kernel(function, shape, params, |kernel| unsafe { (self.table.exec_kernel)(exec, node, kernel) });
        ok("cuGraphExecKernelNodeSetParams", code)
    }

    /// Changes a copy of later launches of the graph. A failure changes nothing.
    pub unsafe fn exec_copy(&self, exec: Exec, node: Node, copy: &CopyNode, context: Context) -> Result<()> {
        // SAFETY: the struct lives to the end of the call; the rest is the caller's promise.
        ok("cuGraphExecMemcpyNodeSetParams", unsafe { (self.table.exec_copy)(exec, node, copy, context) })
    }

    /// Changes a memset of later launches of the graph. A failure changes nothing.
    pub unsafe fn exec_memset(&self, exec: Exec, node: Node, memset: &MemsetNode, context: Context) -> Result<()> {
        // SAFETY: the struct lives to the end of the call; the rest is the caller's promise.
        ok("cuGraphExecMemsetNodeSetParams", unsafe { (self.table.exec_memset)(exec, node, memset, context) })
    }

    /// Whether later launches of the graph run the node, or leave it out.
    pub unsafe fn exec_enable(&self, exec: Exec, node: Node, enabled: bool) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuGraphNodeSetEnabled", unsafe { (self.table.exec_enable)(exec, node, enabled.into()) })
    }
}
