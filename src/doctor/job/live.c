/* Reads a live job. The board holds the states of its ranks, the rings their operations. */
#include <stdio.h>
#include <string.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "doctor/job/job.h"
#include "doctor/job/job_impl.h"
#include "doctor/table/clean.h"
#include "doctor/table/place_table.h"
#include "trace/trace_folder.h"

static tess_situation situation_of(const tess_board_copy *row, bool is_local)
{
    char state = is_local ? tess_os_process_state(row->pid) : (char)row->run_state;
    if (row->situation > TESS_RANK_WELL && row->situation < TESS_SITUATION_COUNT)
        return (tess_situation)row->situation;
    switch (row->state) {
    case JOB_RANK_ABSENT:
        return TESS_RANK_NOT_JOINED;
    case JOB_RANK_LEFT:
    case JOB_RANK_GONE:
        return TESS_RANK_LEFT;
    case JOB_RANK_LOST:
        return row->signal == 0 && row->exit_code == 0 ? TESS_RANK_HOST_LOST : TESS_RANK_WELL;
    default:
        return state == 'T' || state == 't' ? TESS_RANK_STOPPED : TESS_RANK_WELL;
    }
}

static void add_row(const tess_live_job *live, int rank, tess_rank_history *to)
{
    tess_board_copy row;
    tess_board_export(&live->job.rows[rank], &row);
    int host = live->job.rows[rank].host;
    to->pid = row.pid;
    to->ended = row.ended != 0 || row.state == JOB_RANK_LOST || row.state == JOB_RANK_GONE;
    to->signal = row.signal;
    to->exit_code = row.exit_code;
    to->first_error = row.blames >= 0 && row.blames <= live->world ? row.blames : 0;
    to->situation = situation_of(&row, host == live->host);
    tess_clean_text(row.why, sizeof(row.why), to->why, sizeof(to->why));
    tess_clean_text(row.error, sizeof(row.error), to->error, sizeof(to->error));
    if (host >= 0 && host < live->n_hosts)
        tess_clean_text(live->job.header->hosts[host].name, JOB_NAME_BYTES, to->host, sizeof(to->host));
}

static tess_status add_opened(tess_history *history, int rank, const tess_trace_ring *ring, bool is_local,
                              tess_sites_source *source)
{
    TESS_TRY(tess_ring_add(history, rank, ring, ring->capacity, source));
    /* The offset converts the rank's clock to ours. Clocks of two hosts are related by their wall clocks. */
    uint64_t ours = tess_os_wall_ns() - tess_os_now_ns();
    uint64_t theirs = source->owner.wall_ns - source->owner.monotonic_ns;
    history->ranks[rank].clock_offset_ns = is_local ? 0 : (int64_t)(theirs - ours);
    return TESS_OK;
}

static bool is_local(const tess_live_job *live, int rank)
{
    return live->job.rows[rank].host == live->host;
}

/* Opens a rank's ring. If the job has no trace folder, rings are in the job's memory, and only those of this host
 * can be opened. Otherwise, each ring is a file. The caller unmaps `file`, also after a failure. */
static tess_status open_ring(const tess_live_job *live, int rank, tess_mapping *file, const tess_trace_ring **ring)
{
    char folder[JOB_FOLDER_BYTES + 1], path[JOB_FOLDER_BYTES + 64];
    *file = (tess_mapping){0};
    snprintf(folder, sizeof(folder), "%.*s", JOB_FOLDER_BYTES, live->job.header->trace_folder);
    if (folder[0] == '\0')
        return is_local(live, rank)
                   ? tess_trace_open(tess_job_ring(&live->job, rank), tess_trace_bytes(JOB_RING_EVENTS), ring)
                   : TESS_E_NOT_FOUND;
    TESS_TRY(tess_trace_ring_path(folder, rank, path, sizeof(path)));
    TESS_TRY(tess_os_map(path, file));
    return tess_trace_open(file->data, file->size, ring);
}

static tess_status add_ring(tess_history *history, const tess_live_job *live, int rank, tess_sites_source *source)
{
    TESS_AUTO(tess_os_unmap) tess_mapping file = {0};
    const tess_trace_ring *ring;
    TESS_TRY(open_ring(live, rank, &file, &ring));
    return add_opened(history, rank, ring, is_local(live, rank), source);
}

void tess_live_places(const tess_live_job *live, tess_places *places)
{
    tess_status status = TESS_E_NOT_FOUND;
    *places = (tess_places){0};
    for (int r = 0; r < live->world && status != TESS_OK; r++) {
        tess_mapping file;
        const tess_trace_ring *ring;
        status = open_ring(live, r, &file, &ring);
        if (status == TESS_OK)
            tess_places_read(ring, places);
        tess_os_unmap(&file);
    }
    tess_error_clear();
}

/* Adds the board row and the ring of one rank. Host and pid come from the board, not from the ring. */
static tess_status add_live_rank(tess_history *history, const tess_live_job *live, int r, tess_sites_source *source)
{
    tess_rank_history *rank = &history->ranks[r];
    char host[TESS_HISTORY_TEXT];
    add_row(live, r, rank);
    int pid = rank->pid;
    memcpy(host, rank->host, sizeof(host));
    tess_status status = add_ring(history, live, r, source);
    memcpy(rank->host, host, sizeof(host));
    rank->pid = pid;
    rank->present = true; /* the rank has a row on the board */
    rank->lost_any |= status != TESS_OK;
    return status == TESS_E_NOMEM ? status : TESS_OK;
}

static tess_status add_notices(tess_history *history, const tess_live_job *live)
{
    void *memory;
    const tess_notices *reported = &live->job.header->notices;
    TESS_TRY(tess_mem_alloc_array(history->mem, TESS_POOL_MISC, TESS_NOTICES, sizeof(tess_notice), "notices", &memory));
    size_t n = tess_notices_read(reported, memory);
    tess_status status = tess_reported_notices(history, memory, (int)n, atomic_load(&reported->n_reported));
    history->wall_offset_ns = (int64_t)(tess_os_now_ns() - tess_os_wall_ns());
    tess_mem_free(history->mem, memory);
    return status == TESS_OK && history->folder[0] != '\0' ? tess_reports_by_hosts(history, live->host) : status;
}

tess_status tess_job_history_live(tess_mem *mem, const tess_live_job *live, tess_history **out)
{
    TESS_AUTO(tess_mem_drop) tess_sites_source *sources = NULL;
    TESS_AUTO(tess_history_destroy) tess_history *history = NULL;
    *out = NULL;
    TESS_TRY(tess_history_create(mem, TESS_HISTORY_LIVE, live->world, &history));
    snprintf(history->folder, sizeof(history->folder), "%.*s", JOB_FOLDER_BYTES, live->job.header->trace_folder);
    TESS_TRY(TESS_NEW(mem, live->world, "rings", &sources));
    for (int r = 0; r < live->world; r++)
        TESS_TRY(add_live_rank(history, live, r, &sources[r]));
    TESS_TRY(add_notices(history, live));
    history->now_ns = tess_os_now_ns();
    TESS_TRY(tess_history_infer_members(history));
    tess_error_clear();
    tess_ring_name_sites(history, sources);
    *out = TESS_GIVE(history);
    return TESS_OK;
}
