/* Connects faults to the events of a runtime. */
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "comm/seat.h"
#include "inject/inject_impl.h"

static bool is_of_rank(const tess_fault *fault, const tess_fault_spec *spec, int rank)
{
    return fault->rank < 0 || fault->rank == rank || (rank == 0 && fault->rank >= spec->world);
}

static bool is_of_life(const tess_fault *fault, int rank, const tess_rank_past *past)
{
    bool is_own = fault->rank < 0 || fault->rank == rank;
    return is_own && (fault->life == 0 || fault->life == 1 + (int64_t)past->n_before);
}

tess_status tess_faults_create(tess_mem *mem, const tess_fault_spec *spec, int rank, tess_rank_past *past,
                               tess_faults **out)
{
    tess_fault all[TESS_FAULTS_MAX];
    int n = 0;
    tess_faults *faults;
    *out = NULL;
    TESS_TRY(tess_faults_parse(spec, all, TESS_FAULTS_MAX, &n));
    if (n == 0)
        return TESS_OK;
    TESS_TRY(TESS_NEW(mem, 1, "faults to inject", &faults));
    *faults = (tess_faults){.step = -1, .swallowed_step = -1, .detail = -1};
    for (int i = 0; i < n; i++)
        if (is_of_life(&all[i], rank, past))
            faults->fault[faults->n++] = all[i];
    for (int i = 0; i < n; i++)
        if (is_of_rank(&all[i], spec, rank) && !is_of_life(&all[i], rank, past))
            faults->fault[faults->n + faults->n_idle++] = all[i];
    for (int i = 0; i < faults->n + faults->n_idle; i++)
        faults->fault[i].happened = &past->happened[faults->fault[i].number - 1];
    if (faults->n + faults->n_idle == 0)
        tess_mem_free(mem, faults);
    else
        *out = faults;
    return TESS_OK;
}

void tess_faults_destroy(tess_mem *mem, tess_faults **faults)
{
    if (*faults == NULL)
        return;
    tess_mem_free(mem, (*faults)->held_in);
    tess_mem_free(mem, (*faults)->held_out);
    tess_mem_drop(faults);
}

/* Whether the fault has happened in any life. The random rank differs between jobs of different size. */
static bool has_happened(const tess_runtime *rt, const tess_fault *fault)
{
    const uint32_t before =
        fault->rank >= 0 ? tess_runtime_faults_before(rt) : tess_runtime_past(rt, tess_runtime_rank(rt))->faults_before;
    return *fault->happened > 0 || (before >> (fault->number - 1) & 1) != 0;
}

static void warn(const tess_runtime *rt, const tess_fault *fault)
{
    const int rank = fault->rank >= 0 ? fault->rank : tess_runtime_rank(rt), world = tess_runtime_world(rt);
    const long long life = 1 + (long long)tess_runtime_past(rt, tess_runtime_rank(rt))->n_before;
    char why[128] = "";
    if (rank >= world)
        snprintf(why, sizeof(why), " (the job has become smaller: it has %d rank%s)", world, world == 1 ? "" : "s");
    else if (fault->life != 0 && fault->life != life)
        snprintf(why, sizeof(why), " (it is for life %lld of the rank, which ends in its life %lld)",
                 (long long)fault->life, life);
    fprintf(stderr, "warning: fault %d never happened on rank %d: %s%s\n", fault->number, rank, fault->text, why);
}

static void end(tess_runtime *rt, void *self, bool orderly)
{
    tess_faults *faults = self;
    for (int i = 0; orderly && i < faults->n + faults->n_idle; i++) {
        const tess_fault *fault = &faults->fault[i];
        /* faults of a save may have happened in another process */
        if (fault->point != TESS_FAULT_SAVE && !has_happened(rt, fault))
            warn(rt, fault);
    }
    tess_faults_destroy(tess_runtime_mem(rt), &faults);
}

tess_status tess_inject_begin(tess_runtime *rt, const tess_fault_spec *spec)
{
    tess_faults *faults;
    const int rank = tess_runtime_rank(rt);
    TESS_TRY(tess_faults_create(tess_runtime_mem(rt), spec, rank, tess_runtime_past(rt, rank), &faults));
    if (faults == NULL)
        return TESS_OK;
    tess_runtime_observe(rt, &(comm_observer){.self = faults,
                                              .submit = inject_submit,
                                              .phase_over = inject_phase_over,
                                              .phase = inject_phase,
                                              .end = end});
    return TESS_OK;
}
