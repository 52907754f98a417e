#include "rl/env/rl_environment.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "rl/reward/grader_worker.h"

struct tess_rl_environment {
    grader_command command;
    grader_worker worker;
    char program[TESS_TEXT_SIZE]; /* name used in messages */
    double timeout_s, start_s;
};

tess_status tess_rl_environment_create(tess_mem *mem, const tess_text_list *command, const tess_reward_options *options,
                                       tess_rl_environment **out)
{
    TESS_AUTO(tess_rl_environment_destroy) tess_rl_environment *e = NULL;
    tess_reward_options o = *options;
    TESS_TRY(tess_reward_options_complete(&o));
    TESS_TRY(TESS_NEW(mem, 1, "environment", &e));
    *e = (tess_rl_environment){.timeout_s = o.timeout_s, .start_s = o.start_s};
    snprintf(e->program, sizeof(e->program), "%s", command->item[0]);
    TESS_TRY_CTX(grader_command_create(tess_scope_of(e), command, &o, &e->command), "rollout.env_command");
    TESS_TRY_CTX(grader_worker_init(mem, (size_t)o.max_answer_bytes + 1, &e->worker), "rollout.env_command");
    *out = TESS_GIVE(e);
    return TESS_OK;
}

void tess_rl_environment_destroy(tess_rl_environment **handle)
{
    tess_rl_environment *e = *handle;
    if (e == NULL)
        return;
    if (e->worker.from != NULL)
        grader_worker_free(&e->worker);
    tess_mem_drop(handle);
}

tess_status tess_rl_environment_check(tess_rl_environment *e)
{
    return grader_worker_check(&e->command, &e->worker, "rollout.env_command", e->program);
}

static tess_status write_turn(const tess_turn *turn, tess_buffer *to)
{
    json_t *line =
        json_pack("{s:I, s:I, s:o*, s:o*, s:o*, s:o*}", "id", (json_int_t)turn->id, "turn", (json_int_t)turn->turn,
                  "prompt", tess_json_text(turn->prompt), "response", tess_json_text(turn->response), "answer",
                  tess_json_text(turn->answer), "label", tess_json_text(turn->label));
    int put = line == NULL ? -1
                           : json_object_set_new(line, "metadata",
                                                 turn->metadata != NULL ? json_deep_copy(turn->metadata) : json_null());
    char *text = put == 0 && json_object_size(line) == 7 ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for a turn");
    tess_status status = tess_buffer_printf(to, "%s\n", text);
    free(text);
    return status;
}

/* Parses the answer, which is one line. */
static tess_status take_answer(const grader_worker *worker, size_t size, const tess_turn *turn,
                               tess_buffer *observation, bool *goes_on)
{
    json_auto_t *answer = NULL;
    TESS_TRY(tess_json_parse(worker->from, size, "its answer", true, &answer));
    const json_t *id = json_object_get(answer, "id"), *text = json_object_get(answer, "observation");
    tess_status status = TESS_OK;
    if (!json_is_integer(id) || json_integer_value(id) != (json_int_t)turn->id ||
        !(json_is_string(text) || json_is_null(text)))
        status = TESS_FAIL(TESS_E_FORMAT,
                           "its answer to id %llu is no {\"id\": %llu, \"observation\": text or null}: '%.*s%s'",
                           (unsigned long long)turn->id, (unsigned long long)turn->id, (int)(size < 80 ? size : 80),
                           worker->from, size > 80 ? "..." : "");
    observation->size = 0;
    *goes_on = status == TESS_OK && json_is_string(text);
    if (*goes_on)
        status = tess_buffer_append(observation, json_string_value(text), json_string_length(text));
    return status;
}

/* Reads the available bytes; *size: size of the line, once it is complete. */
static tess_status listen_once(grader_worker *worker, size_t *size)
{
    const bool ended = grader_process_has_ended(&worker->process);
    const size_t before = worker->got;
    grader_worker_read_errors(worker);
    const bool open = grader_worker_read(worker);
    const char *end = worker->got > 0 ? memchr(worker->from, '\n', worker->got) : NULL;
    if (end != NULL) {
        *size = (size_t)(end - worker->from);
        return TESS_OK;
    }
    TESS_CHECK(worker->got < worker->room, TESS_E_FORMAT, "more than %zu bytes without a line end", worker->room - 1);
    TESS_CHECK(!ended || worker->got > before, TESS_E_IO, "it has ended");
    TESS_CHECK(open || !grader_worker_is_mute(worker), TESS_E_IO, "it closed its standard output");
    return TESS_OK;
}

static tess_status exchange(tess_rl_environment *e, const tess_turn *turn, tess_buffer *observation, bool *goes_on)
{
    enum { LOOK_MS = 100 };
    grader_worker *worker = &e->worker;
    size_t size = 0;
    while (worker->process.pid == 0 && tess_os_now_s() < worker->not_before_s)
        poll(NULL, 0, LOOK_MS);
    if (worker->process.pid == 0)
        TESS_TRY(grader_worker_start(&e->command, worker));
    const double allowed_s = e->timeout_s + (worker->n_answers == 0 ? e->start_s : 0);
    const double deadline_s = tess_os_now_s() + allowed_s;
    TESS_TRY(write_turn(turn, &worker->to));
    while (size == 0) {
        grader_worker_write(worker);
        TESS_TRY(listen_once(worker, &size));
        TESS_CHECK(size > 0 || tess_os_now_s() < deadline_s, TESS_E_TIMEOUT, "no answer after %g s", allowed_s);
        struct pollfd wanted[2] = {{worker->process.out, POLLIN, 0},
                                   {worker->written < worker->to.size ? worker->process.in : -1, POLLOUT, 0}};
        if (size == 0)
            poll(wanted, 2, LOOK_MS);
    }
    TESS_CHECK(worker->got == size + 1, TESS_E_FORMAT, "more than one line for a turn");
    TESS_TRY(take_answer(worker, size, turn, observation, goes_on));
    worker->got = 0;
    worker->n_answers++;
    return TESS_OK;
}

tess_status tess_rl_environment_answer(tess_rl_environment *e, const tess_turn *turn, tess_buffer *observation,
                                       bool *goes_on)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before; /* a program that has ended must not end this process */
    sigaction(SIGPIPE, &ignore, &before);
    *goes_on = false;
    tess_status status = exchange(e, turn, observation, goes_on);
    sigaction(SIGPIPE, &before, NULL);
    if (status == TESS_OK)
        return TESS_OK;
    grader_command_hide(&e->command, status);
    char wrote[512], how[64] = "", ended[80] = "";
    int state;
    const bool has_process = e->worker.process.pid != 0;
    const bool has_ended = has_process && grader_process_has_ended(&e->worker.process);
    if (has_process)
        grader_worker_end(&e->worker, &state); /* reads the rest of standard error */
    if (has_ended)
        snprintf(ended, sizeof(ended), " (%s)", grader_end_text(state, how, sizeof(how)));
    grader_worker_tail(&e->command, &e->worker, wrote, sizeof(wrote));
    return tess_fail_context(status, "environment '%s', sample %llu, turn %lld%s%s", e->program,
                             (unsigned long long)turn->id, (long long)turn->turn, ended, wrote);
}
