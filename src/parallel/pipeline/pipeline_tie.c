/* Adds messages to a schedule for tied weights. They carry the gradient of the embedding's output to the rank that
 * has the head. That rank sums the table's gradient, the head's part first, so that it has the bits of a run without
 * a pipeline. */
#include <string.h>

#include "parallel/pipeline/pipeline.h"

static bool goes_back(const tess_pipeline_action *a)
{
    return a->op == TESS_PIPELINE_B || a->op == TESS_PIPELINE_BI;
}

static bool is_of(const tess_pipeline_schedule *s, int rank, const tess_pipeline_action *a, int stage)
{
    return tess_pipeline_stage(s, rank, a->chunk) == stage;
}

static int last_stage(const tess_pipeline_schedule *s)
{
    return s->ranks * s->chunks - 1;
}

static tess_status make_room(const tess_pipeline_schedule *s, tess_pipeline_list *list)
{
    return tess_mem_grow(s->mem, TESS_POOL_MISC, (size_t)(list->n + s->micros) * sizeof(list->actions[0]),
                         "actions of a pipeline", (void **)&list->actions);
}

static void insert(tess_pipeline_list *list, int at, const tess_pipeline_action *action)
{
    memmove(&list->actions[at + 1], &list->actions[at], (size_t)(list->n - at) * sizeof(*action));
    list->actions[at] = *action;
    list->n++;
}

/* Each message follows the backward that computes it. */
static void add_sends(const tess_pipeline_schedule *s, tess_pipeline_list *list)
{
    for (int i = 0; i < list->n; i++) {
        tess_pipeline_action message = list->actions[i];
        if (!goes_back(&message) || !is_of(s, 0, &message, 0))
            continue;
        message.op = TESS_PIPELINE_SEND_T;
        message.last = false;
        insert(list, ++i, &message);
    }
}

/* Places each RECV_T before the first action that begins after the message has arrived, so that no rank waits for
 * it. The times are those of a run in which all stages take the same time. `sent` (micros): time at which each
 * message was sent. */
static void add_receives(const tess_pipeline_schedule *s, const double *sent, const tess_pipeline_time *times,
                         tess_pipeline_list *list)
{
    tess_pipeline_action message = {.op = TESS_PIPELINE_RECV_T, .chunk = tess_pipeline_chunk_of(s, last_stage(s))};
    int of_times = 0;
    for (int i = 0; i <= list->n && message.micro < s->micros; i++, of_times++)
        for (; message.micro < s->micros && (i == list->n || sent[message.micro] <= times[of_times].start);
             message.micro++)
            insert(list, i++, &message);
}

/* Computes the times at which stage 0 has the gradient of each micro-batch. */
static void find_sent(const tess_pipeline_schedule *s, const tess_pipeline_report *report, double *sent)
{
    const tess_pipeline_list *list = &s->lists[0];
    for (int i = 0; i < list->n; i++)
        if (goes_back(&list->actions[i]) && is_of(s, 0, &list->actions[i], 0))
            sent[list->actions[i].micro] = report->times[0][i].end;
}

static tess_status add_messages(tess_pipeline_schedule *s, int rank)
{
    const tess_pipeline_costs alike = {.forward = 1, .backward = 2, .input = 1, .weight = 1};
    TESS_AUTO(tess_pipeline_report_free) tess_pipeline_report report = {0};
    TESS_AUTO(tess_mem_drop) double *sent = NULL;
    TESS_TRY(tess_pipeline_check(s, &alike, &report));
    TESS_TRY(TESS_NEW(s->mem, s->micros, "times of a pipeline", &sent));
    TESS_TRY(make_room(s, &s->lists[0]));
    TESS_TRY(make_room(s, &s->lists[rank]));
    find_sent(s, &report, sent);
    add_sends(s, &s->lists[0]);
    add_receives(s, sent, report.times[rank], &s->lists[rank]);
    return TESS_OK;
}

/* The head's gradients wait from its backward until the message is taken, or until the gradients of stage 0 are
 * complete on the same rank. */
static int most_waiting(const tess_pipeline_schedule *s, int rank)
{
    int waiting = 0, most = 0;
    for (int i = 0; i < s->lists[rank].n; i++) {
        const tess_pipeline_action *a = &s->lists[rank].actions[i];
        waiting += goes_back(a) && is_of(s, rank, a, last_stage(s));
        most = waiting > most ? waiting : most;
        waiting -= a->op == TESS_PIPELINE_RECV_T;
        waiting -= (a->op == TESS_PIPELINE_B || a->op == TESS_PIPELINE_BW) && is_of(s, rank, a, 0);
    }
    return most;
}

tess_status tess_pipeline_tie(tess_pipeline_schedule *s)
{
    const int rank = tess_pipeline_rank_of(s, last_stage(s));
    if (rank != 0)
        TESS_TRY_CTX(add_messages(s, rank), "tied weights");
    s->tables = most_waiting(s, rank);
    return TESS_OK;
}
