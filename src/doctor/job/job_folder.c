/* Reads a job that has ended: the files of its rings, and what its launcher wrote. */
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "doctor/job/job.h"
#include "doctor/job/job_impl.h"
#include "doctor/table/clean.h"
#include "trace/trace_folder.h"

static tess_status note_file(void *context, const char *name)
{
    int rank, *highest = context;
    if (strcmp(name, TESS_TRACE_JOB_FILE) == 0 && *highest < 0)
        *highest = 0;
    if (tess_trace_ring_name(name, &rank) && rank > *highest)
        *highest = rank;
    return TESS_OK;
}

/* Returns the highest rank with a ring in the folder; -1: the folder holds no job. */
static int highest_rank(const char *folder)
{
    int highest = -1;
    if (tess_os_list(folder, note_file, &highest) != TESS_OK)
        tess_error_clear();
    return highest;
}

bool tess_job_folder_find(const char *folder, char *path, size_t size)
{
    char below[4096];
    if (tess_os_join(below, sizeof(below), folder, "trace") == TESS_OK && highest_rank(below) >= 0)
        return (size_t)snprintf(path, size, "%s", below) < size;
    return highest_rank(folder) >= 0 && (size_t)snprintf(path, size, "%s", folder) < size;
}

/* ---- Rings ---- */
static tess_status add_mapped(tess_history *history, int rank, const char *name, const tess_mapping *file,
                              tess_sites_source *source)
{
    const tess_trace_ring *ring;
    uint64_t n_slots;
    TESS_TRY(tess_trace_open_cut(file->data, file->size, &ring, &n_slots));
    TESS_TRY(tess_ring_add(history, rank, ring, n_slots, source));
    bool newest;
    uint64_t lost = tess_trace_lost(ring, n_slots, &newest);
    if (n_slots < ring->capacity)
        tess_history_note_damage(history, "%s is cut off at %zu of %zu bytes: %llu of its events are lost%s", name,
                                 file->size, tess_trace_bytes(ring->capacity), (unsigned long long)lost,
                                 newest ? ", the newest of them too" : "");
    history->ranks[rank].clock_offset_ns = (int64_t)(source->owner.wall_ns - source->owner.monotonic_ns);
    return TESS_OK;
}

static tess_status add_ring(tess_history *history, int rank, tess_sites_source *source)
{
    char path[4096];
    tess_mapping file;
    TESS_TRY(tess_trace_ring_path(history->folder, rank, path, sizeof(path)));
    TESS_TRY(tess_os_map(path, &file));
    const char *name = strrchr(path, '/') + 1;
    tess_status status = add_mapped(history, rank, name, &file, source);
    tess_os_unmap(&file);
    if (status != TESS_OK && status != TESS_E_NOMEM)
        tess_history_note_damage(history, "%s cannot be read: %s", name, tess_error_message());
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "%s", path);
}

/* Adds all rings. If one cannot be read, continues with the next. */
static tess_status add_rings(tess_history *history, tess_sites_source *sources)
{
    for (int r = 0; r < history->world; r++) {
        tess_rank_history *rank = &history->ranks[r];
        tess_status status = add_ring(history, r, &sources[r]);
        if (status == TESS_E_NOMEM)
            return status;
        if (status != TESS_OK && rank->why[0] == '\0')
            tess_clean_text(tess_error_message(), SIZE_MAX, rank->why, sizeof(rank->why));
    }
    return TESS_OK;
}

/* Finds the world size if there is no job.json: the first readable ring holds it. */
static tess_status find_world(const char *folder, int highest, int *world)
{
    tess_status first = TESS_E_NOT_FOUND;
    for (int r = 0; r <= highest && r < TESS_HISTORY_MAX_RANKS; r++) {
        char path[4096];
        tess_mapping file;
        const tess_trace_ring *ring;
        uint64_t n_slots;
        TESS_TRY(tess_trace_ring_path(folder, r, path, sizeof(path)));
        if (tess_os_map(path, &file) != TESS_OK)
            continue;
        tess_status status = tess_trace_open_cut(file.data, file.size, &ring, &n_slots);
        if (status == TESS_OK)
            *world = ring->world <= TESS_HISTORY_MAX_RANKS ? (int)ring->world : 0;
        tess_os_unmap(&file);
        if (status == TESS_OK && *world > 0)
            return TESS_OK;
        first = first == TESS_E_NOT_FOUND ? tess_fail_context(status == TESS_OK ? TESS_E_FORMAT : status, "%s", path)
                                          : first;
    }
    return first;
}

/* If the end of the job was not recorded, takes the last time that any rank recorded. */
static void find_end(tess_history *history)
{
    for (int r = 0; r < history->world && history->source == TESS_HISTORY_RINGS; r++) {
        const tess_rank_history *rank = &history->ranks[r];
        uint64_t last_ns = rank->last_ns + (uint64_t)rank->clock_offset_ns;
        if (rank->present && rank->last_ns != 0 && last_ns > history->now_ns)
            history->now_ns = last_ns;
    }
}

/* Reads what the launcher wrote. file->world is 0 if nothing of it is usable; *damage says what is wrong with it. */
static void read_reported(tess_mem *mem, const char *path, tess_job_file *file, char *damage, size_t size)
{
    damage[0] = '\0';
    tess_status status = tess_job_file_read(mem, path, file);
    if (status == TESS_OK || status == TESS_E_NOT_FOUND)
        return;
    size_t at = tess_text_add(damage, size, 0, "%s", tess_error_message());
    bool is_usable = tess_job_file_read_cut(mem, path, file) == TESS_OK;
    tess_text_add(damage, size, at,
                  is_usable ? "; the ranks before that place are used" : "; how its ranks ended is not known");
}

static tess_status read_all(tess_mem *mem, const char *folder, const tess_job_file *file, int world, const char *damage,
                            tess_history **history)
{
    TESS_AUTO(tess_mem_drop) tess_sites_source *sources = NULL;
    TESS_AUTO(tess_history_destroy) tess_history *made = NULL;
    TESS_TRY(tess_history_create(mem, TESS_HISTORY_RINGS, world, &made));
    snprintf(made->folder, sizeof(made->folder), "%s", folder);
    if (damage[0] != '\0')
        tess_history_note_damage(made, "%s", damage);
    if (file->world > 0)
        TESS_TRY(tess_job_file_add(made, file));
    TESS_TRY(tess_reports_by_hosts(made, 0));
    TESS_TRY(TESS_NEW(mem, world, "rings", &sources));
    TESS_TRY(add_rings(made, sources));
    TESS_TRY(tess_history_infer_members(made));
    tess_ring_name_sites(made, sources);
    find_end(made);
    *history = TESS_GIVE(made);
    return TESS_OK;
}

/* Adds the previous life of a restarted job. A job that restarts from its checkpoint moves the traces of the failed
 * life into another folder. Only a life with the same command counts. */
static void add_previous(tess_mem *mem, tess_history *history, const tess_job_file *file)
{
    char path[sizeof(history->folder) + 32];
    tess_job_file previous;
    snprintf(path, sizeof(path), "%s.previous/%s", history->folder, TESS_TRACE_JOB_FILE);
    if (tess_job_file_read(mem, path, &previous) != TESS_OK) {
        tess_error_clear();
        return;
    }
    if (strcmp(file->command, previous.command) == 0 && previous.end_ns <= file->begin_ns)
        tess_clean_text(previous.diagnosis, SIZE_MAX, history->before, sizeof(history->before));
    tess_job_file_free(mem, &previous);
}

tess_status tess_job_history_read(tess_mem *mem, const char *folder, tess_history **history)
{
    char place[4096], path[4096], damage[512];
    tess_job_file file;
    *history = NULL;
    TESS_CHECK(tess_job_folder_find(folder, place, sizeof(place)), TESS_E_NOT_FOUND,
               "%s: neither it nor its 'trace' holds traces of a job (rank-00000.ring, job.json)", folder);
    TESS_TRY(tess_os_join(path, sizeof(path), place, TESS_TRACE_JOB_FILE));
    read_reported(mem, path, &file, damage, sizeof(damage));
    int world = file.world;
    tess_status status = world > 0 ? TESS_OK : find_world(place, highest_rank(place), &world);
    if (status == TESS_E_NOT_FOUND && damage[0] != '\0')
        status = TESS_FAIL(TESS_E_FORMAT, "%s", damage);
    if (status == TESS_OK)
        status = read_all(mem, place, &file, world, damage, history);
    if (status == TESS_OK && file.world > 0)
        add_previous(mem, *history, &file);
    tess_job_file_free(mem, &file);
    return status;
}
