/* Creates teams, splits them, and destroys them. */
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/mem/scoped.h"
#include "comm/p2p/channel.h"
#include "comm/split.h"
#include "comm/ways.h"

/* The backend of a dry rank's teams. No operation reaches it (comm/dry/dry_runtime.h). */
static const comm_backend dry_backend = {.name = "dry"};

static void find_siblings(tess_team *team)
{
    int host = tess_team_host(team, team->rank);
    team->local_first = -1;
    for (int r = 0; r < team->size; r++) {
        if (tess_team_host(team, r) != host)
            continue;
        if (team->local_first < 0)
            team->local_first = r;
        if (r == team->rank)
            team->local_index = team->n_local;
        team->n_local++;
    }
}

/* Returns the size of a host's shared memory for a team. */
static uint64_t shared_bytes(int size, int n_local)
{
    const comm_backend *backend = tess_way_of_team(size, n_local)->backend;
    return tess_control_bytes(size) + (backend->shared_bytes != NULL ? backend->shared_bytes(n_local) : 0);
}

tess_status tess_team_reserve_world(tess_runtime *rt)
{
    int n_local = 0;
    if (rt->rank != tess_job_first_rank(&rt->job))
        return TESS_OK;
    for (int r = 0; r < rt->world; r++)
        n_local += rt->job.rows[r].host == rt->row->host;
    uint64_t bytes = shared_bytes(rt->world, n_local), offset;
    TESS_TRY(tess_job_alloc(&rt->job, rt->rank, bytes, JOB_PAGE, &offset));
    ((tess_control *)(void *)(rt->job.base + offset))->bytes = bytes;
    rt->job.header->world_team = offset;
    return TESS_OK;
}

static void remove_team(tess_team *team)
{
    tess_runtime *rt = team->runtime;
    tess_list_lock(&rt->teams_lock);
    tess_team **at = &rt->teams;
    while (*at != NULL && *at != team)
        at = &(*at)->next;
    if (*at != NULL)
        *at = team->next;
    tess_list_unlock(&rt->teams_lock);
}

/* The arrays with the widest elements come first, so that all are aligned. */
static tess_status make_lists(tess_runtime *rt, tess_team *team)
{
    const size_t n = (size_t)team->size, words = tess_bits_words(rt->world);
    comm_lists *l = &team->lists;
    void *memory;
    TESS_TRY(tess_mem_alloc(rt->mem, TESS_POOL_MISC,
                            words * sizeof(uint64_t) + n * (3 * sizeof(void *) + sizeof(tess_partial) +
                                                            COMM_EXCHANGE_BYTES + 2 * sizeof(int) + sizeof(bool)),
                            "lists of a team", &memory));
    l->rows = memory;
    l->moved = l->rows + n;
    l->results = (void **)(void *)(l->moved + n);
    l->partials = (tess_partial *)(void *)(l->results + n);
    l->set = (uint64_t *)(void *)(l->partials + n);
    l->exchanged = (uint8_t *)(l->set + words);
    l->awaited = (int *)(void *)(l->exchanged + n * COMM_EXCHANGE_BYTES);
    l->listed = l->awaited + n;
    l->named = (bool *)(l->listed + n);
    return TESS_OK;
}

tess_status tess_team_attach(tess_runtime *rt, const char *name, int *ranks, int size, int rank, uint64_t hash,
                             uint64_t control_offset, tess_team **out)
{
    tess_team *team;
    TESS_TRY(TESS_NEW(rt->mem, 1, "team", &team));
    team->runtime = rt;
    snprintf(team->name, sizeof(team->name), "%s", name);
    team->rank = rank;
    team->size = size;
    team->ranks = ranks;
    team->hash = hash;
    team->control_offset = control_offset;
    team->control = rt->dry != NULL ? &rt->dry->control : (tess_control *)(rt->job.base + control_offset);
    team->timeout_s = rt->timeout_s;
    atomic_flag_clear(&team->lock);
    tess_status status = make_lists(rt, team);
    find_siblings(team);
    team->backend = rt->dry != NULL ? &dry_backend : tess_way_of_team(size, team->n_local)->backend;
    if (team->backend->attach != NULL && status == TESS_OK) {
        uint64_t offset = control_offset + tess_control_bytes(size);
        status = team->backend->attach(team, rt->job.base + offset);
        if (status != TESS_OK)
            team->backend->detach(team);
    }
    if (status != TESS_OK) {
        tess_mem_free(rt->mem, team->lists.rows);
        tess_mem_free(rt->mem, team);
        return tess_fail_context(status, "team '%s'", name);
    }
    tess_trace_add_team(rt->ring, hash, name, size, rank);
    team->traffic = tess_traffic_row_of(rt->row->traffic, team->name);
    tess_list_lock(&rt->teams_lock);
    team->next = rt->teams;
    rt->teams = team;
    tess_list_unlock(&rt->teams_lock);
    *out = team;
    return TESS_OK;
}

/* ---- Splitting ---- */
_Static_assert(sizeof(tess_split_place) <= COMM_EXCHANGE_BYTES, "ranks exchange them");

/* The new team that this rank becomes a member of. */
typedef struct split {
    const char *name;
    const void *call_site;
    int *members;       /* parent's rank of each new member, in the new order */
    int size;           /* 0: this rank is in no new team */
    int first, n_local; /* first new member on this host (-1: none), and their number */
} split;

/* Orders members by key, then by parent rank. */
static void pick_members(const tess_team *parent, const tess_split_place *rows, int color, split *s)
{
    s->first = -1;
    for (int r = 0; r < parent->size; r++) {
        if (color < 0 || rows[r].color != color)
            continue;
        int at = s->size++;
        while (at > 0 && rows[s->members[at - 1]].key > rows[r].key) {
            s->members[at] = s->members[at - 1];
            at--;
        }
        s->members[at] = r;
    }
    for (int i = 0; i < s->size; i++)
        if (tess_team_host(parent, s->members[i]) == tess_team_host(parent, parent->rank) && s->n_local++ == 0)
            s->first = s->members[i];
}

/* Creates the control area on a host. The first member on that host does so. */
static tess_status make_area(tess_team *parent, const split *s, uint64_t *offset)
{
    const comm_wanted wanted = {.kind = TESS_TRACE_TEAM_SPLIT,
                                .count = 1,
                                .tag = tess_hash_text(s->name),
                                .call_site = s->call_site,
                                .maker = s->first,
                                .bytes = shared_bytes(s->size, s->n_local),
                                .align = JOB_PAGE};
    TESS_TRY(tess_memory_agree(parent, &wanted, offset));
    if (s->first == parent->rank)
        ((tess_control *)(parent->runtime->job.base + *offset))->bytes = wanted.bytes;
    return TESS_OK;
}

static tess_status attach(tess_team *parent, const split *s, uint64_t hash, uint64_t offset, tess_team **out)
{
    tess_runtime *rt = parent->runtime;
    int *ranks;
    int rank = 0;
    TESS_TRY(TESS_NEW(rt->mem, s->size, "ranks of a team", &ranks));
    for (int i = 0; i < s->size; i++) {
        ranks[i] = parent->ranks[s->members[i]];
        if (s->members[i] == parent->rank)
            rank = i;
    }
    tess_status status = tess_team_attach(rt, s->name, ranks, s->size, rank, hash, offset, out);
    if (status != TESS_OK)
        tess_mem_free(rt->mem, ranks);
    return status;
}

/* Finds the places of all ranks. `by` and `context` compute them; `by` NULL: the ranks exchange them. */
static tess_status find_places(tess_team *parent, const split *s, tess_split_place mine, tess_split_fn by,
                               const void *context, tess_split_place *rows)
{
    if (parent->runtime->dry == NULL)
        return tess_team_exchange(parent, TESS_TRACE_TEAM_SPLIT, 0, tess_hash_text(s->name), s->call_site, &mine, rows,
                                  sizeof(mine));
    TESS_CHECK(by != NULL, TESS_E_UNSUPPORTED, "a dry rank does not know the colors of other ranks");
    for (int r = 0; r < parent->size; r++)
        rows[r] = by(context, r);
    return TESS_OK;
}

static tess_status split_team(tess_team *parent, split *s, tess_split_place mine, tess_split_fn by, const void *context,
                              tess_team **out)
{
    tess_split_place *rows = (tess_split_place *)(void *)parent->lists.exchanged;
    uint64_t offset = 0;
    s->members = parent->lists.listed;
    TESS_TRY_CTX(find_places(parent, s, mine, by, context, rows), "split team '%s' into '%s'", parent->name, s->name);
    pick_members(parent, rows, mine.color, s);
    if (parent->runtime->dry == NULL)
        TESS_TRY_CTX(make_area(parent, s, &offset), "split team '%s' into '%s'", parent->name, s->name);
    const uint64_t words[3] = {parent->hash, parent->n_splits++, (uint64_t)mine.color};
    uint64_t hash = tess_hash_bytes(words, sizeof(words), tess_hash_text(s->name));
    return s->size > 0 ? attach(parent, s, hash, offset, out) : TESS_OK;
}

tess_status tess_team_split(tess_team *parent, int color, int key, const char *name, tess_team **out)
{
    TESS_CHECK(parent != NULL && out != NULL && name != NULL, TESS_E_INVALID, "tess_team_split: a NULL argument");
    *out = NULL;
    split s = {.name = name, .call_site = __builtin_return_address(0)};
    return split_team(parent, &s, (tess_split_place){color, key}, NULL, NULL, out);
}

tess_status tess_team_split_by(tess_team *parent, tess_split_fn place, const void *context, const char *name,
                               tess_team **out)
{
    *out = NULL;
    split s = {.name = name, .call_site = __builtin_return_address(0)};
    return split_team(parent, &s, place(context, parent->rank), place, context, out);
}

void tess_team_destroy(tess_team **handle)
{
    if (handle == NULL || *handle == NULL)
        return;
    tess_team *team = *handle;
    tess_runtime *rt = team->runtime;
    *handle = NULL;
    remove_team(team);
    tess_ondevice_end(team);
    if (team->backend->detach != NULL)
        team->backend->detach(team);

    /* The last rank frees the area. The area of a broken team stays, because a peer may still read it. */
    bool last = rt->dry == NULL && atomic_fetch_add(&team->control->n_left, 1) + 1 == (uint32_t)team->n_local;
    if (last && team->broken == TESS_OK) {
        tess_message_free_channels(team);
        if (team->control_offset != rt->job.header->world_team)
            tess_job_free(&rt->job, rt->rank, team->control_offset, team->control->bytes);
    }
    while (team->spare != NULL) {
        tess_work *work = team->spare;
        team->spare = work->next;
        tess_mem_free(rt->mem, work);
    }
    tess_mem_free(rt->mem, team->ranks);
    tess_mem_free(rt->mem, team->lists.rows);
    tess_mem_free(rt->mem, team);
}
