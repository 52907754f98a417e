/* Loads, stores and atomics, and what is checked of each access. */
#include <stdio.h>
#include <string.h>

#include "device/ptx/ptx_machine_impl.h"
#include "device/ptx/ptx_operations.h"

static bool is_write(ptx_use use)
{
    return use == PTX_WRITES || use == PTX_REPEATS;
}

static _Noreturn void stop_for_race(ptx_machine *m, const ptx_warp *w, int lane, const char *space, uint64_t at,
                                    const char *what, const ptx_actor *other, ptx_use use)
{
    static const char *const uses[] = {"reads", "writes", "updates", "writes"};
    char who[64] = "several threads of its block", order[] = "no barrier";
    if (other->thread >= 0)
        snprintf(who, sizeof(who), "thread %d of block %u", other->thread, other->block);
    else if (other->thread == PTX_SEVERAL_BLOCKS)
        snprintf(who, sizeof(who), "threads of several blocks");
    else if (other->thread <= PTX_SEVERAL_OF_WARP)
        snprintf(who, sizeof(who), "several threads of warp %d of block %u", PTX_SEVERAL_OF_WARP - other->thread,
                 other->block);
    ptx_stop(m, w, lane, "race: it %s %s memory at %llu, which %s %s, with %s in between", uses[use], space,
             (unsigned long long)at, what, who, other->block != m->block ? "nothing" : order);
}

static void check_races(ptx_machine *m, const ptx_warp *w, int lane, const char *space, ptx_access *records,
                        uint64_t at, int bytes, uint32_t run, ptx_use use)
{
    const int granule = m->kernel->granule, thread = w->first_thread + lane;
    if (m->sample != NULL)
        return;
    const ptx_actor who = {m->block, m->races.phase, m->races.turns[thread / PTX_WARP], thread};
    for (uint64_t g = at / (uint64_t)granule; g <= (at + (uint64_t)bytes - 1) / (uint64_t)granule; g++) {
        ptx_actor other;
        const char *what = ptx_access_check(&records[g], run, &who, use, &other);
        if (what != NULL)
            stop_for_race(m, w, lane, space, g * (uint64_t)granule, what, &other, use);
    }
}

/* A load of bytes without a value is no fault until the value decides something. Kernels may load and compute what they
 * do not store. */
static void read_unwritten(ptx_machine *m, const ptx_warp *w, int lane, ptx_use use, const char *space, uint64_t at)
{
    if (use == PTX_UPDATES)
        ptx_stop(m, w, lane, "no value: byte %llu of %s was never written", (unsigned long long)at, space);
    if (!m->unwritten)
        m->source = (ptx_source){m->now->line, space, at};
    m->unwritten = true;
}

bool ptx_take_unwritten(ptx_machine *m)
{
    const bool unwritten = m->unwritten;
    m->unwritten = false;
    return unwritten;
}

char *ptx_shared_at(ptx_machine *m, const ptx_warp *w, int lane, uint64_t address, int bytes, ptx_use use)
{
    if (address + (uint64_t)bytes > m->shared_bytes)
        ptx_stop(m, w, lane, "out of range: %d bytes at %llu of shared memory, which has %zu", bytes,
                 (unsigned long long)address, m->shared_bytes);
    uint8_t *state = m->shared_state + address;
    for (int b = 0; b < bytes; b++) {
        if (state[b] & PTX_IN_FLIGHT)
            ptx_stop(m, w, lane, "asynchronous copy: shared memory at %llu gets a copy that nobody has waited for",
                     (unsigned long long)address + (unsigned)b);
        if (!is_write(use) && !(state[b] & PTX_WRITTEN))
            read_unwritten(m, w, lane, use, "shared memory", address + (unsigned)b);
        if (is_write(use))
            state[b] = PTX_WRITTEN;
    }
    check_races(m, w, lane, "shared", m->races.shared, address, bytes, m->races.block_run, use);
    return m->shared + address;
}

static ptx_access *records_of(ptx_machine *m, ptx_block *b)
{
    const size_t n = b->bytes / (size_t)m->kernel->granule + 2;
    if (b->n_accesses < n) {
        ptx_heap_own_free(b->accesses);
        b->accesses = ptx_heap_own(n * sizeof(ptx_access));
        b->n_accesses = b->accesses != NULL ? n : 0;
    }
    return b->accesses;
}

char *ptx_global_at(ptx_machine *m, const ptx_warp *w, int lane, uint64_t address, int bytes, ptx_use use)
{
    ptx_block *b = ptx_heap_find(address);
    const bool is_there = b != NULL && address - b->begin + (uint64_t)bytes <= b->bytes;
    if (!is_there && m->sample != NULL)
        return m->nowhere;
    if (!is_there)
        ptx_stop(m, w, lane, "out of range: %d bytes at %llx of global memory%s%s", bytes, (unsigned long long)address,
                 b == NULL ? ", where nothing is allocated" : "", b == NULL ? "" : ", at the end of an allocation");
    if (!b->of_gpu && ptx_heap_knows_gpus())
        ptx_stop(m, w, lane, "out of range: %llx is memory of the host", (unsigned long long)address);
    if (m->sample != NULL)
        return (char *)(uintptr_t)address;
    const uint64_t at = address - b->begin;
    for (int k = 0; k < bytes && b->unwritten != NULL; k++) {
        if (!is_write(use) && b->unwritten[at + (unsigned)k])
            read_unwritten(m, w, lane, use, "an allocation", at + (unsigned)k);
        else if (use != PTX_READS)
            b->unwritten[at + (unsigned)k] = 0;
    }
    ptx_access *records = records_of(m, b);
    if (records == NULL)
        ptx_stop(m, w, lane, "no memory for records of accesses");
    check_races(m, w, lane, "global", records, at, bytes, m->races.launch_run, use);
    return (char *)(uintptr_t)address;
}

/* Memory of one thread alone. */
static char *local_at(ptx_machine *m, ptx_warp *w, int lane, uint64_t address, int bytes, ptx_use use)
{
    const uint64_t size = m->kernel->local_bytes;
    if (address + (uint64_t)bytes > size)
        ptx_stop(m, w, lane, "out of range: %d bytes at %llu of local memory, which has %llu", bytes,
                 (unsigned long long)address, (unsigned long long)size);
    uint8_t *written = w->local_written + (uint64_t)lane * size + address;
    for (int b = 0; b < bytes; b++) {
        if (use == PTX_READS && !written[b])
            read_unwritten(m, w, lane, use, "local memory", address + (unsigned)b);
        else if (use != PTX_READS)
            written[b] = 1;
    }
    return w->local + (uint64_t)lane * size + address;
}

static char *parameter_at(ptx_machine *m, const ptx_warp *w, int lane, uint64_t address, int bytes)
{
    if (address + (uint64_t)bytes > m->kernel->parameter_bytes)
        ptx_stop(m, w, lane, "out of range: %d bytes at %llu of the parameters", bytes, (unsigned long long)address);
    return m->parameters + address;
}

static ptx_space space_of_window(uint64_t address)
{
    const uint64_t window = address & PTX_WINDOW_MASK;
    return window == PTX_SHARED_WINDOW  ? PTX_SHARED
           : window == PTX_LOCAL_WINDOW ? PTX_LOCAL
           : window == PTX_PARAM_WINDOW ? PTX_PARAM
                                        : PTX_GLOBAL;
}

static char *place_at(ptx_machine *m, ptx_warp *w, int lane, ptx_space space, uint64_t address, int bytes, ptx_use use)
{
    if (space == PTX_GENERIC) {
        space = space_of_window(address);
        address = space == PTX_GLOBAL ? address : address & ~PTX_WINDOW_MASK;
    }
    if (address % (uint64_t)bytes != 0)
        ptx_stop(m, w, lane, "misaligned: %d bytes at %llx", bytes, (unsigned long long)address);
    switch (space) {
    case PTX_SHARED:
        return ptx_shared_at(m, w, lane, (uint32_t)address, bytes, use);
    case PTX_LOCAL:
        return local_at(m, w, lane, (uint32_t)address, bytes, use);
    case PTX_PARAM:
        return parameter_at(m, w, lane, address, bytes);
    default:
        return ptx_global_at(m, w, lane, address, bytes, use);
    }
}

/* ---- Counts ---- */
void ptx_count_global(ptx_machine *m, const uint64_t *address, uint32_t lanes, int bytes, bool writes)
{
    uint64_t sectors[PTX_WARP * 2];
    int n = 0;
    for (int lane = 0; lane < PTX_WARP; lane++)
        for (uint64_t s = lanes >> lane & 1 ? address[lane] / PTX_SECTOR : UINT64_MAX;
             s != UINT64_MAX && s <= (address[lane] + (uint64_t)bytes - 1) / PTX_SECTOR; s++) {
            int k = n;
            while (k > 0 && sectors[k - 1] != s)
                k--;
            if (k == 0)
                sectors[n++] = s;
        }
    for (int k = 0; k < n && m->sample != NULL; k++)
        m->counts->cache_sectors += ptx_sample_sector(m->sample, sectors[k], writes);
    *(writes ? &m->counts->written_sectors : &m->counts->read_sectors) += (uint64_t)n;
    *(writes ? &m->counts->written_bytes : &m->counts->read_bytes) +=
        (uint64_t)bytes * (uint64_t)__builtin_popcount(lanes);
}

/* Lanes that together ask for 128 bytes take one pass, unless they want different words of a bank. */
void ptx_count_shared(ptx_machine *m, const uint64_t *address, uint32_t lanes, int bytes)
{
    const int words = bytes > 4 ? bytes / 4 : 1, step = PTX_WARP / words;
    for (int first = 0; first < PTX_WARP; first += step) {
        uint64_t seen[PTX_BANKS][PTX_WARP];
        int n[PTX_BANKS] = {0}, most = 0;
        for (int lane = first; lane < first + step; lane++)
            for (int k = 0; k < words && lanes >> lane & 1; k++) {
                const uint64_t word = address[lane] / 4 + (uint64_t)k;
                const int bank = (int)(word % PTX_BANKS);
                int at = n[bank];
                while (at > 0 && seen[bank][at - 1] != word)
                    at--;
                if (at == 0)
                    seen[bank][n[bank]++] = word;
                most = n[bank] > most ? n[bank] : most;
            }
        m->counts->shared_accesses += most > 0;
        m->counts->bank_conflicts += most > 1 ? (uint64_t)most - 1 : 0;
    }
}

/* Computes the addresses of an instruction, and counts the access. */
static void take_addresses(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes, bool writes,
                           uint64_t address[PTX_WARP])
{
    const uint64_t *base = ptx_lanes(m, w, i->base);
    const int bytes = i->bytes * i->vector;
    uint32_t global = 0, shared = 0;
    ptx_need(m, w, i->base, lanes, "an address");
    for (int lane = 0; lane < PTX_WARP; lane++) {
        if (!(lanes >> lane & 1))
            continue;
        address[lane] = base[lane] + (uint64_t)i->offset;
        const ptx_space space = i->space == PTX_GENERIC ? space_of_window(address[lane]) : i->space;
        global |= (uint32_t)(space == PTX_GLOBAL || space == PTX_CONST) << lane;
        shared |= (uint32_t)(space == PTX_SHARED) << lane;
    }
    if (global != 0)
        ptx_count_global(m, address, global, bytes, writes);
    if (shared != 0)
        ptx_count_shared(m, address, shared, bytes);
}

/* ---- Instructions ---- */
void ptx_load(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    uint64_t address[PTX_WARP];
    take_addresses(m, w, i, lanes, false, address);
    for (int lane = 0; lane < PTX_WARP; lane++) {
        if (!(lanes >> lane & 1))
            continue;
        const char *from = place_at(m, w, lane, i->space, address[lane], i->bytes * i->vector, PTX_READS);
        const bool known = !ptx_take_unwritten(m);
        for (int v = 0; v < i->vector; v++) {
            uint64_t x = 0;
            memcpy(&x, from + v * i->bytes, (size_t)i->bytes);
            if (i->type.kind == PTX_SIGNED)
                x = (uint64_t)ptx_signed(x, i->type.bits);
            ptx_set(w, i->out[v], lane, x);
            if (!known)
                ptx_set_unknown(w, i->out[v], lane);
        }
    }
}

/* Whether shared or global memory has these bytes. */
static bool repeats(const ptx_machine *m, ptx_space space, uint64_t address, const char *x, int bytes)
{
    if (space == PTX_SHARED)
        return (uint32_t)address + (uint64_t)bytes <= m->shared_bytes &&
               memcmp(m->shared + (uint32_t)address, x, (size_t)bytes) == 0;
    const ptx_block *b = space == PTX_GLOBAL ? ptx_heap_find(address) : NULL;
    return b != NULL && address - b->begin + (uint64_t)bytes <= b->bytes &&
           memcmp((const char *)(uintptr_t)address, x, (size_t)bytes) == 0;
}

void ptx_store(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    uint64_t address[PTX_WARP];
    take_addresses(m, w, i, lanes, true, address);
    for (int v = 0; v < i->vector; v++)
        ptx_need(m, w, i->in[v], lanes, "a stored value");
    for (int lane = 0; lane < PTX_WARP; lane++) {
        if (!(lanes >> lane & 1))
            continue;
        char x[PTX_MOST_OUT * sizeof(uint64_t)];
        for (int v = 0; v < i->vector; v++)
            memcpy(x + v * i->bytes, &ptx_lanes(m, w, i->in[v])[lane], (size_t)i->bytes);
        const ptx_use use = repeats(m, i->space, address[lane], x, i->bytes * i->vector) ? PTX_REPEATS : PTX_WRITES;
        memcpy(place_at(m, w, lane, i->space, address[lane], i->bytes * i->vector, use), x,
               (size_t)(i->bytes * i->vector));
    }
}

void ptx_atomic(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    uint64_t address[PTX_WARP];
    take_addresses(m, w, i, lanes, true, address);
    for (int k = 0; k < i->n_in; k++)
        ptx_need(m, w, i->in[k], lanes, "a stored value");
    for (int lane = 0; lane < PTX_WARP; lane++) {
        if (!(lanes >> lane & 1))
            continue;
        char *at = place_at(m, w, lane, i->space, address[lane], i->bytes, PTX_UPDATES);
        uint64_t old = 0, x = ptx_lanes(m, w, i->in[0])[lane], y = i->n_in > 1 ? ptx_lanes(m, w, i->in[1])[lane] : 0;
        memcpy(&old, at, (size_t)i->bytes);
        const uint64_t new = i->also(i, old, x, y);
        memcpy(at, &new, (size_t)i->bytes);
        if (i->n_out > 0)
            ptx_set(w, i->out[0], lane, old);
    }
}
