#include "device/ptx/ptx_races.h"

#include <stdatomic.h>

enum { WARP = 32 };

uint32_t ptx_new_run(void)
{
    static _Atomic uint32_t newest;
    return ++newest;
}

static int warp_of(const ptx_actor *a)
{
    return a->thread >= 0 ? a->thread / WARP : a->thread <= PTX_SEVERAL_OF_WARP ? PTX_SEVERAL_OF_WARP - a->thread : -1;
}

/* Whether everything that `before` stands for is over when `who` acts. */
static bool is_over(const ptx_actor *before, const ptx_actor *who)
{
    if (before->thread == PTX_NOBODY)
        return true;
    if (before->thread == PTX_SEVERAL_BLOCKS || before->block != who->block)
        return false;
    if (before->phase != who->phase || before->thread == who->thread)
        return true;
    return warp_of(before) >= 0 && warp_of(before) == who->thread / WARP && before->turn != who->turn;
}

/* One record for two actors of which neither is over. */
static ptx_actor both(const ptx_actor *a, const ptx_actor *who)
{
    ptx_actor joined = *who;
    if (a->thread == PTX_SEVERAL_BLOCKS || a->block != who->block)
        joined.thread = PTX_SEVERAL_BLOCKS;
    else if (warp_of(a) == who->thread / WARP)
        joined.thread = PTX_SEVERAL_OF_WARP - who->thread / WARP;
    else
        joined.thread = PTX_SEVERAL_THREADS;
    return joined;
}

const char *ptx_access_check(ptx_access *a, uint32_t run, const ptx_actor *who, ptx_use use, ptx_actor *other)
{
    static const ptx_actor nobody = {.thread = PTX_NOBODY};
    if (a->run != run)
        *a = (ptx_access){.run = run, .writer = nobody, .reader = nobody};
    const bool after_write = is_over(&a->writer, who);
    *other = a->writer;
    if (!after_write && use != PTX_REPEATS && !(use == PTX_UPDATES && a->atomic))
        return "was written by";
    if (use == PTX_READS) {
        a->reader = is_over(&a->reader, who) ? *who : both(&a->reader, who);
        return NULL;
    }
    *other = a->reader;
    if (!is_over(&a->reader, who))
        return "was read by";
    a->writer = after_write ? *who : both(&a->writer, who);
    a->atomic = use == PTX_UPDATES || (use == PTX_REPEATS && a->atomic && !after_write);
    return NULL;
}
