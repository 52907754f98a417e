#include "control/checklist/checklist.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/report/form.h"
#include "base/text/json.h"
#include "doctor/run/run_numbers.h"

/* The facts by which the items are judged. */
typedef struct facts {
    const tess_config *config; /* NULL: none */
    const tess_probe_report *report;
    tess_run_numbers run; /* n_steps 0: the run has not begun */
    bool knows_growth;
    double growth; /* growth of memory in use */
} facts;

__attribute__((format(printf, 3, 4))) static void say(tess_checklist_item *item, tess_checklist_verdict verdict,
                                                      const char *format, ...)
{
    va_list args;
    item->verdict = verdict;
    va_start(args, format);
    vsnprintf(item->text, sizeof(item->text), format, args);
    va_end(args);
}

static tess_checklist_verdict pass_if(bool good)
{
    return good ? TESS_CHECKLIST_PASS : TESS_CHECKLIST_FAIL;
}

/* ---- Items that checks of machines and ranks decide ---- */
/* Judges by the findings of these checks ("gpu-ecc,gpu-temperature"): the first that warns or fails is told. */
static void by_checks(const facts *f, const char *names, const char *absent, tess_checklist_item *item)
{
    int n = 0;
    for (int h = 0; h <= f->report->n_hosts; h++) {
        const tess_probe_findings *part = h < f->report->n_hosts ? &f->report->hosts[h] : f->report->job;
        for (int i = 0; i < part->n; i++) {
            const tess_probe_finding *finding = &part->at[i];
            if (!tess_probe_wanted(names, finding->name) || finding->outcome == TESS_PROBE_ABSENT)
                continue;
            n++;
            if (finding->outcome != TESS_PROBE_OK) {
                say(item, TESS_CHECKLIST_FAIL, "%s: %.250s", finding->name, finding->text);
                return;
            }
        }
    }
    if (n > 0)
        say(item, TESS_CHECKLIST_PASS, "%s", names);
    else
        say(item, TESS_CHECKLIST_PASS, "%s", absent);
}

/* ---- Items that the run's metrics decide ---- */
static bool has_begun(const facts *f, tess_checklist_item *item)
{
    if (f->run.n_steps == 0)
        say(item, TESS_CHECKLIST_LATER, "there are no metrics in job.dump_folder yet");
    return f->run.n_steps > 0;
}

static double share(const facts *f, tess_phase phase)
{
    return f->run.step_s > 0 ? f->run.phase_s[phase] / f->run.step_s : 0;
}

static double communicating(const facts *f)
{
    return share(f, TESS_PHASE_GATHER) + share(f, TESS_PHASE_REDUCE) + share(f, TESS_PHASE_WAIT);
}

static double computing(const facts *f)
{
    return share(f, TESS_PHASE_FORWARD) + share(f, TESS_PHASE_BACKWARD) + share(f, TESS_PHASE_OPTIMIZER);
}

static void cores_are_busy(const facts *f, tess_checklist_item *item)
{
    if (has_begun(f, item))
        say(item, pass_if(computing(f) >= 0.85), "%.0f%% of a step is forward, backward and optimizer (85%%)",
            100 * computing(f));
}

static void network_is_used_well(const facts *f, tess_checklist_item *item)
{
    if (has_begun(f, item))
        say(item, pass_if(communicating(f) < 0.3), "%.0f%% of a step waits for communication (below 30%%)",
            100 * communicating(f));
}

static void memory_is_steady(const facts *f, tess_checklist_item *item)
{
    if (!has_begun(f, item))
        return;
    if (!f->knows_growth)
        say(item, TESS_CHECKLIST_LATER, "memory.jsonl has too few lines");
    else
        say(item, pass_if(f->growth < 0.05),
            "memory in use has grown by %.1f%% over the second half of the newest lines (below 5%%)", 100 * f->growth);
}

static void loss_is_sound(const facts *f, tess_checklist_item *item)
{
    if (has_begun(f, item))
        say(item, pass_if(f->run.n_bad == 0 && f->run.n_jumps == 0),
            "loss %.4g; %lld of %lld steps without a finite loss, %lld jumps", f->run.loss, (long long)f->run.n_bad,
            (long long)f->run.n_steps, (long long)f->run.n_jumps);
}

/* ---- Items that the configuration decides ---- */
static bool is_configured(const facts *f, tess_checklist_item *item)
{
    if (f->config == NULL)
        say(item, TESS_CHECKLIST_FAIL, "name a configuration that is valid");
    return f->config != NULL;
}

static void saves_hourly(const facts *f, tess_checklist_item *item)
{
    if (!is_configured(f, item))
        return;
    const tess_checkpoint_section *c = &f->config->checkpoint;
    double hours = (double)c->interval * f->run.newest_step_s / 3600;
    if (!c->enable)
        say(item, TESS_CHECKLIST_FAIL, "checkpoint.enable=false");
    else if (f->run.n_steps == 0)
        say(item, TESS_CHECKLIST_LATER, "every %lld steps; how long a step takes is not known yet",
            (long long)c->interval);
    else
        say(item, pass_if(hours <= 1), "every %lld steps, which is every %.2g h (checkpoint.interval; at most 1 h)",
            (long long)c->interval, hours);
}

static void has_copies(const facts *f, tess_checklist_item *item)
{
    if (!is_configured(f, item))
        return;
    int n = f->config->checkpoint.copies.n + (f->config->checkpoint.copy_command.n > 0);
    if (n > 0)
        say(item, TESS_CHECKLIST_PASS, "%d further place%s", n, n == 1 ? "" : "s");
    else
        say(item, TESS_CHECKLIST_FAIL, "none: name places with checkpoint.copies or checkpoint.copy_command");
}

static void recovery_is_tested(const facts *f, tess_checklist_item *item)
{
    if (f->config != NULL && !f->config->recovery.enable)
        say(item, TESS_CHECKLIST_FAIL, "recovery.enable=false");
    else
        say(item, TESS_CHECKLIST_BY_HAND, "run docs/operations/drill.sh with your storage, and write down when");
}

static void has_alerts(const facts *f, tess_checklist_item *item)
{
    if (is_configured(f, item))
        say(item, pass_if(f->config->health.enable && f->config->health.alert_command.n > 0), "%s",
            !f->config->health.enable               ? "health.enable=false"
            : f->config->health.alert_command.n > 0 ? "health.alert_command"
                                                    : "health.alert_command is empty: alerts reach only alerts.jsonl");
}

static void can_roll_back(const facts *f, tess_checklist_item *item)
{
    if (!is_configured(f, item))
        return;
    int64_t keep = f->config->checkpoint.keep_latest_k;
    say(item, pass_if(f->config->checkpoint.enable && keep != 1),
        "checkpoint.keep_latest_k=%lld; checkpoint.load_step goes back, and sets newer ones aside", (long long)keep);
}

static void overlaps(const facts *f, tess_checklist_item *item)
{
    if (!has_begun(f, item))
        return;
    if (f->run.n_ranks <= 1)
        say(item, TESS_CHECKLIST_PASS, "one rank has nothing to overlap");
    else
        say(item, pass_if(f->run.hidden_s > 0 || communicating(f) < 0.1),
            "%.3g s of communication were hidden, %.0f%% of a step waits for it", f->run.hidden_s,
            100 * communicating(f));
}

static void accumulates_sensibly(const facts *f, tess_checklist_item *item)
{
    if (!is_configured(f, item))
        return;
    const tess_training_section *t = &f->config->training;
    int64_t rows = t->local_batch_size * f->report->n_ranks / tess_config_model_ranks(f->config);
    double passes = rows > 0 ? (double)t->global_batch_size / (double)rows : 0;
    if (t->global_batch_size <= 0)
        say(item, TESS_CHECKLIST_PASS, "one micro-batch of each rank a step");
    else
        say(item, pass_if(passes >= 1 && passes <= 64), "%.3g micro-batches of each rank a step (1 to 64)", passes);
}

static void data_keeps_up(const facts *f, tess_checklist_item *item)
{
    if (has_begun(f, item))
        say(item, pass_if(share(f, TESS_PHASE_DATA) < 0.05), "%.1f%% of a step waits for data (below 5%%)",
            100 * share(f, TESS_PHASE_DATA));
}

static void algorithm_fits(const facts *f, tess_checklist_item *item)
{
    if (!is_configured(f, item))
        return;
    if (f->report->n_hosts <= 1)
        say(item, TESS_CHECKLIST_PASS, "one host: shared memory");
    else if (f->config->comm.tuning[0] != '\0')
        say(item, TESS_CHECKLIST_PASS, "comm.tuning=%.200s", f->config->comm.tuning);
    else
        say(item, TESS_CHECKLIST_BY_HAND,
            "built-in choices; `tessera bench comm --tune FILE` measures, comm.tuning=FILE");
}

static void is_mixed(const facts *f, tess_checklist_item *item)
{
    if (is_configured(f, item))
        say(item, pass_if(f->config->training.mixed_precision_param != TESS_PRECISION_F32),
            f->config->training.mixed_precision_param != TESS_PRECISION_F32 ? "training.mixed_precision_param"
                                                                            : "training.mixed_precision_param=float32");
}

static void keeps_a_trace(const facts *f, tess_checklist_item *item)
{
    if (is_configured(f, item))
        say(item, pass_if(f->config->debug.trace), "debug.trace: the newest operations of each rank outlive it");
}

static void is_watched(const facts *f, tess_checklist_item *item)
{
    if (is_configured(f, item))
        say(item, pass_if(f->config->health.enable), "health.enable; `tessera top` looks at it from outside");
}

static void can_be_profiled(const facts *f, tess_checklist_item *item)
{
    if (is_configured(f, item))
        say(item, pass_if(f->config->debug.trace), "`tessera trace FOLDER --flame FILE.svg` and --perfetto FILE");
}

/* An item is judged by a function, or by checks of machines and ranks; `absent` says why there may be none of these. */
static const struct {
    const char *group, *name;
    void (*judge)(const facts *f, tess_checklist_item *item);
    const char *checks, *absent;
} rows[] = {
    {"before", "the same software on all hosts", .checks = "same-program", .absent = "one rank"},
    {"before", "ranks reach each other", .checks = "start,all-reduce,links,interface,infiniband,tcp",
     .absent = "one rank"},
    {"before", "GPUs are well", .checks = "gpu,gpu-temperature,gpu-ecc,gpu-throttling", .absent = "no GPU here"},
    {"before", "there is room for checkpoints", .checks = "dump-folder,dump-space,dump-speed",
     .absent = "no folder for checkpoints"},
    {"before", "variables of communication are alike", .checks = "environment", .absent = "one rank"},
    {"during", "cores are busy", .judge = cores_are_busy},
    {"during", "the network is used well", .judge = network_is_used_well},
    {"during", "no rank is clearly behind", .checks = "gemm-speed,copy-speed", .absent = "one rank"},
    {"during", "memory is steady", .judge = memory_is_steady},
    {"during", "the loss is sound", .judge = loss_is_sound},
    {"recovery", "a checkpoint every hour", .judge = saves_hourly},
    {"recovery", "several copies", .judge = has_copies},
    {"recovery", "recovery was tried", .judge = recovery_is_tested},
    {"recovery", "alerts reach somebody", .judge = has_alerts},
    {"recovery", "there is a way back", .judge = can_roll_back},
    {"speed", "communication overlaps computing", .judge = overlaps},
    {"speed", "accumulation is sensible", .judge = accumulates_sensibly},
    {"speed", "data keeps up", .judge = data_keeps_up},
    {"speed", "the algorithm fits the network", .judge = algorithm_fits},
    {"speed", "mixed precision", .judge = is_mixed},
    {"tools", "a trace is kept", .judge = keeps_a_trace},
    {"tools", "processes are watched", .judge = is_watched},
    {"tools", "a profile can be had", .judge = can_be_profiled},
};

_Static_assert(sizeof(rows) / sizeof(rows[0]) == TESS_CHECKLIST_ITEMS, "23 items");

void tess_checklist_fill(const tess_config *config, const tess_probe_report *report,
                         tess_checklist_item items[TESS_CHECKLIST_ITEMS])
{
    facts f = {.config = config, .report = report};
    if (config != NULL && tess_run_numbers_read(config->job.dump_folder, &f.run) == TESS_OK)
        f.knows_growth = tess_run_memory_growth(config->job.dump_folder, &f.growth);
    tess_error_clear();
    for (int i = 0; i < TESS_CHECKLIST_ITEMS; i++) {
        items[i] = (tess_checklist_item){.group = rows[i].group, .name = rows[i].name};
        if (rows[i].judge != NULL)
            rows[i].judge(&f, &items[i]);
        else
            by_checks(&f, rows[i].checks, rows[i].absent, &items[i]);
    }
}

/* ---- Printing ---- */
static const char *const words[] = {[TESS_CHECKLIST_PASS] = "pass",
                                    [TESS_CHECKLIST_FAIL] = "FAIL",
                                    [TESS_CHECKLIST_LATER] = "later",
                                    [TESS_CHECKLIST_BY_HAND] = "you"};

int tess_checklist_failed(const tess_checklist_item items[TESS_CHECKLIST_ITEMS])
{
    int n = 0;
    for (int i = 0; i < TESS_CHECKLIST_ITEMS; i++)
        n += items[i].verdict == TESS_CHECKLIST_FAIL;
    return n;
}

tess_status tess_checklist_print(const tess_checklist_item items[TESS_CHECKLIST_ITEMS], int columns, tess_buffer *out)
{
    static const tess_form_part form[] = {
        {.list = "items", .text = "{number:2}  {verdict:-5}  {group:-8}  {name:-36}  {text:57w}\n"},
        {.text = "{passed} of {all} pass, {failed} fail; `later`: a run tells; `you`: a person tells\n"},
        {NULL, NULL}};
    int n_passed = 0;
    json_t *list = json_array();
    for (int i = 0; i < TESS_CHECKLIST_ITEMS; i++) {
        n_passed += items[i].verdict == TESS_CHECKLIST_PASS;
        json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s, s:o}", "number", i + 1, "verdict",
                                              words[items[i].verdict], "group", items[i].group, "name", items[i].name,
                                              "text", tess_json_text(items[i].text)));
    }
    json_auto_t *report =
        json_pack("{s:s, s:i, s:o, s:i, s:i, s:i}", "format", "tessera-checklist", "version", 1, "items", list,
                  "passed", n_passed, "failed", tess_checklist_failed(items), "all", TESS_CHECKLIST_ITEMS);
    TESS_CHECK(report != NULL, TESS_E_NOMEM, "no memory for the checklist");
    if (columns > 0)
        return tess_form_print(out, form, columns, report);
    return tess_form_put(json_incref(report), form, TESS_FORM_JSON, JSON_INDENT(1), out);
}
