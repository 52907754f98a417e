#include "doctor/log/python_stacks.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

enum { MOST_PROCESSES = 1 << 16, MOST_NAMED = 4 };

/* Whether the function is one of torch.distributed, MPI, Horovod or others that returns only when other ranks have
 * called it, too. Its name may have an ending: "all_gather_into_tensor", "all_reduce_coalesced". */
static bool is_collective(const char *function)
{
    const char *dot = strrchr(function, '.');
    char name[164];
    snprintf(name, sizeof(name), "%s_", dot != NULL ? dot + 1 : function);
    return tess_text_has(
        name, strlen(name), TESS_WORD_BEGINS,
        "all_reduce_|allreduce_|all_gather_|allgather_|reduce_scatter_|broadcast_|barrier_|all_to_all_|"
        "alltoall_|gather_|scatter_|reduce_|recv_|send_|Allreduce_|Allgather_|Bcast_|Barrier_|Recv_|"
        "Send_|_rendezvous_|monitored_barrier_|_store_based_barrier_|init_process_group_|"
        "sync_global_devices_");
}

/* Whether the file belongs to a library between the program and its collective. py-spy prints paths relative to the
 * folders of sys.path. */
static bool is_library(const char *file)
{
    return tess_text_has(file, strlen(file), TESS_WORD_BEGINS,
                         "torch/|deepspeed/|horovod/|mpi4py/|accelerate/|lightning/|pytorch_lightning/|"
                         "lightning_fabric/|jax/|jaxlib/|ray/|numpy/|<frozen |<string>") ||
           tess_text_has(file, strlen(file), TESS_WORD_IS,
                         "threading.py|selectors.py|socket.py|queue.py|contextlib.py|subprocess.py") ||
           strstr(file, "/site-packages/") != NULL;
}

static tess_status begin_process(log_stacks *stacks, const char *line, size_t size, int rank)
{
    char head[32];
    int pid, end = 0;
    snprintf(head, sizeof(head), "%.*s", (int)(size < 31 ? size : 31), line);
    stacks->in_process = stacks->n < MOST_PROCESSES && sscanf(head, "Process %9d: %n", &pid, &end) == 1 && end > 0;
    stacks->in_main = false;
    if (!stacks->in_process)
        return TESS_OK;
    if ((stacks->n & (stacks->n - 1)) == 0) /* capacities are powers of two */
        TESS_TRY(tess_mem_grow(stacks->mem, TESS_POOL_MISC,
                               (size_t)(stacks->n > 0 ? 2 * stacks->n : 1) * sizeof(log_stack), "stacks",
                               (void **)&stacks->list));
    stacks->list[stacks->n++] = (log_stack){.pid = pid, .rank = rank};
    return TESS_OK;
}

/* Reads a frame, "    train_step (train.py:9)": function, file and line. */
static void take_frame(log_stack *stack, const char *line, size_t size)
{
    char frame[160], file[160];
    tess_clean(line + 4, size - 4, frame, sizeof(frame));
    char *open = strrchr(frame, '(');
    if (open == NULL || open == frame || open[-1] != ' ')
        return;
    snprintf(file, sizeof(file), "%s", open + 1);
    file[strcspn(file, ")")] = '\0';
    char *colon = strrchr(file, ':');
    if (colon != NULL && isdigit((unsigned char)colon[1]))
        *colon = '\0';
    bool own = !is_library(file);
    if (own && stack->where[0] == '\0')
        snprintf(stack->where, sizeof(stack->where), "%s", frame);
    open[-1] = '\0';
    bool waits = !own && !stack->waits && stack->where[0] == '\0' && is_collective(frame);
    if (stack->call[0] == '\0' || waits)
        snprintf(stack->call, sizeof(stack->call), "%.*s", (int)sizeof(stack->call) - 1, frame);
    stack->waits |= waits;
}

tess_status log_stacks_take(log_stacks *stacks, const char *line, size_t size, int rank)
{
    if (log_begins_with(line, size, "Process "))
        return begin_process(stacks, line, size, rank);
    if (!stacks->in_process)
        return TESS_OK;
    if (log_begins_with(line, size, "Thread "))
        stacks->in_main = memmem(line, size, "\"MainThread\"", 12) != NULL;
    else if (size > 4 && log_begins_with(line, size, "    ") && line[4] != ' ') {
        if (stacks->in_main)
            take_frame(&stacks->list[stacks->n - 1], line, size);
    } else if (size > 0 && line[0] != ' ' && !log_begins_with(line, size, "Python v")) {
        stacks->in_process = false;
    }
    return TESS_OK;
}

void log_stacks_free(log_stacks *stacks)
{
    tess_mem_free(stacks->mem, stacks->list);
    *stacks = (log_stacks){.mem = stacks->mem};
}

/* ---- The verdict ---- */
static bool same_place(const log_stack *a, const log_stack *b)
{
    return a->waits == b->waits && strcmp(a->where, b->where) == 0 && strcmp(a->call, b->call) == 0;
}

static int count_at(const log_stacks *stacks, const log_stack *place)
{
    int n = 0;
    for (int i = 0; i < stacks->n; i++)
        n += same_place(&stacks->list[i], place);
    return n;
}

/* Returns a process at the place where most processes wait, or NULL if none waits. */
static const log_stack *most_waited(const log_stacks *stacks)
{
    const log_stack *best = NULL;
    int most = 0;
    for (int i = 0; i < stacks->n; i++) {
        int n = stacks->list[i].waits && (best == NULL || !same_place(&stacks->list[i], best))
                    ? count_at(stacks, &stacks->list[i])
                    : 0;
        if (n > most) {
            most = n;
            best = &stacks->list[i];
        }
    }
    return best;
}

/* Formats "rank 3 (pid 17)" or "pid 17". */
static size_t name(const log_stack *stack, char *text, size_t size)
{
    return (size_t)(stack->rank >= 0 ? snprintf(text, size, "rank %d (pid %d)", stack->rank, stack->pid)
                                     : snprintf(text, size, "pid %d", stack->pid));
}

/* Lists the processes that are at `place` (there), or those that are not. */
static const char *name_all(const log_stacks *stacks, const log_stack *place, bool there, char *text, size_t size)
{
    size_t at = 0;
    int n = 0;
    text[0] = '\0';
    for (int i = 0; i < stacks->n; i++) {
        if (same_place(&stacks->list[i], place) != there)
            continue;
        if (n++ >= MOST_NAMED)
            continue;
        at += (size_t)snprintf(text + at, size - at, "%s", n > 1 ? ", " : "");
        at += name(&stacks->list[i], text + at, size - at);
    }
    if (n > MOST_NAMED)
        snprintf(text + at, size - at, " and %d more", n - MOST_NAMED);
    return text;
}

/* Formats "all_reduce, called by train_step (train.py:9)" or "load (data.py:8)". */
static const char *describe(const log_stack *stack, char *text, size_t size)
{
    if (stack->where[0] == '\0')
        snprintf(text, size, "%s", stack->call[0] != '\0' ? stack->call : "no code of Python");
    else if (stack->waits)
        snprintf(text, size, "%s, called by %s", stack->call, stack->where);
    else
        snprintf(text, size, "%s", stack->where);
    return text;
}

/* Formats "pid 7 is in load (data.py:8)" or "rank 1 (pid 7), rank 2 (pid 8) are in all_reduce, called by step
 * (train.py:9)". */
static const char *place_all(const log_stacks *stacks, const log_stack *place, bool there, const log_stack *example,
                             char *text, size_t size)
{
    char who[256], where[256];
    int n = count_at(stacks, place);
    bool one = there ? n == 1 : stacks->n - n == 1;
    snprintf(text, size, "%s %s in %s", name_all(stacks, place, there, who, sizeof(who)), one ? "is" : "are",
             describe(example, where, sizeof(where)));
    return text;
}

void log_stacks_judge(const log_stacks *stacks, char *text, size_t size, const log_stack **odd)
{
    char most[560], others[560];
    const log_stack *waited = most_waited(stacks), *first = NULL;
    const log_stack *place = waited != NULL ? waited : &stacks->list[0];
    bool all_wait = true;
    *odd = NULL;
    for (int i = 0; i < stacks->n; i++) {
        first = first == NULL && !same_place(&stacks->list[i], place) ? &stacks->list[i] : first;
        all_wait &= stacks->list[i].waits;
    }
    place_all(stacks, place, true, place, most, sizeof(most));
    if (first == NULL) {
        snprintf(text, size, "%s%s", most,
                 waited == NULL ? ""
                 : stacks->n == 1
                     ? " and waits for other ranks: their stacks say who is elsewhere"
                     : ": a rank whose stack is not here is missing, or the network or a device stands still");
        return;
    }
    place_all(stacks, place, false, first, others, sizeof(others));
    if (waited == NULL)
        snprintf(text, size, "no process waits for another: %s, %s", most, others);
    else if (all_wait)
        snprintf(text, size, "processes wait in different collectives: %s, %s", most, others);
    else
        snprintf(text, size, "%s, while %s and wait%s for it", others, most, count_at(stacks, place) == 1 ? "s" : "");
    if (waited != NULL && !all_wait && count_at(stacks, place) == stacks->n - 1)
        *odd = first;
}
