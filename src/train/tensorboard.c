#include "train/tensorboard.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"

enum { PENDING_BYTES = 8 << 20 }; /* limit in bytes of records that wait to be written: some thousand steps */

struct tess_tensorboard {
    tess_mem *mem;
    int fd;
    char path[1024];
    tess_buffer pending;
};

uint32_t tess_masked_crc32c(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0); /* polynomial of CRC-32C (Castagnoli), reflected */
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* A protobuf message under construction. It is small, because this program chooses all tags. */
typedef struct message {
    uint8_t data[512];
    size_t size;
} message;

static void put(message *m, const void *data, size_t size)
{
    if (m->size + size <= sizeof(m->data)) {
        memcpy(m->data + m->size, data, size);
        m->size += size;
    }
}

static void put_varint(message *m, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
        put(m, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_key(message *m, unsigned field, unsigned type)
{
    put_varint(m, field << 3 | type);
}

static void put_bytes(message *m, unsigned field, const void *data, size_t size)
{
    put_key(m, field, BYTES);
    put_varint(m, size);
    put(m, data, size);
}

static tess_status append_record(tess_tensorboard *board, const message *event)
{
    uint64_t size = event->size;
    uint32_t size_crc = tess_masked_crc32c(&size, sizeof(size)), crc = tess_masked_crc32c(event->data, event->size);
    TESS_TRY(tess_buffer_append(&board->pending, &size, sizeof(size)));
    TESS_TRY(tess_buffer_append(&board->pending, &size_crc, sizeof(size_crc)));
    TESS_TRY(tess_buffer_append(&board->pending, event->data, event->size));
    return tess_buffer_append(&board->pending, &crc, sizeof(crc));
}

static void begin_event(message *event)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double wall_time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    event->size = 0;
    put_key(event, 1, FIXED64);
    put(event, &wall_time, sizeof(wall_time));
}

tess_status tess_tensorboard_open(tess_mem *mem, const char *folder, tess_tensorboard **out)
{
    TESS_AUTO(tess_tensorboard_close) tess_tensorboard *board = NULL;
    char host[256] = "localhost", name[512];
    message event;
    TESS_TRY(tess_os_make_dirs(folder));
    TESS_TRY(TESS_NEW(mem, 1, "TensorBoard", &board));
    *board = (tess_tensorboard){.mem = mem, .fd = -1, .pending = {.mem = mem}};
    gethostname(host, sizeof(host) - 1);
    snprintf(name, sizeof(name), "events.out.tfevents.%010lld.%s.%ld.0", (long long)time(NULL), host, (long)getpid());
    TESS_TRY(tess_os_join(board->path, sizeof(board->path), folder, name));
    board->fd = open(board->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    TESS_TRY(board->fd < 0 ? tess_os_error("create", board->path) : TESS_OK);
    begin_event(&event);
    put_bytes(&event, 3, "brain.Event:2", 13);
    TESS_TRY(append_record(board, &event));
    *out = TESS_GIVE(board);
    return TESS_OK;
}

tess_status tess_tensorboard_scalar(tess_tensorboard *board, const char *tag, int64_t step, float value)
{
    message entry = {.size = 0}, summary = {.size = 0}, event;
    put_bytes(&entry, 1, tag, strnlen(tag, 200));
    put_key(&entry, 2, FIXED32);
    put(&entry, &value, sizeof(value));
    put_bytes(&summary, 1, entry.data, entry.size);
    begin_event(&event);
    put_key(&event, 2, VARINT);
    put_varint(&event, (uint64_t)step);
    put_bytes(&event, 5, summary.data, summary.size);
    return append_record(board, &event);
}

tess_status tess_tensorboard_flush(tess_tensorboard *board)
{
    tess_status status = tess_os_append(board->fd, board->pending.data, board->pending.size, board->path);
    if (status == TESS_OK || board->pending.size > PENDING_BYTES)
        board->pending.size = 0;
    return status;
}

void tess_tensorboard_close(tess_tensorboard **handle)
{
    tess_tensorboard *board = *handle;
    if (board == NULL)
        return;
    if (board->fd >= 0)
        close(board->fd);
    tess_buffer_free(&board->pending);
    tess_mem_drop(handle);
}
