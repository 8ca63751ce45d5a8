/* The kernels of the example that trains a network: plain ones, each output by one thread. Matrices stand by rows. Of their
 * parameters, what they only read comes first.
 *
 * clang-19 --target=nvptx64-nvidia-cuda -march=sm_70 -O2 -S -fno-ident train.c -o train.ptx
 */
typedef unsigned u32;

#define KERNEL __attribute__((nvptx_kernel))
#define GLOBAL __attribute__((address_space(1)))

static inline u32 index(void)
{
	return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}

/* c = a b, of rows by columns over a depth. A step along a row of a, and from row to row, is a_row and a_step elements, so that
 * either matrix may be read as its transpose. */
KERNEL void product(const float GLOBAL *a, const float GLOBAL *b, float GLOBAL *c, u32 rows, u32 columns, u32 depth,
		    u32 a_row, u32 a_step, u32 b_row, u32 b_step)
{
	u32 i = index();
	if (i >= rows * columns)
		return;
	u32 row = i / columns, column = i % columns;
	float sum = 0;
	for (u32 k = 0; k < depth; k++)
		sum += a[row * a_row + k * a_step] * b[k * b_row + column * b_step];
	c[i] = sum;
}

/* What is below zero becomes zero. */
KERNEL void rectify(float GLOBAL *x, u32 n)
{
	u32 i = index();
	if (i < n && x[i] < 0)
		x[i] = 0;
}

/* The gradient before rectify, of the one behind it: nothing where the value was cut. */
KERNEL void rectify_back(const float GLOBAL *x, float GLOBAL *gradient, u32 n)
{
	u32 i = index();
	if (i < n && x[i] <= 0)
		gradient[i] = 0;
}

/* Of each output: its part of the loss, half the square of what it is off, and the loss's gradient; both over the samples of
 * all ranks, whose number's inverse is scale. */
KERNEL void off(const float GLOBAL *y, const float GLOBAL *target, float GLOBAL *loss, float GLOBAL *gradient, u32 n,
		float scale)
{
	u32 i = index();
	if (i < n) {
		float by = y[i] - target[i];
		loss[i] = 0.5f * by * by * scale;
		gradient[i] = by * scale;
	}
}

/* Of each of n rows of floats the sum, in their order: the same for the same floats. */
KERNEL void total(const float GLOBAL *x, float GLOBAL *sum, u32 n, u32 each)
{
	u32 i = index();
	if (i < n) {
		float s = 0;
		for (u32 k = 0; k < each; k++)
			s += x[i * each + k];
		sum[i] = s;
	}
}

/* A step down the gradient. */
KERNEL void descend(const float GLOBAL *gradient, float GLOBAL *weights, u32 n, float rate)
{
	u32 i = index();
	if (i < n)
		weights[i] -= rate * gradient[i];
}
