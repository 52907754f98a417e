/* A job of forked ranks and a service of saves; the case chooses how the service writes. */
#ifndef TESS_TESTS_CKPT_ASYNC_JOB_H
#define TESS_TESTS_CKPT_ASYNC_JOB_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/async/async_impl.h"
#include "job/environment.h"
#include "control/launch/launcher.h"
#include "support/heard.h"
#include "support/test.h"
#include "tessera/comm.h"

enum { PATIENCE_S = 120 }; /* limit for events that must come: a busy machine may take long */

/* Shared by the case, its ranks and writers. */
typedef struct async_stand {
    test_heard heard;
    const char *folder;
    _Atomic int n_written, n_begun;
    _Atomic int go;         /* writers that wait, wait for it */
    _Atomic float sum;      /* sum of all that was staged */
    _Atomic int64_t staged; /* bytes */
} async_stand;

static async_stand *the_stand;
static tess_async_service *the_service;

/* The objects of a running rank. */
typedef struct async_rank {
    tess_runtime *runtime;
    tess_team *team;
    tess_ckpt_hosts *hosts;
    tess_threads *threads;
    tess_saver *saver;
} async_rank;

static inline async_rank join_with_saver(const tess_saver_options *options)
{
    async_rank r = {0};
    EXPECT_OK(tess_runtime_create(NULL, &r.runtime));
    r.team = tess_runtime_team(r.runtime);
    EXPECT_OK(tess_ckpt_hosts_create(tess_runtime_mem(r.runtime), r.team, 0, "here", &r.hosts));
    EXPECT_OK(tess_threads_create(tess_runtime_mem(r.runtime), 2, &r.threads));
    EXPECT_OK(tess_saver_create(r.runtime, r.hosts, r.threads, options, &r.saver));
    return r;
}

static inline void leave_with_saver(async_rank *r)
{
    tess_saver_destroy(&r->saver);
    tess_threads_destroy(&r->threads);
    tess_ckpt_hosts_destroy(&r->hosts);
    EXPECT_OK(tess_barrier(r->team, NULL));
    tess_runtime_destroy(&r->runtime);
}

static inline void begin_service(async_write_fn write)
{
    void *memory;
    EXPECT_OK(tess_os_share("test", sizeof(*the_stand), &memory));
    the_stand = memory;
    EXPECT_OK(async_service_start(write, &the_service));
}

static inline int call_rank(void *context)
{
    void (*run)(void);
    memcpy(&run, context, sizeof(run));
    run();
    return 0;
}

/* Returns the job's exit code. */
static inline int run_job(int n, void (*run)(void))
{
    tess_launch_result result;
    EXPECT_OK(tess_launch_function(n, call_rank, &run, PATIENCE_S, 2 * PATIENCE_S, &result));
    return result.exit_code;
}

static inline void wait_until(_Atomic int *word, int value)
{
    double deadline_s = tess_os_now_s() + PATIENCE_S;
    while (atomic_load(word) < value && tess_os_now_s() < deadline_s)
        usleep(1000);
    EXPECT(atomic_load(word) >= value);
}

#endif
