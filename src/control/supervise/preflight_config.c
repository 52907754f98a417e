#include "control/supervise/preflight_config.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/store/store.h"
#include "engine/model/model_file.h"
#include "nn/model.h"
#include "data/files/data_files.h"
#include "plan/memory_need.h"
#include "engine/stages/rank_stage.h"

enum { CONFIG, MODEL, DATA, CHECKPOINT, N_CHECKS };

enum { NOTE_BYTES = 1024 };

/* Bytes per parameter in a checkpoint: master weight and two moments in float32. */
enum { CHECKPOINT_BYTES = 12 };

static const char *const names[N_CHECKS] = {"config", "model", "data-files", "checkpoint"};

/* ---- Reading ---- */

static tess_status count_params(tess_mem *mem, const tess_config *config, double *n_params)
{
    tess_model *model;
    tess_model_config sizes;
    TESS_TRY(tess_config_load_model(config, NULL, &sizes));
    TESS_TRY(tess_model_create(mem, &sizes, &model));
    *n_params = (double)tess_model_count(model);
    tess_model_destroy(&model);
    return TESS_OK;
}

/* Predicts the bytes of memory that the n_local ranks of this host will use. */
static tess_status predict(const tess_preflight_config *read, int world, int n_local, tess_memory_need *need)
{
    TESS_AUTO(tess_config_free) tess_config checked = {0};
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    tess_model_config sizes;
    TESS_TRY(tess_config_copy(&read->config, &checked));
    tess_config_assume_batch(&checked);
    TESS_TRY(tess_config_check_step(&checked, world));
    TESS_TRY(tess_config_load_model(&checked, NULL, &sizes));
    TESS_TRY(tess_mem_create(&mem));
    const tess_memory_plan plan = tess_memory_plan_of(&checked, n_local);
    return tess_memory_predict(mem, &sizes, &plan, need);
}

/* Returns those bytes; 0: not known. */
static double predict_memory(const tess_preflight_config *read, int world, int n_local)
{
    tess_memory_need need = {.host = 0};
    tess_status status = predict(read, world, n_local, &need);
    tess_error_clear(); /* a check of the configuration or of the model reports the error */
    return status == TESS_OK ? need.host : 0;
}

static void take_message(char *text, size_t size)
{
    snprintf(text, size, "%s", tess_error_message());
    tess_error_clear();
}

static bool is_given(const tess_preflight_config *read)
{
    return read->path != NULL || read->n_overrides > 0;
}

void tess_preflight_read(tess_preflight_config *read)
{
    tess_mem *mem;
    read->loaded = tess_mem_create(&mem);
    if (read->loaded == TESS_OK)
        read->loaded = tess_config_load(mem, read->path, read->overrides, read->n_overrides, &read->config);
    if (read->loaded != TESS_OK)
        take_message(read->error, sizeof(read->error));
    else if (is_given(read) && count_params(mem, &read->config, &read->n_params) != TESS_OK)
        take_message(read->model_error, sizeof(read->model_error));
    tess_mem_destroy(&mem);
}

void tess_preflight_plan(const tess_preflight_config *read, int world, tess_probe_plan *plan)
{
    bool known = is_given(read) && read->loaded == TESS_OK;
    plan->dump_folder = known ? read->config.job.dump_folder : ".";
    plan->chooses = known && tess_config_batch_is_open(&read->config);
    plan->state_bytes = read->n_params > 0 ? predict_memory(read, world, plan->n_ranks) : 0;
    plan->checkpoint_bytes = known && read->config.checkpoint.enable ? read->n_params * CHECKPOINT_BYTES : 0;
    plan->config_hash = known ? tess_config_hash(&read->config) : 0;
}

/* ---- Checks ---- */

typedef struct config_check {
    const tess_preflight_config *read;
    int world;
    tess_probe_findings *findings;
} config_check;

static void add_failure(const config_check *l, int check, const char *message)
{
    tess_probe_add(l->findings, TESS_PROBE_CONFIG, names[check], TESS_PROBE_FAIL, "%s", message);
    tess_error_clear();
}

#define ADD(l, check, diagnosis, ...) \
    tess_probe_add((l)->findings, TESS_PROBE_CONFIG, names[check], diagnosis, __VA_ARGS__)

/* Checks that there are enough layers for the stages, and that their schedule fits n_local micro-batches. ends: the
 * layers of each stage; "" without a pipeline. */
static tess_status check_stages(const tess_config *checked, int n_local, char *ends, size_t size)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    tess_model_config sizes;
    tess_stage_plan plan = {0};
    char layers[TESS_STAGE_LAYERS];
    size_t at = 0;
    ends[0] = '\0';
    if (checked->parallelism.pipeline_parallel_degree == 1)
        return TESS_OK;
    TESS_TRY(tess_mem_create(&mem));
    if (tess_config_load_model(checked, NULL, &sizes) != TESS_OK)
        return TESS_OK; /* the check of the model reports the error */
    TESS_TRY(tess_stage_plan_create(mem, checked, &sizes, 0, &plan));
    for (int g = 0; g < plan.shape.ranks * plan.shape.chunks && at + 32 < size; g++)
        at = tess_text_add(ends, size, at, "%s%s", g > 0 ? ", " : "; stages of layers ",
                           tess_stage_layers(&plan, g, layers));
    tess_status status = tess_stage_check_order(mem, &plan, n_local);
    tess_stage_plan_free(mem, &plan);
    return status;
}

/* Checks the batch. `checked` has passed tess_config_check. Ranks of one stage share a step's micro-batches; ranks
 * that share its layers, or the tokens of a micro-batch, count as one. */
static void add_batch(const config_check *l, const tess_config *checked)
{
    char ends[256], of[64];
    int n_data = tess_config_trainers(checked, l->world) / tess_config_model_ranks(checked),
        tp = (int)checked->parallelism.tensor_parallel_degree, cp = (int)checked->parallelism.context_parallel_degree;
    int64_t local = checked->training.local_batch_size, global = checked->training.global_batch_size;
    int64_t n_micro = tess_config_micro_batches(checked);
    size_t at = tess_text_add(of, sizeof(of), 0, "%s%s", tp * cp > 1 ? "group" : "rank", n_data == 1 ? "" : "s");
    if (tp * cp > 1)
        at = tess_text_add(of, sizeof(of), at, " of %d", tp * cp);
    if (cp > 1)
        at = tess_text_add(of, sizeof(of), at, " (cp %d, tp %d)", cp, tp);
    tess_text_add(of, sizeof(of), at, "%s", checked->parallelism.pipeline_parallel_degree > 1 ? " of a stage" : "");
    if (check_stages(checked, (int)((n_micro + n_data - 1) / n_data), ends, sizeof(ends)) != TESS_OK)
        add_failure(l, CONFIG, tess_error_message());
    else if (n_micro % n_data == 0)
        ADD(l, CONFIG, TESS_PROBE_OK, "%" PRId64 " rows a step = %d %s x %" PRId64 " x %" PRId64 "%s", global, n_data,
            of, n_micro / n_data, local, ends);
    else
        ADD(l, CONFIG, TESS_PROBE_OK,
            "%" PRId64 " rows a step = %" PRId64 " micro-batches of %" PRId64 ", which %d %s share unevenly%s", global,
            n_micro, local, n_data, of, ends);
}

static tess_status check_copy(const config_check *l, tess_config *checked)
{
    TESS_TRY(tess_config_copy(&l->read->config, checked));
    tess_config_assume_batch(checked);
    return tess_config_check(checked, l->world);
}

static void check_config(const config_check *l)
{
    TESS_AUTO(tess_config_free) tess_config checked = {0};
    if (l->read->loaded != TESS_OK)
        add_failure(l, CONFIG, l->read->error);
    else if (check_copy(l, &checked) != TESS_OK)
        add_failure(l, CONFIG, tess_error_message());
    else if (tess_config_batch_is_open(&l->read->config))
        ADD(l, CONFIG, TESS_PROBE_OK, "training.local_batch_size=auto: the run chooses it by the memory of its hosts");
    else
        add_batch(l, &checked);
}

static void check_model(const config_check *l)
{
    char count[32];
    const tess_config *config = &l->read->config;
    if (l->read->model_error[0] != '\0') {
        add_failure(l, MODEL, l->read->model_error);
        return;
    }
    tess_format_count(l->read->n_params, count, sizeof(count));
    ADD(l, MODEL, TESS_PROBE_OK, "%s parameters%s%s", count, config->model.path[0] != '\0' ? " from " : "",
        config->model.path);
}

typedef struct file_survey {
    int n, n_bad;
    double bytes;
    char first[TESS_TEXT_SIZE + 64]; /* text of the first problem */
} file_survey;

static void survey(file_survey *s, const char *path)
{
    uint64_t bytes = 0;
    const char *problem = NULL;
    if (tess_os_file_size(path, &bytes) != TESS_OK)
        problem = "is not there, or no file";
    else if (bytes == 0)
        problem = "is empty";
    else if (access(path, R_OK) != 0)
        problem = "may not be read";
    tess_error_clear();
    s->n++;
    s->bytes += (double)bytes;
    if (problem != NULL && s->n_bad++ == 0)
        snprintf(s->first, sizeof(s->first), "%s %s", path, problem);
}

static void survey_list(file_survey *s, const tess_text_list *list)
{
    tess_mem *mem;
    tess_data_files files = {0};
    tess_status status = tess_mem_create(&mem);
    if (status == TESS_OK)
        status = tess_data_files_open(mem, list, &files);
    for (size_t i = 0; i < files.n; i++)
        survey(s, files.paths[i]);
    if (status != TESS_OK && s->n_bad++ == 0)
        snprintf(s->first, sizeof(s->first), "%s", tess_error_message());
    tess_error_clear();
    tess_data_files_close(&files);
    tess_mem_destroy(&mem);
}

static void check_data(const config_check *l)
{
    file_survey s = {0};
    char size[32];
    const tess_config *config = &l->read->config;
    survey_list(&s, &config->data.files);
    if (config->validation.enable)
        survey_list(&s, &config->validation.files);
    if (config->tokenizer.path[0] != '\0' && !tess_os_is_dir(config->tokenizer.path))
        survey(&s, config->tokenizer.path);
    tess_format_bytes(s.bytes, size, sizeof(size));
    if (s.n_bad > 0)
        ADD(l, DATA, TESS_PROBE_FAIL, "%s%s", s.first, s.n_bad > 1 ? ", and it is not the only one" : "");
    else
        ADD(l, DATA, TESS_PROBE_OK, "%d, %s", s.n, size);
}

/* Takes the first note only, which is about the newest checkpoint. */
static void take_first_note(void *self, const char *note)
{
    char *first = self;
    if (first[0] == '\0')
        snprintf(first, NOTE_BYTES, "%s", note);
}

/* Adds a finding about damaged checkpoints. `newest`: step of the newest complete checkpoint; -1: none. */
static void add_damage(const config_check *l, const char *damaged, int64_t newest)
{
    const tess_config *config = &l->read->config;
    if (newest < 0)
        ADD(l, CHECKPOINT, TESS_PROBE_FAIL,
            "%s: the job would not start, and there is no other (checkpoint.resume=false starts anew)", damaged);
    else if (config->checkpoint.on_damage == TESS_DAMAGE_PREVIOUS || config->checkpoint.load_step >= 0)
        ADD(l, CHECKPOINT, TESS_PROBE_WARN, "%s: the job would begin at step %" PRId64, damaged, newest);
    else
        ADD(l, CHECKPOINT, TESS_PROBE_FAIL,
            "%s: the job would not start; checkpoint.on_damage=previous goes on from step %" PRId64, damaged, newest);
}

static void check_checkpoint(const config_check *l)
{
    char folder[1024], note[NOTE_BYTES] = "";
    int64_t newest = -1;
    const tess_config *config = &l->read->config;
    const tess_ckpt_listener listener = {.self = note, .note = take_first_note};
    if (!config->checkpoint.enable) {
        ADD(l, CHECKPOINT, TESS_PROBE_WARN, "checkpoint.enable=false: whatever ends the job loses its work");
        return;
    }
    tess_status status = tess_os_join(folder, sizeof(folder), config->job.dump_folder, config->checkpoint.folder);
    if (status == TESS_OK)
        status = tess_ckpt_latest(folder, &listener, &newest);
    if (status != TESS_OK && status != TESS_E_NOT_FOUND) {
        add_failure(l, CHECKPOINT, tess_error_message());
        return;
    }
    tess_error_clear();
    if (!config->checkpoint.resume)
        ADD(l, CHECKPOINT, TESS_PROBE_OK, "checkpoint.resume=false: the job starts anew");
    else if (note[0] != '\0')
        add_damage(l, note, newest);
    else if (newest >= 0)
        ADD(l, CHECKPOINT, TESS_PROBE_OK, "goes on from step %" PRId64, newest);
    else
        ADD(l, CHECKPOINT, TESS_PROBE_OK, "none yet");
}

void tess_preflight_look(const tess_preflight_config *read, int world, const char *only, tess_probe_findings *findings)
{
    static void (*const checks[N_CHECKS])(const config_check *l) = {check_config, check_model, check_data,
                                                                    check_checkpoint};
    config_check l = {read, world, findings};
    if (!is_given(read))
        return;
    for (int i = 0; i < N_CHECKS; i++)
        if (tess_probe_wanted(only, names[i]) && (i == CONFIG || read->loaded == TESS_OK))
            checks[i](&l);
}
