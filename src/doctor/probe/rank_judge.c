/* Judges the figures that all ranks measured, by comparing them. */
#include <math.h>
#include <string.h>

#include "base/text/text.h"
#include "base/core/median.h"
#include "doctor/probe/probe_impl.h"
#include "doctor/probe/ranks_impl.h"
#include "job/job_memory.h"

#define SLOW 0.8        /* share of the median speed */
#define SHARE_LEAST 0.8 /* least share of its core that a rank should get */
#define BARRIER_WARN_US 1000.0
#define CLOCK_WARN_S 1e-3
#define LINK_WARN 0.5    /* share of the median link */
#define LINK_LEAST 100e6 /* bytes a second: a link of 1 Gbit/s */
enum { NAMED = 3 };

/* ---- Hashes ---- */
static bool same_hash(const void *hashes, int a, int b)
{
    return ((const uint64_t *)hashes)[a] == ((const uint64_t *)hashes)[b];
}

tess_majority probe_majority(const uint64_t *hashes, int n)
{
    return tess_majority_find(same_hash, hashes, n);
}

/* Lists the ranks whose hash differs from the majority's, as " 3 5". Returns their number. */
static int find_odd(const uint64_t *hashes, int n, char *text, size_t size)
{
    int n_odd = 0, usual = probe_majority(hashes, n).first;
    size_t at = 0;
    text[0] = '\0';
    for (int r = 0; r < n; r++)
        if (hashes[r] != hashes[usual] && n_odd++ < 16)
            at = tess_text_add(text, size, at, " %d", r);
    return n_odd;
}

void probe_judge_program(const probe_all *all, tess_probe_finding *finding)
{
    const probe_rank *ranks = all->ranks;
    const int n = all->n;
    char programs[160], configurations[160];
    for (int r = 0; r < n; r++)
        all->hashes[r] = ranks[r].program;
    int n_programs = find_odd(all->hashes, n, programs, sizeof(programs));
    for (int r = 0; r < n; r++)
        all->hashes[r] = ranks[r].configuration;
    int n_configurations = find_odd(all->hashes, n, configurations, sizeof(configurations));
    if (n_programs == 0 && n_configurations == 0)
        probe_say(finding, TESS_PROBE_OK, "program, version%s",
                  ranks[0].configuration != 0 ? " and configuration" : "");
    else if (n_programs > 0)
        probe_say(finding, TESS_PROBE_FAIL, "another program than the others' runs on rank%s%s",
                  n_programs == 1 ? "" : "s", programs);
    else
        probe_say(finding, TESS_PROBE_FAIL, "another configuration than the others' was read by rank%s%s",
                  n_configurations == 1 ? "" : "s", configurations);
}

/* ---- Speed ---- */
static const probe_speed *speed_of(const probe_rank *rank, bool copies)
{
    return copies ? &rank->copy : &rank->gemm;
}

/* Returns a rank's work per second of wall time; if ranks share cores, per second of core time. */
static double pace(const probe_rank *rank, bool copies)
{
    const probe_speed *speed = speed_of(rank, copies);
    return speed->rate * (rank->cores_are_shared ? 1 : speed->share);
}

void probe_judge_speed(const probe_all *all, const char *unit, bool copies, tess_probe_finding *finding)
{
    const probe_rank *ranks = all->ranks;
    const int n = all->n;
    double *paces = all->paces, usual;
    char text[TESS_PROBE_TEXT_BYTES] = "";
    int n_slow = 0;
    size_t at = 0;
    for (int r = 0; r < n; r++)
        paces[r] = pace(&ranks[r], copies);
    usual = tess_median(paces, n);
    for (int r = 0; r < n; r++) {
        const probe_speed *speed = speed_of(&ranks[r], copies);
        double rate = pace(&ranks[r], copies);
        bool crowded = !ranks[r].cores_are_shared && speed->share < SHARE_LEAST;
        if ((rate >= SLOW * usual && !crowded) || n_slow++ >= NAMED)
            continue;
        at = tess_text_add(text, sizeof(text), at, at > 0 ? "; " : "");
        if (crowded)
            at =
                tess_text_add(text, sizeof(text), at, "rank %d got only %.0f%% of core %d: %.3g %s, the median is %.3g",
                              r, 100.0 * speed->share, speed->core, rate * 1e-9, unit, usual * 1e-9);
        else
            at = tess_text_add(text, sizeof(text), at, "rank %d on core %d is slow: %.3g %s, %.0f%% of the median", r,
                               speed->core, rate * 1e-9, unit, 100 * rate / usual);
    }
    if (n_slow > NAMED)
        tess_text_add(text, sizeof(text), at, "; and %d more", n_slow - NAMED);
    if (n_slow > 0)
        probe_say(finding, TESS_PROBE_WARN, "%s", text);
    else
        probe_say(finding, TESS_PROBE_OK, "%.3g to %.3g %s a core", paces[0] * 1e-9, paces[n - 1] * 1e-9, unit);
}

/* ---- Exchange ---- */
void probe_judge_all_reduce(const probe_rank *ranks, int n, tess_probe_finding *finding)
{
    int first = -1, n_wrong = 0;
    for (int r = 0; r < n; r++) {
        if (ranks[r].wrong[0] == '\0')
            continue;
        first = first < 0 ? r : first;
        n_wrong++;
    }
    if (n_wrong == 0)
        probe_say(finding, TESS_PROBE_OK, "right in all dtypes");
    else if (n_wrong == 1)
        probe_say(finding, TESS_PROBE_FAIL, "%s", ranks[first].wrong);
    else
        probe_say(finding, TESS_PROBE_FAIL, "%s, and on %d more", ranks[first].wrong, n_wrong - 1);
}

void probe_judge_barrier(const probe_rank *ranks, int n, int n_hosts, tess_probe_finding *finding)
{
    double us = ranks[0].barrier_us;
    if (us > BARRIER_WARN_US && !ranks[0].cores_are_shared)
        probe_say(finding, TESS_PROBE_WARN, "a barrier of %d ranks on %d host%s takes %.0f us", n, n_hosts,
                  n_hosts == 1 ? "" : "s", us);
    else
        probe_say(finding, TESS_PROBE_OK, "%.3g us", us);
}

/* ---- Hosts ---- */
void probe_judge_clocks(const probe_link *links, const char *const *names, int n_hosts, tess_probe_finding *finding)
{
    int worst = 1;
    for (int host = 2; host < n_hosts; host++)
        if (fabs(links[host].offset_s) > fabs(links[worst].offset_s))
            worst = host;
    double off = links[worst].offset_s, unsure = links[worst].round_trip_s / 2;
    if (fabs(off) - unsure > CLOCK_WARN_S)
        probe_say(finding, TESS_PROBE_WARN, "the clock of host %s is %.3g ms %s that of host %s (within %.2g ms)",
                  names[worst], fabs(off) * 1e3, off > 0 ? "ahead of" : "behind", names[0], unsure * 1e3);
    else
        probe_say(finding, TESS_PROBE_OK, "within %.2g ms", (fabs(off) + unsure) * 1e3);
}

void probe_judge_links(const probe_link *links, const char *const *names, int n_hosts, tess_probe_finding *finding)
{
    double rates[JOB_MAX_HOSTS], usual;
    int worst = 1, n = n_hosts - 1;
    for (int host = 1; host < n_hosts; host++) {
        rates[host - 1] = links[host].bytes_per_s;
        if (links[host].bytes_per_s < links[worst].bytes_per_s)
            worst = host;
    }
    usual = tess_median(rates, n);
    double rate = links[worst].bytes_per_s;
    if (rate < LINK_WARN * usual)
        probe_say(finding, TESS_PROBE_WARN, "from host %s to host %s: %.3g Gbit/s, %.0f%% of the median", names[0],
                  names[worst], rate * 8e-9, 100 * rate / usual);
    else if (rate < LINK_LEAST)
        probe_say(finding, TESS_PROBE_WARN, "from host %s to host %s: only %.3g Gbit/s", names[0], names[worst],
                  rate * 8e-9);
    else
        probe_say(finding, TESS_PROBE_OK, "%.3g to %.3g Gbit/s", rate * 8e-9, rates[n - 1] * 8e-9);
}
