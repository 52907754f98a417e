/* Chooses the root cause among the entries that the logs matched. Errors that follow from others, and errors that the
 * run survived, do not count. */
#include "doctor/log/log_impl.h"

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

bool log_is_before(const log_match *a, const log_match *b)
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
    return log_is_before(&s->matches[a], &s->matches[b]);
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

/* Whether the entry was found, and the run did not go on after it. */
bool log_is_found(const tess_survey *s, int entry)
{
    return s->matches[entry].n_lines > 0 && !log_survived(s, entry);
}

/* Whether both are lines of one message, such as an error code and its text below it. */
bool log_is_one_message(const log_match *a, const log_match *b)
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
        bool is_asked = tess_knowledge_at(s->knowledge, i)->is_asked; /* explains only what follows it */
        bool any_order = !is_asked && (!is_weak || role != TESS_LOG_EFFECT);
        if (log_is_found(s, i) && role <= TESS_LOG_EFFECT && tess_knowledge_explains(s->knowledge, i, entry) &&
            (any_order || log_is_before(&s->matches[i], &s->matches[entry]) ||
             (known->role == TESS_LOG_EFFECT && !s->matches[entry].who.is_named &&
              log_is_one_message(&s->matches[i], &s->matches[entry]))))
            return true;
    }
    return false;
}

/* Whether a signal had already ended a process before the entry. The entry is a fallback cause, or a traceback without
 * its exception, or it is about that process. */
static bool is_preceded(const tess_survey *s, int entry)
{
    const tess_log_entry *known = tess_knowledge_at(s->knowledge, entry);
    const log_match *match = &s->matches[entry];
    bool is_cut = entry == tess_knowledge_cut_traceback(s->knowledge);
    bool is_general = is_cut || (known->is_fallback && known->role == TESS_LOG_CAUSE);
    if (!is_general && (known->is_signal || match->who.pid == 0))
        return false;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (log_is_found(s, i) && tess_knowledge_at(s->knowledge, i)->is_signal &&
            log_is_before(&s->matches[i], match) &&
            (is_general ||
             (s->matches[i].who.pid == match->who.pid && log_who_is_same(&s->matches[i].who, &match->who))))
            return true;
    return false;
}

static bool has_cause(const tess_survey *s)
{
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (log_is_found(s, i) && !s->matches[i].is_over && !is_preceded(s, i) &&
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

/* Whether both lines are of one process. If one of the processes is not known, the file decides. */
static bool is_same_process(const log_match *first, const log_match *last)
{
    bool known = first->first_speaker >= 0 && last->speaker >= 0;
    return known ? first->first_speaker == last->speaker : first->first.file == last->last.file;
}

/* Whether the program says that it goes on after the error, and the same process printed an exception with an entry of
 * its own later. An error that lasts, or that explains the exception, is not passed over. */
static bool is_passed_over(const tess_survey *s, int entry)
{
    const log_match *match = &s->matches[entry];
    if (!match->goes_on || !match->last_goes_on || match->is_exception ||
        tess_knowledge_at(s->knowledge, entry)->is_lasting)
        return false;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++) {
        const tess_log_entry *known = tess_knowledge_at(s->knowledge, i);
        const log_match *later = &s->matches[i];
        if (known->role == TESS_LOG_CAUSE && !known->is_fallback && log_is_found(s, i) && !later->is_tried &&
            later->last_is_exception && is_same_process(match, later) && log_is_before(match, later) &&
            !tess_knowledge_explains(s->knowledge, entry, i))
            return true;
    }
    return false;
}

static bool is_effect(const tess_survey *s, int entry)
{
    const log_match *match = &s->matches[entry];
    return match->is_told || is_passed_over(s, entry) || match->is_over || is_preceded(s, entry) ||
           is_explained(s, entry) || is_late_failure(s, match) || is_after_timeout(s, match);
}

/* Returns the earliest effect, if possible one that no other entry explains; -1: there is none. */
int log_find_effect(const tess_survey *s)
{
    int first = -1;
    bool first_is_explained = false;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++) {
        if (!log_is_found(s, i) || tess_knowledge_at(s->knowledge, i)->role != TESS_LOG_EFFECT)
            continue;
        bool explained = is_explained(s, i);
        if (first < 0 ||
            (explained == first_is_explained ? log_is_before(&s->matches[i], &s->matches[first]) : !explained)) {
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
    if (log_survived(s, entry))
        return role < TESS_LOG_WARNING ? TESS_LOG_WARNING : role;
    if (role == TESS_LOG_WRAPPER) {
        bool says_less = is_cut(s, entry) && log_find_effect(s) >= 0;
        role = has_cause(s) || says_less ? TESS_LOG_EFFECT : TESS_LOG_CAUSE;
    }
    return role == TESS_LOG_CAUSE && is_effect(s, entry) ? TESS_LOG_EFFECT : role;
}

/* Whether an effect names the process that ended first. It does not if its lines name several processes and differ
 * from each other. */
bool log_names_the_first(const log_match *match)
{
    return match->who.is_named && (match->who.n_ranks <= 1 || !match->names_differ);
}

/* Whether the same rank, or an unknown process, printed an effect before the entry. A launcher that names the
 * process that ended first does not count: it prints that process's exception afterwards. */
static bool is_after_an_effect(const tess_survey *s, int entry)
{
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (log_is_found(s, i) && tess_knowledge_at(s->knowledge, i)->role == TESS_LOG_EFFECT &&
            !s->matches[i].who.is_named && s->matches[i].rank == s->matches[entry].rank &&
            !tess_knowledge_explains(s->knowledge, entry, i) && log_is_before(&s->matches[i], &s->matches[entry]))
            return true;
    return false;
}

/* Returns the earliest entry of a role; -1: there is none. `named`: only entries that name the process that ended
 * first. Otherwise, only entries before the timeouts. `general`: only fallbacks; if false, no fallback counts as a
 * cause. */
int log_find_first(const tess_survey *s, tess_log_role role, bool named, bool general)
{
    int first = -1;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++) {
        const log_match *match = &s->matches[i];
        const tess_log_entry *entry = tess_knowledge_at(s->knowledge, i);
        if (!log_is_found(s, i) || entry->role != role || (role == TESS_LOG_CAUSE && entry->is_fallback != general) ||
            (named ? is_explained(s, i) || !log_names_the_first(match) : is_effect(s, i) || is_stale(s, match)))
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
int log_find_cause(const tess_survey *s, int gone)
{
    int cause = log_find_first(s, TESS_LOG_CAUSE, false, false);
    if (cause < 0)
        cause = log_find_first(s, TESS_LOG_CAUSE, false, true);
    int wrapper = cause < 0 ? log_find_first(s, TESS_LOG_WRAPPER, false, false) : -1;
    if (wrapper >= 0 && is_cut(s, wrapper) && log_find_effect(s) >= 0)
        wrapper = -1; /* an effect says more than a traceback whose exception is missing */
    bool is_late = wrapper >= 0 && gone >= 0 && s->matches[wrapper].who.is_named &&
                   log_is_before(&s->matches[gone], &s->matches[wrapper]);
    return cause >= 0 || is_late ? cause : wrapper;
}
