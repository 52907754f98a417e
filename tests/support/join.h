/* The runtime of a rank in a test case. */
#ifndef TESS_TESTS_SUPPORT_JOIN_H
#define TESS_TESTS_SUPPORT_JOIN_H

#include "support/test.h"
#include "tessera/comm.h"

/* Joins the job. `options` NULL: the defaults. The case destroys the runtime. */
static inline tess_runtime *test_join_with(const tess_runtime_options *options)
{
    tess_runtime *runtime = NULL;
    EXPECT_OK(tess_runtime_create(options, &runtime));
    return runtime;
}

static inline tess_runtime *test_join(void)
{
    return test_join_with(NULL);
}

/* Joins the job at the first call in a process, with one thread. Later calls return the same runtime, so that a case
 * can open one engine after the other. */
static inline tess_runtime *test_stay_joined(void)
{
    static tess_runtime *runtime;
    if (runtime == NULL)
        runtime = test_join_with(&(tess_runtime_options){.n_threads = 1, .comm_timeout_s = 600});
    return runtime;
}

/* Leaves the job, as the last call of a case. */
static inline void test_leave(void)
{
    tess_runtime *runtime = test_stay_joined();
    tess_runtime_destroy(&runtime);
}

#endif
