/* Writes TensorBoard event files (tensorflow/core/util/event.proto, lib/io/record_writer): scalars, histograms, texts,
 * and the configuration for the page of hyperparameters. */
#ifndef TESS_TRAIN_TENSORBOARD_H
#define TESS_TRAIN_TENSORBOARD_H

#include <jansson.h>

#include "tessera/memory.h"
#include "train/histogram.h"

typedef struct tess_tensorboard tess_tensorboard;

/* Creates folder/events.out.tfevents.<time>.<host>.<pid>.0. */
tess_status tess_tensorboard_open(tess_mem *mem, const char *folder, tess_tensorboard **board);
tess_status tess_tensorboard_scalar(tess_tensorboard *board, const char *tag, int64_t step, float value);
/* `text` is Markdown in UTF-8. */
tess_status tess_tensorboard_text(tess_tensorboard *board, const char *tag, int64_t step, const char *text,
                                  size_t size);
/* A histogram without finite values is left out. */
tess_status tess_tensorboard_histogram(tess_tensorboard *board, const char *tag, int64_t step,
                                       const tess_histogram *histogram);
/* Writes the hyperparameters, an object {"training.steps": 500, ...}, and the tags (n) of scalars that are compared
 * with them. Other than numbers, texts and truth values are written as JSON. */
tess_status tess_tensorboard_hparams(tess_tensorboard *board, const json_t *values, const char *const *tags, int n);
/* Writes that the run with these hyperparameters has ended. */
tess_status tess_tensorboard_hparams_end(tess_tensorboard *board, bool succeeded);
/* Makes everything written so far visible to readers. */
tess_status tess_tensorboard_flush(tess_tensorboard *board);
void tess_tensorboard_close(tess_tensorboard **board);

/* The masked CRC-32C that TFRecord files use. */
uint32_t tess_masked_crc32c(const void *data, size_t size);

#endif
