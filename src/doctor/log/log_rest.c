/* Reports what is known if the logs show no root cause: processes that ended, effects, warnings, errors that the run
 * survived, or nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"

/* Returns the name of the signal that an exit code stands for, " (SIGABRT)"; "": none of the usual ones. */
static const char *signal_of_code(int code)
{
    static const struct {
        int number;
        const char *name;
    } signals[] = {{4, " (SIGILL)"},  {6, " (SIGABRT)"},  {7, " (SIGBUS)"},  {8, " (SIGFPE)"},
                   {9, " (SIGKILL)"}, {11, " (SIGSEGV)"}, {15, " (SIGTERM)"}};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (code == -signals[i].number || code == 128 + signals[i].number)
            return signals[i].name;
    return "";
}

/* Adds how processes ended, as torchrun saw it, where the logs do not show who made the others wait. */
void log_add_failures(const tess_survey *s, tess_log_diagnosis *v)
{
    enum { MOST_ADDED = 4 };
    char text[400];
    for (int i = 0; i < s->n_failures && i < MOST_ADDED; i++) {
        const log_failure *failure = &s->failures[i];
        const log_who who = {
            .ranks = {failure->rank}, .n_ranks = 1, .is_local = failure->is_local, .pid = failure->pid};
        log_add_evidence(v, "torchrun saw %s end with exit code %d%s", log_who_text(&who, text, sizeof(text)),
                         failure->code, signal_of_code(failure->code));
    }
}

/* Writes the processes that ended with the same code, where the table has lost its "Root Cause" and not all of its
 * processes have a time. Returns their number; 0: their order is known, or they differ. */
static int find_alike(const tess_survey *s, int code, char *text, size_t size)
{
    char one[400];
    size_t at = 0;
    int n_timed = 0;
    for (int i = 0; i < s->n_failures; i++) {
        const log_failure *f = &s->failures[i];
        const log_who who = {.ranks = {f->rank}, .n_ranks = 1, .is_local = f->is_local, .pid = f->pid};
        if (f->is_root || f->code != code)
            return 0;
        n_timed += f->time_s >= 0;
        at = tess_text_add(text, size, at, "%s%s", i > 0 ? ", " : "", log_who_text(&who, one, sizeof(one)));
    }
    return n_timed > 0 && n_timed < s->n_failures ? s->n_failures : 0;
}

/* Reports torchrun's "Root Cause" where the log is cut off before its exit code. */
static bool report_cut_root(const tess_survey *s, tess_log_diagnosis *v)
{
    char text[400];
    log_who who;
    int n = log_cut_root(s, &who);
    if (n == 0)
        return false;
    log_who_text(&who, text, sizeof(text));
    if (n == 1) {
        log_set_culprit(&who, v);
        snprintf(v->headline, sizeof(v->headline),
                 "%s failed first, as torchrun saw it; its exit code and the error itself are not in these logs", text);
        return true;
    }
    snprintf(v->headline, sizeof(v->headline),
             "%s ended in the same second: torchrun names rank %d as the first, but that is only the order in which it "
             "looked; the error itself is not in these logs",
             text, s->cut_root.rank);
    return true;
}

/* Whether torchrun's table gives one time for all of these ranks. */
static bool are_of_one_second(const tess_survey *s, const log_who *who)
{
    double time_s = -1;
    for (int i = 0; i < s->n_failures; i++) {
        const log_failure *f = &s->failures[i];
        if (f->time_s < 0 || f->is_local || !log_who_has(who, f->rank))
            continue;
        if (time_s >= 0 && f->time_s != time_s)
            return false;
        time_s = f->time_s;
    }
    return true;
}

/* Reports processes that ended with the exit code that the text of their scheduler calls a success. */
static void report_success(const tess_survey *s, const char *who, tess_log_diagnosis *v)
{
    snprintf(v->headline, sizeof(v->headline),
             "%s ended with exit code %d, which the job's own text calls a success (%s = %d), such as that of a "
             "checkpoint after which it starts again; no error is in these logs",
             who, s->success_code, s->success_name, s->success_code);
}

/* Reports the process that torchrun saw end first, or those that ended in the same second. */
static bool report_first_failures(const tess_survey *s, tess_log_diagnosis *v)
{
    char text[400], all[400];
    log_who who;
    int code, n = log_first_failures(s, &who, &code);
    if (report_cut_root(s, v))
        return true;
    if (n == 0)
        return false;
    log_who_text(&who, text, sizeof(text));
    if (s->success_name != NULL && code == s->success_code) {
        report_success(s, text, v);
        return true;
    }
    if (n == 1 && find_alike(s, code, all, sizeof(all)) > 1) {
        snprintf(
            v->headline, sizeof(v->headline),
            "%s ended, each with exit code %d%s, as torchrun saw it; which one was first is not in these logs, and "
            "neither is the error itself",
            all, code, signal_of_code(code));
        return true;
    }
    if (n == 1) {
        log_set_culprit(&who, v);
        snprintf(v->headline, sizeof(v->headline),
                 "%s failed%s, with exit code %d%s, as torchrun saw it; the error itself is not in these logs", text,
                 log_first_is_cut_off(s) ? "" : " first", code, signal_of_code(code));
        log_add_cut_off(s, v);
        return true;
    }
    snprintf(v->headline, sizeof(v->headline),
             "%s ended %s, with exit code %d%s: torchrun names one of them as the first, but that is only "
             "the order in which it looked; the error itself is not in these logs",
             text, are_of_one_second(s, &who) ? "in the same second" : "within a second of each other", code,
             signal_of_code(code));
    log_add_cut_off(s, v);
    return true;
}

static void add_line(const tess_survey *s, const log_loose *line, tess_log_diagnosis *v)
{
    log_add_evidence(v, "%.200s:%" PRId64 ": %s", s->files[line->at.file], line->at.line, line->excerpt);
}

/* Adds what the logs end with: a good end, or the last line of progress. */
static void add_how_far(const tess_survey *s, tess_log_diagnosis *v)
{
    bool is_end = s->good_end.at.line > 0;
    const log_loose *line = is_end ? &s->good_end : &s->last_step;
    if (line->at.line == 0)
        return;
    log_add_text(v, "; %s: \"%.160s\"", is_end ? "it ended well" : "the last progress", line->excerpt);
    add_line(s, line, v);
}

static bool is_placed(const void *survey, int rank)
{
    return ((const tess_survey *)survey)->ranks[rank].host[0] != '\0';
}

/* Adds what logs without an error, progress or a good end stop with: a line that repeats, or NCCL's set-up of only some
 * of the ranks. */
static void add_how_it_stops(const tess_survey *s, tess_log_diagnosis *v)
{
    char ranks[400];
    if (s->good_end.at.line > 0 || s->last_step.at.line > 0)
        return;
    if (s->n_repeated > 0) {
        log_add_text(v, "; the last %" PRId64 " lines repeat one, and nothing shows that it gets on: \"%.160s\"",
                     s->n_repeated, s->repeated.excerpt);
        add_line(s, &s->repeated, v);
    } else if (s->largest_communicator > log_count_ranks(is_placed, s, s->n_ranks)) {
        log_name_ranks(is_placed, s, s->n_ranks, ranks, sizeof(ranks));
        if (ranks[0] != '\0')
            log_add_text(v,
                         "; only %s of the %d of NCCL's communicator are in them, and they show no step: if the job "
                         "hangs, look into those of the others",
                         ranks, s->largest_communicator);
    }
}

/* Writes an effect that names no process, or names several one after the other. */
static void write_effect(const tess_survey *s, const tess_log_entry *entry, const log_match *match,
                         tess_log_diagnosis *v)
{
    char who[400] = "", reporter[400], work[160];
    v->reporter = match->reporter;
    log_who_text(&match->reporter, reporter, sizeof(reporter));
    if (entry->is_asked && s->n_ranks == 0 && s->n_failures == 0) { /* a single process */
        log_add_text(v, ": %s while it went on; no fault is shown", entry->symptom);
        add_how_far(s, v);
        return;
    }
    if (!match->who.is_named && match->who.pid != 0)
        log_who_text(&match->who, who, sizeof(who));
    bool is_exception = log_exception_name(match->who.what, strlen(match->who.what)) > 0;
    if (is_exception) /* it ended its process, but waited for another one */
        snprintf(v->headline, sizeof(v->headline), "%s%s", who, who[0] != '\0' ? ": " : "");
    else
        log_add_text(v, ", only what follows from one: %s%s", who, who[0] != '\0' ? ": " : "");
    log_add_symptom(entry, match, v);
    if (entry->is_wait && s->unranked.op[0] != '\0')
        log_add_text(v, " (%s)", log_describe_work(&s->unranked, work, sizeof(work)));
    if (match->who.what[0] != '\0')
        log_add_text(v, ": %s", match->who.what);
    if (who[0] == '\0' && reporter[0] != '\0')
        log_add_text(v, ", reported by %s", reporter);
    if (match->before.at.line > 0)
        log_add_text(v, "; right before it: \"%.240s\"", match->before.excerpt);
    else
        log_add_text(v, "; %slook into those of %s",
                     is_exception ? "that follows from an error of another process, not in these logs: " : "",
                     match->who.peer[0] != '\0' ? match->who.peer : "the other ranks, and above it");
    log_add_quote(match, v);
}

/* Writes the earliest warning that names a process or device, or says what is wrong. */
static void write_warning(const tess_survey *s, tess_log_diagnosis *v)
{
    char who[400];
    int first = -1;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (log_is_found(s, i) && tess_knowledge_at(s->knowledge, i)->role == TESS_LOG_WARNING &&
            (s->matches[i].who.is_named || log_who_names_only_gpu(&s->matches[i].who) ||
             s->matches[i].who.what[0] != '\0') &&
            (first < 0 || log_is_before(&s->matches[i], &s->matches[first])))
            first = i;
    if (first < 0)
        return;
    const log_match *match = &s->matches[first];
    log_who_text(&match->who, who, sizeof(who));
    const char *symptom = tess_knowledge_at(s->knowledge, first)->symptom, *colon = who[0] != '\0' ? ": " : "";
    const char *what = match->who.what, *what_colon = what[0] != '\0' ? ": " : "";
    if (match->n_lines > 1)
        snprintf(v->headline, sizeof(v->headline),
                 "%s%s%s%s%s (%" PRId64 " times); no error that ends a job is in these logs", who, colon, symptom,
                 what_colon, what, match->n_lines);
    else
        log_add_text(v, ", only a warning: %s%s%s%s%s", who, colon, symptom, what_colon, what);
}

/* Whether a line is followed by progress or a good end in its file. */
static bool is_followed(const tess_survey *s, const log_place *line)
{
    const log_place *step = &s->last_step.at, *end = &s->good_end.at;
    return (step->line > line->line && step->file == line->file) || (end->line > line->line && end->file == line->file);
}

/* Writes an error line that no entry knows, or a line near the end of a file that speaks of a failure. Returns false if
 * there is none that ends a log. */
static bool report_unknown(const tess_survey *s, bool any_words, tess_log_diagnosis *v)
{
    const log_loose *loose = &s->first_loose, *last = &s->last_words;
    char who[400] = "";
    bool is_marked = loose->at.line > 0 && !is_followed(s, &loose->at);
    if (!is_marked && (!any_words || last->at.line == 0 || is_followed(s, &last->at)))
        return false;
    if (is_marked) {
        v->reporter = s->loose_who;
        log_who_text(&s->loose_who, who, sizeof(who));
    }
    snprintf(v->headline, sizeof(v->headline), "%s%s%s: \"%.400s\"; no rule knows it",
             is_marked ? "the first error line" : "a line near the end speaks of a failure",
             who[0] != '\0' ? ", of " : "", who, is_marked ? loose->excerpt : last->excerpt);
    add_line(s, is_marked ? loose : last, v);
    return true;
}

/* Writes that the logs contain nothing that the knowledge base knows. */
static void report_nothing(const tess_survey *s, tess_log_diagnosis *v)
{
    v->kind = TESS_LOG_NOTHING;
    if (report_unknown(s, true, v))
        return;
    snprintf(v->headline, sizeof(v->headline), "no error found in %" PRId64 " line%s", s->n_lines,
             s->n_lines == 1 ? "" : "s");
    add_how_far(s, v);
    add_how_it_stops(s, v);
}

/* Returns the first error after which the run went on; -1: there is none. */
static int find_survived(const tess_survey *s)
{
    int first = -1;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (s->matches[i].n_lines > 0 && log_survived(s, i) &&
            tess_knowledge_at(s->knowledge, i)->role <= TESS_LOG_EFFECT &&
            (first < 0 || log_is_before(&s->matches[i], &s->matches[first])))
            first = i;
    return first;
}

/* Writes that the run went on after its errors. Returns false if there are no such errors. */
static bool report_survived(const tess_survey *s, tess_log_diagnosis *v)
{
    int survived = find_survived(s);
    if (survived < 0)
        return false;
    const log_match *match = &s->matches[survived];
    char who[400];
    log_who_text(&match->who, who, sizeof(who));
    snprintf(v->headline, sizeof(v->headline), "no error that ends a job is in these logs; %s %s%s%s",
             log_is_python_warning(match->excerpt, strlen(match->excerpt)) ? "Python only warned of this:"
             : s->restarted ? "the job recovered: its processes were started again and went on after this:"
                            : "the run went on after this:",
             who, who[0] != '\0' ? ": " : "", log_symptom_of(tess_knowledge_at(s->knowledge, survived), match));
    log_add_place(s, match, v);
    add_how_far(s, v);
    return true;
}

/* Writes that the program printed nothing for hours while a monitor said that its job runs. */
static bool report_silence(const tess_survey *s, tess_log_diagnosis *v)
{
    static const double long_s = 3600;
    if (s->beat_s < long_s || s->last_step.at.line == 0)
        return false;
    snprintf(
        v->headline, sizeof(v->headline),
        "no error is in these logs, but the program printed nothing for %.1f hours, in which a monitor said that its "
        "job runs: it hangs",
        s->beat_s / 3600);
    add_how_far(s, v);
    return true;
}

void log_report_rest(const tess_survey *s, tess_log_diagnosis *v)
{
    if (s->n_known_lines == 0 && s->n_failures == 0) {
        report_nothing(s, v);
        return;
    }
    int effect = log_find_effect(s);
    v->kind = TESS_LOG_KNOWN;
    char reporter[400];
    bool is_told = report_first_failures(s, v);
    if (!is_told && effect < 0 && report_silence(s, v))
        return;
    if (!is_told && effect < 0 && report_survived(s, v))
        return;
    if (!is_told && effect < 0 && report_unknown(s, false, v))
        return;
    if (!is_told)
        snprintf(v->headline, sizeof(v->headline), "no error that ends a job is in these logs");
    if (effect < 0 && !is_told) {
        write_warning(s, v);
        add_how_it_stops(s, v);
    }
    if (effect < 0)
        return;
    const log_match *match = &s->matches[effect];
    if (!is_told)
        write_effect(s, tess_knowledge_at(s->knowledge, effect), match, v);
    log_add_place(s, match, v);
    log_add_surroundings(s, match, v);
    log_who_text(&v->reporter, reporter, sizeof(reporter));
    if (reporter[0] != '\0')
        log_add_evidence(v, "reported by %s, not at fault for that", reporter);
    if (match->who.peer[0] != '\0')
        log_add_evidence(v, "the other side was %s: look there first", match->who.peer);
}
