/* Runs kernels: the order of blocks, warps and lanes, and the instructions of one lane. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/ptx/ptx_machine_impl.h"
#include "device/ptx/ptx_operations.h"

#define MOST_STEPS (UINT64_C(1) << 32) /* instructions of warps that a launch may run */

/* ---- Faults ---- */
static const char *source_file(const ptx_machine *m, const ptx_instruction *i)
{
    const ptx_module *module = m->launch->module;
    const char *path = i->file >= 0 && i->file < module->n_files ? module->files[i->file] : NULL;
    const char *name = path != NULL ? strrchr(path, '/') : NULL;
    return name != NULL ? name + 1 : path != NULL ? path : "?";
}

_Noreturn void ptx_stop(ptx_machine *m, const ptx_warp *w, int lane, const char *format, ...)
{
    char why[512], thread[64] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    if (w != NULL && lane >= 0)
        snprintf(thread, sizeof(thread), ", thread %d", w->first_thread + lane);
    if (m->now == NULL)
        snprintf(m->fault, m->fault_size, "%s: %s", m->kernel->name, why);
    else
        snprintf(m->fault, m->fault_size, "%s, block %u%s, PTX line %d (%s), %s:%d: %s", m->kernel->name, m->block,
                 thread, m->now->line, m->now->name, source_file(m, m->now), m->now->source_line, why);
    longjmp(m->stopped, 1);
}

void ptx_need(ptx_machine *m, const ptx_warp *w, int slot, uint32_t lanes, const char *what)
{
    const uint32_t missing = lanes & ~ptx_known(w, slot);
    if (missing == 0)
        return;
    if (m->source.line == 0)
        ptx_stop(m, w, __builtin_ctz(missing), "no value: %s comes from a register that was never written", what);
    ptx_stop(m, w, __builtin_ctz(missing),
             "no value: %s comes from memory or a register that was never written, such as byte %llu of %s, which PTX "
             "line %d loads",
             what, (unsigned long long)m->source.at, m->source.space, m->source.line);
}

static uint32_t true_lanes_of(const uint64_t truth[PTX_WARP])
{
    uint32_t mask = 0;
    for (int lane = 0; lane < PTX_WARP; lane++)
        mask |= (uint32_t)(truth[lane] & 1) << lane;
    return mask;
}

static uint32_t true_lanes(ptx_machine *m, const ptx_warp *w, int slot, uint32_t lanes)
{
    ptx_need(m, w, slot, lanes, "a condition");
    return true_lanes_of(ptx_lanes(m, w, slot)) & lanes;
}

/* The lanes that an instruction's guard lets through. Branches may depend on a value that nothing has written: nvcc
 * computes ahead what it does not use. */
static uint32_t guarded_lanes(ptx_machine *m, const ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    if (i->guard == PTX_NO_SLOT)
        return lanes;
    const uint32_t truth =
        i->kind == PTX_BRANCH ? true_lanes_of(ptx_lanes(m, w, i->guard)) : true_lanes(m, w, i->guard, lanes);
    return (i->guard_negated ? ~truth : truth) & lanes;
}

/* ---- Instructions of one lane ---- */
static void compute(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    static const uint64_t zeros[PTX_WARP];
    const uint64_t *x[3] = {zeros, zeros, zeros};
    uint64_t *to = w->registers[i->out[0]];
    uint32_t known = UINT32_MAX;
    for (int k = 0; k < i->n_in; k++) {
        x[k] = ptx_lanes(m, w, i->in[k]);
        known &= ptx_known(w, i->in[k]);
    }
    if (i->class_ == PTX_CLASS_MOVE && i->n_in == 3) { /* selp: the source that is not chosen does not matter */
        const uint32_t first = true_lanes_of(x[2]);
        known = ptx_known(w, i->in[2]) & ((first & ptx_known(w, i->in[0])) | (~first & ptx_known(w, i->in[1])));
    }
    const bool divides = i->class_ == PTX_CLASS_SPECIAL && i->type.kind != PTX_FLOAT;
    for (int lane = 0; lane < PTX_WARP; lane++) {
        if (!(lanes >> lane & 1))
            continue;
        if (divides && ptx_narrow(x[1][lane], i->type.bits) == 0) {
            if (known >> lane & 1)
                ptx_stop(m, w, lane, "a division by 0");
            continue;
        }
        to[lane] = i->compute(i, x[0][lane], x[1][lane], x[2][lane]);
    }
    w->known[i->out[0]] = (w->known[i->out[0]] & ~lanes) | (known & lanes);
}

static void set_known(ptx_warp *w, int slot, uint32_t known, uint32_t lanes)
{
    if (slot >= 0)
        w->known[slot] = (w->known[slot] & ~lanes) | (known & lanes);
}

/* nvcc packs a value with a register that nothing has written, and takes the value out again. So the result counts as
 * written if one of its parts is. */
static void pack(const ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    const int bits = 8 * i->bytes;
    uint32_t known = 0;
    for (int lane = 0; lane < PTX_WARP; lane++) {
        uint64_t x = 0;
        if (!(lanes >> lane & 1))
            continue;
        for (int k = 0; k < i->n_in; k++)
            x |= ptx_narrow(ptx_lanes(m, w, i->in[k])[lane], bits) << (k * bits);
        w->registers[i->out[0]][lane] = x;
    }
    for (int k = 0; k < i->n_in; k++)
        known |= ptx_known(w, i->in[k]);
    set_known(w, i->out[0], known, lanes);
}

static void unpack(const ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    const int bits = 8 * i->bytes;
    const uint32_t known = ptx_known(w, i->in[0]);
    uint64_t x[PTX_WARP];
    memcpy(x, ptx_lanes(m, w, i->in[0]), sizeof(x));
    for (int k = 0; k < i->n_out; k++) {
        for (int lane = 0; lane < PTX_WARP; lane++)
            if (lanes >> lane & 1)
                ptx_set(w, i->out[k], lane, ptx_narrow(x[lane] >> (k * bits), bits));
        set_known(w, i->out[k], known, lanes);
    }
}

/* ---- Groups of lanes ---- */
/* Adds lanes to the group that is at an instruction, or makes one. */
static ptx_group *add_group(ptx_warp *w, int at, uint32_t lanes, ptx_wait wait)
{
    for (int g = 0; g < w->n_groups; g++)
        if (w->groups[g].at == at && w->groups[g].wait == wait) {
            w->groups[g].lanes |= lanes;
            return &w->groups[g];
        }
    w->groups[w->n_groups] = (ptx_group){at, lanes, wait};
    return &w->groups[w->n_groups++];
}

static void remove_group(ptx_warp *w, const ptx_group *g)
{
    w->groups[g - w->groups] = w->groups[--w->n_groups];
}

/* The group at the lowest instruction of those that run; NULL: none runs. */
static ptx_group *lowest_group(ptx_warp *w)
{
    ptx_group *lowest = NULL;
    for (int g = 0; g < w->n_groups; g++)
        if (w->groups[g].wait == PTX_RUNS && (lowest == NULL || w->groups[g].at < lowest->at))
            lowest = &w->groups[g];
    return lowest;
}

static int limit_of(ptx_warp *w)
{
    const ptx_group *lowest = lowest_group(w);
    return lowest != NULL ? lowest->at : INT_MAX;
}

/* ---- Instructions of lanes together ---- */
/* The lanes that take part, which the instruction names in an operand, or all of the warp. */
static uint32_t members_of(ptx_machine *m, const ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    const int slot = i->kind == PTX_SHUFFLE        ? i->in[3]
                     : i->kind == PTX_VOTE         ? i->in[1]
                     : i->kind == PTX_WARP_BARRIER ? i->in[0]
                                                   : PTX_NO_SLOT;
    if (slot == PTX_NO_SLOT)
        return UINT32_MAX;
    const uint64_t *named = ptx_lanes(m, w, slot);
    const int first = __builtin_ctz(lanes);
    const uint32_t members = (uint32_t)named[first];
    ptx_need(m, w, slot, lanes, "a mask of lanes");
    for (int lane = 0; lane < PTX_WARP; lane++) {
        if (!(lanes >> lane & 1))
            continue;
        if ((uint32_t)named[lane] != members)
            ptx_stop(m, w, lane, "divergence: lanes name different masks, %08x and %08x", members,
                     (uint32_t)named[lane]);
        if (!(members >> lane & 1))
            ptx_stop(m, w, lane, "divergence: the mask %08x does not name the lane itself", members);
    }
    return members;
}

static void run_together(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    switch (i->kind) {
    case PTX_SHUFFLE:
        ptx_shuffle(m, w, i, lanes);
        break;
    case PTX_VOTE:
        ptx_vote(m, w, i, lanes);
        break;
    case PTX_MULTIPLY:
        ptx_multiply(m, w, i);
        break;
    case PTX_LOAD_MATRIX:
        ptx_load_matrix(m, w, i);
        break;
    default:
        m->races.turns[w->first_thread / PTX_WARP]++;
    }
}

/* Some lanes come to an instruction that others take part in. Returns whether all of them are there; it is done then,
 * and they go on as a group of their own. */
static bool meet(ptx_machine *m, ptx_warp *w, int at, uint32_t lanes)
{
    const ptx_instruction *i = &m->kernel->code[at];
    const uint32_t members = members_of(m, w, i, lanes);
    if ((members & ~w->live) != 0)
        ptx_stop(m, w, __builtin_ctz(members & ~w->live),
                 "divergence: the thread has ended, or does not exist, and lanes %08x need it", members);
    if (lanes == members) {
        run_together(m, w, i, lanes);
        return true;
    }
    ptx_group *g = add_group(w, at, lanes, PTX_WAITS_FOR_WARP);
    if (g->lanes != members)
        return false;
    remove_group(w, g);
    run_together(m, w, i, members);
    add_group(w, at + 1, members & ~lanes, PTX_RUNS);
    return true;
}

/* ---- A warp ---- */
/* An exact quotient or root, or a quotient of integers, is a routine of about this many instructions. */
enum { ROUTINE = 9 };

static void count(ptx_machine *m, const ptx_instruction *i, uint32_t lanes)
{
    const uint64_t n = (uint64_t)__builtin_popcount(lanes);
    m->counts->warp_instructions += i->class_ == PTX_CLASS_SPECIAL && !i->approximate ? ROUTINE : 1;
    m->counts->instructions[i->class_] += n;
    if (i->n_in == 3 && i->kind == PTX_COMPUTE && i->class_ == PTX_CLASS_FLOAT && i->name[0] == 'f')
        m->counts->fused += n;
}

/* ptxas moves loads up to the beginning of straight code, but not before a store, which may write what they load. */
static bool ends_straight_code(const ptx_instruction *i)
{
    switch (i->kind) {
    case PTX_BRANCH:
    case PTX_BRANCH_INDEXED:
    case PTX_EXIT:
    case PTX_BARRIER:
    case PTX_COPY_WAIT:
        return true;
    case PTX_STORE:
    case PTX_ATOMIC:
        return i->space == PTX_GLOBAL || i->space == PTX_GENERIC;
    default:
        return false;
    }
}

static uint32_t loads_before(const ptx_warp *w, int slot)
{
    return slot >= 0 && w->loads[slot].code == w->code ? w->loads[slot].n : 0;
}

/* Counts the loads that straight code has one after the other, because one needs the value of another. */
static void count_waits(ptx_machine *m, ptx_warp *w, const ptx_instruction *i)
{
    uint32_t n = loads_before(w, i->base);
    for (int k = 0; k < i->n_in; k++)
        n = loads_before(w, i->in[k]) > n ? loads_before(w, i->in[k]) : n;
    n += i->kind == PTX_LOAD && (i->space == PTX_GLOBAL || i->space == PTX_GENERIC);
    for (int k = 0; k < i->n_out; k++)
        if (i->out[k] >= 0)
            w->loads[i->out[k]] = (ptx_loads){w->code, n};
    w->most_loads = n > w->most_loads ? n : w->most_loads;
    if (ends_straight_code(i)) {
        m->counts->waits += w->most_loads;
        w->most_loads = 0;
        w->code++;
    }
}

/* Runs an instruction that does not change the order of instructions. */
static void run_plain(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    switch (i->kind) {
    case PTX_COMPUTE:
        compute(m, w, i, lanes);
        break;
    case PTX_PACK:
        pack(m, w, i, lanes);
        break;
    case PTX_UNPACK:
        unpack(m, w, i, lanes);
        break;
    case PTX_LOAD:
        ptx_load(m, w, i, lanes);
        break;
    case PTX_STORE:
        ptx_store(m, w, i, lanes);
        break;
    case PTX_ATOMIC:
        ptx_atomic(m, w, i, lanes);
        break;
    case PTX_COPY:
        ptx_copy(m, w, i, lanes);
        break;
    case PTX_COPY_COMMIT:
        ptx_copy_commit(w, lanes);
        break;
    case PTX_COPY_WAIT:
        ptx_copy_wait(m, w, (int)i->offset, lanes);
        break;
    default:
        break;
    }
}

/* Sends each lane to its target. */
static void branch_indexed(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    ptx_need(m, w, i->in[0], lanes, "a branch");
    for (int lane = 0; lane < PTX_WARP; lane++) {
        const uint32_t index = (uint32_t)ptx_lanes(m, w, i->in[0])[lane];
        if (!(lanes >> lane & 1))
            continue;
        if (index >= (uint32_t)i->n_targets)
            ptx_stop(m, w, lane, "out of range: branch %u of %d", index, i->n_targets);
        add_group(w, m->kernel->targets[i->first_target + (int)index], UINT32_C(1) << lane, PTX_RUNS);
    }
}

/* Runs lanes until they end, wait, or come to others of their warp. */
static void run_group(ptx_machine *m, ptx_warp *w, int at, uint32_t lanes)
{
    const ptx_kernel *k = m->kernel;
    int limit = limit_of(w);
    while (lanes != 0) {
        if (at >= limit) {
            add_group(w, at, lanes, PTX_RUNS);
            return;
        }
        if (at >= k->n_code) {
            w->live &= ~lanes;
            return;
        }
        const ptx_instruction *i = m->now = &k->code[at];
        const uint32_t active = guarded_lanes(m, w, i, lanes);
        if (--m->steps_left == 0)
            ptx_stop(m, w, __builtin_ctz(lanes), "it does not end");
        at++;
        if (active == 0)
            continue;
        count(m, i, active);
        if (m->sample != NULL)
            count_waits(m, w, i);
        switch (i->kind) {
        case PTX_BRANCH:
            if (active == lanes) {
                at = i->target;
                break;
            }
            add_group(w, i->target, active, PTX_RUNS);
            lanes &= ~active;
            limit = limit_of(w);
            break;
        case PTX_BRANCH_INDEXED:
            branch_indexed(m, w, i, active);
            lanes &= ~active;
            limit = limit_of(w);
            break;
        case PTX_EXIT:
            w->live &= ~active;
            lanes &= ~active;
            break;
        case PTX_BARRIER:
            add_group(w, at - 1, active, PTX_WAITS_FOR_BLOCK);
            lanes &= ~active;
            break;
        case PTX_SHUFFLE:
        case PTX_VOTE:
        case PTX_MULTIPLY:
        case PTX_LOAD_MATRIX:
        case PTX_WARP_BARRIER:
            if (!meet(m, w, at - 1, active))
                lanes &= ~active;
            limit = limit_of(w);
            break;
        default:
            run_plain(m, w, i, active);
        }
    }
}

/* All lanes wait. The warp may do so at a barrier of its block, together. */
static void check_waiting(ptx_machine *m, const ptx_warp *w)
{
    const ptx_group *g = &w->groups[0];
    for (int k = 1; k < w->n_groups; k++) /* the one that waits for its warp is to blame, or any */
        g = w->groups[k].wait == PTX_WAITS_FOR_WARP ? &w->groups[k] : g;
    m->now = &m->kernel->code[g->at];
    if (g->wait == PTX_WAITS_FOR_BLOCK && g->lanes == w->live)
        return;
    const uint32_t others = w->live & ~g->lanes;
    int line = 0;
    for (int k = 0; k < w->n_groups; k++)
        if (&w->groups[k] != g)
            line = m->kernel->code[w->groups[k].at].line;
    if (others == 0)
        ptx_stop(m, w, __builtin_ctz(g->lanes), "divergence: lanes %08x wait here for lanes that have ended", g->lanes);
    ptx_stop(m, w, __builtin_ctz(g->lanes),
             "divergence: lanes %08x wait here, and lanes %08x of the warp at PTX line %d", g->lanes, others, line);
}

static void run_warp(ptx_machine *m, ptx_warp *w)
{
    for (ptx_group *g = lowest_group(w); g != NULL; g = lowest_group(w)) {
        const ptx_group next = *g;
        remove_group(w, g);
        run_group(m, w, next.at, next.lanes);
    }
    if (w->live != 0)
        check_waiting(m, w);
}

/* ---- A block ---- */
static void begin_warp(ptx_machine *m, ptx_warp *w)
{
    const ptx_kernel *k = m->kernel;
    const int threads = (int)m->launch->threads - w->first_thread;
    const struct {
        int slot;
        uint64_t value, step;
    } specials[] = {{k->tid, (uint64_t)w->first_thread, 1},
                    {k->ctaid, m->block, 0},
                    {k->ntid, m->launch->threads, 0},
                    {k->nctaid, m->launch->blocks, 0},
                    {k->laneid, 0, 1},
                    {k->warpid, (uint64_t)w->first_thread / PTX_WARP, 0}};
    w->live = threads >= PTX_WARP ? UINT32_MAX : (UINT32_C(1) << threads) - 1;
    w->n_groups = w->n_pending = 0;
    if (m->sample != NULL)
        memset(w->loads, 0, (size_t)k->n_registers * sizeof(w->loads[0]));
    w->code = 1;
    w->most_loads = 0;
    memset(w->known, 0, (size_t)k->n_registers * sizeof(w->known[0]));
    memset(w->local_written, 0, (size_t)k->local_bytes * PTX_WARP);
    memset(w->copy_group, 0, sizeof(w->copy_group));
    for (size_t s = 0; s < sizeof(specials) / sizeof(specials[0]); s++)
        for (int lane = 0; lane < PTX_WARP && specials[s].slot >= 0; lane++)
            ptx_set(w, specials[s].slot, lane, specials[s].value + specials[s].step * (uint64_t)lane);
    add_group(w, 0, w->live, PTX_RUNS);
}

/* The warps of a block wait. All threads must, at the same barrier. */
static void release_barrier(ptx_machine *m)
{
    const ptx_instruction *first = NULL;
    for (int k = 0; k < m->n_warps; k++) {
        ptx_warp *w = &m->warps[k];
        const int threads = (int)m->launch->threads - w->first_thread;
        const uint32_t all = threads >= PTX_WARP ? UINT32_MAX : (UINT32_C(1) << threads) - 1;
        if (w->live != all)
            ptx_stop(m, w, __builtin_ctz(all & ~w->live),
                     "divergence: the thread has ended, and others of its block wait at this barrier");
        const ptx_instruction *i = &m->kernel->code[w->groups[0].at];
        first = first == NULL ? i : first;
        if (i != first)
            ptx_stop(m, w, 0, "divergence: the warp waits at the barrier of PTX line %d, another warp here", i->line);
        if (i->n_in == 2 && ptx_lanes(m, w, i->in[1])[0] != m->launch->threads)
            ptx_stop(m, w, 0, "divergence: the barrier is for %llu threads, and the block has %u",
                     (unsigned long long)ptx_lanes(m, w, i->in[1])[0], m->launch->threads);
        w->groups[0].at++;
        w->groups[0].wait = PTX_RUNS;
    }
    m->counts->barriers++;
    m->races.phase++;
}

static void run_block(ptx_machine *m)
{
    m->races.block_run = ptx_new_run();
    m->races.phase = 0;
    memset(m->races.turns, 0, sizeof(m->races.turns));
    memset(m->shared_state, 0, m->shared_bytes);
    for (int w = 0; w < m->n_warps; w++)
        begin_warp(m, &m->warps[w]);
    for (;;) {
        uint32_t live = 0;
        for (int w = 0; w < m->n_warps; w++)
            run_warp(m, &m->warps[w]);
        for (int w = 0; w < m->n_warps; w++) {
            live |= m->warps[w].live;
            if (m->warps[w].live != 0)
                m->now = &m->kernel->code[m->warps[w].groups[0].at];
        }
        if (live == 0)
            return;
        release_barrier(m);
    }
}

/* ---- A launch ---- */
static void *take(ptx_machine *m, size_t bytes)
{
    void *memory = ptx_heap_own(bytes > 0 ? bytes : 1);
    if (memory == NULL)
        ptx_stop(m, NULL, -1, "no memory for %zu bytes of the interpreter", bytes);
    return memory;
}

static void take_memory(ptx_machine *m)
{
    const ptx_kernel *k = m->kernel;
    m->shared = take(m, m->shared_bytes);
    m->shared_state = take(m, m->shared_bytes);
    m->races.shared = take(m, (m->shared_bytes / (size_t)k->granule + 1) * sizeof(ptx_access));
    m->parameters = take(m, k->parameter_bytes);
    for (int n = 0; n < m->n_warps; n++) {
        ptx_warp *w = &m->warps[n];
        w->first_thread = n * PTX_WARP;
        w->registers = take(m, (size_t)k->n_registers * sizeof(w->registers[0]));
        w->known = take(m, (size_t)k->n_registers * sizeof(w->known[0]));
        if (m->sample != NULL)
            w->loads = take(m, (size_t)k->n_registers * sizeof(w->loads[0]));
        w->local = take(m, (size_t)k->local_bytes * PTX_WARP);
        w->local_written = take(m, (size_t)k->local_bytes * PTX_WARP);
    }
    for (int p = 0; p < k->n_parameters; p++)
        memcpy(m->parameters + k->parameters[p].offset, m->launch->arguments[p], k->parameters[p].bytes);
}

static void free_memory(ptx_machine *m)
{
    void *const memory[] = {m->shared, m->shared_state, m->races.shared, m->parameters};
    for (size_t k = 0; k < sizeof(memory) / sizeof(memory[0]); k++)
        ptx_heap_own_free(memory[k]);
    for (int n = 0; n < m->n_warps; n++) {
        void *const of_warp[] = {m->warps[n].registers,     m->warps[n].known,   m->warps[n].local,
                                 m->warps[n].local_written, m->warps[n].pending, m->warps[n].loads};
        for (size_t k = 0; k < sizeof(of_warp) / sizeof(of_warp[0]); k++)
            ptx_heap_own_free(of_warp[k]);
    }
    ptx_sample_free(m->sample);
    ptx_heap_own_free(m);
}

static void run_blocks(ptx_machine *m)
{
    const unsigned all = m->launch->blocks, some = m->launch->sample;
    const unsigned n = some == 0 || some > all ? all : some;
    for (unsigned k = 0; k < n; k++) {
        m->block = n == all || n == 1 ? k : (unsigned)((uint64_t)k * (all - 1) / (n - 1));
        if (m->sample != NULL)
            ptx_sample_block(m->sample);
        run_block(m);
    }
    if (m->sample != NULL)
        ptx_sample_end(m->sample, n, m->counts);
}

static void run(ptx_machine *m)
{
    const ptx_launch *l = m->launch;
    const int most = m->kernel->max_threads > 0 ? m->kernel->max_threads : PTX_MOST_WARPS * PTX_WARP;
    if (!ptx_heap_is_used())
        ptx_stop(m, NULL, -1, "the interpreter's malloc is not the process's: load its library first");
    if (l->blocks == 0 || l->threads == 0 || l->threads > (unsigned)most)
        ptx_stop(m, NULL, -1, "a launch of %u blocks of %u threads, of which the kernel allows %d", l->blocks,
                 l->threads, most);
    m->n_warps = ((int)l->threads + PTX_WARP - 1) / PTX_WARP;
    m->shared_bytes = (size_t)m->kernel->shared_bytes + l->dynamic_shared;
    m->races.launch_run = ptx_new_run();
    if (l->sample > 0 && (m->sample = ptx_sample_create(l)) == NULL)
        ptx_stop(m, NULL, -1, "no memory for a sample");
    take_memory(m);
    run_blocks(m);
}

bool ptx_run(const ptx_launch *launch, ptx_counts *counts, char *fault, size_t fault_size)
{
    ptx_machine *m = ptx_heap_own(sizeof(*m));
    if (m == NULL) {
        snprintf(fault, fault_size, "no memory for the interpreter");
        return false;
    }
    m->launch = launch;
    m->kernel = launch->kernel;
    m->counts = counts != NULL ? counts : &m->own_counts;
    m->steps_left = MOST_STEPS;
    m->fault = fault;
    m->fault_size = fault_size;
    const bool ended = setjmp(m->stopped) == 0;
    if (ended)
        run(m);
    free_memory(m);
    return ended;
}
