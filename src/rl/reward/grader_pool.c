#include "rl/reward/grader_pool.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "rl/reward/grader_worker.h"
#include "rl/reward/reward_impl.h"

enum {
    LOOK_MS = 50, /* interval of checks for an end that the streams do not show, because other processes hold them */
    MOST_WORKERS = 1024,
    PIPE_MOST = 1 << 20
};
static const char GRADER[] = "command";

struct grader_pool {
    tess_mem *mem;
    grader_command command;
    char name[48]; /* name in messages */
    int n_workers, in_flight;
    int64_t retries;
    double timeout_s, start_s;
    size_t max_answer_bytes;
    grader_worker *worker;
    struct pollfd *wanted; /* 3 per worker */
};

/* The state of one call: a ring of the items that no process has, and the number of items without a verdict. */
typedef struct pool_run {
    grader_pool *pool;
    reward_call *call;
    double weight;
    int64_t *queue;
    int64_t first, n_queued, n_left;
    bool *alone;      /* (items) the item must have a process of its own */
    int64_t *n_tries; /* (items) tries that have failed */
} pool_run;

tess_status grader_pool_create(tess_mem *mem, const tess_reward_options *o, grader_pool **out)
{
    TESS_CHECK(o->command != NULL && o->command->n > 0, TESS_E_INVALID,
               "reward.command: the grader 'command' needs a program");
    TESS_CHECK(o->workers <= MOST_WORKERS && o->in_flight <= GRADER_MOST_IN_FLIGHT, TESS_E_INVALID,
               "reward.workers: at most %d, and %d items in flight for each", MOST_WORKERS, GRADER_MOST_IN_FLIGHT);
    TESS_AUTO(grader_pool_destroy) grader_pool *pool = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "graders", &pool));
    *pool = (grader_pool){.mem = mem,
                          .in_flight = (int)o->in_flight,
                          .retries = o->retries,
                          .timeout_s = o->timeout_s,
                          .start_s = o->start_s,
                          .max_answer_bytes = (size_t)o->max_answer_bytes};
    snprintf(pool->name, sizeof(pool->name), "%s", o->command->item[0]);
    size_t n = (size_t)o->workers;
    TESS_TRY(grader_command_create(tess_scope_of(pool), o->command, o, &pool->command));
    TESS_TRY(TESS_PART(pool, n, "graders", &pool->worker));
    TESS_TRY(TESS_PART(pool, 3 * n, "graders", &pool->wanted));
    for (; pool->n_workers < (int)n; pool->n_workers++)
        TESS_TRY(grader_worker_init(mem, pool->max_answer_bytes + 1, &pool->worker[pool->n_workers]));
    *out = TESS_GIVE(pool);
    return TESS_OK;
}

void grader_pool_destroy(grader_pool **pool)
{
    grader_pool *p = *pool;
    if (p == NULL)
        return;
    for (int i = 0; i < p->n_workers; i++)
        grader_worker_free(&p->worker[i]);
    tess_mem_drop(pool);
}

tess_status grader_pool_check(grader_pool *pool)
{
    return grader_worker_check(&pool->command, &pool->worker[0], "reward.command", pool->name);
}

/* ---- The queue ---- */
static void put_back(pool_run *run, int64_t item, bool alone)
{
    run->alone[item] = alone;
    run->queue[(run->first + run->n_queued++) % run->call->n] = item;
}

/* Makes `item` the next one that is sent. */
static void put_first(pool_run *run, int64_t item)
{
    run->first = (run->first + run->call->n - 1) % run->call->n;
    run->queue[run->first] = item;
    run->n_queued++;
}

static int64_t take(pool_run *run)
{
    int64_t item = run->queue[run->first];
    run->first = (run->first + 1) % run->call->n;
    run->n_queued--;
    return item;
}

/* ---- Failures ---- */

/* Handles the failure of an item, which the newest error message describes. Sends it to another process, or gives it
 * no reward. It is tried again only after an end or a timeout, because a program would repeat a wrong answer. The
 * tries of an item follow each other directly, so the first items reveal a program that never answers. */
static tess_status fail_item(pool_run *run, int64_t item, tess_status cause)
{
    const int64_t tries = ++run->n_tries[item];
    if (tries <= run->pool->retries && (cause == TESS_E_IO || cause == TESS_E_TIMEOUT)) {
        put_first(run, item);
        tess_error_clear();
        return TESS_OK;
    }
    grader_command_hide(&run->pool->command, cause);
    if (tries > 1)
        tess_fail_context(cause, "after %lld tries", (long long)tries);
    run->n_left--;
    return reward_call_failed(run->call, item, run->pool->name);
}

/* Ends a process that broke the protocol, as the newest error message says. `guilty` is the index in sent[] of the
 * item at fault (-1: not known). The other items return to the queue. */
static tess_status end_worker(pool_run *run, grader_worker *worker, tess_status cause, int guilty)
{
    grader_sent sent[GRADER_MOST_IN_FLIGHT];
    char message[512], tail[GRADER_STDERR * 3 + 32];
    int n = worker->n_sent, state;
    memcpy(sent, worker->sent, sizeof(sent));
    snprintf(message, sizeof(message), "%s", tess_error_message());
    grader_worker_end(worker, &state);
    guilty = n == 1 ? 0 : guilty;
    bool alone = guilty < 0;
    for (int i = 0; i < n; i++)
        if (i != guilty)
            put_back(run, sent[i].item, alone || run->alone[sent[i].item]);
    if (guilty < 0) {
        tess_error_clear();
        return TESS_OK;
    }
    TESS_FAIL(cause, "%s%s", message, grader_worker_tail(&run->pool->command, worker, tail, sizeof(tail)));
    return fail_item(run, sent[guilty].item, cause);
}

/* Handles a process that has ended by itself. A process may exit with 0 after an answer; its unanswered items then
 * go to another one. */
static tess_status worker_ended(pool_run *run, grader_worker *worker)
{
    grader_sent sent[GRADER_MOST_IN_FLIGHT];
    char message[GRADER_STDERR * 3 + 128], tail[GRADER_STDERR * 3 + 32], how[64];
    int n = worker->n_sent, state;
    bool had_answered = worker->n_answers > 0;
    memcpy(sent, worker->sent, sizeof(sent));
    grader_worker_end(worker, &state);
    bool innocent = had_answered && WIFEXITED(state) && WEXITSTATUS(state) == 0;
    if (n != 1 || innocent) {
        for (int i = 0; i < n; i++)
            put_back(run, sent[i].item, !innocent || run->alone[sent[i].item]);
        return TESS_OK;
    }
    snprintf(message, sizeof(message), "it ended (%s) %s%s", grader_end_text(state, how, sizeof(how)),
             had_answered ? "instead of answering" : "before its first answer",
             grader_worker_tail(&run->pool->command, worker, tail, sizeof(tail)));
    TESS_FAIL(TESS_E_IO, "%s", message);
    return fail_item(run, sent[0].item, TESS_E_IO);
}

static tess_status check_deadlines(pool_run *run, grader_worker *worker)
{
    double now_s = tess_os_now_s();
    char snippet[44];
    for (int i = 0; i < worker->n_sent; i++) {
        if (now_s < worker->sent[i].deadline_s)
            continue;
        if (worker->got > 0)
            TESS_FAIL(TESS_E_TIMEOUT, "no whole answer within %g s, but '%s'; it was killed", worker->sent[i].allowed_s,
                      reward_snippet(worker->from, worker->got, 40, snippet));
        else
            TESS_FAIL(TESS_E_TIMEOUT, "no answer within %g s; it was killed", worker->sent[i].allowed_s);
        return end_worker(run, worker, TESS_E_TIMEOUT, i);
    }
    return TESS_OK;
}

/* ---- Answers ---- */
static tess_status take_line(pool_run *run, grader_worker *worker, const char *line, size_t size)
{
    uint64_t id = 0;
    reward_answer answer;
    char snippet[64];
    tess_status status = reward_answer_parse(line, size, GRADER, &id, &answer);
    if (status == TESS_E_NOMEM)
        return status;
    int i = 0;
    while (status == TESS_OK && i < worker->n_sent && run->call->items[worker->sent[i].item].id != id)
        i++;
    if (status == TESS_OK && i == worker->n_sent)
        status = TESS_FAIL(TESS_E_FORMAT, "it answers for id %llu, which it was not asked: '%s'",
                           (unsigned long long)id, reward_snippet(line, size, 60, snippet));
    if (status != TESS_OK)
        return end_worker(run, worker, status, -1);
    int64_t item = worker->sent[i].item;
    grader_worker_drop(worker, i);
    worker->alone = worker->alone && worker->n_sent > 0;
    worker->n_answers++;
    run->n_left--;
    return reward_call_answered(run->call, item, run->pool->name, run->weight, &answer);
}

/* Handles the complete lines of the bytes read so far; blank lines are ignored. */
static tess_status take_lines(pool_run *run, grader_worker *worker)
{
    size_t at = 0;
    for (char *end; (end = memchr(worker->from + at, '\n', worker->got - at)) != NULL;) {
        reward_text line = reward_trim((reward_text){worker->from + at, (size_t)(end - worker->from) - at});
        at = (size_t)(end - worker->from) + 1;
        if (line.size > 0)
            TESS_TRY(take_line(run, worker, line.at, line.size));
        if (worker->process.pid == 0)
            return TESS_OK;
    }
    memmove(worker->from, worker->from + at, worker->got - at);
    worker->got -= at;
    if (worker->got < worker->room)
        return TESS_OK;
    char snippet[44];
    TESS_FAIL(TESS_E_FORMAT, "an answer of more than %zu bytes without a line end: '%s' (reward.max_answer_bytes)",
              worker->room - 1, reward_snippet(worker->from, worker->got, 40, snippet));
    return end_worker(run, worker, TESS_E_FORMAT, -1);
}

/* Reads once; after the process has ended, reads as much as a pipe can hold. */
static tess_status read_answers(pool_run *run, grader_worker *worker, bool ended, bool *open)
{
    size_t total = 0, before;
    do {
        before = worker->got;
        *open = grader_worker_read(worker);
        if (worker->got == before)
            return TESS_OK;
        total += worker->got - before;
        TESS_TRY(take_lines(run, worker));
    } while (ended && worker->process.pid != 0 && total < PIPE_MOST);
    return TESS_OK;
}

static tess_status listen_to(pool_run *run, grader_worker *worker)
{
    bool ended = grader_process_has_ended(&worker->process),
         open; /* reads first, because the process may have answered before it ended */
    grader_worker_read_errors(worker);
    TESS_TRY(read_answers(run, worker, ended, &open));
    if (worker->process.pid == 0)
        return TESS_OK;
    if (ended)
        return worker_ended(run, worker);
    if (!open && grader_worker_is_mute(worker)) {
        TESS_FAIL(TESS_E_IO, "it closed its standard output; it was killed");
        return end_worker(run, worker, TESS_E_IO, -1);
    }
    return check_deadlines(run, worker);
}

/* ---- Sending ---- */
static tess_status write_line(pool_run *run, grader_worker *worker, const tess_reward_item *item)
{
    tess_mem *mem = run->pool->mem;
    json_t *line = json_pack("{s:I, s:o*, s:o*, s:o*}", "id", (json_int_t)item->id, "prompt",
                             reward_json_text(mem, item->prompt, item->prompt_size), "response",
                             reward_json_text(mem, item->response, item->response_size), "label",
                             reward_json_text(mem, item->label, item->label_size));
    int put = line == NULL ? -1
                           : json_object_set_new(line, "metadata",
                                                 item->metadata != NULL ? json_deep_copy(item->metadata) : json_null());
    char *text = put == 0 && json_object_size(line) == 5 ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for a grader's item");
    tess_status status = tess_buffer_printf(&worker->to, "%s\n", text);
    free(text);
    return status;
}

static tess_status send_item(pool_run *run, grader_worker *worker)
{
    int64_t item = take(run);
    double allowed_s = run->pool->timeout_s + (worker->n_answers == 0 ? run->pool->start_s : 0);
    worker->sent[worker->n_sent++] = (grader_sent){item, allowed_s, tess_os_now_s() + allowed_s};
    worker->alone = run->alone[item];
    return write_line(run, worker, &run->call->items[item]);
}

static bool may_send(const pool_run *run, const grader_worker *worker)
{
    if (run->n_queued == 0 || worker->n_sent >= run->pool->in_flight || worker->alone)
        return false;
    return worker->n_sent == 0 || !run->alone[run->queue[run->first]];
}

/* Starts processes for waiting items. If a process cannot be started, its item fails. */
static tess_status feed(pool_run *run, grader_worker *worker)
{
    if (worker->process.pid == 0 && run->n_queued > 0 && tess_os_now_s() >= worker->not_before_s) {
        run->call->failures->n_restarts += worker->n_starts > 0;
        tess_status status = grader_worker_start(&run->pool->command, worker);
        if (status != TESS_OK) {
            worker->strikes++;
            worker->not_before_s = tess_os_now_s() + 1;
            run->n_left--;
            return status == TESS_E_NOMEM ? status : reward_call_failed(run->call, take(run), run->pool->name);
        }
    }
    while (worker->process.pid != 0 && may_send(run, worker))
        TESS_TRY(send_item(run, worker));
    if (worker->process.pid != 0)
        grader_worker_write(worker);
    return TESS_OK;
}

/* ---- The loop ---- */
static void want(struct pollfd *wanted, int fd, short events)
{
    *wanted = (struct pollfd){.fd = fd, .events = events};
}

/* Waits until something can be read or written, or for the next deadline. */
static void wait_for_any(pool_run *run)
{
    grader_pool *pool = run->pool;
    double now_s = tess_os_now_s(), wait_s = LOOK_MS * 1e-3;
    for (int i = 0; i < pool->n_workers; i++) {
        const grader_worker *worker = &pool->worker[i];
        bool runs = worker->process.pid != 0;
        want(&pool->wanted[3 * i], worker->written < worker->to.size ? worker->process.in : -1, POLLOUT);
        want(&pool->wanted[3 * i + 1], runs ? worker->process.out : -1, POLLIN);
        want(&pool->wanted[3 * i + 2], runs ? worker->process.err : -1, POLLIN);
        for (int j = 0; j < worker->n_sent; j++)
            if (worker->sent[j].deadline_s - now_s < wait_s)
                wait_s = worker->sent[j].deadline_s - now_s;
    }
    poll(pool->wanted, (nfds_t)(3 * pool->n_workers), wait_s > 0 ? 1 + (int)(wait_s * 1e3) : 0);
}

static tess_status run_all(pool_run *run)
{
    while (run->n_left > 0) {
        for (int i = 0; i < run->pool->n_workers; i++)
            TESS_TRY(feed(run, &run->pool->worker[i]));
        if (run->n_left > 0)
            wait_for_any(run);
        for (int i = 0; i < run->pool->n_workers; i++)
            if (run->pool->worker[i].process.pid != 0)
                TESS_TRY(listen_to(run, &run->pool->worker[i]));
    }
    return TESS_OK;
}

/* Called after a failed call: ends processes that still have items, because they would answer them during the next
 * call. */
static void end_busy(grader_pool *pool)
{
    int state;
    for (int i = 0; i < pool->n_workers; i++)
        if (pool->worker[i].process.pid != 0 && pool->worker[i].n_sent > 0)
            grader_worker_end(&pool->worker[i], &state);
}

tess_status grader_pool_score(grader_pool *pool, reward_call *call, double weight)
{
    pool_run run = {.pool = pool, .call = call, .weight = weight};
    size_t n = (size_t)call->n;
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = pool->mem};
    TESS_TRY(TESS_NEW_IN(&own, n, "items to grade", &run.queue));
    TESS_TRY(TESS_NEW_IN(&own, n, "items to grade", &run.alone));
    TESS_TRY(TESS_NEW_IN(&own, n, "items to grade", &run.n_tries));
    for (int64_t i = 0; i < call->n; i++)
        if (call->out[i].why[0] == '\0')
            put_back(&run, i, false);
    run.n_left = run.n_queued;
    tess_status status = run_all(&run);
    if (status != TESS_OK)
        end_busy(pool);
    return status;
}
