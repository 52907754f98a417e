/* Reports collectives that timed out: which ranks waited in which one, which ranks are missing, and whether the size
 * explains the time. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"

static void add_report(tess_log_diagnosis *v, tess_report_id id, const tess_fields *fields)
{
    if (id == TESS_REPORT_NONE || v->n_evidence == TESS_LOG_MOST_EVIDENCE)
        return;
    tess_sentence line = tess_sentence_begin(v->evidence[v->n_evidence++], sizeof(v->evidence[0]));
    tess_sentence_report(&line, id, fields);
}

/* Selects the ranks with any of these sides. */
typedef struct side_filter {
    const log_blame *blame;
    unsigned sides;
} side_filter;

static bool has_side(const void *filter, int rank)
{
    const side_filter *f = filter;
    return (f->blame->sides[rank] & f->sides) != 0;
}

static void put_ranks(const log_blame *b, unsigned sides, const char *name, tess_fields *fields)
{
    char text[160] = "";
    const side_filter filter = {.blame = b, .sides = sides};
    int n = log_count_sides(b, sides);
    if (n > 0)
        log_name_ranks(has_side, &filter, b->n_ranks, text, sizeof(text));
    tess_fields_put(fields, name, n, "%s", text);
}

static void put_work(const log_work *work, const char *name, tess_fields *fields)
{
    char text[160];
    tess_fields_put(fields, name, 1, "%s", log_describe_work(work, text, sizeof(text)));
}

/* Writes the culprits, with the host if it is known: "rank 3 on node-b". */
static void put_culprits(const log_blame *b, unsigned sides, tess_fields *fields)
{
    int rank = b->n_culprits == 1 && sides != 0 && b->culprits[0] < b->survey->n_ranks ? b->culprits[0] : -1;
    if (rank >= 0 && b->survey->ranks[rank].host[0] != '\0')
        tess_fields_put(fields, "culprits", 1, "rank %d on %s", rank, b->survey->ranks[rank].host);
    else
        put_ranks(b, sides, "culprits", fields);
}

static void put_waits(const log_blame *b, unsigned culprits, tess_fields *fields)
{
    put_culprits(b, culprits, fields);
    put_ranks(b, LOG_SIDE_WAITS, "waiting", fields);
    put_work(b->usual, "work", fields);
    if (b->usual->timeout_ms >= 1000)
        tess_fields_put(fields, "timeout", 1, "%" PRId64, b->usual->timeout_ms / 1000);
}

/* Writes the collective that the ranks of other groups wait in, or "others" if they wait in several. */
static void put_other_work(const log_blame *b, tess_fields *fields)
{
    const log_work *first = NULL;
    for (int r = 0; r < b->n_ranks && r < b->survey->n_ranks; r++) {
        const log_work *work = &b->survey->ranks[r].work;
        if ((b->sides[r] & LOG_SIDE_OTHER_GROUP) == 0)
            continue;
        if (first != NULL && (strcmp(work->op, first->op) != 0 || work->sequence != first->sequence)) {
            first = NULL;
            break;
        }
        first = work;
    }
    if (first != NULL && first->op[0] != '\0')
        put_work(first, "other_work", fields);
    else
        tess_fields_put(fields, "other_work", 1, "others");
}

/* Writes the ranks whose collective has the lower number: "rank 7 is", or "some ranks are" if they are not on one side.
 */
static void put_behind(const log_blame *b, tess_fields *fields)
{
    char text[160];
    int n_before = 0, n_after = 0;
    for (int r = 0; r < b->n_ranks && r < b->survey->n_ranks; r++)
        if (b->sides[r] & LOG_SIDE_OTHER_GROUP) {
            n_before += b->survey->ranks[r].work.sequence < b->usual->sequence;
            n_after += b->survey->ranks[r].work.sequence > b->usual->sequence;
        }
    const side_filter filter = {.blame = b, .sides = n_after > 0 ? LOG_SIDE_IN_IT : LOG_SIDE_OTHER_GROUP};
    int n = (n_before > 0) != (n_after > 0) ? log_count_sides(b, filter.sides) : 0;
    if (n > 0)
        log_name_ranks(has_side, &filter, b->n_ranks, text, sizeof(text));
    tess_fields_put(fields, "behind", 1, "%s %s", n > 0 ? text : "some ranks", n == 1 ? "is" : "are");
}

/* Reports what the logs say about the missing ranks. */
static void report_missing(const log_blame *b, tess_log_diagnosis *v)
{
    enum { MOST_REPORTED = 6 };
    static const log_rank unseen;
    for (int i = 0; i < v->n_culprits && i < MOST_REPORTED; i++) {
        int rank = v->culprit[i];
        const log_rank *r = rank < b->survey->n_ranks ? &b->survey->ranks[rank] : &unseen;
        const log_failure *failure = log_failure_of(b->survey, rank);
        tess_fields fields = {.n = 0};
        tess_fields_put(&fields, "rank", 1, "%d", rank);
        tess_fields_put(&fields, "exit_code", 1, "%d", failure != NULL ? failure->code : 0);
        tess_fields_put(&fields, "enqueued", 1, "%" PRId64, r->progress.enqueued);
        tess_fields_put(&fields, "completed", 1, "%" PRId64, r->progress.completed);
        tess_fields_put(&fields, "outside", 1, "%s",
                        r->progress.enqueued == r->progress.completed ? "so it was outside of any collective" : "");
        tess_fields_put(&fields, "sequence", 1, "%" PRId64, b->usual->sequence);
        if (failure != NULL && failure->is_root)
            add_report(v, TESS_REPORT_EXIT, &fields);
        add_report(v,
                   r->has_progress ? TESS_REPORT_PROGRESS
                   : r->notified   ? TESS_REPORT_NOTIFIED
                   : r->seen       ? TESS_REPORT_NO_TIMEOUT
                                   : TESS_REPORT_NO_LINE,
                   &fields);
    }
}

/* Reports by how many collectives the culprits are behind or ahead, if they wait elsewhere in the same group. */
static void report_distance(const log_blame *b, tess_fields *fields, tess_log_diagnosis *v)
{
    int64_t own = b->survey->ranks[b->culprits[0]].work.sequence, usual = b->usual->sequence;
    int64_t distance = own < usual ? usual - own : own - usual;
    if (own < 0 || usual < 0 || b->tie)
        return;
    tess_fields_put(fields, "n", distance == 1 ? 1 : 2, "%" PRId64, distance);
    tess_fields_put(fields, "side", 1, "%s", own < usual ? "behind" : "ahead of");
    add_report(v, TESS_REPORT_DISTANCE, fields);
}

/* Reports the host of the ranks that wait, where the logs give it and it is a single one. */
static void report_host(const log_blame *b, tess_log_diagnosis *v)
{
    const side_filter filter = {.blame = b, .sides = LOG_SIDE_WAITS};
    const char *host = "";
    char text[160];
    for (int r = 0; r < b->n_ranks && r < b->survey->n_ranks; r++) {
        const char *own = b->survey->ranks[r].host;
        if ((b->sides[r] & LOG_SIDE_WAITS) == 0)
            continue;
        if (own[0] == '\0' || (host[0] != '\0' && strcmp(host, own) != 0))
            return;
        host = own;
    }
    if (host[0] != '\0')
        log_add_evidence(v, "%s printed this on %s", log_name_ranks(has_side, &filter, b->n_ranks, text, sizeof(text)),
                         host);
}

void log_report_blame(const log_blame *b, tess_log_diagnosis *v)
{
    tess_fields fields = {.n = 0};
    v->kind = b->kind;
    v->is_cause = b->kind != TESS_LOG_ONE_SIDED;
    v->n_culprits = b->tie ? 0 : b->n_culprits;
    memcpy(v->culprit, b->culprits, sizeof(v->culprit));
    bool unseen = b->n_culprits > 0 && (b->sides[b->culprits[0]] & LOG_SIDE_UNSEEN) != 0;
    put_waits(b, LOG_SIDE_CULPRIT, &fields);
    put_ranks(b, LOG_SIDE_IN_IT | LOG_SIDE_QUEUED, "in_it", &fields);
    put_ranks(b, LOG_SIDE_OUTSIDE, "outside", &fields);
    put_ranks(b, LOG_SIDE_ABSENT, "missing", &fields);
    put_ranks(b, LOG_SIDE_OTHER_GROUP, "in_other_group", &fields);
    put_other_work(b, &fields);
    if (b->n_culprits > 0 && b->culprits[0] < b->survey->n_ranks)
        put_work(&b->survey->ranks[b->culprits[0]].work, "own", &fields);
    put_ranks(b, LOG_SIDE_CUT, "cut", &fields);
    put_behind(b, &fields);
    int n_all = log_count_sides(b, LOG_SIDE_CUT) > 0 ? log_count_sides(b, LOG_SIDE_WAITS) : b->n_ranks;
    tess_fields_put(&fields, "all", n_all, "%d", n_all);
    tess_fields_put(&fields, "tie", 1, "%s", b->tie ? "a tie" : "");
    tess_fields_put(&fields, "doubt", 1, "%s", unseen ? " (unless its log was not given)" : "");
    tess_sentence headline = tess_sentence_begin(v->headline, sizeof(v->headline));
    tess_sentence_report(&headline, b->headline, &fields);
    add_report(v, b->evidence, &fields);
    if (b->survey->is_cut_off && b->kind != TESS_LOG_MISMATCH)
        add_report(v, TESS_REPORT_CUT, &fields);
    report_host(b, v);
    if (b->survey->leaves_out)
        log_add_evidence(v, "Ray left out lines of other ranks that say the same: RAY_DEDUP_LOGS=0 shows them");
    if (b->evidence == TESS_REPORT_OTHER_PLACE)
        report_distance(b, &fields, v);
    if (b->kind == TESS_LOG_MISSING)
        report_missing(b, v);
}

/* Reports waits that lasted much longer than their limit. A watchdog checks about once a second, so something kept
 * it from checking. */
static void report_standstill(const log_blame *b, tess_log_diagnosis *v)
{
    const log_work *work = b->usual;
    tess_fields fields = {.n = 0};
    enum { LEAST_LATE_MS = 120000 };
    if (work->timeout_ms <= 0 || work->elapsed_ms / 2 < work->timeout_ms ||
        work->elapsed_ms - work->timeout_ms < LEAST_LATE_MS)
        return;
    tess_fields_put(&fields, "ran", 1, "%.2g", (double)work->elapsed_ms / 3.6e6);
    tess_fields_put(&fields, "timeout", 1, "%.2g", (double)work->timeout_ms / 3.6e6);
    add_report(v, TESS_REPORT_STANDSTILL, &fields);
}

/* Reports the waits. An error without a rank (a kernel names only processes) is taken to concern the absent ranks. */
void log_report_waits(const log_blame *b, tess_log_diagnosis *v)
{
    char sum[400];
    v->work = *b->usual;
    if (v->entry >= 0 && v->kind != b->kind) {
        tess_fields fields = {.n = 0};
        bool absent = v->n_culprits == 0 && b->kind == TESS_LOG_MISSING;
        if (absent) {
            v->n_culprits = b->n_culprits;
            memcpy(v->culprit, b->culprits, sizeof(v->culprit));
        }
        put_waits(b, absent ? LOG_SIDE_CULPRIT : 0, &fields);
        add_report(v, TESS_REPORT_EFFECT, &fields);
    }
    report_standstill(b, v);
    log_do_arithmetic(v, sum, sizeof(sum));
    if (sum[0] != '\0')
        log_add_evidence(v, "%s", sum);
}
