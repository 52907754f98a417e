#include "plan/step_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "plan/gpu/gpu_rows.h"
#include "trace/ring.h"

/* ---- Calls ---- */
static bool is_attention(const tess_call_key *key)
{
    return key->kind == TESS_ROW_attention_forward || key->kind == TESS_ROW_attention_backward;
}

static bool is_product(const tess_call_key *key)
{
    return key->kind == TESS_ROW_gemm || key->kind == TESS_ROW_gemm_fused || key->kind == TESS_ROW_gemm_grouped;
}

/* Whether launches of our own kernels have counts: products and attention in float32, and grouped products, do not. */
static bool is_counted(const tess_machine *m, const tess_call_key *key)
{
    return m->machine.kind == TESS_MACHINE_GPU && tess_gpu_is_known(m) && key->kind != TESS_ROW_gemm_grouped &&
           (key->dtype == TESS_BF16 || (!is_product(key) && !is_attention(key)));
}

/* The peak of a device for a call, in operations a second. Half-precision formats share a peak. */
static double peak_of(const tess_machine *m, const tess_call_key *key)
{
    const tess_machine_compute *c = &m->compute;
    if (!is_product(key) && !is_attention(key))
        return (c->vector_tflops > 0 ? c->vector_tflops : c->fp32_tflops) * 1e12;
    if (is_product(key))
        return tess_machine_product_tflops(m, key->dtype == TESS_F32) * 1e12 * c->efficiency;
    const double half = c->bf16_tflops > 0 ? c->bf16_tflops : c->fp32_tflops;
    const double tflops = key->dtype == TESS_F32 && c->fp32_tflops > 0 ? c->fp32_tflops : half;
    return tflops * 1e12 * c->attention_efficiency;
}

/* The share of the peak that a rank has: ranks of a CPU host share its cores, as they share its memory. */
static double share_of(const tess_machine *m, int threads)
{
    return m->machine.kind == TESS_MACHINE_CPU ? fmin(1, (double)threads / (double)m->machine.devices) : 1;
}

double tess_call_time(const tess_machine *m, const tess_call_key *key, int threads, int ranks_a_host, bool *measured,
                      bool *by_compute)
{
    const double share = share_of(m, threads);
    const double flow = m->machine.kind == TESS_MACHINE_CPU ? 1.0 / ranks_a_host : 1;
    const double peak = peak_of(m, key); /* 0: the machine's file has no figure, so memory alone limits the call */
    const double compute_s = peak > 0 ? key->flops / (peak * share) : 0,
                 memory_s = key->bytes / (m->memory.gb_per_s * 1e9 * m->memory.efficiency * flow);
    bool exact;
    *by_compute = compute_s > memory_s;
    const double known = m->times != NULL ? tess_kernel_times_find(m->times, key, threads, &exact) : 0;
    *measured = known > 0;
    if (!*measured && is_counted(m, key))
        return tess_gpu_row_time(m, key, by_compute);
    return *measured ? known : fmax(compute_s, memory_s) + m->compute.launch_us * 1e-6;
}

double tess_call_floor(const tess_machine *m, const tess_call_key *key, int threads)
{
    bool exact;
    const double peak = peak_of(m, key) * share_of(m, threads);
    if (peak <= 0 || (is_counted(m, key) && !is_product(key)) ||
        (m->times != NULL && tess_kernel_times_find(m->times, key, threads, &exact) > 0))
        return 0;
    return key->flops / peak;
}

/* ---- Operations ---- */
/* The messages that follow each other in an operation. Ours exchange all slices at once (architecture: direct
 * reduce-scatter), so their number grows with the ranks only where a rank sends to each of them. */
static double rounds_of(int kind, int size)
{
    switch (kind) {
    case TESS_TRACE_SEND:
    case TESS_TRACE_RECV:
        return 1;
    case TESS_TRACE_ALL_REDUCE:
        return 2 * ceil(log2(size));
    default:
        return fmax(ceil(log2(size)), 1);
    }
}

/* Limits a link's speed where it is a link to each peer. */
static double bytes_per_s(const tess_machine_link *l, int size)
{
    const double gb = l->gb_per_s_peer > 0 ? fmin(l->gb_per_s, l->gb_per_s_peer * (size - 1)) : l->gb_per_s;
    return gb * 1e9 * l->efficiency;
}

/* Whether operations of the team are copies between a device and its host. */
static bool is_of_host(const tess_work_team *team)
{
    return team->size == 0 && strcmp(team->name, TESS_WORK_HOST_TEAM) == 0;
}

/* A CPU's memory is the host's. */
static tess_status time_host_copy(const tess_machine *m, double bytes, double *seconds, tess_link_kind *link)
{
    const tess_machine_link *l = &m->links[TESS_LINK_PCIE];
    *link = TESS_LINK_PCIE;
    *seconds = 0;
    if (m->machine.kind == TESS_MACHINE_CPU)
        return TESS_OK;
    TESS_CHECK(l->gb_per_s > 0, TESS_E_INVALID,
               "machine '%s': state that lies in the host's memory is copied to its GPUs: give it a section pcie",
               m->machine.name);
    *seconds = bytes / (l->gb_per_s * 1e9 * l->efficiency) + l->latency_us * 1e-6;
    return TESS_OK;
}

/* `rank` is the rank that calls. A message takes the link to its peer, other operations that of the whole team. */
static tess_status time_op(const tess_step_case *of, int rank, const tess_work_team *team, const tess_work_op *op,
                           double *seconds, tess_link_kind *link)
{
    const tess_machine *m = of->machine;
    const bool message = op->peer >= 0;
    if (is_of_host(team))
        return time_host_copy(m, op->bytes, seconds, link);
    *link = TESS_LINK_SHARED_MEMORY;
    if (team->size == 1) {
        *seconds = 0;
        return TESS_OK;
    }
    const int size = message ? 2 : team->size;
    if (message)
        TESS_TRY(tess_machine_link_of(m, rank < op->peer ? rank : op->peer, abs(rank - op->peer), size,
                                      of->ranks_a_host, link));
    else
        TESS_TRY(tess_machine_link_of(m, team->first, team->stride, size, of->ranks_a_host, link));
    if (op->kind == TESS_TRACE_OTHER) {
        /* Kernels read the other ranks' memory in place. Their time counts memory only; a link may be slower. */
        const tess_machine_link *l = &m->links[*link];
        const double link_s = op->bytes / bytes_per_s(l, size),
                     counted_s = 2 * op->bytes / (m->memory.gb_per_s * 1e9 * m->memory.efficiency);
        *seconds = *link == TESS_LINK_SHARED_MEMORY ? 0 : fmax(0, link_s - counted_s);
        return TESS_OK;
    }
    const bool is_shared = *link == TESS_LINK_SHARED_MEMORY && m->times != NULL;
    *seconds = is_shared ? tess_kernel_times_find_op(m->times, op->kind, size, op->bytes) : 0;
    if (*seconds > 0 && message)
        *seconds /= 2; /* the measured rank sends and receives */
    if (*seconds <= 0) {
        const tess_machine_link *l = &m->links[*link];
        *seconds = op->bytes / bytes_per_s(l, size) + rounds_of(op->kind, size) * l->latency_us * 1e-6;
    }
    return TESS_OK;
}

/* ---- The replay ---- */
typedef struct rank_state {
    const tess_work_trace *trace;
    int rank;
    size_t at;        /* the next event */
    double now;       /* time of the stream of kernels */
    double *call_s;   /* (calls) time of one */
    bool *by_compute; /* (calls) */
    double *done;     /* (ops) when they are complete; < 0: not issued */
    double *free_s;   /* (teams) when their streams are free */
    int n_worlds;     /* operations over all ranks of the job that it has issued */
    double *world_s;  /* (ops) when it issued each of them */
    double busy;      /* kernels and, on CPUs, operations */
    double bubble, exposed, kernels_s, optimizer_s, measured_s;
    double phase_s[TESS_PHASE_COUNT];
    double *team_s, *team_exposed; /* (teams) */
    tess_step_spans *spans;        /* NULL: none */
    int row;
} rank_state;

typedef struct replay {
    tess_scope scope;
    const tess_step_case *of;
    rank_state *ranks;
    bool overlaps;
} replay;

static tess_status open_rank(replay *r, const tess_timed_rank *of, rank_state *s)
{
    const tess_work_trace *t = of->trace;
    *s = (rank_state){.trace = t, .rank = of->rank};
    TESS_TRY(TESS_NEW_IN(&r->scope, t->n_calls + 1, "calls", &s->call_s));
    TESS_TRY(TESS_NEW_IN(&r->scope, t->n_calls + 1, "calls", &s->by_compute));
    TESS_TRY(TESS_NEW_IN(&r->scope, t->n_ops + 1, "operations", &s->done));
    TESS_TRY(TESS_NEW_IN(&r->scope, t->n_teams + 1, "teams", &s->free_s));
    TESS_TRY(TESS_NEW_IN(&r->scope, t->n_teams + 1, "teams", &s->team_s));
    TESS_TRY(TESS_NEW_IN(&r->scope, t->n_teams + 1, "teams", &s->team_exposed));
    TESS_TRY(TESS_NEW_IN(&r->scope, t->n_ops + 1, "operations", &s->world_s));
    for (size_t i = 0; i < t->n_ops; i++)
        s->done[i] = -1;
    for (size_t i = 0; i < t->n_calls; i++) {
        bool measured;
        const double factor = r->of->straggler > 1 ? r->of->straggler : 1;
        s->call_s[i] = factor * tess_call_time(r->of->machine, &t->calls[i].key, r->of->threads, r->of->ranks_a_host,
                                               &measured, &s->by_compute[i]);
        s->measured_s += measured ? s->call_s[i] * (double)t->calls[i].n : 0;
    }
    return TESS_OK;
}

/* The index of the rank among those that are replayed, or -1. */
static int find_rank(const replay *r, int rank)
{
    for (int i = 0; i < r->of->n; i++)
        if (r->ranks[i].rank == rank)
            return i;
    return -1;
}

/* Returns how many messages of the kind, peer and tag of an operation come before it. */
static size_t count_alike(const tess_work_trace *t, size_t op)
{
    size_t n = 0;
    for (size_t i = 0; i < op; i++)
        n += t->ops[i].kind == t->ops[op].kind && t->ops[i].peer == t->ops[op].peer && t->ops[i].tag == t->ops[op].tag;
    return n;
}

/* Finds the n-th SEND of a tag to `peer`; -1: to any rank. */
static const double *find_send(const rank_state *s, int peer, uint32_t tag, size_t n)
{
    for (size_t i = 0; i < s->trace->n_ops; i++) {
        const tess_work_op *p = &s->trace->ops[i];
        if (p->kind == TESS_TRACE_SEND && (peer < 0 || p->peer == peer) && p->tag == tag && n-- == 0)
            return &s->done[i];
    }
    return NULL;
}

/* Finds when the message of a RECV has been sent: the n-th of its tag from this sender to this rank. Returns false if
 * that is not known yet. A sender that is not replayed does what this rank does, at the same time. */
static bool find_sent(const replay *r, const rank_state *s, size_t op, double *sent)
{
    const tess_work_op *o = &s->trace->ops[op];
    const int from = find_rank(r, o->peer);
    const size_t n = count_alike(s->trace, op);
    const double *done = from >= 0 ? find_send(&r->ranks[from], s->rank, o->tag, n) : find_send(s, -1, o->tag, n);
    *sent = done != NULL && *done >= 0 ? *done : s->now;
    return from < 0 || (done != NULL && *done >= 0);
}

/* Whether all ranks of the job take part in the operation. */
static bool is_world(const replay *r, const rank_state *s, const tess_work_op *op)
{
    return op->peer < 0 && s->trace->teams[op->team].size == r->of->n_ranks;
}

/* The number of such an operation among those of the rank, from 1. */
static int world_number(const replay *r, const rank_state *s, size_t op)
{
    int n = 0;
    for (size_t i = 0; i <= op; i++)
        n += is_world(r, s, &s->trace->ops[i]);
    return n;
}

/* Whether all ranks have issued their n-th operation over the whole job, and when the last did. */
static bool have_met(const replay *r, int n, double *when)
{
    *when = 0;
    for (int i = 0; i < r->of->n; i++) {
        if (r->ranks[i].n_worlds < n)
            return false;
        *when = fmax(*when, r->ranks[i].world_s[n - 1]);
    }
    return true;
}

/* `kind`: that of the span. */
static void spend(rank_state *s, int phase, int kind, double seconds)
{
    if (s->spans != NULL)
        tess_step_spans_add(s->spans, &(tess_step_span){s->row, kind, s->now, s->now + seconds});
    s->now += seconds;
    s->phase_s[phase] += seconds;
}

static void run_call(rank_state *s, const tess_work_event *e)
{
    const double seconds = s->call_s[e->index];
    s->busy += seconds;
    *(e->phase == TESS_PHASE_OPTIMIZER ? &s->optimizer_s : &s->kernels_s) += seconds;
    spend(s, e->phase, e->phase, seconds);
}

/* Issues an operation. On CPUs a message is copied by its sender now, and everything else when the rank waits. */
static tess_status issue(replay *r, rank_state *s, const tess_work_event *e)
{
    const tess_work_op *op = &s->trace->ops[e->index];
    const tess_work_team *team = &s->trace->teams[op->team];
    double seconds;
    tess_link_kind link;
    TESS_TRY(time_op(r->of, s->rank, team, op, &seconds, &link));
    s->team_s[op->team] += seconds;
    if (r->overlaps) {
        const double begin = fmax(s->now, s->free_s[op->team]);
        s->done[e->index] = op->kind == TESS_TRACE_RECV ? seconds : begin + seconds;
        s->free_s[op->team] = op->kind == TESS_TRACE_RECV ? s->free_s[op->team] : begin + seconds;
        return TESS_OK;
    }
    if (op->kind == TESS_TRACE_SEND) {
        s->busy += seconds;
        s->exposed += seconds;
        s->team_exposed[op->team] += seconds;
        spend(s, e->phase, TESS_SPAN_WAIT, seconds);
        s->done[e->index] = s->now;
        return TESS_OK;
    }
    s->done[e->index] = seconds; /* its duration: the wait adds it */
    return TESS_OK;
}

/* Waits until `until`; time of a pipeline's messages before the data was sent is bubble. */
static void wait_until(rank_state *s, const tess_work_event *e, double until, bool is_bubble)
{
    const double seconds = until - s->now;
    if (seconds <= 0)
        return;
    *(is_bubble ? &s->bubble : &s->exposed) += seconds;
    if (!is_bubble)
        s->team_exposed[s->trace->ops[e->index].team] += seconds;
    spend(s, e->phase, is_bubble ? TESS_SPAN_BUBBLE : TESS_SPAN_WAIT, seconds);
}

/* Returns whether the rank may go on. */
static bool wait_for(const replay *r, rank_state *s, const tess_work_event *e)
{
    const tess_work_op *op = &s->trace->ops[e->index];
    double *done = &s->done[e->index], when;
    if (op->kind == TESS_TRACE_SEND)
        return true;
    if (op->kind == TESS_TRACE_RECV) {
        if (!find_sent(r, s, e->index, &when))
            return false;
        wait_until(s, e, when, true);
        if (!r->overlaps)
            s->busy += *done;
        wait_until(s, e, s->now + (r->overlaps ? 0 : *done), false);
        return true;
    }
    if (is_world(r, s, op) && r->of->n > 1) {
        if (!have_met(r, world_number(r, s, e->index), &when))
            return false;
        wait_until(s, e, when, true);
    }
    if (r->overlaps) {
        wait_until(s, e, *done, false);
    } else {
        s->busy += *done;
        wait_until(s, e, s->now + *done, false);
        *done = 0;
    }
    return true;
}

/* Runs a rank as far as it can. *moved: it did something. */
static tess_status advance(replay *r, rank_state *s, bool *moved)
{
    for (; s->at < s->trace->n_events; s->at++) {
        const tess_work_event *e = &s->trace->events[s->at];
        switch ((tess_work_what)e->what) {
        case TESS_WORK_CALL:
            run_call(s, e);
            break;
        case TESS_WORK_ISSUE: {
            const tess_work_op *op = &s->trace->ops[e->index];
            if (is_world(r, s, op))
                s->world_s[s->n_worlds++] = s->now;
            TESS_TRY(issue(r, s, e));
            break;
        }
        case TESS_WORK_WAIT:
            if (!wait_for(r, s, e))
                return TESS_OK;
            break;
        }
        *moved = true;
    }
    return TESS_OK;
}

static bool is_over(const replay *r)
{
    for (int i = 0; i < r->of->n; i++)
        if (r->ranks[i].at < r->ranks[i].trace->n_events)
            return false;
    return true;
}

static tess_status run(replay *r)
{
    while (!is_over(r)) {
        bool moved = false;
        for (int i = 0; i < r->of->n; i++)
            TESS_TRY(advance(r, &r->ranks[i], &moved));
        TESS_CHECK(moved, TESS_E_INTERNAL, "the ranks of a pipeline wait for messages that no rank sends");
    }
    return TESS_OK;
}

/* ---- The result ---- */
static void add_kernel(tess_plan_time *time, const tess_machine *m, const tess_step_case *of, const tess_call *call,
                       double seconds)
{
    const char *name = tess_call_name(call->key.kind);
    bool measured, by_compute;
    (void)tess_call_time(m, &call->key, of->threads, of->ranks_a_host, &measured, &by_compute);
    int i = 0;
    while (i < time->n_kernels && time->kernels[i].name != name)
        i++;
    if (i == TESS_PLAN_KERNELS)
        i--;
    if (i == time->n_kernels)
        time->kernels[time->n_kernels++] = (tess_plan_kernel){.name = name, .measured = true};
    tess_plan_kernel *k = &time->kernels[i];
    const double n = (double)call->n;
    k->n += n;
    k->seconds += n * seconds;
    k->flops += n * call->key.flops;
    k->bytes += n * call->key.bytes;
    k->by_compute |= by_compute;
    k->measured &= measured;
}

void tess_plan_time_sort(tess_plan_time *time)
{
    for (int i = 1; i < time->n_kernels; i++)
        for (int k = i; k > 0 && time->kernels[k].seconds > time->kernels[k - 1].seconds; k--) {
            const tess_plan_kernel swapped = time->kernels[k];
            time->kernels[k] = time->kernels[k - 1];
            time->kernels[k - 1] = swapped;
        }
}

/* Teams of one name are one row. */
static tess_status add_teams(const tess_step_case *of, const rank_state *s, tess_plan_time *time)
{
    for (size_t t = 0; t < s->trace->n_teams; t++) {
        const tess_work_team *team = &s->trace->teams[t];
        tess_link_kind link = is_of_host(team) ? TESS_LINK_PCIE : TESS_LINK_SHARED_MEMORY;
        if (team->size > 1)
            TESS_TRY(tess_machine_link_of(of->machine, team->first, team->stride, team->size, of->ranks_a_host, &link));
        int i = 0;
        while (i < time->n_teams && strcmp(time->teams[i].name, team->name) != 0)
            i++;
        if (i == TESS_PLAN_TEAMS)
            i--;
        if (i == time->n_teams) {
            time->teams[i] = (tess_plan_team){.link = link};
            memcpy(time->teams[i].name, team->name, sizeof(team->name));
            time->n_teams++;
        }
        time->teams[i].seconds += s->team_s[t];
        time->teams[i].exposed_s += s->team_exposed[t];
        for (size_t o = 0; o < s->trace->n_ops; o++)
            if (s->trace->ops[o].team == (int32_t)t) {
                time->teams[i].n++;
                time->teams[i].bytes += s->trace->ops[o].kind != TESS_TRACE_SEND ? s->trace->ops[o].bytes : 0;
            }
    }
    return TESS_OK;
}

void tess_plan_time_find_bound(tess_plan_time *time)
{
    double of[TESS_BOUNDS] = {[TESS_BOUND_BUBBLE] = time->bubble_s};
    for (int i = 0; i < time->n_kernels; i++)
        of[time->kernels[i].by_compute ? TESS_BOUND_COMPUTE : TESS_BOUND_MEMORY] += time->kernels[i].seconds;
    for (int i = 0; i < time->n_teams; i++)
        if (time->teams[i].exposed_s > of[TESS_BOUND_LINK]) {
            of[TESS_BOUND_LINK] = time->teams[i].exposed_s;
            memcpy(time->bound_axis, time->teams[i].name, sizeof(time->bound_axis));
        }
    time->bound = TESS_BOUND_COMPUTE;
    for (int i = 0; i < TESS_BOUNDS; i++)
        time->bound = of[i] > of[time->bound] ? (tess_plan_bound)i : time->bound;
    if (time->bound != TESS_BOUND_LINK)
        time->bound_axis[0] = '\0';
}

/* Ranks of a CPU host that are more than its cores take turns, so a step takes at least all their work by the cores. */
static void share_cores(const replay *r, tess_plan_time *time)
{
    const tess_step_case *of = r->of;
    const double cores = (double)of->machine->machine.devices, wanted = (double)of->ranks_a_host * of->threads;
    double busy = 0;
    if (of->machine->machine.kind != TESS_MACHINE_CPU || wanted <= cores)
        return;
    for (int i = 0; i < of->n; i++)
        busy += r->ranks[i].busy / of->n;
    const double least = busy * wanted / cores;
    if (least <= time->step_s)
        return;
    /* The work of other ranks fills the bubble first. */
    const double factor = least / busy;
    time->bubble_s = 0;
    time->compute_s *= factor;
    time->exposed_s *= factor;
    time->optimizer_s *= factor;
    for (int i = 0; i < time->n_kernels; i++)
        time->kernels[i].seconds *= factor;
    for (int i = 0; i < time->n_teams; i++)
        time->teams[i].exposed_s *= factor;
    for (int i = 0; i < TESS_PHASE_COUNT; i++)
        time->phase_s[i] *= factor;
    time->step_s = time->compute_s + time->exposed_s + time->optimizer_s;
}

static tess_status take(const replay *r, tess_plan_time *time)
{
    const rank_state *most = &r->ranks[0];
    double end = 0;
    for (int i = 0; i < r->of->n; i++) {
        end = fmax(end, r->ranks[i].now);
        most = r->ranks[i].busy > most->busy ? &r->ranks[i] : most;
    }
    time->step_s = end;
    time->compute_s = most->kernels_s;
    time->optimizer_s = most->optimizer_s;
    time->exposed_s = most->exposed;
    static const double rounding = 1e-9; /* share of the step that sums in another order may differ by */
    time->bubble_s = end - most->kernels_s - most->optimizer_s - most->exposed;
    if (time->bubble_s < rounding * end)
        time->bubble_s = 0;
    const double all = most->kernels_s + most->optimizer_s;
    time->measured_share = all > 0 ? most->measured_s / all : 0;
    memcpy(time->phase_s, most->phase_s, sizeof(time->phase_s));
    for (size_t i = 0; i < most->trace->n_calls; i++)
        add_kernel(time, r->of->machine, r->of, &most->trace->calls[i], most->call_s[i]);
    TESS_TRY(add_teams(r->of, most, time));
    share_cores(r, time);
    tess_plan_time_sort(time);
    tess_plan_time_find_bound(time);
    return TESS_OK;
}

static tess_status replay_all(replay *r, tess_plan_time *time)
{
    TESS_TRY(TESS_NEW_IN(&r->scope, r->of->n, "ranks", &r->ranks));
    for (int i = 0; i < r->of->n; i++) {
        TESS_TRY(open_rank(r, &r->of->ranks[i], &r->ranks[i]));
        r->ranks[i].spans = r->of->spans;
        r->ranks[i].row = i;
        if (r->of->spans != NULL && i < TESS_SPAN_ROWS)
            r->of->spans->rank[r->of->spans->n_rows++] = r->of->ranks[i].rank;
    }
    TESS_TRY(run(r));
    if (r->of->spans != NULL)
        TESS_TRY(r->of->spans->status);
    return take(r, time);
}

tess_status tess_step_time(tess_mem *mem, const tess_step_case *of, tess_plan_time *time)
{
    replay r = {.scope = {.mem = mem}, .of = of, .overlaps = of->machine->machine.kind == TESS_MACHINE_GPU};
    *time = (tess_plan_time){.goodput = 1};
    tess_status status = replay_all(&r, time);
    tess_scope_end(&r.scope);
    return status;
}

/* ---- Failures ---- */
double tess_save_interval(double save_s, double mtbf_s)
{
    if (save_s <= 0 || mtbf_s <= 0)
        return 0;
    if (save_s >= 2 * mtbf_s) /* Daly's formula holds below */
        return mtbf_s;
    const double x = save_s / (2 * mtbf_s);
    return sqrt(2 * save_s * mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - save_s;
}

double tess_goodput(double save_s, double every_s, double mtbf_s, double restart_s)
{
    const double saving = every_s > 0 ? every_s / (every_s + save_s) : 1;
    if (mtbf_s <= 0)
        return saving;
    /* A failure comes, on average, in the middle of an interval. */
    const double lost = restart_s + (every_s + save_s) / 2;
    return saving * fmax(0, 1 - lost / mtbf_s);
}
