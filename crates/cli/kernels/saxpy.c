/* y = a x + y. One thread an element; a group takes as many elements as it has threads along x. */
#include "rig_host.h"

typedef struct {
    const float *x; /* read */
    float *y;       /* read and written */
    float a;
    uint32_t n;
} saxpy_params;

RIG_GROUP_KERNEL(saxpy, sizeof(saxpy_params), 0) {
    const saxpy_params *p = params;
    uint64_t start = (uint64_t)at->group[0] * at->threads[0];
    uint64_t end = start + at->threads[0];
    if (end > p->n) {
        end = p->n;
    }
    const float *restrict x = p->x;
    float *restrict y = p->y;
    float a = p->a;
    for (uint64_t i = start; i < end; i++) {
        y[i] = a * x[i] + y[i];
    }
}
