#include "comm/comm_impl.h"

#include <sched.h>

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
    int rank = tess_team_global_rank(team, team_rank);
    return rank < 0 ? -1 : team->runtime->job.rows[rank].host;
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
    tess_runtime_lock(rt);
    for (tess_team *other = rt->teams; other != NULL && found == NULL; other = other->next)
        if (other != team && other->size == team->size && other->broken == TESS_OK)
            found = other;
    tess_runtime_unlock(rt);
    return found;
}
