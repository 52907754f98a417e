/* The device of NVIDIA GPUs, with a driver that plays one in the host's memory, and rows that were compiled for the
 * host: memory, queues, events, bits, and what becomes of each error. No GPU is needed, and none is used. */
#include "far_test.h"

#include <stdlib.h>
#include <time.h>

#include "device/cuda/cuda_driver.h"
#include "device/stream_impl.h"

static tess_device *open_cuda(const char *fake)
{
    tess_device *d;
    EXPECT_INT(setenv("CUDA_FAKE", fake, 1), 0);
    EXPECT_OK(tess_device_open(test_mem(), "cuda", 0, &d));
    return d;
}

static tess_stream *stream_of(tess_device *d)
{
    tess_stream *s;
    EXPECT_OK(tess_device_stream(d, 2, "avx2", &s));
    return s;
}

static void close_all(tess_device **d, tess_stream **s)
{
    tess_stream_destroy(s);
    EXPECT_INT(tess_device_close(d), 0);
}

/* ---- Rows ---- */
/* Rows [first, last) on fresh operands; their bytes afterwards. */
static char *compute(const char *device, int first, int last, const far_shape *p)
{
    tess_device *d;
    tess_stream *s;
    void *x[OPERANDS];
    char *bytes = malloc((size_t)OPERANDS * OPERAND_BYTES);
    EXPECT(bytes != NULL);
    EXPECT_OK(tess_device_open(test_mem(), device, 0, &d));
    EXPECT_OK(tess_device_stream(d, 1, "ref", &s));
    for (int i = 0; i < OPERANDS; i++) {
        EXPECT_OK(tess_device_alloc(d, TESS_POOL_ACTIVATIONS, OPERAND_BYTES, "operand", &x[i]));
        draw_operand(i, p->dtype, bytes);
        EXPECT_OK(tess_upload(s, x[i], bytes, OPERAND_BYTES));
    }
    for (int row = first; row < last; row++)
        EXPECT_OK(far_rows_tested[row].call(s, tess_stream_kernels(s), x, p));
    for (int i = 0; i < OPERANDS; i++) {
        EXPECT_OK(tess_fetch(s, bytes + (size_t)i * OPERAND_BYTES, x[i], OPERAND_BYTES));
        tess_device_free(d, x[i]);
    }
    close_all(&d, &s);
    return bytes;
}

static void expect_same_rows(int first, int last, const far_shape *p)
{
    char *want = compute("cpu", first, last, p), *got = compute("cuda", first, last, p), what[128];
    int n_results = first <= 1 && p->dtype == TESS_BF16 ? BYTES : OPERANDS; /* a product's work space is no result */
    for (int i = 0; i < n_results; i++) {
        snprintf(what, sizeof(what), "%s .. %s, T %lld, C %lld, %s: operand %d", far_rows_tested[first].name,
                 far_rows_tested[last - 1].name, (long long)p->T, (long long)p->C, tess_dtype_name(p->dtype), i);
        test_expect_same(__FILE__, __LINE__, what, got + (size_t)i * OPERAND_BYTES, want + (size_t)i * OPERAND_BYTES,
                         OPERAND_BYTES, 1);
    }
    free(want);
    free(got);
}

static void every_row_gives_the_bits_of_ref(void)
{
    const far_shape shapes[] = {
        {0, 3, TESS_F32}, {7, 67, TESS_F32}, {33, 129, TESS_F32}, {7, 67, TESS_BF16}, {33, 129, TESS_BF16}};
    for (int row = 0; row < (int)COUNT(far_rows_tested); row++)
        expect_same_rows(row, row + 1, &shapes[1]);
    for (size_t i = 0; i < COUNT(shapes); i++) {
        expect_same_rows(0, 2, &shapes[i]);
        expect_same_rows(2, (int)COUNT(far_rows_tested), &shapes[i]);
    }
}

static void the_table_is_cuda_and_complete(void)
{
    tess_device *d = open_cuda("devices=1");
    tess_stream *s = stream_of(d);
    EXPECT_TEXT(tess_stream_kernels(s)->name, "cuda");
    EXPECT_INT(tess_threads_count(tess_stream_threads(s)), 2);
    void *rows[sizeof(tess_kernels) / sizeof(void *)];
    memcpy(rows, tess_stream_kernels(s), sizeof(rows));
    for (size_t i = 0; i < COUNT(rows); i++)
        EXPECT(rows[i] != NULL);
    close_all(&d, &s);
}

/* ---- Memory ---- */
static void memory_is_zeroed_counted_and_named(void)
{
    tess_device *d = open_cuda("devices=1,memory=1000000");
    tess_stream *s = stream_of(d);
    const tess_device_properties *p = tess_device_get_properties(d);
    EXPECT_TEXT(p->name, "cuda:0 (Fake GPU A)");
    EXPECT(!p->host_memory && p->peers);
    EXPECT_INT(p->memory_bytes, 1000000);
    char *x, *nothing, back[100];
    EXPECT_OK(tess_device_alloc(d, TESS_POOL_ACTIVATIONS, 100, "x", (void **)&x));
    EXPECT_OK(tess_device_alloc(d, TESS_POOL_ACTIVATIONS, 0, "nothing", (void **)&nothing));
    EXPECT_INT(tess_device_mem_stats(d, TESS_POOL_ACTIVATIONS).bytes, 100);
    EXPECT_INT(tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes, 0);
    memset(back, 1, sizeof(back));
    EXPECT_OK(tess_fetch(s, back, x, 100));
    for (int i = 0; i < 100; i++)
        EXPECT_INT(back[i], 0);
    EXPECT_FAILS(tess_fetch(s, back, x, 101), TESS_E_INVALID, "'x'");
    void *large;
    EXPECT_FAILS(tess_device_alloc(d, TESS_POOL_PARAMS, 2000000, "a unit's parameters", &large), TESS_E_NOMEM,
                 "for a unit's parameters (device cuda:0 (Fake GPU A), pool params");
    EXPECT_CONTAINS(tess_error_message(), "1.91 MiB wanted, 976 KiB of 977 KiB free");
    EXPECT_CONTAINS(tess_error_message(), "training.passes");
    EXPECT_INT(tess_device_mem_stats(d, TESS_POOL_PARAMS).bytes, 0);
    tess_device_free(d, x);
    tess_device_free(d, nothing);
    EXPECT_FAILS(tess_fetch(s, back, x, 100), TESS_E_INVALID, "it was freed");
    close_all(&d, &s);
}

static void pinned_memory_is_whole_pages_and_freed(void)
{
    tess_device *d = open_cuda("devices=1,fail=cuMemHostRegister_v2:4:1");
    const size_t sizes[] = {0, 1, 4097};
    char *x[3], *last;
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(tess_device_alloc_pinned(d, TESS_POOL_COMM, sizes[i], "staging", (void **)&x[i]));
        memset(x[i], 7, sizes[i]);
    }
    size_t bytes = tess_mem_stats(test_mem(), TESS_POOL_COMM).bytes;
    EXPECT(bytes >= 4098);
    EXPECT_OK(
        tess_device_alloc_pinned(d, TESS_POOL_COMM, 1, "staging", (void **)&last)); /* refused, and done without */
    EXPECT(tess_mem_stats(test_mem(), TESS_POOL_COMM).bytes > bytes);
    tess_device_free_pinned(d, last);
    for (int i = 0; i < 3; i++)
        tess_device_free_pinned(d, x[i]);
    tess_device_free_pinned(d, NULL);
    EXPECT_INT(tess_mem_stats(test_mem(), TESS_POOL_COMM).bytes, 0);
    EXPECT_INT(tess_device_close(&d), 0);
}

/* Ranges that two users pin are one; copies need it whole. The driver ends the process if memory is given back that a
 * copy may use. */
static void memory_of_others_is_pinned_once_and_given_back_by_the_last_user(void)
{
    enum { BYTES = 3 * 4096 };
    tess_device *d = open_cuda("devices=1,pageable=8192,fail=cuMemHostRegister_v2:2:304");
    tess_stream *s = stream_of(d);
    char *x, *host = aligned_alloc(4096, 2 * BYTES);
    EXPECT(host != NULL);
    EXPECT_OK(tess_device_alloc(d, TESS_POOL_ACTIVATIONS, BYTES, "x", (void **)&x));
    EXPECT_FAILS(tess_stream_copy(s, x, host, 8192), TESS_E_INTERNAL, "cuda:0 (Fake GPU A): copy");
    EXPECT_OK(tess_stream_copy(s, x, host, 8191));
    EXPECT_OK(tess_device_pin(d, host + 5, BYTES - 7));
    EXPECT_OK(tess_device_pin(d, host + 4096, 1));
    EXPECT_FAILS(tess_device_pin(d, host + 4096, BYTES), TESS_E_INVALID, "are pinned in part");
    EXPECT_FAILS(tess_device_pin(d, host + BYTES, BYTES), TESS_E_INTERNAL,
                 "lock memory of the host for copies: CUDA_ERROR_FAKE (304");
    EXPECT_OK(tess_stream_copy(s, x, host, BYTES));
    EXPECT_FAILS(tess_stream_copy(s, x, host + BYTES - 1, 2), TESS_E_INTERNAL, "copy");
    tess_device_unpin(d, host);
    EXPECT_OK(tess_stream_copy(s, host, x, BYTES));
    tess_device_unpin(d, host);
    EXPECT_FAILS(tess_stream_copy(s, x, host, BYTES), TESS_E_INTERNAL, "copy");
    tess_device_free(d, x);
    close_all(&d, &s);
    free(host);
}

static void work_space_is_memory_of_the_device(void)
{
    tess_device *d = open_cuda("devices=1");
    tess_stream *s = stream_of(d);
    void *small, *large, *outer;
    EXPECT_OK(tess_stream_scratch(s, 1000, &small));
    EXPECT_OK(tess_stream_outer_scratch(s, 50, &outer));
    EXPECT_INT(tess_device_mem_stats(d, TESS_POOL_ACTIVATIONS).bytes, 1050);
    EXPECT_OK(tess_stream_scratch(s, 2000, &large));
    EXPECT_INT(tess_device_mem_stats(d, TESS_POOL_ACTIVATIONS).bytes, 2050);
    EXPECT(tess_device_find(d, large) != NULL && tess_device_find(d, outer) != NULL);
    close_all(&d, &s);
}

/* More uploads than the room for them, at odd sizes; each source changes at once. */
static void uploads_are_consumed_when_they_return(void)
{
    enum { N = 300000, STEP = 70001 };
    tess_device *d = open_cuda("devices=1");
    tess_stream *s = stream_of(d);
    char *x, *from = malloc(N), *back = malloc(N);
    EXPECT(from != NULL && back != NULL);
    EXPECT_OK(tess_device_alloc(d, TESS_POOL_ACTIVATIONS, N, "x", (void **)&x));
    for (int i = 0; i < N; i++)
        from[i] = (char)(i % 251);
    EXPECT_OK(tess_upload(s, x, from, N));
    EXPECT_OK(tess_fetch(s, back, x, N));
    EXPECT_SAME(back, from, N);
    for (int at = 0; at + STEP <= N; at += STEP) {
        memset(from, at / STEP + 1, STEP);
        EXPECT_OK(tess_upload(s, x + at, from, STEP));
        memset(from, 0, STEP);
    }
    EXPECT_OK(tess_fetch(s, back, x, N));
    for (int i = 0; i < N / STEP * STEP; i++)
        EXPECT_INT(back[i], i / STEP + 1);
    tess_device_free(d, x);
    free(from);
    free(back);
    close_all(&d, &s);
}

static void events_order_streams(void)
{
    tess_device *d = open_cuda("devices=1,fail=cuEventQuery:1:600");
    tess_stream *s = stream_of(d);
    tess_event *e;
    bool done = false;
    EXPECT_OK(tess_event_create(d, &e));
    EXPECT_OK(tess_event_record(e, s));
    EXPECT_OK(tess_event_wait(e, s));
    EXPECT_OK(tess_event_query(e, &done));
    EXPECT(!done);
    for (int i = 0; i < 10000 && !done; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        EXPECT_OK(tess_event_query(e, &done));
    }
    EXPECT(done);
    EXPECT_OK(tess_event_synchronize(e));
    tess_event_destroy(&e);
    close_all(&d, &s);
}

static void timed_events_tell_times(void)
{
    tess_device *d = open_cuda("devices=1"), *host;
    tess_stream *s = stream_of(d);
    tess_event *from, *to;
    double seconds = -1;
    EXPECT_OK(tess_event_create_timed(d, &from));
    EXPECT_OK(tess_event_create_timed(d, &to));
    EXPECT_OK(tess_event_record(from, s));
    EXPECT_OK(tess_event_synchronize(from)); /* a busy machine may begin on the queue after the sleep */
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    EXPECT_OK(tess_event_record(to, s));
    EXPECT_OK(tess_event_synchronize(to));
    EXPECT_OK(tess_event_elapsed(from, to, &seconds));
    EXPECT(seconds > 1e-3 && seconds < 60); /* the GPU's clock is not the host's */
    tess_event_destroy(&from);
    tess_event_destroy(&to);
    close_all(&d, &s);
    EXPECT_OK(tess_device_open(test_mem(), "cpu", 0, &host));
    EXPECT_FAILS(tess_event_create_timed(host, &from), TESS_E_UNSUPPORTED, "tells no times");
    EXPECT_INT(tess_device_close(&host), 0);
}

/* The data sheet of an H100 SXM: 989 TFLOP/s of bf16, 67 of fp32 at its highest clock, 3.35 TB/s. */
static void peaks_are_those_of_the_data_sheet(void)
{
    tess_device *d = open_cuda("devices=1");
    const tess_device_properties *p = tess_device_get_properties(d);
    EXPECT(p->flops_bf16 > 989e12 && p->flops_bf16 < 990e12);
    EXPECT(p->flops_f32 > 66e12 && p->flops_f32 < 67e12);
    EXPECT(p->memory_rate > 3.35e12 && p->memory_rate < 3.36e12);
    EXPECT_INT(tess_device_close(&d), 0);
}

static void a_driver_that_cannot_write_from_a_queue_keeps_no_log(void)
{
    static _Alignas(4096) tess_device_log log;
    tess_device *d = open_cuda("devices=1,fail=cuStreamWriteValue32_v2:2:801");
    tess_stream *s = stream_of(d), *t = stream_of(d);
    tess_device_set_log(d, &log);
    tess_stream_set_name(s, "compute");
    tess_stream_set_name(t, "upload");
    EXPECT(s->log != NULL && t->log == NULL);
    EXPECT_OK(tess_stream_synchronize(t));
    tess_stream_destroy(&t);
    close_all(&d, &s);
}

/* ---- Errors ---- */
static void an_error_of_a_kernel_names_it_and_what_to_do(void)
{
    EXPECT_INT(setenv("CUDA_SHIM_ERROR", "2:9", 1), 0);
    tess_device *d = open_cuda("devices=1,fail=cuStreamSynchronize:3:700");
    tess_stream *s = stream_of(d);
    float *x;
    EXPECT_OK(tess_device_alloc(d, TESS_POOL_ACTIVATIONS, 64, "x", (void **)&x));
    const tess_kernels *k = tess_stream_kernels(s);
    const tess_add_args sum = {.a = x, .b = x, .y = x, .n = 16, .dtype = TESS_F32};
    EXPECT_OK(k->add(s, &sum));
    EXPECT_FAILS(k->add(s, &sum), TESS_E_INTERNAL, "cuda:0 (Fake GPU A): launch add_kernel<float>");
    EXPECT_OK(tess_stream_synchronize(s));
    EXPECT_FAILS(tess_stream_synchronize(s), TESS_E_INTERNAL,
                 "newest kernel add_kernel<float>: cuda:0 (Fake GPU A): wait");
    EXPECT_CONTAINS(tess_error_message(), "CUDA_ERROR_ILLEGAL_ADDRESS (700, ");
    EXPECT_CONTAINS(tess_error_message(), "compute-sanitizer");
    EXPECT_FAILS(tess_stream_copy(s, x, x + 8, 16), TESS_E_INTERNAL, "newest kernel add_kernel<float>: cuda:0");
    tess_device_free(d, x);
    close_all(&d, &s);
}

static void each_error_has_its_status_and_advice(void)
{
    static const struct {
        int error;
        tess_status status;
        const char *advice;
    } cases[] = {
        {2, TESS_E_NOMEM, "training.passes"},
        {46, TESS_E_UNSUPPORTED, "nvidia-smi -c DEFAULT"},
        {209, TESS_E_UNSUPPORTED, "TESS_CUDA_ARCHITECTURES"},
        {214, TESS_E_DEVICE, "nvidia-smi -r"},
        {702, TESS_E_TIMEOUT, "display"},
        {719, TESS_E_INTERNAL, "CUDA_LAUNCH_BLOCKING=1"},
        {803, TESS_E_UNSUPPORTED, "restart the host"},
        {999, TESS_E_DEVICE, "xid"},
        {12345, TESS_E_INTERNAL, "xid"},
    };
    const cuda_driver *cu;
    EXPECT_OK(tess_cuda_driver_open(&cu));
    EXPECT_OK(tess_cuda_check(cu, 0, "cuda:0", "copy"));
    for (size_t i = 0; i < COUNT(cases); i++) {
        EXPECT_FAILS(tess_cuda_check(cu, cases[i].error, "cuda:0", "copy"), cases[i].status, cases[i].advice);
        EXPECT_CONTAINS(tess_error_message(), "cuda:0: copy: ");
    }
}

static void a_failure_in_the_middle_leaves_nothing(void)
{
    tess_device *d = open_cuda("devices=1,fail=cuStreamCreate:1:2");
    tess_stream *s;
    tess_event *e;
    void *x;
    EXPECT_FAILS(tess_device_stream(d, 1, NULL, &s), TESS_E_NOMEM, "create a queue");
    EXPECT_FAILS(tess_device_stream(d, 0, NULL, &s), TESS_E_INVALID, "");
    EXPECT_INT(tess_device_close(&d), 0);
    d = open_cuda("devices=1,fail=cuEventCreate:1:2");
    EXPECT_FAILS(tess_event_create(d, &e), TESS_E_NOMEM, "create an event");
    EXPECT_INT(tess_device_close(&d), 0);
    d = open_cuda("devices=1,fail=cuMemsetD8Async:1:719");
    EXPECT_FAILS(tess_device_alloc(d, TESS_POOL_MISC, 8, "x", &x), TESS_E_INTERNAL, "zero new memory");
    EXPECT_INT(tess_device_mem_stats(d, TESS_POOL_MISC).bytes, 0);
    EXPECT_INT(tess_device_close(&d), 0);
}

/* ---- Opening ---- */
static void expect_refused(const char *fake, const char *visible, const char *name, tess_status status,
                           const char *needle)
{
    tess_device *d;
    EXPECT_INT(setenv("CUDA_FAKE", fake, 1), 0);
    EXPECT_INT(visible != NULL ? setenv("CUDA_VISIBLE_DEVICES", visible, 1) : unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    EXPECT_FAILS(tess_device_open(test_mem(), name, 0, &d), status, needle);
    EXPECT(d == NULL);
}

static void what_a_gpu_lacks_is_named(void)
{
    expect_refused("devices=1,version=12040", NULL, "cuda", TESS_E_UNSUPPORTED,
                   "it supports CUDA 12.4, and the plug-in was built with CUDA 13.0: install driver 580.65 or newer");
    expect_refused("devices=0", NULL, "cuda", TESS_E_NOT_FOUND, "finds no GPU");
    expect_refused("devices=2", "", "cuda", TESS_E_INVALID, "CUDA_VISIBLE_DEVICES is '', with which");
    expect_refused("devices=2", "7", "cuda", TESS_E_INVALID, "CUDA_VISIBLE_DEVICES is '7', with which");
    expect_refused("devices=2", "0,9,1", "cuda", TESS_E_INVALID, "lists 3 GPUs, but only the first 1");
    expect_refused("devices=2", NULL, "cuda:2", TESS_E_INVALID, "this process sees 2 GPUs, numbered from 0");
    expect_refused("devices=1", NULL, "cuda:1", TESS_E_INVALID, "choose cuda:0");
    expect_refused("devices=1", NULL, "cuda:x", TESS_E_INVALID, "write cuda, or cuda:NUMBER");
    expect_refused("devices=1,major=7,minor=5", NULL, "cuda", TESS_E_UNSUPPORTED, "needs an Ampere GPU (8.0)");
    expect_refused("devices=1,major=12", NULL, "cuda", TESS_E_UNSUPPORTED, "(compute capability 12.0; it has sm_80");
    expect_refused("devices=1,major=9,minor=3", NULL, "cuda", TESS_E_UNSUPPORTED, "(compute capability 9.3; it has");
    expect_refused("devices=1,fail=cuDevicePrimaryCtxRetain:1:46", NULL, "cuda", TESS_E_UNSUPPORTED, "to itself");
    expect_refused("devices=1,fail=cuInit:1:803", NULL, "cuda", TESS_E_UNSUPPORTED, "restart the host");
}

static void gpus_are_dealt_out_by_number(void)
{
    static const struct {
        const char *name;
        int number;
        const char *gets;
    } cases[] = {{"cuda", 0, "cuda:0 (Fake GPU A)"},
                 {"cuda", 1, "cuda:1 (Fake GPU B)"},
                 {"cuda", 3, "cuda:0 (Fake GPU A)"},
                 {"cuda", 5, "cuda:2 (Fake GPU C)"},
                 {"cuda:2", 1, "cuda:2 (Fake GPU C)"}};
    EXPECT_INT(setenv("CUDA_FAKE", "devices=3,major=8,minor=6", 1), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        tess_device *d;
        EXPECT_OK(tess_device_open(test_mem(), cases[i].name, cases[i].number, &d));
        EXPECT_TEXT(tess_device_get_properties(d)->name, cases[i].gets);
        EXPECT_INT(tess_device_close(&d), 0);
    }
}

static const test_case cases[] = {
    CASE(every_row_gives_the_bits_of_ref),
    CASE(the_table_is_cuda_and_complete),
    CASE(memory_is_zeroed_counted_and_named),
    CASE(pinned_memory_is_whole_pages_and_freed),
    CASE(memory_of_others_is_pinned_once_and_given_back_by_the_last_user),
    CASE(work_space_is_memory_of_the_device),
    CASE(uploads_are_consumed_when_they_return),
    CASE(events_order_streams),
    CASE(timed_events_tell_times),
    CASE(peaks_are_those_of_the_data_sheet),
    CASE(a_driver_that_cannot_write_from_a_queue_keeps_no_log),
    CASE(an_error_of_a_kernel_names_it_and_what_to_do),
    CASE(each_error_has_its_status_and_advice),
    CASE(a_failure_in_the_middle_leaves_nothing),
    CASE(what_a_gpu_lacks_is_named),
    CASE(gpus_are_dealt_out_by_number),
};

TEST_MAIN(cases)
