/* What clang needs to make PTX of C. */
typedef unsigned u32;
typedef unsigned long long u64;

#define KERNEL __attribute__((nvptx_kernel))
#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((address_space(3)))

/* This thread's number along x, over all groups. */
static inline u32 thread_x(void)
{
	return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}
