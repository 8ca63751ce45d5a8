/* The kernels of the conformance suite; its documentation states them. */
#include "kernel.h"

KERNEL void add(const float GLOBAL *x, float GLOBAL *y, u32 n)
{
	u32 i = thread_x();
	if (i < n)
		y[i] += x[i];
}

KERNEL void scale(float GLOBAL *y, u32 n, float a)
{
	u32 i = thread_x();
	if (i < n)
		y[i] *= a;
}

KERNEL void iota(u32 GLOBAL *y, u32 n, u32 start)
{
	u32 i = thread_x();
	if (i < n)
		y[i] = start + i;
}

KERNEL void spin(u32 GLOBAL *y, u32 n, u32 rounds)
{
	u32 i = thread_x();
	if (i < n) {
		u32 v = y[i];
		for (u32 k = 0; k < rounds; k++) {
			v = v * 1664525u + 1013904223u;
			__asm__ volatile("" : "+r"(v));
		}
		y[i] = v;
	}
}
