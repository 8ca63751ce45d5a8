//! Kernels from text, compiled and run.

#![expect(unsafe_code, reason = "a buffer's bytes are looked at")]

mod fixture;

use super::*;
use crate::container::{FunctionKind, pack};
use fixture::{Memory, buffer, builtin, compile, dispatch, kernel, library, module, run, thread_in_grid, threadgroup};

const ADD: &str = include_str!("../../fixtures/add.ll");

/// Promise M80.
#[test]
fn the_documents_kernel_adds_one_through_pointers_in_a_struct() {
    let add = kernel("add", ADD);
    let mut x = Memory((0..1024).map(|i| i as f32).collect());
    let mut y = Memory(vec![0_f32; 1024]);
    let mut pointers = Memory(vec![x.address(), y.address()]);
    let resident = Residency::new([x.range(), y.range()]);
    run(&add, [4, 1, 1], [256, 1, 1], &[pointers.bound()], &resident).unwrap();
    assert_eq!(y.get(10), 11.0);
    assert!((0..1024).all(|i| y.get(i) == i as f32 + 1.0));
}

#[test]
fn a_pointer_from_memory_reaches_resident_allocations_alone() {
    let add = kernel("add", ADD);
    let mut x = Memory(vec![0_f32; 256]);
    let elsewhere = x.address() + (1 << 40);
    let mut pointers = Memory(vec![x.address(), elsewhere]);
    let resident = Residency::new([x.range()]);
    let failed = run(&add, [1, 1, 1], [256, 1, 1], &[pointers.bound()], &resident).unwrap_err();
    let Violation::NotResident { kernel, address, access, .. } = &failed else { panic!("{failed}") };
    assert_eq!((kernel.as_str(), *address, *access), ("add", elsewhere, MemoryAccess::Write));
    assert!(failed.to_string().contains(&format!("{elsewhere:#x}")), "{failed}");
}

#[test]
fn an_access_past_an_allocation_names_it_though_another_lies_behind() {
    let add = kernel("add", ADD);
    let mut whole = Memory(vec![0_f32; 1024]);
    let (start, _) = whole.range();
    // y is 128 floats, and another resident allocation follows at once.
    let resident = Residency::new([(start, 2048), (start + 2048, 512), (start + 2560, 1536)]);
    let mut pointers = Memory(vec![start, start + 2048]);
    let failed = run(&add, [1, 1, 1], [129, 1, 1], &[pointers.bound()], &resident).unwrap_err();
    let Violation::OutOfBounds { address, start: from, len, .. } = failed else { panic!("{failed}") };
    assert_eq!((address, from, len), (start + 2560, start + 2048, 512));
    assert_eq!(whole.get(640), 0.0, "the store did not happen");
}

/// `y[i] = x[i] + 1`, where `i < n`.
fn guarded() -> String {
    module(
        "",
        "ptr addrspace(1) %0, ptr addrspace(1) %1, ptr addrspace(2) %2, i32 %3",
        "  %5 = load i32, ptr addrspace(2) %2
  %6 = icmp ult i32 %3, %5
  br i1 %6, label %7, label %13
7:
  %8 = zext i32 %3 to i64
  %9 = getelementptr inbounds float, ptr addrspace(1) %0, i64 %8
  %10 = load float, ptr addrspace(1) %9
  %11 = fadd float %10, 1.0
  %12 = getelementptr inbounds float, ptr addrspace(1) %1, i64 %8
  store float %11, ptr addrspace(1) %12
  br label %13
13:
  ret void",
        &[buffer(0, 0, 1, 4), buffer(1, 1, 1, 4), buffer(2, 2, 2, 4), thread_in_grid(3)],
    )
}

#[test]
fn the_loop_without_checks_runs_where_the_proof_holds_and_the_other_elsewhere() {
    let guarded = kernel("k", &guarded());
    assert!(guarded.0.compiled.object.proved, "the kernel has a proof");
    // 1,000 elements under 1,024 threads: the proof fails for the last group, whose guard keeps it in bounds.
    let mut x = Memory((0..1000).map(|i| i as f32).collect());
    let mut y = Memory(vec![0_f32; 1000]);
    let mut n = Memory(vec![1000_u32]);
    let none = Residency::default();
    run(&guarded, [4, 1, 1], [256, 1, 1], &[x.bound(), y.bound(), n.bound()], &none).unwrap();
    assert!((0..1000).all(|i| y.get(i) == i as f32 + 1.0));
    // A guard that lies is found by the checked loop.
    let mut n = Memory(vec![1001_u32]);
    let failed = run(&guarded, [4, 1, 1], [256, 1, 1], &[x.bound(), y.bound(), n.bound()], &none).unwrap_err();
    let past = |memory: &mut Memory<f32>| memory.address() + 4000;
    let Violation::OutOfBounds { address, .. } = failed else { panic!("{failed}") };
    assert!(address == past(&mut x) || address == past(&mut y));
}

#[test]
fn an_index_that_wraps_is_not_proved_and_stays_checked() {
    // y[i * n] with 32 bits: i = 2 and n = 2^31 wrap to 0, which is in bounds; i = 1 is not.
    let text = module(
        "",
        "ptr addrspace(1) %0, ptr addrspace(2) %1, i32 %2",
        "  %4 = load i32, ptr addrspace(2) %1
  %5 = mul i32 %2, %4
  %6 = zext i32 %5 to i64
  %7 = getelementptr inbounds i32, ptr addrspace(1) %0, i64 %6
  store i32 7, ptr addrspace(1) %7
  ret void",
        &[buffer(0, 0, 1, 4), buffer(1, 1, 2, 4), thread_in_grid(2)],
    );
    let scatter = kernel("k", &text);
    assert!(scatter.0.compiled.object.proved);
    let mut y = Memory(vec![0_u32; 64]);
    let mut n = Memory(vec![3_u32]);
    run(&scatter, [1, 1, 1], [22, 1, 1], &[y.bound(), n.bound()], &Residency::default()).unwrap();
    assert!((0..64).all(|i| (y.get(i) == 7) == (i % 3 == 0)));
    let mut n = Memory(vec![1_u32 << 31]);
    let failed = run(&scatter, [1, 1, 1], [3, 1, 1], &[y.bound(), n.bound()], &Residency::default()).unwrap_err();
    let wanted = y.address() + (1 << 33);
    assert!(matches!(failed, Violation::OutOfBounds { address, .. } if address == wanted), "{failed}");
}

#[test]
fn an_address_beside_its_types_alignment_is_a_violation() {
    let text = module(
        "",
        "ptr addrspace(1) %0, i32 %1",
        "  %3 = zext i32 %1 to i64
  %4 = getelementptr inbounds <4 x float>, ptr addrspace(1) %0, i64 %3
  store <4 x float> zeroinitializer, ptr addrspace(1) %4, align 16
  ret void",
        &[buffer(0, 0, 1, 16), thread_in_grid(1)],
    );
    let clear = kernel("k", &text);
    assert!(clear.0.compiled.object.proved);
    let mut out = Memory(vec![7_u128; 9]);
    let whole = out.bound().unwrap();
    run(&clear, [1, 1, 1], [8, 1, 1], &[Some(whole)], &Residency::default()).unwrap();
    assert_eq!((out.get(7), out.get(8)), (0, 7));
    let beside = Some(Bound { address: whole.address + 4, len: whole.len - 4 });
    let failed = run(&clear, [1, 1, 1], [8, 1, 1], &[beside], &Residency::default()).unwrap_err();
    assert!(matches!(failed, Violation::MisalignedAccess { size: 16, .. }), "{failed}");
}

#[test]
fn an_index_that_depends_on_data_has_no_proof() {
    let text = module(
        "",
        "ptr addrspace(1) %0, ptr addrspace(1) %1, i32 %2",
        "  %4 = zext i32 %2 to i64
  %5 = getelementptr inbounds i32, ptr addrspace(1) %0, i64 %4
  %6 = load i32, ptr addrspace(1) %5
  %7 = zext i32 %6 to i64
  %8 = getelementptr inbounds i32, ptr addrspace(1) %1, i64 %7
  store i32 %2, ptr addrspace(1) %8
  ret void",
        &[buffer(0, 0, 1, 4), buffer(1, 1, 1, 4), thread_in_grid(2)],
    );
    let scatter = kernel("k", &text);
    assert!(!scatter.0.compiled.object.proved);
    let (mut places, mut out) = (Memory(vec![3_u32, 2, 1, 0]), Memory(vec![9_u32; 4]));
    let none = Residency::default();
    run(&scatter, [1, 1, 1], [4, 1, 1], &[places.bound(), out.bound()], &none).unwrap();
    assert_eq!(out.all(), [3, 2, 1, 0]);
    let mut places = Memory(vec![3_u32, 4, 1, 0]);
    let failed = run(&scatter, [1, 1, 1], [4, 1, 1], &[places.bound(), out.bound()], &none).unwrap_err();
    assert!(matches!(failed, Violation::OutOfBounds { address, .. } if address == out.address() + 16), "{failed}");
}

#[test]
fn groups_at_the_grids_edge_are_smaller_and_know_it() {
    let text = module(
        "",
        "ptr addrspace(1) %0, i32 %1, i32 %2, i32 %3",
        "  %5 = zext i32 %1 to i64
  %6 = getelementptr inbounds [2 x i32], ptr addrspace(1) %0, i64 %5
  store i32 %2, ptr addrspace(1) %6
  %7 = getelementptr inbounds [2 x i32], ptr addrspace(1) %0, i64 %5, i64 1
  store i32 %3, ptr addrspace(1) %7
  ret void",
        &[
            buffer(0, 0, 1, 4),
            thread_in_grid(1),
            builtin(2, "threads_per_threadgroup"),
            builtin(3, "dispatch_threads_per_threadgroup"),
        ],
    );
    let sizes = kernel("k", &text);
    let mut out = Memory(vec![0_u32; 2 * 1024]);
    let resident = Residency::default();
    let mut dispatch = dispatch([4, 1, 1], [256, 1, 1], &resident);
    let buffers = fixture::slots(&[out.bound()]);
    dispatch.buffers = &buffers;
    dispatch.grid = Some([1000, 1, 1]);
    sizes.dispatch(&dispatch, &Workers::new(2)).unwrap();
    assert_eq!((out.get(0), out.get(1)), (256, 256));
    assert_eq!((out.get(2 * 999), out.get(2 * 999 + 1)), (232, 256));
    assert_eq!(out.get(2 * 1000), 0, "no thread past the grid ran");
}

#[test]
fn built_ins_come_in_the_width_of_their_parameters() {
    let text = module(
        "",
        "ptr addrspace(1) %0, <3 x i32> %1, <2 x i16> %2, i16 %3, i64 %4",
        "  %6 = extractelement <3 x i32> %1, i64 2
  %7 = extractelement <2 x i16> %2, i64 1
  %8 = zext i16 %7 to i32
  %9 = zext i16 %3 to i32
  %10 = trunc i64 %4 to i32
  %11 = zext i32 %10 to i64
  %12 = getelementptr inbounds <4 x i32>, ptr addrspace(1) %0, i64 %11
  %13 = insertelement <4 x i32> zeroinitializer, i32 %6, i64 0
  %14 = insertelement <4 x i32> %13, i32 %8, i64 1
  %15 = insertelement <4 x i32> %14, i32 %9, i64 2
  %16 = insertelement <4 x i32> %15, i32 %10, i64 3
  store <4 x i32> %16, ptr addrspace(1) %12, align 4
  ret void",
        &[
            buffer(0, 0, 1, 16),
            builtin(1, "threadgroup_position_in_grid"),
            builtin(2, "thread_position_in_threadgroup"),
            builtin(3, "thread_index_in_simdgroup"),
            builtin(4, "thread_index_in_threadgroup"),
        ],
    );
    let places = kernel("k", &text);
    let mut out = Memory(vec![0_u32; 4 * 60]);
    run(&places, [1, 1, 3], [10, 3, 2], &[out.bound()], &Residency::default()).unwrap();
    // Groups write over each other but for the first number; the last group's place is one of the three.
    for index in 0..60_u32 {
        let at = 4 * index as usize;
        assert!(out.get(at) < 3);
        assert_eq!([out.get(at + 1), out.get(at + 2), out.get(at + 3)], [index / 10 % 3, index % 32, index]);
    }
}

/// Each thread puts its number into threadgroup memory, meets the others, and takes its mirror image's.
fn mirror() -> String {
    module(
        "declare void @air.wg.barrier(i32, i32)",
        "ptr addrspace(3) %0, ptr addrspace(1) %1, i32 %2, i32 %3, i32 %4",
        "  %6 = zext i32 %2 to i64
  %7 = getelementptr inbounds i32, ptr addrspace(3) %0, i64 %6
  store i32 %4, ptr addrspace(3) %7
  call void @air.wg.barrier(i32 2, i32 1)
  %8 = xor i32 %2, -1
  %9 = add i32 %3, %8
  %10 = zext i32 %9 to i64
  %11 = getelementptr inbounds i32, ptr addrspace(3) %0, i64 %10
  %12 = load i32, ptr addrspace(3) %11
  %13 = zext i32 %4 to i64
  %14 = getelementptr inbounds i32, ptr addrspace(1) %1, i64 %13
  store i32 %12, ptr addrspace(1) %14
  ret void",
        &[
            threadgroup(0, 0, 4),
            buffer(1, 0, 1, 4),
            builtin(2, "thread_position_in_threadgroup"),
            builtin(3, "threads_per_threadgroup"),
            thread_in_grid(4),
        ],
    )
}

#[test]
fn threads_meet_at_a_barrier_and_see_each_others_threadgroup_memory() {
    let mirror = kernel("k", &mirror());
    let mut out = Memory(vec![0_u32; 16 * 100]);
    let resident = Residency::default();
    let mut dispatch = dispatch([16, 1, 1], [100, 1, 1], &resident);
    let buffers = fixture::slots(&[out.bound()]);
    let mut lengths = [0; 31];
    lengths[0] = 400;
    (dispatch.buffers, dispatch.threadgroup) = (&buffers, &lengths);
    mirror.dispatch(&dispatch, &Workers::new(2)).unwrap();
    assert!((0..1600).all(|i| out.get(i) as usize == i / 100 * 100 + (99 - i % 100)));
    // One element too few is found.
    let mut short = [0; 31];
    short[0] = 396;
    dispatch.threadgroup = &short;
    let failed = mirror.dispatch(&dispatch, &Workers::new(1)).unwrap_err();
    assert!(matches!(failed, Violation::ThreadgroupBounds { size: 4, .. }), "{failed}");
    dispatch.threadgroup = &[0; 31];
    let failed = mirror.dispatch(&dispatch, &Workers::new(1)).unwrap_err();
    assert!(matches!(failed, Violation::UnboundThreadgroup { index: 0, .. }), "{failed}");
}

#[test]
fn threads_at_different_barriers_are_a_mismatch() {
    let text = module(
        "declare void @air.wg.barrier(i32, i32)",
        "ptr addrspace(1) %0, i32 %1",
        "  %3 = icmp ult i32 %1, 16
  br i1 %3, label %4, label %5
4:
  call void @air.wg.barrier(i32 2, i32 1)
  br label %6
5:
  call void @air.wg.barrier(i32 1, i32 1)
  br label %6
6:
  ret void",
        &[buffer(0, 0, 1, 4), thread_in_grid(1)],
    );
    let some = kernel("k", &text);
    let mut out = Memory(vec![0_u32]);
    let none = Residency::default();
    let failed = run(&some, [1, 1, 1], [64, 1, 1], &[out.bound()], &none).unwrap_err();
    assert_eq!(failed, Violation::BarrierMismatch { kernel: "k".to_owned(), group: [0; 3] });
    // The worker is as good as new: where all threads reach one of them, all is well.
    run(&some, [1, 1, 1], [16, 1, 1], &[out.bound()], &none).unwrap();
}

#[test]
fn threads_that_have_ended_hold_up_no_barrier() {
    // Threads from 40 on end at once, so that one simdgroup ends in part; the others store, meet, and read one another.
    let text = module(
        "declare void @air.wg.barrier(i32, i32)",
        "ptr addrspace(1) %0, i32 %1",
        "  %3 = icmp ult i32 %1, 40
  br i1 %3, label %4, label %12
4:
  %5 = zext i32 %1 to i64
  %6 = getelementptr i32, ptr addrspace(1) %0, i64 %5
  store i32 %1, ptr addrspace(1) %6, align 4
  call void @air.wg.barrier(i32 1, i32 1)
  %7 = sub i64 39, %5
  %8 = getelementptr i32, ptr addrspace(1) %0, i64 %7
  %9 = load i32, ptr addrspace(1) %8, align 4
  %10 = add i64 %5, 40
  %11 = getelementptr i32, ptr addrspace(1) %0, i64 %10
  store i32 %9, ptr addrspace(1) %11, align 4
  br label %12
12:
  ret void",
        &[buffer(0, 0, 1, 4), thread_in_grid(1)],
    );
    let mut out = Memory(vec![0_u32; 80]);
    run(&kernel("k", &text), [1, 1, 1], [64, 1, 1], &[out.bound()], &Residency::default()).unwrap();
    assert!((0..40).all(|i| out.get(40 + i) as usize == 39 - i));
}

#[test]
fn lanes_that_went_different_ways_add_up_apart_and_meet_again() {
    let text = module(
        "declare i32 @air.simd_sum.u.i32(i32)",
        "ptr addrspace(1) %0, i32 %1",
        "  %3 = icmp ult i32 %1, 16
  br i1 %3, label %4, label %6
4:
  %5 = call i32 @air.simd_sum.u.i32(i32 1)
  br label %6
6:
  %7 = phi i32 [ %5, %4 ], [ 0, %2 ]
  %8 = call i32 @air.simd_sum.u.i32(i32 1)
  %9 = mul i32 %8, 100
  %10 = add i32 %9, %7
  %11 = zext i32 %1 to i64
  %12 = getelementptr inbounds i32, ptr addrspace(1) %0, i64 %11
  store i32 %10, ptr addrspace(1) %12
  ret void",
        &[buffer(0, 0, 1, 4), thread_in_grid(1)],
    );
    let sums = kernel("k", &text);
    let mut out = Memory(vec![0_u32; 40]);
    run(&sums, [1, 1, 1], [40, 1, 1], &[out.bound()], &Residency::default()).unwrap();
    let want = |i: usize| {
        if i < 16 {
            3216
        } else if i < 32 {
            3200
        } else {
            800
        }
    };
    assert!((0..40).all(|i| out.get(i) == want(i)), "{:?}", out.all());
}

#[test]
fn what_a_dispatch_itself_does_wrong_is_named() {
    let guarded = kernel("k", &guarded());
    let (mut x, mut n) = (Memory(vec![0_f32; 8]), Memory(vec![8_u16]));
    let none = Residency::default();
    let all = [x.bound(), x.bound(), x.bound()];
    let size = |groups, threads| run(&guarded, groups, threads, &all, &none);
    for threads in [[0, 1, 1], [1025, 1, 1], [32, 32, 2], [u32::MAX, u32::MAX, 2]] {
        assert_eq!(
            size([1, 1, 1], threads),
            Err(Violation::GroupSize { kernel: "k".to_owned(), threads, limit: 1024 })
        );
    }
    assert!(matches!(size([u32::MAX, 1, 1], [8, 1, 1]), Err(Violation::Host { .. })));
    assert_eq!(size([0, 1, 1], [8, 1, 1]), Ok(()), "no groups, no threads");
    let unbound = run(&guarded, [1, 1, 1], [8, 1, 1], &[x.bound(), None, x.bound()], &none).unwrap_err();
    assert!(matches!(unbound, Violation::UnboundBuffer { index: 1, .. }), "{unbound}");
    let short = run(&guarded, [1, 1, 1], [8, 1, 1], &[x.bound(), x.bound(), n.bound()], &none).unwrap_err();
    assert!(matches!(short, Violation::ShortBuffer { index: 2, needs: 4, len: 2, .. }), "{short}");
}

#[test]
fn a_kernels_own_limit_of_threads_holds() {
    let text = guarded().replace(
        "!4 = !{ptr @k, !5, !6}",
        "!4 = !{ptr @k, !5, !6, !99}\n!99 = !{!\"air.max_work_group_size\", i32 64}",
    );
    let limited = kernel("k", &text);
    assert_eq!((limited.threads_max(), limited.reflection().max_total_threads), (64, Some(64)));
    let mut x = Memory(vec![0_f32; 65]);
    let all = [x.bound(), x.bound(), x.bound()];
    let failed = run(&limited, [1, 1, 1], [65, 1, 1], &all, &Residency::default()).unwrap_err();
    assert!(matches!(failed, Violation::GroupSize { limit: 64, .. }), "{failed}");
}

#[test]
fn a_constant_table_of_the_module_is_reached_with_and_without_checks() {
    let text = module(
        "@table = internal unnamed_addr addrspace(2) constant [4 x i32] [i32 10, i32 20, i32 30, i32 40], align 4",
        "ptr addrspace(1) %0, i32 %1",
        "  %3 = zext i32 %1 to i64
  %4 = getelementptr inbounds [4 x i32], ptr addrspace(2) @table, i64 0, i64 %3
  %5 = load i32, ptr addrspace(2) %4
  %6 = getelementptr inbounds i32, ptr addrspace(1) %0, i64 %3
  store i32 %5, ptr addrspace(1) %6
  ret void",
        &[buffer(0, 0, 1, 4), thread_in_grid(1)],
    );
    let library = library("k", &text);
    let (mut out, none) = (Memory(vec![0_u32; 8]), Residency::default());
    for checks in [Checks::Instrumented, Checks::None] {
        for effort in [Effort::Full, Effort::Fast] {
            let options = CompileOptions { checks, effort, cache: None };
            let kernel = Kernel::compile(&library, "k", &Constants::default(), &options).unwrap();
            out.0.fill(0);
            run(&kernel, [1, 1, 1], [4, 1, 1], &[out.bound()], &none).unwrap();
            assert_eq!(out.all(), [10, 20, 30, 40, 0, 0, 0, 0]);
            if checks == Checks::Instrumented {
                let failed = run(&kernel, [1, 1, 1], [5, 1, 1], &[out.bound()], &none).unwrap_err();
                assert!(matches!(failed, Violation::OutOfBounds { len: 16, .. }), "{failed}");
            }
        }
    }
}

#[test]
fn divisions_that_would_trap_give_numbers() {
    let text = module(
        "",
        "ptr addrspace(1) %0, i32 %1",
        "  %3 = load i32, ptr addrspace(1) %0
  %4 = getelementptr inbounds i32, ptr addrspace(1) %0, i64 1
  %5 = load i32, ptr addrspace(1) %4
  %6 = sdiv i32 %3, %5
  %7 = udiv i32 %3, %5
  %8 = srem i32 %3, %5
  %9 = insertelement <2 x i32> zeroinitializer, i32 %3, i64 0
  %10 = urem <2 x i32> %9, zeroinitializer
  %11 = extractelement <2 x i32> %10, i64 0
  %12 = add i32 %6, %8
  %13 = add i32 %12, %11
  store i32 %7, ptr addrspace(1) %0
  store i32 %13, ptr addrspace(1) %4
  ret void",
        &[buffer(0, 0, 1, 4), thread_in_grid(1)],
    );
    let divide = kernel("k", &text);
    for (dividend, divisor, quotient) in [(7, 0, 7), (i32::MIN, -1, 0), (i32::MIN, 0, i32::MIN), (7, 2, 3)] {
        let mut numbers = Memory(vec![dividend, divisor]);
        run(&divide, [1, 1, 1], [1, 1, 1], &[numbers.bound()], &Residency::default()).unwrap();
        assert_eq!(numbers.get(0), quotient, "{dividend} / {divisor}");
    }
}

/// Halves a number.
fn halve() -> String {
    module(
        "",
        "ptr addrspace(1) %0, i32 %1",
        "  %3 = load float, ptr addrspace(1) %0
  %4 = fmul float %3, 5.000000e-01
  store float %4, ptr addrspace(1) %0
  ret void",
        &[buffer(0, 0, 1, 4), thread_in_grid(1)],
    )
}

#[test]
fn numbers_below_the_normal_ones_are_as_the_module_says() {
    let least = f32::MIN_POSITIVE;
    let after = |text: &str| {
        let mut number = Memory(vec![least]);
        run(&kernel("k", text), [1, 1, 1], [1, 1, 1], &[number.bound()], &Residency::default()).unwrap();
        number.get(0)
    };
    assert_eq!(after(&halve()), 0.0);
    assert_eq!(after(&halve().replace("denorms_disable", "denorms_enable")), least / 2.0);
    // The thread that waits for the dispatch keeps its own mode.
    assert!(std::hint::black_box(least) / 2.0 > 0.0);
}

/// Stores a function constant of a type, `index` 3, called `factor`.
fn constant(kind: &str, name: &str) -> String {
    let head = format!(
        "@factor = internal unnamed_addr addrspace(2) externally_initialized constant {kind} undef, section \"air.fc_initializer\", align 4"
    );
    let body = format!(
        "  %3 = load {kind}, ptr addrspace(2) @factor\n  store {kind} %3, ptr addrspace(1) %0, align 4\n  ret void"
    );
    let text = module(&head, "ptr addrspace(1) %0, i32 %1", &body, &[buffer(0, 0, 1, 4), thread_in_grid(1)]);
    format!(
        "{text}\n!air.function_constants = !{{!90}}\n!90 = !{{ptr addrspace(2) @factor, !\"{name}\", !\"factor\", i32 3, i1 true}}\n"
    )
}

#[test]
fn function_constants_are_set_by_index_and_by_name() {
    let library = library("k", &constant("i32", "uint"));
    let reflection = reflect(&library, "k").unwrap();
    let stated = &reflection.constants[0];
    assert_eq!(
        (stated.name.as_str(), stated.index, stated.type_name.as_str(), stated.required),
        ("factor", 3, "uint", true)
    );
    let by_index = Constants { by_index: [(3, ConstantValue::U32(5))].into(), ..Constants::default() };
    let named = Constants { by_name: [("factor".to_owned(), ConstantValue::U32(7))].into(), ..by_index.clone() };
    for (constants, want) in [(by_index, 5), (named, 7)] {
        let kernel = compile(&library, &constants).unwrap();
        let mut out = Memory(vec![0_u32]);
        run(&kernel, [1, 1, 1], [1, 1, 1], &[out.bound()], &Residency::default()).unwrap();
        assert_eq!(out.get(0), want);
    }
    let missing = compile(&library, &Constants::default()).unwrap_err();
    assert_eq!(missing.to_string(), "k needs a value for the function constant factor, index 3");
    let float = Constants { by_index: [(3, ConstantValue::F32(5.0))].into(), ..Constants::default() };
    let wrong = compile(&library, &float).unwrap_err();
    assert_eq!(wrong.to_string(), "k: the function constant factor is of the type uint");
}

#[test]
fn a_kernel_may_ask_whether_a_function_constant_has_a_value() {
    let head = "@factor = internal unnamed_addr addrspace(2) externally_initialized constant i32 undef, section \"air.fc_initializer\", align 4
declare i1 @air.is_function_constant_defined(ptr addrspace(2))";
    let body = "  %3 = call i1 @air.is_function_constant_defined(ptr addrspace(2) @factor)
  %4 = zext i1 %3 to i32
  store i32 %4, ptr addrspace(1) %0, align 4
  ret void";
    let text = module(head, "ptr addrspace(1) %0, i32 %1", body, &[buffer(0, 0, 1, 4), thread_in_grid(1)]);
    let text = format!(
        "{text}\n!air.function_constants = !{{!90}}\n!90 = !{{ptr addrspace(2) @factor, !\"uint\", !\"factor\", i32 3, i1 false}}\n"
    );
    let library = library("k", &text);
    let given = Constants { by_index: [(3, ConstantValue::U32(0))].into(), ..Constants::default() };
    for (constants, want) in [(given, 1), (Constants::default(), 0)] {
        let kernel = compile(&library, &constants).unwrap();
        let mut out = Memory(vec![9_u32]);
        run(&kernel, [1, 1, 1], [1, 1, 1], &[out.bound()], &Residency::default()).unwrap();
        assert_eq!(out.get(0), want);
    }
}

#[test]
fn a_function_constant_may_be_a_vector() {
    let library = library("k", &constant("<4 x float>", "float4"));
    let vector = |count: usize| ConstantValue::Vector((0..count).map(|i| ConstantValue::F32(i as f32)).collect());
    let constants = |value| Constants { by_index: [(3, value)].into(), ..Constants::default() };
    let kernel = compile(&library, &constants(vector(4))).unwrap();
    let mut out = Memory(vec![9_f32; 4]);
    run(&kernel, [1, 1, 1], [1, 1, 1], &[out.bound()], &Residency::default()).unwrap();
    assert_eq!(out.all(), [0.0, 1.0, 2.0, 3.0]);
    assert!(matches!(compile(&library, &constants(vector(3))), Err(CompileError::ConstantType { .. })));
}

#[test]
fn what_software_metal_does_not_have_is_refused_by_name() {
    let texture = "!{i32 0, !\"air.texture\", !\"air.location_index\", i32 0, i32 1, !\"air.sample\", !\"air.arg_type_name\", !\"texture2d<float, sample>\", !\"air.arg_name\", !\"image\"}".to_owned();
    let text = module("", "ptr addrspace(1) %0", "  ret void", &[texture]);
    let refused = compile(&library("k", &text), &Constants::default()).unwrap_err();
    assert_eq!(refused.to_string(), "software Metal cannot run k: air.texture, for the argument image");
    let call = module(
        "declare void @air.intersect.instancing(ptr addrspace(1))",
        "ptr addrspace(1) %0",
        "  call void @air.intersect.instancing(ptr addrspace(1) %0)\n  ret void",
        &[buffer(0, 0, 1, 4)],
    );
    let refused = compile(&library("k", &call), &Constants::default()).unwrap_err();
    assert!(refused.to_string().contains("air.intersect.instancing"), "{refused}");
}

#[test]
fn what_is_no_kernel_is_told_apart() {
    let vertex =
        module("", "ptr addrspace(1) %0", "  ret void", &[buffer(0, 0, 1, 4)]).replace("!air.kernel", "!air.vertex");
    let library = library("k", &vertex);
    assert_eq!(library.kind("k"), Some(FunctionKind::Vertex));
    let none = Constants::default();
    assert!(matches!(compile(&library, &none), Err(CompileError::NotKernel { kind: FunctionKind::Vertex, .. })));
    let absent = Kernel::compile(&library, "j", &none, &CompileOptions::default()).unwrap_err();
    assert_eq!(absent.to_string(), "the library has no function j");
    assert_eq!(reflect(&library, "j").unwrap_err(), absent);
}

#[test]
fn code_that_is_not_what_the_hash_says_is_damaged() {
    let whole = pack(&[("add", ADD)]).unwrap();
    let start = whole.windows(4).position(|bytes| bytes == [0xde, 0xc0, 0x17, 0x0b]).unwrap();
    for at in (start..whole.len()).step_by(101) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let library = Library::open(Arc::new(bytes)).unwrap();
        let failed = Kernel::compile(&library, "add", &Constants::default(), &CompileOptions::default()).unwrap_err();
        assert_eq!(failed.to_string(), "the code of add is damaged: it is not what the library's hash says");
    }
}

#[test]
fn objects_are_kept_on_disk_and_damaged_ones_ignored() {
    let folder = std::env::temp_dir().join(format!("rig-metal-model-cache-{}", std::process::id()));
    let options = CompileOptions { cache: Some(folder.clone()), ..CompileOptions::default() };
    let number = |text: &str| {
        let library = library("k", text);
        let kernel = Kernel::compile(&library, "k", &Constants::default(), &options).unwrap();
        let mut number = Memory(vec![8_f32]);
        run(&kernel, [1, 1, 1], [1, 1, 1], &[number.bound()], &Residency::default()).unwrap();
        number.get(0)
    };
    let files = || {
        let mut all: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all
    };
    let (halve, quarter) = (halve(), halve().replace("5.000000e-01", "2.500000e-01"));
    assert_eq!(number(&halve), 4.0);
    let first = files();
    assert_eq!(number(&quarter), 2.0);
    let both = files();
    assert_eq!((first.len(), both.len()), (1, 2));
    let second = both.iter().find(|path| !first.contains(path)).unwrap();
    // Another's whole object under the second's name is taken: so the file is what runs.
    std::fs::copy(&first[0], second).unwrap();
    assert_eq!(number(&quarter), 4.0);
    // One that is cut off or changed is not.
    let whole = std::fs::read(second).unwrap();
    for damaged in [&whole[..whole.len() - 1], &whole[..20], &[], &[&whole[..60], b"x", &whole[61..]].concat()] {
        std::fs::write(second, damaged).unwrap();
        assert_eq!(number(&quarter), 2.0);
        assert_eq!(std::fs::read(second).unwrap().len(), whole.len(), "it is whole again");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn dispatches_of_many_threads_share_one_pool_of_workers() {
    let (halve, workers) = (kernel("k", &halve()), Workers::new(2));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let mut number = Memory(vec![8_f32]);
                    let buffers = fixture::slots(&[number.bound()]);
                    let resident = Residency::default();
                    let dispatch = Dispatch { buffers: &buffers, ..dispatch([1, 1, 1], [1, 1, 1], &resident) };
                    halve.dispatch(&dispatch, &workers).unwrap();
                    assert_eq!(number.get(0), 4.0);
                }
            });
        }
    });
}

#[test]
fn residency_holds_what_lies_within_one_range() {
    let resident = Residency::new([(0x2000, 0x100), (0x1000, 0x100), (0x1100, 0x10)]);
    let held = [(0x1000, 0x100), (0x10ff, 1), (0x1100, 0x10), (0x20ff, 0)];
    let not = [(0xfff, 1), (0x1000, 0x101), (0x10ff, 2), (0x1110, 1), (0x2100, 0), (0x2000, u64::MAX), (u64::MAX, 1)];
    assert!(held.iter().all(|&(address, len)| resident.contains(address, len)));
    assert!(not.iter().all(|&(address, len)| !resident.contains(address, len)));
}

/// Waits until a word that nobody sets is one; threads meet first, or do not.
fn endless(meets: bool) -> String {
    let meet = if meets { "call void @air.wg.barrier(i32 2, i32 1)" } else { "" };
    module(
        if meets { "declare void @air.wg.barrier(i32, i32)" } else { "" },
        "ptr addrspace(1) %0, i32 %1",
        &format!(
            "  {meet}
  br label %3
3:
  %4 = load atomic volatile i32, ptr addrspace(1) %0 monotonic, align 4
  %5 = icmp eq i32 %4, 1
  br i1 %5, label %6, label %3
6:
  ret void"
        ),
        &[buffer(0, 0, 1, 4), thread_in_grid(1)],
    )
}

/// Promise M67.
#[test]
fn a_kernel_that_does_not_end_times_out_and_its_workers_go_on() {
    let workers = Workers::with_patience(2, std::time::Duration::from_millis(200));
    let halve = kernel("k", &halve());
    for meets in [false, true] {
        let endless = kernel("k", &endless(meets));
        let mut word = Memory(vec![0_u32; 1]);
        let resident = Residency::default();
        let buffers = fixture::slots(&[word.bound()]);
        let dispatch = Dispatch { buffers: &buffers, ..dispatch([64, 1, 1], [8, 1, 1], &resident) };
        let failed = endless.dispatch(&dispatch, &workers).unwrap_err();
        assert_eq!(failed, Violation::Timeout { kernel: "k".to_owned() });
        let mut number = Memory(vec![8_f32]);
        let buffers = fixture::slots(&[number.bound()]);
        let dispatch = Dispatch { buffers: &buffers, groups: [1; 3], threads: [1; 3], ..dispatch };
        // A machine that is busy enough may take longer than patience for this one too.
        while let Err(failed) = halve.dispatch(&dispatch, &workers) {
            assert_eq!(failed, Violation::Timeout { kernel: "k".to_owned() });
        }
        assert!(number.get(0) <= 4.0);
    }
}

#[test]
fn metadata_that_makes_no_sense_is_an_error() {
    let broken = [
        "!{}",
        "!{i32 0}",
        "!{!\"air.buffer\", i32 0}",
        "!{i32 7, !\"air.buffer\", !\"air.location_index\", i32 0, i32 1}",
        "!{i32 0, !\"air.buffer\"}",
        "!{i32 0, !\"air.buffer\", !\"air.location_index\"}",
        "!{i32 0, !\"air.buffer\", !\"air.location_index\", i32 -1, i32 1}",
        "!{i32 0, !\"air.function_constant\"}",
        "!{i32 0, !\"air.function_constant\", !5, !\"air.buffer\"}",
        "!{i32 0, !\"air.thread_position_in_grid\"}",
    ];
    for node in broken {
        let text = module("", "ptr addrspace(1) %0", "  ret void", &[node.to_owned()]);
        let library = library("k", &text);
        let _ = reflect(&library, "k");
        let failed = compile(&library, &Constants::default());
        assert!(failed.is_err(), "{node}");
    }
    let whole = module("", "ptr addrspace(1) %0", "  ret void", &[buffer(0, 0, 1, 4)]);
    for list in
        ["!4 = !{ptr @k}", "!4 = !{ptr @k, !5}", "!4 = !{ptr @k, !5, !\"air.buffer\"}", "!4 = !{ptr @k, !5, ptr @k}"]
    {
        let library = library("k", &whole.replace("!4 = !{ptr @k, !5, !6}", list));
        assert!(matches!(reflect(&library, "k"), Err(CompileError::Damaged { .. })), "{list}");
    }
}

#[test]
fn kernels_are_linked_on_many_threads_at_once() {
    // Each new pool links its kernel anew, and each kernel into a library of its own.
    let link = |seed: u32| {
        let text = halve().replace("5.000000e-01", &format!("{}.000000e+00", seed % 5 + 2));
        let kernel = kernel("k", &text);
        for _ in 0..40 {
            let mut number = Memory(vec![3.0_f32]);
            let (none, buffers) = (Residency::default(), fixture::slots(&[number.bound()]));
            let dispatch = Dispatch { buffers: &buffers, ..dispatch([1, 1, 1], [1, 1, 1], &none) };
            kernel.dispatch(&dispatch, &Workers::new(1)).unwrap();
            assert_eq!(number.get(0), 3.0 * (seed % 5 + 2) as f32);
        }
    };
    std::thread::scope(|scope| (0..8).for_each(|seed| drop(scope.spawn(move || link(seed)))));
}
