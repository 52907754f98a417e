/* Injects faults of operations: they are skipped, repeated, altered, delayed, or made on the wrong team. */
#include <string.h>

#include "inject/inject_impl.h"
#include "trace/label.h"

static bool is_message(int kind)
{
    return kind == TESS_TRACE_SEND || kind == TESS_TRACE_RECV;
}

/* ---- The operation that a fault hits ---- */
bool tess_fault_can_hit(tess_fault_kind kind, int op)
{
    bool moves_data = op != TESS_TRACE_BARRIER && op < TESS_TRACE_TEAM_SPLIT;
    switch (kind) {
    case TESS_FAULT_REDUCE_OP:
        return op == TESS_TRACE_ALL_REDUCE || op == TESS_TRACE_REDUCE_SCATTER;
    case TESS_FAULT_ROOT:
        return op == TESS_TRACE_BROADCAST || op == TESS_TRACE_GATHER || op == TESS_TRACE_SCATTER || is_message(op);
    case TESS_FAULT_COUNT:
    case TESS_FAULT_DTYPE:
        return moves_data;
    case TESS_FAULT_ORDER:
        return !is_message(op) && op < TESS_TRACE_TEAM_SPLIT && op != TESS_TRACE_ALL_TO_ALL_V;
    case TESS_FAULT_OP:
    case TESS_FAULT_TEAM:
        return !is_message(op) && op < TESS_TRACE_TEAM_SPLIT;
    case TESS_FAULT_EXTRA:
        return op < TESS_TRACE_TEAM_SPLIT; /* repeating a request for memory would leak it */
    default:
        return true;
    }
}

/* Whether the fault waits for this operation. */
static bool is_met(const tess_faults *faults, tess_fault *f, const tess_fingerprint *fp, tess_fault_point point)
{
    return f->point == point && (f->op == TESS_TRACE_NONE || f->op == fp->kind) &&
           (f->label == 0 || f->label == fp->label) && tess_fault_can_hit(f->kind, fp->kind) &&
           tess_fault_counts(faults, f);
}

/* Returns the fault that is due, at most one. Every fault counts the operation. */
static tess_fault *find_due(tess_faults *faults, const tess_fingerprint *fp)
{
    tess_fault *due = NULL;
    for (int i = 0; i < faults->n; i++) {
        tess_fault *f = &faults->fault[i];
        if (is_met(faults, f, fp, TESS_FAULT_BEFORE) && due == NULL && tess_fault_is_due(faults, f, TESS_FAULT_BEFORE))
            due = f;
    }
    return due;
}

/* ---- Skipped, repeated, held back ---- */
/* Copies the buffers of an operation that is held back, because a blocking call returns its buffers to the caller at
 * once. Pieces and device memory need no copies: they stay valid longer. */
static bool copy_buffers(tess_mem *mem, tess_faults *faults, const tess_work *work)
{
    if (faults->held_in != NULL || /* another held operation may still be running */
        tess_mem_alloc(mem, TESS_POOL_MISC, work->in_bytes + 1, "held input", &faults->held_in) != TESS_OK ||
        tess_mem_alloc(mem, TESS_POOL_MISC, work->out_bytes + 1, "held output", &faults->held_out) != TESS_OK)
        return false;
    if (work->in_bytes > 0 && work->in != NULL)
        memcpy(faults->held_in, work->in, work->in_bytes);
    faults->held.in = work->in != NULL ? faults->held_in : NULL;
    faults->held.out = work->out == NULL ? NULL : work->out == work->in ? faults->held_in : faults->held_out;
    return true;
}

static tess_status hold(tess_work *work, tess_work **handle)
{
    tess_runtime *rt = tess_team_runtime(work->team);
    tess_faults *faults = tess_inject_faults(rt);
    faults->held = *work;
    if (work->pieces.pieces == NULL && !work->device.is && !copy_buffers(tess_runtime_mem(rt), faults, work))
        return tess_work_post(work, handle);
    faults->holds = true;
    return tess_work_pretend(work, handle);
}

/* Submits the held operation after the team's next operation, which was just submitted. The two are then swapped. */
static tess_status make_held(tess_faults *faults, tess_work *next, tess_work **handle)
{
    tess_work *first = NULL, *unused = NULL;
    TESS_TRY(tess_work_post(next, &first));
    faults->holds = false;
    if (tess_work_repeat(&faults->held, true, &unused) != TESS_OK)
        tess_error_clear(); /* the team is broken, and the next wait reports why */
    if (handle == NULL)
        return tess_work_wait(&first, 0);
    *handle = first;
    return TESS_OK;
}

/* ---- Altered ---- */
/* Turns a call into another operation of the same family, if there is one. The operation moves no data, because its
 * buffers would not fit. */
static void ask_for_another(tess_work *work)
{
    static const uint8_t others[TESS_TRACE_OP_COUNT] = {
        [TESS_TRACE_ALL_GATHER] = TESS_TRACE_ALL_TO_ALL,
        [TESS_TRACE_REDUCE_SCATTER] = TESS_TRACE_ALL_REDUCE,
        [TESS_TRACE_ALL_REDUCE] = TESS_TRACE_REDUCE_SCATTER,
        [TESS_TRACE_BROADCAST] = TESS_TRACE_ALL_GATHER,
        [TESS_TRACE_ALL_TO_ALL] = TESS_TRACE_ALL_GATHER,
        [TESS_TRACE_GATHER] = TESS_TRACE_ALL_GATHER,
        [TESS_TRACE_SCATTER] = TESS_TRACE_ALL_TO_ALL,
        [TESS_TRACE_BARRIER] = TESS_TRACE_ALL_REDUCE,
        [TESS_TRACE_ALL_GATHER_PIECES] = TESS_TRACE_REDUCE_SCATTER_PIECES,
        [TESS_TRACE_REDUCE_SCATTER_PIECES] = TESS_TRACE_ALL_GATHER_PIECES};
    uint8_t other = others[work->fp.kind];
    work->fp.kind = other != TESS_TRACE_NONE ? other : TESS_TRACE_BARRIER;
    work->in = NULL;
    work->out = NULL;
    work->in_bytes = work->out_bytes = work->n = 0;
    work->pieces = (comm_pieces){0};
    work->counts = (comm_counts){0};
}

static void ask_wrongly(tess_work *work, const tess_fault *f)
{
    tess_fingerprint *fp = &work->fp;
    switch (f->kind) {
    case TESS_FAULT_OP:
        ask_for_another(work);
        break;
    case TESS_FAULT_DTYPE:
        fp->dtype = fp->in_dtype = fp->dtype == TESS_F32 ? TESS_BF16 : TESS_F32;
        break;
    case TESS_FAULT_COUNT:
        fp->count += (uint64_t)f->n;
        break;
    case TESS_FAULT_REDUCE_OP:
        fp->op = (uint8_t)((fp->op + 1) % (TESS_AVG + 1));
        break;
    case TESS_FAULT_ROOT:
        fp->root = (fp->root + 1) % tess_team_size(work->team);
        if (is_message(fp->kind))
            work->root = fp->root;
        break;
    case TESS_FAULT_TAG:
        fp->tag++;
        break;
    case TESS_FAULT_LABEL:
        fp->label = tess_label("other", f->n);
        break;
    default:
        break;
    }
}

/* Submits the same request on another team. If there is none, the operation gets the hash of a wrong team. */
static tess_status make_elsewhere(tess_work *work, tess_work **handle)
{
    tess_team *other = tess_team_find_alike(work->team);
    if (other == NULL) {
        work->fp.team++;
        return tess_work_post(work, handle);
    }
    tess_work request = *work;
    TESS_TRY(tess_work_pretend(work, NULL));
    request.team = other;
    request.fp.team = tess_team_hash(other);
    return tess_work_repeat(&request, false, handle);
}

/* ---- Faults before and after an operation ---- */
static tess_status make_with(tess_fault *f, tess_work *work, tess_work **handle)
{
    tess_runtime *rt = tess_team_runtime(work->team);
    tess_faults *faults = tess_inject_faults(rt);
    const tess_work request = *work;
    switch (f->kind) {
    case TESS_FAULT_SKIP:
        faults->skips = f->n - 1;
        return tess_work_pretend(work, handle);
    case TESS_FAULT_SWALLOW:
        faults->swallowed_step = faults->step;
        return tess_work_pretend(work, handle);
    case TESS_FAULT_EXTRA:
        TESS_TRY(tess_work_post(work, NULL));
        return tess_work_repeat(&request, false, handle);
    case TESS_FAULT_ORDER:
        return hold(work, handle);
    case TESS_FAULT_TEAM:
        return make_elsewhere(work, handle);
    default:
        ask_wrongly(work, f);
        tess_fault_strike(rt, f);
        return tess_work_post(work, handle);
    }
}

tess_status inject_submit(tess_work *work, tess_work **handle)
{
    tess_runtime *rt = tess_team_runtime(work->team);
    tess_faults *faults = tess_inject_faults(rt);
    const tess_fingerprint fp = work->fp;
    tess_status status;
    tess_fault *f;
    bool swallowed = faults->step >= 0 && faults->swallowed_step == faults->step;
    if (swallowed || (faults->skips > 0 && faults->skips-- > 0))
        status = tess_work_pretend(work, handle);
    else if (faults->holds && faults->held.team == work->team)
        status = make_held(faults, work, handle);
    else if ((f = find_due(faults, &fp)) != NULL)
        status = make_with(f, work, handle);
    else
        status = tess_work_post(work, handle);
    for (int i = 0; status == TESS_OK && i < faults->n; i++) {
        f = &faults->fault[i];
        if (is_met(faults, f, &fp, TESS_FAULT_AFTER) && tess_fault_is_due(faults, f, TESS_FAULT_AFTER))
            tess_fault_strike(rt, f);
    }
    return status;
}
