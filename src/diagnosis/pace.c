#include "diagnosis/pace.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/core/median.h"
#include "base/mem/scoped.h"
#include "diagnosis/straggler.h"

enum { SAMPLES = TESS_STRAGGLER_STEPS, MOST_COMPARED = 33 };

/* least excess over a step's time that is reported, in seconds and as a share */
static const double least_excess_s = 1e-4, least_share = 0.002;
static const double starved_share = 0.05;
/* Threshold in standard errors of a median of normal noise. The rule is applied at every step to every phase and
 * rank. So chance findings must be much rarer than in a single look at a dead job. */
static const double standard_errors = 6;

typedef struct pace_sample {
    double phase_s[TESS_PHASE_COUNT]; /* times per step, averaged over the steps since the previous sample */
    double step_s, starved_s;
} pace_sample;

typedef struct pace_rank {
    tess_pace_counters last;
    uint64_t n;                  /* number of samples ever taken */
    pace_sample newest[SAMPLES]; /* ring buffer */
} pace_rank;

struct tess_pace {
    tess_mem *mem;
    int n_ranks;
    pace_rank *ranks;
};

tess_status tess_pace_create(tess_mem *mem, int n_ranks, tess_pace **out)
{
    TESS_AUTO(tess_pace_destroy) tess_pace *pace = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "pace", &pace));
    *pace = (tess_pace){.mem = mem, .n_ranks = n_ranks};
    TESS_TRY(TESS_PART(pace, n_ranks, "pace", &pace->ranks));
    *out = TESS_GIVE(pace);
    return TESS_OK;
}

void tess_pace_destroy(tess_pace **handle)
{
    tess_mem_drop(handle);
}

static double seconds_between(uint64_t before, uint64_t now, double n)
{
    return now > before ? (double)(now - before) * 1e-9 / n : 0;
}

bool tess_pace_is_new(const tess_pace *pace, int rank, uint64_t n_steps)
{
    return n_steps != pace->ranks[rank].last.n_steps;
}

/* Adds a sample. The first counters give no sample, because they include the start of the job. */
bool tess_pace_add(tess_pace *pace, int rank, const tess_pace_counters *now)
{
    pace_rank *r = &pace->ranks[rank];
    if (!tess_pace_is_new(pace, rank, now->n_steps))
        return false;
    if (now->n_steps > r->last.n_steps && r->last.n_steps > 0) {
        pace_sample *sample = &r->newest[r->n++ % SAMPLES];
        double n = (double)(now->n_steps - r->last.n_steps);
        *sample = (pace_sample){.starved_s = seconds_between(r->last.starved_ns, now->starved_ns, n)};
        for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) {
            sample->phase_s[phase] = seconds_between(r->last.phase_ns[phase], now->phase_ns[phase], n);
            sample->step_s += sample->phase_s[phase];
        }
    } else {
        r->n = 0;
    }
    r->last = *now;
    return true;
}

/* Writes the rank's times in a phase, times (SAMPLES), oldest first. `running`: subtracts the time without a core.
 * That time is spread evenly over the phases of a step, because its phase is not known. */
static void times_of(const pace_rank *r, int phase, bool running, double *times)
{
    for (int i = 0; i < SAMPLES; i++) {
        const pace_sample *sample = &r->newest[(r->n + (uint64_t)i) % SAMPLES];
        double share = sample->starved_s < sample->step_s ? 1 - sample->starved_s / sample->step_s : 0;
        times[i] = sample->phase_s[phase] * (running ? share : 1);
    }
}

/* Returns the median of a field of the samples: the double at `offset`. */
static double typical(const pace_rank *r, size_t offset)
{
    double values[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        memcpy(&values[i], (const char *)&r->newest[i] + offset, sizeof(values[i]));
    return tess_median(values, SAMPLES);
}

static double typical_starved(const pace_rank *r)
{
    return typical(r, offsetof(pace_sample, starved_s));
}

static int slowest_in(const tess_pace *pace, int phase, bool running)
{
    int slowest = 0;
    double most = -1, times[SAMPLES];
    for (int r = 0; r < pace->n_ranks; r++) {
        times_of(&pace->ranks[r], phase, running, times);
        double middle = tess_median(times, SAMPLES);
        if (middle > most) {
            most = middle;
            slowest = r;
        }
    }
    return slowest;
}

/* Returns the error of the first row, or the median error of all rows if that is larger: twenty equal times may be a
 * coincidence. */
static double noise_of(double seconds[][SAMPLES], int n)
{
    double errors[MOST_COMPARED];
    for (int i = 0; i < n; i++)
        errors[i] = tess_median_error(seconds[i]);
    double own = errors[0];
    return fmax(own, tess_median(errors, n)); /* tess_median sorts the errors */
}

/* Applies the rule to `rank` and up to MOST_COMPARED - 1 other ranks, spread evenly over the job. */
static bool is_slow(const tess_pace *pace, int rank, int phase, bool running, tess_straggler *out)
{
    double seconds[MOST_COMPARED][SAMPLES];
    tess_straggler found[MOST_COMPARED];
    int n_others = pace->n_ranks - 1 < MOST_COMPARED - 1 ? pace->n_ranks - 1 : MOST_COMPARED - 1;
    times_of(&pace->ranks[rank], phase, running, seconds[0]);
    for (int i = 0; i < n_others; i++) {
        int other = (int)((int64_t)i * (pace->n_ranks - 1) / n_others);
        times_of(&pace->ranks[other + (other >= rank)], phase, running, seconds[1 + i]);
    }
    int n = tess_stragglers_find(&seconds[0][0], 1 + n_others, found);
    for (int i = 0; i < n; i++)
        if (found[i].rank == 0) {
            *out = found[i];
            return out->excess_s > standard_errors * noise_of(seconds, 1 + n_others);
        }
    return false;
}

/* Whether the rank is starved of a core. It is not if the other ranks wait for cores, too. */
static bool is_starved(const tess_pace *pace, int rank, double step_s)
{
    double all = 0;
    for (int r = 0; r < pace->n_ranks; r++)
        all += r == rank ? 0 : typical_starved(&pace->ranks[r]);
    return typical_starved(&pace->ranks[rank]) > starved_share * step_s &&
           all / (pace->n_ranks - 1) < 0.5 * starved_share * step_s;
}

static double typical_wait(const pace_rank *r)
{
    double values[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        const double *s = r->newest[i].phase_s;
        values[i] = s[TESS_PHASE_GATHER] + s[TESS_PHASE_REDUCE] + s[TESS_PHASE_WAIT];
    }
    return tess_median(values, SAMPLES);
}

/* Whether the others wait for a slow rank for the time of its excess. A rank holds no rank up if it is faster in
 * another phase, or less slow than a third rank. */
static bool holds_others_up(const tess_pace *pace, int rank, double excess_s)
{
    double others = 0;
    for (int r = 0; r < pace->n_ranks; r++)
        others += r == rank ? 0 : typical_wait(&pace->ranks[r]);
    return others / (pace->n_ranks - 1) - typical_wait(&pace->ranks[rank]) > 0.5 * excess_s;
}

static bool look_at_phase(const tess_pace *pace, int phase, double step_s, tess_pace_finding *finding)
{
    tess_straggler seen, running;
    int rank = slowest_in(pace, phase, false);
    if (!is_slow(pace, rank, phase, false, &seen) || seen.excess_s < least_excess_s ||
        seen.excess_s < least_share * step_s || seen.excess_s <= finding->excess_s ||
        !holds_others_up(pace, rank, seen.excess_s))
        return false;
    bool slow = is_slow(pace, rank, phase, true, &running);
    if (!slow && !is_starved(pace, rank, step_s))
        return false;
    *finding = (tess_pace_finding){.rank = rank,
                                   .phase = (tess_phase)phase,
                                   .starved = !slow,
                                   .ratio = slow ? running.ratio : seen.ratio,
                                   .excess_s = seen.excess_s,
                                   .starved_s = typical_starved(&pace->ranks[rank]),
                                   .n_steps = pace->ranks[rank].last.n_steps};
    return true;
}

bool tess_pace_find(const tess_pace *pace, tess_pace_finding *finding)
{
    bool found = false;
    double step_s = 0;
    *finding = (tess_pace_finding){.rank = -1};
    if (pace->n_ranks < 2)
        return false;
    for (int r = 0; r < pace->n_ranks; r++) {
        if (pace->ranks[r].n < SAMPLES)
            return false;
        double own = typical(&pace->ranks[r], offsetof(pace_sample, step_s));
        step_s = own > step_s ? own : step_s;
    }
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        if (phase != TESS_PHASE_GATHER && phase != TESS_PHASE_REDUCE && phase != TESS_PHASE_WAIT)
            found |= look_at_phase(pace, phase, step_s, finding);
    return found;
}
