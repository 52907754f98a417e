/* Describes a snapshot for programs. */
#include <math.h>
#include <string.h>

#include "base/text/json.h"
#include "doctor/table/clean.h"
#include "doctor/table/place_table.h"
#include "doctor/top/page.h"
#include "doctor/top/top_facts.h"
#include "diagnosis/history.h"

enum { JSON_VERSION = 1 };

static json_t *seconds(uint64_t ns)
{
    return tess_json_number((double)ns * 1e-9);
}

/* Returns NULL for a text that is empty, which an object then lacks. */
static json_t *clean(const char *text)
{
    return text[0] != '\0' ? tess_clean_json(text) : NULL;
}

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
    json_object_update_new(
        object, json_pack("{s:o, s:o, s:o*}", "waits_for", missing, "waits_s", seconds(b->wait_age_ns), "waits_in",
                          clean(tess_top_operation(&b->wait_op, b->wait_team, operation, sizeof(operation)))));
}

static json_t *describe_progress(const tess_board_copy *b)
{
    json_t *phases = json_object(), *pools = json_object();
    double loss;
    memcpy(&loss, &b->loss, sizeof(loss));
    for (int i = 0; i < TESS_PHASE_COUNT; i++)
        json_object_set_new(phases, tess_phase_name((tess_phase)i), seconds(b->phase_ns[i]));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        tess_json_put_int(pools, tess_pool_name((tess_pool)pool), (int64_t)b->pool_bytes[pool]);
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o*}", "steps", (json_int_t)b->n_steps, "tokens",
                     (json_int_t)b->n_tokens, "loss", tess_json_number(b->n_steps > 0 ? loss : NAN), "step_s",
                     seconds(b->step_ns), "phase_s", phases, "memory", pools, "disk_bytes",
                     b->disk_bytes > 0 ? json_integer((json_int_t)b->disk_bytes) : NULL);
}

static json_t *describe_rank(const tess_top_snapshot *s, int number)
{
    char text[64];
    const tess_top_rank *rank = &s->ranks[number];
    const tess_board_copy *b = &rank->board;
    const bool is_odd = b->situation > TESS_RANK_WELL && b->situation < TESS_SITUATION_COUNT;
    json_t *object = json_pack("{s:i, s:o*}", "rank", number, "host", clean(rank->host));
    tess_place_put(object, &s->places, number);
    json_object_update_new(object, json_pack("{s:I, s:o*, s:o*, s:I, s:I}", "pid", (json_int_t)b->pid, "state",
                                             clean(tess_top_state(rank, text, sizeof(text))), "phase", clean(b->phase),
                                             "step", (json_int_t)b->step, "detail", (json_int_t)b->detail));
    put_wait(object, s, number);
    json_object_update_new(object, describe_progress(b));
    json_object_update_new(object, json_pack("{s:o*, s:o*, s:o*, s:o*}", "rss_bytes",
                                             rank->rss_bytes >= 0 ? json_integer((json_int_t)rank->rss_bytes) : NULL,
                                             "situation",
                                             is_odd ? clean(tess_situation_name((tess_situation)b->situation)) : NULL,
                                             "why", clean(b->why), "error", clean(b->error)));
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
    json_t *ranks = json_array();
    for (int r = 0; r < s->world; r++)
        json_array_append_new(ranks, describe_rank(s, r));
    return json_pack("{s:i, s:i, s:o*, s:b, s:o*, s:o*, s:o, s:i, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:O*, s:o}",
                     "version", JSON_VERSION, "pid", s->pid, "command", clean(s->command), "running", (int)s->running,
                     "health", clean(s->health), "ending", clean(tess_top_ending(s, ending, sizeof(ending))), "age_s",
                     tess_json_number(s->age_s), "world", s->world, "hosts", s->n_hosts, "steps", (json_int_t)t.step,
                     "loss", tess_json_number(t.loss), "step_s", tess_json_number(t.step_s), "tokens_per_s",
                     tess_json_number(t.tokens_per_s), "waited_for", describe_culprits(s, &t), "told",
                     describe_reported(s), "metrics", s->metrics, "ranks", ranks);
}

tess_status tess_top_put(const tess_top_snapshot *now, const tess_top_snapshot *before, tess_form_style style,
                         tess_buffer *out)
{
    return tess_form_put(describe_job(now, before), NULL, style, JSON_COMPACT | JSON_REAL_PRECISION(12), out);
}
