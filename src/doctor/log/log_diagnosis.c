/* The diagnosis of logs. Timeouts are effects: an error that came before them is the cause. Without one,
 * diagnosis/timeouts.h says which rank is not in the collective that the others wait in. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"
#include "diagnosis/sentence.h"

static void add_evidence(tess_log_diagnosis *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_evidence(tess_log_diagnosis *v, const char *format, ...)
{
    if (v->n_evidence == TESS_LOG_MOST_EVIDENCE)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(v->evidence[v->n_evidence++], sizeof(v->evidence[0]), format, args);
    va_end(args);
}

static void add_report(tess_log_diagnosis *v, tess_report_id id, const tess_fields *fields)
{
    if (id == TESS_REPORT_NONE || v->n_evidence == TESS_LOG_MOST_EVIDENCE)
        return;
    tess_sentence line = tess_sentence_begin(v->evidence[v->n_evidence++], sizeof(v->evidence[0]));
    tess_sentence_report(&line, id, fields);
}

/* The ranks with any of these stands. */
typedef struct stand_filter {
    const tess_timeouts *timeouts;
    unsigned stands;
} stand_filter;

static bool has_stand(const void *filter, int rank)
{
    const stand_filter *f = filter;
    return (tess_timeouts_stand(f->timeouts, rank) & f->stands) != 0;
}

static void put_ranks(const tess_timeouts *t, unsigned stands, const char *name, tess_fields *fields)
{
    char text[160] = "";
    const stand_filter filter = {.timeouts = t, .stands = stands};
    if (tess_timeouts_count(t, stands) > 0)
        log_name_ranks(has_stand, &filter, t->n_ranks, text, sizeof(text));
    tess_fields_put(fields, name, 1, "%s", text);
}

static void put_work(const tess_timed_work *work, const char *name, tess_fields *fields)
{
    char text[160];
    tess_fields_put(fields, name, 1, "%s", log_describe_work(work, text, sizeof(text)));
}

static void set_world(const tess_survey *s, int world, tess_log_diagnosis *v)
{
    v->world_known = world > 0 || (s->stated_world > 0 && s->stated_world >= s->n_ranks);
    v->world = world > 0 ? world : s->stated_world;
    if (v->world < s->n_ranks)
        v->world = s->n_ranks;
}

static void set_culprits(const tess_timeouts *t, unsigned stands, tess_log_diagnosis *v)
{
    v->n_culprits = 0;
    for (int r = 0; r < t->n_ranks && v->n_culprits < TESS_LOG_MOST_CULPRITS; r++)
        if ((tess_timeouts_stand(t, r) & stands) != 0)
            v->culprit[v->n_culprits++] = r;
}

/* What the logs say of the ranks that are missing. */
static void report_missing(const tess_survey *s, const tess_timeouts *t, tess_log_diagnosis *v)
{
    enum { MOST_REPORTED = 6 };
    static const tess_timed_rank unseen;
    for (int i = 0; i < v->n_culprits && i < MOST_REPORTED; i++) {
        const tess_timed_rank *r = v->culprit[i] < t->n_seen ? &t->ranks[v->culprit[i]] : &unseen;
        const log_failure *failure = log_failure_of(s, v->culprit[i]);
        tess_fields fields = {.n = 0};
        tess_fields_put(&fields, "rank", 1, "%d", v->culprit[i]);
        tess_fields_put(&fields, "exit_code", 1, "%d", failure != NULL ? failure->code : 0);
        tess_fields_put(&fields, "enqueued", 1, "%" PRId64, r->progress.enqueued);
        tess_fields_put(&fields, "completed", 1, "%" PRId64, r->progress.completed);
        tess_fields_put(&fields, "outside", 1, "%s",
                        r->progress.enqueued == r->progress.completed ? "so it was outside of any collective" : "");
        tess_fields_put(&fields, "sequence", 1, "%" PRId64, t->usual->sequence);
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

static void put_waits(const tess_timeouts *t, unsigned culprits, tess_fields *fields)
{
    put_ranks(t, culprits, "culprits", fields);
    put_ranks(t, TESS_STAND_WAITS, "waiting", fields);
    put_work(t->usual, "work", fields);
    tess_fields_put(fields, "timeout", 1, "%" PRId64, t->usual->timeout_ms / 1000);
}

static void report_timeouts(const tess_survey *s, const tess_timeouts *t, tess_log_diagnosis *v)
{
    static const tess_log_kind kinds[] = {[TESS_TIMEOUTS_MISMATCH] = TESS_LOG_MISMATCH,
                                          [TESS_TIMEOUTS_MISSING] = TESS_LOG_MISSING,
                                          [TESS_TIMEOUTS_ALL_WAITED] = TESS_LOG_ALL_WAITED,
                                          [TESS_TIMEOUTS_ONE_SIDED] = TESS_LOG_ONE_SIDED};
    tess_fields fields = {.n = 0};
    bool tie = tess_timeouts_count(t, t->culprits) == tess_timeouts_count(t, TESS_STAND_IN_IT);
    bool doubt = t->culprits == TESS_STAND_MISSING && tess_timeouts_count(t, TESS_STAND_UNSEEN) > 0;
    v->kind = kinds[t->kind];
    set_culprits(t, t->culprits, v);
    put_waits(t, t->culprits, &fields);
    put_ranks(t, TESS_STAND_IN_IT, "in_it", &fields);
    put_ranks(t, TESS_STAND_OUTSIDE, "outside", &fields);
    put_ranks(t, TESS_STAND_MISSING, "missing", &fields);
    put_ranks(t, TESS_STAND_OTHER_GROUP, "in_other_group", &fields);
    if (v->n_culprits > 0 && v->culprit[0] < t->n_seen)
        put_work(&t->ranks[v->culprit[0]].work, "own", &fields);
    tess_fields_put(&fields, "n", t->n_ranks, "%d", t->n_ranks);
    tess_fields_put(&fields, "tie", 1, "%s", tie ? "a tie" : "");
    tess_fields_put(&fields, "doubt", 1, "%s", doubt ? " (unless its log was not given)" : "");
    tess_sentence headline = tess_sentence_begin(v->headline, sizeof(v->headline));
    tess_sentence_report(&headline, t->headline, &fields);
    add_report(v, t->evidence, &fields);
    if (t->kind == TESS_TIMEOUTS_MISSING)
        report_missing(s, t, v);
}

static bool is_before(const log_match *a, const log_match *b)
{
    if (a->time_s >= 0 && b->time_s >= 0 && a->time_s != b->time_s)
        return a->time_s < b->time_s;
    if ((a->time_s >= 0) != (b->time_s >= 0))
        return a->time_s >= 0;
    return a->first.file != b->first.file ? a->first.file < b->first.file : a->first.line < b->first.line;
}

static bool is_found(const tess_survey *s, int entry)
{
    return s->matches[entry].n_lines > 0;
}

/* Another entry that was found says more. */
static bool is_explained(const tess_survey *s, int entry)
{
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (is_found(s, i) && tess_knowledge_explains(s->knowledge, i, entry))
            return true;
    return false;
}

static bool has_cause(const tess_survey *s)
{
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (is_found(s, i) && tess_knowledge_at(s->knowledge, i)->role == TESS_LOG_CAUSE)
            return true;
    return false;
}

tess_log_role log_role_of(const tess_survey *s, int entry)
{
    tess_log_role role = tess_knowledge_at(s->knowledge, entry)->role;
    if (role == TESS_LOG_WRAPPER)
        role = has_cause(s) ? TESS_LOG_EFFECT : TESS_LOG_CAUSE;
    return role == TESS_LOG_CAUSE && is_explained(s, entry) ? TESS_LOG_EFFECT : role;
}

/* The earliest entry of a role that the logs have before the timeouts; -1: there is none. `named`: only one that says
 * whom it is about. */
static int find_first(const tess_survey *s, const tess_timeouts *timeouts, tess_log_role role, bool named)
{
    int first = -1;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++) {
        const log_match *match = &s->matches[i];
        if (!is_found(s, i) || tess_knowledge_at(s->knowledge, i)->role != role || is_explained(s, i) ||
            (named && !match->who.is_named) ||
            (!named && tess_timeouts_precede(timeouts, match->rank, match->first, match->time_s)))
            continue;
        if (first < 0 || is_before(match, &s->matches[first]))
            first = i;
    }
    return first;
}

/* The error that ends a job: a cause, or where none is known what wraps one. A launcher that names a process that was
 * killed, after it has named another one that ended (`gone`; -1: none), has killed it itself. */
static int find_cause(const tess_survey *s, const tess_timeouts *timeouts, int gone)
{
    int cause = find_first(s, timeouts, TESS_LOG_CAUSE, false);
    int wrapper = cause < 0 ? find_first(s, timeouts, TESS_LOG_WRAPPER, false) : -1;
    bool is_late = wrapper >= 0 && gone >= 0 && s->matches[wrapper].who.is_named &&
                   is_before(&s->matches[gone], &s->matches[wrapper]);
    return cause >= 0 || is_late ? cause : wrapper;
}

static void set_who(const log_who *who, tess_log_diagnosis *v)
{
    v->who = *who;
    v->n_culprits = who->n_ranks;
    memcpy(v->culprit, who->ranks, sizeof(v->culprit));
}

/* "rank 3 on n1: SYMPTOM (step 12)". */
static void write_headline(const char *symptom, tess_log_diagnosis *v)
{
    char who[400];
    log_who_text(&v->who, who, sizeof(who));
    size_t at = tess_text_add(v->headline, sizeof(v->headline), 0, "%s%s%s", who, who[0] != '\0' ? ": " : "", symptom);
    if (v->who.step[0] != '\0')
        tess_text_add(v->headline, sizeof(v->headline), at, " (step %s)", v->who.step);
}

/* A launcher prints how a process ended, and which one it was on another line. */
static void complete_by_launcher(const tess_survey *s, const log_match *match, log_who *who)
{
    for (int i = 0; i < tess_knowledge_n(s->knowledge) && who->n_ranks == 0 && who->host[0] == '\0'; i++) {
        const log_match *other = &s->matches[i];
        int64_t distance = other->first.line - match->first.line;
        if (is_found(s, i) && tess_knowledge_at(s->knowledge, i)->role == TESS_LOG_EFFECT && other->who.is_named &&
            other->first.file == match->first.file && distance <= TESS_KNOWLEDGE_LINES_AFTER &&
            -distance <= TESS_KNOWLEDGE_LINES_AFTER)
            log_who_complete(who, &other->who);
    }
}

/* An entry as the root cause, by the line that has it first. */
static void report_entry(const tess_survey *s, int cause, tess_log_kind kind, tess_log_diagnosis *v)
{
    const log_match *match = &s->matches[cause];
    log_who who = match->who, others;
    int code, n_first = log_first_failures(s, &others, &code);
    v->kind = kind;
    v->entry = cause;
    if (n_first > 1 && who.n_ranks == 1 && log_who_has(&others, who.ranks[0]))
        who = others; /* torchrun saw several end at once: the first of its table is not the first that ended */
    if (tess_knowledge_at(s->knowledge, cause)->role == TESS_LOG_WRAPPER)
        complete_by_launcher(s, match, &who);
    set_who(&who, v);
    write_headline(tess_knowledge_at(s->knowledge, cause)->symptom, v);
    add_evidence(v, "%.200s:%" PRId64 ": %s", s->files[match->first.file], match->first.line, match->excerpt);
    if (who.is_local)
        add_evidence(v, "%d is its local rank: on another host than the first its rank is higher", match->rank);
}

/* Whom torchrun saw end first, or at once. */
static bool report_first_failures(const tess_survey *s, tess_log_diagnosis *v)
{
    char text[400];
    log_who who;
    int code, n = log_first_failures(s, &who, &code);
    if (n == 0)
        return false;
    log_who_text(&who, text, sizeof(text));
    if (n == 1) {
        set_who(&who, v);
        snprintf(v->headline, sizeof(v->headline), "%s failed first, with exit code %d, as torchrun saw it", text,
                 code);
        return true;
    }
    snprintf(
        v->headline, sizeof(v->headline),
        "%s ended in the same second, with exit code %d: torchrun names one of them as the first, but that is only "
        "the order in which it looked",
        text, code);
    return true;
}

static void report_rest(const tess_survey *s, tess_log_diagnosis *v)
{
    if (s->n_known_lines == 0) {
        v->kind = TESS_LOG_NOTHING;
        snprintf(v->headline, sizeof(v->headline), "nothing of this log is in the knowledge base (%d entries)",
                 tess_knowledge_n(s->knowledge));
        return;
    }
    bool any_effect = false;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        any_effect |= is_found(s, i) && tess_knowledge_at(s->knowledge, i)->role == TESS_LOG_EFFECT;
    v->kind = TESS_LOG_KNOWN;
    if (!report_first_failures(s, v))
        snprintf(v->headline, sizeof(v->headline), "no error that ends a job is in these logs%s",
                 any_effect ? ", only what follows from one: look into those of the other ranks" : "");
}

/* The effect of the cause: who waited, and whether the size of the collective explains it. An error without a rank (a
 * kernel names processes) befell those who are absent. */
static void report_waits(const tess_timeouts *t, tess_log_diagnosis *v)
{
    char sum[400];
    v->work = *t->usual;
    if (v->entry >= 0) {
        tess_fields fields = {.n = 0};
        unsigned absent = v->n_culprits == 0 ? t->absent : 0;
        if (absent != 0)
            set_culprits(t, absent, v);
        put_waits(t, absent, &fields);
        add_report(v, TESS_REPORT_EFFECT, &fields);
    }
    log_do_arithmetic(v, sum, sizeof(sum));
    if (sum[0] != '\0')
        add_evidence(v, "%s", sum);
}

/* Stacks of Python processes tell where nothing was printed. */
static void report_stacks(const tess_survey *s, tess_log_diagnosis *v)
{
    const log_stack *odd;
    char text[sizeof(v->headline)];
    log_stacks_judge(&s->stacks, text, sizeof(text), &odd);
    if (v->kind > TESS_LOG_KNOWN && v->kind != TESS_LOG_ONE_SIDED) {
        add_evidence(v, "%s", text);
        return;
    }
    snprintf(v->headline, sizeof(v->headline), "%s", text);
    v->kind = odd != NULL ? TESS_LOG_MISSING : TESS_LOG_KNOWN;
    v->n_culprits = odd != NULL && odd->rank >= 0;
    v->culprit[0] = odd != NULL ? odd->rank : -1;
}

void tess_log_diagnose(const tess_survey *s, int world, tess_log_diagnosis *v)
{
    log_behind behind;
    *v = (tess_log_diagnosis){.entry = -1};
    set_world(s, world, v);
    tess_timeouts timeouts = {.ranks = s->ranks,
                              .n_seen = s->n_ranks,
                              .n_ranks = v->world_known ? v->world : s->n_ranks,
                              .world_known = v->world_known};
    bool any_waits = tess_timeouts_find(&timeouts);
    int gone = find_first(s, &timeouts, TESS_LOG_EFFECT, true), cause = find_cause(s, &timeouts, gone);
    bool is_behind = log_find_behind(s, timeouts.n_ranks, &behind);
    if (cause >= 0)
        report_entry(s, cause, TESS_LOG_ERROR, v);
    else if (any_waits)
        report_timeouts(s, &timeouts, v);
    else if (!is_behind && gone < 0)
        report_rest(s, v);
    if (gone >= 0 && (v->kind == TESS_LOG_NOTHING || v->kind == TESS_LOG_ONE_SIDED))
        report_entry(s, gone, TESS_LOG_MISSING, v); /* others say who left them */
    if (is_behind && (v->kind == TESS_LOG_NOTHING || v->kind == TESS_LOG_ONE_SIDED)) {
        v->kind = TESS_LOG_MISSING;
        v->entry = behind.entry;
        v->n_culprits = behind.n_culprits;
        memcpy(v->culprit, behind.culprit, sizeof(v->culprit));
        snprintf(v->headline, sizeof(v->headline), "%s", behind.text);
    } else if (is_behind) {
        add_evidence(v, "%s", behind.text);
    }
    if (any_waits)
        report_waits(&timeouts, v);
    if (s->stacks.n > 0)
        report_stacks(s, v);
}
