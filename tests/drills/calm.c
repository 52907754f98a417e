/* A healthy job: many small collectives, and ranks that are sometimes late, but not too late. The launcher must report
 * nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "drills/drill.h"
#include "drills/spawn.h"
#include "tessera/comm.h"

enum { RANKS = 4, STEP = 1000 };

static const double longest_stall_s = 0.6; /* a rank that keeps others waiting for 0.75 s is reported */

/* ---- A rank ---- */
static tess_status sum_calmly(tess_team *team, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t x[4] = {1, 1, 1, (int32_t)i};
        if (i % STEP == 0)
            tess_runtime_phase(tess_team_runtime(team), "step", i / STEP, -1);
        TESS_TRY(tess_all_reduce(team, x, x, 4, TESS_I32, TESS_SUM, NULL));
        TESS_CHECK(x[0] == tess_team_size(team), TESS_E_INTERNAL, "a sum is wrong");
    }
    return TESS_OK;
}

/* One random rank sleeps for a random time in each round. */
static tess_status stall(tess_team *team, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t draw = tess_rng_u64(7, TESS_RNG_FAULT, 200, (uint64_t)i);
        tess_runtime_phase(tess_team_runtime(team), draw % 2 == 0 ? "data" : "forward", i, -1);
        if ((int)((draw >> 32) % (uint64_t)tess_team_size(team)) == tess_team_rank(team))
            usleep((useconds_t)(longest_stall_s * 1e6 * (double)tess_rng_uniform(7, TESS_RNG_FAULT, 201, (uint64_t)i)));
        TESS_TRY(sum_calmly(team, 10));
    }
    return TESS_OK;
}

int drill_calm_rank(const char *what)
{
    tess_runtime *runtime;
    char *end;
    int64_t n_sums = strtoll(what, &end, 10), n_stalls = *end == ',' ? strtoll(end + 1, NULL, 10) : 0;
    if (tess_runtime_create(NULL, &runtime) != TESS_OK)
        return 1;
    tess_status status = sum_calmly(tess_runtime_team(runtime), n_sums);
    if (status == TESS_OK)
        status = stall(tess_runtime_team(runtime), n_stalls);
    tess_runtime_destroy(&runtime);
    return status == TESS_OK ? 0 : 1;
}

/* ---- The launcher's output ---- */
/* Such a line is true, and no false alarm, on a machine that stands still for a second. */
static bool tells_of_lateness(const char *line)
{
    static const char *const words[] = {" kept ", " has come after ", "'s stack: "};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(line, words[i]) != NULL)
            return true;
    return false;
}

/* Reads the launcher's output to its end and counts the alarms. */
static int count_alarms(const drill_child *child, bool untimed)
{
    char line[1024];
    int n = 0;
    FILE *said = fdopen(child->output, "r");
    while (said != NULL && fgets(line, sizeof(line), said) != NULL) {
        bool alarm = !untimed || !tells_of_lateness(line);
        printf("  %s: %s", alarm ? "it said" : "late", line);
        n += alarm;
    }
    if (said != NULL)
        fclose(said);
    return n;
}

int drill_calm(const char *tessera, int64_t n_sums, int64_t n_stalls, bool untimed)
{
    char folder[] = "/tmp/tess_drill_XXXXXX", what[64];
    drill_child child;
    int state;
    double begin_s = tess_os_now_s();
    snprintf(what, sizeof(what), "%lld,%lld", (long long)n_sums, (long long)n_stalls);
    if (mkdtemp(folder) == NULL || !drill_spawn_ranks(tessera, RANKS, folder, NULL, "--calm-rank", what, &child))
        return 2;
    int n_alarms = count_alarms(&child, untimed);
    waitpid(child.launcher, &state, 0);
    tess_os_remove_tree(folder);
    bool ended = WIFEXITED(state) && WEXITSTATUS(state) == 0;
    printf("%lld collectives and %lld stalls of up to %g s in %.1f s: %d alarms%s\n", (long long)n_sums,
           (long long)n_stalls, longest_stall_s, tess_os_now_s() - begin_s, n_alarms, ended ? "" : ", and it failed");
    return n_alarms > 0 || !ended;
}
