/* Counts the gradients that a rank has sent and that their receiver may not have read when their memory is used again.
 */
#include "base/mem/scoped.h"
#include "parallel/pipeline/pipeline_check_impl.h"

/* How far each rank must be when a rank has come to some action: every message that it has received was sent, and so
 * were those that its sender had received before. */
typedef struct progress {
    const tess_pipeline_schedule *s;
    tess_pipeline_time **ends; /* (ranks) the other end of each message */
    int *known, *wanted;       /* (ranks) number of actions that the rank has surely done */
} progress;

/* Adds what follows from a rank's having done its first `n` actions. */
static void learn(progress *p, int rank, int n)
{
    bool moved = true;
    p->wanted[rank] = n;
    while (moved) {
        moved = false;
        for (int r = 0; r < p->s->ranks; r++)
            for (; p->known[r] < p->wanted[r]; p->known[r]++) {
                const tess_pipeline_action *a = &p->s->lists[r].actions[p->known[r]];
                moved = true;
                if (a->op <= TESS_PIPELINE_BW || pipeline_is_send(a->op))
                    continue;
                const int peer = pipeline_peer(p->s, r, a), sent = p->ends[r][p->known[r]].other + 1;
                p->wanted[peer] = sent > p->wanted[peer] ? sent : p->wanted[peer];
            }
    }
}

static bool is_read(const progress *p, int rank, int sent)
{
    return p->known[pipeline_peer(p->s, rank, &p->s->lists[rank].actions[sent])] > p->ends[rank][sent].other;
}

/* pending (chunks, micros): the newest gradient that a slot has sent, + 1. unread (actions): scratch. */
static int count_unread(progress *p, int rank, int *pending, int *unread)
{
    const tess_pipeline_list *list = &p->s->lists[rank];
    int n = 0, most = 0;
    for (int i = 0; i < list->n; i++) {
        const tess_pipeline_action *a = &list->actions[i];
        int *sent = &pending[a->chunk * p->s->micros + a->slot];
        learn(p, rank, i);
        if ((a->op == TESS_PIPELINE_B || a->op == TESS_PIPELINE_BI) && *sent > 0) {
            unread[n++] = *sent - 1;
            int n_left = 0;
            for (int k = 0; k < n; k++)
                if (!is_read(p, rank, unread[k]))
                    unread[n_left++] = unread[k];
            n = n_left;
            most = n > most ? n : most;
        }
        if (a->op == TESS_PIPELINE_SEND_B || a->op == TESS_PIPELINE_SEND_T)
            *sent = i + 1;
    }
    return most;
}

tess_status tess_pipeline_unread(const tess_pipeline_schedule *s, int rank, int *n_unread)
{
    const tess_pipeline_costs alike = {.forward = 1, .backward = 2, .input = 1, .weight = 1};
    TESS_AUTO(tess_pipeline_report_free) tess_pipeline_report report = {0};
    TESS_AUTO(tess_mem_drop) int *scratch = NULL;
    *n_unread = 0;
    TESS_TRY(tess_pipeline_check(s, &alike, &report));
    TESS_TRY(
        TESS_NEW(s->mem, 2 * s->ranks + s->chunks * s->micros + s->lists[rank].n, "messages of a pipeline", &scratch));
    progress p = {.s = s, .ends = report.times, .known = scratch, .wanted = scratch + s->ranks};
    int *pending = p.wanted + s->ranks;
    *n_unread = count_unread(&p, rank, pending, pending + (size_t)s->chunks * (size_t)s->micros);
    return TESS_OK;
}
