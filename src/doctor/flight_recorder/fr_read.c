/* Merges the dumps of single ranks into the history of the job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/flight_recorder/flight_recorder_impl.h"
#include "doctor/flight_recorder/flight_recorder.h"

typedef struct dump_job {
    tess_mem *mem;
    const char *folder;
    fr_files files;
    fr_rank *ranks; /* (files.n) contents of each dump */
    int n_read, world;
    tess_history *history;
} dump_job;

static tess_status read_ranks(dump_job *job)
{
    char path[4096], first[512] = "";
    for (size_t i = 0; i < job->files.n; i++) {
        fr_rank *rank = &job->ranks[i];
        rank->rank = job->files.file[i].rank;
        TESS_TRY(tess_os_join(path, sizeof(path), job->folder, job->files.file[i].name));
        tess_status status = fr_rank_read(job->mem, path, rank);
        job->n_read += status == TESS_OK;
        if (status == TESS_OK)
            continue;
        if (status == TESS_E_NOMEM)
            return status;
        fr_rank_note(rank, "its dump cannot be read: %s", tess_error_message());
        if (first[0] == '\0')
            snprintf(first, sizeof(first), "%s", tess_error_message());
        tess_error_clear();
    }
    TESS_CHECK(job->n_read > 0, TESS_E_FORMAT, "%s: of %zu dumps none can be read: %s", job->folder, job->files.n,
               first);
    return TESS_OK;
}

/* ---- Teams ---- */
static bool has_rank(const fr_group *group, int rank)
{
    for (int i = 0; i < group->n_ranks; i++)
        if (group->ranks[i] == rank)
            return true;
    return false;
}

/* Finds another rank's view of the same group that lists `rank` as a member. Returns NULL if no rank has one. */
static const fr_group *find_elsewhere(const dump_job *job, const fr_group *group, int rank)
{
    for (size_t i = 0; i < job->files.n; i++) {
        for (size_t g = 0; g < job->ranks[i].n_groups; g++) {
            const fr_group *other = &job->ranks[i].groups[g];
            if (other->ranks != NULL && other->key == group->key && has_rank(other, rank))
                return other;
        }
    }
    return NULL;
}

static void find_teams(dump_job *job)
{
    for (size_t i = 0; i < job->files.n; i++) {
        for (size_t g = 0; g < job->ranks[i].n_groups; g++) {
            fr_group *group = &job->ranks[i].groups[g];
            const fr_group *other = group->ranks == NULL ? find_elsewhere(job, group, job->ranks[i].rank) : NULL;
            if (other != NULL)
                group->team = other->team;
        }
    }
}

static const char *team_name(const fr_group *group)
{
    return group->desc[0] != '\0' && strcmp(group->desc, "undefined") != 0 ? group->desc : group->name;
}

/* n_members also counts members whose rank is unknown. */
static tess_status add_team(dump_job *job, const fr_group *group, const int *ranks, int n_ranks, int n_members)
{
    for (int i = 0; i < n_ranks; i++)
        TESS_TRY(tess_history_add_member(job->history, group->team, team_name(group), n_members, i, ranks[i]));
    return TESS_OK;
}

/* Returns the rank's group for that team, or NULL if the rank took no part. */
static const fr_group *group_of(const fr_rank *rank, uint64_t team)
{
    for (size_t g = 0; g < rank->n_groups; g++)
        if (rank->groups[g].team == team)
            return &rank->groups[g];
    return NULL;
}

/* Whether the rank may still wait in its newest operation of the group. It may if the operation is open, or if gloo
 * retired the operation and the rank did nothing after it. */
static bool may_wait(const fr_rank *rank, const fr_group *group)
{
    if (group == NULL || group->newest == 0 || rank->records[group->newest - 1].state == TESS_TRACE_COMPLETED)
        return false;
    return !group->newest_is_out || group->newest == rank->n_records;
}

/* Whether the rank's newest operation in the group is certainly open. */
static bool is_open(const fr_rank *rank, const fr_group *group)
{
    return may_wait(rank, group) && !group->newest_is_out;
}

static bool is_default(const fr_group *group)
{
    return strcmp(group->desc, "default_pg") == 0;
}

/* Guesses the members of a group that no dump lists. The default group has all ranks; any other group has the ranks
 * that took part. Ranks without a dump are added if sizes show more members than took part. They are also added if
 * sizes show nothing and a rank may still wait, because it may wait for them. If every rank has a dump and a rank is
 * in an open operation, one more member, of unknown rank, is counted: the rank waits for a member that never took
 * part. */
static tess_status add_guessed_team(dump_job *job, const fr_group *group)
{
    TESS_AUTO(tess_mem_drop) void *memory = NULL;
    TESS_TRY(
        tess_mem_alloc_array(job->mem, TESS_POOL_MISC, (size_t)job->world, sizeof(int), "flight recorder", &memory));
    int *members = memory, n = 0, n_seen = 0, n_said = 0;
    bool any_waits = false, any_is_open = false, any_lacks_dump = false;
    for (size_t i = 0; i < job->files.n; i++) {
        const fr_group *own = group_of(&job->ranks[i], group->team);
        n_seen += own != NULL;
        n_said = own != NULL && own->n_members > n_said ? own->n_members : n_said;
        any_waits |= may_wait(&job->ranks[i], own);
        any_is_open |= is_open(&job->ranks[i], own);
    }
    bool lacks = n_said > 0 ? n_seen < n_said : any_waits;
    for (size_t r = 0, i = 0; r < (size_t)job->world; r++) { /* ranks and files are both in ascending order */
        const fr_rank *rank = i < job->files.n && job->ranks[i].rank == (int)r ? &job->ranks[i++] : NULL;
        bool has_dump = rank != NULL && rank->is_read;
        any_lacks_dump |= !has_dump;
        if (is_default(group) || (has_dump ? group_of(rank, group->team) != NULL : lacks))
            members[n++] = (int)r;
    }
    bool lacks_unknown = any_is_open && !any_lacks_dump && n < job->world;
    int n_members = n_said > n ? n_said : n + lacks_unknown;
    n_members = n_members < job->world ? n_members : job->world;
    return add_team(job, group, members, n, n_members);
}

static tess_status add_teams(dump_job *job)
{
    for (int known = 1; known >= 0; known--) {
        for (size_t i = 0; i < job->files.n; i++) {
            for (size_t g = 0; g < job->ranks[i].n_groups; g++) {
                const fr_group *group = &job->ranks[i].groups[g];
                if ((group->n_ranks > 0) != known || tess_history_team(job->history, group->team) != NULL)
                    continue;
                TESS_TRY(known ? add_team(job, group, group->ranks, group->n_ranks, group->n_ranks)
                               : add_guessed_team(job, group));
            }
        }
    }
    return TESS_OK;
}

/* ---- Unusual dumps ---- */
/* Returns the text at `offset` of fr_rank that most ranks have; "" if no rank has one. */
static const char *most_common(const dump_job *job, size_t offset)
{
    const char *best = "";
    size_t most = 0;
    for (size_t i = 0; i < job->files.n; i++) {
        const char *text = (const char *)&job->ranks[i] + offset;
        size_t n = 0;
        for (size_t k = 0; k < job->files.n && text[0] != '\0' && strcmp(text, best) != 0; k++)
            n += strcmp((const char *)&job->ranks[k] + offset, text) == 0;
        if (n > most) {
            most = n;
            best = text;
        }
    }
    return best;
}

static void note_versions(dump_job *job)
{
    const char *version = most_common(job, offsetof(fr_rank, version));
    const char *library = most_common(job, offsetof(fr_rank, library));
    for (size_t i = 0; i < job->files.n; i++) {
        fr_rank *rank = &job->ranks[i];
        if (rank->is_read && strcmp(rank->version, version) != 0)
            fr_rank_note(rank, "its dump has version %s, others %s", rank->version[0] ? rank->version : "none",
                         version);
        if (rank->library[0] != '\0' && strcmp(rank->library, library) != 0)
            fr_rank_note(rank, "its communication library is %s, others have %s", rank->library, library);
    }
}

/* Formats "[0, 1, 2]"; a long list is cut after its first ranks. */
static const char *format_ranks(const fr_group *group, char *text, size_t size)
{
    enum { MOST = 8 };
    size_t n = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < group->n_ranks && i < MOST; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%d", i > 0 ? ", " : "", group->ranks[i]);
    snprintf(text + n, size - n, group->n_ranks > MOST ? ", ...]" : "]");
    return text;
}

/* Adds a note to `rank` if another rank has a group of the same name with different members. One of the two groups
 * must hold both ranks. */
static void note_members(dump_job *job, fr_rank *rank, const fr_group *group)
{
    for (size_t i = 0; i < job->files.n && job->ranks[i].rank < rank->rank; i++) {
        const fr_rank *other = &job->ranks[i];
        for (size_t g = 0; g < other->n_groups; g++) {
            const fr_group *there = &other->groups[g];
            char mine[80], theirs[80];
            if (there->key != group->key || there->ranks == NULL || there->team == group->team ||
                !(has_rank(there, rank->rank) || has_rank(group, other->rank)))
                continue;
            fr_rank_note(rank, "its group '%.20s' has ranks %s, rank %d's has %s", team_name(group),
                         format_ranks(group, mine, sizeof(mine)), other->rank,
                         format_ranks(there, theirs, sizeof(theirs)));
            return;
        }
    }
}

static void note_oddities(dump_job *job)
{
    note_versions(job);
    for (size_t i = 0; i < job->files.n; i++)
        for (size_t g = 0; g < job->ranks[i].n_groups; g++)
            if (job->ranks[i].groups[g].ranks != NULL)
                note_members(job, &job->ranks[i], &job->ranks[i].groups[g]);
}

/* ---- The history ---- */
/* Returns 1 + the sequence of the rank's newest operation in the team; 0: none. */
static uint64_t newest_of(const dump_job *job, int rank, uint64_t team)
{
    for (size_t i = 0; i < job->files.n; i++) {
        const fr_group *group = job->ranks[i].rank == rank ? group_of(&job->ranks[i], team) : NULL;
        if (group != NULL && group->newest > 0)
            return 1 + job->ranks[i].records[group->newest - 1].sequence;
    }
    return 0;
}

/* Whether the operation has ended: all members called it. A barrier, all_reduce, all_gather or reduce_scatter ends
 * on no rank before all have called it. So it has also ended if one member went on to the next operation. */
static bool has_ended(const dump_job *job, uint64_t team, const tess_record *record)
{
    const tess_team_history *members = tess_history_team(job->history, team);
    bool needs_all = record->op == TESS_TRACE_BARRIER || record->op == TESS_TRACE_ALL_REDUCE ||
                     record->op == TESS_TRACE_ALL_GATHER || record->op == TESS_TRACE_REDUCE_SCATTER;
    bool all_came = members != NULL, one_went_on = false;
    for (int i = 0; members != NULL && i < members->n_ranks; i++) {
        uint64_t newest = newest_of(job, members->ranks[i], team);
        all_came = all_came && newest > record->sequence;
        one_went_on = one_went_on || newest > record->sequence + 1;
    }
    return all_came || (needs_all && one_went_on);
}

/* Completes retired operations that have ended. gloo retires a failed operation like a successful one, and records
 * no end. */
static void settle_newest(dump_job *job)
{
    for (size_t i = 0; i < job->files.n; i++) {
        for (size_t g = 0; g < job->ranks[i].n_groups; g++) {
            const fr_group *group = &job->ranks[i].groups[g];
            tess_record *record = group->newest_is_out ? &job->ranks[i].records[group->newest - 1] : NULL;
            if (record == NULL || !has_ended(job, group->team, record))
                continue;
            record->state = TESS_TRACE_COMPLETED;
            record->started_ns = record->completed_ns = record->enqueued_ns;
        }
    }
}

static int by_time(const void *a, const void *b)
{
    const tess_record *x = a, *y = b;
    return (x->enqueued_ns > y->enqueued_ns) - (x->enqueued_ns < y->enqueued_ns);
}

static void fill_rank(tess_rank_history *to, fr_rank *from)
{
    bool sorted = true;
    for (size_t i = 0; i < from->n_records; i++) {
        tess_record *record = &from->records[i];
        uint64_t times[] = {record->enqueued_ns, record->started_ns, record->completed_ns};
        record->team = from->groups[record->team].team;
        for (int k = 0; k < 3; k++)
            to->last_ns = times[k] > to->last_ns ? times[k] : to->last_ns;
        sorted &= i == 0 || record[-1].enqueued_ns <= record->enqueued_ns;
    }
    if (!sorted)
        qsort(from->records, from->n_records, sizeof(*from->records), by_time);
    to->present = from->is_read;
    to->situation = from->is_read ? TESS_RANK_WELL : TESS_RANK_UNKNOWN;
    to->lost_any = from->lost_any;
    to->records = from->records;
    to->n_records = from->n_records;
    snprintf(to->why, sizeof(to->why), "%s", from->why);
    fr_own_fill(to, from);
    from->records = NULL;
    from->n_records = 0;
}

/* If Tessera wrote all dumps, takes from them where their history came from and when it was taken. */
static void take_source(dump_job *job)
{
    tess_history *history = job->history;
    for (size_t i = 0; i < job->files.n; i++)
        if (job->ranks[i].is_read && !job->ranks[i].has_own)
            return;
    for (size_t i = 0; i < job->files.n; i++) {
        const fr_rank *rank = &job->ranks[i];
        history->source = rank->is_read ? rank->own_source : history->source;
        history->now_ns = rank->own_now_ns > history->now_ns ? rank->own_now_ns : history->now_ns;
    }
}

static tess_status fill_history(dump_job *job)
{
    tess_history *history = job->history;
    find_teams(job);
    TESS_TRY(add_teams(job));
    note_oddities(job);
    settle_newest(job);
    for (int r = 0; r < job->world; r++) {
        history->ranks[r].situation = TESS_RANK_UNKNOWN;
        snprintf(history->ranks[r].why, sizeof(history->ranks[r].why), "there is no dump of it in %s", job->folder);
    }
    for (size_t i = 0; i < job->files.n; i++) {
        tess_rank_history *rank = &history->ranks[job->ranks[i].rank];
        fill_rank(rank, &job->ranks[i]);
        history->now_ns = rank->last_ns > history->now_ns ? rank->last_ns : history->now_ns;
    }
    take_source(job);
    snprintf(history->folder, sizeof(history->folder), "%s", job->folder);
    return TESS_OK;
}

/* Fails if the dumps do not show which rank waits, because the recorder was off. A dump that Tessera wrote is
 * accepted without operations: it may still say how its job ended. */
static tess_status refuse_empty(const dump_job *job)
{
    for (size_t i = 0; i < job->files.n; i++)
        if (job->ranks[i].n_records > 0 || job->ranks[i].has_own)
            return TESS_OK;
    return TESS_FAIL(TESS_E_FORMAT,
                     "%s: no dump there holds an operation: TORCH_FR_BUFFER_SIZE=2000 turns the recorder on",
                     job->folder);
}

static tess_status read_job(dump_job *job)
{
    void *memory;
    TESS_TRY(fr_files_list(job->mem, job->folder, &job->files));
    TESS_CHECK(job->files.n > 0, TESS_E_NOT_FOUND,
               "%s: no file there is named like a flight recorder dump (nccl_trace_rank_0, rank_0.json)", job->folder);
    TESS_TRY(tess_mem_alloc_array(job->mem, TESS_POOL_MISC, job->files.n, sizeof(fr_rank), "flight recorder", &memory));
    job->ranks = memory;
    TESS_TRY(read_ranks(job));
    TESS_TRY(refuse_empty(job));
    for (size_t i = 0; i < job->files.n; i++) {
        const fr_rank *rank = &job->ranks[i];
        job->world = rank->rank >= job->world ? rank->rank + 1 : job->world;
        job->world = rank->least_world > job->world ? rank->least_world : job->world;
        for (size_t g = 0; g < rank->n_groups; g++) {
            const fr_group *group = &rank->groups[g];
            for (int k = 0; k < group->n_ranks; k++)
                if (group->ranks[k] >= job->world)
                    job->world = group->ranks[k] + 1;
            if (group->ranks == NULL && is_default(group) && group->n_members > job->world)
                job->world = group->n_members;
        }
    }
    TESS_TRY(tess_history_create(job->mem, TESS_HISTORY_PYTORCH, job->world, &job->history));
    return fill_history(job);
}

tess_status tess_flight_recorder_read(tess_mem *mem, const char *folder, tess_history **history)
{
    dump_job job = {.mem = mem, .folder = folder};
    tess_status status = read_job(&job);
    for (size_t i = 0; job.ranks != NULL && i < job.files.n; i++)
        fr_rank_free(mem, &job.ranks[i]);
    tess_mem_free(mem, job.ranks);
    fr_files_free(&job.files);
    if (status != TESS_OK)
        tess_history_destroy(&job.history);
    *history = job.history;
    return status;
}
