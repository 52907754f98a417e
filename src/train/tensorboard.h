/* Writes TensorBoard event files (tensorflow/core/util/event.proto, lib/io/record_writer). Supports scalars only. */
#ifndef TESS_TRAIN_TENSORBOARD_H
#define TESS_TRAIN_TENSORBOARD_H

#include "tessera/memory.h"

typedef struct tess_tensorboard tess_tensorboard;

/* Creates folder/events.out.tfevents.<time>.<host>.<pid>.0. */
tess_status tess_tensorboard_open(tess_mem *mem, const char *folder, tess_tensorboard **board);
tess_status tess_tensorboard_scalar(tess_tensorboard *board, const char *tag, int64_t step, float value);
/* Makes everything written so far visible to readers. */
tess_status tess_tensorboard_flush(tess_tensorboard *board);
void tess_tensorboard_close(tess_tensorboard **board);

/* The masked CRC-32C that TFRecord files use. */
uint32_t tess_masked_crc32c(const void *data, size_t size);

#endif
