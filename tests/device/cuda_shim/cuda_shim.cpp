#include "device/cuda_shim/cuda_shim.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#ifndef __has_feature /* of clang */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define SHIM_ASAN 1
#else
#define SHIM_ASAN 0
#endif

enum { MAX_THREADS = 1024, WARP = 32, STACK_BYTES = 128 << 10 };

typedef enum fibre_state { READY, AT_BLOCK, AT_WARP, ENDED } fibre_state;

/* Where something goes on. */
typedef struct place {
    ucontext_t context;
    jmp_buf jump;
    bool begun;
} place;

/* Made once, and runs a thread of each block that has so many. */
typedef struct fibre {
    place here;
    char *stack;      /* NULL: not made yet */
    void *fake_stack; /* of AddressSanitizer */
    fibre_state state;
    uint64_t gives;
} fibre;

cuda_shim_index threadIdx, blockIdx, blockDim, gridDim;

static fibre fibres[MAX_THREADS];
static place scheduler;
static void (*running)(const void *self);
static const void *running_self;
static char *dynamic_shared;

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

/* Every other launch runs its threads backwards, so that one that counts on another's having run shows. */
static void run_block(unsigned threads, bool backwards)
{
    for (unsigned i = 0; i < threads; i++)
        fibres[i].state = READY;
    for (bool moved = true; moved;) {
        moved = false;
        for (unsigned k = 0; k < threads; k++) {
            unsigned i = backwards ? threads - 1 - k : k;
            if (fibres[i].state == READY) {
                enter_fibre(i);
                moved = true;
            }
        }
        for (unsigned i = 0; i < threads; i += WARP)
            moved = release(i, i + WARP < threads ? i + WARP : threads, AT_WARP) || moved;
        moved = release(0, threads, AT_BLOCK) || moved;
    }
    for (unsigned i = 0; i < threads; i++) {
        threadIdx.x = i;
        if (fibres[i].state != ENDED)
            stop("it waits for threads that never come to the same call");
    }
}

void cuda_shim_run(unsigned blocks, unsigned threads, size_t shared_bytes, void (*kernel)(const void *self),
                   const void *self)
{
    if (blocks == 0 || threads == 0 || threads > MAX_THREADS || shared_bytes > 48 << 10)
        stop("a launch of no threads, of more than 1024, or with more than 48 KiB of shared memory");
    static bool backwards;
    backwards = !backwards;
    gridDim.x = blocks;
    blockDim.x = threads;
    running = kernel;
    running_self = self;
    dynamic_shared = (char *)malloc(shared_bytes + 1);
    if (dynamic_shared == NULL)
        stop("no shared memory");
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        memset(dynamic_shared, 0xab, shared_bytes); /* nobody may count on what another block left */
        run_block(threads, backwards);
    }
    free(dynamic_shared);
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

/* All have given before anyone takes, and taken before anyone gives again. */
uint64_t cuda_shim_exchange(uint64_t mine, unsigned from)
{
    unsigned warp = threadIdx.x / WARP * WARP;
    if (blockDim.x % WARP != 0)
        stop("a warp that is not whole shuffles");
    fibres[threadIdx.x].gives = mine;
    meet(AT_WARP);
    uint64_t got = fibres[warp + from].gives;
    meet(AT_WARP);
    return got;
}

int cudaGetLastError(void)
{
    static int n_launches;
    int launch, error;
    const char *wish = getenv("CUDA_SHIM_ERROR");
    n_launches++;
    return wish != NULL && sscanf(wish, "%d:%d", &launch, &error) == 2 && launch == n_launches ? error : 0;
}
