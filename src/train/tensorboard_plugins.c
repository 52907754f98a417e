/* Values of TensorBoard's plug-ins: texts, histograms, hyperparameters (tensorboard/plugins/ text, hparams; its proto
 * files give the numbers of the fields). */
#include "train/tensorboard_impl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 1, HISTOGRAM = 5, TENSOR = 8, METADATA = 9 }; /* fields of Summary.Value */
enum { DT_STRING = 7, CLASS_TENSOR = 2 };

/* Puts the metadata that name the plug-in that shows a value. */
static void put_plugin(tess_tensorboard *board, pb_message *value, const char *name, const pb_message *content,
                       int data_class)
{
    pb_message *plugin = &board->part[4], *metadata = &board->part[5];
    pb_begin(plugin);
    pb_put_text(plugin, 1, name);
    if (content != NULL)
        pb_put_message(plugin, 2, content);
    pb_begin(metadata);
    pb_put_message(metadata, 1, plugin);
    if (data_class != 0)
        pb_put_int(metadata, 4, (uint64_t)data_class);
    pb_put_message(value, METADATA, metadata);
}

tess_status tess_tensorboard_text(tess_tensorboard *board, const char *tag, int64_t step, const char *text, size_t size)
{
    pb_message *value = &board->part[0], *tensor = &board->part[1], *shape = &board->part[2], *dim = &board->part[3];
    pb_begin(dim);
    pb_put_int(dim, 1, 1);
    pb_begin(shape);
    pb_put_message(shape, 2, dim);
    pb_begin(tensor);
    pb_put_int(tensor, 1, DT_STRING);
    pb_put_message(tensor, 2, shape);
    pb_put_bytes(tensor, 8, text, size);
    pb_begin(value);
    pb_put_text(value, TAG, tag);
    pb_put_message(value, TENSOR, tensor);
    put_plugin(board, value, "text", NULL, CLASS_TENSOR);
    return tess_tensorboard_append(board, step, value);
}

/* ---- Histograms ---- */
tess_status tess_tensorboard_histogram(tess_tensorboard *board, const char *tag, int64_t step,
                                       const tess_histogram *histogram)
{
    const tess_histogram_summary s = tess_histogram_summarize(histogram);
    pb_message *value = &board->part[0], *proto = &board->part[1], *limits = &board->part[2], *counts = &board->part[3];
    tess_histogram_bucket bucket;
    if (s.n == 0)
        return TESS_OK;
    pb_begin(limits);
    pb_begin(counts);
    for (int at = 0; tess_histogram_next(histogram, &at, &bucket);) {
        const double count = (double)bucket.count;
        pb_put(limits, &bucket.limit, sizeof(bucket.limit));
        pb_put(counts, &count, sizeof(count));
    }
    pb_begin(proto);
    pb_put_double(proto, 1, s.least);
    pb_put_double(proto, 2, s.most);
    pb_put_double(proto, 3, (double)s.n);
    pb_put_double(proto, 4, s.sum);
    pb_put_double(proto, 5, s.squares);
    pb_put_message(proto, 6, limits);
    pb_put_message(proto, 7, counts);
    pb_begin(value);
    pb_put_text(value, TAG, tag);
    pb_put_message(value, HISTOGRAM, proto);
    return tess_tensorboard_append(board, step, value);
}

/* ---- Hyperparameters ---- */
enum { HPARAM_TEXT = 1, HPARAM_BOOL = 2, HPARAM_NUMBER = 3 }; /* DataType */

static int type_of(const json_t *value)
{
    return json_is_number(value) ? HPARAM_NUMBER : json_is_boolean(value) ? HPARAM_BOOL : HPARAM_TEXT;
}

/* Puts a google.protobuf.Value. */
static void put_value(pb_message *m, const json_t *value)
{
    char *text = NULL;
    pb_begin(m);
    if (json_is_number(value))
        pb_put_double(m, 2, json_number_value(value));
    else if (json_is_boolean(value))
        pb_put_int(m, 4, json_is_true(value));
    else if (json_is_string(value))
        pb_put_text(m, 3, json_string_value(value));
    else
        pb_put_text(m, 3, (text = json_dumps(value, JSON_ENCODE_ANY)) != NULL ? text : "");
    free(text);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Appends a value of the plug-in. `data` is field `field` of HParamsPluginData. */
static tess_status append_hparams(tess_tensorboard *board, const char *tag, unsigned field, const pb_message *data)
{
    pb_message *content = &board->part[2], *value = &board->part[0];
    pb_begin(content);
    pb_put_message(content, field, data);
    pb_begin(value);
    pb_put_text(value, TAG, tag);
    put_plugin(board, value, "hparams", content, 0);
    return tess_tensorboard_append(board, -1, value);
}

/* Lists the hyperparameters, and the metrics that are compared with them. */
static tess_status append_experiment(tess_tensorboard *board, const json_t *values, const char *const *tags, int n)
{
    pb_message *experiment = &board->part[1], *info = &board->part[2], *name = &board->part[3];
    const char *key;
    json_t *value;
    pb_begin(experiment);
    pb_put_double(experiment, 3, now_s());
    json_object_foreach ((json_t *)(uintptr_t)values, key, value) {
        pb_begin(info);
        pb_put_text(info, 1, key);
        pb_put_int(info, 4, (uint64_t)type_of(value));
        pb_put_message(experiment, 4, info);
    }
    for (int i = 0; i < n; i++) {
        pb_begin(name);
        pb_put_text(name, 2, tags[i]);
        pb_begin(info);
        pb_put_message(info, 1, name);
        pb_put_message(experiment, 5, info);
    }
    return append_hparams(board, "_hparams_/experiment", 2, experiment);
}

tess_status tess_tensorboard_hparams(tess_tensorboard *board, const json_t *values, const char *const *tags, int n)
{
    pb_message *session = &board->part[1], *entry = &board->part[2], *content = &board->part[3];
    const char *key;
    json_t *value;
    TESS_TRY(append_experiment(board, values, tags, n));
    pb_begin(session);
    json_object_foreach ((json_t *)(uintptr_t)values, key, value) {
        put_value(content, value);
        pb_begin(entry);
        pb_put_text(entry, 1, key);
        pb_put_message(entry, 2, content);
        pb_put_message(session, 1, entry);
    }
    pb_put_double(session, 5, now_s());
    return append_hparams(board, "_hparams_/session_start_info", 3, session);
}

tess_status tess_tensorboard_hparams_end(tess_tensorboard *board, bool succeeded)
{
    enum { SUCCESS = 1, FAILURE = 2 };
    pb_message *session = &board->part[1];
    pb_begin(session);
    pb_put_int(session, 1, succeeded ? SUCCESS : FAILURE);
    pb_put_double(session, 2, now_s());
    return append_hparams(board, "_hparams_/session_end_info", 4, session);
}
