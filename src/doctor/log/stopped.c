/* Facts about processes that launchers report: which of them a launcher stopped itself, and which exit code the text of
 * a scheduler calls a success. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"

/* Reads the number behind `words` in a line; -1: the line does not have them. */
static int number_behind(const char *line, size_t size, const char *words)
{
    enum { MOST_DIGITS = 9 };
    size_t n = strlen(words);
    const char *at = memmem(line, size, words, n), *end = line + size;
    int number = -1;
    for (int i = 0; at != NULL && i < MOST_DIGITS && at + n < end && isdigit((unsigned char)at[n]); i++, at++)
        number = (number < 0 ? 0 : number * 10) + (at[n] - '0');
    return number;
}

static tess_status add_stopped(tess_survey *s, const log_stopped *one)
{
    for (int i = 0; i < s->n_stopped; i++)
        if (s->stopped[i].pid == one->pid && s->stopped[i].file == one->file)
            return TESS_OK;
    if (s->n_stopped == LOG_MOST_RANKS)
        return TESS_OK;
    if ((s->n_stopped & (s->n_stopped - 1)) == 0) /* capacities are powers of two */
        TESS_TRY(tess_mem_grow(s->mem, TESS_POOL_MISC,
                               (s->n_stopped == 0 ? 1 : 2 * (size_t)s->n_stopped) * sizeof(*s->stopped),
                               "stopped processes", (void **)&s->stopped));
    s->stopped[s->n_stopped++] = *one;
    return TESS_OK;
}

tess_status log_note_stopped(survey_reading *r, const char *line, size_t size)
{
    int by_torchrun = number_behind(line, size, "ending process "),
        by_handler = number_behind(line, size, "subprocess ");
    const log_stopped one = {
        .pid = by_torchrun >= 0 ? by_torchrun : by_handler, .file = r->file, .is_listed = by_torchrun < 0};
    int rank = memmem(line, size, "launch.py", 9) != NULL ? number_behind(line, size, "--local_rank=") : -1;
    if (rank >= 0 && rank < LOG_MOST_RANKS)
        r->survey->last_started = rank + 1;
    return one.pid > 0 ? add_stopped(r->survey, &one) : TESS_OK;
}

bool log_was_stopped(const tess_survey *s, const log_failure *failure)
{
    for (int i = 0; i < s->n_stopped; i++)
        if (!s->stopped[i].is_listed && s->stopped[i].pid == failure->pid && s->stopped[i].file == failure->file)
            return true;
    return false;
}

bool log_only_child(const tess_survey *s, log_who *who)
{
    if (s->n_stopped != 1 || !s->stopped[0].is_listed)
        return false;
    *who = (log_who){.pid = s->stopped[0].pid};
    if (s->last_started > 0) {
        who->ranks[0] = s->last_started - 1;
        who->n_ranks = 1;
        who->is_local = true;
    }
    return true;
}

void log_note_success_code(tess_survey *s, const char *line, size_t size)
{
    static const char *const names[] = {"SuccessCheckpointExitCode", "SuccessExitCode", "JobSuccessExitCode",
                                        "checkpoint_exit_code", "success_exit_code"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && s->success_name == NULL; i++) {
        const char *at = memmem(line, size, names[i], strlen(names[i])), *end = line + size;
        if (at == NULL)
            continue;
        for (at += strlen(names[i]); at < end && (*at == ' ' || *at == '=');)
            at++;
        int code = number_behind(at, (size_t)(end - at), "");
        if (code > 0) { /* 0 is a success without being told */
            s->success_name = names[i];
            s->success_code = code;
        }
    }
}
