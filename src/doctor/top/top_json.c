/* Formats a snapshot as JSON for programs. */
#include <math.h>
#include <string.h>

#include "base/text/json.h"
#include "doctor/table/clean.h"
#include "doctor/table/place_table.h"
#include "doctor/top/page.h"
#include "doctor/top/top_impl.h"
#include "diagnosis/history.h"

enum { JSON_VERSION = 1 };

static void put_wait(json_t *object, const tess_top_snapshot *s, int rank)
{
    char operation[160];
    const tess_board_copy *b = &s->ranks[rank].board;
    int first;
    if (tess_top_missing(s, rank, &first) == 0)
        return;
    json_t *missing = json_array();
    for (int r = first; r < s->world; r++)
        if (tess_bits_has(s->ranks[rank].awaited, r))
            json_array_append_new(missing, json_integer(r));
    json_object_set_new(object, "waits_for", missing);
    json_object_set_new(object, "waits_s", tess_json_number((double)b->wait_age_ns * 1e-9));
    tess_clean_put(object, "waits_in", tess_top_operation(&b->wait_op, b->wait_team, operation, sizeof(operation)));
}

static void put_progress(json_t *object, const tess_board_copy *b)
{
    json_t *phases = json_object(), *pools = json_object();
    double loss;
    memcpy(&loss, &b->loss, sizeof(loss));
    tess_json_put_int(object, "steps", (int64_t)b->n_steps);
    tess_json_put_int(object, "tokens", (int64_t)b->n_tokens);
    json_object_set_new(object, "loss", tess_json_number(b->n_steps > 0 ? loss : NAN));
    json_object_set_new(object, "step_s", tess_json_number((double)b->step_ns * 1e-9));
    for (int i = 0; i < TESS_PHASE_COUNT; i++)
        json_object_set_new(phases, tess_phase_name((tess_phase)i), tess_json_number((double)b->phase_ns[i] * 1e-9));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        tess_json_put_int(pools, tess_pool_name((tess_pool)pool), (int64_t)b->pool_bytes[pool]);
    json_object_set_new(object, "phase_s", phases);
    json_object_set_new(object, "memory", pools);
    if (b->disk_bytes > 0)
        tess_json_put_int(object, "disk_bytes", (int64_t)b->disk_bytes);
}

static json_t *describe_rank(const tess_top_snapshot *s, int number)
{
    char text[64];
    const tess_top_rank *rank = &s->ranks[number];
    const tess_board_copy *b = &rank->board;
    json_t *object = json_object();
    tess_json_put_int(object, "rank", number);
    tess_clean_put(object, "host", rank->host);
    tess_place_put(object, &s->places, number);
    tess_json_put_int(object, "pid", b->pid);
    tess_clean_put(object, "state", tess_top_state(rank, text, sizeof(text)));
    tess_clean_put(object, "phase", b->phase);
    tess_json_put_int(object, "step", b->step);
    tess_json_put_int(object, "detail", b->detail);
    put_wait(object, s, number);
    put_progress(object, b);
    if (rank->rss_bytes >= 0)
        tess_json_put_int(object, "rss_bytes", rank->rss_bytes);
    if (b->situation > TESS_RANK_WELL && b->situation < TESS_SITUATION_COUNT)
        tess_clean_put(object, "situation", tess_situation_name((tess_situation)b->situation));
    tess_clean_put(object, "why", b->why);
    tess_clean_put(object, "error", b->error);
    return object;
}

static json_t *describe_culprits(const tess_top_snapshot *s, const tess_top_totals *t)
{
    char operation[160], why[JOB_WHY_BYTES];
    if (t->culprit < 0)
        return json_null();
    const tess_board_copy *waiter = &s->ranks[t->waiter].board;
    return json_pack(
        "{s:i, s:i, s:o, s:o, s:o}", "rank", t->culprit, "n_waiting", t->n_waiting, "seconds",
        tess_json_number(t->waited_s), "operation",
        tess_clean_json(tess_top_operation(&waiter->wait_op, waiter->wait_team, operation, sizeof(operation))), "why",
        tess_clean_json(tess_top_why(&s->ranks[t->culprit], why, sizeof(why))));
}

/* Returns null if there is no report. */
static json_t *describe_reported(const tess_top_snapshot *s)
{
    if (s->reported.text[0] == '\0')
        return json_null();
    return json_pack("{s:s, s:i, s:I, s:o, s:o}", "kind", tess_notice_name(s->reported.kind), "rank",
                     (int)s->reported.rank, "step", (json_int_t)s->reported.step, "age_s",
                     tess_json_number(s->reported_age_s), "text", tess_clean_json(s->reported.text));
}

static json_t *describe_job(const tess_top_snapshot *s, const tess_top_snapshot *before)
{
    char ending[JOB_ERROR_BYTES + 512];
    tess_top_totals t = tess_top_sum(s, before);
    json_t *object = json_object(), *ranks = json_array();
    tess_json_put_int(object, "version", JSON_VERSION);
    tess_json_put_int(object, "pid", s->pid);
    tess_clean_put(object, "command", s->command);
    json_object_set_new(object, "running", json_boolean(s->running));
    tess_clean_put(object, "health", s->health);
    tess_clean_put(object, "ending", tess_top_ending(s, ending, sizeof(ending)));
    json_object_set_new(object, "age_s", tess_json_number(s->age_s));
    tess_json_put_int(object, "world", s->world);
    tess_json_put_int(object, "hosts", s->n_hosts);
    tess_json_put_int(object, "steps", t.step);
    json_object_set_new(object, "loss", tess_json_number(t.loss));
    json_object_set_new(object, "step_s", tess_json_number(t.step_s));
    json_object_set_new(object, "tokens_per_s", tess_json_number(t.tokens_per_s));
    json_object_set_new(object, "waited_for", describe_culprits(s, &t));
    json_object_set_new(object, "told", describe_reported(s));
    for (int r = 0; r < s->world; r++)
        json_array_append_new(ranks, describe_rank(s, r));
    json_object_set_new(object, "ranks", ranks);
    return object;
}

tess_status tess_top_print_json(const tess_top_snapshot *now, const tess_top_snapshot *before, FILE *out)
{
    return tess_json_put(describe_job(now, before), JSON_COMPACT | JSON_REAL_PRECISION(12), out);
}
