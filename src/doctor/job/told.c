#include "doctor/job/told.h"

#include <stdio.h>
#include <string.h>

#include "doctor/table/clean.h"

static tess_situation situation_of(const char *name)
{
    for (int s = 0; s < TESS_SITUATION_COUNT; s++)
        if (strcmp(name, tess_situation_name((tess_situation)s)) == 0)
            return (tess_situation)s;
    return TESS_RANK_WELL;
}

static void clean_into(const char *from, char *to, size_t size)
{
    tess_clean(from, strlen(from), to, size);
}

static void add_rank(const tess_job_file_rank *from, tess_rank_history *to)
{
    to->pid = from->pid;
    to->ended = from->ended;
    to->asked = from->asked;
    to->signal = from->signal;
    to->exit_code = from->exit_code;
    to->first_error = 1 + from->blames;
    to->ended_ns = from->ended_ns;
    to->situation = situation_of(from->situation);
    clean_into(from->host, to->host, sizeof(to->host));
    clean_into(from->why, to->why, sizeof(to->why));
    clean_into(from->error, to->error, sizeof(to->error));
}

void tess_job_file_add(tess_history *history, const tess_job_file *file)
{
    for (int r = 0; r < history->world; r++)
        add_rank(&file->ranks[r], &history->ranks[r]);
    clean_into(file->verdict, history->told, sizeof(history->told));
    if (file->end_ns == 0 && history->told[0] == '\0')
        snprintf(history->told, sizeof(history->told), "nothing: it ended before the job did");
    history->now_ns = file->end_ns;
}

void tess_job_file_add_previous(tess_history *history, const tess_job_file *file, const tess_job_file *previous)
{
    if (strcmp(file->command, previous->command) == 0 && previous->end_ns <= file->begin_ns)
        clean_into(previous->verdict, history->before, sizeof(history->before));
}
