/* The far device: every row gives the CPU's bits through a queue with random delays, and what a GPU would not forgive
 * is found: a host that reads in place, a wait that is missing, memory that was freed. */
#include "device/far/far_impl.h"
#include "device/undo.h"
#include "far_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static tess_device *open_far(const char *delays)
{
    tess_device *d;
    EXPECT_INT(setenv("TESSERA_FAR_DELAYS", delays, 1), 0);
    EXPECT_OK(tess_device_open(test_mem(), "far", 0, &d));
    return d;
}

static void *new_on(tess_device *d, size_t bytes, const char *what)
{
    void *x;
    EXPECT_OK(tess_device_alloc(d, TESS_POOL_ACTIVATIONS, bytes, what, &x));
    return x;
}

/* ---- Rows ---- */
/* Rows [first, last) one after the other without a wait, on fresh operands; their bytes afterwards. */
static char *compute(const char *device, int first, int last, const far_shape *p)
{
    tess_device *d;
    tess_stream *s;
    void *x[OPERANDS];
    char *bytes = malloc((size_t)OPERANDS * OPERAND_BYTES);
    EXPECT(bytes != NULL);
    EXPECT_OK(tess_device_open(test_mem(), device, 0, &d));
    EXPECT_OK(tess_device_stream(d, 2, NULL, &s));
    for (int i = 0; i < OPERANDS; i++) {
        x[i] = new_on(d, OPERAND_BYTES, "operand");
        draw_operand(i, p->dtype, bytes);
        EXPECT_OK(tess_upload(s, x[i], bytes, OPERAND_BYTES));
    }
    for (int row = first; row < last; row++)
        EXPECT_OK(far_rows_tested[row].call(s, tess_stream_kernels(s), x, p));
    for (int i = 0; i < OPERANDS; i++) {
        EXPECT_OK(tess_fetch(s, bytes + (size_t)i * OPERAND_BYTES, x[i], OPERAND_BYTES));
        tess_device_free(d, x[i]);
    }
    tess_stream_destroy(&s);
    EXPECT_INT(tess_device_close(&d), 0);
    return bytes;
}

static void expect_same_rows(int first, int last, const far_shape *p)
{
    char *want = compute("cpu", first, last, p), *got = compute("far", first, last, p), what[128];
    for (int i = 0; i < OPERANDS; i++) {
        snprintf(what, sizeof(what), "%s .. %s, T %lld, C %lld, %s: operand %d", far_rows_tested[first].name,
                 far_rows_tested[last - 1].name, (long long)p->T, (long long)p->C, tess_dtype_name(p->dtype), i);
        test_expect_same(__FILE__, __LINE__, what, got + (size_t)i * OPERAND_BYTES, want + (size_t)i * OPERAND_BYTES,
                         OPERAND_BYTES, 1);
    }
    free(want);
    free(got);
}

static const far_shape shapes[] = {{0, 3, TESS_F32},  {1, 1, TESS_F32},  {7, 67, TESS_F32},  {33, 129, TESS_F32},
                                   {0, 3, TESS_BF16}, {1, 1, TESS_BF16}, {7, 67, TESS_BF16}, {33, 129, TESS_BF16}};

static void every_row_gives_the_bits_of_the_cpu(void)
{
    EXPECT_INT(setenv("TESSERA_FAR_DELAYS", "11:300", 1), 0);
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int row = 0; row < (int)COUNT(far_rows_tested); row++)
            expect_same_rows(row, row + 1, &shapes[i]);
}

static void all_rows_in_one_queue_give_the_bits_of_the_cpu(void)
{
    const char *const delays[] = {"1:1000", "2:1000", "3:0"};
    for (size_t d = 0; d < COUNT(delays); d++) {
        EXPECT_INT(setenv("TESSERA_FAR_DELAYS", delays[d], 1), 0);
        for (size_t i = 0; i < COUNT(shapes); i++)
            expect_same_rows(0, (int)COUNT(far_rows_tested), &shapes[i]);
    }
}

static void the_table_is_complete_and_named_after_its_kernels(void)
{
    tess_device *d = open_far("");
    tess_stream *s, *host;
    EXPECT_OK(tess_device_stream(d, 1, NULL, &s));
    EXPECT_OK(tess_stream_create(test_mem(), 1, NULL, &host));
    EXPECT_TEXT(tess_stream_kernels(s)->name, tess_stream_kernels(host)->name);
    void *rows[2][sizeof(tess_kernels) / sizeof(void *)];
    memcpy(rows[0], tess_stream_kernels(s), sizeof(rows[0]));
    memcpy(rows[1], tess_stream_kernels(host), sizeof(rows[1]));
    int n_shared = 0;
    for (size_t r = 0; r < COUNT(rows[0]); r++) {
        EXPECT(rows[0][r] != NULL);
        n_shared += rows[0][r] == rows[1][r];
    }
    EXPECT_INT(n_shared, 7); /* name, plain, three rows of moments, two peaks: every other row is enqueued */
    tess_stream_destroy(&s);
    tess_stream_destroy(&host);
    EXPECT_INT(tess_device_close(&d), 0);
}

/* ---- Order ---- */
/* One stream fills x slowly, the other copies it; `waits`: after an event. Returns what the copy saw. */
static int seen_by_another_stream(const char *delays, bool waits)
{
    enum { STEPS = 8, N = 100 };
    tess_device *d = open_far(delays);
    tess_stream *writer, *reader;
    tess_event *written;
    EXPECT_OK(tess_device_stream(d, 1, "ref", &writer));
    EXPECT_OK(tess_device_stream(d, 1, "ref", &reader));
    EXPECT_OK(tess_event_create(d, &written));
    char *x = new_on(d, N, "x"), *y = new_on(d, N, "y"), seen[N];
    for (int i = 1; i <= STEPS; i++)
        EXPECT_OK(tess_stream_fill(writer, x, i, N));
    EXPECT_OK(tess_event_record(written, writer));
    if (waits)
        EXPECT_OK(tess_event_wait(written, reader));
    EXPECT_OK(tess_stream_kernels(reader)->copy(reader, &(tess_copy_args){.to = y, .from = x, .bytes = N}));
    EXPECT_OK(tess_fetch(reader, seen, y, N));
    bool done = false;
    EXPECT_OK(tess_event_synchronize(written));
    EXPECT_OK(tess_event_query(written, &done));
    EXPECT(done);
    tess_event_destroy(&written);
    tess_device_free(d, x);
    tess_device_free(d, y);
    tess_stream_destroy(&writer);
    tess_stream_destroy(&reader);
    EXPECT_INT(tess_device_close(&d), 0);
    return seen[N - 1] == STEPS ? 1 : 0;
}

static void an_event_orders_two_streams_and_its_absence_is_found(void)
{
    char delays[32];
    int n_right = 0;
    for (int seed = 0; seed < 6; seed++) {
        snprintf(delays, sizeof(delays), "%d:10000", seed);
        EXPECT_INT(seen_by_another_stream(delays, true), 1);
#if !defined(__SANITIZE_THREAD__) /* TSan calls it a race, rightly */
        n_right += seen_by_another_stream(delays, false);
#endif
    }
    EXPECT(n_right < 6); /* the missing wait shows */
}

static void a_copy_to_the_host_is_there_after_a_wait_alone(void)
{
    tess_device *d = open_far("5:0");
    tess_stream *s;
    tess_event *open;
    EXPECT_OK(tess_device_stream(d, 1, "ref", &s));
    EXPECT_OK(tess_event_create(d, &open));
    int *x = new_on(d, 4, "x"), *host, was;
    EXPECT_OK(tess_device_alloc_pinned(d, TESS_POOL_COMM, 4, "staging", (void **)&host));
    EXPECT_OK(tess_stream_fill(s, x, 7, 4));
    EXPECT_OK(tess_stream_copy(s, host, x, 4));
    EXPECT_OK(tess_event_record(open, s));
    bool done = false;
    EXPECT_OK(tess_event_synchronize(open));
    EXPECT_OK(tess_event_query(open, &done));
    EXPECT(done);
    EXPECT_INT(*host, 0x07070707);
    *host = 1;
    EXPECT_OK(tess_upload(s, x, host, 4));
    *host = 2; /* an upload has consumed it */
    EXPECT_OK(tess_fetch(s, &was, x, 4));
    EXPECT_INT(was, 1);
    tess_event_destroy(&open);
    tess_device_free(d, x);
    tess_device_free_pinned(d, host);
    tess_stream_destroy(&s);
    EXPECT_INT(tess_device_close(&d), 0);
}

/* ---- Misuse ---- */
static void read_on_host(tess_device *d)
{
    char *x = new_on(d, 5000, "saved activations");
    volatile char value = x[4097];
    (void)value;
}

static void use_after_free(tess_device *d)
{
    tess_stream *s;
    float *x = new_on(d, 5000, "saved activations");
    EXPECT_OK(tess_device_stream(d, 1, "ref", &s));
    tess_device_free(d, x);
    EXPECT_OK(tess_stream_kernels(s)->add(s, &(tess_add_args){.a = x, .b = x, .y = x, .n = 9, .dtype = TESS_F32}));
    EXPECT_OK(tess_stream_synchronize(s));
}

/* Runs in a process that must die of it, with a message. */
static void expect_death(void (*deed)(tess_device *), const char *needle)
{
    int ends[2];
    EXPECT_INT(pipe(ends), 0);
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        deed(open_far(""));
        _exit(0);
    }
    close(ends[1]);
    char text[4096];
    size_t n = 0;
    for (ssize_t got; n < sizeof(text) - 1 && (got = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    close(ends[0]);
    int state;
    EXPECT_INT(waitpid(pid, &state, 0), pid);
    if (WIFSIGNALED(state))
        EXPECT_INT(WTERMSIG(state), SIGSEGV);
    else
        EXPECT(WEXITSTATUS(state) != 0); /* a sanitizer reports and exits */
    EXPECT_CONTAINS(text, needle);
}

static void a_host_that_reads_in_place_dies_with_a_message(void)
{
    expect_death(read_on_host, "the host touched memory of device far; fetch the value with tess_fetch: byte 4097 of "
                               "'saved activations' (5000 bytes)");
}

static void a_kernel_on_freed_memory_dies_with_a_message(void)
{
    expect_death(use_after_free, "a kernel touched freed memory of device far; free it later: byte 0 of 'saved "
                                 "activations' (5000 bytes, freed)");
}

static void bad_input_is_named(void)
{
    tess_device *d = open_far("");
    tess_stream *s;
    float host[4] = {1, 2, 3, 4};
    EXPECT_OK(tess_device_stream(d, 1, "ref", &s));
    const tess_kernels *k = tess_stream_kernels(s);
    float *x = new_on(d, 16, "logits"), *gone = new_on(d, 16, "old logits");
    EXPECT_FAILS(k->add(s, &(tess_add_args){.a = host, .b = x, .y = x, .n = 4, .dtype = TESS_F32}), TESS_E_INVALID,
                 "add: 0x");
    EXPECT_FAILS(k->add(s, &(tess_add_args){.a = x, .b = x, .y = host, .n = 4, .dtype = TESS_F32}), TESS_E_INVALID,
                 "is not memory of device far");
    const void *in[1] = {host};
    void *out[1] = {x};
    const tess_reduction r = {.x = in, .n_inputs = 1, .divisor = 1, .y = out, .n_outputs = 1, .n = 4};
    EXPECT_FAILS(k->reduce(s, &r), TESS_E_INVALID, "reduce: 0x");
    tess_undo undo;
    tess_adamw_update u = {.p = x, .m = x, .v = x, .g = x, .undo = &undo};
    EXPECT_FAILS(k->adamw(s, &u), TESS_E_UNSUPPORTED, "written by the host alone");
    tess_device_free(d, gone);
    EXPECT_FAILS(tess_fetch(s, host, gone, 16), TESS_E_INVALID,
                 "fetch of 16 bytes of 'old logits' (device far, 16 bytes, pool activations): it was freed");
    EXPECT_FAILS(tess_fetch(s, host, x + 2, 12), TESS_E_INVALID, "12 bytes from byte 8 of 'logits'");
    EXPECT_FAILS(tess_fetch(s, host, host, 4), TESS_E_INVALID, "no memory of device far");
    EXPECT_FAILS(tess_upload(s, gone, host, 4), TESS_E_INVALID, "it was freed");
    void *huge;
    EXPECT_FAILS(tess_device_alloc(d, TESS_POOL_PARAMS, (size_t)1 << 40, "a model", &huge), TESS_E_NOMEM,
                 "1099511627776 bytes for a model (device far, pool params");
    EXPECT_INT(tess_device_mem_stats(d, TESS_POOL_ACTIVATIONS).bytes, 16);
    tess_device_free(d, x);
    EXPECT_INT(tess_device_mem_stats(d, TESS_POOL_ACTIVATIONS).bytes, 0);
    EXPECT_INT(tess_device_mem_stats(d, TESS_POOL_ACTIVATIONS).peak_bytes, 32);
    tess_stream_destroy(&s);
    new_on(d, 3, "forgotten");
    EXPECT_INT(tess_device_close(&d), 1);
    EXPECT_INT(setenv("TESSERA_FAR_DELAYS", "often", 1), 0);
    EXPECT_FAILS(tess_device_open(test_mem(), "far", 0, &d), TESS_E_INVALID, "'often' is not SEED:MICROSECONDS");
    EXPECT_INT(setenv("TESSERA_FAR_DELAYS", "", 1), 0);
    EXPECT_INT(setenv("TESSERA_DEVICE", "far", 1), 0);
    EXPECT_OK(tess_device_open(test_mem(), NULL, 0, &d));
    EXPECT_TEXT(tess_device_get_properties(d)->name, "far");
    EXPECT_INT(tess_device_close(&d), 0);
}

static void an_error_in_the_queue_comes_with_the_next_wait(void)
{
    tess_device *d = open_far("");
    tess_stream *s;
    EXPECT_OK(tess_device_stream(d, 1, "ref", &s));
    const tess_kernels *k = tess_stream_kernels(s);
    float *x = new_on(d, 16, "x"), host[4] = {1, 2, 3, 4};
    const tess_add_args doubled = {.a = x, .b = x, .y = x, .n = 4, .dtype = TESS_F32};
    EXPECT_OK(tess_upload(s, x, host, 16));
    EXPECT_OK(k->add(s, &(tess_add_args){.a = x, .b = x, .y = x, .n = 4, .dtype = TESS_U8}));
    EXPECT_OK(k->add(s, &doubled)); /* dropped */
    EXPECT_FAILS(tess_stream_synchronize(s), TESS_E_UNSUPPORTED, "add on a queue: ");
    EXPECT_OK(tess_fetch(s, host, x, 16));
    EXPECT(host[3] == 4);
    EXPECT_OK(k->add(s, &doubled));
    EXPECT_OK(tess_fetch(s, host, x, 16));
    EXPECT(host[3] == 8);
    tess_device_free(d, x);
    tess_stream_destroy(&s);
    EXPECT_INT(tess_device_close(&d), 0);
}

static void peers_see_the_same_memory(void)
{
    enum { N = 5000 };
    tess_device *mine = open_far(""), *theirs = open_far("");
    tess_stream *s, *t;
    EXPECT_OK(tess_device_stream(mine, 1, "ref", &s));
    EXPECT_OK(tess_device_stream(theirs, 1, "ref", &t));
    new_on(theirs, 1, "other");
    char *x = new_on(mine, N, "window"), host[N];
    tess_peer_handle handle;
    void *seen;
    EXPECT_OK(tess_stream_fill(s, x, 9, N));
    EXPECT_OK(tess_stream_synchronize(s));
    EXPECT_OK(tess_peer_export(mine, x, &handle));
    EXPECT_FAILS(tess_peer_import(theirs, &handle, N - 1, &seen), TESS_E_INVALID, "it exported 5000 bytes");
    EXPECT_OK(tess_peer_import(theirs, &handle, N, &seen));
    EXPECT_OK(tess_fetch(t, host, seen, N));
    EXPECT(host[0] == 9 && host[N - 1] == 9);
    EXPECT_OK(tess_stream_fill(t, seen, 4, N));
    EXPECT_OK(tess_stream_synchronize(t));
    EXPECT_OK(tess_fetch(s, host, x, N));
    EXPECT(host[0] == 4 && host[N - 1] == 4);
    tess_peer_release(theirs, seen);
    EXPECT_FAILS(tess_fetch(t, host, seen, N), TESS_E_INVALID, "'memory of a peer'");
    tess_device_free(mine, x);
    tess_stream_destroy(&s);
    tess_stream_destroy(&t);
    EXPECT_INT(tess_device_close(&mine), 0);
    EXPECT_INT(tess_device_close(&theirs), 1);
}

/* Waits until the worker is in the stall, which begins when the operations before it are done. */
static void await_done(const tess_device_log *log, uint32_t n)
{
    while (atomic_load(&log->streams[0].done) < n)
        usleep(1000);
}

static void an_operation_that_does_not_end_has_a_name(void)
{
    enum { N = 1000 };
    tess_device_log *log = aligned_alloc(4096, (sizeof(*log) + 4095) / 4096 * 4096);
    char text[256];
    uint64_t since_ns, now_ns = 0;
    EXPECT(log != NULL);
    EXPECT_INT(setenv("TESSERA_FAR_STALL", "0:add:2:0.3", 1), 0);
    tess_device *d = open_far("");
    tess_device_set_log(d, log);
    tess_stream *s, *t;
    EXPECT_OK(tess_device_stream(d, 1, "ref", &s));
    EXPECT_OK(tess_device_stream(d, 1, "ref", &t));
    tess_stream_set_name(s, "compute");
    tess_stream_set_name(t, "upload");
    float *x = new_on(d, N * sizeof(float), "x");
    const tess_add_args doubled = {.a = x, .b = x, .y = x, .n = N, .dtype = TESS_F32};
    const tess_kernels *k = tess_stream_kernels(s);
    EXPECT_INT((int)tess_device_log_describe(log, UINT64_MAX, 0, text, sizeof(text), &since_ns), 0);
    tess_stream_set_unit(s, "layer", 3);
    EXPECT_OK(k->add(s, &doubled));
    EXPECT_OK(k->add(s, &doubled)); /* stalls */
    tess_stream_set_unit(s, "head", -1);
    EXPECT_OK(tess_stream_fill(s, x, 0, N));
    EXPECT_OK(k->add(s, &doubled));
    EXPECT_OK(tess_stream_fill(t, x, 0, 0));
    await_done(log, 1);
    EXPECT(tess_device_log_describe(log, UINT64_MAX, 0, text, sizeof(text), &since_ns) > 0);
    EXPECT(strncmp(text, "stream compute: add of layer 3, enqueued ", 41) == 0);
    EXPECT_CONTAINS(text, " s ago, has not finished; behind it 2 operations");
    now_ns = since_ns + 1500000000;
    EXPECT(tess_device_log_describe(log, now_ns, 1, text, sizeof(text), &since_ns) > 0);
    EXPECT_CONTAINS(text, "enqueued 1.5 s ago");
    EXPECT_INT((int)tess_device_log_describe(log, now_ns, 2, text, sizeof(text), &since_ns), 0);
    EXPECT_OK(tess_stream_synchronize(s));
    EXPECT_INT((int)tess_device_log_describe(log, UINT64_MAX, 0, text, sizeof(text), &since_ns), 0);
    tess_device_free(d, x);
    tess_stream_destroy(&s);
    tess_stream_destroy(&t);
    EXPECT_INT(tess_device_close(&d), 0);
    free(log);
}

/* The device tells the low bits of a number, and may be further than the reader has seen. */
static void a_long_log_knows_what_is_done(void)
{
    static tess_device_log log;
    tess_stream_log *s = &log.streams[0];
    char text[256];
    uint64_t since_ns;
    atomic_store(&s->is_used, 1);
    atomic_store(&s->enqueued, (UINT64_C(1) << 32) + 5);
    atomic_store(&s->marked, (UINT64_C(1) << 32) + 5);
    atomic_store(&s->done, 4);
    EXPECT(tess_device_log_describe(&log, UINT64_MAX, 0, text, sizeof(text), &since_ns) > 0);
    atomic_store(&s->done, 6);
    EXPECT_INT((int)tess_device_log_describe(&log, UINT64_MAX, 0, text, sizeof(text), &since_ns), 0);
}

/* More operations than the log holds, of more kinds than it has names: what is reported belongs to the newest. */
static void a_log_that_is_full_tells_of_the_newest(void)
{
    tess_stream_log *s;
    static tess_device_log log;
    static char names[2 * TESS_LOG_NAMES][8];
    char text[256];
    uint64_t since_ns;
    s = &log.streams[2];
    snprintf(s->name, sizeof(s->name), "download");
    s->is_used = 1;
    s->stride = 8;
    tess_stream_log_unit(s, "", -1);
    for (int i = 0; i < 2 * TESS_LOG_NAMES; i++)
        snprintf(names[i], sizeof(names[i]), "op %d", i);
    for (int i = 0; i < TESS_LOG_OPS + 10; i++)
        tess_stream_log_add(s, names[i % (2 * TESS_LOG_NAMES)], i == 12 ? 3 << 20 : 0);
    EXPECT_INT((int)tess_device_log_describe(&log, UINT64_MAX, 0, text, sizeof(text), &since_ns), 0); /* no mark */
    s->marked = TESS_LOG_OPS + 8;
    EXPECT(tess_device_log_describe(&log, UINT64_MAX, 0, text, sizeof(text), &since_ns) > 0);
    EXPECT_CONTAINS(text, "stream download: one of 8 operations from op 10 to op 17, enqueued");
    EXPECT_CONTAINS(text, "behind them 2040 operations");
    s->done = TESS_LOG_OPS + 5;
    EXPECT(tess_device_log_describe(&log, UINT64_MAX, 0, text, sizeof(text), &since_ns) > 0);
    EXPECT_CONTAINS(text, "one of 3 operations from op 5 to op 7, enqueued");
    s->done = TESS_LOG_OPS + 8;
    EXPECT_INT((int)tess_device_log_describe(&log, UINT64_MAX, 0, text, sizeof(text), &since_ns), 0);
}

/* ---- Threads ---- */
enum { MAKERS = 4, ROUNDS = 20 };

typedef struct maker {
    tess_device *device;
    pthread_barrier_t *together;
    uint64_t numbers[ROUNDS];
} maker;

static void *make_streams(void *context)
{
    maker *m = context;
    for (int round = 0; round < ROUNDS; round++) {
        tess_stream *s;
        void *x = new_on(m->device, 4096, "a thread's memory");
        pthread_barrier_wait(m->together);
        EXPECT_OK(tess_device_stream(m->device, 1, NULL, &s));
        m->numbers[round] = ((far_stream *)s)->number;
        EXPECT_OK(tess_upload(s, x, &round, sizeof(round)));
        tess_device_free(m->device, x);
        tess_stream_destroy(&s);
    }
    return NULL;
}

/* Freeing drains the streams of all threads, while these come and go. */
static void streams_of_several_threads_have_numbers_of_their_own(void)
{
    tess_device *d = open_far("5:100");
    pthread_barrier_t together;
    pthread_t threads[MAKERS];
    maker makers[MAKERS];
    bool seen[MAKERS * ROUNDS] = {false};
    pthread_barrier_init(&together, NULL, MAKERS);
    for (int i = 0; i < MAKERS; i++) {
        makers[i] = (maker){.device = d, .together = &together};
        EXPECT(pthread_create(&threads[i], NULL, make_streams, &makers[i]) == 0);
    }
    for (int i = 0; i < MAKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < MAKERS * ROUNDS; i++) {
        uint64_t number = makers[i % MAKERS].numbers[i / MAKERS];
        EXPECT(number < COUNT(seen) && !seen[number]);
        seen[number] = true;
    }
    pthread_barrier_destroy(&together);
    EXPECT_INT(tess_device_close(&d), 0);
}

static const test_case cases[] = {
    {.name = "every_row_gives_the_bits_of_the_cpu", .run = every_row_gives_the_bits_of_the_cpu},
    {.name = "all_rows_in_one_queue_give_the_bits_of_the_cpu", .run = all_rows_in_one_queue_give_the_bits_of_the_cpu},
    {.name = "the_table_is_complete_and_named_after_its_kernels",
     .run = the_table_is_complete_and_named_after_its_kernels},
    {.name = "an_event_orders_two_streams_and_its_absence_is_found",
     .run = an_event_orders_two_streams_and_its_absence_is_found},
    {.name = "a_copy_to_the_host_is_there_after_a_wait_alone", .run = a_copy_to_the_host_is_there_after_a_wait_alone},
    {.name = "a_host_that_reads_in_place_dies_with_a_message", .run = a_host_that_reads_in_place_dies_with_a_message},
    {.name = "a_kernel_on_freed_memory_dies_with_a_message", .run = a_kernel_on_freed_memory_dies_with_a_message},
    {.name = "bad_input_is_named", .run = bad_input_is_named},
    {.name = "an_error_in_the_queue_comes_with_the_next_wait", .run = an_error_in_the_queue_comes_with_the_next_wait},
    {.name = "peers_see_the_same_memory", .run = peers_see_the_same_memory},
    {.name = "an_operation_that_does_not_end_has_a_name", .run = an_operation_that_does_not_end_has_a_name},
    {.name = "a_long_log_knows_what_is_done", .run = a_long_log_knows_what_is_done},
    {.name = "a_log_that_is_full_tells_of_the_newest", .run = a_log_that_is_full_tells_of_the_newest},
    {.name = "streams_of_several_threads_have_numbers_of_their_own",
     .run = streams_of_several_threads_have_numbers_of_their_own},
};

TEST_MAIN(cases)
