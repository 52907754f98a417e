/* The driver of the drills.
 *
 *     tess_drill [--group G] [--only TEXT] [--rounds N] [--seed S] [--ranks 2,4,8] [--untimed] [--show] TESSERA
 *     tess_drill --kills N [--seed S] TESSERA
 *     tess_drill --calm COLLECTIVES --stalls N [--untimed] TESSERA
 *
 * Runs each drill with each number of ranks for N rounds, on a random rank in a random step. A table shows how often
 * the launcher was right and how fast. The exit code is 0 when its reports are right as often as required, in time, and
 * without noise. --untimed ignores time and noise, for a machine that others use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "drills/drill.h"

enum { MOST_RUNS = 100000, FIRST_STEP = 2, N_STEPS = 8, MOST_NOISE = 2 };

typedef struct request {
    const char *tessera, *group, *only;
    int rounds, n_worlds, worlds[8];
    int kills;
    int64_t collectives, stalls;
    uint64_t seed;
    bool untimed, show;
} request;

/* Counts over runs. */
typedef struct tally {
    int runs, said, right_rank, right_place, right_trace, in_time, n_noise, most_noise, n_times;
    double *times; /* (MOST_RUNS) */
} tally;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const double *sorted, int n, double share)
{
    int i = (int)(share * n);
    return n == 0 ? 0 : sorted[i < n ? i : n - 1];
}

static void add(tally *t, double limit_s, const drill_outcome *o)
{
    t->runs++;
    t->said += o->said;
    t->right_rank += o->right_rank;
    t->right_place += o->right_place;
    t->right_trace += o->right_trace;
    t->in_time += o->said && o->after_s <= limit_s;
    t->n_noise += o->n_noise;
    if (o->n_noise > t->most_noise)
        t->most_noise = o->n_noise;
    if (o->said && t->n_times < MOST_RUNS)
        t->times[t->n_times++] = o->after_s;
}

static void print_row(const char *name, tally *t)
{
    qsort(t->times, (size_t)t->n_times, sizeof(double), compare);
    double share = 100.0 / t->runs;
    printf("%-24s %5d %7.1f%% %7.1f%% %7.1f%% %7.1f%% %8.1f %8.1f %6d\n", name, t->runs, t->said * share,
           t->right_rank * share, t->right_place * share, t->right_trace * share,
           1000 * percentile(t->times, t->n_times, 0.5), 1000 * percentile(t->times, t->n_times, 0.99), t->most_noise);
    fflush(stdout);
}

static void merge(tally *all, const tally *one)
{
    all->runs += one->runs;
    all->said += one->said;
    all->right_rank += one->right_rank;
    all->right_place += one->right_place;
    all->right_trace += one->right_trace;
    all->in_time += one->in_time;
    if (one->most_noise > all->most_noise)
        all->most_noise = one->most_noise;
    for (int i = 0; i < one->n_times && all->n_times < MOST_RUNS; i++)
        all->times[all->n_times++] = one->times[i];
}

/* The requirement that the tally misses; NULL: none. */
static const char *judge(double limit_s, bool untimed, const drill_outcome *o)
{
    return !o->said                  ? "not named"
           : !o->right_rank          ? "wrong rank"
           : !o->right_place         ? "wrong place"
           : !o->right_trace         ? "wrong trace"
           : untimed                 ? NULL
           : o->after_s > limit_s    ? "late"
           : o->n_noise > MOST_NOISE ? "noisy"
                                     : NULL;
}

static bool run_drill(const request *q, const drill *d, int number, tally *t)
{
    for (int round = 0; round < q->rounds; round++)
        for (int w = 0; w < q->n_worlds; w++) {
            drill_outcome o;
            int world = q->worlds[w];
            uint64_t index = (uint64_t)(round * q->n_worlds + w);
            uint64_t draw = tess_rng_u64(q->seed, TESS_RNG_FAULT, (uint64_t)number, index);
            int rank = d->rank >= 0 ? d->rank : (int)(draw % (uint64_t)world);
            int step = FIRST_STEP + (int)((draw >> 32) % N_STEPS);
            if (!drill_run(d, q->tessera, &(drill_place){world, rank, step, q->untimed}, &o))
                return false;
            add(t, d->limit_s, &o);
            const char *wrong = judge(d->limit_s, q->untimed, &o);
            if (q->show || wrong != NULL)
                printf("  %s: %d ranks, rank=%d step=%d %s: %s, %.0f ms, %d lines besides; it said:\n%s  and its "
                       "trace: %s",
                       d->name, world, rank, step, d->fault, wrong != NULL ? wrong : "right", 1000 * o.after_s,
                       o.n_noise, o.text, o.trace);
        }
    return true;
}

static bool wanted(const request *q, const drill *d)
{
    return (q->group == NULL || strcmp(q->group, d->group) == 0) &&
           (q->only == NULL || strstr(d->name, q->only) != NULL);
}

/* Required: situation and rank in 99 of 100 runs, the place in 95, the time in 99. */
static int run_all(const request *q)
{
    static double times[MOST_RUNS], all_times[MOST_RUNS];
    tally all = {.times = all_times};
    printf("%-24s %5s %8s %8s %8s %8s %8s %8s %6s\n", "fault", "runs", "class", "rank", "place", "trace", "p50 ms",
           "p99 ms", "noise");
    for (int i = 0; i < n_drills; i++) {
        tally one = {.times = times};
        if (!wanted(q, &drills[i]))
            continue;
        if (!run_drill(q, &drills[i], i, &one))
            return 2;
        merge(&all, &one);
        print_row(drills[i].name, &one);
    }
    if (all.runs == 0)
        return 2;
    print_row("all", &all);
    bool wrong = all.said * 100 < all.runs * 99 || all.right_trace * 100 < all.runs * 99 ||
                 all.right_rank * 100 < all.runs * 99 || all.right_place * 100 < all.runs * 95;
    return wrong || (!q->untimed && (all.in_time * 100 < all.runs * 99 || all.most_noise > MOST_NOISE));
}

static void parse_worlds(request *q, const char *text)
{
    char *end;
    q->n_worlds = 0;
    while (*text != '\0' && q->n_worlds < 8) {
        long n = strtol(text, &end, 10);
        if (end == text || n < 1)
            break;
        q->worlds[q->n_worlds++] = (int)n;
        text = *end == ',' ? end + 1 : end;
    }
}

static bool parse(int argc, char **argv, request *q)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--show") == 0) {
            q->show = true;
            continue;
        }
        if (strcmp(word, "--untimed") == 0) {
            q->untimed = true;
            continue;
        }
        if (word[0] != '-') {
            q->tessera = word;
            continue;
        }
        if (++i == argc)
            return false;
        if (strcmp(word, "--group") == 0)
            q->group = argv[i];
        else if (strcmp(word, "--only") == 0)
            q->only = argv[i];
        else if (strcmp(word, "--rounds") == 0)
            q->rounds = atoi(argv[i]);
        else if (strcmp(word, "--seed") == 0)
            q->seed = strtoull(argv[i], NULL, 10);
        else if (strcmp(word, "--ranks") == 0)
            parse_worlds(q, argv[i]);
        else if (strcmp(word, "--kills") == 0)
            q->kills = atoi(argv[i]);
        else if (strcmp(word, "--calm") == 0)
            q->collectives = strtoll(argv[i], NULL, 10);
        else if (strcmp(word, "--stalls") == 0)
            q->stalls = strtoll(argv[i], NULL, 10);
        else
            return false;
    }
    return q->tessera != NULL && q->rounds > 0 && q->n_worlds > 0;
}

int main(int argc, char **argv)
{
    char tessera[4096];
    request q = {.rounds = 1, .n_worlds = 3, .worlds = {2, 4, 8}, .seed = 1};
    if (argc == 3 && strcmp(argv[1], "--rank") == 0)
        return drill_job(strtoll(argv[2], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "--count") == 0)
        return drill_count();
    if (argc == 3 && strcmp(argv[1], "--calm-rank") == 0)
        return drill_calm_rank(argv[2]);
    if (!parse(argc, argv, &q) || realpath(q.tessera, tessera) == NULL) {
        fprintf(stderr, "tess_drill [--group G] [--only TEXT] [--rounds N] [--seed S] [--ranks 2,4,8] [--untimed] "
                        "[--show] TESSERA\n"
                        "tess_drill --kills N [--seed S] TESSERA\n"
                        "tess_drill --calm COLLECTIVES --stalls N [--untimed] TESSERA\n");
        return 2;
    }
    q.tessera = tessera;
    if (q.kills > 0)
        return drill_kills(tessera, q.kills, q.seed);
    if (q.collectives > 0 || q.stalls > 0)
        return drill_calm(tessera, q.collectives, q.stalls, q.untimed);
    return run_all(&q);
}
