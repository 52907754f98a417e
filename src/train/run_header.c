#include "train/run_header.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/json.h"
#include "train/trainer_impl.h"

json_t *tess_run_header_config(const tess_config *config)
{
    json_auto_t *sections = tess_config_to_json(config);
    json_t *flat = json_object(), *options, *value;
    const char *section, *name;
    char key[256];
    json_object_foreach (sections, section, options)
        json_object_foreach (options, name, value) {
            snprintf(key, sizeof(key), "%s.%s", section, name);
            json_object_set(flat, key, value);
        }
    return flat;
}

static json_t *describe_model(const tess_trainer *t)
{
    if (t->kind->program != NULL)
        return NULL;
    const tess_model_config *c = &t->model_config;
    return json_pack("{s:s, s:I, s:I, s:I, s:I}", "family", tess_family_name(c->family), "parameters",
                     (json_int_t)tess_model_count(t->engine->whole), "layers", (json_int_t)c->n_layers, "hidden",
                     (json_int_t)c->hidden_size, "vocabulary", (json_int_t)c->vocab_size);
}

/* Returns the last name of the folder's path. */
static json_t *name_of(const char *folder)
{
    char *path = realpath(folder, NULL);
    const char *at = path != NULL ? path : folder, *slash = strrchr(at, '/');
    json_t *name = tess_json_text(slash != NULL && slash[1] != '\0' ? slash + 1 : at);
    free(path);
    return name;
}

tess_status tess_run_header_write(const tess_trainer *t)
{
    const tess_config *c = &t->config;
    char host[256] = "";
    if (c->metrics.command.n == 0)
        return TESS_OK;
    gethostname(host, sizeof(host) - 1);
    json_t *header =
        json_pack("{s:s, s:i, s:o, s:o, s:I, s:I, s:i, s:o, s:{s:s, s:s}, s:o, s:o*}", "event", "run", "version", 1,
                  "name", name_of(c->job.dump_folder), "description", tess_json_text(c->job.description), "step",
                  (json_int_t)t->engine->step, "steps", (json_int_t)c->training.steps, "ranks",
                  tess_runtime_world(t->runtime), "host", tess_json_text(host), "versions", "tessera", TESS_VERSION,
                  "kernels", tess_stream_kernels(t->engine->compute.stream)->name, "config", tess_run_header_config(c),
                  "model", describe_model(t));
    return tess_json_write_in(header, JSON_COMPACT, c->job.dump_folder, TESS_RUN_HEADER);
}
