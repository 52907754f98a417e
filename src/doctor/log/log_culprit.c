/* Completes whom an entry is about: other lines name the process, its host or its rank. Also keeps those who only
 * report an error from being accused. */
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"

/* Adds the host of a rank, or the rank of a process, if other lines gave them. */
static void complete_by_places(const tess_survey *s, log_who *who)
{
    for (int r = 0; r < s->n_ranks && who->n_ranks == 0 && who->pid != 0 && who->host[0] != '\0'; r++)
        if (s->ranks[r].pid == who->pid && strcmp(s->ranks[r].host, who->host) == 0) {
            who->ranks[0] = r;
            who->n_ranks = 1;
        }
    if (who->n_ranks == 1 && !who->is_local && !who->is_task && who->host[0] == '\0' && who->ranks[0] < s->n_ranks)
        snprintf(who->host, sizeof(who->host), "%s", s->ranks[who->ranks[0]].host);
}

/* Whether a line of the entry names a process, and the cause explains the entry: the cause then happened to that
 * process. */
static bool is_about_process(const tess_survey *s, int cause, int entry)
{
    const tess_log_entry *known = tess_knowledge_at(s->knowledge, entry);
    return tess_knowledge_explains(s->knowledge, cause, entry) && known->role <= TESS_LOG_WRAPPER &&
           !known->by_reporter && !tess_knowledge_at(s->knowledge, cause)->by_reporter &&
           s->matches[entry].who.pid != 0;
}

/* Adds the process that other lines near the cause name. A launcher may print how a process ended on one line, and
 * which process it was on another. Lines that the cause explains also name the process, and so do effects if the
 * cause is a wrapper or fallback. Effects that another process reports do not count. */
static void complete_by_launcher(const tess_survey *s, int cause, log_who *who)
{
    const log_match *match = &s->matches[cause];
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    bool is_wrapper = entry->role == TESS_LOG_WRAPPER || entry->is_fallback;
    bool ends_a_process = is_wrapper && !entry->by_reporter && !entry->by_host;
    for (int i = 0; i < tess_knowledge_n(s->knowledge) && who->n_ranks == 0 && who->host[0] == '\0'; i++) {
        const log_match *other = &s->matches[i];
        const tess_log_entry *known = tess_knowledge_at(s->knowledge, i);
        int64_t distance = other->first.line - match->first.line;
        bool names_it = tess_knowledge_explains(s->knowledge, cause, i) ||
                        (ends_a_process && known->role == TESS_LOG_EFFECT && !known->by_reporter);
        bool says_whom =
            log_names_the_first(other) || log_who_names_only_gpu(&other->who) || is_about_process(s, cause, i);
        if (log_is_found(s, i) && names_it && says_whom && other->first.file == match->first.file &&
            distance <= TESS_KNOWLEDGE_LINES_AFTER && -distance <= TESS_KNOWLEDGE_LINES_AFTER)
            log_who_complete(who, &other->who);
    }
}

/* Adds the process that lines near a wrapper name, if the wrapper explains them and another process reports them. */
static void complete_by_report(const tess_survey *s, int wrapper, log_who *who)
{
    const log_match *match = &s->matches[wrapper];
    for (int i = 0; i < tess_knowledge_n(s->knowledge) && !log_who_is_known(who); i++) {
        const log_match *other = &s->matches[i];
        if (log_is_found(s, i) && tess_knowledge_explains(s->knowledge, wrapper, i) && log_names_the_first(other) &&
            tess_knowledge_at(s->knowledge, i)->by_reporter && log_is_one_message(match, other)) {
            log_who_complete(who, &other->who);
            if (who->actor[0] == '\0' && who->pid != 0) { /* one message is about one process, so its class counts */
                memcpy(who->actor, other->who.actor, sizeof(who->actor));
                who->noun = other->who.noun;
                who->is_class = other->who.is_class;
            }
        }
    }
}

/* Adds the rank to an exception that names no process: Python exits with code 1 after an exception, and only one
 * rank did so. */
static void complete_by_only_failure(const tess_survey *s, int cause, log_who *who)
{
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    log_who first;
    int code, n = log_first_failures(s, &first, &code);
    bool is_exception = entry->role == TESS_LOG_WRAPPER || s->matches[cause].is_exception ||
                        (entry->role == TESS_LOG_CAUSE && entry->is_fallback);
    if (n != 1 || code != 1 || !is_exception || entry->by_reporter || entry->by_host || log_who_is_known(who))
        return;
    for (int i = 0; i < s->n_failures; i++)
        if (s->failures[i].pid != first.pid && s->failures[i].is_local == first.is_local && s->failures[i].code == code)
            return;
    log_who_complete(who, &first);
}

/* Adds the only process that the launcher had started to an exception that names no process. */
static void complete_by_only_child(const tess_survey *s, int cause, log_who *who)
{
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    log_who child;
    if (!s->matches[cause].is_exception || entry->by_reporter || entry->by_host || log_who_is_known(who) ||
        !log_only_child(s, &child))
        return;
    log_who_complete(who, &child);
}

/* Adds the process id if another rank names the rank that it lost, and torchrun saw only the process with that local
 * rank end. */
static void complete_by_named_failure(const tess_survey *s, log_who *who)
{
    const log_failure *failure = s->n_failures == 1 ? &s->failures[0] : NULL;
    if (failure != NULL && who->is_named && who->n_ranks == 1 && !who->is_task && who->pid == 0 && failure->is_local &&
        failure->rank == who->ranks[0])
        who->pid = failure->pid;
}

/* Adds the process that another line of the driver names for the same GPU, if the cause concerns a process. */
static void complete_by_gpu(const tess_survey *s, int cause, log_who *who)
{
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    bool is_of_a_process = entry->by_gpu && entry->match != NULL && strstr(entry->match, "(?<pid>") != NULL;
    for (int i = 0; i < tess_knowledge_n(s->knowledge) && who->pid == 0 && who->gpu[0] != '\0'; i++)
        if (log_is_found(s, i) && is_of_a_process && tess_knowledge_at(s->knowledge, i)->by_gpu &&
            strcmp(s->matches[i].who.gpu, who->gpu) == 0)
            who->pid = s->matches[i].who.pid;
}

/* Adds the process of a traceback whose end is missing, if another process reports the cause: the former process has
 * ended. */
static void complete_by_cut_trace(const tess_survey *s, int cause, const log_who *reporter, log_who *who)
{
    int cut = tess_knowledge_cut_traceback(s->knowledge);
    const log_match *other = cut >= 0 && log_is_found(s, cut) ? &s->matches[cut] : NULL;
    if (other == NULL || !log_who_is_known(reporter) || log_who_is_known(who) ||
        other->first.file != s->matches[cause].first.file || other->reporter.pid == 0 ||
        other->reporter.pid == reporter->pid)
        return;
    log_who_complete(who, &other->reporter);
}

/* Adds further ranks if a line above the exception says that it belongs to several ranks. */
static void complete_by_quotation(const tess_survey *s, int cause, log_who *who)
{
    const log_match *match = &s->matches[cause];
    for (int i = 0; tess_knowledge_at(s->knowledge, cause)->is_fallback && i < tess_knowledge_n(s->knowledge); i++) {
        const log_match *other = &s->matches[i];
        int64_t distance = match->first.line - other->first.line;
        if (log_is_found(s, i) && tess_knowledge_at(s->knowledge, i)->is_quoting &&
            other->first.file == match->first.file && distance > 0 && distance <= LOG_MOST_QUOTED &&
            other->who.n_ranks > who->n_ranks && who->n_ranks == 1 && log_who_has(&other->who, who->ranks[0])) {
            memcpy(who->ranks, other->who.ranks, sizeof(who->ranks));
            who->n_ranks = other->who.n_ranks;
        }
    }
}

/* If other ranks also failed with exceptions whose text is missing, names all of them as reporters, and accuses
 * none. */
static void leave_to_several(const tess_survey *s, int cause, log_who *who, log_who *reporter)
{
    int cut = tess_knowledge_cut_traceback(s->knowledge);
    const log_match *other = cut >= 0 && log_is_found(s, cut) ? &s->matches[cut] : NULL;
    if (other == NULL || cause == cut || !tess_knowledge_at(s->knowledge, cause)->is_fallback || who->n_ranks != 1 ||
        who->is_named || other->reporter.n_ranks == 0 || log_who_has(&other->reporter, who->ranks[0]))
        return;
    *reporter = other->reporter;
    log_who_join(reporter, who);
    *who = (log_who){.n_ranks = 0};
    memcpy(who->what, s->matches[cause].who.what, sizeof(who->what));
}

/* Handles exceptions of Ray's actors, which the driver prints. The beginning of the first one may be missing. If the
 * driver quotes an actor below, the error is not the driver's own. */
static void leave_to_quoted(const tess_survey *s, int cause, log_who *who, log_who *reporter)
{
    const log_match *match = &s->matches[cause];
    for (int i = 0; i < tess_knowledge_n(s->knowledge) && !who->is_named && who->actor[0] != '\0'; i++) {
        const log_match *other = &s->matches[i];
        int64_t distance = other->first.line - match->first.line;
        if (!log_is_found(s, i) || !tess_knowledge_at(s->knowledge, i)->is_quoting ||
            other->first.file != match->first.file || distance <= 0 || distance > LOG_MOST_QUOTED ||
            other->who.actor[0] == '\0' || other->reporter.pid != who->pid ||
            strcmp(other->reporter.actor, who->actor) != 0)
            continue;
        *reporter = *who;
        *who = (log_who){.n_ranks = 0};
        memcpy(who->what, match->who.what, sizeof(who->what));
    }
}

/* Adds the address of the job's endpoint if the line says only that the endpoint was not reached, and another line
 * gives the address. */
static void complete_by_endpoint(const tess_survey *s, const tess_log_entry *entry, log_who *who)
{
    if (entry->by_endpoint && who->what[0] == '\0' && who->peer[0] == '\0')
        snprintf(who->what, sizeof(who->what), "%s", s->endpoint);
}

/* Whether all ranks of the logs failed with this exception. */
static bool is_of_all(const tess_survey *s, int cause, const log_who *who)
{
    const log_match *match = &s->matches[cause];
    if (!match->is_exception || who->is_named || who->is_local || who->is_task || who->n_ranks < 2 ||
        who->n_ranks < s->stated_world)
        return false;
    for (int r = 0; r < s->n_ranks; r++)
        if (s->ranks[r].seen && !log_who_has(who, r))
            return false;
    return true;
}

/* If all ranks failed with the same exception of Python, accuses none of them: the code, its settings or its data are
 * at fault. */
static void leave_to_all(const tess_survey *s, int cause, log_who *who, log_who *reporter)
{
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    if (!(entry->is_fallback || entry->role == TESS_LOG_WRAPPER) || !is_of_all(s, cause, who))
        return;
    *reporter = *who;
    *who = (log_who){.is_of_all = true};
    memcpy(who->what, s->matches[cause].who.what, sizeof(who->what));
    memcpy(who->step, s->matches[cause].who.step, sizeof(who->step));
}

void log_find_culprit(const tess_survey *s, int cause, log_who *who, log_who *reporter)
{
    const log_match *match = &s->matches[cause];
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    log_who others;
    int code, n_first = log_first_failures(s, &others, &code);
    *who = match->who;
    *reporter = match->reporter;
    if (match->is_failure && n_first > 1 && who->n_ranks == 1 && log_who_has(&others, who->ranks[0]))
        *who = others; /* the first in torchrun's table need not be the first that ended */
    complete_by_quotation(s, cause, who);
    bool only_reports = entry->role == TESS_LOG_WRAPPER && entry->by_reporter;
    if (only_reports)
        complete_by_report(s, cause, who);
    if (only_reports)
        complete_by_cut_trace(s, cause, reporter, who);
    if (!only_reports || !log_who_is_known(who))
        complete_by_launcher(s, cause, only_reports ? reporter : who);
    complete_by_places(s, who);
    complete_by_only_failure(s, cause, who);
    complete_by_only_child(s, cause, who);
    complete_by_named_failure(s, who);
    complete_by_gpu(s, cause, who);
    complete_by_places(s, reporter);
    if (entry->by_host && who->host[0] == '\0')
        snprintf(who->host, sizeof(who->host), "%s", reporter->host);
    leave_to_several(s, cause, who, reporter);
    leave_to_quoted(s, cause, who, reporter);
    complete_by_endpoint(s, entry, who);
    leave_to_all(s, cause, who, reporter);
    log_drop_label(s, who);
    log_drop_label(s, reporter);
}
