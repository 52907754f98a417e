#include "plan/plan_report.h"

#include <math.h>
#include <string.h>

#include "base/text/json.h"

enum { JSON_VERSION = 1 };

const tess_form_part tess_plan_form[] = {
    {.text =
         "{ranks} rank{ranks:s}, {ranks_a_host} on a host, on {machine.title}[{machine.measured:!}; "
         "{time.measured_share:%} of the kernels' time was measured here][{machine.data_sheet:!}; times are from data "
         "sheets]\n"
         "[{micro_batch:!}training.local_batch_size=auto: {micro_batch.rows} row{micro_batch.rows:s}"
         "[{micro_batch.next_rows:!}; {micro_batch.next_rows} need {micro_batch.next_bytes:B}]\n]"
         "\nmemory of the rank that needs most, rank {memory.rank}[ ({memory.stages})]\n"
         "{*memory.pools}  {name:-12} {bytes:B}\n{/}"
         "  {memory.counts}: {memory.bytes:B}[ of {memory.room:B}][{memory.lack:!}: {memory.lack:B} TOO LITTLE]\n"
         "[{memory.host_lack:!}  of a host, for all its ranks: {memory.host_bytes:B} of {memory.host_room:B}: "
         "{memory.host_lack:B} TOO LITTLE\n]"
         "[{memory.moment:!}  most is in use in {memory.moment}: {*memory.alive:, }{what} {bytes:B} ({pool}){/}\n]"
         "\nvolume of a step of rank 0, from other ranks\n"
         "{*volume}  {axis:-16} {operation:-24} {number:8}  {bytes:B}\n{/}"
         "[{no_volume:!}  nothing\n]"
         "\ntime of a step: {time.step_ms:m} ms, {time.tokens_per_s:c} tokens/s, {time.tokens_per_s_rank:m} of a rank, "
         "MFU "
         "{time.mfu:%}; limited by {time.bound}[ of {time.bound_axis}]\n"
         "[{corrected:!}  corrected: all times are {corrected:.3f} times those that were predicted, as --measure "
         "found\n]"
         "{*time.parts}  {name:-24} {ms:10m} ms  {share:6.1%}\n{/}"
         "\n  kernel                        calls        ms   TFLOP/s      GB/s\n"
         "{*time.kernels}  {name:-24} {calls:10.0f} {ms:9m} {tflops:9m} {gbs:9m}  {by}[{estimated:!}, not "
         "measured]\n{/}"
         "[{time.teams:!}\n  axis             link             calls         bytes         ms  exposed ms\n"
         "{*time.teams}  {axis:-16} {link:-14} {calls:7.0f} {bytes:13B} {ms:10m} {exposed_ms:11m}\n{/}]"
         "[{time.goodput:!}\ngoodput {time.goodput:%}[, a save every {time.save_every_s:m} s]\n]"
         "[{time.joules_per_token:!}energy {time.joules_per_token:m} J a token, {time.watts:m} W\n]"
         "[{time.price_per_million:!}price {time.price_per_million:m} {time.currency} for a million tokens\n]"},
    {NULL, NULL}};

static json_t *pools_json(const tess_plan_request *q, const tess_plan_memory *m)
{
    json_t *pools = json_array();
    const bool gpu = q->machine->machine.kind == TESS_MACHINE_GPU;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        const double bytes = gpu ? m->most.device[pool] : m->most.pool[pool];
        if (bytes > 0)
            json_array_append_new(pools,
                                  json_pack("{s:s, s:f}", "name", tess_pool_name((tess_pool)pool), "bytes", bytes));
    }
    return pools;
}

static json_t *memory_json(const tess_plan_request *q, const tess_plan_memory *m)
{
    json_t *alive = json_array();
    for (int i = 0; i < m->n_alive; i++)
        json_array_append_new(alive, json_pack("{s:o, s:s, s:f}", "what", tess_json_text(m->alive[i].what), "pool",
                                               tess_pool_name(m->alive[i].pool), "bytes", m->alive[i].bytes));
    const bool gpu = q->machine->machine.kind == TESS_MACHINE_GPU;
    json_t *json = json_pack("{s:i, s:s, s:o, s:s, s:f, s:f, s:f, s:s, s:o}", "rank", m->rank, "stages", m->most.stages,
                             "pools", pools_json(q, m), "counts",
                             gpu ? "of the device, without work space of kernels" : "all ranks of a host", "bytes",
                             m->bytes, "room", m->room, "missing", m->missing, "moment", m->moment, "alive", alive);
    if (m->room > 0 && m->bytes > m->room)
        json_object_set_new(json, "lack", json_real(m->bytes - m->room));
    if (m->host_room > 0 && m->host_bytes > m->host_room)
        json_object_update_new(json, json_pack("{s:f, s:f, s:f}", "host_bytes", m->host_bytes, "host_room",
                                               m->host_room, "host_lack", m->host_bytes - m->host_room));
    return json;
}

static json_t *volume_json(const tess_plan_volume *v)
{
    json_t *rows = json_array();
    for (int i = 0; i < v->of_rank.n_rows; i++) {
        const tess_volume_row *row = &v->of_rank.rows[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:I, s:f}", "axis", row->team, "operation",
                                              tess_trace_op_name(row->kind), "number", (json_int_t)row->n, "bytes",
                                              (double)row->bytes));
    }
    if (v->exchanged_bytes > 0)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:n, s:f}", "axis", "tp, cp", "operation",
                                              "exchanges of layers", "number", "bytes", v->exchanged_bytes));
    return rows;
}

static void add_part(json_t *parts, const char *name, double seconds, double all)
{
    if (seconds > 0)
        json_array_append_new(parts, json_pack("{s:s, s:f, s:f}", "name", name, "ms", seconds * 1e3, "share",
                                               all > 0 ? seconds / all : 0));
}

static json_t *parts_json(const tess_plan_time *t)
{
    json_t *parts = json_array();
    add_part(parts, "kernels", t->compute_s, t->step_s);
    add_part(parts, "exposed communication", t->exposed_s, t->step_s);
    add_part(parts, "bubble", t->bubble_s, t->step_s);
    add_part(parts, "optimizer", t->optimizer_s, t->step_s);
    add_part(parts, "loader", t->loader_s, t->step_s);
    add_part(parts, "other", t->other_s, t->step_s);
    return parts;
}

static json_t *kernels_json(const tess_plan_time *t)
{
    json_t *kernels = json_array();
    for (int i = 0; i < t->n_kernels; i++) {
        const tess_plan_kernel *k = &t->kernels[i];
        json_array_append_new(kernels,
                              json_pack("{s:s, s:f, s:f, s:f, s:f, s:s, s:b}", "name", k->name, "calls", k->n, "ms",
                                        k->seconds * 1e3, "tflops", k->seconds > 0 ? k->flops / k->seconds * 1e-12 : 0,
                                        "gbs", k->seconds > 0 ? k->bytes / k->seconds * 1e-9 : 0, "by",
                                        k->by_compute ? "compute" : "memory", "estimated", !k->measured));
    }
    return kernels;
}

static json_t *time_json(const tess_plan_request *q, const tess_plan_time *t)
{
    json_t *teams = json_array(), *phases = json_object();
    for (int i = 0; i < t->n_teams; i++) {
        const tess_plan_team *team = &t->teams[i];
        json_array_append_new(teams, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "axis", team->name, "link",
                                               tess_link_name(team->link), "calls", team->n, "bytes", team->bytes, "ms",
                                               team->seconds * 1e3, "exposed_ms", team->exposed_s * 1e3));
    }
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        json_object_set_new(phases, tess_phase_name((tess_phase)phase), json_real(t->phase_s[phase]));
    json_t *time =
        json_pack("{s:f, s:f, s:f, s:f, s:s, s:s, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:f, s:s}", "step_ms",
                  t->step_s * 1e3, "tokens_per_s", t->tokens_per_s, "tokens_per_s_rank", t->tokens_per_s_rank, "mfu",
                  t->mfu, "bound", tess_plan_bound_name(t->bound), "bound_axis", t->bound_axis, "parts", parts_json(t),
                  "kernels", kernels_json(t), "teams", teams, "phases", phases, "flops", t->flops, "tokens", t->tokens,
                  "measured_share", t->measured_share, "watts", t->watts, "currency", q->machine->cost.currency);
    if (t->goodput < 1)
        json_object_update_new(time, json_pack("{s:f, s:f}", "goodput", t->goodput, "save_every_s", t->save_every_s));
    json_object_set_new(time, "joules_per_token", tess_json_number(t->joules_per_token));
    json_object_set_new(time, "price_per_million", tess_json_number(t->price_per_million));
    return time;
}

json_t *tess_plan_json(const tess_plan_request *q, const tess_plan *plan)
{
    const tess_machine *m = q->machine;
    const int n = q->ranks_a_host > 0 ? q->ranks_a_host : tess_machine_ranks_a_host(m, q->n_ranks);
    json_t *volume = volume_json(&plan->volume);
    return json_pack("{s:i, s:i, s:i, s:{s:s, s:s, s:b, s:b}, s:o, s:b, s:o, s:o}", "version", JSON_VERSION, "ranks",
                     q->n_ranks, "ranks_a_host", n, "machine", "name", m->machine.name, "title", m->machine.title,
                     "measured", m->times != NULL, "data_sheet", m->times == NULL, "memory",
                     memory_json(q, &plan->memory), "no_volume", json_array_size(volume) == 0, "volume", volume, "time",
                     time_json(q, &plan->time));
}
