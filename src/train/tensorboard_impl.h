/* Protobuf messages of event files, private to the files of TensorBoard. */
#ifndef TESS_TRAIN_TENSORBOARD_IMPL_H
#define TESS_TRAIN_TENSORBOARD_IMPL_H

#include "base/text/text.h"
#include "train/tensorboard.h"

/* Wire types of protobuf. */
enum { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

/* A message under construction. A failure is kept until the message is appended as a record. */
typedef struct pb_message {
    tess_buffer bytes;
    tess_status status;
} pb_message;

void pb_begin(pb_message *m);
void pb_put(pb_message *m, const void *data, size_t size);
void pb_put_varint(pb_message *m, uint64_t value);
void pb_put_key(pb_message *m, unsigned field, unsigned type);
void pb_put_bytes(pb_message *m, unsigned field, const void *data, size_t size);
void pb_put_text(pb_message *m, unsigned field, const char *text);
void pb_put_int(pb_message *m, unsigned field, uint64_t value);
void pb_put_double(pb_message *m, unsigned field, double value);
void pb_put_float(pb_message *m, unsigned field, float value);
void pb_put_message(pb_message *m, unsigned field, const pb_message *inner);

enum { BOARD_MESSAGES = 6 };

struct tess_tensorboard {
    tess_mem *mem;
    int fd;
    char path[1024];
    tess_buffer pending;
    pb_message event, summary;
    pb_message part[BOARD_MESSAGES]; /* inner messages of the summary that is being made */
};

/* Appends an event whose summary has one value. `step` < 0: the event has no step. */
tess_status tess_tensorboard_append(tess_tensorboard *board, int64_t step, const pb_message *value);

#endif
