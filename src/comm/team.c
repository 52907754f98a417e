/* Teams: locks, names and members, and numbers for the places in programs that call them. */
#include "comm/comm_impl.h"

#include <limits.h>
#include <sched.h>
#include <unistd.h>

#include "base/os/objects.h"
#include "base/os/os.h"
#include "trace/call_site.h"
#include "trace/label.h"

bool tess_team_try_lock(tess_team *team)
{
    return !atomic_flag_test_and_set_explicit(&team->lock, memory_order_acquire);
}

void tess_team_lock(tess_team *team)
{
    while (!tess_team_try_lock(team))
        sched_yield();
}

void tess_team_unlock(tess_team *team)
{
    atomic_flag_clear_explicit(&team->lock, memory_order_release);
}

int tess_team_rank(const tess_team *team)
{
    return team->rank;
}

int tess_team_size(const tess_team *team)
{
    return team->size;
}

int tess_team_global_rank(const tess_team *team, int team_rank)
{
    return team_rank >= 0 && team_rank < team->size ? team->ranks[team_rank] : -1;
}

int tess_team_host(const tess_team *team, int team_rank)
{
    const tess_runtime *rt = team->runtime;
    int rank = tess_team_global_rank(team, team_rank);
    return rank < 0 ? -1 : rt->job.rows[rank].host;
}

bool tess_team_is_local(const tess_team *team)
{
    return team->n_local == team->size;
}

const char *tess_team_name(const tess_team *team)
{
    return team->name;
}

uint64_t tess_team_hash(const tess_team *team)
{
    return team->hash;
}

tess_runtime *tess_team_runtime(const tess_team *team)
{
    return team->runtime;
}

void tess_team_set_timeout(tess_team *team, double seconds)
{
    team->timeout_s = seconds > 0 ? seconds : team->runtime->timeout_s;
}

void tess_team_label(tess_team *team, const char *word, int64_t number)
{
    team->label = tess_label(word, number);
}

tess_team *tess_team_find_alike(const tess_team *team)
{
    tess_runtime *rt = team->runtime;
    tess_team *found = NULL;
    tess_list_lock(&rt->teams_lock);
    for (tess_team *other = rt->teams; other != NULL && found == NULL; other = other->next)
        if (other != team && other->size == team->size && other->broken == TESS_OK)
            found = other;
    tess_list_unlock(&rt->teams_lock);
    return found;
}

/* ---- Call sites, as numbers that mean the same on every rank ----
 * A team looks each up once; later calls take no lock and no system call. An address keeps its number even if another
 * shared object is loaded there later. */
/* Resolves an absolute path in the form that messages use: links are not followed. */
static const char *whole_path(const char *path, char *text, size_t size)
{
    char folder[PATH_MAX];
    bool is_whole = path[0] == '/' || getcwd(folder, sizeof(folder)) == NULL;
    return is_whole || tess_os_join(text, size, folder, path) != TESS_OK ? path : text;
}

/* Records a shared object that contains call sites. The ring of the job's memory also gets it, because the launcher
 * reads its header. */
static void add_object(tess_runtime *rt, const tess_object *object)
{
    char path[PATH_MAX];
    const char *whole = whole_path(object->path, path, sizeof(path));
    tess_list_lock(&rt->list_lock);
    tess_trace_objects_add(&tess_job_ring(&rt->job, rt->rank)->objects, object->id, whole);
    if (rt->ring_is_file)
        tess_trace_objects_add(&rt->ring->objects, object->id, whole);
    tess_list_unlock(&rt->list_lock);
}

static uint64_t find_site(tess_runtime *rt, const void *address)
{
    tess_object object;
    if (!tess_object_find(address, &object))
        return tess_call_site_at_address((uintptr_t)address);
    add_object(rt, &object);
    return tess_call_site_in_object(object.id, (uintptr_t)address - object.begin);
}

uint64_t tess_team_call_site(tess_team *team, const void *address)
{
    const tess_runtime *rt = team->runtime;
    uintptr_t at = (uintptr_t)address;
    if (at >= rt->program_begin && at < rt->program_end)
        return at - rt->program_begin;
    comm_site *known = &team->sites[(at ^ at >> 7) % COMM_SITES];
    if (known->address != address)
        *known = (comm_site){.address = address, .number = find_site(team->runtime, address)};
    return known->number;
}
