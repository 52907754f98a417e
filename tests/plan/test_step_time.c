/* The replay of a step's work gives the times that can be computed by hand. */
#include <math.h>
#include <string.h>

#include "plan/step_time.h"
#include "support/test.h"
#include "trace/ring.h"

/* 1 TFLOP/s, 1 GB/s of memory, and a link of 1 GB/s without latency. */
static tess_machine machine_of(tess_machine_kind kind)
{
    tess_machine m = {.machine = {.devices = 8}};
    m.machine.kind = kind;
    m.compute = (tess_machine_compute){.bf16_tflops = 1, .fp32_tflops = 1, .efficiency = 1, .attention_efficiency = 1};
    m.memory = (tess_machine_memory){.gb = 1, .gb_per_s = 1000, .efficiency = 1};
    m.links[TESS_LINK_NVLINK] = (tess_machine_link){.gb_per_s = 1, .efficiency = 1};
    return m;
}

/* Adds a product that takes this many seconds. */
static void add_product(tess_work_trace *t, double seconds)
{
    const tess_call_key key = {.kind = TESS_ROW_gemm, .dtype = TESS_BF16, .flops = seconds * 1e12};
    EXPECT(tess_work_trace_call(t, &key) >= 0);
}

static int add_op(tess_work_trace *t, tess_trace_op kind, int size, int peer, double seconds)
{
    tess_work_team team;
    memset(&team, 0, sizeof(team));
    memcpy(team.name, "axis", 4);
    team.size = size;
    team.stride = 1;
    const tess_work_op op = {.kind = kind, .peer = peer, .bytes = seconds * 1e9};
    return tess_work_trace_issue(t, &team, &op);
}

static void expect_s(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 + 1e-6 * want))
        test_fail(__FILE__, __LINE__, "%.9f s, expected %.9f", got, want);
}

static tess_plan_time time_of(const tess_machine *m, const tess_timed_rank *ranks, int n, int n_ranks)
{
    tess_plan_time time;
    const tess_step_case of = {
        .machine = m, .ranks = ranks, .n = n, .n_ranks = n_ranks, .ranks_a_host = n_ranks, .threads = 1};
    EXPECT_OK(tess_step_time(test_mem(), &of, &time));
    return time;
}

static void gpus_hide_operations_behind_kernels(void)
{
    tess_work_trace t = {.mem = test_mem()};
    const tess_machine m = machine_of(TESS_MACHINE_GPU);
    const int op = add_op(&t, TESS_TRACE_ALL_GATHER, 4, -1, 2);
    add_product(&t, 3);
    tess_work_trace_wait(&t, op);
    const int late = add_op(&t, TESS_TRACE_ALL_GATHER, 4, -1, 2);
    add_product(&t, 0.5);
    tess_work_trace_wait(&t, late);
    const tess_timed_rank rank = {.trace = &t};
    const tess_plan_time time = time_of(&m, &rank, 1, 4);
    expect_s(time.step_s, 5);
    expect_s(time.compute_s, 3.5);
    expect_s(time.exposed_s, 1.5);
    expect_s(time.teams[0].seconds, 4);
    expect_s(time.teams[0].bytes * 1e-9, 4);
    tess_work_trace_free(&t);
}

static void cpus_move_bytes_themselves(void)
{
    tess_work_trace t = {.mem = test_mem()};
    tess_machine m = machine_of(TESS_MACHINE_CPU);
    m.compute.bf16_tflops = 8; /* the peak of a host of 8 cores */
    const int op = add_op(&t, TESS_TRACE_ALL_GATHER, 4, -1, 2);
    add_product(&t, 3);
    tess_work_trace_wait(&t, op);
    const tess_timed_rank rank = {.trace = &t};
    const tess_plan_time time = time_of(&m, &rank, 1, 4);
    expect_s(time.step_s, 5);
    expect_s(time.exposed_s, 2);
    m.machine.devices = 2; /* four ranks take turns on two cores, which are as fast */
    m.compute.bf16_tflops = 2;
    expect_s(time_of(&m, &rank, 1, 4).step_s, 10);
    tess_work_trace_free(&t);
}

/* GPipe with two stages and two micro-batches: one slot of four is idle in each direction. */
static void a_pipeline_waits_for_its_messages(void)
{
    tess_work_trace first = {.mem = test_mem()}, last = {.mem = test_mem()};
    const tess_machine m = machine_of(TESS_MACHINE_GPU);
    for (int i = 0; i < 2; i++) {
        add_product(&first, 1);
        add_op(&first, TESS_TRACE_SEND, 2, 1, 0);
    }
    for (int i = 0; i < 2; i++) {
        tess_work_trace_wait(&first, add_op(&first, TESS_TRACE_RECV, 2, 1, 0));
        add_product(&first, 2);
    }
    for (int i = 0; i < 2; i++) {
        tess_work_trace_wait(&last, add_op(&last, TESS_TRACE_RECV, 2, 0, 0));
        add_product(&last, 1);
    }
    for (int i = 0; i < 2; i++) {
        add_product(&last, 2);
        add_op(&last, TESS_TRACE_SEND, 2, 0, 0);
    }
    const tess_timed_rank ranks[] = {{0, &first}, {1, &last}};
    const tess_plan_time time = time_of(&m, ranks, 2, 2);
    expect_s(time.step_s, 9);
    expect_s(time.compute_s, 6);
    expect_s(time.bubble_s, 3);
    tess_work_trace_free(&first);
    tess_work_trace_free(&last);
}

/* Stages meet when the last of them has come, not one after another. */
static void stages_meet_at_once(void)
{
    tess_work_trace traces[3];
    tess_timed_rank ranks[3];
    const tess_machine m = machine_of(TESS_MACHINE_GPU);
    for (int i = 0; i < 3; i++) {
        traces[i] = (tess_work_trace){.mem = test_mem()};
        add_product(&traces[i], 1 + i);
        tess_work_trace_wait(&traces[i], add_op(&traces[i], TESS_TRACE_ALL_REDUCE, 3, -1, 0));
        add_product(&traces[i], 2);
        ranks[i] = (tess_timed_rank){i, &traces[i]};
    }
    const tess_plan_time time = time_of(&m, ranks, 3, 3);
    expect_s(time.step_s, 5);
    expect_s(time.bubble_s, 0); /* the last rank works most, and waits for none */
    for (int i = 0; i < 3; i++)
        tess_work_trace_free(&traces[i]);
}

/* A hop of a ring takes as long as its message, if nothing hides it. */
static void a_ring_waits_for_its_neighbour(void)
{
    tess_work_trace t = {.mem = test_mem()};
    const tess_machine m = machine_of(TESS_MACHINE_GPU);
    add_op(&t, TESS_TRACE_SEND, 4, 1, 2);
    const int hop = add_op(&t, TESS_TRACE_RECV, 4, 3, 2);
    add_product(&t, 0.5);
    tess_work_trace_wait(&t, hop);
    const tess_timed_rank rank = {.trace = &t};
    const tess_plan_time time = time_of(&m, &rank, 1, 4);
    expect_s(time.step_s, 2);
    tess_work_trace_free(&t);
}

/* If each pair has a link of its own, a message has one of them, and a team of four three. */
static void links_of_pairs_limit_small_teams(void)
{
    tess_work_trace t = {.mem = test_mem()};
    tess_machine m = machine_of(TESS_MACHINE_GPU);
    m.links[TESS_LINK_NVLINK].gb_per_s_peer = 0.25;
    tess_work_trace_wait(&t, add_op(&t, TESS_TRACE_ALL_GATHER, 4, -1, 3));
    tess_work_trace_wait(&t, add_op(&t, TESS_TRACE_ALL_GATHER, 2, -1, 1));
    const tess_timed_rank rank = {.trace = &t};
    expect_s(time_of(&m, &rank, 1, 8).step_s, 3 / 0.75 + 1 / 0.25);
    tess_work_trace_free(&t);
}

static void equal_calls_are_one_entry(void)
{
    tess_work_trace t = {.mem = test_mem()};
    for (int i = 0; i < 5000; i++)
        add_product(&t, 1 + i % 1000);
    EXPECT_INT(t.n_calls, 1000);
    EXPECT_INT(t.n_events, 5000);
    EXPECT_INT(t.calls[999].n, 5);
    tess_work_trace_free(&t);
}

static void measured_times_replace_the_data_sheet(void)
{
    tess_kernel_times times = {.mem = test_mem()};
    tess_machine m = machine_of(TESS_MACHINE_CPU);
    bool measured, by_compute, exact;
    tess_kernel_time row = {.threads = 1, .seconds = 0.25};
    row.key =
        (tess_call_key){.kind = TESS_ROW_gemm, .dtype = TESS_BF16, .size = {8, 8, 8, 8}, .bytes = 1, .flops = 1e9};
    EXPECT_OK(tess_kernel_times_add(&times, &row));
    m.times = &times;
    expect_s(tess_call_time(&m, &row.key, 1, 1, &measured, &by_compute), 0.25);
    EXPECT(measured);
    tess_call_key twice = row.key;
    twice.size[0] = 16;
    twice.flops *= 2;
    expect_s(tess_kernel_times_find(&times, &twice, 1, &exact), 0.5);
    EXPECT(!exact);
    expect_s(tess_kernel_times_find(&times, &row.key, 2, &exact), 0.125);
    twice.dtype = TESS_F32;
    EXPECT(tess_kernel_times_find(&times, &twice, 1, &exact) == 0);
    tess_kernel_times_free(&times);
}

static double product_s(const tess_machine *m, int kind, int dtype)
{
    bool measured, by_compute;
    const tess_call_key key = {.kind = kind, .dtype = dtype, .flops = 1e12};
    return tess_call_time(m, &key, 1, 1, &measured, &by_compute);
}

/* Attention and float32 operands stay at the peaks of their own dtypes. */
static void products_in_fp8_have_its_peak(void)
{
    tess_machine m = machine_of(TESS_MACHINE_GPU);
    m.compute.bf16_tflops = 2;
    m.compute.fp8_tflops = 4;
    expect_s(product_s(&m, TESS_ROW_gemm, TESS_BF16), 0.5);
    m.fp8_products = true;
    expect_s(product_s(&m, TESS_ROW_gemm, TESS_BF16), 0.25);
    expect_s(product_s(&m, TESS_ROW_gemm_grouped, TESS_BF16), 0.25);
    expect_s(product_s(&m, TESS_ROW_gemm, TESS_F32), 1);
    expect_s(product_s(&m, TESS_ROW_attention_forward, TESS_BF16), 0.5);
    m.compute.fp32_tflops = 0;
    expect_s(tess_machine_product_tflops(&m, true), 4);
}

static void times_are_the_same_after_they_are_stored(void)
{
    char path[512];
    tess_kernel_times times = {.mem = test_mem(), .machine = "a machine", .flops_bf16 = 3e12},
                      again = {.mem = test_mem()};
    tess_kernel_time row = {.threads = 2, .seconds = 1.0 / 3};
    row.key = (tess_call_key){.kind = TESS_CALL_FILL, .size = {7}, .bytes = 7};
    EXPECT_OK(tess_kernel_times_add(&times, &row));
    EXPECT_OK(tess_kernel_times_add_op(&times, &(tess_op_time){TESS_TRACE_ALL_REDUCE, 2, 1e3, 1e-5}));
    EXPECT_OK(tess_kernel_times_add_op(&times, &(tess_op_time){TESS_TRACE_ALL_REDUCE, 2, 3e3, 3e-5}));
    EXPECT_OK(tess_kernel_times_correct(&times, &(tess_step_correction){5, 1.5}));
    snprintf(path, sizeof(path), "%s/times.json", test_folder());
    EXPECT_OK(tess_kernel_times_save(&times, path));
    EXPECT_OK(tess_kernel_times_load(&again, path));
    EXPECT(memcmp(&again.calls[0], &times.calls[0], sizeof(row)) == 0);
    expect_s(tess_kernel_times_find_op(&again, TESS_TRACE_ALL_REDUCE, 2, 2e3), 2e-5);
    expect_s(tess_kernel_times_factor(&again, 5), 1.5);
    expect_s(tess_kernel_times_factor(&again, 6), 1);
    tess_kernel_times_free(&times);
    tess_kernel_times_free(&again);
}

static void formulas_of_failures(void)
{
    expect_s(tess_save_interval(60, 86400),
             sqrt(2 * 60 * 86400.0) * (1 + sqrt(60 / 172800.0) / 3 + 60 / 172800.0 / 9) - 60);
    expect_s(tess_save_interval(3, 1), 1); /* saves take longer than failures are apart */
    expect_s(tess_goodput(0, 0, 0, 0), 1);
    expect_s(tess_goodput(10, 90, 0, 0), 0.9);
    expect_s(tess_goodput(0, 100, 1000, 50), 0.9);
}

/* ---- The time line ---- */
static void spans_of_a_kind_join_and_columns_show_what_fills_most(void)
{
    enum { FORWARD = TESS_PHASE_FORWARD, MANY = 3 * TESS_SPAN_COLUMNS };
    tess_step_spans s = {.mem = test_mem(), .n_rows = 2};
    uint8_t kinds[TESS_SPAN_COLUMNS];
    tess_step_spans_add(&s, &(tess_step_span){0, FORWARD, 0, 1});
    tess_step_spans_add(&s, &(tess_step_span){1, TESS_SPAN_WAIT, 0, 2});
    tess_step_spans_add(&s, &(tess_step_span){0, FORWARD, 1, 3});
    tess_step_spans_add(&s, &(tess_step_span){0, TESS_SPAN_WAIT, 3, 3}); /* it takes no time */
    EXPECT_INT(s.n, 2);
    EXPECT(s.spans[0].end_s == 3 && tess_step_spans_end(&s) == 3);
    tess_step_spans_columns(&s, 1, kinds);
    for (int c = 0; c < TESS_SPAN_COLUMNS; c++)
        EXPECT_INT(kinds[c], c < TESS_SPAN_COLUMNS * 2 / 3 ? TESS_SPAN_WAIT : TESS_SPAN_BUBBLE);
    EXPECT_OK(tess_step_spans_coarsen(&s));
    EXPECT_INT(s.n, 2); /* few spans stay */
    /* The second of three spans in each column is the longest. The first third of the row is whole. */
    for (int i = 0; i < MANY; i++)
        tess_step_spans_add(&s,
                            &(tess_step_span){0,
                                              i % 3 == 1   ? TESS_PHASE_BACKWARD
                                              : i % 3 == 2 ? FORWARD
                                                           : TESS_SPAN_WAIT,
                                              3 + (i / 3 + (double[]){0, 0.1, 0.8}[i % 3]) * 6 / TESS_SPAN_COLUMNS,
                                              3 + (i / 3 + (double[]){0.1, 0.8, 1}[i % 3]) * 6 / TESS_SPAN_COLUMNS});
    EXPECT_OK(tess_step_spans_coarsen(&s));
    EXPECT_INT(s.spans[0].kind, FORWARD);
    EXPECT(s.spans[0].end_s == 3 && s.spans[1].begin_s == 3 && s.n <= 2 * TESS_SPAN_COLUMNS);
    for (size_t i = 1; i < s.n; i++)
        EXPECT(s.spans[i].row == 1 || (s.spans[i].kind == TESS_PHASE_BACKWARD && s.spans[i].end_s > 8.99));
    EXPECT(tess_step_spans_end(&s) > 8.99);
    tess_step_spans_free(&s);
}

static const test_case cases[] = {
    CASE(gpus_hide_operations_behind_kernels),
    CASE(cpus_move_bytes_themselves),
    CASE(a_pipeline_waits_for_its_messages),
    CASE(stages_meet_at_once),
    CASE(a_ring_waits_for_its_neighbour),
    CASE(links_of_pairs_limit_small_teams),
    CASE(equal_calls_are_one_entry),
    CASE(measured_times_replace_the_data_sheet),
    CASE(products_in_fp8_have_its_peak),
    CASE(times_are_the_same_after_they_are_stored),
    CASE(formulas_of_failures),
    CASE(spans_of_a_kind_join_and_columns_show_what_fills_most),
};
TEST_MAIN(cases)
