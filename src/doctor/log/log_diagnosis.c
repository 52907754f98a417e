/* Diagnoses a survey of logs. Timeouts are effects, so an error before them is the cause. If there is none, the
 * timeouts are diagnosed as a history (log_history.c), which shows the rank that did not join the collective. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"

static void set_world(const tess_survey *s, int world, tess_log_diagnosis *v)
{
    v->world_known = world > 0 || (s->stated_world > 0 && s->stated_world >= s->n_ranks);
    v->world = world > 0 ? world : s->stated_world;
    if (v->world < s->n_ranks)
        v->world = s->n_ranks;
    for (int r = 0; r < s->n_ranks && !v->world_known; r++) {
        int n = s->ranks[r].waits ? log_ranks_by_counts(&s->ranks[r].work) : 0;
        v->world = n > v->world ? n : v->world;
    }
}

/* Whether the match came after a timeout, and so may be its effect. It did if its time is later than that of any
 * timeout, or if it follows a timeout of the same rank in the same file. */
static bool is_after_timeout(const tess_survey *s, const log_match *match)
{
    for (int r = 0; r < s->n_ranks; r++) {
        const log_rank *other = &s->ranks[r];
        if (!other->waits)
            continue;
        if (match->time_s >= 0 && other->time_s >= 0 && match->time_s > other->time_s)
            return true;
        if (r == match->rank && match->first.file == other->at.file && match->first.line > other->at.line)
            return true;
    }
    return false;
}

static bool is_before(const log_match *a, const log_match *b)
{
    bool one_file = a->first.file == b->first.file;
    if (a->time_s >= 0 && b->time_s >= 0 && a->time_s != b->time_s)
        return a->time_s < b->time_s;
    if ((a->time_s >= 0) != (b->time_s >= 0) && !one_file)
        return a->time_s >= 0;
    return one_file ? a->first.line < b->first.line : a->first.file < b->first.file;
}

/* Whether entry `a` comes before entry `b`. A traceback without its exception is compared by line number only: a
 * line above it says more. */
static bool comes_before(const tess_survey *s, int a, int b)
{
    int cut = tess_knowledge_cut_traceback(s->knowledge);
    const log_place *first = &s->matches[a].first, *second = &s->matches[b].first;
    if ((a == cut || b == cut) && first->file == second->file)
        return first->line < second->line;
    return is_before(&s->matches[a], &s->matches[b]);
}

/* Whether the match is more than an hour older than the beginning of all waits. The job continued after it then. */
static bool is_stale(const tess_survey *s, const log_match *match)
{
    static const double stale_s = 3600;
    bool stale = false;
    for (int r = 0; r < s->n_ranks; r++) {
        const log_rank *other = &s->ranks[r];
        if (!other->waits || other->time_s < 0 || other->work.elapsed_ms < 0)
            continue;
        stale = match->time_s >= 0 && match->time_s < other->time_s - (double)other->work.elapsed_ms * 1e-3 - stale_s;
        if (!stale)
            break;
    }
    return stale;
}

static bool is_found(const tess_survey *s, int entry)
{
    return s->matches[entry].n_lines > 0;
}

/* Whether both are lines of one message, such as an error code and its text below it. */
static bool is_one_message(const log_match *a, const log_match *b)
{
    int64_t distance = a->first.line - b->first.line;
    return a->first.file == b->first.file && distance <= TESS_KNOWLEDGE_LINES_AFTER &&
           -distance <= TESS_KNOWLEDGE_LINES_AFTER;
}

/* Whether another entry that was found says more. An effect explains other effects and fallbacks only if it comes
 * before them, or if the other effect belongs to the same message and names no process. */
static bool is_explained(const tess_survey *s, int entry)
{
    const tess_log_entry *known = tess_knowledge_at(s->knowledge, entry);
    bool is_weak = known->role == TESS_LOG_EFFECT || known->is_fallback;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++) {
        tess_log_role role = tess_knowledge_at(s->knowledge, i)->role;
        bool any_order = !is_weak || role != TESS_LOG_EFFECT;
        if (is_found(s, i) && role <= TESS_LOG_EFFECT && tess_knowledge_explains(s->knowledge, i, entry) &&
            (any_order || is_before(&s->matches[i], &s->matches[entry]) ||
             (known->role == TESS_LOG_EFFECT && !s->matches[entry].who.is_named &&
              is_one_message(&s->matches[i], &s->matches[entry]))))
            return true;
    }
    return false;
}

/* Whether the entry is a fallback cause, and a signal had already ended a process before it. */
static bool is_preceded(const tess_survey *s, int entry)
{
    const tess_log_entry *known = tess_knowledge_at(s->knowledge, entry);
    for (int i = 0; known->is_fallback && known->role == TESS_LOG_CAUSE && i < tess_knowledge_n(s->knowledge); i++)
        if (is_found(s, i) && tess_knowledge_at(s->knowledge, i)->is_signal &&
            is_before(&s->matches[i], &s->matches[entry]))
            return true;
    return false;
}

static bool has_cause(const tess_survey *s)
{
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (is_found(s, i) && !s->matches[i].is_over && !is_preceded(s, i) &&
            tess_knowledge_at(s->knowledge, i)->role == TESS_LOG_CAUSE)
            return true;
    return false;
}

/* Whether torchrun saw the processes of this match end later than others: torchrun then ended them itself. */
static bool is_late_failure(const tess_survey *s, const log_match *match)
{
    log_who first;
    int code;
    return match->is_failure && match->who.n_ranks > 0 && log_first_failures(s, &first, &code) > 0 &&
           !log_who_has(&first, match->who.ranks[0]);
}

static bool is_effect(const tess_survey *s, int entry)
{
    const log_match *match = &s->matches[entry];
    return match->is_told || match->is_over || is_preceded(s, entry) || is_explained(s, entry) ||
           is_late_failure(s, match) || is_after_timeout(s, match);
}

/* Returns the earliest effect, if possible one that no other entry explains; -1: there is none. */
static int find_effect(const tess_survey *s)
{
    int first = -1;
    bool first_is_explained = false;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++) {
        if (!is_found(s, i) || tess_knowledge_at(s->knowledge, i)->role != TESS_LOG_EFFECT)
            continue;
        bool explained = is_explained(s, i);
        if (first < 0 ||
            (explained == first_is_explained ? is_before(&s->matches[i], &s->matches[first]) : !explained)) {
            first = i;
            first_is_explained = explained;
        }
    }
    return first;
}

/* Whether the wrapper is a traceback whose exception is missing, or a line that only announced one. */
static bool is_cut(const tess_survey *s, int wrapper)
{
    return wrapper == tess_knowledge_cut_traceback(s->knowledge) ||
           (s->matches[wrapper].is_cut && tess_knowledge_at(s->knowledge, wrapper)->is_quoting);
}

tess_log_role log_role_of(const tess_survey *s, int entry)
{
    tess_log_role role = tess_knowledge_at(s->knowledge, entry)->role;
    if (role == TESS_LOG_WRAPPER) {
        bool says_less = is_cut(s, entry) && find_effect(s) >= 0;
        role = has_cause(s) || says_less ? TESS_LOG_EFFECT : TESS_LOG_CAUSE;
    }
    return role == TESS_LOG_CAUSE && is_effect(s, entry) ? TESS_LOG_EFFECT : role;
}

/* Whether an effect names the process that ended first. It does not if its lines name several processes and differ
 * from each other. */
static bool names_the_first(const log_match *match)
{
    return match->who.is_named && (match->who.n_ranks <= 1 || !match->names_differ);
}

/* Whether the same rank, or an unknown process, printed an effect before the entry. A launcher that names the
 * process that ended first does not count: it prints that process's exception afterwards. */
static bool is_after_an_effect(const tess_survey *s, int entry)
{
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (is_found(s, i) && tess_knowledge_at(s->knowledge, i)->role == TESS_LOG_EFFECT &&
            !s->matches[i].who.is_named && s->matches[i].rank == s->matches[entry].rank &&
            is_before(&s->matches[i], &s->matches[entry]))
            return true;
    return false;
}

/* Returns the earliest entry of a role; -1: there is none. `named`: only entries that name the process that ended
 * first. Otherwise, only entries before the timeouts. `general`: only fallbacks; if false, no fallback counts as a
 * cause. */
static int find_first(const tess_survey *s, tess_log_role role, bool named, bool general)
{
    int first = -1;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++) {
        const log_match *match = &s->matches[i];
        const tess_log_entry *entry = tess_knowledge_at(s->knowledge, i);
        if (!is_found(s, i) || entry->role != role || (role == TESS_LOG_CAUSE && entry->is_fallback != general) ||
            (named ? is_explained(s, i) || !names_the_first(match) : is_effect(s, i) || is_stale(s, match)))
            continue;
        if (entry->is_fallback && is_after_an_effect(s, i))
            continue;
        if (first < 0 || comes_before(s, i, first))
            first = i;
    }
    return first;
}

/* Returns the error that ended the job: a cause with an entry of its own, else a fallback cause, else a wrapper. A
 * wrapper does not count if it names a process that was killed after `gone` (entry; -1: none) had named another
 * process that ended: the launcher itself killed the process. */
static int find_cause(const tess_survey *s, int gone)
{
    int cause = find_first(s, TESS_LOG_CAUSE, false, false);
    if (cause < 0)
        cause = find_first(s, TESS_LOG_CAUSE, false, true);
    int wrapper = cause < 0 ? find_first(s, TESS_LOG_WRAPPER, false, false) : -1;
    if (wrapper >= 0 && is_cut(s, wrapper) && find_effect(s) >= 0)
        wrapper = -1; /* an effect says more than a traceback whose exception is missing */
    bool is_late = wrapper >= 0 && gone >= 0 && s->matches[wrapper].who.is_named &&
                   is_before(&s->matches[gone], &s->matches[wrapper]);
    return cause >= 0 || is_late ? cause : wrapper;
}

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

static void set_who(const log_who *who, tess_log_diagnosis *v)
{
    v->who = *who;
    v->n_culprits = who->n_ranks;
    memcpy(v->culprit, who->ranks, sizeof(v->culprit));
}

/* Appends who printed a line that is about another process: ", reported by rank 3", ", from rank 3 to n2". Returns
 * the new length. */
static size_t add_reporter(const log_who *reporter, const char *peer, char *text, size_t size, size_t at)
{
    char name[400];
    log_who_text(reporter, name, sizeof(name));
    if (reporter->more_hosts[0] != '\0')
        peer = ""; /* each host has another peer */
    if (name[0] != '\0' && peer[0] != '\0')
        return tess_text_add(text, size, at, ", from %s to %s", name, peer);
    if (peer[0] != '\0')
        return tess_text_add(text, size, at, ", to %s", peer);
    return name[0] != '\0' ? tess_text_add(text, size, at, ", reported by %s", name) : at;
}

/* Adds what remains unknown if the entry is not a cause. */
static void add_doubt(tess_log_role role, const log_match *match, const char *who, tess_log_diagnosis *v)
{
    size_t at = strlen(v->headline);
    if (match->before.at.line > 0 && role != TESS_LOG_CAUSE)
        at = tess_text_add(v->headline, sizeof(v->headline), at, "; right before it: \"%s\"", match->before.excerpt);
    else if (role == TESS_LOG_WRAPPER && !v->is_cause)
        tess_text_add(v->headline, sizeof(v->headline), at, "; no error before it is in these logs");
    if (role == TESS_LOG_EFFECT && match->before.at.line == 0)
        tess_text_add(v->headline, sizeof(v->headline), at, "; the cause is not in these logs: look into those of %s",
                      who);
}

/* Appends "reading a checkpoint failed: SYMPTOM" if only a general entry matches the line, because the phase then
 * says most. Otherwise appends the symptom. Returns the new length. */
static size_t add_symptom(const tess_log_entry *entry, const log_match *match, char *text, size_t size, size_t at)
{
    if (match->phase == NULL || !(entry->is_fallback || entry->is_quoting))
        return tess_text_add(text, size, at, "%s", entry->symptom);
    if (entry->role == TESS_LOG_WRAPPER && match->who.what[0] != '\0')
        return tess_text_add(text, size, at, "%s failed", match->phase);
    return tess_text_add(text, size, at, "%s failed: %s", match->phase, entry->symptom);
}

/* Writes the headline: "rank 3 on n1: SYMPTOM (step 12)", "SYMPTOM, reported by rank 3". */
static void write_headline(const tess_log_entry *entry, const log_match *match, tess_log_diagnosis *v)
{
    char who[400];
    bool is_cut = entry->is_quoting || entry->match == NULL; /* true: the exception itself is not in the logs */
    log_who_text(&v->who, who, sizeof(who));
    size_t at = tess_text_add(v->headline, sizeof(v->headline), 0, "%s%s", who, who[0] != '\0' ? ": " : "");
    at = add_symptom(entry, match, v->headline, sizeof(v->headline), at);
    if (v->who.what[0] != '\0')
        at = tess_text_add(v->headline, sizeof(v->headline), at, ": %s", v->who.what);
    else if (match->frame[0] != '\0' && is_cut)
        at = tess_text_add(v->headline, sizeof(v->headline), at, " (at %s)", match->frame);
    if (v->who.step[0] != '\0')
        at = tess_text_add(v->headline, sizeof(v->headline), at, " (step %s)", v->who.step);
    if (entry->by_gpu && v->who.gpu[0] == '\0' && v->reporter.gpu[0] != '\0')
        at = tess_text_add(v->headline, sizeof(v->headline), at, ", reported by its GPU %s", v->reporter.gpu);
    if (who[0] == '\0')
        add_reporter(&v->reporter, v->who.peer, v->headline, sizeof(v->headline), at);
    add_doubt(entry->role, match, who, v);
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
    bool ends_a_process = is_wrapper && !entry->by_reporter;
    for (int i = 0; i < tess_knowledge_n(s->knowledge) && who->n_ranks == 0 && who->host[0] == '\0'; i++) {
        const log_match *other = &s->matches[i];
        const tess_log_entry *known = tess_knowledge_at(s->knowledge, i);
        int64_t distance = other->first.line - match->first.line;
        bool names_it = tess_knowledge_explains(s->knowledge, cause, i) ||
                        (ends_a_process && known->role == TESS_LOG_EFFECT && !known->by_reporter);
        bool says_whom = names_the_first(other) || log_who_names_only_gpu(&other->who) || is_about_process(s, cause, i);
        if (is_found(s, i) && names_it && says_whom && other->first.file == match->first.file &&
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
        if (is_found(s, i) && tess_knowledge_explains(s->knowledge, wrapper, i) && names_the_first(other) &&
            tess_knowledge_at(s->knowledge, i)->by_reporter && is_one_message(match, other))
            log_who_complete(who, &other->who);
    }
}

/* Adds the rank that printed a later line of the cause, if the first line names no process and only one rank printed
 * such lines. */
static void complete_by_later_lines(const tess_survey *s, int cause, log_who *who)
{
    const log_match *match = &s->matches[cause];
    int found = -1;
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    if (entry->role != TESS_LOG_CAUSE || entry->by_reporter || entry->by_host || match->ranks == NULL ||
        log_who_is_known(who))
        return;
    for (int rank = 0; rank < s->n_ranks; rank++) {
        if ((match->ranks[rank / 8] & 1 << rank % 8) == 0)
            continue;
        if (found >= 0)
            return;
        found = rank;
    }
    if (found >= 0) {
        who->ranks[0] = found;
        who->n_ranks = 1;
    }
}

static void add_place(const tess_survey *s, const log_match *match, tess_log_diagnosis *v)
{
    log_add_evidence(v, "%.200s:%" PRId64 ": %s", s->files[match->first.file], match->first.line, match->excerpt);
}

/* Adds evidence from above the line: the program's frame in the traceback, or the unknown error line before it. */
static void add_surroundings(const tess_survey *s, const log_match *match, tess_log_diagnosis *v)
{
    if (match->frame[0] != '\0')
        log_add_evidence(v, "%s%sat %s", match->phase != NULL ? match->phase : "", match->phase != NULL ? ", " : "",
                         match->frame);
    if (match->before.at.line > 0)
        log_add_evidence(v, "%.200s:%" PRId64 ": the nearest error line before it, which no entry knows: %s",
                         s->files[match->before.at.file], match->before.at.line, match->before.excerpt);
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
        if (is_found(s, i) && is_of_a_process && tess_knowledge_at(s->knowledge, i)->by_gpu &&
            strcmp(s->matches[i].who.gpu, who->gpu) == 0)
            who->pid = s->matches[i].who.pid;
}

/* Adds the process of a traceback whose end is missing, if another process reports the cause: the former process has
 * ended. */
static void complete_by_cut_trace(const tess_survey *s, int cause, const log_who *reporter, log_who *who)
{
    int cut = tess_knowledge_cut_traceback(s->knowledge);
    const log_match *other = cut >= 0 && is_found(s, cut) ? &s->matches[cut] : NULL;
    if (other == NULL || !log_who_is_known(reporter) || log_who_is_known(who) ||
        other->first.file != s->matches[cause].first.file || other->reporter.pid == 0 ||
        other->reporter.pid == reporter->pid)
        return;
    log_who_complete(who, &other->reporter);
}

/* Returns the number of the data loader's worker that raised the exception, from a line above it, or NULL if there
 * is none. */
static const char *find_data_worker(const tess_survey *s, const log_match *match)
{
    static const char words[] = "DataLoader worker process ";
    for (int i = 0; i < tess_knowledge_n(s->knowledge) && match->is_exception; i++) {
        const log_match *other = &s->matches[i];
        int64_t distance = match->first.line - other->first.line;
        const char *worker = is_found(s, i) ? strstr(other->who.what, words) : NULL;
        if (worker != NULL && other->first.file == match->first.file && distance > 0 && distance <= LOG_MOST_QUOTED)
            return worker + strlen(words);
    }
    return NULL;
}

static void add_cut_off(const tess_survey *s, tess_log_diagnosis *v)
{
    if (log_first_is_cut_off(s))
        tess_text_add(v->headline, sizeof(v->headline), strlen(v->headline),
                      "; whom torchrun saw end first (its Root Cause) is not in these logs");
}

/* Adds further ranks if a line above the exception says that it belongs to several ranks. */
static void complete_by_quotation(const tess_survey *s, int cause, log_who *who)
{
    const log_match *match = &s->matches[cause];
    for (int i = 0; tess_knowledge_at(s->knowledge, cause)->is_fallback && i < tess_knowledge_n(s->knowledge); i++) {
        const log_match *other = &s->matches[i];
        int64_t distance = match->first.line - other->first.line;
        if (is_found(s, i) && tess_knowledge_at(s->knowledge, i)->is_quoting &&
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
    const log_match *other = cut >= 0 && is_found(s, cut) ? &s->matches[cut] : NULL;
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
        if (!is_found(s, i) || !tess_knowledge_at(s->knowledge, i)->is_quoting ||
            other->first.file != match->first.file || distance <= 0 || distance > LOG_MOST_QUOTED ||
            other->who.actor[0] == '\0' || other->reporter.pid != who->pid ||
            strcmp(other->reporter.actor, who->actor) != 0)
            continue;
        *reporter = *who;
        *who = (log_who){.n_ranks = 0};
        memcpy(who->what, match->who.what, sizeof(who->what));
    }
}

/* Whether the finding is the root cause: a cause, or a wrapper that says enough if nothing else is found. The type
 * of an exception alone does not say enough. */
static bool is_root_cause(const tess_log_entry *entry, const log_match *match)
{
    const char *what = match->who.what;
    bool is_bare = match->is_exception && log_exception_name(what, strlen(what)) + 2 > strlen(what);
    return entry->role == TESS_LOG_CAUSE || (entry->is_enough && match->before.at.line == 0 && !is_bare);
}

/* Adds the address of the job's endpoint if the line says only that the endpoint was not reached, and another line
 * gives the address. */
static void complete_by_endpoint(const tess_survey *s, const tess_log_entry *entry, log_who *who)
{
    if (entry->by_endpoint && who->what[0] == '\0' && who->peer[0] == '\0')
        snprintf(who->what, sizeof(who->what), "%s", s->endpoint);
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
        tess_text_add(v->headline, sizeof(v->headline), strlen(v->headline), "; the largest process was %s", text);
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

/* Reports an entry as the root cause, by its first line. */
static void report_entry(const tess_survey *s, int cause, tess_log_kind kind, tess_log_diagnosis *v)
{
    const log_match *match = &s->matches[cause];
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, cause);
    log_who who = match->who, others;
    int code, n_first = log_first_failures(s, &others, &code);
    v->kind = kind;
    v->entry = cause;
    if (match->is_failure && n_first > 1 && who.n_ranks == 1 && log_who_has(&others, who.ranks[0]))
        who = others; /* the first in torchrun's table need not be the first that ended */
    complete_by_quotation(s, cause, &who);
    v->reporter = match->reporter;
    bool only_reports = entry->role == TESS_LOG_WRAPPER && entry->by_reporter;
    if (only_reports)
        complete_by_report(s, cause, &who);
    if (only_reports)
        complete_by_cut_trace(s, cause, &v->reporter, &who);
    if (!only_reports || !log_who_is_known(&who))
        complete_by_launcher(s, cause, only_reports ? &v->reporter : &who);
    complete_by_later_lines(s, cause, &who);
    complete_by_places(s, &who);
    complete_by_only_failure(s, cause, &who);
    complete_by_named_failure(s, &who);
    complete_by_gpu(s, cause, &who);
    complete_by_places(s, &v->reporter);
    if (entry->by_host && who.host[0] == '\0')
        snprintf(who.host, sizeof(who.host), "%s", v->reporter.host);
    leave_to_several(s, cause, &who, &v->reporter);
    leave_to_quoted(s, cause, &who, &v->reporter);
    complete_by_endpoint(s, entry, &who);
    set_who(&who, v);
    v->is_cause = is_root_cause(entry, match);
    write_headline(entry, match, v);
    const char *worker = v->is_cause ? find_data_worker(s, match) : NULL;
    if (worker != NULL)
        tess_text_add(v->headline, sizeof(v->headline), strlen(v->headline), ", in data worker %s", worker);
    if (match->is_failure)
        add_cut_off(s, v);
    add_largest(s, match, v);
    add_place(s, match, v);
    add_printer(entry, v);
    add_surroundings(s, match, v);
    if (who.is_local)
        log_add_evidence(v, "%d is its local rank: on another host than the first its rank is higher", who.ranks[0]);
}

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
static void add_failures(const tess_survey *s, tess_log_diagnosis *v)
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

/* Reports the process that torchrun saw end first, or those that ended in the same second. */
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
        snprintf(v->headline, sizeof(v->headline),
                 "%s failed%s, with exit code %d%s, as torchrun saw it; the error itself is not in these logs", text,
                 log_first_is_cut_off(s) ? "" : " first", code, signal_of_code(code));
        add_cut_off(s, v);
        return true;
    }
    snprintf(
        v->headline, sizeof(v->headline),
        "%s ended in the same second, with exit code %d%s: torchrun names one of them as the first, but that is only "
        "the order in which it looked; the error itself is not in these logs",
        text, code, signal_of_code(code));
    add_cut_off(s, v);
    return true;
}

/* Writes an effect that names no process, or names several one after the other. */
static void write_effect(const tess_log_entry *entry, const log_match *match, tess_log_diagnosis *v)
{
    size_t size = sizeof(v->headline), at = strlen(v->headline);
    char who[400] = "";
    v->reporter = match->reporter;
    if (!match->who.is_named && match->who.pid != 0)
        log_who_text(&match->who, who, sizeof(who));
    at = tess_text_add(v->headline, size, at, ", only what follows from one: %s%s", who, who[0] != '\0' ? ": " : "");
    at = add_symptom(entry, match, v->headline, size, at);
    if (match->who.what[0] != '\0')
        at = tess_text_add(v->headline, size, at, ": %s", match->who.what);
    if (match->before.at.line > 0)
        tess_text_add(v->headline, size, at, "; right before it: \"%s\"", match->before.excerpt);
    else
        tess_text_add(v->headline, size, at, "; look into those of %s",
                      match->who.peer[0] != '\0' ? match->who.peer : "the other ranks, and above it");
}

/* Writes the earliest warning that names a process or device, or says what is wrong. */
static void write_warning(const tess_survey *s, tess_log_diagnosis *v)
{
    char who[400];
    int first = -1;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (is_found(s, i) && tess_knowledge_at(s->knowledge, i)->role == TESS_LOG_WARNING &&
            (s->matches[i].who.is_named || log_who_names_only_gpu(&s->matches[i].who) ||
             s->matches[i].who.what[0] != '\0') &&
            (first < 0 || is_before(&s->matches[i], &s->matches[first])))
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
        tess_text_add(v->headline, sizeof(v->headline), strlen(v->headline), ", only a warning: %s%s%s%s%s", who, colon,
                      symptom, what_colon, what);
}

static void report_rest(const tess_survey *s, tess_log_diagnosis *v)
{
    if (s->n_known_lines == 0 && s->n_failures == 0) {
        v->kind = TESS_LOG_NOTHING;
        size_t at =
            tess_text_add(v->headline, sizeof(v->headline), 0,
                          "nothing of this log is in the knowledge base (%d entries)", tess_knowledge_n(s->knowledge));
        if (s->first_loose.at.line > 0) {
            tess_text_add(v->headline, sizeof(v->headline), at, "; its first error line: \"%s\"",
                          s->first_loose.excerpt);
            log_add_evidence(v, "%.200s:%" PRId64 ": %s", s->files[s->first_loose.at.file], s->first_loose.at.line,
                             s->first_loose.excerpt);
        }
        return;
    }
    int effect = find_effect(s);
    v->kind = TESS_LOG_KNOWN;
    char reporter[400];
    bool is_told = report_first_failures(s, v);
    if (!is_told)
        snprintf(v->headline, sizeof(v->headline), "no error that ends a job is in these logs");
    if (effect < 0 && !is_told)
        write_warning(s, v);
    if (effect < 0)
        return;
    const log_match *match = &s->matches[effect];
    if (!is_told)
        write_effect(tess_knowledge_at(s->knowledge, effect), match, v);
    add_place(s, match, v);
    add_surroundings(s, match, v);
    log_who_text(&v->reporter, reporter, sizeof(reporter));
    if (reporter[0] != '\0')
        log_add_evidence(v, "reported by %s, not at fault for that", reporter);
    if (match->who.peer[0] != '\0')
        log_add_evidence(v, "the other side was %s: look there first", match->who.peer);
}

/* Whether the error's own line compares the collectives that the ranks called. The ranks' collectives are then
 * diagnosed. */
static bool is_told_by_works(const tess_survey *s, int cause)
{
    const log_place *first = &s->matches[cause].first;
    for (int r = 0; r < s->n_ranks; r++)
        if (s->ranks[r].waits && s->ranks[r].at.file == first->file && s->ranks[r].at.line == first->line)
            return true;
    return false;
}

/* Adds what the stacks of Python processes show. It becomes the headline if the logs give no stronger finding. */
static void report_stacks(const tess_survey *s, tess_log_diagnosis *v)
{
    const log_stack *odd;
    char text[sizeof(v->headline)];
    log_stacks_judge(&s->stacks, text, sizeof(text), &odd);
    if (v->kind > TESS_LOG_KNOWN && v->kind != TESS_LOG_ONE_SIDED) {
        log_add_evidence(v, "%s", text);
        return;
    }
    snprintf(v->headline, sizeof(v->headline), "%s", text);
    v->kind = odd != NULL ? TESS_LOG_MISSING : TESS_LOG_KNOWN;
    v->is_cause = odd != NULL;
    v->n_culprits = odd != NULL && odd->rank >= 0;
    v->culprit[0] = odd != NULL ? odd->rank : -1;
}

static void report_behind(const log_behind *behind, tess_log_diagnosis *v)
{
    if (v->kind != TESS_LOG_NOTHING && v->kind != TESS_LOG_ONE_SIDED) {
        log_add_evidence(v, "%s", behind->text);
        return;
    }
    v->kind = TESS_LOG_MISSING;
    v->is_cause = true;
    v->entry = behind->entry;
    v->n_culprits = behind->n_culprits;
    memcpy(v->culprit, behind->culprit, sizeof(v->culprit));
    snprintf(v->headline, sizeof(v->headline), "%s", behind->text);
}

/* Whether all of these ranks wait for others. Such ranks ended because of the wait, so they are not the ranks that
 * left. */
static bool all_wait(const log_blame *blame, const log_who *who)
{
    if (blame->usual == NULL || who->is_local || who->n_ranks == 0)
        return false;
    for (int i = 0; i < who->n_ranks; i++)
        if (who->ranks[i] >= blame->n_ranks || (blame->sides[who->ranks[i]] & LOG_SIDE_WAITS) == 0)
            return false;
    return true;
}

/* Reports the strongest finding: an error, ranks that wait, a process that others name as gone, how far ranks came,
 * or the rest. */
static void report(const tess_survey *s, const log_blame *blame, tess_log_diagnosis *v)
{
    log_behind behind;
    int gone = find_first(s, TESS_LOG_EFFECT, true, false);
    if (gone >= 0 && all_wait(blame, &s->matches[gone].who))
        gone = -1;
    int cause = find_cause(s, gone);
    bool is_behind = log_find_behind(s, blame->n_ranks, &behind);
    if (cause >= 0 && !(is_told_by_works(s, cause) && blame->n_culprits > 0)) {
        report_entry(s, cause, TESS_LOG_ERROR, v);
    } else if (blame->usual != NULL) {
        log_report_blame(blame, v);
        v->entry = cause;
        if (v->kind == TESS_LOG_ONE_SIDED)
            add_failures(s, v);
        if (cause >= 0)
            add_place(s, &s->matches[cause], v);
    } else if (!is_behind && gone < 0) {
        report_rest(s, v);
    }
    if (gone >= 0 && (v->kind == TESS_LOG_NOTHING || v->kind == TESS_LOG_ONE_SIDED))
        report_entry(s, gone, TESS_LOG_MISSING, v); /* another process says which one is gone */
    if (is_behind)
        report_behind(&behind, v);
    if (blame->usual != NULL)
        log_report_waits(blame, v);
    if (s->stacks.n > 0)
        report_stacks(s, v);
}

tess_status tess_log_diagnose(const tess_survey *s, int world, tess_log_diagnosis *v)
{
    log_blame blame;
    *v = (tess_log_diagnosis){.entry = -1};
    set_world(s, world, v);
    tess_status status = log_blame_find(s, v->world, v->world_known, &blame);
    if (status == TESS_OK)
        report(s, &blame, v);
    log_blame_free(&blame);
    return status;
}
