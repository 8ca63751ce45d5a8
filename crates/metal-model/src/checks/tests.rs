//! Each kind of violation by a kernel that provokes it, beside its twin that stays within bounds and passes: as a loop
//! over threads and on fibers, with the light passes and with all.

use std::fmt::Write;
use std::sync::Arc;

use crate::address::gpu_address;
use crate::container::{Library, pack};
use crate::kernel::{Bound, CompileOptions, Constants, Dispatch, Effort, Kernel, MemoryAccess, Residency, Violation};
use crate::workers::Workers;

/// What a parameter of a test's kernel is.
#[derive(Clone, Copy)]
enum Parameter {
    /// Device memory at an index.
    Device(u32),
    /// Constant memory at an index.
    Constant(u32),
    /// Threadgroup memory at an index.
    Threadgroup(u32),
    /// The thread's place in the grid.
    Place,
}

use Parameter::{Constant, Device, Place, Threadgroup};

impl Parameter {
    fn kind(self) -> &'static str {
        match self {
            Device(_) => "ptr addrspace(1)",
            Constant(_) => "ptr addrspace(2)",
            Threadgroup(_) => "ptr addrspace(3)",
            Place => "i32",
        }
    }

    fn metadata(self, at: usize) -> String {
        let buffer = |index: u32, space: u32, access: &str| {
            format!(
                "!{{i32 {at}, !\"air.buffer\", !\"air.location_index\", i32 {index}, i32 1, !\"{access}\", \
                 !\"air.address_space\", i32 {space}, !\"air.arg_type_size\", i32 4, !\"air.arg_type_align_size\", i32 4, \
                 !\"air.arg_type_name\", !\"float\", !\"air.arg_name\", !\"a{at}\"}}"
            )
        };
        match self {
            Device(index) => buffer(index, 1, "air.read_write"),
            Constant(index) => buffer(index, 2, "air.read"),
            Threadgroup(index) => buffer(index, 3, "air.read_write"),
            Place => format!(
                "!{{i32 {at}, !\"air.thread_position_in_grid\", !\"air.arg_type_name\", !\"uint\", !\"air.arg_name\", !\"i\"}}"
            ),
        }
    }
}

/// The text of a kernel `k` with these parameters, `%0` and on.
fn text(globals: &str, parameters: &[Parameter], body: &str) -> String {
    let kinds: Vec<_> = parameters.iter().enumerate().map(|(at, one)| format!("{} %{at}", one.kind())).collect();
    let mut text = format!(
        "target triple = \"air64_v26-apple-macosx14.0.0\"\n{globals}\ndeclare void @air.wg.barrier(i32, i32)\n\
         define void @k({}) {{\nentry:\n{body}\n}}\n!air.kernel = !{{!0}}\n!0 = !{{ptr @k, !1, !2}}\n!1 = !{{}}\n",
        kinds.join(", ")
    );
    let list: Vec<_> = (0..parameters.len()).map(|at| format!("!{}", at + 3)).collect();
    let _ = writeln!(text, "!2 = !{{{}}}", list.join(", "));
    for (at, parameter) in parameters.iter().enumerate() {
        let _ = writeln!(text, "!{} = {}", at + 3, parameter.metadata(at));
    }
    text
}

/// Sixteen floats that nothing else lies beside, and in front of them some more of the same allocation of the host's.
struct Memory {
    words: Box<[u64]>,
}

/// Words before and behind what is bound, so that a check that lets an access pass ends in no fault.
const MARGIN: usize = 64;

impl Memory {
    fn new(bytes: usize) -> Self {
        Self { words: vec![0; MARGIN * 2 + bytes.div_ceil(8)].into() }
    }

    fn address(&self) -> u64 {
        gpu_address(self.words.as_ptr().expose_provenance() as u64) + MARGIN as u64 * 8
    }

    fn set(&mut self, at: usize, word: u64) {
        self.words[MARGIN + at] = word;
    }

    fn word(&self, at: usize) -> u64 {
        std::hint::black_box(&self.words)[MARGIN + at]
    }

    fn untouched(&self) -> bool {
        self.words[..MARGIN].iter().chain(&self.words[self.words.len() - MARGIN..]).all(|word| *word == 0)
    }
}

/// A dispatch of one group.
#[derive(Clone)]
struct Run {
    threads: u32,
    buffers: Vec<(u32, Bound)>,
    threadgroup: Vec<(u32, u32)>,
    resident: Vec<(u64, u64)>,
}

impl Run {
    fn new(threads: u32, buffers: &[(u32, &Memory, u64)]) -> Self {
        let buffers =
            buffers.iter().map(|(index, memory, len)| (*index, Bound { address: memory.address(), len: *len }));
        Self { threads, buffers: buffers.collect(), threadgroup: Vec::new(), resident: Vec::new() }
    }

    fn go(&self, kernel: &Kernel) -> Result<(), Violation> {
        let (mut buffers, mut threadgroup) = ([None; 31], [0; 31]);
        self.buffers.iter().for_each(|(index, bound)| buffers[*index as usize] = Some(*bound));
        self.threadgroup.iter().for_each(|(index, bytes)| threadgroup[*index as usize] = *bytes);
        let resident = Residency::new(self.resident.iter().copied());
        let (groups, threads) = ([1; 3], [self.threads, 1, 1]);
        let dispatch =
            Dispatch { groups, threads, grid: None, buffers: &buffers, threadgroup: &threadgroup, resident: &resident };
        kernel.dispatch(&dispatch, &Workers::new(1))
    }
}

/// Compiles a kernel in each way there is, and hands each to the test.
fn each(globals: &str, parameters: &[Parameter], body: &str, test: impl Fn(&Kernel, &str)) {
    for fibers in [false, true] {
        let barrier = if fibers { "  call void @air.wg.barrier(i32 2, i32 1)\n" } else { "" };
        let text = text(globals, parameters, &format!("{barrier}{body}"));
        let library = Library::open(Arc::new(pack(&[("k", &text)]).unwrap())).unwrap();
        for effort in [Effort::Fast, Effort::Full] {
            let options = CompileOptions { effort, ..CompileOptions::default() };
            let kernel = Kernel::compile(&library, "k", &Constants::default(), &options).unwrap();
            test(&kernel, &format!("fibers: {fibers}, {effort:?}"));
        }
    }
}

/// The address, size and kind of access of a violation by a pointer to a buffer.
fn out_of_bounds(outcome: Result<(), Violation>) -> (u64, u64, MemoryAccess) {
    match outcome {
        Err(Violation::OutOfBounds { kernel, address, size, access, .. }) if kernel == "k" => (address, size, access),
        other => panic!("no access out of bounds: {other:?}"),
    }
}

const INDEX: &str = "  %i = zext i32 %1 to i64\n  %p = getelementptr inbounds float, ptr addrspace(1) %0, i64 %i\n";

#[test]
fn a_load_past_the_bound_length_is_a_violation_and_one_up_to_it_is_none() {
    let body = format!(
        "{INDEX}  %x = load float, ptr addrspace(1) %p, align 4\n  store float %x, ptr addrspace(1) %2, align 4\n  ret void"
    );
    each("", &[Device(0), Place, Device(1)], &body, |kernel, how| {
        let (from, to) = (Memory::new(64), Memory::new(8));
        let run = |threads, len| Run::new(threads, &[(0, &from, len), (1, &to, 8)]).go(kernel);
        assert_eq!(run(16, 64), Ok(()), "{how}");
        // Fifteen and three quarters: the sixteenth is not all there.
        for len in [60, 61, 63] {
            assert_eq!(out_of_bounds(run(16, len)), (from.address() + 60, 4, MemoryAccess::Read), "{how} {len}");
        }
        assert_eq!(out_of_bounds(run(17, 64)), (from.address() + 64, 4, MemoryAccess::Read), "{how}");
        assert_eq!(run(15, 60), Ok(()), "{how}");
        assert_eq!(out_of_bounds(run(1, 3)), (from.address(), 4, MemoryAccess::Read), "{how}");
    });
}

#[test]
fn a_store_past_the_bound_length_does_not_happen() {
    let body = format!("{INDEX}  store float 1.0, ptr addrspace(1) %p, align 4\n  ret void");
    each("", &[Device(0), Place], &body, |kernel, how| {
        let memory = Memory::new(64);
        assert_eq!(Run::new(16, &[(0, &memory, 64)]).go(kernel), Ok(()), "{how}");
        assert_eq!(memory.word(7), 0x3f80_0000_3f80_0000, "{how}");
        let outcome = Run::new(40, &[(0, &memory, 64)]).go(kernel);
        assert_eq!(out_of_bounds(outcome), (memory.address() + 64, 4, MemoryAccess::Write), "{how}");
        assert!(memory.untouched(), "{how}");
    });
}

#[test]
fn an_index_before_the_buffer_or_one_that_wraps_is_a_violation() {
    // One less than the place, times a step that the buffer holds.
    let body = "  %less = sub i32 %1, 1\n  %i = sext i32 %less to i64\n  %s = load i64, ptr addrspace(2) %2, align 8\n\
                \x20 %at = mul i64 %i, %s\n  %p = getelementptr float, ptr addrspace(1) %0, i64 %at\n\
                \x20 store float 1.0, ptr addrspace(1) %p, align 4\n  ret void";
    each("", &[Device(0), Place, Constant(1)], body, |kernel, how| {
        let (memory, mut step) = (Memory::new(64), Memory::new(8));
        let run = |step: &Memory, threads| Run::new(threads, &[(0, &memory, 64), (1, step, 8)]).go(kernel);
        step.set(0, 1);
        assert_eq!(out_of_bounds(run(&step, 16)), (memory.address() - 4, 4, MemoryAccess::Write), "{how}");
        // A step of minus one: the first thread stays, the second has no offset, the third leaves.
        step.set(0, u64::MAX);
        assert_eq!(run(&step, 2), Ok(()), "{how}");
        assert_eq!(out_of_bounds(run(&step, 3)), (memory.address() - 4, 4, MemoryAccess::Write), "{how}");
        // Times four this is 2^64 and nothing.
        step.set(0, 1 << 62);
        assert_eq!(run(&step, 16), Ok(()), "{how}");
        step.set(0, 1 << 60);
        assert!(run(&step, 16).is_err(), "{how}");
        assert!(memory.untouched(), "{how}");
    });
}

#[test]
fn atomic_operations_copies_and_fills_are_checked() {
    let rmw = format!("{INDEX}  %old = atomicrmw add ptr addrspace(1) %p, i32 1 seq_cst\n  ret void");
    let exchange = format!("{INDEX}  %old = cmpxchg ptr addrspace(1) %p, i32 0, i32 1 seq_cst seq_cst\n  ret void");
    for body in [&rmw, &exchange] {
        each("", &[Device(0), Place], body, |kernel, how| {
            let memory = Memory::new(64);
            assert_eq!(Run::new(16, &[(0, &memory, 64)]).go(kernel), Ok(()), "{how}");
            assert_eq!(memory.word(0), 0x1_0000_0001, "{how}");
            let outcome = Run::new(17, &[(0, &memory, 64)]).go(kernel);
            assert_eq!(out_of_bounds(outcome), (memory.address() + 64, 4, MemoryAccess::Atomic), "{how}");
            assert!(memory.untouched(), "{how}");
        });
    }
    let globals = "declare void @llvm.memcpy.p1.p1.i64(ptr addrspace(1), ptr addrspace(1), i64, i1)\n\
                   declare void @llvm.memset.p1.i64(ptr addrspace(1), i8, i64, i1)\n";
    let size = "  %n = load i64, ptr addrspace(2) %2, align 8\n";
    let copy = format!(
        "{size}  call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) %0, ptr addrspace(1) %1, i64 %n, i1 false)\n  ret void"
    );
    each(globals, &[Device(0), Device(1), Constant(2)], &copy, |kernel, how| {
        let (to, mut from, mut size) = (Memory::new(64), Memory::new(64), Memory::new(8));
        from.set(7, 7);
        let run = |size: &Memory, to_len, from_len| {
            Run::new(1, &[(0, &to, to_len), (1, &from, from_len), (2, size, 8)]).go(kernel)
        };
        size.set(0, 64);
        assert_eq!(run(&size, 64, 64), Ok(()), "{how}");
        assert_eq!(to.word(7), 7, "{how}");
        assert_eq!(out_of_bounds(run(&size, 63, 64)), (to.address(), 64, MemoryAccess::Write), "{how}");
        assert_eq!(out_of_bounds(run(&size, 64, 63)), (from.address(), 64, MemoryAccess::Read), "{how}");
        size.set(0, 0);
        assert_eq!(run(&size, 64, 64), Ok(()), "{how}");
        size.set(0, u64::MAX);
        assert!(run(&size, 64, 64).is_err(), "{how}");
    });
    let fill = "  call void @llvm.memset.p1.i64(ptr addrspace(1) %0, i8 1, i64 32, i1 false)\n  ret void";
    each(globals, &[Device(0)], fill, |kernel, how| {
        let memory = Memory::new(64);
        assert_eq!(Run::new(1, &[(0, &memory, 32)]).go(kernel), Ok(()), "{how}");
        assert_eq!((memory.word(3), memory.word(4)), (0x0101_0101_0101_0101, 0), "{how}");
        let outcome = Run::new(1, &[(0, &memory, 31)]).go(kernel);
        assert_eq!(out_of_bounds(outcome), (memory.address(), 32, MemoryAccess::Write), "{how}");
    });
}

#[test]
fn a_pointer_from_memory_must_lead_to_what_is_resident() {
    let body = "  %q = load ptr addrspace(1), ptr addrspace(2) %0, align 8\n  %i = zext i32 %1 to i64\n\
                \x20 %p = getelementptr inbounds float, ptr addrspace(1) %q, i64 %i\n\
                \x20 store float 1.0, ptr addrspace(1) %p, align 4\n  ret void";
    each("", &[Constant(0), Place], body, |kernel, how| {
        let (target, mut pointers) = (Memory::new(64), Memory::new(8));
        let run = |pointers: &Memory, threads, resident: &[(u64, u64)]| {
            let run = Run::new(threads, &[(0, pointers, 8)]);
            Run { resident: resident.to_vec(), ..run }.go(kernel)
        };
        let all = [(target.address(), 64)];
        pointers.set(0, target.address());
        assert_eq!(run(&pointers, 16, &all), Ok(()), "{how}");
        assert_eq!(target.word(0), 0x3f80_0000_3f80_0000, "{how}");
        assert_eq!(out_of_bounds(run(&pointers, 17, &all)), (target.address() + 64, 4, MemoryAccess::Write), "{how}");
        pointers.set(0, target.address() + 32);
        assert_eq!(run(&pointers, 8, &all), Ok(()), "{how}");
        assert_eq!(out_of_bounds(run(&pointers, 9, &all)), (target.address() + 64, 4, MemoryAccess::Write), "{how}");
        pointers.set(0, target.address());
        let not_resident = |outcome, address| match outcome {
            Err(Violation::NotResident { address: at, size: 4, access: MemoryAccess::Write, .. }) => {
                assert_eq!(at, address)
            }
            other => panic!("{how}: {other:?}"),
        };
        not_resident(run(&pointers, 1, &[]), target.address());
        // An address of the host's is none of the GPU's.
        let host = crate::address::host_address(target.address());
        pointers.set(0, host);
        not_resident(run(&pointers, 1, &all), host);
        pointers.set(0, 0);
        not_resident(run(&pointers, 1, &all), 0);
        assert!(target.untouched(), "{how}");
    });
}

#[test]
fn an_access_that_is_not_aligned_as_its_type_is_a_violation() {
    let body = "  %s = load i64, ptr addrspace(2) %1, align 8\n  %p = getelementptr i8, ptr addrspace(1) %0, i64 %s\n\
                \x20 %x = load i32, ptr addrspace(1) %p, align 4\n  store i32 %x, ptr addrspace(1) %2, align 1\n  ret void";
    each("", &[Device(0), Constant(1), Device(2)], body, |kernel, how| {
        let (memory, mut at, to) = (Memory::new(64), Memory::new(8), Memory::new(16));
        let run = |at: &Memory, to_offset| {
            let mut run = Run::new(1, &[(0, &memory, 64), (1, at, 8), (2, &to, 16)]);
            run.buffers[2].1.address += to_offset;
            run.go(kernel)
        };
        at.set(0, 8);
        assert_eq!(run(&at, 0), Ok(()), "{how}");
        assert_eq!(run(&at, 1), Ok(()), "{how}: the store asks for no alignment");
        for offset in [1, 2, 3, 9] {
            at.set(0, offset);
            match run(&at, 0) {
                Err(Violation::MisalignedAccess { address, size: 4, .. }) => {
                    assert_eq!(address, memory.address() + offset)
                }
                other => panic!("{how}: {other:?}"),
            }
        }
    });
}

#[test]
fn threadgroup_memory_is_checked_against_what_is_set_and_what_is_declared() {
    let body = "  %i = zext i32 %1 to i64\n  %p = getelementptr inbounds float, ptr addrspace(3) %0, i64 %i\n\
         \x20 store float 1.0, ptr addrspace(3) %p, align 4\n  ret void";
    let is_threadgroup = |outcome: Result<(), Violation>, how: &str| {
        assert!(matches!(outcome, Err(Violation::ThreadgroupBounds { size: 4, .. })), "{how}: {outcome:?}");
    };
    each("", &[Threadgroup(0), Place], body, |kernel, how| {
        let run = |threads, bytes| Run { threadgroup: vec![(0, bytes)], ..Run::new(threads, &[]) }.go(kernel);
        assert_eq!(run(16, 64), Ok(()), "{how}");
        is_threadgroup(run(17, 64), how);
        // The sixteenth is not all there.
        is_threadgroup(run(16, 63), how);
        assert_eq!(run(20, 80), Ok(()), "{how}");
    });
    let body = body.replace("ptr addrspace(3) %0", "ptr addrspace(3) @shared").replace("%1", "%0");
    let globals = "@shared = internal addrspace(3) global [16 x float] undef, align 4";
    each(globals, &[Place], &body, |kernel, how| {
        assert_eq!(Run::new(16, &[]).go(kernel), Ok(()), "{how}");
        is_threadgroup(Run::new(17, &[]).go(kernel), how);
    });
    // A place that is known beforehand, and beyond.
    let body = "  %p = getelementptr [16 x float], ptr addrspace(3) @shared, i64 0, i64 16\n\
                \x20 store float 1.0, ptr addrspace(3) %p, align 4\n  ret void";
    each(globals, &[], body, |kernel, how| is_threadgroup(Run::new(1, &[]).go(kernel), how));
    each(globals, &[], &body.replace("i64 16", "i64 15"), |kernel, how| {
        assert_eq!(Run::new(1, &[]).go(kernel), Ok(()), "{how}");
    });
}

#[test]
fn a_threads_own_variables_are_checked() {
    // The index is known at run time alone, and the answer is stored.
    let body = "  %v = alloca [4 x i32], align 4\n  call void @llvm.memset.p0.i64(ptr %v, i8 0, i64 16, i1 false)\n\
                \x20 %n = load i64, ptr addrspace(2) %1, align 8\n\
                \x20 %p = getelementptr inbounds [4 x i32], ptr %v, i64 0, i64 %n\n  store i32 7, ptr %p, align 4\n\
                \x20 %q = getelementptr inbounds [4 x i32], ptr %v, i64 0, i64 2\n  %x = load i32, ptr %q, align 4\n\
                \x20 store i32 %x, ptr addrspace(1) %0, align 4\n  ret void";
    let globals = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)";
    each(globals, &[Device(0), Constant(1)], body, |kernel, how| {
        let (memory, mut index) = (Memory::new(8), Memory::new(8));
        let run = |index: &Memory| Run::new(1, &[(0, &memory, 4), (1, index, 8)]).go(kernel);
        for (at, value) in [(2, 7), (3, 0)] {
            index.set(0, at);
            assert_eq!(run(&index), Ok(()), "{how}");
            assert_eq!(memory.word(0), value, "{how}");
        }
        for at in [4, u64::MAX, 1 << 62 | 4] {
            index.set(0, at);
            let outcome = run(&index);
            assert!(matches!(outcome, Err(Violation::PrivateBounds { size: 4, .. })), "{how} {at}: {outcome:?}");
        }
    });
}

#[test]
fn a_pointer_that_is_one_of_two_is_checked_against_its_own_range() {
    let store = "  store float 1.0, ptr addrspace(1) %p, align 4\n";
    let chosen = format!(
        "  %i = zext i32 %2 to i64\n  %odd = and i32 %2, 1\n  %c = icmp eq i32 %odd, 0\n\
         \x20 %b = select i1 %c, ptr addrspace(1) %0, ptr addrspace(1) %1\n\
         \x20 %p = getelementptr float, ptr addrspace(1) %b, i64 %i\n{store}  ret void"
    );
    // A pointer that walks, from one of two buffers.
    let walks = format!(
        "  %odd = and i32 %2, 1\n  %c = icmp eq i32 %odd, 0\n  br i1 %c, label %even, label %walk\neven:\n  br label %walk\n\
         walk:\n  %p = phi ptr addrspace(1) [ %0, %even ], [ %1, %entry ], [ %next, %walk ]\n\
         \x20 %n = phi i32 [ 0, %even ], [ 0, %entry ], [ %m, %walk ]\n{store}\
         \x20 %next = getelementptr float, ptr addrspace(1) %p, i64 1\n  %m = add i32 %n, 1\n\
         \x20 %more = icmp ule i32 %m, %2\n  br i1 %more, label %walk, label %end\nend:\n  ret void"
    );
    for body in [chosen, walks] {
        each("", &[Device(0), Device(1), Place], &body, |kernel, how| {
            let (one, other) = (Memory::new(64), Memory::new(64));
            let run = |threads, one_len, other_len| {
                Run::new(threads, &[(0, &one, one_len), (1, &other, other_len)]).go(kernel)
            };
            assert_eq!(run(16, 60, 64), Ok(()), "{how}");
            assert_eq!(out_of_bounds(run(16, 56, 64)), (one.address() + 56, 4, MemoryAccess::Write), "{how}");
            assert_eq!(out_of_bounds(run(16, 64, 60)), (other.address() + 60, 4, MemoryAccess::Write), "{how}");
            assert!(one.untouched() && other.untouched(), "{how}");
        });
    }
}

#[test]
fn a_constant_table_of_the_kernels_is_checked() {
    let body = "  %i = zext i32 %1 to i64\n  %q = getelementptr inbounds [8 x i32], ptr addrspace(2) @table, i64 0, i64 %i\n\
         \x20 %x = load i32, ptr addrspace(2) %q, align 4\n  %p = getelementptr i32, ptr addrspace(1) %0, i64 %i\n\
         \x20 store i32 %x, ptr addrspace(1) %p, align 4\n  ret void";
    let globals = "@table = internal addrspace(2) constant [8 x i32] [i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8], align 4";
    each(globals, &[Device(0), Place], body, |kernel, how| {
        let memory = Memory::new(64);
        assert_eq!(Run::new(8, &[(0, &memory, 64)]).go(kernel), Ok(()), "{how}");
        assert_eq!(memory.word(3), 8 << 32 | 7, "{how}");
        let (_, size, access) = out_of_bounds(Run::new(9, &[(0, &memory, 64)]).go(kernel));
        assert_eq!((size, access), (4, MemoryAccess::Read), "{how}");
    });
}

#[test]
fn one_buffer_bound_twice_is_read_and_written_in_order() {
    // Declared as not overlapping, as Apple's compiler does.
    let body = "  %i = zext i32 %2 to i64\n  %q = getelementptr float, ptr addrspace(1) %0, i64 %i\n\
                \x20 store float 1.0, ptr addrspace(1) %q, align 4, !alias.scope !20, !noalias !21\n\
                \x20 %p = getelementptr float, ptr addrspace(1) %1, i64 %i\n\
                \x20 %x = load float, ptr addrspace(1) %p, align 4, !alias.scope !21, !noalias !20\n\
                \x20 %y = fadd float %x, 1.0\n  store float %y, ptr addrspace(1) %q, align 4, !alias.scope !20, !noalias !21\n  ret void";
    let globals =
        "!20 = !{!22}\n!21 = !{!23}\n!22 = distinct !{!22, !24}\n!23 = distinct !{!23, !24}\n!24 = distinct !{!24}\n";
    each(globals, &[Device(0), Device(1), Place], body, |kernel, how| {
        let memory = Memory::new(64);
        assert_eq!(Run::new(16, &[(0, &memory, 64), (1, &memory, 64)]).go(kernel), Ok(()), "{how}");
        assert_eq!(memory.word(7), 0x4000_0000_4000_0000, "{how}");
    });
}
