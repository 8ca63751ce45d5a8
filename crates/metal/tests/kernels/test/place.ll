; Made as Apple's compiler lowers place of ../test.metal.
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-f32:32:32-f64:64:64-v16:16:16-v24:32:32-v32:32:32-v48:64:64-v64:64:64-v96:128:128-v128:128:128-v192:256:256-v256:256:256-v512:512:512-v1024:1024:1024-n8:16:32"
target triple = "air64_v26-apple-macosx14.0.0"

define void @place(ptr addrspace(1) noundef "air-buffer-no-alias" %a, i32 noundef %i) #0 {
  %y = load ptr addrspace(1), ptr addrspace(1) %a, align 8
  %number = ptrtoint ptr addrspace(1) %a to i64
  %i.wide = zext i32 %i to i64
  %y.i = getelementptr inbounds i64, ptr addrspace(1) %y, i64 %i.wide
  store i64 %number, ptr addrspace(1) %y.i, align 8
  ret void
}

attributes #0 = { mustprogress nounwind "no-builtins" }

!air.version = !{!0}
!air.language_version = !{!1}
!air.compile_options = !{!2, !3}
!air.kernel = !{!8}

!0 = !{i32 2, i32 6, i32 0}
!1 = !{!"Metal", i32 3, i32 1, i32 0}
!2 = !{!"air.compile.denorms_disable"}
!3 = !{!"air.compile.fast_math_disable"}
!4 = !{}
!5 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read", !"air.address_space", i32 1, !"air.arg_type_size", i32 8, !"air.arg_type_align_size", i32 8, !"air.arg_type_name", !"ulong", !"air.arg_name", !"a"}
!6 = !{i32 1, !"air.thread_position_in_grid", !"air.arg_type_name", !"uint", !"air.arg_name", !"i"}
!7 = !{!5, !6}
!8 = !{ptr @place, !4, !7}
