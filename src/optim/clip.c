#include "optim/clip.h"

enum { GRAIN = 16384 };

typedef struct clipping {
    float *g, most;
} clipping;

static void clip(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const clipping c = *(const clipping *)context;
    for (int64_t i = begin; i < end; i++) {
        float x = c.g[i] > c.most ? c.most : c.g[i];
        c.g[i] = x < -c.most ? -c.most : x;
    }
}

void tess_clip_values(tess_threads *threads, float *g, int64_t n, float most)
{
    clipping c = {g, most};
    tess_threads_run(threads, clip, &c, n, GRAIN);
}
