/* c = a b. One thread an element of c: x runs over its columns and y over its rows. */
#include "rig_host.h"

typedef struct {
    const float *a; /* m x k, read */
    const float *b; /* k x n, read */
    float *c;       /* m x n, written */
    uint32_t m;
    uint32_t n;
    uint32_t k;
} matmul_params;

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

RIG_GROUP_KERNEL(matmul, sizeof(matmul_params), 0) {
    const matmul_params *p = params;
    uint64_t column = (uint64_t)at->group[0] * at->threads[0];
    uint64_t row = (uint64_t)at->group[1] * at->threads[1];
    uint64_t columns_end = least(column + at->threads[0], p->n);
    uint64_t rows_end = least(row + at->threads[1], p->m);
    for (uint64_t i = row; i < rows_end; i++) {
        float *restrict c = p->c + i * p->n;
        for (uint64_t j = column; j < columns_end; j++) {
            c[j] = 0.0f;
        }
        /* Row by row of b, so that the inner loop runs along memory. */
        for (uint64_t l = 0; l < p->k; l++) {
            float a = p->a[i * p->k + l];
            const float *restrict b = p->b + l * p->n;
            for (uint64_t j = column; j < columns_end; j++) {
                c[j] += a * b[j];
            }
        }
    }
}
