/* The driver that plays GPUs runs queues later, and names what no real driver reports: each planted error ends the
 * process with a message, and the same program without the error ends well. So tests of the CUDA path on this driver
 * can fail. */
#include "support/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda/cuda_driver.h"
#include "device/device.h"
#include "device/stream.h"

enum { N = 1 << 16, PINNED = N * (int)sizeof(float) };

/* ---- Runs ---- */
/* Runs a program in a process of its own. The text of its standard error; *code is its exit code, or -signal. */
static char *run(void (*program)(void), const char *fake, int *code)
{
    static char text[4096];
    int ends[2], state = 0;
    size_t n = 0;
    EXPECT_INT(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        setenv("CUDA_FAKE", fake, 1);
        setenv("CUDA_FAKE_DELAYS", "1:3000:1", 1); /* each operation waits up to 3 ms */
        program();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; n + 1 < sizeof(text) && (got = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0;
         n += (size_t)got)
        ;
    text[n] = '\0';
    for (char rest[4096]; read(ends[0], rest, sizeof(rest)) > 0;)
        ;
    close(ends[0]);
    EXPECT_INT(waitpid(child, &state, 0), child);
    *code = WIFSIGNALED(state) ? -WTERMSIG(state) : WEXITSTATUS(state);
    return text;
}

/* The program ends well, and with the planted error it is ended with this message. */
static void expect_found(void (*program)(void), const char *properties, const char *planted, const char *message)
{
    char fake[256];
    int code;
    const char *text = run(program, properties, &code);
    if (code != 0)
        test_fail(__FILE__, __LINE__, "without the error it ends with %d: %s", code, text);
    snprintf(fake, sizeof(fake), "%s,%s", properties, planted);
    text = run(program, fake, &code);
    if (code != -SIGABRT || strstr(text, message) == NULL)
        test_fail(__FILE__, __LINE__, "with %s it ends with %d, expected '%s': %s", planted, code, message, text);
}

/* ---- Programs on the device ---- */
typedef struct rig {
    tess_device *d;
    tess_stream *compute, *copies;
    float *x, *y, *host; /* (N); host is pinned */
    tess_event *copied;
} rig;

static rig begin(void)
{
    rig r;
    EXPECT_OK(tess_device_open(test_mem(), "cuda", 0, &r.d));
    EXPECT_OK(tess_device_stream(r.d, 1, NULL, &r.compute));
    EXPECT_OK(tess_device_stream(r.d, 1, NULL, &r.copies));
    EXPECT_OK(tess_device_alloc(r.d, TESS_POOL_ACTIVATIONS, PINNED, "x", (void **)&r.x));
    EXPECT_OK(tess_device_alloc(r.d, TESS_POOL_ACTIVATIONS, PINNED, "y", (void **)&r.y));
    EXPECT_OK(tess_device_alloc_pinned(r.d, TESS_POOL_COMM, PINNED, "host", (void **)&r.host));
    EXPECT_OK(tess_event_create(r.d, &r.copied));
    for (int i = 0; i < N; i++)
        r.host[i] = (float)(i % 1000);
    return r;
}

static void add(const rig *r)
{
    const tess_add_args sum = {.a = r->x, .b = r->x, .y = r->y, .n = N, .dtype = TESS_F32};
    EXPECT_OK(tess_stream_kernels(r->compute)->add(r->compute, &sum));
}

static void end(rig *r)
{
    EXPECT_OK(tess_stream_synchronize(r->compute));
    tess_event_destroy(&r->copied);
    tess_device_free_pinned(r->d, r->host);
    tess_device_free(r->d, r->x);
    tess_device_free(r->d, r->y);
    tess_stream_destroy(&r->compute);
    tess_stream_destroy(&r->copies);
    EXPECT_INT(tess_device_close(&r->d), 0);
}

/* An upload on one queue, a kernel on another. */
static void upload_then_compute(void)
{
    rig r = begin();
    EXPECT_OK(tess_stream_copy(r.copies, r.x, r.host, PINNED));
    EXPECT_OK(tess_event_record(r.copied, r.copies));
    EXPECT_OK(tess_event_wait(r.copied, r.compute));
    add(&r);
    end(&r);
}

static void a_missing_wait_is_found(void)
{
    expect_found(upload_then_compute, "devices=1", "skip=cuStreamWaitEvent:1",
                 "add_kernel<float> (operation 1 of queue 16) reads memory");
}

static void an_event_on_the_wrong_queue_is_found(void)
{
    expect_found(upload_then_compute, "devices=1", "misplace=cuEventRecord:1",
                 "that a copy (operation 1 of queue 17) writes, and nothing puts one before the other");
}

/* The driver learns from a kernel's first launch which operands it writes, and finds the next conflict. */
static void compute_then_download(void)
{
    rig r = begin();
    EXPECT_OK(tess_stream_fill(r.compute, r.x, 0, PINNED));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tess_stream_fill(r.compute, r.y, 1, PINNED));
        add(&r);
        EXPECT_OK(tess_event_record(r.copied, r.compute));
        EXPECT_OK(tess_event_wait(r.copied, r.copies));
        EXPECT_OK(tess_stream_copy(r.copies, r.host, r.y, PINNED));
        EXPECT_OK(tess_stream_synchronize(r.copies));
    }
    end(&r);
}

static void a_result_that_is_fetched_too_early_is_found(void)
{
    expect_found(compute_then_download, "devices=1", "skip=cuStreamWaitEvent:2", "reads memory at");
}

static void free_after_compute(void)
{
    rig r = begin();
    void *scratch;
    EXPECT_OK(tess_device_alloc(r.d, TESS_POOL_ACTIVATIONS, PINNED, "scratch", &scratch));
    const tess_add_args sum = {.a = r.x, .b = r.x, .y = scratch, .n = N, .dtype = TESS_F32};
    EXPECT_OK(tess_stream_kernels(r.compute)->add(r.compute, &sum));
    tess_device_free(r.d, scratch);
    end(&r);
}

static void a_free_before_the_kernel_ran_is_found(void)
{
    expect_found(free_after_compute, "devices=1,lazy=1", "skip=cuCtxSynchronize:1",
                 "are used by add_kernel<float> (operation 1 of queue 16), and the host has not waited for it");
}

/* The host reads what was copied to it. */
static void read_after_copy(void)
{
    rig r = begin();
    EXPECT_OK(tess_stream_fill(r.copies, r.x, 0x3f, PINNED));
    EXPECT_OK(tess_stream_copy(r.copies, r.host, r.x, PINNED));
    EXPECT_OK(tess_event_record(r.copied, r.copies));
    EXPECT_OK(tess_event_synchronize(r.copied));
    uint32_t bits;
    memcpy(&bits, &r.host[N - 1], sizeof(bits));
    if (bits != 0x3f3f3f3f) {
        fprintf(stderr, "the host has read 0x%08x\n", bits);
        abort();
    }
    end(&r);
}

static void a_read_before_the_copy_ended_is_found(void)
{
    expect_found(read_after_copy, "devices=1,lazy=1", "skip=cuEventSynchronize:1", "the host has read 0x");
}

/* The host reuses what is copied from it. */
static void write_after_copy(void)
{
    rig r = begin();
    EXPECT_OK(tess_stream_copy(r.copies, r.x, r.host, PINNED));
    EXPECT_OK(tess_event_record(r.copied, r.copies));
    EXPECT_OK(tess_event_synchronize(r.copied));
    r.host[N / 2] = -1;
    EXPECT_OK(tess_stream_synchronize(r.copies));
    end(&r);
}

static void a_write_before_the_copy_ran_is_found(void)
{
    expect_found(write_after_copy, "devices=1,lazy=1", "skip=cuEventSynchronize:1",
                 "have changed since the call, and the copy had not run yet");
}

static void unpin_after_copy(void)
{
    rig r = begin();
    EXPECT_OK(tess_stream_copy(r.copies, r.x, r.host, PINNED));
    tess_device_free_pinned(r.d, r.host);
    r.host = NULL;
    end(&r);
}

static void memory_unpinned_before_its_copy_ran_is_found(void)
{
    expect_found(unpin_after_copy, "devices=1,lazy=1", "skip=cuCtxSynchronize:1", "cuMemHostUnregister: ");
}

/* ---- Programs on the driver ---- */
static const cuda_driver *cu;

static cuda_queue open_queue(int device)
{
    cuda_context context;
    cuda_queue q;
    int n;
    EXPECT_OK(tess_cuda_driver_open(&cu));
    EXPECT_OK(tess_cuda_devices(cu, &n));
    EXPECT_INT(cu->context_retain(&context, device), 0);
    EXPECT_INT(cu->context_set(context), 0);
    EXPECT_INT(cu->queue_create(&q, CUDA_QUEUE_NON_BLOCKING), 0);
    return q;
}

static cuda_address new_memory(size_t bytes)
{
    cuda_address memory;
    EXPECT_INT(cu->memory_alloc(&memory, bytes), 0);
    return memory;
}

static void copy_from_freed_memory(void)
{
    cuda_queue q = open_queue(0);
    cuda_address x = new_memory(4096), y = new_memory(4096);
    EXPECT_INT(cu->copy(x, y, 4096, q), 0);
    EXPECT_INT(cu->queue_synchronize(q), 0);
    if (getenv("TESS_PLANTED") != NULL)
        EXPECT_INT(cu->memory_free(y), 0);
    cu->copy(x, y, 4096, q);
}

static void memory_that_is_used_after_its_free_is_found(void)
{
    int code;
    const char *text = run(copy_from_freed_memory, "devices=1,ipc=1", &code);
    if (code != 0)
        test_fail(__FILE__, __LINE__, "without the error it ends with %d: %s", code, text);
    setenv("TESS_PLANTED", "1", 1);
    text = run(copy_from_freed_memory, "devices=1,ipc=1", &code);
    unsetenv("TESS_PLANTED");
    EXPECT_INT(code, -SIGABRT);
    EXPECT_CONTAINS(text, "cuMemcpyAsync uses a block of 4096 bytes");
}

/* Copies of memory that is not registered have read it, or written it, when the call returns; registered memory waits.
 */
static void pageable(void)
{
    enum { BYTES = 1 << 16 };
    cuda_queue q = open_queue(0);
    cuda_address x = new_memory(BYTES);
    unsigned char *host = malloc(BYTES), *pinned = aligned_alloc(4096, BYTES);
    memset(host, 7, BYTES);
    memset(pinned, 1, BYTES);
    EXPECT_INT(cu->host_register(pinned, BYTES, CUDA_REGISTER_MAPPED), 0);
    EXPECT_INT(cu->copy(x, (cuda_address)(uintptr_t)host, BYTES, q), 0);
    memset(host, 9, BYTES);
    EXPECT_INT(cu->copy((cuda_address)(uintptr_t)pinned, x, BYTES, q), 0);
    EXPECT(pinned[BYTES - 1] != 7);
    EXPECT_INT(cu->copy((cuda_address)(uintptr_t)host, x, BYTES, q), 0);
    EXPECT_INT(host[BYTES - 1], 7);
    EXPECT_INT(cu->queue_synchronize(q), 0);
    EXPECT_INT(pinned[BYTES - 1], 7);
}

static void copies_of_pageable_memory_are_synchronous(void)
{
    int code;
    const char *text = run(pageable, "devices=1,lazy=1", &code);
    if (code != 0)
        test_fail(__FILE__, __LINE__, "it ends with %d: %s", code, text);
}

/* An event passes when its queue comes there, and tells a time when the host has waited for it. */
static void events(void)
{
    cuda_queue q = open_queue(0);
    cuda_address x = new_memory(1 << 20);
    cuda_ticket from, to;
    float ms;
    EXPECT_INT(cu->ticket_create(&from, CUDA_TICKET_TIMED), 0);
    EXPECT_INT(cu->ticket_create(&to, CUDA_TICKET_TIMED), 0);
    EXPECT_INT(cu->ticket_record(from, q), 0);
    for (int i = 0; i < 20; i++)
        EXPECT_INT(cu->fill(x, 1, 1 << 20, q), 0);
    EXPECT_INT(cu->ticket_record(to, q), 0);
    EXPECT_INT(cu->ticket_query(to), CUDA_NOT_READY);
    EXPECT_INT(cu->ticket_elapsed(&ms, from, to), CUDA_NOT_READY);
    EXPECT_INT(cu->ticket_synchronize(to), 0);
    EXPECT_INT(cu->ticket_query(to), 0);
    EXPECT_INT(cu->ticket_elapsed(&ms, from, to), 0);
    EXPECT(ms > 0.5f && ms < 10000);
}

static void events_pass_when_their_queue_comes_there(void)
{
    int code;
    const char *text = run(events, "devices=1,lazy=1", &code);
    if (code != 0)
        test_fail(__FILE__, __LINE__, "it ends with %d: %s", code, text);
}

/* Queues, events and memory belong to one GPU. */
static void two_gpus(void)
{
    cuda_queue first = open_queue(0);
    cuda_ticket ticket;
    EXPECT_INT(cu->ticket_create(&ticket, CUDA_TICKET_DISABLE_TIMING), 0);
    cuda_address x = new_memory(4096);
    cuda_queue second = open_queue(1);
    EXPECT_INT(cu->fill(x, 0, 4096, first), 400);       /* the thread has the other context */
    EXPECT_INT(cu->ticket_record(ticket, second), 400); /* the event has */
    EXPECT_INT(cu->ticket_record(ticket, first), 400);
    cuda_address y = new_memory(4096);
    EXPECT_INT(cu->copy(y, x, 4096, second), 0); /* copies know all memory */
    EXPECT_INT(cu->queue_synchronize(second), 0);
}

static void what_belongs_to_another_gpu_is_refused(void)
{
    int code;
    const char *text = run(two_gpus, "devices=2", &code);
    if (code != 0)
        test_fail(__FILE__, __LINE__, "it ends with %d: %s", code, text);
}

/* ---- Two processes ---- */
/* One shows memory, which the other opens from GPU 1 and reads. TESS_PLANTED: the owner does not wait for the reader.
 */
static void two_processes(void)
{
    enum { BYTES = 2 << 20 };
    int to_reader[2], to_owner[2];
    cuda_ipc ipc;
    char done = 0;
    EXPECT_INT(pipe(to_reader) + pipe(to_owner), 0);
    pid_t reader = fork();
    cuda_queue q = open_queue(reader == 0);
    cuda_address memory = 0;
    if (reader != 0) {
        int state;
        memory = new_memory(BYTES);
        EXPECT_INT(cu->ipc_get(&ipc, memory), 0);
        EXPECT_INT(write(to_reader[1], &ipc, sizeof(ipc)), sizeof(ipc));
        EXPECT_INT(read(to_owner[0], &done, 1), 1); /* it has enqueued the copy */
        if (getenv("TESS_PLANTED") == NULL)
            EXPECT_INT(read(to_owner[0], &done, 1), 1); /* the copy has run */
        EXPECT_INT(cu->memory_free(memory), 0);
        EXPECT_INT(waitpid(reader, &state, 0), reader);
        if (WIFSIGNALED(state))
            abort();
        _exit(WEXITSTATUS(state));
    }
    cuda_address mine = new_memory(BYTES);
    EXPECT_INT(read(to_reader[0], &ipc, sizeof(ipc)), sizeof(ipc));
    EXPECT_INT(cu->ipc_open(&memory, ipc, CUDA_IPC_ENABLE_PEER_ACCESS),
               strstr(getenv("CUDA_FAKE"), "peers=0") != NULL ? 217 : 0);
    for (int i = 0; i < 20 && memory != 0; i++)
        EXPECT_INT(cu->copy(mine, memory, BYTES, q), 0);
    EXPECT_INT(write(to_owner[1], &done, 1), 1);
    EXPECT_INT(cu->queue_synchronize(q), 0);
    EXPECT_INT(write(to_owner[1], &done, 1), 1);
    if (memory != 0)
        EXPECT_INT(cu->ipc_close(memory), 0);
    _exit(0);
}

static void memory_that_its_owner_frees_before_it_was_read_is_found(void)
{
    int code;
    const char *text = run(two_processes, "devices=2,ipc=1", &code);
    if (code != 0)
        test_fail(__FILE__, __LINE__, "without the error it ends with %d: %s", code, text);
    setenv("TESS_PLANTED", "1", 1);
    text = run(two_processes, "devices=2,ipc=1", &code);
    unsetenv("TESS_PLANTED");
    EXPECT_INT(code, -SIGABRT);
    EXPECT_CONTAINS(text, "a copy uses a block of 2097152 bytes that process");
}

static void gpus_that_do_not_reach_each_other_open_nothing(void)
{
    int code;
    const char *text = run(two_processes, "devices=2,ipc=1,peers=0", &code);
    if (code != 0)
        test_fail(__FILE__, __LINE__, "it ends with %d: %s", code, text);
}

static const test_case cases[] = {
    CASE(a_missing_wait_is_found),
    CASE(an_event_on_the_wrong_queue_is_found),
    CASE(a_result_that_is_fetched_too_early_is_found),
    CASE(a_free_before_the_kernel_ran_is_found),
    CASE(a_read_before_the_copy_ended_is_found),
    CASE(a_write_before_the_copy_ran_is_found),
    CASE(memory_unpinned_before_its_copy_ran_is_found),
    CASE(memory_that_is_used_after_its_free_is_found),
    CASE(copies_of_pageable_memory_are_synchronous),
    CASE(events_pass_when_their_queue_comes_there),
    CASE(what_belongs_to_another_gpu_is_refused),
    CASE(memory_that_its_owner_frees_before_it_was_read_is_found),
    CASE(gpus_that_do_not_reach_each_other_open_nothing),
};

TEST_MAIN(cases)
