/* `tessera bench kernels` measures each hot kernel at the shapes of real models, compared with the machine's limits
 * and with other libraries. */
#include <string.h>

#include "bench/kernels/kernels_impl.h"

enum { DEFAULT_ROUNDS = 5, QUICK_ROUNDS = 2 };

static const kernel_family *const families[] = {&kernels_attention, &kernels_decode, &kernels_rows, &kernels_vocab,
                                                &kernels_parameters};
enum { N_FAMILIES = sizeof(families) / sizeof(families[0]) };

/* ---- The loop ---- */

static tess_status run_subject(void *self)
{
    kernel_operands *o = self;
    return tess_kernel_row_of(o->subject->row)->call(o->kernels, o->stream, &o->args);
}

/* Measures a kernel. A kernel limited by memory runs with cold caches, and once more with warm caches for the column
 * `warm`. */
static tess_status measure(const kernels_bench *bench, const kernel_family *family, kernel_operands *operands,
                           const char *name)
{
    tess_kernel_work work = tess_kernel_work_of(tess_kernel_row_of(operands->subject->row), &operands->args);
    double values[5], units = family->computes ? work.flops : work.bytes;
    int n = 0;
    tess_bench_race race = {.n_sides = 1, .side = {{run_subject, operands}}, .rounds = bench->rounds};
    race.budget_s = family->computes ? 3 : 2;
    kernels_limit peak = operands->shape->dtype == TESS_BF16 ? KERNELS_LIMIT_BF16 : KERNELS_LIMIT_F32;
    kernels_bench_limit(bench, family->computes ? peak : KERNELS_LIMIT_TRIAD, &race);
    TESS_TRY_CTX(tess_bench_race_run(&race), "%s", name);
    int n_rounds = race.n_rounds;
    double seconds = tess_bench_median(race.seconds[0], n_rounds);
    values[n++] = 100 * tess_bench_race_share(&race, units);
    values[n++] = units / seconds / 1e9;
    values[n++] = seconds * 1e3;
    if (!family->computes) {
        kernels_bench_limit(bench, KERNELS_LIMIT_F32, &race);
        TESS_TRY_CTX(tess_bench_race_run(&race), "%s", name);
        values[n++] = tess_bench_median(race.seconds[0], race.n_rounds) * 1e3;
    }
    values[n++] = n_rounds;
    return tess_bench_report_row(bench->report, name, values);
}

static tess_status run_shape(const kernels_bench *bench, const kernel_family *family, const kernel_shape *shape)
{
    for (const kernel_subject *subject = shape->subjects; subject->name != NULL; subject++) {
        char name[128];
        kernel_operands operands = {
            .stream = bench->stream, .kernels = tess_stream_kernels(bench->stream), .shape = shape, .subject = subject};
        family->name(subject, shape, name, sizeof(name));
        if (!tess_bench_wanted(bench->options, name))
            continue;
        tess_status status = kernels_bench_create(bench, &operands);
        if (status == TESS_OK)
            status = measure(bench, family, &operands, name);
        kernels_bench_release(bench, operands.x, KERNEL_MAX_OPERANDS);
        TESS_TRY(status);
    }
    return TESS_OK;
}

static tess_status run_family(const kernels_bench *bench, const kernel_family *family)
{
    TESS_TRY(tess_bench_report_table(bench->report, family->title,
                                     family->computes ? ">limit[% peak], rate[GFLOP/s], time[ms], runs"
                                                      : ">limit[% triad], rate[GB/s], time[ms], warm[ms], runs"));
    for (int i = 0; i < family->n_shapes; i++)
        if (bench->options->common.quick == family->shapes[i].quick)
            TESS_TRY(run_shape(bench, family, &family->shapes[i]));
    return TESS_OK;
}

/* ---- Rows that no family has ---- */
static bool in_families(tess_kernel_row_id row)
{
    for (size_t f = 0; f < N_FAMILIES; f++)
        for (int i = 0; i < families[f]->n_shapes; i++)
            for (const kernel_subject *u = families[f]->shapes[i].subjects; u->name != NULL; u++)
                if (u->row == row)
                    return true;
    return false;
}

/* Repeats the example until its operands have `bytes`. A device may lack a row. */
static tess_status run_example(const kernels_bench *bench, tess_kernel_row_id id, size_t bytes)
{
    const tess_kernel_row *row = tess_kernel_row_of(id);
    kernel_subject subjects[2] = {{.name = row->name, .row = id, .T = row->operands[0].rows.of[0]}, {.name = NULL}};
    int64_t of_example = 0;
    memcpy(&subjects[0].args, row->example, row->args_bytes);
    for (int i = 0; i < row->n_operands; i++)
        of_example += tess_operand_elements(row->example, &row->operands[i]) *
                      (int64_t)tess_dtype_size(tess_operand_dtype(row->example, &row->operands[i]));
    const tess_kernel_size first = {.of = {subjects[0].T}};
    const kernel_shape shape = {.subjects = subjects,
                                .dtype = TESS_BF16,
                                .T = tess_kernel_size_of(row->example, first) * ((int64_t)bytes / of_example + 1),
                                .C = 1};
    tess_status status = run_shape(bench, &kernels_others, &shape);
    return status == TESS_E_UNSUPPORTED ? TESS_OK : status;
}

static tess_status run_others(const kernels_bench *bench)
{
    TESS_TRY(run_family(bench, &kernels_others)); /* its table, without rows */
    for (int id = 0; id < TESS_KERNEL_ROW_COUNT; id++)
        if (!in_families((tess_kernel_row_id)id) && tess_kernel_has_example(tess_kernel_row_of((tess_kernel_row_id)id)))
            TESS_TRY(run_example(bench, (tess_kernel_row_id)id, bench->options->common.quick ? 1 << 18 : 64 << 20));
    return TESS_OK;
}

/* ---- The bench ---- */

static tess_status facts_of_device(const kernels_bench *bench)
{
    const tess_device_properties *p = tess_device_get_properties(bench->apart->device);
    TESS_TRY(tess_bench_report_fact(bench->report, "device", "%s, kernels %s, timed by %s", p->name,
                                    tess_stream_kernels(bench->stream)->name,
                                    bench->apart->from != NULL ? "its own events" : "the host"));
    return tess_bench_report_fact(bench->report, "stated",
                                  "%.1f TFLOP/s in bf16, %.1f in fp32, %.2f TB/s; a row that moves bytes is compared "
                                  "with a copy in its memory",
                                  p->flops_bf16 * 1e-12, p->flops_f32 * 1e-12, p->memory_rate * 1e-12);
}

static tess_status facts_of_host(const kernels_bench *bench)
{
    TESS_TRY(
        tess_bench_report_fact(bench->report, "threads", "%d", tess_threads_count(tess_stream_threads(bench->stream))));
    return tess_bench_report_fact(bench->report, "peers", "%s",
                                  bench->peers != NULL ? bench->peers->versions
                                                       : "none: libtessera_bench_peers.so is not there");
}

static tess_status run_with(const kernels_bench *bench)
{
    TESS_TRY(bench->apart->device != NULL ? facts_of_device(bench) : facts_of_host(bench));
    TESS_TRY(kernels_bench_gemm(bench));
    for (size_t i = 0; i < N_FAMILIES; i++)
        TESS_TRY(run_family(bench, families[i]));
    return run_others(bench);
}

static tess_status run_on_host(kernels_bench *bench)
{
    const tess_bench_options *options = bench->options;
    int n_threads = tess_bench_threads(options);
    const char *table = options->common.table[0] != '\0' ? options->common.table : NULL;
    TESS_TRY(tess_stream_create(bench->mem, n_threads, table, &bench->stream));
    /* Size of arrays that evict a kernel's operands from the caches. */
    size_t l3 = 2 * tess_bench_cache_bytes(3), least = (size_t)64 << 20;
    size_t bytes = options->common.quick ? 4 << 20 : l3 > least ? l3 : least;
    tess_status status = tess_bench_arrays_create(bench->mem, n_threads, bytes, &bench->arrays);
    bench->peers = tess_bench_peers_open(tess_stream_kernels(bench->stream)->name);
    if (bench->peers != NULL)
        bench->peers->set_threads(n_threads);
    if (status == TESS_OK)
        status = run_with(bench);
    tess_bench_arrays_destroy(&bench->arrays);
    tess_stream_destroy(&bench->stream);
    return status;
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    TESS_AUTO(kernels_apart_close) kernels_apart apart = {0};
    kernels_bench bench = {.mem = mem, .options = options, .report = report, .apart = &apart};
    bench.rounds = tess_bench_rounds(options, DEFAULT_ROUNDS, QUICK_ROUNDS);
    TESS_TRY(kernels_apart_open(&apart, mem, options));
    bench.stream = apart.stream;
    return apart.device != NULL ? run_with(&bench) : run_on_host(&bench);
}

const tess_bench tess_bench_kernels = {
    "kernels", "hot kernels at the shapes of GPT-2 and Llama: % of the machine, ratio to oneDNN and OpenBLAS", run,
    NULL};
