/* Reports an entry as the finding: its headline, and the lines that show it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"

void log_add_evidence(tess_log_diagnosis *v, const char *format, ...)
{
    if (v->n_evidence == TESS_LOG_MOST_EVIDENCE)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(v->evidence[v->n_evidence++], sizeof(v->evidence[0]), format, args);
    va_end(args);
}

void log_set_culprit(const log_who *who, tess_log_diagnosis *v)
{
    v->who = *who;
    v->n_culprits = who->n_ranks;
    memcpy(v->culprit, who->ranks, sizeof(v->culprit));
}

void log_add_text(tess_log_diagnosis *v, const char *format, ...)
{
    const size_t at = strlen(v->headline);
    va_list args;
    va_start(args, format);
    vsnprintf(v->headline + at, sizeof(v->headline) - at, format, args);
    va_end(args);
}

/* Appends who printed a line that is about another process: ", reported by rank 3", ", from rank 3 to n2". */
static void add_reporter(tess_log_diagnosis *v)
{
    char name[400];
    const log_who *who = &v->who;
    log_who_text(&v->reporter, name, sizeof(name));
    if (who->peer[0] != '\0')
        log_add_text(v, "%s%s to %s%s", name[0] != '\0' ? ", from " : ",", name, who->peer, who->more_peers);
    else if (name[0] != '\0')
        log_add_text(v, ", reported by %s", name);
    if (who->peer[0] != '\0' && v->reporter.more_hosts[0] != '\0' && who->more_peers[0] == '\0')
        log_add_text(v, "; all of them name the same other side: look there first");
}

/* Returns what the process of a match printed about its own end before, such as a signal, or NULL. */
static const char *find_own_end(const tess_survey *s, const log_match *match)
{
    int own = (int)(match - s->matches);
    for (int i = 0; match->who.pid != 0 && i < tess_knowledge_n(s->knowledge); i++) {
        const log_match *other = &s->matches[i];
        const tess_log_entry *entry = tess_knowledge_at(s->knowledge, i);
        bool is_own = other->who.pid == match->who.pid || other->reporter.pid == match->who.pid;
        if (other != match && log_is_found(s, i) && is_own && !tess_knowledge_explains(s->knowledge, own, i) &&
            log_is_before(other, match) && (entry->role == TESS_LOG_EFFECT || entry->role == TESS_LOG_WRAPPER))
            return entry->symptom;
    }
    return NULL;
}

/* Adds what remains unknown if the entry is not a cause. */
static void add_doubt(const tess_survey *s, tess_log_role role, const log_match *match, const char *who,
                      tess_log_diagnosis *v)
{
    const char *own_end = role != TESS_LOG_CAUSE && !v->is_cause ? find_own_end(s, match) : NULL;
    if (own_end != NULL) {
        log_add_text(v, "; what it said of itself before: %s", own_end);
        return;
    }
    if (match->before.at.line > 0 && role != TESS_LOG_CAUSE)
        log_add_text(v, "; right before it: \"%.240s\"", match->before.excerpt);
    else if (role == TESS_LOG_WRAPPER && !v->is_cause)
        log_add_text(v, "; no error before it is in these logs");
    if (role == TESS_LOG_EFFECT && match->before.at.line == 0)
        log_add_text(v, "; the cause is not in these logs: look into those of %s", who);
}

const char *log_symptom_of(const tess_log_entry *entry, const log_match *match)
{
    return match->is_guess && entry->guess != NULL ? entry->guess : entry->symptom;
}

/* Appends "reading a checkpoint failed: SYMPTOM" if only a general entry matches the line, because the phase then
 * says most. Otherwise appends the symptom. */
void log_add_symptom(const tess_log_entry *entry, const log_match *match, tess_log_diagnosis *v)
{
    const char *symptom = log_symptom_of(entry, match);
    if (match->phase == NULL || !(entry->is_fallback || entry->is_quoting))
        log_add_text(v, "%s", symptom);
    else if (entry->role == TESS_LOG_WRAPPER && match->who.what[0] != '\0')
        log_add_text(v, "%s failed", match->phase);
    else
        log_add_text(v, "%s failed: %s", match->phase, symptom);
}

void log_add_quote(const log_match *match, tess_log_diagnosis *v)
{
    const char *what = match->who.what; /* a name or address alone is no reason */
    if (match->quote[0] != '\0' && strchr(what, ' ') == NULL && log_exception_name(what, strlen(what)) == 0)
        log_add_text(v, "; its line: \"%s\"", match->quote);
}

/* Writes the headline: "rank 3 on n1: SYMPTOM (step 12)", "SYMPTOM, reported by rank 3". */
static void write_headline(const tess_survey *s, const tess_log_entry *entry, const log_match *match,
                           tess_log_diagnosis *v)
{
    char who[400];
    bool is_cut = entry->is_quoting || entry->match == NULL; /* true: the exception itself is not in the logs */
    log_who_text(&v->who, who, sizeof(who));
    snprintf(v->headline, sizeof(v->headline), "%s%s", who, who[0] != '\0' ? ": " : "");
    if (v->who.is_of_all)
        log_add_text(v, "all ranks failed alike (none of them is at fault): ");
    log_add_symptom(entry, match, v);
    if (v->who.what[0] != '\0')
        log_add_text(v, ": %s", v->who.what);
    else if (match->frame[0] != '\0' && is_cut)
        log_add_text(v, " (at %s)", match->frame);
    if (v->who.step[0] != '\0')
        log_add_text(v, " (step %s)", v->who.step);
    if (entry->by_gpu && v->who.gpu[0] == '\0' && v->reporter.gpu[0] != '\0')
        log_add_text(v, ", reported by its GPU %s", v->reporter.gpu);
    if (who[0] == '\0')
        add_reporter(v);
    add_doubt(s, entry->role, match, who, v);
}

void log_add_place(const tess_survey *s, const log_match *match, tess_log_diagnosis *v)
{
    log_add_evidence(v, "%.200s:%" PRId64 ": %s", s->files[match->first.file], match->first.line, match->excerpt);
}

/* Adds evidence from above the line: the program's frame in the traceback, or the unknown error line before it. */
void log_add_surroundings(const tess_survey *s, const log_match *match, tess_log_diagnosis *v)
{
    if (match->frame[0] != '\0')
        log_add_evidence(v, "%s%sat %s", match->phase != NULL ? match->phase : "", match->phase != NULL ? ", " : "",
                         match->frame);
    if (match->before.at.line > 0)
        log_add_evidence(v, "%.200s:%" PRId64 ": the nearest error line before it, which no entry knows: %s",
                         s->files[match->before.at.file], match->before.at.line, match->before.excerpt);
}

/* Returns the number of the data loader's worker that raised the exception, from a line above it, or NULL if there
 * is none. */
static const char *find_data_worker(const tess_survey *s, const log_match *match)
{
    static const char words[] = "DataLoader worker process ";
    for (int i = 0; i < tess_knowledge_n(s->knowledge) && match->is_exception; i++) {
        const log_match *other = &s->matches[i];
        int64_t distance = match->first.line - other->first.line;
        const char *worker = log_is_found(s, i) ? strstr(other->who.what, words) : NULL;
        if (worker != NULL && other->first.file == match->first.file && distance > 0 && distance <= LOG_MOST_QUOTED)
            return worker + strlen(words);
    }
    return NULL;
}

void log_add_cut_off(const tess_survey *s, tess_log_diagnosis *v)
{
    log_who root;
    if (log_cut_root(s, &root) > 0)
        log_add_text(v, "; torchrun names rank %d as the first to fail (its Root Cause), and its exit code is cut off",
                     s->cut_root.rank);
    else if (log_first_is_cut_off(s))
        log_add_text(v, "; whom torchrun saw end first (its Root Cause) is not in these logs");
}

/* Whether the finding is the root cause: a cause, or a wrapper that says enough if nothing else is found. The type
 * of an exception alone does not say enough. */
static bool is_root_cause(const tess_log_entry *entry, const log_match *match)
{
    const char *what = match->who.what;
    bool is_bare = match->is_exception && log_exception_name(what, strlen(what)) + 2 > strlen(what);
    return entry->role == TESS_LOG_CAUSE || (entry->is_enough && match->before.at.line == 0 && !is_bare);
}

/* Adds the largest process of the kernel's table if the line right below the table says that memory ran out. */
static void add_largest(const tess_survey *s, const log_match *match, tess_log_diagnosis *v)
{
    char text[120];
    int64_t distance = match->first.line - s->largest.at.line;
    if (s->largest.pid == 0 || match->first.file != s->largest.at.file || distance < 0 || distance > LOG_AFTER_TABLE)
        return;
    log_oom_text(&s->largest, text, sizeof(text));
    if (v->who.pid == 0)
        log_add_text(v, "; the largest process was %s", text);
    else if (v->who.pid != s->largest.pid)
        log_add_evidence(v, "the largest process of the kernel's table was %s", text);
}

/* Adds the process that printed the line, where the headline names its host or what it reports about. */
static void add_printer(const tess_log_entry *entry, tess_log_diagnosis *v)
{
    char text[400];
    bool says_more = v->reporter.n_ranks > 0 || v->reporter.pid != 0 || v->reporter.actor[0] != '\0';
    if (!log_who_is_known(&v->who) || !(entry->by_host || entry->by_reporter) || !says_more ||
        entry->role == TESS_LOG_EFFECT)
        return;
    log_who_text(&v->reporter, text, sizeof(text));
    log_add_evidence(v, "printed by %s", text);
}

/* Adds the ranks that ended together, by torchrun's table, where the error does not say which process had it. Python
 * exits with code 1 after an exception. */
static void add_ended_together(const tess_survey *s, tess_log_diagnosis *v)
{
    char text[400];
    log_who together;
    int code;
    if (!v->is_cause || log_who_is_known(&v->who) || log_who_is_known(&v->reporter) ||
        log_first_failures(s, &together, &code) < 2 || code != 1)
        return;
    log_add_evidence(v, "torchrun saw %s end together with exit code %d: they may all have it",
                     log_who_text(&together, text, sizeof(text)), code);
}

/* Adds that nothing was printed for long before a limit of time ended the job: the job hung, and the limit is only what
 * ended it. */
static void add_silence(const tess_log_entry *entry, const log_match *match, tess_log_diagnosis *v)
{
    static const double long_s = 3600;
    if (!entry->is_limit || match->silence_s < long_s)
        return;
    log_add_text(v, "; it printed nothing for the last %.1f hours, so it hung long before: see what its last lines did",
                 match->silence_s / 3600);
}

/* Adds a warning above the cause that explains it. */
static void add_warning(const tess_survey *s, int cause, tess_log_diagnosis *v)
{
    const log_match *match = &s->matches[cause];
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++) {
        const log_match *other = &s->matches[i];
        if (other->n_lines == 0 || tess_knowledge_at(s->knowledge, i)->role != TESS_LOG_WARNING ||
            !tess_knowledge_explains(s->knowledge, i, cause) || other->first.file != match->first.file ||
            other->first.line >= match->first.line)
            continue;
        log_add_text(v, "; before it: %s", tess_knowledge_at(s->knowledge, i)->symptom);
        log_add_place(s, other, v);
        return;
    }
}

/* Reports an entry as the root cause, by its first line. */
void log_report_entry(const tess_survey *s, int cause, tess_log_kind kind, tess_log_diagnosis *v)
{
    const log_match *match = &s->matches[cause];
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    log_who who;
    v->kind = kind;
    v->entry = cause;
    log_find_culprit(s, cause, &who, &v->reporter);
    log_set_culprit(&who, v);
    v->is_cause = is_root_cause(entry, match);
    write_headline(s, entry, match, v);
    const char *worker = v->is_cause ? find_data_worker(s, match) : NULL;
    if (worker != NULL)
        log_add_text(v, ", in data worker %s", worker);
    if (match->is_failure)
        log_add_cut_off(s, v);
    add_largest(s, match, v);
    add_silence(entry, match, v);
    log_add_place(s, match, v);
    add_warning(s, cause, v);
    if (!entry->is_quoting && entry->match != NULL)
        log_add_quote(match, v);
    add_printer(entry, v);
    add_ended_together(s, v);
    log_add_surroundings(s, match, v);
    if (who.is_local)
        log_add_evidence(v, "%d is its local rank: on another host than the first its rank is higher", who.ranks[0]);
}
