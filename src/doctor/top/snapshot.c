#include "doctor/top/snapshot.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "doctor/job/job.h"
#include "doctor/table/clean.h"
#include "doctor/top/top_facts.h"

static int64_t resident_bytes(int pid)
{
    char path[64], text[128];
    long long pages;
    snprintf(path, sizeof(path), "/proc/%d/statm", pid);
    bool is_known = tess_os_read_text(path, text, sizeof(text)) > 0 && sscanf(text, "%*s %lld", &pages) == 1;
    return is_known ? pages * sysconf(_SC_PAGESIZE) : -1;
}

/* Copies what the board's copies for other hosts lack. */
static void take_counts(const tess_job_row *row, tess_top_rank *rank)
{
    const uint64_t stepped_ns = atomic_load_explicit(&row->stepped_ns, memory_order_relaxed), now_ns = tess_os_now_ns();
    rank->step_age_s = stepped_ns == 0 || now_ns < stepped_ns ? -1 : (double)(now_ns - stepped_ns) * 1e-9;
    for (int i = 0; i < JOB_TRAFFIC; i++) {
        tess_traffic_copy(&row->traffic[i], &rank->traffic[i]);
        tess_clean_in_place(rank->traffic[i].name, sizeof(rank->traffic[i].name));
    }
}

static void take_rank(const tess_live_job *live, int number, tess_top_rank *rank)
{
    const tess_job_row *row = &live->job.rows[number];
    tess_board_copy *board = &rank->board;
    int host = row->host; /* copied once, because a broken program may change it at any time */
    tess_board_export(row, board);
    tess_board_export_awaited(&live->job, number, rank->awaited);
    tess_clean_in_place(board->phase, sizeof(board->phase));
    tess_clean_in_place(board->op_team, sizeof(board->op_team));
    tess_clean_in_place(board->wait_team, sizeof(board->wait_team));
    tess_clean_in_place(board->why, sizeof(board->why));
    tess_clean_in_place(board->error, sizeof(board->error));
    rank->host[0] = '\0';
    if (host >= 0 && host < live->n_hosts)
        tess_clean_text(live->job.header->hosts[host].name, JOB_NAME_BYTES, rank->host, sizeof(rank->host));
    rank->is_here = host == live->host;
    take_counts(row, rank);
    bool here = rank->is_here && board->pid > 0 && board->ended == 0;
    rank->process = here ? tess_os_process_state(board->pid) : '\0';
    rank->rss_bytes = here ? resident_bytes(board->pid) : -1;
}

static void take_notice(const tess_live_job *live, tess_top_snapshot *s)
{
    tess_notice notices[TESS_NOTICES];
    size_t n = tess_notices_read(&live->job.header->notices, notices);
    if (n == 0)
        return;
    uint64_t now_ns = tess_os_wall_ns();
    s->reported = notices[n - 1];
    tess_clean_in_place(s->reported.text, sizeof(s->reported.text));
    s->reported_age_s = now_ns > s->reported.wall_ns ? (double)(now_ns - s->reported.wall_ns) * 1e-9 : 0;
}

static int find_cause(const tess_live_job *live)
{
    const tess_job_header *h = live->job.header;
    uint32_t diagnosis = atomic_load(&h->diagnosis_state);
    bool committed = diagnosis == JOB_DIAGNOSIS_HERE || diagnosis == JOB_DIAGNOSIS_ELSEWHERE;
    int rank = committed ? atomic_load(&h->diagnosis_rank) : atomic_load(&h->first_lost);
    return rank >= 0 && rank < live->world ? rank : -1;
}

static tess_status make_room(tess_mem *mem, tess_top_snapshot *s)
{
    const size_t n = (size_t)s->world, words = tess_bits_words(s->world);
    void *memory;
    TESS_TRY(TESS_NEW(mem, n, "top", &s->ranks));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, n,
                                  sizeof(*s->waits) + sizeof(*s->missed) + words * sizeof(uint64_t), "top", &memory));
    s->waits = memory;
    s->missed = (tess_missed *)(s->waits + n);
    for (size_t r = 0; r < n; r++)
        s->ranks[r].awaited = (uint64_t *)(s->missed + n) + r * words;
    return TESS_OK;
}

/* Reads what the run writes to its folder. A file that is not there yet says nothing. */
static void take_files(const tess_live_job *live, tess_top_snapshot *s)
{
    char folder[JOB_FOLDER_BYTES];
    tess_top_lines lines;
    if (!tess_top_folder(live, folder))
        return;
    if (tess_top_lines_read(folder, "alerts.jsonl", &lines) == TESS_OK)
        tess_top_health_of(lines.text, lines.n, live->pid, s->health, sizeof(s->health));
    if (tess_top_lines_read(folder, "metrics.jsonl", &lines) == TESS_OK)
        s->metrics = tess_top_metrics_of(lines.text, lines.n);
    tess_top_memory_read(folder, &s->memory);
    tess_error_clear();
}

tess_status tess_top_snapshot_take(tess_mem *mem, const tess_live_job *live, tess_top_snapshot **out)
{
    TESS_AUTO(tess_top_snapshot_destroy) tess_top_snapshot *s = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "top", &s));
    *s = (tess_top_snapshot){.mem = mem, .world = live->world, .n_hosts = live->n_hosts, .pid = live->pid};
    TESS_TRY(make_room(mem, s));
    /* Must be read first: if the job has ended, all values read after this one are final. */
    s->running = tess_live_running(live);
    s->taken_ns = tess_os_now_ns();
    s->age_s = live->start_ns > 0 ? (double)(s->taken_ns - live->start_ns) * 1e-9 : 0;
    tess_clean(live->command, strlen(live->command), s->command, sizeof(s->command));
    for (int r = 0; r < s->world; r++)
        take_rank(live, r, &s->ranks[r]);
    tess_live_places(live, &s->places);
    s->n_restarts = (int64_t)atomic_load(&live->job.header->epoch);
    s->cause = find_cause(live);
    take_notice(live, s);
    take_files(live, s);
    *out = TESS_GIVE(s);
    return TESS_OK;
}

void tess_top_snapshot_destroy(tess_top_snapshot **snapshot)
{
    tess_top_snapshot *s = *snapshot;
    if (s == NULL)
        return;
    json_decref(s->metrics);
    tess_mem_free(s->mem, s->ranks);
    tess_mem_free(s->mem, s->waits);
    tess_mem_free(s->mem, s);
    *snapshot = NULL;
}
