/* Adds the notices and reports of a job to its history. */
#include "doctor/job/job_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/table/clean.h"
#include "job/job_memory.h"
#include "trace/trace_folder.h"

static void add_rank(const tess_job_file_rank *from, tess_rank_history *to)
{
    to->pid = from->pid;
    to->ended = from->ended;
    to->asked = from->asked;
    to->signal = from->signal;
    to->exit_code = from->exit_code;
    to->first_error = 1 + from->blames;
    to->ended_ns = from->ended_ns;
    to->situation = tess_situation_find(from->situation, TESS_RANK_WELL);
    tess_clean_text(from->host, SIZE_MAX, to->host, sizeof(to->host));
    tess_clean_text(from->why, SIZE_MAX, to->why, sizeof(to->why));
    tess_clean_text(from->error, SIZE_MAX, to->error, sizeof(to->error));
}

tess_status tess_reported_notices(tess_history *history, tess_notice *notices, int n, uint64_t n_reported)
{
    for (int i = 0; i < n; i++)
        tess_clean_in_place(notices[i].text, sizeof(notices[i].text));
    return tess_history_add_notices(history, notices, n, n_reported);
}

tess_status tess_job_file_add(tess_history *history, const tess_job_file *file)
{
    for (int r = 0; r < history->world; r++)
        add_rank(&file->ranks[r], &history->ranks[r]);
    tess_clean_text(file->diagnosis, SIZE_MAX, history->reported, sizeof(history->reported));
    if (file->end_ns == 0 && history->reported[0] == '\0')
        snprintf(history->reported, sizeof(history->reported), "nothing: it ended before the job did");
    history->now_ns = file->end_ns;
    return tess_reported_notices(history, file->notices, file->n_notices, file->n_reported);
}

typedef struct host_list {
    int except, n;
    int hosts[JOB_MAX_HOSTS];
} host_list;

static tess_status note_host(void *context, const char *name)
{
    host_list *list = context;
    int host;
    if (tess_trace_job_name(name, &host) && host != list->except && list->n < JOB_MAX_HOSTS)
        list->hosts[list->n++] = host;
    return TESS_OK;
}

/* Adds the ends of ranks that only another host's file holds. A host may write its file before it learns how ranks
 * of another host ended. */
static void add_ends(tess_history *history, const tess_job_file *file)
{
    for (int r = 0; r < history->world && r < file->world; r++)
        if (file->ranks[r].ended && !history->ranks[r].ended)
            add_rank(&file->ranks[r], &history->ranks[r]);
}

static tess_status add_host(tess_history *history, int host)
{
    char path[sizeof(history->folder) + 32];
    tess_job_file file;
    TESS_TRY(tess_trace_job_path(history->folder, host, path, sizeof(path)));
    TESS_TRY(tess_job_file_read(history->mem, path, &file));
    if (history->source == TESS_HISTORY_RINGS)
        add_ends(history, &file);
    tess_status status = tess_reported_notices(history, file.notices, file.n_notices, file.n_reported);
    tess_job_file_free(history->mem, &file);
    return status;
}

tess_status tess_reports_by_hosts(tess_history *history, int except)
{
    host_list list = {.except = except};
    tess_status status = tess_os_list(history->folder, note_host, &list);
    for (int i = 0; i < list.n && status != TESS_E_NOMEM; i++) {
        status = add_host(history, list.hosts[i]);
        if (status != TESS_OK && status != TESS_E_NOMEM)
            tess_history_note_damage(history, "the reports of host %d cannot be read: %s", list.hosts[i],
                                     tess_error_message());
    }
    tess_error_clear();
    return status == TESS_E_NOMEM ? status : TESS_OK;
}
