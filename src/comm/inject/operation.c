/* Faults of operations: left out, made twice, made for something else, too late or on the wrong team. */
#include <string.h>

#include "comm/inject/inject_impl.h"
#include "trace/label.h"

static bool is_message(int kind)
{
    return kind == TESS_TRACE_SEND || kind == TESS_TRACE_RECV;
}

/* ---- Which operation
 * ------------------------------------------------------------------------------------------------------ */
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
        return op < TESS_TRACE_TEAM_SPLIT; /* memory that is asked for twice would be lost */
    default:
        return true;
    }
}

/* Counts the operation for the fault; true: it is the one that the fault waits for. One that it cannot have is none. */
static bool is_met(const tess_faults *faults, tess_fault *f, const tess_fingerprint *fp, tess_fault_point point)
{
    if (f->point != point || (f->op != TESS_TRACE_NONE && f->op != fp->kind) ||
        (f->label != 0 && f->label != fp->label) || !tess_fault_can_hit(f->kind, fp->kind))
        return false;
    if (f->seen_step != faults->step)
        f->seen = 0;
    f->seen_step = faults->step;
    f->seen++;
    return f->nth == 0 || f->nth == f->seen;
}

/* One at a time; all have counted it. */
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

static void strike_after(tess_runtime *rt, const tess_fingerprint *fp)
{
    tess_faults *faults = rt->faults;
    for (int i = 0; i < faults->n; i++) {
        tess_fault *f = &faults->fault[i];
        if (is_met(faults, f, fp, TESS_FAULT_AFTER) && tess_fault_is_due(faults, f, TESS_FAULT_AFTER))
            tess_fault_strike(rt, f);
    }
}

/* ---- Left out, made twice, held back
 * -------------------------------------------------------------------------------------------------- */
/* For the caller it is done; nobody else ever hears of it. */
static tess_status pretend(tess_work *work, tess_work **handle)
{
    work->done = true;
    tess_team_unlock(work->team);
    if (handle == NULL)
        return tess_work_wait(&work, 0);
    *handle = work;
    return TESS_OK;
}

/* Makes the operation that `request` is a copy of. */
static tess_status make(const tess_work *request, tess_work **handle, bool detached)
{
    tess_work *work;
    TESS_TRY(tess_work_begin(request->team, request->fp.kind, NULL, &work));
    *work = *request;
    work->detached = detached;
    return tess_work_post(work, handle);
}

static tess_status make_twice(tess_work *work, tess_work **handle)
{
    const tess_work request = *work;
    TESS_TRY(tess_work_post(work, NULL));
    return make(&request, handle, false);
}

/* Blocking calls take their buffers back at once, so what is held has its own. Pieces are the caller's for longer. */
static bool copy_buffers(tess_mem *mem, tess_faults *faults, const tess_work *work)
{
    if (faults->held_in != NULL || /* of one that may still be under way */
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
    tess_runtime *rt = work->team->runtime;
    tess_faults *faults = rt->faults;
    faults->held = *work;
    if (work->pieces.pieces == NULL && !copy_buffers(rt->mem, faults, work))
        return tess_work_post(work, handle);
    faults->holds = true;
    return pretend(work, handle);
}

/* The team's next operation has just been made; now comes the one that should have been first. */
static tess_status make_held(tess_faults *faults, tess_work *next, tess_work **handle)
{
    tess_work *first = NULL, *unused = NULL;
    TESS_TRY(tess_work_post(next, &first));
    faults->holds = false;
    if (make(&faults->held, &unused, true) != TESS_OK)
        tess_error_clear(); /* the team is broken: whoever waits for the next one hears why */
    if (handle == NULL)
        return tess_work_wait(&first, 0);
    *handle = first;
    return TESS_OK;
}

/* ---- Made for something else
 * -------------------------------------------------------------------------------------------------------- */
/* A call of the same family, where there is one. It moves nothing: its buffers would not fit. */
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
        fp->root = (fp->root + 1) % work->team->size;
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

static tess_team *find_other_team(const tess_team *team)
{
    tess_runtime *rt = team->runtime;
    tess_team *found = NULL;
    tess_runtime_lock(rt);
    for (tess_team *other = rt->teams; other != NULL && found == NULL; other = other->next)
        if (other != team && other->size == team->size && other->broken == TESS_OK)
            found = other;
    tess_runtime_unlock(rt);
    return found;
}

/* The same request on another team; without one, its own team hears a hash that is not its own. */
static tess_status make_elsewhere(tess_work *work, tess_work **handle)
{
    tess_team *other = find_other_team(work->team);
    if (other == NULL) {
        work->fp.team++;
        return tess_work_post(work, handle);
    }
    tess_work request = *work;
    tess_work *given_back = work;
    work->done = true;
    tess_team_unlock(work->team);
    TESS_TRY(tess_work_wait(&given_back, 0));
    request.team = other;
    request.fp.team = other->hash;
    return make(&request, handle, false);
}

/* ---- Before and after
 * ----------------------------------------------------------------------------------------------------- */
static tess_status make_with(tess_fault *f, tess_work *work, tess_work **handle)
{
    tess_runtime *rt = work->team->runtime;
    tess_faults *faults = rt->faults;
    switch (f->kind) {
    case TESS_FAULT_SKIP:
        faults->skips = f->n - 1;
        return pretend(work, handle);
    case TESS_FAULT_SWALLOW:
        faults->swallowed_step = faults->step;
        return pretend(work, handle);
    case TESS_FAULT_EXTRA:
        return make_twice(work, handle);
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

static bool is_left_out(tess_faults *faults)
{
    if (faults->step >= 0 && faults->swallowed_step == faults->step)
        return true;
    return faults->skips > 0 && faults->skips-- > 0;
}

tess_status tess_inject_submit(tess_work *work, tess_work **handle)
{
    tess_runtime *rt = work->team->runtime;
    tess_faults *faults = rt->faults;
    const tess_fingerprint fp = work->fp;
    tess_status status;
    tess_fault *f;
    if (is_left_out(faults))
        status = pretend(work, handle);
    else if (faults->holds && faults->held.team == work->team)
        status = make_held(faults, work, handle);
    else if ((f = find_due(faults, &fp)) != NULL)
        status = make_with(f, work, handle);
    else
        status = tess_work_post(work, handle);
    if (status == TESS_OK)
        strike_after(rt, &fp);
    return status;
}
