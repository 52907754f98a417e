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

/* Adds the traceback that lost its end, if it stands above the first wait of its file: it may be what the others wait
 * for. */
static void add_cut_traceback(const tess_survey *s, tess_log_diagnosis *v)
{
    int cut = tess_knowledge_cut_traceback(s->knowledge);
    const log_match *match = cut >= 0 && log_is_found(s, cut) ? &s->matches[cut] : NULL;
    for (int r = 0; match != NULL && r < s->n_ranks; r++) {
        const log_place *wait = &s->ranks[r].at;
        if (s->ranks[r].waits && wait->file == match->first.file && wait->line < match->first.line)
            return;
    }
    if (match == NULL || match->frame[0] == '\0')
        return;
    log_add_text(v, "; before that, an exception whose text is lost was raised at %s: look there first", match->frame);
    log_add_place(s, match, v);
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

/* Adds the bar of a preparation that was not done when ranks gave up waiting. Its process was slow, not gone. */
static void add_slow_bar(const tess_survey *s, tess_log_diagnosis *v)
{
    const log_loose *bar = &s->slow_bar;
    if (bar->at.line == 0 || v->is_cause)
        return;
    log_add_text(
        v,
        "; before that, a preparation ran that takes longer than the usual timeouts, so a rank was probably still "
        "busy with it: \"%.200s\"",
        bar->excerpt);
    log_add_evidence(v, "%.200s:%" PRId64 ": %s", s->files[bar->at.file], bar->at.line, bar->excerpt);
}

/* Reports the strongest finding: an error, ranks that wait, a process that others name as gone, how far ranks came,
 * or the rest. */
static void report(const tess_survey *s, const log_blame *blame, tess_log_diagnosis *v)
{
    log_behind behind;
    int gone = log_find_first(s, TESS_LOG_EFFECT, true, false);
    if (gone >= 0 && all_wait(blame, &s->matches[gone].who))
        gone = -1;
    int cause = log_find_cause(s, gone);
    bool is_behind = log_find_behind(s, blame->n_ranks, &behind);
    if (cause >= 0 && !(is_told_by_works(s, cause) && blame->n_culprits > 0)) {
        log_report_entry(s, cause, TESS_LOG_ERROR, v);
    } else if (blame->usual != NULL) {
        log_report_blame(blame, v);
        v->entry = cause;
        if (v->kind == TESS_LOG_ONE_SIDED)
            log_add_failures(s, v);
        if (cause >= 0)
            log_add_place(s, &s->matches[cause], v);
        else
            add_cut_traceback(s, v);
    } else if (!is_behind && gone < 0) {
        log_report_rest(s, v);
    }
    if (gone >= 0 && (v->kind == TESS_LOG_NOTHING || v->kind == TESS_LOG_ONE_SIDED))
        log_report_entry(s, gone, TESS_LOG_MISSING, v); /* another process says which one is gone */
    if (is_behind)
        report_behind(&behind, v);
    if (blame->usual != NULL)
        log_report_waits(blame, v);
    add_slow_bar(s, v);
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
