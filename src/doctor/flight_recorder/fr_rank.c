/* Reads the dump of one rank: its groups, and its operations as records. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "doctor/flight_recorder/flight_recorder_impl.h"

typedef struct fr_rank_reader {
    tess_mem *mem;
    const char *path;
    dump dump;
    fr_rank *rank;
    uint8_t seen[TESS_HISTORY_MAX_RANKS / 8]; /* ranks of the group being read, one bit each */
} fr_rank_reader;

void fr_rank_note(fr_rank *rank, const char *format, ...)
{
    size_t n = strlen(rank->why);
    if (n > 0)
        n += (size_t)snprintf(rank->why + n, sizeof(rank->why) - n, "; ");
    if (n >= sizeof(rank->why))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rank->why + n, sizeof(rank->why) - n, format, arguments);
    va_end(arguments);
}

/* Makes room for one more element if the array is full. Capacities are powers of two. */
static tess_status grow(tess_mem *mem, void **array, size_t n, size_t element)
{
    if ((n & (n - 1)) != 0)
        return TESS_OK;
    return tess_mem_grow(mem, TESS_POOL_MISC, (n == 0 ? 1 : 2 * n) * element, "flight recorder", array);
}

/* ---- Process groups ---- */
static fr_group *find_group(fr_rank *rank, const char *name)
{
    uint64_t key = tess_hash_text(name);
    for (size_t i = 0; i < rank->n_groups; i++)
        if (rank->groups[i].key == key)
            return &rank->groups[i];
    return NULL;
}

static tess_status add_group(fr_rank_reader *r, const char *name, const char *desc, fr_group **group)
{
    fr_rank *rank = r->rank;
    TESS_CHECK(rank->n_groups < FR_MOST_GROUPS, TESS_E_FORMAT, "%s: more than %d process groups", r->path,
               FR_MOST_GROUPS);
    TESS_TRY(grow(r->mem, (void **)&rank->groups, rank->n_groups, sizeof(*rank->groups)));
    *group = &rank->groups[rank->n_groups++];
    **group = (fr_group){.key = tess_hash_text(name)};
    snprintf((*group)->name, sizeof((*group)->name), "%s", name);
    snprintf((*group)->desc, sizeof((*group)->desc), "%s", desc);
    return TESS_OK;
}

static tess_status add_rank(fr_rank_reader *r, fr_group *group, int64_t rank)
{
    TESS_CHECK(rank >= 0 && rank < TESS_HISTORY_MAX_RANKS, TESS_E_FORMAT,
               "%s: pg_config: group '%s': rank %lld is not 0 to %d", r->path, group->name, (long long)rank,
               TESS_HISTORY_MAX_RANKS - 1);
    TESS_CHECK((r->seen[rank / 8] >> rank % 8 & 1) == 0, TESS_E_FORMAT, "%s: pg_config: group '%s' has rank %lld twice",
               r->path, group->name, (long long)rank);
    r->seen[rank / 8] |= (uint8_t)(1u << rank % 8);
    TESS_TRY(grow(r->mem, (void **)&group->ranks, (size_t)group->n_ranks, sizeof(*group->ranks)));
    group->ranks[group->n_ranks++] = (int)rank;
    return TESS_OK;
}

/* Reads a list of ranks in c10d's form, "[0, 1, 2]". */
static tess_status read_ranks_text(fr_rank_reader *r, fr_group *group, const char *text)
{
    for (const char *at = text + strspn(text, "[( "); *at != '\0' && *at != ']' && *at != ')';) {
        char *end;
        long long rank = strtoll(at, &end, 10);
        TESS_CHECK(end != at, TESS_E_FORMAT, "%s: pg_config: group '%s': ranks are '%.60s'", r->path, group->name,
                   text);
        TESS_TRY(add_rank(r, group, rank));
        at = end + strspn(end, ", ");
    }
    return TESS_OK;
}

static tess_status read_ranks(fr_rank_reader *r, fr_group *group, dump_value ranks)
{
    const char *text = dump_text(ranks);
    memset(r->seen, 0, sizeof(r->seen));
    if (text != NULL)
        return read_ranks_text(r, group, text);
    for (size_t i = 0; i < dump_length(ranks); i++) {
        int64_t rank;
        TESS_CHECK(dump_int(dump_at(&r->dump, ranks, i), &rank), TESS_E_FORMAT,
                   "%s: pg_config: group '%s': a rank is no number", r->path, group->name);
        TESS_TRY(add_rank(r, group, rank));
    }
    return TESS_OK;
}

static uint64_t hash_group(const fr_group *group)
{
    uint64_t hash = tess_hash_bytes(group->name, strlen(group->name), group->key);
    hash = tess_hash_bytes(group->desc, strlen(group->desc), hash);
    return tess_hash_bytes(group->ranks, (uint64_t)group->n_ranks * sizeof(int), hash);
}

/* gloo lists one unnamed group, by index instead of rank. The job has at least as many ranks as the group. */
static tess_status note_world(fr_rank_reader *r, dump_value value)
{
    fr_group places = {.name = "(no name)"};
    tess_status status = read_ranks(r, &places, dump_get(value, "ranks"));
    for (int i = 0; i < places.n_ranks; i++)
        if (places.ranks[i] >= r->rank->least_world)
            r->rank->least_world = places.ranks[i] + 1;
    tess_mem_free(r->mem, places.ranks);
    return status;
}

static tess_status visit_group(void *context, const char *key, dump_value value)
{
    fr_rank_reader *r = context;
    const char *desc = dump_text(dump_get(value, "desc"));
    fr_group *group;
    if (key[0] == '\0')
        return note_world(r, value);
    if (find_group(r->rank, key) != NULL)
        return TESS_OK;
    TESS_TRY(add_group(r, key, desc != NULL ? desc : "", &group));
    TESS_TRY(read_ranks(r, group, dump_get(value, "ranks")));
    group->team = hash_group(group);
    return TESS_OK;
}

static tess_status get_group(fr_rank_reader *r, const fr_entry *entry, fr_group **group)
{
    *group = find_group(r->rank, entry->group);
    if (*group != NULL)
        return TESS_OK;
    TESS_TRY(add_group(r, entry->group, entry->desc, group));
    (*group)->team = hash_group(*group);
    return TESS_OK;
}

/* ---- Entries ---- */
static void end_record(tess_record *record, const tess_record *end)
{
    record->state = end->state;
    record->started_ns = end->started_ns;
    record->completed_ns = end->completed_ns;
}

/* Limit of messages that wait for the entry that ends their group; that entry holds their state and times. */
enum { MOST_MESSAGES = 4096 };

static void end_messages(fr_rank *rank, uint64_t group, const tess_record *end)
{
    for (size_t i = rank->n_records; i-- > 0 && rank->n_records - i <= MOST_MESSAGES;) {
        tess_record *record = &rank->records[i];
        bool is_message = record->op == TESS_TRACE_SEND || record->op == TESS_TRACE_RECV;
        if (record->team != group || !is_message || record->sequence != end->sequence)
            break;
        end_record(record, end);
    }
}

/* An operation has ended if another operation of its group followed it. */
static void settle_newest(fr_rank *rank, fr_group *group)
{
    if (!group->newest_is_out)
        return;
    tess_record *record = &rank->records[group->newest - 1];
    record->state = TESS_TRACE_COMPLETED;
    record->started_ns = record->completed_ns = record->enqueued_ns;
    group->newest_is_out = false;
}

static tess_status add_record(fr_rank_reader *r, fr_group *group, const fr_entry *entry)
{
    fr_rank *rank = r->rank;
    TESS_TRY(grow(r->mem, (void **)&rank->records, rank->n_records, sizeof(*rank->records)));
    tess_record *record = &rank->records[rank->n_records++];
    *record = entry->record;
    record->team = (uint64_t)(group - rank->groups);
    if (entry->is_message)
        return TESS_OK;
    settle_newest(rank, group);
    group->newest = rank->n_records;
    group->newest_is_out =
        entry->retired && record->state == TESS_TRACE_ENQUEUED && strcmp(entry->name.backend, "gloo") == 0;
    return TESS_OK;
}

static tess_status add_entry(fr_rank_reader *r, const fr_entry *entry)
{
    fr_group *group;
    TESS_TRY(get_group(r, entry, &group));
    group->n_members = entry->n_members > group->n_members ? entry->n_members : group->n_members;
    if (entry->is_message) {
        if (!fr_name_ends_group(&entry->name))
            return add_record(r, group, entry);
        end_messages(r->rank, (uint64_t)(group - r->rank->groups), &entry->record);
        return TESS_OK;
    }
    tess_record *newest = group->newest > 0 ? &r->rank->records[group->newest - 1] : NULL;
    if (newest == NULL || newest->sequence != entry->record.sequence)
        return add_record(r, group, entry);
    if (__builtin_add_overflow(newest->count, entry->record.count, &newest->count))
        newest->count = UINT64_MAX;
    end_record(newest, &entry->record);
    return TESS_OK;
}

static tess_status read_entries(fr_rank_reader *r)
{
    dump_value entries = dump_get(r->dump.root, "entries");
    size_t n = dump_length(entries);
    TESS_CHECK(!dump_present(entries) || dump_is_list(entries), TESS_E_FORMAT, "%s: 'entries' is no list", r->path);
    TESS_CHECK(n <= FR_MOST_ENTRIES, TESS_E_FORMAT, "%s: %zu entries; up to %d are read", r->path, n, FR_MOST_ENTRIES);
    for (size_t i = 0; i < n; i++) {
        fr_entry entry;
        TESS_TRY_CTX(fr_entry_read(&r->dump, dump_at(&r->dump, entries, i), &entry), "%s: entries[%zu]", r->path, i);
        r->rank->lost_any |= i == 0 && entry.record_id > 0;
        TESS_TRY(add_entry(r, &entry));
    }
    return TESS_OK;
}

static void read_text(const fr_rank_reader *r, const char *key, char *text, size_t size)
{
    const char *value = dump_text(dump_get(r->dump.root, key));
    if (value != NULL && value[0] != '\0')
        snprintf(text, size, "%s", value);
}

static tess_status read_all(fr_rank_reader *r)
{
    dump_value root = r->dump.root;
    TESS_CHECK(dump_present(dump_get(root, "entries")) || dump_present(dump_get(root, "pg_config")), TESS_E_FORMAT,
               "%s: it has neither 'entries' nor 'pg_config': no dump of a flight recorder", r->path);
    read_text(r, "version", r->rank->version, sizeof(r->rank->version));
    read_text(r, "nccl_version", r->rank->library, sizeof(r->rank->library));
    read_text(r, "comm_lib_version", r->rank->library, sizeof(r->rank->library));
    TESS_TRY(dump_each(dump_get(root, "pg_config"), visit_group, r));
    TESS_TRY(read_entries(r));
    TESS_TRY_CTX(fr_own_read_rank(r->mem, &r->dump, r->rank), "%s", r->path);
    r->rank->is_read = true;
    return TESS_OK;
}

tess_status fr_rank_read(tess_mem *mem, const char *path, fr_rank *rank)
{
    fr_rank_reader r = {.mem = mem, .path = path, .rank = rank};
    TESS_TRY(dump_open(mem, path, &r.dump));
    tess_status status = read_all(&r);
    dump_close(&r.dump);
    if (status != TESS_OK)
        fr_rank_free(mem, rank);
    return status;
}

void fr_rank_free(tess_mem *mem, fr_rank *rank)
{
    for (size_t i = 0; i < rank->n_groups; i++)
        tess_mem_free(mem, rank->groups[i].ranks);
    tess_mem_free(mem, rank->groups);
    tess_mem_free(mem, rank->records);
    tess_mem_free(mem, rank->own.spans);
    rank->own.spans = NULL;
    rank->groups = NULL;
    rank->records = NULL;
    rank->n_groups = rank->n_records = 0;
}
