/* The injector: parsing of specs, when a fault happens, and what it does to an operation. */
#include "inject/inject.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/launch/launcher.h"
#include "support/test.h"
#include "trace/label.h"

/* ---- The spec ---- */
static tess_status parse(const char *text, tess_fault faults[TESS_FAULTS_MAX], int *n)
{
    return tess_faults_parse(&(tess_fault_spec){.text = text, .world = 4}, faults, TESS_FAULTS_MAX, n);
}

static void a_spec_is_read_as_written(void)
{
    tess_fault f[TESS_FAULTS_MAX];
    int n;
    EXPECT_OK(parse("rank=3 step=12 point=before:reduce_scatter#2 kind=skip n=4 label=layers:7; "
                    "rank=all point=phase:forward:5  kind=sleep ms=1500 times=0 ;kind=rank0_eval",
                    f, &n));
    EXPECT_INT(n, 3);
    EXPECT(f[0].kind == TESS_FAULT_SKIP && f[0].rank == 3 && f[0].step == 12 && f[0].point == TESS_FAULT_BEFORE);
    EXPECT(f[0].op == TESS_TRACE_REDUCE_SCATTER && f[0].nth == 2 && f[0].n == 4 && f[0].times == 1);
    EXPECT(f[0].label == tess_label("layers", 7));
    EXPECT(f[1].kind == TESS_FAULT_SLEEP && f[1].rank == -1 && f[1].step == -1 && f[1].detail == 5 && f[1].ms == 1500);
    EXPECT_TEXT(f[1].phase, "forward");
    EXPECT_INT(f[1].times, 0);
    EXPECT(f[2].kind == TESS_FAULT_RANK0_EVAL && f[2].rank == 0 && f[2].point == TESS_FAULT_ENTER_STEP);
    EXPECT_OK(parse("", f, &n));
    EXPECT_INT(n, 0);
    EXPECT_OK(parse(NULL, f, &n));
    EXPECT_INT(n, 0);
}

static void what_is_wrong_with_a_spec_is_named(void)
{
    static const struct {
        const char *spec, *needle;
    } bad[] = {
        {"rank=3 kind=skp", "unknown kind 'skp': did you mean 'skip'?"},
        {"rnak=3 kind=skip", "unknown key 'rnak': did you mean 'rank'?"},
        {"rank=3 kind=skip zzzzzzzz=1", "unknown key 'zzzzzzzz': there are rank, step, point, kind, label, times"},
        {"rank=3 kind=skip point=befor:all_reduce", "unknown point 'befor': did you mean 'before'?"},
        {"rank=3 kind=skip point=before:all_redcue", "unknown operation 'all_redcue': did you mean 'all_reduce'?"},
        {"rank=0 kind=exit; rank=3 kind=zzzzzzzz", "fault 2: unknown kind 'zzzzzzzz': there are skip, extra"},
        {"rank=4 kind=skip", "fault 1: rank: 4 is outside 0 .. 3"},
        {"rank=1x kind=skip", "rank: '1x' is not a number"},
        {"kind=skip", "rank= is missing"},
        {"rank=1", "kind= is missing"},
        {"rank=1 kind=skip point=step", "kind=skip needs point=before:OPERATION"},
        {"rank=1 kind=slow", "kind=slow needs point=phase:NAME"},
        {"rank=1 kind=nan point=step", "kind=nan needs point=gradient"},
        {"rank=1 kind=skip point=before", "it needs an operation"},
        {"rank=1 kind=enospc", "kind=enospc needs point=save:NAME"},
        {"rank=1 kind=enospc point=save", "it needs a call, as in save:write"},
        {"rank=1 kind=enospc point=save:renam", "unknown call of a save 'renam': did you mean 'rename'?"},
        {"kind=rank0_eval point=save:rename", "kind=rank0_eval needs point="},
        {"rank=1 kind=skip point=before:all_reduce#0", "point: the number behind '#': 0 is outside 1 .. "},
        {"rank=1 kind", "'kind' is not key=value"},
        {"rank=1 kind=sleep ms=-1", "ms: -1 is outside 0 .. "},
        {"rank=1 kind=sleep ms=nan", "ms: 'nan' is not a number"},
        {"rank=1 kind=uneven what=stop", "what: 'stop' is not one of micro_batch|step"},
        {"rank=1 kind=reduce_op point=before:barrier",
         "fault 1: kind=reduce_op cannot happen to barrier, but to reduce_scatter, all_reduce"},
        {"rank=1 kind=root point=before:all_reduce",
         "kind=root cannot happen to all_reduce, but to broadcast, gather, scatter, send, recv"},
        {"rank=1 kind=count point=before:barrier#2", "kind=count cannot happen to barrier, but to all_gather, "},
        {"rank=1 kind=extra point=before:window_alloc", "kind=extra cannot happen to window_alloc"},
    };
    tess_fault f[TESS_FAULTS_MAX];
    int n;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_FAILS(parse(bad[i].spec, f, &n), TESS_E_INVALID, bad[i].needle);
    EXPECT_FAILS(tess_faults_parse(&(tess_fault_spec){"rank=0 kind=exit; rank=1 kind=exit", 0, 4}, f, 1, &n),
                 TESS_E_INVALID, "more than 1 faults");
}

static void a_phase_that_there_is_not_is_refused_where_names_are_known(void)
{
    static const char *const phases[] = {"forward", "backward", NULL};
    tess_fault f[TESS_FAULTS_MAX];
    int n;
    tess_fault_spec spec = {.text = "rank=1 point=phase:bakward kind=exit", .world = 2, .phases = phases};
    EXPECT_FAILS(tess_faults_parse(&spec, f, TESS_FAULTS_MAX, &n), TESS_E_INVALID,
                 "fault 1: unknown phase 'bakward': did you mean 'backward'?");
    spec.text = "rank=1 point=phase:zzzzzzzz kind=slow";
    EXPECT_FAILS(tess_faults_parse(&spec, f, TESS_FAULTS_MAX, &n), TESS_E_INVALID,
                 "unknown phase 'zzzzzzzz': there are forward, backward");
    spec.text = "kind=slow_log"; /* this kind happens in a phase 'log' */
    EXPECT_FAILS(tess_faults_parse(&spec, f, TESS_FAULTS_MAX, &n), TESS_E_INVALID, "unknown phase 'log'");
    spec.text = "rank=1 point=phase:backward:3 kind=exit; rank=0 step=4 kind=exit";
    EXPECT_OK(tess_faults_parse(&spec, f, TESS_FAULTS_MAX, &n));
    spec.text = "rank=1 point=phase:zzzzzzzz kind=slow";
    spec.phases = NULL;
    EXPECT_OK(tess_faults_parse(&spec, f, TESS_FAULTS_MAX, &n));
}

/* The phases that an engine declares. */
static void a_rank_that_knows_its_phases_does_not_begin(void)
{
    static const char *const phases[] = {"sweep", "exchange", NULL};
    tess_runtime *rt;
    EXPECT_FAILS(tess_runtime_create(
                     &(tess_runtime_options){.fault = "rank=0 point=phase:sweeep kind=exit", .phases = phases}, &rt),
                 TESS_E_INVALID, "unknown phase 'sweeep': did you mean 'sweep'?");
}

static void a_call_that_saves_fails_when_it_is_to(void)
{
    tess_faults *faults;
    tess_rank_past past = {0};
    const tess_fault_spec spec = {
        .text = "rank=1 step=5 point=save:write#2 kind=enospc; rank=all point=save:sync kind=eio; "
                "rank=1 point=save:write#4 kind=short times=0",
        .world = 2};
    EXPECT_OK(tess_faults_create(test_mem(), &spec, 1, &past, &faults));
    EXPECT_INT(tess_inject_save(NULL, 5, TESS_SAVE_WRITE), 0);
    static const int want[] = {0, ENOSPC, 0, TESS_INJECT_SHORT, 0};
    for (int i = 0; i < 5; i++)
        EXPECT_INT(tess_inject_save(faults, 5, TESS_SAVE_WRITE), want[i]);
    for (int i = 0; i < 5; i++) /* another step */
        EXPECT_INT(tess_inject_save(faults, 6, TESS_SAVE_WRITE), i == 3 ? TESS_INJECT_SHORT : 0);
    EXPECT_INT(tess_inject_save(faults, 6, TESS_SAVE_RENAME), 0);
    EXPECT_INT(tess_inject_save(faults, 6, TESS_SAVE_SYNC), EIO);
    EXPECT_INT(tess_inject_save(faults, 6, TESS_SAVE_SYNC), 0);
    tess_faults_destroy(test_mem(), &faults);
}

static void random_is_a_function_of_the_seed(void)
{
    int ranks[8] = {0}, steps[6] = {0};
    for (uint64_t seed = 0; seed < 200; seed++) {
        tess_fault a[2], b[2];
        int n;
        const tess_fault_spec spec = {
            "rank=random step=random steps=5 kind=exit; rank=random step=random steps=5 kind=exit", seed, 8};
        EXPECT_OK(tess_faults_parse(&spec, a, 2, &n));
        EXPECT_OK(tess_faults_parse(&spec, b, 2, &n));
        EXPECT(memcmp(a, b, sizeof(a)) == 0);
        EXPECT(a[0].rank >= 0 && a[0].rank < 8 && a[0].step >= 1 && a[0].step <= 5);
        ranks[a[0].rank]++;
        steps[a[1].step]++;
    }
    for (int i = 0; i < 8; i++)
        EXPECT(ranks[i] > 5);
    for (int i = 1; i < 6; i++)
        EXPECT(steps[i] > 15);
}

/* ---- Operations ---- */
static tess_runtime *join_with(const char *fault)
{
    tess_runtime *rt = NULL;
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.comm_timeout_s = 600, .fault = fault}, &rt));
    return rt;
}

/* Steps with a sum and a gather each, until something fails. */
static tess_status run_steps(tess_runtime *rt, int n_steps)
{
    tess_team *team = tess_runtime_team(rt);
    for (int step = 1; step <= n_steps; step++) {
        float x[64], all[64 * 8];
        for (int i = 0; i < 64; i++)
            x[i] = (float)step;
        tess_runtime_phase(rt, "forward", step, 0);
        for (int layer = 0; layer < 3; layer++) {
            tess_team_label(team, "layers", layer);
            tess_work *work = NULL;
            TESS_TRY(tess_all_gather(team, x, all, 64, TESS_F32, &work));
            TESS_TRY(tess_work_wait(&work, 0));
        }
        tess_runtime_phase(rt, "backward", step, 0);
        tess_team_label(team, "loss", -1);
        TESS_TRY(tess_all_reduce(team, x, x, 64, TESS_F32, TESS_SUM, NULL));
        tess_team_label(team, "root", -1);
        TESS_TRY(tess_broadcast(team, x, 64, TESS_F32, 0, NULL));
    }
    return TESS_OK;
}

static void expect_mismatch(const char *fault, int culprit, const char *needle)
{
    tess_runtime *rt = join_with(fault);
    tess_status status = run_steps(rt, 5);
    if (status != TESS_E_MISMATCH)
        test_fail(__FILE__, __LINE__, "%s: %s, not a mismatch: %s", fault, tess_status_name(status),
                  tess_error_message());
    char odd[64];
    snprintf(odd, sizeof(odd), "the odd one out: rank %d:", culprit);
    EXPECT_CONTAINS(tess_error_message(), odd);
    EXPECT_CONTAINS(tess_error_message(), needle);
    tess_runtime_destroy(&rt);
}

static void an_operation_is_left_out(void)
{
    expect_mismatch("rank=2 step=3 point=before:all_gather#2 kind=skip", 2,
                    "rank 2 called all_gather #11 of team "
                    "'world' for 'layers 2'");
}

static void an_operation_is_made_twice(void)
{
    expect_mismatch("rank=1 step=2 point=before:all_gather#3 kind=extra", 1,
                    "rank 1 called all_gather #8 of team 'world' for 'layers 2'");
}

static void two_operations_change_places(void)
{
    expect_mismatch("rank=0 step=2 point=before:all_gather kind=order", 0,
                    "rank 0 called all_gather #5 of team 'world' for 'layers 1'");
}

static void a_blocking_operation_is_held_back(void)
{
    expect_mismatch("rank=3 step=4 point=before:all_reduce kind=order", 3, "rank 3 called broadcast #18");
}

static void another_operation_is_asked_for(void)
{
    expect_mismatch("rank=1 step=2 point=before:all_reduce kind=op", 1, "rank 1 called reduce_scatter #8");
}

static void a_swallowed_exception_ends_the_step(void)
{
    expect_mismatch("rank=2 step=2 point=before:all_gather#2 kind=swallow", 2,
                    "rank 2 called all_gather #6 of team "
                    "'world' for 'layers 0'");
}

static void a_dtype_can_be_wrong(void)
{
    expect_mismatch("rank=0 point=before:all_reduce kind=dtype", 0,
                    "rank 0 called all_reduce #3 of team 'world' for "
                    "'loss': 64 bfloat16");
}

static void a_count_can_be_wrong(void)
{
    expect_mismatch("rank=0 point=before:any label=layers:1 kind=count n=3", 0, "for 'layers 1': 67 float32");
}

static void a_reduction_can_be_wrong(void)
{
    expect_mismatch("rank=3 point=before:any kind=reduce_op", 3, "64 float32, max");
}

static void a_root_can_be_wrong(void)
{
    expect_mismatch("rank=3 point=before:any step=3 kind=root", 3, "root 1");
}

static void a_label_can_be_wrong(void)
{
    expect_mismatch("rank=2 point=before:all_gather step=5 kind=label", 2, "for 'other 1'");
}

static void a_hash_of_no_team_is_a_mismatch(void)
{
    expect_mismatch("rank=1 point=before:all_gather step=2 kind=team", 1, "rank 1 called all_gather #5");
}

static void rank_0_evaluates_alone(void)
{
    expect_mismatch("step=3 kind=rank0_eval ms=1", 0, "rank 0 called broadcast #10 of team 'world' for 'eval'");
}

static void a_fault_of_all_ranks_is_none(void)
{
    tess_runtime *rt = join_with("rank=all point=before:all_gather kind=label; rank=all step=2 point=before:broadcast "
                                 "kind=skip; rank=all point=before:all_reduce step=3 kind=dtype");
    EXPECT_OK(run_steps(rt, 5));
    tess_runtime_destroy(&rt);
}

static void every_fault_counts_the_operations(void)
{
    expect_mismatch("rank=2 step=3 point=before:all_gather#1 kind=sleep ms=1; "
                    "rank=2 step=3 point=before:all_gather#2 kind=skip",
                    2, "rank 2 called all_gather #11 of team 'world' for 'layers 2'");
}

static void what_happens_whenever_it_can_happens_once_an_operation(void)
{
    tess_runtime *rt = join_with("rank=0 point=after:any kind=sleep ms=20 times=0; "
                                 "rank=0 step=1 point=after:all_gather kind=sleep ms=100 times=3");
    double begin = tess_os_now_s();
    EXPECT_OK(run_steps(rt, 1));
    EXPECT(tess_os_now_s() - begin >= 0.4);
    tess_runtime_destroy(&rt);
}

/* ---- Moments ---- */
static void sleeps_spins_and_reads_take_as_long_as_asked(void)
{
    char fault[256];
    static const char *const kinds[] = {"sleep", "spin", "io"};
    tess_runtime *rt;
    for (int i = 0; i < 3; i++) {
        snprintf(fault, sizeof(fault), "rank=0 step=2 point=phase:backward kind=%s ms=150", kinds[i]);
        rt = join_with(fault);
        double begin = tess_os_now_s();
        EXPECT_OK(run_steps(rt, 3));
        EXPECT(tess_os_now_s() - begin >= 0.15);
        tess_runtime_destroy(&rt);
    }
}

static void compute(double cpu_s)
{
    volatile double x = 1;
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    double end = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + cpu_s;
    for (; (double)now.tv_sec + (double)now.tv_nsec * 1e-9 < end; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now))
        x = x * 1.0000001;
}

static void a_slow_phase_takes_longer_by_its_share(void)
{
    double held_s = 0;
    tess_runtime *rt = join_with("rank=0 step=2 point=phase:forward kind=slow percent=200");
    for (int step = 1; step <= 5; step++) {
        tess_runtime_phase(rt, "forward", step, 0);
        compute(0.02);
        double begin = tess_os_now_s();
        tess_runtime_phase(rt, "backward", step, 0);
        held_s += tess_os_now_s() - begin;
    }
    EXPECT(held_s > 0.15); /* four phases of 20 ms */
    tess_runtime_destroy(&rt);
}

static int end_by_fault(void *context)
{
    tess_runtime *rt = NULL;
    if (tess_runtime_create(&(tess_runtime_options){.fault = context}, &rt) != TESS_OK)
        return 90;
    tess_status status = run_steps(rt, 5);
    tess_runtime_destroy(&rt);
    return status == TESS_E_PEER_LOST ? 7 : 91;
}

static void a_rank_dies_where_it_is_told_to(void)
{
    static const struct {
        const char *fault;
        int code;
        const char *needle;
    } ways[] = {
        {"rank=1 step=2 point=before:all_reduce kind=sigkill", 137, "(SIGKILL) after all_gather #7"},
        {"rank=1 step=2 point=after:all_reduce kind=crash", 139, "(SIGSEGV) after all_reduce #8"},
        {"rank=1 step=3 point=phase:backward kind=abort", 134, "in phase 'backward' of step 3"},
        {"rank=1 step=4 kind=exit code=9", 9, "exited with code 9"},
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        tess_launch_result result;
        EXPECT_OK(tess_launch_function(3, end_by_fault, (void *)(uintptr_t)ways[i].fault, 600, 600, &result));
        EXPECT_INT(result.exit_code, ways[i].code);
        EXPECT_INT(result.failed_rank, 1);
        EXPECT_CONTAINS(result.report, ways[i].needle);
    }
}

/* ---- Numbers and batches ---- */
static void one_element_is_spoilt(void)
{
    tess_runtime *rt =
        join_with("rank=0 step=2 point=gradient kind=nan tensor=head; rank=0 point=state kind=flip bit=3");
    float x[100] = {0};
    uint8_t bytes[10] = {0};
    int bad = 0, set = 0;
    tess_runtime_phase(rt, "backward", 1, 0);
    EXPECT(!tess_inject_tensor(rt, TESS_FAULT_GRADIENT, "head", x, 100, TESS_F32));
    tess_runtime_phase(rt, "backward", 2, 0);
    EXPECT(!tess_inject_tensor(rt, TESS_FAULT_GRADIENT, "embedding", x, 100, TESS_F32));
    EXPECT(!tess_inject_tensor(rt, TESS_FAULT_PARAMETER, "head", x, 100, TESS_F32));
    EXPECT(tess_inject_tensor(rt, TESS_FAULT_GRADIENT, "head", x, 100, TESS_F32));
    EXPECT(!tess_inject_tensor(rt, TESS_FAULT_GRADIENT, "head", x, 100, TESS_F32));
    for (int i = 0; i < 100; i++)
        bad += isnan(x[i]) ? 1 : 0;
    EXPECT_INT(bad, 1);
    EXPECT(tess_inject_tensor(rt, TESS_FAULT_STATE, "rng", bytes, 10, TESS_U8));
    for (int i = 0; i < 10; i++)
        set += bytes[i] == 8;
    EXPECT_INT(set, 1);
    tess_runtime_destroy(&rt);
}

static void a_rank_has_fewer_micro_batches(void)
{
    tess_runtime *rt = join_with("rank=0 step=3 kind=uneven n=2; rank=0 step=5 kind=uneven what=step");
    EXPECT_INT(tess_inject_micro_batches(rt, 2, 4), 4);
    EXPECT_INT(tess_inject_micro_batches(rt, 3, 4), 2);
    EXPECT_INT(tess_inject_micro_batches(rt, 3, 1), 0);
    EXPECT(!tess_inject_stops(rt, 4) && tess_inject_stops(rt, 5));
    tess_runtime_destroy(&rt);
}

static void the_environment_can_ask_for_a_fault(void)
{
    setenv("TESSERA_FAULT", "rank=0 kind=skp", 1);
    tess_runtime *rt;
    EXPECT_FAILS(tess_runtime_create(NULL, &rt), TESS_E_INVALID, "did you mean 'skip'?");
    rt = join_with(""); /* an empty one of the program's own counts */
    tess_runtime_destroy(&rt);
}

static const test_case cases[] = {
    CASE(a_spec_is_read_as_written),
    CASE(what_is_wrong_with_a_spec_is_named),
    CASE(a_phase_that_there_is_not_is_refused_where_names_are_known),
    CASE(a_rank_that_knows_its_phases_does_not_begin),
    CASE(a_call_that_saves_fails_when_it_is_to),
    CASE(random_is_a_function_of_the_seed),
    CASE(an_operation_is_left_out, 4, 0, TEST_ALONE),
    CASE(an_operation_is_made_twice, 4, 0, TEST_ALONE),
    CASE(two_operations_change_places, 4, 0, TEST_ALONE),
    CASE(a_blocking_operation_is_held_back, 4, 0, TEST_ALONE),
    CASE(another_operation_is_asked_for, 4, 0, TEST_ALONE),
    CASE(a_swallowed_exception_ends_the_step, 4, 0, TEST_ALONE),
    CASE(a_dtype_can_be_wrong, 4, 0, TEST_ALONE),
    CASE(a_count_can_be_wrong, 4, 0, TEST_ALONE),
    CASE(a_reduction_can_be_wrong, 4, 0, TEST_ALONE),
    CASE(a_root_can_be_wrong, 4, 0, TEST_ALONE),
    CASE(a_label_can_be_wrong, 4, 0, TEST_ALONE),
    CASE(a_hash_of_no_team_is_a_mismatch, 4, 0, TEST_ALONE),
    CASE(rank_0_evaluates_alone, 4, 0, TEST_ALONE),
    CASE(a_fault_of_all_ranks_is_none, 4),
    CASE(every_fault_counts_the_operations, 4, 0, TEST_ALONE),
    CASE(what_happens_whenever_it_can_happens_once_an_operation),
    CASE(sleeps_spins_and_reads_take_as_long_as_asked),
    CASE(a_slow_phase_takes_longer_by_its_share),
    CASE(a_rank_dies_where_it_is_told_to),
    CASE(one_element_is_spoilt),
    CASE(a_rank_has_fewer_micro_batches),
    CASE(the_environment_can_ask_for_a_fault),
};
TEST_MAIN(cases)
