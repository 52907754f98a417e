#include "device/cuda_shim/cuda_shim.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "device/bf16.h"

#ifndef __has_feature /* clang has it */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define SHIM_ASAN 1
#else
#define SHIM_ASAN 0
#endif

enum {
    MAX_THREADS = 1024,
    WARP = 32,
    STACK_BYTES = 128 << 10,
    SHARED_BYTES = 99 << 10,
    SHARED_ALIGN = 128,
    COPIES = 256
};

typedef enum fibre_state { READY, AT_BLOCK, AT_WARP, ENDED } fibre_state;

/* A place in the program where execution goes on. */
typedef struct place {
    ucontext_t context;
    jmp_buf jump;
    bool begun;
} place;

/* Into shared memory, not made yet. */
typedef struct copy {
    char *to;
    const char *from;
    unsigned bytes, zeros, group;
} copy;

/* Runs one thread of each block; made once. */
typedef struct fibre {
    place here;
    char *stack;      /* NULL: not made yet */
    void *fake_stack; /* AddressSanitizer's */
    fibre_state state;
    unsigned n_shared; /* times that it gave words to its warp */
    copy copies[COPIES];
    unsigned n_copies, group; /* number and group of the copies to come */
} fibre;

cuda_shim_index threadIdx, blockIdx, blockDim, gridDim;

static fibre fibres[MAX_THREADS];
static place scheduler;
static void (*running)(const void *self);
static const void *running_self;
static char *dynamic_shared;
static thread_local size_t asked_shared;
static bool backwards;                         /* the launch runs its threads so */
static cuda_shim_words shared[2][MAX_THREADS]; /* used in turn, since a late thread still reads */

[[noreturn]] static void stop(const char *why)
{
    fprintf(stderr, "a CUDA kernel on the host: block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, why);
    abort();
}

/* AddressSanitizer is told of each change of stacks. */
#if SHIM_ASAN
static void *scheduler_fake_stack;
static const void *scheduler_stack;
static size_t scheduler_stack_bytes;

static void tell_leaving(fibre *f)
{
    __sanitizer_start_switch_fiber(&f->fake_stack, scheduler_stack, scheduler_stack_bytes);
}

static void tell_entering(const fibre *f)
{
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, f->stack, STACK_BYTES);
}

static void tell_entered(void *fake_stack)
{
    __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack, &scheduler_stack_bytes);
}

static void tell_left(void)
{
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, NULL, NULL);
}

static void go(place *from, place *to)
{
    swapcontext(&from->context, &to->context);
}
#else
static void tell_leaving(fibre *f)
{
    (void)f;
}

static void tell_entering(const fibre *f)
{
    (void)f;
}

static void tell_entered(void *fake_stack)
{
    (void)fake_stack;
}

static void tell_left(void)
{
}

/* Jumps where it can: swapcontext asks the kernel for signal masks each time. */
static void go(place *from, place *to)
{
    if (_setjmp(from->jump) != 0)
        return;
    if (to->begun)
        _longjmp(to->jump, 1);
    to->begun = true;
    setcontext(&to->context);
}
#endif

static void leave_fibre(fibre *f)
{
    tell_leaving(f);
    go(&f->here, &scheduler);
    tell_entered(f->fake_stack);
}

static void run_fibre(void)
{
    fibre *f = &fibres[threadIdx.x];
    tell_entered(NULL);
    for (;;) {
        running(running_self);
        f->state = ENDED;
        leave_fibre(f);
    }
}

static void make_fibre(fibre *f)
{
    f->stack = (char *)malloc(STACK_BYTES);
    if (f->stack == NULL)
        stop("no memory for its stack");
    ucontext_t *context = &f->here.context;
    getcontext(context);
    context->uc_stack.ss_sp = f->stack;
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = NULL;
    makecontext(context, run_fibre, 0);
}

static void enter_fibre(unsigned thread)
{
    fibre *f = &fibres[thread];
    threadIdx.x = thread;
    if (f->stack == NULL)
        make_fibre(f);
    tell_entering(f);
    scheduler.begun = true;
    go(&scheduler, &f->here);
    tell_left();
}

/* Threads begin .. end go on if all of them have come to `meeting`; those that have ended are not waited for. */
static bool release(unsigned begin, unsigned end, fibre_state meeting)
{
    unsigned waiting = 0, ended = 0;
    for (unsigned i = begin; i < end; i++) {
        waiting += fibres[i].state == meeting;
        ended += fibres[i].state == ENDED;
    }
    if (waiting == 0 || waiting + ended < end - begin)
        return false;
    for (unsigned i = begin; i < end; i++)
        if (fibres[i].state == meeting)
            fibres[i].state = READY;
    return true;
}

/* A warp goes on until its threads wait for others of the block, or end. */
static void run_warp(unsigned begin, unsigned end)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (unsigned k = begin; k < end; k++) {
            unsigned i = backwards ? end - 1 - (k - begin) : k;
            if (fibres[i].state == READY) {
                enter_fibre(i);
                moved = true;
            }
        }
        moved = release(begin, end, AT_WARP) || moved;
    }
}

/* Every other launch runs its threads backwards, and a warp goes as far as it can before another: one that counts on
 * another's having run, or on its being no further, shows. */
static void run_block(unsigned threads)
{
    for (unsigned i = 0; i < threads; i++) {
        fibres[i].state = READY;
        fibres[i].n_copies = fibres[i].group = 0;
    }
    const unsigned warps = (threads + WARP - 1) / WARP;
    do
        for (unsigned k = 0; k < warps; k++) {
            unsigned begin = (backwards ? warps - 1 - k : k) * WARP;
            run_warp(begin, begin + WARP < threads ? begin + WARP : threads);
        }
    while (release(0, threads, AT_BLOCK));
    for (unsigned i = 0; i < threads; i++) {
        threadIdx.x = i;
        if (fibres[i].state != ENDED)
            stop("it waits for threads that never come to the same call");
    }
}

static void run(const cuda_shim_call *call, const void *self)
{
    backwards = !backwards;
    gridDim.x = call->blocks;
    blockDim.x = call->threads;
    running = call->kernel;
    running_self = self;
    dynamic_shared = (char *)aligned_alloc(SHARED_ALIGN, (call->shared_bytes / SHARED_ALIGN + 1) * SHARED_ALIGN);
    if (dynamic_shared == NULL)
        stop("no shared memory");
    for (blockIdx.x = 0; blockIdx.x < call->blocks; blockIdx.x++) {
        memset(dynamic_shared, 0xab, call->shared_bytes); /* nobody may count on what another block left */
        run_block(call->threads);
    }
    free(dynamic_shared);
}

/* Appends the launch to the log, without its template's arguments. Returns false if there is no log. */
static bool log_launch(const char *name)
{
    const char *path = getenv("CUDA_SHIM_LOG");
    FILE *log = path != NULL ? fopen(path, "a") : NULL;
    if (log == NULL)
        return false;
    name += *name == '(';
    fprintf(log, "launched %.*s\n", (int)strcspn(name, "<"), name);
    fclose(log);
    return true;
}

/* A launch that waits in a queue of the driver. */
typedef struct waiting_launch {
    cuda_shim_call call;
    alignas(16) char self[];
} waiting_launch;

static bool run_waiting(void *self)
{
    const waiting_launch *w = (const waiting_launch *)self;
    run(&w->call, w->self);
    return true;
}

static thread_local int launch_error; /* the driver's answer to the newest launch */

void cuda_shim_begin(cudaStream_t queue, const cuda_shim_call *call, const void *self, size_t self_bytes,
                     const fake_operand *operands, int n_operands)
{
    static const fake_enqueue enqueue = fake_find_enqueue();
    if (call->blocks == 0 || call->threads == 0 || call->threads > MAX_THREADS || call->shared_bytes > SHARED_BYTES)
        stop("a launch of no threads, of more than 1024, or with more than 99 KiB of shared memory");
    if (call->shared_bytes > 48 << 10 && call->shared_bytes > asked_shared)
        stop("a launch with more than 48 KiB of shared memory, for which it did not ask");
    asked_shared = 0;
    if (log_launch(call->name))
        return;
    if (queue == NULL || enqueue == NULL)
        return run(call, self);
    waiting_launch *w = (waiting_launch *)aligned_alloc(16, (sizeof(*w) + self_bytes + 15) / 16 * 16);
    if (w == NULL)
        stop("no memory for a launch");
    w->call = *call;
    memcpy(w->self, self, self_bytes);
    const fake_work work = {call->name, NULL, run_waiting, free, w, operands, n_operands};
    launch_error = enqueue(queue, &work);
    if (launch_error != 0)
        free(w);
}

void cuda_shim_ask_shared(size_t bytes)
{
    asked_shared = bytes;
}

void *cuda_shim_dynamic_shared(void)
{
    return dynamic_shared;
}

static void meet(fibre_state meeting)
{
    fibre *f = &fibres[threadIdx.x];
    f->state = meeting;
    leave_fibre(f);
}

void cuda_shim_meet_block(void)
{
    meet(AT_BLOCK);
}

void cuda_shim_meet_warp(void)
{
    meet(AT_WARP);
}

/* ---- Operations of a whole warp ---- */
const cuda_shim_words *cuda_shim_share(const cuda_shim_words *mine)
{
    fibre *f = &fibres[threadIdx.x];
    cuda_shim_words *words = shared[f->n_shared++ % 2];
    if (blockDim.x % WARP != 0)
        stop("a warp that is not whole shuffles");
    words[threadIdx.x] = *mine;
    meet(AT_WARP);
    return words + threadIdx.x / WARP * WARP;
}

static void widen(float x[2], uint32_t pair)
{
    x[0] = tess_bf16_to_float((uint16_t)pair);
    x[1] = tess_bf16_to_float((uint16_t)(pair >> 16));
}

void tensor_multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    cuda_shim_words mine;
    for (int i = 0; i < 4; i++)
        widen(&mine.factors.a[2 * i], a[i]);
    widen(&mine.factors.b[0], b0);
    widen(&mine.factors.b[2], b1);
    const cuda_shim_words *all = cuda_shim_share(&mine);
    const unsigned lane = threadIdx.x % WARP, row = lane / 4 * 4, column = lane % 4 * 2 * 4;
    for (unsigned k = 0; k < 16; k++) {
        const unsigned at = k % 8 / 2, element = k / 8 * 2 + k % 2;
        const float *left = &all[row + at].factors.a[k / 8 * 4 + k % 2]; /* and of the row 8 further, 2 further */
        for (unsigned i = 0; i < 4; i++)                                 /* each product is exact */
            c[i] += left[i / 2 * 2] * all[column + i % 2 * 4 + at].factors.b[element];
    }
}

void tensor_multiply_first(float sum[4], const float first[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    memcpy(sum, first, 4 * sizeof(*sum));
    tensor_multiply(sum, a, b0, b1);
}

/* Element `column` of row `row` of a matrix whose rows the warp has named. */
static uint32_t element(const cuda_shim_words *rows, unsigned matrix, unsigned row, unsigned column)
{
    uint16_t x;
    memcpy(&x, rows[matrix * 8 + row].row + column * sizeof(x), sizeof(x));
    return x;
}

static void load_matrices(uint32_t x[4], const void *row, bool transposed)
{
    cuda_shim_words mine;
    mine.row = (const char *)row;
    const cuda_shim_words *rows = cuda_shim_share(&mine);
    const unsigned lane = threadIdx.x % WARP, other = lane / 4, pair = lane % 4 * 2;
    if ((uintptr_t)row % 16 != 0)
        stop("a matrix's row is not aligned to 16 bytes");
    for (unsigned i = 0; i < 4; i++)
        x[i] = transposed ? element(rows, i, pair, other) | element(rows, i, pair + 1, other) << 16
                          : element(rows, i, other, pair) | element(rows, i, other, pair + 1) << 16;
    meet(AT_WARP); /* a GPU reads at once: nobody may write in between */
}

void tensor_load(uint32_t x[4], const void *row)
{
    load_matrices(x, row, false);
}

void tensor_load_transposed(uint32_t x[4], const void *row)
{
    load_matrices(x, row, true);
}

/* ---- Copies that run next to the threads ---- */
static void make_copy(const copy *c)
{
    memcpy(c->to, c->from, c->bytes);
    memset(c->to + c->bytes, 0, c->zeros);
}

static void begin_copy(copy c)
{
    fibre *f = &fibres[threadIdx.x];
    c.group = f->group;
    if (((uintptr_t)c.to | (uintptr_t)c.from) % (c.bytes + c.zeros) != 0)
        stop("an asynchronous copy is not aligned");
    if (backwards)
        make_copy(&c);
    else if (f->n_copies == COPIES)
        stop("more asynchronous copies than the host keeps");
    else
        f->copies[f->n_copies++] = c;
}

void tensor_copy(tensor_piece *to, const void *from, int bytes)
{
    begin_copy({(char *)to, (const char *)from, (unsigned)bytes, 16 - (unsigned)bytes, 0});
}

void tensor_copy_pair(float to[2], const float *from)
{
    begin_copy({(char *)to, (const char *)from, 8, 0, 0});
}

void tensor_copies_end(void)
{
    fibres[threadIdx.x].group++;
}

void cuda_shim_copies_wait(unsigned newest)
{
    fibre *f = &fibres[threadIdx.x];
    unsigned left = 0;
    for (unsigned i = 0; i < f->n_copies; i++)
        if (f->copies[i].group + newest < f->group)
            make_copy(&f->copies[i]);
        else
            f->copies[left++] = f->copies[i];
    f->n_copies = left;
}

float tensor_exp2(float x)
{
    return x < -126 ? 0 : __builtin_exp2f(x);
}

uint32_t tensor_pack(float first, float second)
{
    return tess_float_to_bf16(first) | (uint32_t)tess_float_to_bf16(second) << 16;
}

int cudaGetLastError(void)
{
    static int n_launches;
    int launch, error;
    const char *wish = getenv("CUDA_SHIM_ERROR");
    n_launches++;
    if (launch_error != 0)
        return launch_error;
    return wish != NULL && sscanf(wish, "%d:%d", &launch, &error) == 2 && launch == n_launches ? error : 0;
}
