/* The file of events, its records, and scalars. Values of plug-ins are in tensorboard_plugins.c. */
#include "train/tensorboard_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"

enum { PENDING_BYTES = 8 << 20 }; /* limit in bytes of records that wait to be written: some thousand steps */

uint32_t tess_masked_crc32c(const void *data, size_t size)
{
    /* remainders of four bits; polynomial of CRC-32C (Castagnoli), reflected */
    static const uint32_t of[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                    0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                    0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const uint8_t *bytes = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ of[crc & 15];
        crc = crc >> 4 ^ of[crc & 15];
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* ---- Messages ---- */
void pb_begin(pb_message *m)
{
    m->bytes.size = 0;
    m->status = TESS_OK;
}

void pb_put(pb_message *m, const void *data, size_t size)
{
    if (m->status == TESS_OK && size > 0)
        m->status = tess_buffer_append(&m->bytes, data, size);
}

void pb_put_varint(pb_message *m, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
        pb_put(m, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

void pb_put_key(pb_message *m, unsigned field, unsigned type)
{
    pb_put_varint(m, field << 3 | type);
}

void pb_put_bytes(pb_message *m, unsigned field, const void *data, size_t size)
{
    pb_put_key(m, field, PB_BYTES);
    pb_put_varint(m, size);
    pb_put(m, data, size);
}

void pb_put_text(pb_message *m, unsigned field, const char *text)
{
    pb_put_bytes(m, field, text, strlen(text));
}

void pb_put_int(pb_message *m, unsigned field, uint64_t value)
{
    pb_put_key(m, field, PB_VARINT);
    pb_put_varint(m, value);
}

void pb_put_double(pb_message *m, unsigned field, double value)
{
    pb_put_key(m, field, PB_FIXED64);
    pb_put(m, &value, sizeof(value));
}

void pb_put_float(pb_message *m, unsigned field, float value)
{
    pb_put_key(m, field, PB_FIXED32);
    pb_put(m, &value, sizeof(value));
}

void pb_put_message(pb_message *m, unsigned field, const pb_message *inner)
{
    pb_put_bytes(m, field, inner->bytes.data, inner->bytes.size);
    m->status = m->status == TESS_OK ? inner->status : m->status;
}

/* ---- Records ---- */
static tess_status append_record(tess_tensorboard *board, const pb_message *event)
{
    TESS_TRY(event->status);
    uint64_t size = event->bytes.size;
    uint32_t size_crc = tess_masked_crc32c(&size, sizeof(size)),
             crc = tess_masked_crc32c(event->bytes.data, event->bytes.size);
    TESS_TRY(tess_buffer_append(&board->pending, &size, sizeof(size)));
    TESS_TRY(tess_buffer_append(&board->pending, &size_crc, sizeof(size_crc)));
    TESS_TRY(tess_buffer_append(&board->pending, event->bytes.data, event->bytes.size));
    return tess_buffer_append(&board->pending, &crc, sizeof(crc));
}

static void begin_event(pb_message *event)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    pb_begin(event);
    pb_put_double(event, 1, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
}

tess_status tess_tensorboard_append(tess_tensorboard *board, int64_t step, const pb_message *value)
{
    pb_begin(&board->summary);
    pb_put_message(&board->summary, 1, value);
    begin_event(&board->event);
    if (step >= 0)
        pb_put_int(&board->event, 2, (uint64_t)step);
    pb_put_message(&board->event, 5, &board->summary);
    return append_record(board, &board->event);
}

tess_status tess_tensorboard_open(tess_mem *mem, const char *folder, tess_tensorboard **out)
{
    TESS_AUTO(tess_tensorboard_close) tess_tensorboard *board = NULL;
    char host[256] = "localhost", name[512];
    TESS_TRY(tess_os_make_dirs(folder));
    TESS_TRY(TESS_NEW(mem, 1, "TensorBoard", &board));
    *board = (tess_tensorboard){.mem = mem,
                                .fd = -1,
                                .pending = {.mem = mem},
                                .event = {.bytes = {.mem = mem}},
                                .summary = {.bytes = {.mem = mem}}};
    for (int i = 0; i < BOARD_MESSAGES; i++)
        board->part[i] = (pb_message){.bytes = {.mem = mem}};
    gethostname(host, sizeof(host) - 1);
    snprintf(name, sizeof(name), "events.out.tfevents.%010lld.%s.%ld.0", (long long)time(NULL), host, (long)getpid());
    TESS_TRY(tess_os_join(board->path, sizeof(board->path), folder, name));
    board->fd = open(board->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    TESS_TRY(board->fd < 0 ? tess_os_error("create", board->path) : TESS_OK);
    begin_event(&board->event);
    pb_put_text(&board->event, 3, "brain.Event:2");
    TESS_TRY(append_record(board, &board->event));
    *out = TESS_GIVE(board);
    return TESS_OK;
}

tess_status tess_tensorboard_scalar(tess_tensorboard *board, const char *tag, int64_t step, float value)
{
    pb_message *entry = &board->part[0];
    pb_begin(entry);
    pb_put_bytes(entry, 1, tag, strnlen(tag, 200));
    pb_put_float(entry, 2, value);
    return tess_tensorboard_append(board, step, entry);
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
    tess_buffer_free(&board->event.bytes);
    tess_buffer_free(&board->summary.bytes);
    for (int i = 0; i < BOARD_MESSAGES; i++)
        tess_buffer_free(&board->part[i].bytes);
    tess_mem_drop(handle);
}
