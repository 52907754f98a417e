#include "train/memory_watch.h"

#include <stdio.h>

#include "base/mem/mem_watch.h"
#include "base/text/text.h"

/* The first window is warm-up: buffers grow to their final sizes. */
static void end_window(tess_memory_watch *w)
{
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        bool first = w->n_steps <= TESS_LEAK_WINDOW;
        if (first || w->least[pool] <= w->last[pool]) {
            w->n_grown[pool] = 0;
            w->begin[pool] = w->least[pool];
        } else {
            w->n_grown[pool]++;
        }
        w->last[pool] = w->least[pool];
    }
}

static void describe(const tess_memory_watch *w, const tess_mem *mem, int pool, char *text, size_t size)
{
    char what[TESS_MEM_NAME], bytes[32], in_use[32];
    int64_t most;
    double a_step = (double)(w->last[pool] - w->begin[pool]) / (double)(w->n_grown[pool] * TESS_LEAK_WINDOW);
    bool named = tess_mem_watched(mem, what, &most);
    snprintf(text, size, "memory leaks: pool %s of this rank has grown by %s a step over %d steps, to %s; %s%s%s",
             tess_pool_name(pool), tess_format_bytes(a_step, bytes, sizeof(bytes)), w->n_grown[pool] * TESS_LEAK_WINDOW,
             tess_format_bytes((double)w->last[pool], in_use, sizeof(in_use)),
             named ? "what is allocated and not freed is '"
                   : "it is memory outside of the pool's blocks (shared, or mapped)",
             named ? what : "", named ? "'" : "");
}

bool tess_memory_watch_step(tess_memory_watch *w, tess_mem *mem, char *text, size_t size)
{
    bool begins = w->n_steps++ % TESS_LEAK_WINDOW == 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        size_t bytes = tess_mem_stats(mem, (tess_pool)pool).bytes;
        if (begins || bytes < w->least[pool])
            w->least[pool] = bytes;
    }
    if (w->n_steps % TESS_LEAK_WINDOW != 0)
        return false;
    end_window(w);
    if (w->watched > 0) {
        int pool = w->watched - 1;
        bool leaks = w->n_grown[pool] > TESS_LEAK_WINDOWS;
        if (leaks)
            describe(w, mem, pool, text, size);
        w->told[pool] |= leaks;
        w->watched = 0;
        tess_mem_watch(mem, TESS_POOL_COUNT);
        return leaks;
    }
    for (int pool = 0; pool < TESS_POOL_COUNT && w->watched == 0; pool++)
        if (w->n_grown[pool] >= TESS_LEAK_WINDOWS && !w->told[pool]) {
            w->watched = pool + 1;
            tess_mem_watch(mem, (tess_pool)pool);
        }
    return false;
}
