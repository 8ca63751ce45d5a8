/* The kernels of this crate's own tests. */
#include "kernel.h"

/* Writes its own number into the elements from `start` on. */
KERNEL void at64(u64 GLOBAL *y, u64 n, u64 start)
{
	u64 i = thread_x();
	if (i < n)
		y[start + i] = start + i;
}

/* Keeps one thread busy for some nanoseconds, then adds one to y. */
KERNEL void busy(u32 GLOBAL *y, u64 nanoseconds)
{
	u64 start = __nvvm_read_ptx_sreg_globaltimer();
	while (__nvvm_read_ptx_sreg_globaltimer() - start < nanoseconds)
		;
	y[0] += 1;
}

/* Writes when it began and ended, some nanoseconds apart. Touches nothing of x. */
KERNEL void span(u64 GLOBAL *y, const u64 GLOBAL *x, u64 nanoseconds)
{
	u64 start = __nvvm_read_ptx_sreg_globaltimer();
	while (__nvvm_read_ptx_sreg_globaltimer() - start < nanoseconds)
		;
	y[0] = start;
	y[1] = __nvvm_read_ptx_sreg_globaltimer();
}

/* Of every order of such steps something else comes: y = 3 y + x + c, some microseconds after y and x were read. */
KERNEL void mix(u32 GLOBAL *y, const u32 GLOBAL *x, u32 n, u32 c)
{
	u64 i = thread_x();
	if (i >= n)
		return;
	u32 before = 3 * y[i] + x[i] + c;
	u64 start = __nvvm_read_ptx_sreg_globaltimer();
	while (__nvvm_read_ptx_sreg_globaltimer() - start < 3000 + 1000 * (c % 8))
		;
	y[i] = before;
}

/* Counts its groups. */
KERNEL void groups(u64 GLOBAL *y)
{
	if (__nvvm_read_ptx_sreg_tid_x() == 0)
		__atomic_fetch_add(y, 1, __ATOMIC_RELAXED);
}

/* Sums y through group memory that the launch asks for: as many words as the group has threads. */
extern SHARED u32 memory[];
KERNEL void sum(const u32 GLOBAL *x, u32 GLOBAL *y, u32 n)
{
	u32 i = __nvvm_read_ptx_sreg_tid_x();
	memory[i] = i < n ? x[i] : 0;
	__syncthreads();
	if (i == 0) {
		u32 total = 0;
		for (u32 k = 0; k < __nvvm_read_ptx_sreg_ntid_x(); k++)
			total += memory[k];
		y[0] = total;
	}
}

KERNEL void nothing(void)
{
}

KERNEL void wild(u32 GLOBAL *y)
{
	((volatile u32 GLOBAL *)0x10)[0] = y[0];
}

KERNEL void trap(u32 GLOBAL *y)
{
	if (y)
		__builtin_trap();
}

void __assertfail(const char *what, const char *file, u32 line, const char *function, u64 bytes);
KERNEL void assertion(u32 GLOBAL *y)
{
	if (y)
		__assertfail("1 == 2", "test.c", 1, "assertion", 1);
}

KERNEL void forever(volatile u32 GLOBAL *y)
{
	while (y[0] != 0xffffffff)
		;
}
