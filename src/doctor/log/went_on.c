/* Decides which errors a run survived. Steps of training after an error, a restart by the launcher, or a good end show
 * that the run went on. Such an error is no cause, and the report only mentions it. */
#include <string.h>

#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

/* Different steps that must follow an error. A process that ended may still seem to go on: other processes finish
 * their step, and a buffer is written at exit. */
enum {
    AFTER_A_WARNING = 1,      /* its own step, after a line that says that the program goes on */
    AFTER_AN_ERROR = 3,       /* its own steps, after an error of which no process ended */
    OF_ANY_PROCESS = 20,      /* steps of all processes together */
    MORE_THAN_A_BUFFER = 200, /* steps of all processes together, where a buffer may be written at exit */
    AFTER_A_RESTART = 1       /* steps of all processes together, after a launcher started them again */
};

int64_t log_speaker_of(const log_who *origin)
{
    if (origin->n_ranks > 0)
        return origin->ranks[0];
    return origin->pid != 0 ? LOG_MOST_RANKS + (int64_t)origin->pid : -1;
}

void log_keep_step(survey_reading *r, const char *line, size_t size, int64_t number)
{
    log_loose *kept = &r->may_be_steps[r->n_may_be_steps++ % LOG_LAST_STEPS];
    enum { MOST_KEPT = 256 };
    size_t n = size < MOST_KEPT ? size : MOST_KEPT;
    kept->at = (log_place){r->file, number};
    memcpy(kept->excerpt, line, n);
    kept->excerpt[n] = '\0';
}

static void count(log_speaker *speaker, const log_step *step)
{
    if (speaker->last == step->id)
        return; /* another line about the same step */
    speaker->last = step->id;
    speaker->n++;
    speaker->n_live += step->is_live;
}

void log_note_step(survey_reading *r, const log_who *origin, const log_step *step)
{
    int64_t key = log_speaker_of(origin);
    int i = 0;
    r->steps_left--;
    count(&r->all, step);
    while (i < r->n_speakers && r->speakers[i].key != key)
        i++;
    if (i == LOG_SPEAKERS)
        return;
    if (i == r->n_speakers)
        r->speakers[r->n_speakers++] = (log_speaker){.key = key};
    count(&r->speakers[i], step);
}

log_steps log_steps_now(const survey_reading *r, int64_t speaker)
{
    log_steps steps = {.n_all = r->all.n};
    for (int i = 0; i < r->n_speakers; i++)
        if (r->speakers[i].key == speaker || (r->speakers[i].key < 0 && speaker >= LOG_MOST_RANKS)) {
            steps.n_own += r->speakers[i].n; /* a step without a prefix may be that of a process without a rank */
            steps.n_own_live += r->speakers[i].n_live;
        }
    return steps;
}

void log_note_end(survey_reading *r, tess_log_scope scope, const char *line, size_t size, int64_t number,
                  const log_who *origin)
{
    log_loose *end = &r->survey->good_end;
    if (r->end_line > r->error_line && scope < r->end_scope)
        return;
    size_t begin = log_text_begin(line, size), rest = begin < size ? size - begin : 0;
    r->end_line = number;
    r->end_speaker = log_speaker_of(origin);
    r->end_scope = scope;
    end->at = (log_place){r->file, number};
    tess_clean(line + size - rest, rest < 4096 ? rest : 4096, end->excerpt, sizeof(end->excerpt));
}

void log_note_restart(survey_reading *r, int64_t number)
{
    r->restart_line = number;
    r->restart_steps = r->all.n;
    r->steps_left = LOG_MOST_STEPS;
}

void log_note_hint(survey_reading *r, const char *line, size_t size, int64_t number)
{
    if (number > r->hints_end || !log_passes_over(line, size))
        return;
    bool tries = log_says_it_goes_on(line, size);
    for (int i = 0; i < tess_knowledge_n(r->survey->knowledge); i++) {
        log_match *match = &r->survey->matches[i];
        if (match->n_lines == 0 || match->last.file != r->file || number - match->last.line > LOG_HINT_LINES)
            continue;
        match->is_tried |= tries;
        match->last_goes_on = true;
        match->goes_on |= match->first.file == r->file && number - match->first.line <= LOG_HINT_LINES;
    }
}

/* The end of a file: whether errors are the last thing in it. */
typedef struct log_tail {
    int64_t last_step; /* line of the last step; 0: none */
    bool is_fatal;     /* errors follow the last step and the last good end */
    bool names_cause;  /* one of them is a cause */
    bool ends_process; /* one of them reports the end of a process */
} log_tail;

/* Whether the line reports the end of a process, and not only an error that the program may survive. A line about
 * another process than the one that printed it mostly does. */
static bool ends_a_process(const tess_survey *s, int entry)
{
    const tess_log_entry *known = tess_knowledge_at(s->knowledge, entry);
    const log_match *match = &s->matches[entry];
    bool names_another = match->who.is_named || known->by_host || known->by_pod;
    return match->is_exception || match->is_failure || known->is_signal || names_another ||
           known->role == TESS_LOG_WRAPPER;
}

/* Whether a good end after the line covers it: the job ended well, or the same process did, or the line reports no
 * end of a process. The good end of one process says nothing if another one failed. */
static bool ended_well(const survey_reading *r, int entry, const log_tail *tail)
{
    const log_match *match = &r->survey->matches[entry];
    if (r->end_line <= match->last.line || (r->end_scope == TESS_LOG_OF_PROCESS && tail->is_fatal))
        return false;
    return r->end_scope == TESS_LOG_OF_JOB || r->end_speaker == match->speaker || !ends_a_process(r->survey, entry);
}

static bool has_gone_on(const survey_reading *r, int entry, const log_tail *tail)
{
    const log_match *match = &r->survey->matches[entry];
    const log_steps now = log_steps_now(r, match->speaker);
    int64_t n_all = now.n_all - match->steps.n_all, n_own = now.n_own - match->steps.n_own;
    int64_t n_live = now.n_own_live - match->steps.n_own_live;
    bool is_end = ends_a_process(r->survey, entry);
    const tess_log_entry *known = tess_knowledge_at(r->survey->knowledge, entry);
    if (known->is_lasting || known->role > TESS_LOG_EFFECT)
        return false;
    if (r->restart_line >= match->last.line && r->all.n - r->restart_steps >= AFTER_A_RESTART)
        return true;
    if (ended_well(r, entry, tail))
        return true;
    if (match->is_announced && r->stamped_line > match->last.line)
        return !log_is_error_line(r->stamped, r->stamped_size);
    if (tail->is_fatal) { /* the run ended with an error, which may be this one */
        if (match->is_tried && !is_end)
            return n_all >= AFTER_AN_ERROR;
        return n_all >= (is_end && !tail->names_cause ? MORE_THAN_A_BUFFER : OF_ANY_PROCESS);
    }
    if (n_all >= OF_ANY_PROCESS)
        return true;
    if (match->is_of_actor && tail->last_step > match->last.line)
        return true; /* the driver would have ended with the exception of an actor */
    if (is_end)
        return n_live >= AFTER_AN_ERROR;
    return match->is_tried ? n_own >= AFTER_A_WARNING || n_all >= AFTER_AN_ERROR : n_own >= AFTER_AN_ERROR;
}

bool log_went_on(const survey_reading *r, int entry)
{
    static const log_tail not_read_yet = {.is_fatal = true, .names_cause = true};
    const log_match *match = &r->survey->matches[entry];
    return match->n_lines > 0 && match->last.file == r->file && has_gone_on(r, entry, &not_read_yet);
}

/* Finds the last line of progress among those that may be one, and its time (negative: not known). */
static void find_last_step(survey_reading *r, double *time_s)
{
    log_step step;
    *time_s = -1;
    for (int64_t i = r->n_may_be_steps - 1; i >= 0 && i > r->n_may_be_steps - 1 - LOG_LAST_STEPS; i--) {
        log_loose *line = &r->may_be_steps[i % LOG_LAST_STEPS];
        size_t size = strlen(line->excerpt), begin = log_text_begin(line->excerpt, size);
        if (!log_step_of_line(line->excerpt, size, &step))
            continue;
        begin = begin < size ? begin : 0;
        r->survey->last_step.at = line->at;
        *time_s = log_time_of_line(line->excerpt, size);
        tess_clean(line->excerpt + begin, size - begin, r->survey->last_step.excerpt,
                   sizeof(r->survey->last_step.excerpt));
        return;
    }
}

bool log_has_progress_since(const survey_reading *r, int64_t from)
{
    log_step step;
    for (int64_t i = r->n_may_be_steps - 1; i >= 0 && i > r->n_may_be_steps - 1 - LOG_LAST_STEPS; i--) {
        const log_loose *line = &r->may_be_steps[i % LOG_LAST_STEPS];
        if (line->at.line <= from)
            return false;
        if (log_step_of_line(line->excerpt, strlen(line->excerpt), &step))
            return true;
    }
    return false;
}

static bool is_of_file(const survey_reading *r, int entry)
{
    const log_match *match = &r->survey->matches[entry];
    return match->n_lines > 0 && match->last.file == r->file;
}

static log_tail find_tail(const survey_reading *r)
{
    const log_loose *step = &r->survey->last_step;
    log_tail tail = {.last_step = step->at.line > 0 && step->at.file == r->file ? step->at.line : 0};
    int64_t begin = tail.last_step > r->end_line ? tail.last_step : r->end_line;
    for (int i = 0; i < tess_knowledge_n(r->survey->knowledge); i++) {
        const log_match *match = &r->survey->matches[i];
        tess_log_role role = tess_knowledge_at(r->survey->knowledge, i)->role;
        if (!is_of_file(r, i) || match->went_on || match->is_tried || match->last.line <= begin ||
            role > TESS_LOG_EFFECT)
            continue;
        tail.is_fatal = true;
        tail.names_cause |= role == TESS_LOG_CAUSE || match->is_exception;
        tail.ends_process |= ends_a_process(r->survey, i);
    }
    return tail;
}

/* Whether the run went on after a line with `n_all` steps before it. */
static bool went_on_after(const survey_reading *r, int64_t line, int64_t n_all)
{
    return (r->restart_line >= line && r->all.n - r->restart_steps >= AFTER_A_RESTART) ||
           r->all.n - n_all >= OF_ANY_PROCESS || (r->end_scope == TESS_LOG_OF_JOB && r->end_line > line);
}

/* Forgets collectives that timed out, and processes that ended, where the run went on. */
static void settle_ranks(survey_reading *r)
{
    tess_survey *s = r->survey;
    int n = 0;
    for (int i = 0; i < s->n_ranks; i++) {
        log_rank *rank = &s->ranks[i];
        if (!rank->waits || rank->at.file != r->file || !went_on_after(r, rank->at.line, rank->n_all))
            continue;
        rank->waits = rank->has_progress = rank->notified = false;
    }
    for (int i = 0; i < s->n_failures; i++) {
        const log_failure *failure = &s->failures[i];
        if (failure->file != r->file || !went_on_after(r, failure->line, failure->n_all))
            s->failures[n++] = *failure;
    }
    s->n_failures = n;
}

void log_set_over(tess_survey *s, int entry, bool went_on)
{
    log_match *match = &s->matches[entry];
    if (!match->is_open) {
        match->is_over = true;
        match->went_on |= went_on;
        return;
    }
    const log_match all = *match;
    *match = s->open[entry];
    match->n_lines = all.n_lines;
    match->ranks = all.ranks;
    match->came = all.came;
    match->n_came = all.n_came;
    match->n_counted = all.n_counted;
}

/* Notes that the run did not go on after the entry's last line in a file. */
static void set_open(tess_survey *s, int entry)
{
    log_match *match = &s->matches[entry];
    match->is_open = true;
    match->ended_process |= !match->is_tried && (match->last_is_exception || ends_a_process(s, entry));
    s->open[entry] = *match;
}

void log_settle(survey_reading *r)
{
    tess_survey *s = r->survey;
    double last_step_s;
    find_last_step(r, &last_step_s);
    const log_tail tail = find_tail(r);
    s->process_ended |= tail.ends_process;
    s->program_ended |= r->end_line > 0 && r->end_scope == TESS_LOG_OF_PROGRAM && !tail.is_fatal;
    if (last_step_s >= 0 && !tail.is_fatal && (!s->has_live_steps || last_step_s > s->last_step_s)) {
        s->has_live_steps = true;
        s->last_step_s = last_step_s;
    }
    s->ended_well |= r->end_line > 0 && r->end_scope == TESS_LOG_OF_JOB && !tail.is_fatal;
    s->restarted |= r->restart_line > 0 && r->all.n - r->restart_steps >= AFTER_A_RESTART;
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++) {
        if (!is_of_file(r, i) || s->matches[i].is_over)
            continue;
        if (has_gone_on(r, i, &tail))
            log_set_over(s, i, true);
        else
            set_open(s, i);
    }
    settle_ranks(r);
}

bool log_survived(const tess_survey *s, int entry)
{
    static const double long_s = 60; /* longer than other ranks go on after one ended */
    const log_match *match = &s->matches[entry];
    const tess_log_entry *known = tess_knowledge_at(s->knowledge, entry);
    if (match->n_lines == 0 || match->went_on)
        return match->went_on;
    if (known->role > TESS_LOG_EFFECT || known->is_lasting || match->ended_process)
        return false;
    if (s->ended_well)
        return true;
    bool may_be_over = !ends_a_process(s, entry) && !s->process_ended && s->n_failures == 0;
    bool goes_on = s->has_live_steps && match->last_time_s >= 0 && s->last_step_s - match->last_time_s > long_s;
    return may_be_over && (s->program_ended || goes_on);
}
