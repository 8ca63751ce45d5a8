/* A softmax over each row of a matrix. One thread a row. */
#include "rig_host.h"

float expf(float);

typedef struct {
    const float *x; /* rows x columns, read */
    float *y;       /* rows x columns, written */
    uint32_t rows;
    uint32_t columns;
} softmax_params;

static void row(const float *restrict x, float *restrict y, uint32_t columns) {
    float most = x[0];
    for (uint32_t i = 1; i < columns; i++) {
        most = x[i] > most ? x[i] : most;
    }
    float sum = 0.0f;
    for (uint32_t i = 0; i < columns; i++) {
        y[i] = expf(x[i] - most);
        sum += y[i];
    }
    for (uint32_t i = 0; i < columns; i++) {
        y[i] /= sum;
    }
}

RIG_GROUP_KERNEL(softmax, sizeof(softmax_params), 0) {
    const softmax_params *p = params;
    for (uint32_t thread = 0; thread < at->threads[0]; thread++) {
        uint64_t r = (uint64_t)at->group[0] * at->threads[0] + thread;
        if (r < p->rows && p->columns > 0) {
            row(p->x + r * p->columns, p->y + r * p->columns, p->columns);
        }
    }
}
