/* From what was found to the root cause. Timeouts are effects: an error of another kind that came before them is the
 * cause; without one, the rank that is not in the collective that the others wait in. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/arithmetic.h"
#include "doctor/log/marks.h"
#include "doctor/log/ranks.h"

/* What the ranks' timeouts have in common. */
typedef struct wait_table {
    const tess_survey *survey;
    const log_work *usual; /* the collective that most ranks wait in */
    int n_ranks;           /* of the job */
} wait_table;

static void tell(tess_log_verdict *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tell(tess_log_verdict *v, const char *format, ...)
{
    if (v->n_evidence == TESS_LOG_MOST_EVIDENCE)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(v->evidence[v->n_evidence++], sizeof(v->evidence[0]), format, args);
    va_end(args);
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

/* Timed out in it, or has it in its queue. */
static bool waits(const void *table, int rank)
{
    const wait_table *t = table;
    const log_rank *r = rank_at(t, rank);
    return r->waits || (r->has_progress && same_group(r->progress.group, t->usual->group) &&
                        r->progress.enqueued >= t->usual->sequence && r->progress.completed < t->usual->sequence);
}

static bool waits_as_usual(const void *table, int rank)
{
    const wait_table *t = table;
    const log_rank *r = rank_at(t, rank);
    return r->waits && same_work(&r->work, t->usual);
}

/* Waits at the same place of the same group in something else. */
static bool differs(const void *table, int rank)
{
    const wait_table *t = table;
    const log_rank *r = rank_at(t, rank);
    return r->waits && r->work.sequence == t->usual->sequence && same_group(r->work.group, t->usual->group) &&
           !same_work(&r->work, t->usual);
}

/* Waits at another place in the sequence of the same group. */
static bool is_elsewhere(const void *table, int rank)
{
    const wait_table *t = table;
    const log_rank *r = rank_at(t, rank);
    return r->waits && r->work.group[0] != '\0' && strcmp(r->work.group, t->usual->group) == 0 &&
           r->work.sequence != t->usual->sequence;
}

/* Waits in a collective of another group, or of one that is not known at another place. */
static bool is_in_other_group(const void *table, int rank)
{
    return rank_at(table, rank)->waits && !waits_as_usual(table, rank) && !differs(table, rank) &&
           !is_elsewhere(table, rank);
}

static bool is_missing(const void *table, int rank)
{
    return !waits(table, rank);
}

static bool is_missing_unseen(const void *table, int rank)
{
    return is_missing(table, rank) && !rank_at(table, rank)->seen;
}

/* Of the missing: those whose own lines say that they were not in the collective. */
static bool is_seen_outside(const void *table, int rank)
{
    const wait_table *t = table;
    const log_rank *r = rank_at(t, rank);
    return !r->waits && r->has_progress && same_group(r->progress.group, t->usual->group) &&
           r->progress.enqueued < t->usual->sequence;
}

static const log_work *find_usual(const tess_survey *s)
{
    enum { MOST_TRIED = 256 }; /* a job with more different collectives at once has another trouble */
    const log_work *usual = NULL;
    int most = 0, n_tried = 0;
    for (int r = 0; r < s->n_ranks && n_tried < MOST_TRIED; r++) {
        int n = 0;
        if (!s->ranks[r].waits || (usual != NULL && same_work(&s->ranks[r].work, usual)))
            continue;
        for (int other = 0; other < s->n_ranks; other++)
            n += s->ranks[other].waits && same_work(&s->ranks[r].work, &s->ranks[other].work);
        n_tried++;
        if (n > most) {
            most = n;
            usual = &s->ranks[r].work;
        }
    }
    return usual;
}

static void set_world(const tess_survey *s, int world, tess_log_verdict *v)
{
    v->world_known = world > 0 || (s->stated_world > 0 && s->stated_world >= s->n_ranks);
    v->world = world > 0 ? world : s->stated_world;
    if (v->world < s->n_ranks)
        v->world = s->n_ranks;
    while (!v->world_known && (v->world & (v->world - 1)) != 0) /* most jobs have a power of two */
        v->world++;
}

static void set_guilty(const wait_table *t, log_rank_fn is_in, tess_log_verdict *v)
{
    v->n_guilty = 0;
    for (int r = 0; r < t->n_ranks && v->n_guilty < TESS_LOG_MOST_GUILTY; r++)
        if (is_in(t, r))
            v->guilty[v->n_guilty++] = r;
}

/* What is known of each rank that is missing. */
static void tell_missing(const wait_table *t, tess_log_verdict *v)
{
    for (int i = 0; i < v->n_guilty && i < 6; i++) {
        const log_rank *r = rank_at(t, v->guilty[i]);
        if (r->has_exit)
            tell(v, "rank %d: torchrun saw it fail first, with exit code %d", v->guilty[i], r->exit_code);
        if (r->has_progress)
            tell(v, "rank %d: last enqueued %" PRId64 ", last completed %" PRId64 "%s: it never came to #%" PRId64,
                 v->guilty[i], r->progress.enqueued, r->progress.completed,
                 r->progress.enqueued == r->progress.completed ? ", so it was outside of any collective" : "",
                 t->usual->sequence);
        else if (r->notified)
            tell(v, "rank %d: was told of the others' timeout and had none itself", v->guilty[i]);
        else
            tell(v, "rank %d: %s", v->guilty[i],
                 r->seen ? "its log has no timeout" : "not a line of it is in these logs");
    }
}

/* Most ranks are outside: those who wait called one collective more. */
static void judge_extra(const wait_table *t, tess_log_verdict *v)
{
    char who[160], others[160], what[160];
    v->kind = TESS_LOG_MISMATCH;
    set_guilty(t, waits, v);
    snprintf(v->headline, sizeof(v->headline), "%s called %s, which %s never did: one collective more",
             log_name_ranks(waits, t, t->n_ranks, who, sizeof(who)), log_describe_work(t->usual, what, sizeof(what)),
             log_name_ranks(is_seen_outside, t, t->n_ranks, others, sizeof(others)));
}

/* Of those who did not come the ones that are surely absent, not only silent here; NULL: nobody is. */
static log_rank_fn who_is_absent(const wait_table *t)
{
    int n_missing = log_count_ranks(is_missing, t, t->n_ranks), n_waiting = log_count_ranks(waits, t, t->n_ranks);
    int n_unseen = log_count_ranks(is_missing_unseen, t, t->n_ranks);
    int n_outside = log_count_ranks(is_seen_outside, t, t->n_ranks);
    if (n_outside > 0)
        return n_outside <= n_waiting ? is_seen_outside : NULL;
    return n_missing > 0 && n_missing < n_waiting && (n_unseen == 0 || n_missing == 1) ? is_missing : NULL;
}

static void judge_missing(const wait_table *t, tess_log_verdict *v)
{
    char who[160], others[160], what[160];
    log_rank_fn absent = who_is_absent(t);
    if (log_count_ranks(is_seen_outside, t, t->n_ranks) > log_count_ranks(waits, t, t->n_ranks)) {
        judge_extra(t, v);
        return;
    }
    log_describe_work(t->usual, what, sizeof(what));
    log_name_ranks(waits, t, t->n_ranks, others, sizeof(others));
    if (absent != NULL) {
        bool in_doubt = absent == is_missing && log_count_ranks(is_missing_unseen, t, t->n_ranks) > 0;
        v->kind = TESS_LOG_MISSING;
        set_guilty(t, absent, v);
        snprintf(v->headline, sizeof(v->headline), "%s never joined %s, in which %s waited %" PRId64 " s%s",
                 log_name_ranks(absent, t, t->n_ranks, who, sizeof(who)), what, others, t->usual->timeout_ms / 1000,
                 in_doubt ? " (unless its log was not given)" : "");
        tell_missing(t, v);
        return;
    }
    v->kind = TESS_LOG_ONE_SIDED;
    snprintf(v->headline, sizeof(v->headline),
             "%s waited %" PRId64 " s in %s for a rank that did not come; the logs of the others say which", others,
             t->usual->timeout_ms / 1000, what);
    tell(v, "no timeout of %s is in these logs", log_name_ranks(is_missing, t, t->n_ranks, who, sizeof(who)));
}

static void judge_mismatch(const wait_table *t, log_rank_fn odd, tess_log_verdict *v)
{
    char who[160], others[160], usual[160], own[160];
    v->kind = TESS_LOG_MISMATCH;
    set_guilty(t, odd, v);
    const log_work *other = &rank_at(t, v->guilty[0])->work;
    int n_odd = log_count_ranks(odd, t, t->n_ranks), n_usual = log_count_ranks(waits_as_usual, t, t->n_ranks);
    snprintf(v->headline, sizeof(v->headline), "ranks wait in different collectives%s: %s in %s, %s in %s",
             n_odd == n_usual ? " (a tie)" : "", log_name_ranks(odd, t, t->n_ranks, who, sizeof(who)),
             log_describe_work(other, own, sizeof(own)),
             log_name_ranks(waits_as_usual, t, t->n_ranks, others, sizeof(others)),
             log_describe_work(t->usual, usual, sizeof(usual)));
    tell(v, "%s",
         other->sequence < t->usual->sequence
             ? "one group, different places in its sequence: some skipped a collective or called one more"
             : "same place in the sequence, other operation or counts: a branch or a shape that differs between "
               "ranks");
}

/* Everybody who is known waits in the same. */
static void judge_all_waited(const wait_table *t, tess_log_verdict *v)
{
    char what[160];
    v->kind = v->world_known ? TESS_LOG_ALL_WAITED : TESS_LOG_ONE_SIDED;
    log_describe_work(t->usual, what, sizeof(what));
    if (v->world_known)
        snprintf(v->headline, sizeof(v->headline),
                 "all %d ranks waited in %s: nobody is missing; the network or a device stands still", t->n_ranks,
                 what);
    else
        snprintf(v->headline, sizeof(v->headline),
                 "all %d ranks of these logs waited in %s: a rank without a line here is missing, or nobody (--world N "
                 "tells how many there are) and the network or a device stands still",
                 t->n_ranks, what);
}

/* Who belongs to a group is not in the logs, so nobody can be called missing. */
static void judge_groups(const wait_table *t, tess_log_verdict *v)
{
    char who[160], others[160], what[160];
    v->kind = TESS_LOG_ONE_SIDED;
    snprintf(v->headline, sizeof(v->headline), "ranks wait in collectives of different groups: %s in %s, %s in others",
             log_name_ranks(waits_as_usual, t, t->n_ranks, who, sizeof(who)),
             log_describe_work(t->usual, what, sizeof(what)),
             log_name_ranks(is_in_other_group, t, t->n_ranks, others, sizeof(others)));
    tell(v, "logs do not say who belongs to a group; flight recorder dumps do: `tessera trace DIR`");
}

static void judge_waits(const wait_table *t, tess_log_verdict *v)
{
    if (log_count_ranks(differs, t, t->n_ranks) > 0)
        judge_mismatch(t, differs, v);
    else if (log_count_ranks(is_elsewhere, t, t->n_ranks) > 0)
        judge_mismatch(t, is_elsewhere, v);
    else if (log_count_ranks(is_in_other_group, t, t->n_ranks) > 0)
        judge_groups(t, v);
    else if (log_count_ranks(is_missing, t, t->n_ranks) > 0)
        judge_missing(t, v);
    else
        judge_all_waited(t, v);
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

static void judge_error(const tess_survey *s, int cause, tess_log_verdict *v)
{
    const log_match *match = &s->matches[cause];
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    v->kind = TESS_LOG_ERROR;
    v->entry = cause;
    if (match->rank >= 0) {
        v->guilty[0] = match->rank;
        v->n_guilty = 1;
        snprintf(v->headline, sizeof(v->headline), "rank %d: %s", match->rank, entry->symptom);
    } else {
        snprintf(v->headline, sizeof(v->headline), "%s", entry->symptom);
    }
    tell(v, "%.200s:%" PRId64 ": %s", s->files[match->first.file], match->first.line, match->excerpt);
}

static void judge_behind(const log_behind *behind, tess_log_verdict *v)
{
    v->kind = TESS_LOG_MISSING;
    v->entry = behind->entry;
    v->n_guilty = behind->n_guilty;
    memcpy(v->guilty, behind->guilty, sizeof(v->guilty));
    snprintf(v->headline, sizeof(v->headline), "%s", behind->text);
}

static int count_role(const tess_survey *s, tess_log_role role)
{
    int n = 0;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        n += s->matches[i].n_lines > 0 && tess_knowledge_at(s->knowledge, i)->role == role;
    return n;
}

static void judge_rest(const tess_survey *s, tess_log_verdict *v)
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
        v->guilty[0] = r;
        v->n_guilty = 1;
    }
}

/* Timeouts beside their cause. Who is absent is whom an error without a rank befell: a kernel names processes. */
static void tell_effect(const wait_table *t, tess_log_verdict *v)
{
    char others[160], who[160], what[160];
    log_rank_fn absent = v->n_guilty == 0 ? who_is_absent(t) : NULL;
    log_name_ranks(waits, t, t->n_ranks, others, sizeof(others));
    log_describe_work(t->usual, what, sizeof(what));
    if (absent != NULL) {
        set_guilty(t, absent, v);
        tell(v, "its effect: %s waited %" PRId64 " s in %s, to which %s never came", others,
             t->usual->timeout_ms / 1000, what, log_name_ranks(absent, t, t->n_ranks, who, sizeof(who)));
    } else {
        tell(v, "its effect: %s waited %" PRId64 " s in %s", others, t->usual->timeout_ms / 1000, what);
    }
}

/* What else follows: who waited, and whether that can be the size's fault. */
static void tell_waits(const wait_table *t, tess_log_verdict *v)
{
    char sum[400];
    v->work = *t->usual;
    if (v->entry >= 0)
        tell_effect(t, v);
    log_do_arithmetic(v, sum, sizeof(sum));
    if (sum[0] != '\0')
        tell(v, "%s", sum);
}

void tess_log_judge(const tess_survey *s, int world, tess_log_verdict *v)
{
    log_behind behind;
    *v = (tess_log_verdict){.entry = -1};
    set_world(s, world, v);
    wait_table t = {.survey = s, .usual = find_usual(s), .n_ranks = v->world_known ? v->world : s->n_ranks};
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
        tell(v, "%s", behind.text);
    if (t.usual != NULL)
        tell_waits(&t, v);
}
