/* From what was found to the root cause. Timeouts are effects: an error of another kind that came before them is the
 * cause; without one, the rank that is not in the collective that the others wait in. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"
#include "diagnosis/majority.h"
#include "diagnosis/sentence.h"

/* What the ranks' timeouts have in common. */
typedef struct wait_table {
    const tess_survey *survey;
    const log_work *usual; /* the collective that most ranks wait in */
    int n_ranks;           /* of the job */
    int which;             /* bits of `stand`: who is to be counted or named */
} wait_table;

/* How a rank stands to the collective that most wait in. */
enum stand {
    IN_IT = 1 << 0,
    DIFFERS = 1 << 1,        /* waits at the same place of the same group in something else */
    AT_OTHER_PLACE = 1 << 2, /* waits at another place in the sequence of the same group */
    IN_OTHER_GROUP = 1 << 3, /* waits in a collective of another group, or of one that is not known at another place */
    HAS_QUEUED = 1 << 4,     /* has it in its queue */
    OUTSIDE = 1 << 5,        /* its own lines say that it was not in the collective */
    SILENT = 1 << 6,         /* its lines say nothing of it */
    UNSEEN = 1 << 7,         /* has no lines */
    WAITS = IN_IT | DIFFERS | AT_OTHER_PLACE | IN_OTHER_GROUP | HAS_QUEUED,
    MISSING = OUTSIDE | SILENT | UNSEEN
};

static void report(tess_log_diagnosis *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void report(tess_log_diagnosis *v, const char *format, ...)
{
    if (v->n_evidence == TESS_LOG_MOST_EVIDENCE)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(v->evidence[v->n_evidence++], sizeof(v->evidence[0]), format, args);
    va_end(args);
}

static void report_sentence(tess_log_diagnosis *v, const char *sentence, const tess_fields *fields)
{
    if (v->n_evidence == TESS_LOG_MOST_EVIDENCE)
        return;
    tess_sentence words = tess_sentence_begin(v->evidence[v->n_evidence++], sizeof(v->evidence[0]));
    tess_words_fill(&words, sentence, fields);
}

static const log_rank *rank_at(const wait_table *t, int rank)
{
    static const log_rank nothing;
    return rank < t->survey->n_ranks ? &t->survey->ranks[rank] : &nothing;
}

/* Two names of process groups; "" is one that is not known. */
static bool same_group(const char *a, const char *b)
{
    return a[0] == '\0' || b[0] == '\0' || strcmp(a, b) == 0;
}

static bool same_work(const log_work *a, const log_work *b)
{
    return a->sequence == b->sequence && strcmp(a->op, b->op) == 0 && a->numel_in == b->numel_in &&
           a->numel_out == b->numel_out && same_group(a->group, b->group);
}

static enum stand stand_of_waiting(const log_work *work, const log_work *usual)
{
    bool same_place = work->sequence == usual->sequence;
    if (same_work(work, usual))
        return IN_IT;
    if (same_place && same_group(work->group, usual->group))
        return DIFFERS;
    return !same_place && work->group[0] != '\0' && strcmp(work->group, usual->group) == 0 ? AT_OTHER_PLACE
                                                                                           : IN_OTHER_GROUP;
}

static enum stand stand_of(const wait_table *t, int rank)
{
    const log_rank *r = rank_at(t, rank);
    bool has_progress = r->has_progress && same_group(r->progress.group, t->usual->group);
    if (r->waits)
        return stand_of_waiting(&r->work, t->usual);
    if (has_progress && r->progress.enqueued < t->usual->sequence)
        return OUTSIDE;
    if (has_progress && r->progress.completed < t->usual->sequence)
        return HAS_QUEUED;
    return r->seen ? SILENT : UNSEEN;
}

static bool is_one(const void *table, int rank)
{
    const wait_table *t = table;
    return (stand_of(t, rank) & t->which) != 0;
}

static int count(const wait_table *t, int which)
{
    wait_table table = *t;
    table.which = which;
    return log_count_ranks(is_one, &table, t->n_ranks);
}

static void put_ranks(const wait_table *t, int which, const char *name, tess_fields *fields)
{
    char text[160];
    wait_table table = *t;
    table.which = which;
    tess_fields_put(fields, name, 1, "%s", log_name_ranks(is_one, &table, t->n_ranks, text, sizeof(text)));
}

static void put_work(const log_work *work, const char *name, tess_fields *fields)
{
    char text[160];
    tess_fields_put(fields, name, 1, "%s", log_describe_work(work, text, sizeof(text)));
}

static bool works_alike(const void *survey, int a, int b)
{
    const log_rank *x = &((const tess_survey *)survey)->ranks[a], *y = &((const tess_survey *)survey)->ranks[b];
    return x->waits && y->waits && same_work(&x->work, &y->work);
}

static void set_world(const tess_survey *s, int world, tess_log_diagnosis *v)
{
    v->world_known = world > 0 || (s->stated_world > 0 && s->stated_world >= s->n_ranks);
    v->world = world > 0 ? world : s->stated_world;
    if (v->world < s->n_ranks)
        v->world = s->n_ranks;
    while (!v->world_known && (v->world & (v->world - 1)) != 0) /* most jobs have a power of two */
        v->world++;
}

static void set_culprits(const wait_table *t, int which, tess_log_diagnosis *v)
{
    v->n_culprits = 0;
    for (int r = 0; r < t->n_ranks && v->n_culprits < TESS_LOG_MOST_CULPRITS; r++)
        if ((stand_of(t, r) & which) != 0)
            v->culprit[v->n_culprits++] = r;
}

/* What is known of each rank that is missing. */
static void report_missing(const wait_table *t, tess_log_diagnosis *v)
{
    for (int i = 0; i < v->n_culprits && i < 6; i++) {
        const log_rank *r = rank_at(t, v->culprit[i]);
        if (r->has_exit)
            report(v, "rank %d: torchrun saw it fail first, with exit code %d", v->culprit[i], r->exit_code);
        if (r->has_progress)
            report(v, "rank %d: last enqueued %" PRId64 ", last completed %" PRId64 "%s: it never came to #%" PRId64,
                   v->culprit[i], r->progress.enqueued, r->progress.completed,
                   r->progress.enqueued == r->progress.completed ? ", so it was outside of any collective" : "",
                   t->usual->sequence);
        else if (r->notified)
            report(v, "rank %d: was told of the others' timeout and had none itself", v->culprit[i]);
        else
            report(v, "rank %d: %s", v->culprit[i],
                   r->seen ? "its log has no timeout" : "not a line of it is in these logs");
    }
}

/* Of those who did not come the ones that are surely absent, not only silent here; 0: nobody is. */
static int who_is_absent(const wait_table *t)
{
    int n_missing = count(t, MISSING), n_waiting = count(t, WAITS), n_outside = count(t, OUTSIDE);
    if (n_outside > 0)
        return n_outside <= n_waiting ? OUTSIDE : 0;
    return n_missing > 0 && n_missing < n_waiting && (count(t, UNSEEN) == 0 || n_missing == 1) ? MISSING : 0;
}

typedef struct log_outcome {
    tess_log_kind kind;
    int culprit; /* bits of `stand` */
    const char *headline, *evidence;
} log_outcome;

#define DIFFERENT "ranks wait in different collectives[ ({tie})]: {guilty} in {own}, {in_it} in {work}"

static log_outcome judge_missing(const wait_table *t)
{
    int absent = who_is_absent(t);
    if (count(t, OUTSIDE) > count(t, WAITS))
        return (log_outcome){TESS_LOG_MISMATCH, WAITS,
                             "{guilty} called {work}, which {outside} never did: one collective more", NULL};
    if (absent != 0)
        return (log_outcome){TESS_LOG_MISSING, absent,
                             "{guilty} never joined {work}, in which {waiting} waited {timeout} s[{doubt}]", NULL};
    return (log_outcome){
        TESS_LOG_ONE_SIDED, 0,
        "{waiting} waited {timeout} s in {work} for a rank that did not come; the logs of the others say "
        "which",
        "no timeout of {missing} is in these logs"};
}

/* Who belongs to a group is not in the logs, so in several groups nobody can be called missing. */
static log_outcome judge_stands(const wait_table *t, bool world_known)
{
    if (count(t, DIFFERS) > 0)
        return (log_outcome){TESS_LOG_MISMATCH, DIFFERS, DIFFERENT,
                             "same place in the sequence, other operation or counts: a branch or a shape that differs "
                             "between ranks"};
    if (count(t, AT_OTHER_PLACE) > 0)
        return (log_outcome){
            TESS_LOG_MISMATCH, AT_OTHER_PLACE, DIFFERENT,
            "one group, different places in its sequence: some skipped a collective or called one more"};
    if (count(t, IN_OTHER_GROUP) > 0)
        return (log_outcome){
            TESS_LOG_ONE_SIDED, 0,
            "ranks wait in collectives of different groups: {in_it} in {work}, {in_other_group} in others",
            "logs do not say who belongs to a group; flight recorder dumps do: `tessera trace DIR`"};
    if (count(t, MISSING) > 0)
        return judge_missing(t);
    if (world_known)
        return (log_outcome){TESS_LOG_ALL_WAITED, 0,
                             "all {n} ranks waited in {work}: nobody is missing; the network or a device stands still",
                             NULL};
    return (log_outcome){
        TESS_LOG_ONE_SIDED, 0,
        "all {n} ranks of these logs waited in {work}: a rank without a line here is missing, or nobody "
        "(--world N tells how many there are) and the network or a device stands still",
        NULL};
}

static void put_waits(const wait_table *t, int culprit, tess_fields *fields)
{
    put_ranks(t, culprit, "guilty", fields);
    put_ranks(t, WAITS, "waiting", fields);
    put_work(t->usual, "work", fields);
    tess_fields_put(fields, "timeout", 1, "%" PRId64, t->usual->timeout_ms / 1000);
}

static void judge_waits(const wait_table *t, tess_log_diagnosis *v)
{
    tess_fields fields = {.n = 0};
    log_outcome found = judge_stands(t, v->world_known);
    v->kind = found.kind;
    set_culprits(t, found.culprit, v);
    put_waits(t, found.culprit, &fields);
    put_ranks(t, IN_IT, "in_it", &fields);
    put_ranks(t, OUTSIDE, "outside", &fields);
    put_ranks(t, MISSING, "missing", &fields);
    put_ranks(t, IN_OTHER_GROUP, "in_other_group", &fields);
    put_work(&rank_at(t, v->culprit[0])->work, "own", &fields);
    tess_fields_put(&fields, "n", t->n_ranks, "%d", t->n_ranks);
    tess_fields_put(&fields, "tie", 1, "%s", count(t, found.culprit) == count(t, IN_IT) ? "a tie" : "");
    tess_fields_put(&fields, "doubt", 1, "%s",
                    found.culprit == MISSING && count(t, UNSEEN) > 0 ? " (unless its log was not given)" : "");
    tess_sentence headline = tess_sentence_begin(v->headline, sizeof(v->headline));
    tess_words_fill(&headline, found.headline, &fields);
    if (found.evidence != NULL)
        report_sentence(v, found.evidence, &fields);
    if (found.kind == TESS_LOG_MISSING)
        report_missing(t, v);
}

/* Whether the error came after a timeout of its own rank, or after the first of all. */
static bool is_after_timeouts(const tess_survey *s, const log_match *match)
{
    for (int r = 0; r < s->n_ranks; r++) {
        const log_rank *rank = &s->ranks[r];
        if (!rank->waits)
            continue;
        if (match->time_s >= 0 && rank->time_s >= 0 && match->time_s > rank->time_s)
            return true;
        if (r == match->rank && match->first.file == rank->at.file && match->first.line > rank->at.line)
            return true;
    }
    return false;
}

static bool is_before(const log_match *a, const log_match *b)
{
    if (a->time_s >= 0 && b->time_s >= 0 && a->time_s != b->time_s)
        return a->time_s < b->time_s;
    if ((a->time_s >= 0) != (b->time_s >= 0))
        return a->time_s >= 0;
    return a->first.file != b->first.file ? a->first.file < b->first.file : a->first.line < b->first.line;
}

/* The earliest error that ends a job; -1: there is none. */
static int find_cause(const tess_survey *s)
{
    int cause = -1;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++) {
        const log_match *match = &s->matches[i];
        if (match->n_lines == 0 || tess_knowledge_at(s->knowledge, i)->role != TESS_LOG_CAUSE ||
            is_after_timeouts(s, match))
            continue;
        if (cause < 0 || is_before(match, &s->matches[cause]))
            cause = i;
    }
    return cause;
}

static void judge_error(const tess_survey *s, int cause, tess_log_diagnosis *v)
{
    const log_match *match = &s->matches[cause];
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    v->kind = TESS_LOG_ERROR;
    v->entry = cause;
    if (match->rank >= 0) {
        v->culprit[0] = match->rank;
        v->n_culprits = 1;
        snprintf(v->headline, sizeof(v->headline), "rank %d: %s", match->rank, entry->symptom);
    } else {
        snprintf(v->headline, sizeof(v->headline), "%s", entry->symptom);
    }
    report(v, "%.200s:%" PRId64 ": %s", s->files[match->first.file], match->first.line, match->excerpt);
}

static void judge_behind(const log_behind *behind, tess_log_diagnosis *v)
{
    v->kind = TESS_LOG_MISSING;
    v->entry = behind->entry;
    v->n_culprits = behind->n_culprits;
    memcpy(v->culprit, behind->culprit, sizeof(v->culprit));
    snprintf(v->headline, sizeof(v->headline), "%s", behind->text);
}

static int count_role(const tess_survey *s, tess_log_role role)
{
    int n = 0;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        n += s->matches[i].n_lines > 0 && tess_knowledge_at(s->knowledge, i)->role == role;
    return n;
}

static void judge_rest(const tess_survey *s, tess_log_diagnosis *v)
{
    if (s->n_known_lines == 0) {
        v->kind = TESS_LOG_NOTHING;
        snprintf(v->headline, sizeof(v->headline), "nothing of this log is in the knowledge base (%d entries)",
                 tess_knowledge_n(s->knowledge));
        return;
    }
    v->kind = TESS_LOG_KNOWN;
    snprintf(v->headline, sizeof(v->headline), "no error that ends a job is in these logs%s",
             count_role(s, TESS_LOG_EFFECT) > 0 ? ", only what follows from one: look into those of the other ranks"
                                                : "");
    for (int r = 0; r < s->n_ranks; r++) {
        if (!s->ranks[r].has_exit)
            continue;
        snprintf(v->headline, sizeof(v->headline), "rank %d failed first, with exit code %d, as torchrun saw it", r,
                 s->ranks[r].exit_code);
        v->culprit[0] = r;
        v->n_culprits = 1;
    }
}

/* What else follows: who waited, and whether that can be the size's fault. Who is absent is whom an error without a
 * rank befell: a kernel names processes. */
static void report_waits(const wait_table *t, tess_log_diagnosis *v)
{
    char sum[400];
    v->work = *t->usual;
    if (v->entry >= 0) {
        tess_fields fields = {.n = 0};
        int absent = v->n_culprits == 0 ? who_is_absent(t) : 0;
        if (absent != 0)
            set_culprits(t, absent, v);
        put_waits(t, absent, &fields);
        report_sentence(v,
                        absent != 0 ? "its effect: {waiting} waited {timeout} s in {work}, to which {guilty} never came"
                                    : "its effect: {waiting} waited {timeout} s in {work}",
                        &fields);
    }
    log_do_arithmetic(v, sum, sizeof(sum));
    if (sum[0] != '\0')
        report(v, "%s", sum);
}

void tess_log_judge(const tess_survey *s, int world, tess_log_diagnosis *v)
{
    log_behind behind;
    *v = (tess_log_diagnosis){.entry = -1};
    set_world(s, world, v);
    wait_table t = {.survey = s, .n_ranks = v->world_known ? v->world : s->n_ranks};
    int usual = tess_majority_find(works_alike, s, s->n_ranks).first;
    if (usual >= 0)
        t.usual = &s->ranks[usual].work;
    int cause = find_cause(s);
    bool is_behind = log_find_behind(s, t.n_ranks, &behind);
    if (cause >= 0)
        judge_error(s, cause, v);
    else if (t.usual != NULL)
        judge_waits(&t, v);
    else if (!is_behind)
        judge_rest(s, v);
    if (is_behind && (v->kind == TESS_LOG_NOTHING || v->kind == TESS_LOG_ONE_SIDED))
        judge_behind(&behind, v);
    else if (is_behind)
        report(v, "%s", behind.text);
    if (t.usual != NULL)
        report_waits(&t, v);
}
