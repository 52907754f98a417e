#include "base/os/os.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/core/rng.h"

uint64_t tess_os_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

double tess_os_now_s(void)
{
    return (double)tess_os_now_ns() * 1e-9;
}

/* Cores that the cgroup's CPU quota allows, or a large number without one. */
static int quota_cores(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file == NULL)
        return 1 << 20;
    char text[64] = "", *end; /* "quota period", or "max period" */
    bool there = fgets(text, sizeof(text), file) != NULL;
    fclose(file);
    long long quota = strtoll(text, &end, 10), period = strtoll(end, NULL, 10);
    if (!there || quota <= 0 || period <= 0)
        return 1 << 20;
    return (int)((quota + period - 1) / period);
}

int tess_os_cores(void)
{
    cpu_set_t set;
    int cores = 1;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        cores = CPU_COUNT(&set);
    int quota = quota_cores();
    return quota < cores ? quota : cores;
}

uint64_t tess_os_cores_hash(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    return tess_hash_bytes(&set, sizeof(set), 0);
}

void tess_os_bind(int number)
{
    cpu_set_t set, one;
    if (sched_getaffinity(0, sizeof(set), &set) != 0 || number >= CPU_COUNT(&set))
        return;
    int cpu = -1;
    do
        cpu++;
    while (!CPU_ISSET(cpu, &set) || number-- > 0);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
}
