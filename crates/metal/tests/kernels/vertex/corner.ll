; Made as Apple's compiler lowers corner of ../vertex.metal.
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-f32:32:32-f64:64:64-v16:16:16-v24:32:32-v32:32:32-v48:64:64-v64:64:64-v96:128:128-v128:128:128-v192:256:256-v256:256:256-v512:512:512-v1024:1024:1024-n8:16:32"
target triple = "air64_v26-apple-macosx14.0.0"

define void @corner() #0 {
  ret void
}

attributes #0 = { mustprogress nounwind "no-builtins" }

!air.version = !{!0}
!air.language_version = !{!1}
!air.compile_options = !{!2, !3}
!air.vertex = !{!6}

!0 = !{i32 2, i32 6, i32 0}
!1 = !{!"Metal", i32 3, i32 1, i32 0}
!2 = !{!"air.compile.denorms_disable"}
!3 = !{!"air.compile.fast_math_disable"}
!4 = !{}
!5 = !{}
!6 = !{ptr @corner, !4, !5}
