#include "control/launch/watchdog/job_record.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "job/call_sites.h"
#include "trace/trace_folder.h"
#include "trace/job_file.h"
#include "diagnosis/history.h"

static const double again_s = 1;

void watchdog_read_command(char *text, size_t size)
{
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t n = file != NULL ? fread(text, 1, size - 1, file) : 0, at = 0;
    if (file != NULL)
        fclose(file);
    for (size_t i = 0; i < n; i++) /* several NULs in a row come from a word that was shortened (main.c) */
        if (text[i] != '\0' || (at > 0 && text[at - 1] != ' '))
            text[at++] = text[i] != '\0' ? text[i] : ' ';
    text[at > 0 && text[at - 1] == ' ' ? at - 1 : at] = '\0';
}

static void fill_rank(const watchdog_job_record *record, const tess_job *job, int rank, tess_job_file_rank *out)
{
    tess_board_copy row;
    tess_board_export(&job->rows[rank], &row);
    bool lost = row.state == JOB_RANK_LOST;
    *out = (tess_job_file_rank){.pid = row.pid,
                                .ended = row.ended != 0,
                                .asked = record->asked[rank],
                                .signal = lost ? row.signal : 0,
                                .exit_code = row.ended != 0 ? row.exit_code : 0,
                                .blames = row.blames - 1,
                                .ended_ns = record->ended_ns[rank]};
    snprintf(out->host, sizeof(out->host), "%s", job->header->hosts[job->rows[rank].host].name);
    if (job->header->n_hosts == 1 && gethostname(out->host, sizeof(out->host) - 1) != 0)
        out->host[0] = '\0';
    if (row.situation != TESS_RANK_WELL)
        snprintf(out->situation, sizeof(out->situation), "%s", tess_situation_name((tess_situation)row.situation));
    snprintf(out->why, sizeof(out->why), "%s", row.why);
    snprintf(out->error, sizeof(out->error), "%s", row.error);
    tess_call_sites_name(job, rank, out->why, sizeof(out->why));
    tess_call_sites_name(job, rank, out->error, sizeof(out->error));
}

/* Writes the file. Failures are ignored, because the job does not depend on the record. */
static void write_file(const watchdog_job_record *record, const tess_job *job, const tess_launch_result *result)
{
    char path[JOB_FOLDER_BYTES + 32];
    tess_job_file file;
    if (tess_trace_job_path(job->header->trace_folder, (int)job->header->host, path, sizeof(path)) != TESS_OK ||
        tess_job_file_create(record->mem, (int)job->header->world, &file) != TESS_OK)
        return;
    file.begin_ns = record->begin_ns;
    watchdog_read_command(file.command, sizeof(file.command));
    if (result != NULL) {
        file.end_ns = tess_os_wall_ns();
        file.exit_code = result->exit_code;
        snprintf(file.diagnosis, sizeof(file.diagnosis), "%s", result->report);
    }
    for (int r = 0; r < file.world; r++)
        fill_rank(record, job, r, &file.ranks[r]);
    file.n_reported = atomic_load(&job->header->notices.n_reported);
    file.n_notices = (int)tess_notices_read(&job->header->notices, file.notices);
    (void)tess_job_file_write(&file, path);
    tess_job_file_free(record->mem, &file);
}

tess_status watchdog_job_record_begin(watchdog_job_record *record, tess_mem *mem, int world, bool is_guess)
{
    const size_t n = (size_t)world;
    void *memory;
    *record = (watchdog_job_record){.mem = mem, .begin_ns = tess_os_wall_ns(), .is_guess = is_guess};
    TESS_TRY(
        tess_mem_alloc(mem, TESS_POOL_MISC, n * (sizeof(uint64_t) + sizeof(bool)), "how the ranks ended", &memory));
    record->ended_ns = memory;
    record->asked = (bool *)(record->ended_ns + n);
    return TESS_OK;
}

void watchdog_job_record_free(watchdog_job_record *record)
{
    if (record->mem != NULL)
        tess_mem_free(record->mem, record->ended_ns);
    *record = (watchdog_job_record){0};
}

static void look_at_ends(watchdog_job_record *record, const tess_job *job)
{
    int first = atomic_load(&job->header->first_lost);
    for (int r = 0; r < (int)job->header->world; r++) {
        const tess_job_row *row = &job->rows[r];
        if (record->ended_ns[r] != 0 || atomic_load(&row->ended) == 0)
            continue;
        int signal = atomic_load(&row->signal);
        record->ended_ns[r] = tess_os_wall_ns();
        if (record->is_guess)
            record->asked[r] = first >= 0 && first != r && (signal == SIGTERM || signal == SIGKILL);
    }
}

/* Returns a hash that changes whenever there is something new for a reader of the file. */
static uint64_t hash_of_news(const tess_job *job)
{
    uint64_t hash = 1 + atomic_load(&job->header->notices.n_changes);
    for (int r = 0; r < (int)job->header->world; r++)
        hash = hash * 31 + atomic_load_explicit(&job->rows[r].situation, memory_order_relaxed);
    return hash;
}

static bool is_writing(watchdog_job_record *record)
{
    if (record->writer > 0 && waitpid(record->writer, NULL, WNOHANG) != 0)
        record->writer = 0;
    return record->writer > 0;
}

/* Writes the file in a child process. A disk that hangs, which may be what ranks wait for, must not block the
 * watchdog. */
static void write_aside(watchdog_job_record *record, const tess_job *job)
{
    double now_s = tess_os_now_s();
    uint64_t seen = hash_of_news(job);
    if (is_writing(record) || seen == record->seen || now_s - record->written_s < again_s)
        return;
    record->seen = seen;
    record->written_s = now_s;
    if (!record->is_guess) /* the launcher keeps its mapping from forks, and the writer reads it */
        tess_job_keep_from_forks(job, false);
    record->writer = fork();
    if (record->writer == 0) {
        write_file(record, job, NULL);
        _exit(0);
    }
    if (!record->is_guess)
        tess_job_keep_from_forks(job, true);
}

static void end_writer(watchdog_job_record *record)
{
    double begin_s = tess_os_now_s();
    while (is_writing(record) && tess_os_now_s() - begin_s < again_s)
        usleep(1000);
    if (record->writer <= 0)
        return;
    kill(record->writer, SIGKILL);
    waitpid(record->writer, NULL, 0); /* otherwise its file could replace the next one */
    record->writer = 0;
}

void watchdog_job_record_look(watchdog_job_record *record, const tess_job *job)
{
    if (record->ended_ns == NULL)
        return;
    look_at_ends(record, job);
    if (job->header->trace_folder[0] == '\0')
        return;
    if (record->n_looks < 2 && ++record->n_looks == 2) {
        write_file(record, job, NULL);
        record->seen = hash_of_news(job);
    } else if (record->n_looks == 2) {
        write_aside(record, job);
    }
}

void watchdog_job_record_end(watchdog_job_record *record, const tess_job *job, const tess_launch_result *result)
{
    if (record->ended_ns == NULL)
        return;
    look_at_ends(record, job);
    end_writer(record);
    if (job->header->trace_folder[0] != '\0')
        write_file(record, job, result);
}
