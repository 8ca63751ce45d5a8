// Kernels as programs have them, for nvcc on a machine that has it: tests/nvcc.rs runs what it makes of them.
typedef unsigned u32;

extern "C" __global__ void reduce(const float *x, float *y, u32 n)
{
	__shared__ float part[256];
	float sum = 0;
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		sum += x[i];
	part[threadIdx.x] = sum;
	for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
	}
	if (threadIdx.x == 0)
		atomicAdd(y, part[0]);
}

// The sums up to each element, within each 1,024 elements.
extern "C" __global__ void scan(const float *x, float *y, u32 n)
{
	extern __shared__ float sums[];
	u32 i = blockIdx.x * blockDim.x + threadIdx.x;
	sums[threadIdx.x] = i < n ? x[i] : 0;
	for (u32 step = 1; step < blockDim.x; step *= 2) {
		__syncthreads();
		float before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
		__syncthreads();
		sums[threadIdx.x] += before;
	}
	if (i < n)
		y[i] = sums[threadIdx.x];
}

extern "C" __global__ void transpose(const float *x, float *y, u32 n)
{
	__shared__ float tile[32][33];
	u32 column = blockIdx.x * 32, row = blockIdx.y * 32;
	tile[threadIdx.y][threadIdx.x] = x[(row + threadIdx.y) * n + column + threadIdx.x];
	__syncthreads();
	y[(column + threadIdx.y) * n + row + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

// One group a row.
extern "C" __global__ void softmax(const float *x, float *y, u32 n)
{
	__shared__ float part[256];
	const float *row = x + (size_t)blockIdx.x * n;
	float most = -1e30f, sum = 0;
	for (u32 i = threadIdx.x; i < n; i += 256)
		most = fmaxf(most, row[i]);
	part[threadIdx.x] = most;
	for (u32 half = 128; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
	}
	__syncthreads();
	most = part[0];
	__syncthreads();
	for (u32 i = threadIdx.x; i < n; i += 256)
		sum += expf(row[i] - most);
	part[threadIdx.x] = sum;
	for (u32 half = 128; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
	}
	__syncthreads();
	for (u32 i = threadIdx.x; i < n; i += 256)
		y[(size_t)blockIdx.x * n + i] = expf(row[i] - most) / part[0];
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, u32 n)
{
	__shared__ float left[16][16], right[16][16];
	u32 row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
	float sum = 0;
	for (u32 k = 0; k < n; k += 16) {
		left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
		right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
		__syncthreads();
		for (u32 i = 0; i < 16; i++)
			sum += left[threadIdx.y][i] * right[i][threadIdx.x];
		__syncthreads();
	}
	c[row * n + column] = sum;
}

// How many elements lie in each of 64 bins from -4 to 4; those beyond count at the ends.
extern "C" __global__ void histogram(const float *x, u32 *y, u32 n)
{
	__shared__ u32 bins[64];
	if (threadIdx.x < 64)
		bins[threadIdx.x] = 0;
	__syncthreads();
	for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
		int bin = (int)floorf((x[i] + 4) * 8);
		atomicAdd(&bins[min(max(bin, 0), 63)], 1);
	}
	__syncthreads();
	if (threadIdx.x < 64)
		atomicAdd(&y[threadIdx.x], bins[threadIdx.x]);
}
