/* Names of call sites of a job that is over: functions and lines of the program and of its shared objects. */
#include <stdlib.h>
#include <string.h>

#include "base/os/objects.h"
#include "doctor/job/job.h"
#include "doctor/job/sites.h"
#include "control/launch/launcher.h"
#include "support/engine.h"
#include "support/test.h"
#include "trace/call_site.h"
#include "diagnosis/root_cause.h"

enum { N = 1000 };

static int swap_the_third_pair(void *context)
{
    (void)context;
    tess_runtime *rt;
    if (tess_runtime_create(NULL, &rt) != TESS_OK)
        return 90;
    static float x[N];
    int rank = tess_runtime_rank(rt);
    engine e = engine_load(rank);
    tess_status status = TESS_OK;
    for (int i = 0; i < 3 && status == TESS_OK; i++) {
        bool swaps = i == 2 && rank == 1;
        status = (swaps ? e.sum_b : e.sum_a)(tess_all_reduce, tess_runtime_team(rt), x, N);
        if (status == TESS_OK)
            status = (swaps ? e.sum_a : e.sum_b)(tess_all_reduce, tess_runtime_team(rt), x, N);
    }
    tess_runtime_destroy(&rt);
    return status == TESS_E_MISMATCH ? 7 : 91;
}

static void expect_sites(const tess_history *history)
{
    int n_a = 0, n_b = 0;
    for (int r = 0; r < history->world; r++)
        for (size_t i = 0; i < history->ranks[r].n_records; i++) {
            const tess_record *record = &history->ranks[r].records[i];
            if (record->count != N)
                continue;
            n_a += strncmp(record->site, "engine_sum_a (engine.c:", 23) == 0;
            n_b += strncmp(record->site, "engine_sum_b (engine.c:", 23) == 0;
        }
    EXPECT_INT(n_a, 3 * 2 + 2);
    EXPECT_INT(n_b, 3 * 2 + 1);
}

static void expect_diagnosis(const tess_history *history)
{
    tess_diagnosis diagnosis;
    EXPECT_OK(tess_diagnosis_find(history, 60, &diagnosis));
    EXPECT_TEXT(tess_diagnosis_name(diagnosis.kind), "order");
    EXPECT(!diagnosis.tie && diagnosis.n_ranks == 1 && diagnosis.ranks[0] == 1);
    EXPECT_CONTAINS(diagnosis.headline, "rank 1 swapped two operations that are alike: it called all_reduce #6 of team "
                                        "'world': 1000 float32, sum, at engine_sum_b (engine.c:");
    EXPECT_CONTAINS(diagnosis.headline, ", where ranks 0 2 called one at engine_sum_a (engine.c:");
    tess_diagnosis_free(history, &diagnosis);
}

static void places_in_a_shared_object_have_names_and_lines(void)
{
    tess_launch_result result;
    tess_history *history;
    EXPECT_OK(tess_launch_function_with(3, swap_the_third_pair, NULL,
                                        &(tess_launch_options){.grace_s = 600, .trace_folder = test_folder()}, 600,
                                        &result));
    EXPECT_INT(result.exit_code, 7);
    /* Ranks agree on the folder by the first two. */
    EXPECT_CONTAINS(result.report, "ranks 0 2 called all_reduce #6 of team 'world': 1000 float32, sum (called by "
                                   "engine_sum_a (engine.c:");
    EXPECT_CONTAINS(result.report, "rank 1 called all_reduce #6 of team 'world': 1000 float32, sum (called by "
                                   "engine_sum_b (engine.c:");
    EXPECT_OK(tess_job_history_read(test_mem(), test_folder(), &history));
    expect_sites(history);
    expect_diagnosis(history);
    tess_history_destroy(&history);
}

/* Hosts may have different builds under one path: only the build of this host gets names, in any order of look-ups. */
static void builds_of_one_path_are_distinguished(void)
{
    char text[TESS_SITE_BYTES];
    tess_object object;
    engine e = engine_load(0);
    const void *address;
    memcpy(&address, &e.sum_a, sizeof(address));
    EXPECT(tess_object_find(address, &object));
    tess_sites sites = {.mem = test_mem()};
    for (int here = 0; here < 2; here++) {
        tess_sites_source source = {0};
        uint32_t id = here ? object.id : object.id ^ 1;
        tess_trace_objects_add(&source.objects, id, object.path);
        tess_sites_report(&sites, &source, tess_call_site_in_object(id, (uintptr_t)address + 1 - object.begin), text,
                          sizeof(text));
        EXPECT_CONTAINS(text, here ? "engine_sum_a (engine.c:" : "libtess_test_engine.so+0x");
    }
    tess_sites_close(&sites);
}

static const test_case cases[] = {
    CASE(places_in_a_shared_object_have_names_and_lines),
    CASE(builds_of_one_path_are_distinguished),
};
TEST_MAIN(cases)
