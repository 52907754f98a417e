/* Simulates all ranks. Each action starts when its rank is free and its inputs have arrived, so times do not depend
 * on the order in which the simulation visits ranks. Each pair of neighbouring stages has one queue of messages in
 * each direction. */
#include <math.h>

#include "base/mem/scoped.h"
#include "parallel/pipeline/pipeline_check_impl.h"

typedef struct queued_message {
    int micro, index; /* index of the SEND in its rank's list */
    double sent, taken;
} queued_message;

typedef struct message_queue {
    queued_message *messages; /* (micros) */
    int n_sent, n_taken;
} message_queue;

typedef struct simulation {
    const tess_pipeline_schedule *s;
    const tess_pipeline_costs *costs;
    tess_pipeline_report *report;
    message_queue *queues; /* (stages, 2) queue to the next stage (forward), and from it (backward) */
    queued_message *messages;
    int *next;     /* (ranks) index of the action that comes next */
    double *clock; /* (ranks) */
} simulation;

static bool is_backward_message(tess_pipeline_op op)
{
    return op == TESS_PIPELINE_SEND_B || op == TESS_PIPELINE_RECV_B;
}

bool pipeline_is_send(tess_pipeline_op op)
{
    return op == TESS_PIPELINE_SEND_F || op == TESS_PIPELINE_SEND_B || op == TESS_PIPELINE_SEND_T;
}

static bool is_of_table(tess_pipeline_op op)
{
    return op == TESS_PIPELINE_SEND_T || op == TESS_PIPELINE_RECV_T;
}

/* Returns the lower of the two stages between which a message travels. The last stage has no next stage; its forward
 * queue holds the messages about a tied table. */
static int border_of(const tess_pipeline_schedule *s, int rank, const tess_pipeline_action *a)
{
    if (is_of_table(a->op))
        return s->ranks * s->chunks - 1;
    int stage = tess_pipeline_stage(s, rank, a->chunk);
    return a->op == TESS_PIPELINE_SEND_F || a->op == TESS_PIPELINE_RECV_B ? stage : stage - 1;
}

int pipeline_peer(const tess_pipeline_schedule *s, int rank, const tess_pipeline_action *a)
{
    int border = border_of(s, rank, a);
    if (is_of_table(a->op))
        return pipeline_is_send(a->op) ? tess_pipeline_rank_of(s, border) : 0;
    int ahead = tess_pipeline_rank_of(s, border + 1);
    return a->op == TESS_PIPELINE_SEND_F || a->op == TESS_PIPELINE_RECV_B ? ahead : tess_pipeline_rank_of(s, border);
}

static double cost_of(const simulation *sim, int rank, const tess_pipeline_action *a)
{
    const tess_pipeline_costs *c = sim->costs;
    const double by_op[] = {c->forward, c->backward, c->input, c->weight};
    if (c->stages != NULL)
        return c->stages[tess_pipeline_stage(sim->s, rank, a->chunk)].of[a->op];
    return by_op[a->op] * (c->share != NULL ? c->share[tess_pipeline_stage(sim->s, rank, a->chunk)] : 1);
}

/* Finds the time *start from which the queue has room. False: not known yet. */
static bool put_message(simulation *sim, message_queue *q, const tess_pipeline_action *a, int index, double *start)
{
    int buffers = sim->costs->buffers;
    if (buffers > 0 && q->n_sent - q->n_taken >= buffers)
        return false;
    if (buffers > 0 && q->n_sent >= buffers)
        *start = fmax(*start, q->messages[q->n_sent - buffers].taken);
    q->messages[q->n_sent++] = (queued_message){a->micro, index, *start, 0};
    return true;
}

/* Takes the first message from the queue. *there is false if no message was sent yet. */
static tess_status take_message(simulation *sim, message_queue *q, int rank, const tess_pipeline_action *a, double *end,
                                bool *there)
{
    char text[PIPELINE_ACTION_BYTES], peer_text[PIPELINE_ACTION_BYTES];
    *there = q->n_sent > q->n_taken;
    if (!*there)
        return TESS_OK;
    queued_message *first = &q->messages[q->n_taken];
    TESS_CHECK(first->micro == a->micro, TESS_E_INVALID, "%s: the message that comes first is of micro-batch %d: %s",
               pipeline_action_text(sim->s, rank, sim->next[rank], text), first->micro,
               pipeline_action_text(sim->s, pipeline_peer(sim->s, rank, a), first->index, peer_text));
    *end = fmax(*end, first->sent + sim->costs->send);
    first->taken = *end;
    q->n_taken++;
    sim->report->times[rank][sim->next[rank]].other = first->index;
    sim->report->times[pipeline_peer(sim->s, rank, a)][first->index].other = sim->next[rank];
    return TESS_OK;
}

/* Runs a rank until it waits or is done. */
static tess_status advance(simulation *sim, int rank, bool *moved)
{
    const tess_pipeline_list *list = &sim->s->lists[rank];
    for (; sim->next[rank] < list->n; sim->next[rank]++) {
        const tess_pipeline_action *a = &list->actions[sim->next[rank]];
        double start = sim->clock[rank], end = start;
        bool ready = true;
        if (a->op <= TESS_PIPELINE_BW) {
            end += cost_of(sim, rank, a);
            sim->report->busy[rank] += end - start;
        } else {
            message_queue *q = &sim->queues[2 * border_of(sim->s, rank, a) + is_backward_message(a->op)];
            if (pipeline_is_send(a->op))
                ready = put_message(sim, q, a, sim->next[rank], &end);
            else
                TESS_TRY(take_message(sim, q, rank, a, &end, &ready));
        }
        if (!ready)
            break;
        sim->report->times[rank][sim->next[rank]].start = start;
        sim->report->times[rank][sim->next[rank]].end = end;
        sim->clock[rank] = end;
        *moved = true;
    }
    return TESS_OK;
}

/* Reports a deadlock: no rank can continue, and some ranks wait for each other in a circle. */
static tess_status name_deadlock(const simulation *sim)
{
    const tess_pipeline_schedule *s = sim->s;
    char chain[512], text[PIPELINE_ACTION_BYTES];
    int rank = 0;
    size_t at = 0;
    while (sim->next[rank] == s->lists[rank].n)
        rank++;
    for (int i = 0; i < s->ranks;
         i++) /* walks until it is inside the circle; a rank that is done keeps no other waiting */
        rank = pipeline_peer(s, rank, &s->lists[rank].actions[sim->next[rank]]);
    int first = rank;
    do {
        const tess_pipeline_action *a = &s->lists[rank].actions[sim->next[rank]];
        int peer = pipeline_peer(s, rank, a);
        at = tess_text_add(chain, sizeof(chain), at, "%s%s waits %s rank %d", rank == first ? "" : "; ",
                           pipeline_action_text(s, rank, sim->next[rank], text),
                           pipeline_is_send(a->op) ? "for a free buffer of" : "for", peer);
        rank = peer;
    } while (rank != first && at + 1 < sizeof(chain));
    return TESS_FAIL(TESS_E_INVALID, "deadlock: %s", chain);
}

static tess_status run(simulation *sim)
{
    const tess_pipeline_schedule *s = sim->s;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int r = 0; r < s->ranks; r++)
            TESS_TRY(advance(sim, r, &moved));
    }
    for (int r = 0; r < s->ranks; r++)
        if (sim->next[r] < s->lists[r].n)
            return name_deadlock(sim);
    return TESS_OK;
}

/* Returns the largest number of messages that were in a queue at the same time. */
static int most_waiting(const message_queue *q)
{
    int most = 0;
    for (int sent = 0, taken = 0; sent < q->n_sent; sent++) {
        while (taken < sent && q->messages[taken].taken <= q->messages[sent].sent)
            taken++;
        most = sent - taken + 1 > most ? sent - taken + 1 : most;
    }
    return most;
}

static void sum_up(const simulation *sim)
{
    const tess_pipeline_schedule *s = sim->s;
    tess_pipeline_report *r = sim->report;
    double busy = 0;
    for (int rank = 0; rank < s->ranks; rank++) {
        r->makespan = fmax(r->makespan, sim->clock[rank]);
        busy += r->busy[rank];
    }
    for (int rank = 0; rank < s->ranks && r->makespan > 0; rank++)
        r->idle[rank] = 1 - r->busy[rank] / r->makespan;
    r->bubble = r->makespan > 0 ? 1 - busy / (r->makespan * s->ranks) : 0;
    for (int q = 0; q < 2 * s->ranks * s->chunks; q++) {
        int most = most_waiting(&sim->queues[q]);
        r->buffers = most > r->buffers ? most : r->buffers;
    }
}

tess_status pipeline_simulate(const tess_pipeline_schedule *s, const tess_pipeline_costs *costs,
                              tess_pipeline_report *report)
{
    simulation sim = {.s = s, .costs = costs, .report = report};
    const size_t n_queues = 2 * (size_t)s->ranks * (size_t)s->chunks;
    static const char what[] = "simulation of a pipeline";
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = s->mem};
    TESS_TRY(TESS_NEW_IN(&own, n_queues, what, &sim.queues));
    TESS_TRY(TESS_NEW_IN(&own, n_queues * (size_t)s->micros, what, &sim.messages));
    TESS_TRY(TESS_NEW_IN(&own, s->ranks, what, &sim.next));
    TESS_TRY(TESS_NEW_IN(&own, s->ranks, what, &sim.clock));
    for (size_t q = 0; q < n_queues; q++)
        sim.queues[q].messages = sim.messages + q * (size_t)s->micros;
    TESS_TRY(run(&sim));
    sum_up(&sim);
    return TESS_OK;
}
