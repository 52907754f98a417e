/* Writes dumps of schema 2.10 from a history. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/pickle/pickle_write.h"
#include "base/text/json.h"
#include "doctor/flight_recorder/flight_recorder.h"
#include "doctor/flight_recorder/flight_recorder_impl.h"
#include "diagnosis/request.h"

typedef struct fr_writer {
    const tess_history *history;
    uint64_t *first; /* for each team, the first sequence that all ranks still have */
} fr_writer;

/* ---- Operations that all ranks still have ---- */
/* Finds the first operation of each team that all ranks still have. Analysers pair operations from the first one on.
 * If one rank still had older operations, the others would seem to have skipped them. */
static void find_first(fr_writer *w)
{
    const tess_history *history = w->history;
    for (int r = 0; r < history->world; r++) {
        const tess_rank_history *rank = &history->ranks[r];
        for (size_t t = 0; rank->lost_any && t < history->n_teams; t++) {
            size_t i = 0;
            while (i < rank->n_records &&
                   (rank->records[i].team != history->teams[t].hash || tess_request_is_message(&rank->records[i])))
                i++;
            if (i < rank->n_records && rank->records[i].sequence > w->first[t])
                w->first[t] = rank->records[i].sequence;
        }
    }
}

static bool all_have(const fr_writer *w, const tess_record *record)
{
    size_t t = tess_history_team_index(w->history, record->team);
    return t < w->history->n_teams && (tess_request_is_message(record) || record->sequence >= w->first[t]);
}

/* ---- One entry ---- */
/* Splits "train_step (step.c:41)" into function, file and line. */
static json_t *frames_json(const tess_record *record)
{
    char name[TESS_HISTORY_TEXT], file[TESS_HISTORY_TEXT] = "";
    int line = 0;
    if (record->site[0] == '\0')
        return json_array();
    if (sscanf(record->site, "%63[^(](%63[^:]:%d", name, file, &line) != 3)
        snprintf(name, sizeof(name), "%s", record->site);
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] == ' ')
        name[--n] = '\0';
    return json_pack("[{s:o, s:o, s:i}]", "name", tess_json_text(name), "filename", tess_json_text(file), "line", line);
}

/* Returns the sizes of one side: `n` tensors of `count` elements each. */
static json_t *sizes_json(uint64_t count, int n)
{
    json_t *sizes = json_array();
    json_int_t extent = count > INT64_MAX ? INT64_MAX : (json_int_t)count;
    for (int i = 0; i < n; i++)
        json_array_append_new(sizes, json_pack("[I]", extent));
    return sizes;
}

static json_t *dtypes_json(int dtype, int n)
{
    json_t *dtypes = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(dtypes, json_string(fr_dtype_name(dtype)));
    return dtypes;
}

/* Adds the sizes and dtypes of both sides. Our count is that of one rank; a gathered buffer, or a buffer to be
 * scattered, holds the elements of all ranks. Analysers report a dtype conversion as a mismatch, so both sides get
 * the dtype that is sent. */
static void add_tensors(json_t *entry, const tess_record *record, uint64_t size)
{
    uint64_t in = record->count, out = record->count;
    int n_in = record->op != TESS_TRACE_BARRIER && record->op != TESS_TRACE_RECV;
    int n_out = record->op != TESS_TRACE_BARRIER && record->op != TESS_TRACE_SEND;
    bool all_in = record->op == TESS_TRACE_REDUCE_SCATTER || record->op == TESS_TRACE_ALL_TO_ALL;
    bool all_out = record->op == TESS_TRACE_ALL_GATHER || record->op == TESS_TRACE_ALL_TO_ALL;
    if (all_in && __builtin_mul_overflow(record->count, size, &in))
        in = UINT64_MAX;
    if (all_out && __builtin_mul_overflow(record->count, size, &out))
        out = UINT64_MAX;
    json_object_set_new(entry, "input_sizes", sizes_json(in, n_in));
    json_object_set_new(entry, "input_dtypes", dtypes_json(record->dtype, n_in));
    json_object_set_new(entry, "output_sizes", sizes_json(out, n_out));
    json_object_set_new(entry, "output_dtypes", dtypes_json(record->dtype, n_out));
}

static void format_name(char *text, size_t size, const tess_record *record, int place)
{
    int n = snprintf(text, size, "nccl:%s", fr_op_name(record->op));
    if (record->op == TESS_TRACE_SEND)
        snprintf(text + n, size - (size_t)n, " %d->%d", place, record->root);
    else if (record->op == TESS_TRACE_RECV)
        snprintf(text + n, size - (size_t)n, record->root >= 0 ? " %d<-%d" : " %d<-?", place, record->root);
}

static json_t *time_json(uint64_t ns, int64_t offset_ns)
{
    return ns == 0 ? json_null() : json_integer((json_int_t)(ns + (uint64_t)offset_ns));
}

static const char *state_name(const tess_record *record)
{
    if (record->state == TESS_TRACE_COMPLETED)
        return "completed";
    return record->state == TESS_TRACE_STARTED ? "started" : "scheduled";
}

static json_t *entry_json(const fr_writer *w, int rank, const tess_record *record, size_t id)
{
    size_t t = tess_history_team_index(w->history, record->team);
    const tess_team_history *team = &w->history->teams[t];
    int64_t offset_ns = w->history->ranks[rank].clock_offset_ns;
    bool message = tess_request_is_message(record), done = record->state == TESS_TRACE_COMPLETED;
    char group[24], name[80];
    snprintf(group, sizeof(group), "%zu", t);
    format_name(name, sizeof(name), record, tess_team_place(team, rank));
    json_t *entry = json_pack(
        "{s:o, s:I, s:I, s:[s, o], s:I, s:I, s:I, s:s, s:o, s:s, s:o, s:o, s:b, s:I, s:b, s:o}", "frames",
        frames_json(record), "record_id", (json_int_t)id, "pg_id", (json_int_t)t, "process_group", group,
        tess_json_text(team->name), "collective_seq_id", message ? (json_int_t)0 : (json_int_t)record->sequence,
        "p2p_seq_id", message ? (json_int_t)record->sequence : (json_int_t)0, "op_id", (json_int_t)(id + 1),
        "profiling_name", name, "time_created_ns", time_json(record->enqueued_ns, offset_ns), "state",
        state_name(record), "time_discovered_started_ns", time_json(record->started_ns, offset_ns),
        "time_discovered_completed_ns", time_json(done ? record->completed_ns : 0, offset_ns), "retired", done,
        "timeout_ms", (json_int_t)0, "is_p2p", message, FR_OWN_KEY, fr_own_record_json(record, offset_ns));
    if (entry != NULL)
        add_tensors(entry, record, (uint64_t)team->n_ranks);
    return entry;
}

/* ---- One dump ---- */
static json_t *ranks_text(const tess_team_history *team)
{
    json_t *text = NULL;
    size_t size = (size_t)team->n_ranks * 8 + 3, n = 1;
    char *ranks = malloc(size);
    if (ranks == NULL)
        return NULL;
    ranks[0] = '[';
    for (int i = 0; i < team->n_ranks; i++)
        if (team->ranks[i] >= 0)
            n += (size_t)snprintf(ranks + n, size - n, "%s%d", n > 1 ? ", " : "", team->ranks[i]);
    snprintf(ranks + n, size - n, "]");
    text = json_string(ranks);
    free(ranks);
    return text;
}

static json_t *groups_json(const fr_writer *w, int rank)
{
    json_t *groups = json_object();
    for (size_t t = 0; t < w->history->n_teams; t++) {
        const tess_team_history *team = &w->history->teams[t];
        char group[24];
        snprintf(group, sizeof(group), "%zu", t);
        if (tess_team_place(team, rank) >= 0)
            json_object_set_new(groups, group,
                                json_pack("{s:s, s:o, s:o}", "name", group, "desc", tess_json_text(team->name), "ranks",
                                          ranks_text(team)));
    }
    return groups;
}

/* Returns the last sequence that the rank enqueued, started and completed in each group's collectives; -1: none. */
static json_t *status_json(const fr_writer *w, int rank)
{
    const tess_rank_history *from = &w->history->ranks[rank];
    json_t *groups = json_object();
    for (size_t t = 0; t < w->history->n_teams; t++) {
        json_int_t last[3] = {-1, -1, -1}; /* last enqueued, started and completed sequence */
        char group[24];
        snprintf(group, sizeof(group), "%zu", t);
        if (tess_team_place(&w->history->teams[t], rank) < 0)
            continue;
        for (size_t i = 0; i < from->n_records; i++) {
            const tess_record *record = &from->records[i];
            for (int s = 0; record->team == w->history->teams[t].hash && !tess_request_is_message(record) && s < 3; s++)
                if (record->state >= s && record->state != TESS_TRACE_FAILED && (json_int_t)record->sequence > last[s])
                    last[s] = (json_int_t)record->sequence;
        }
        json_object_set_new(groups, group,
                            json_pack("{s:I, s:I, s:I}", "last_enqueued_collective", last[0], "last_started_collective",
                                      last[1], "last_completed_collective", last[2]));
    }
    return groups;
}

static json_t *dump_json(const fr_writer *w, int rank)
{
    const tess_rank_history *from = &w->history->ranks[rank];
    json_t *entries = json_array();
    for (size_t i = 0; i < from->n_records; i++)
        if (all_have(w, &from->records[i]))
            json_array_append_new(entries, entry_json(w, rank, &from->records[i], json_array_size(entries)));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "version", "2.10", "comm_lib_version", "", "pg_config",
                     groups_json(w, rank), "pg_status", status_json(w, rank), "entries", entries, FR_OWN_KEY,
                     fr_own_rank_json(w->history, rank));
}

static tess_status write_rank(const fr_writer *w, int rank, const char *folder, bool pickle)
{
    char name[64], path[4096];
    snprintf(name, sizeof(name), pickle ? "nccl_trace_rank_%d" : "nccl_trace_rank_%d.json", rank);
    TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
    json_auto_t *dump = dump_json(w, rank);
    TESS_CHECK(dump != NULL, TESS_E_NOMEM, "%s: no memory for its entries", path);
    if (!pickle)
        return tess_json_write(json_incref(dump), JSON_COMPACT, path);
    TESS_AUTO(tess_buffer_free) tess_buffer buffer = {.mem = w->history->mem};
    TESS_TRY(tess_pickle_write(dump, &buffer));
    return tess_os_write_atomic(path, buffer.data, buffer.size);
}

tess_status tess_flight_recorder_write(const tess_history *history, const char *folder, bool pickle)
{
    TESS_AUTO(tess_mem_drop) void *memory = NULL;
    TESS_TRY(tess_os_make_dirs(folder));
    TESS_TRY(tess_mem_alloc_array(history->mem, TESS_POOL_MISC, history->n_teams, sizeof(uint64_t), "flight recorder",
                                  &memory));
    fr_writer w = {.history = history, .first = memory};
    find_first(&w);
    for (int r = 0; r < history->world; r++)
        if (history->ranks[r].present || history->ranks[r].ended)
            TESS_TRY(write_rank(&w, r, folder, pickle));
    return TESS_OK;
}
