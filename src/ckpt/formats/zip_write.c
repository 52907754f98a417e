/* Writes zip archives as torch.save does: stored entries with aligned data, zip64 where needed. */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/mem/make_room.h"
#include "base/os/os.h"
#include "ckpt/formats/zip_impl.h"

/* ---- The file ---- */
enum { BUFFER_BYTES = 1 << 20 };

tess_status output_create(tess_mem *mem, const char *path, output *out)
{
    *out = (output){.fd = -1, .buffer = {.mem = mem}};
    TESS_CHECK(snprintf(out->path, sizeof(out->path), "%s", path) < (int)sizeof(out->path), TESS_E_INVALID,
               "a path of more than %zu bytes", sizeof(out->path));
    TESS_TRY(tess_os_create(path, 0));
    return tess_os_open(path, &out->fd);
}

static tess_status flush(output *out)
{
    size_t n = out->buffer.size;
    out->buffer.size = 0;
    return tess_os_write_all(out->fd, out->buffer.data, n, out->path);
}

static tess_status output_write(output *out, const void *data, size_t size)
{
    out->at += size;
    if (out->buffer.size + size > BUFFER_BYTES)
        TESS_TRY(flush(out));
    if (size > BUFFER_BYTES)
        return tess_os_write_all(out->fd, data, size, out->path);
    return tess_buffer_append(&out->buffer, data, size);
}

tess_status output_finish(output *out, tess_status status)
{
    if (status == TESS_OK)
        status = flush(out);
    if (status == TESS_OK)
        status = tess_os_sync_close(&out->fd, out->path);
    tess_os_close(&out->fd);
    tess_buffer_free(&out->buffer);
    return status;
}

/* ---- The archive ---- */
enum {
    VERSION = 45, /* version that a reader needs, because of zip64 */
    /* Bits that say that sizes and CRC follow the data, and that names are UTF-8 */
    FLAGS = 0x0808,
    /* January 1, 2000: a fixed date, so that the same data gives the same bytes */
    DATE = (2000 - 1980) << 9 | 1 << 5 | 1,
    ALIGN = 64,
    LOCAL_BYTES = 30
};

typedef struct record {
    uint8_t bytes[128];
    size_t n;
} record;

static void put(record *record, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        record->bytes[record->n++] = (uint8_t)(value >> 8 * i);
}

/* Returns the value if it fits 32 bits; otherwise all ones, which say that the zip64 field has it. */
static uint64_t low(uint64_t value)
{
    return value < UINT32_MAX ? value : UINT32_MAX;
}

static tess_status add_entry(zip_writer *writer, const char *name, uint64_t bytes)
{
    TESS_CHECK(strlen(name) < sizeof(writer->entries->name), TESS_E_INTERNAL, "a long name: '%s'", name);
    TESS_TRY(tess_mem_make_room(writer->out->buffer.mem, TESS_POOL_MISC, writer->n, sizeof(zip_written),
                                "zip directory", &writer->room, &writer->entries));
    zip_written *entry = &writer->entries[writer->n++];
    *entry = (zip_written){.header = writer->out->at - writer->begin, .bytes = bytes};
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    entry->crc = (uint32_t)crc32(0, NULL, 0);
    return TESS_OK;
}

/* Writes the header of an entry. Unused bytes in an extra field align the data that follows. */
static tess_status write_header(zip_writer *writer, const zip_written *entry)
{
    record header = {0}, sizes = {0}, padding = {0};
    bool large = entry->bytes >= UINT32_MAX;
    if (large) {
        put(&sizes, 1, 2);
        put(&sizes, 16, 2);
        put(&sizes, entry->bytes, 8);
        put(&sizes, entry->bytes, 8);
    }
    uint64_t data = writer->out->at - writer->begin + LOCAL_BYTES + strlen(entry->name) + sizes.n + 4;
    size_t fill = (size_t)(ALIGN - data % ALIGN) % ALIGN;
    put(&padding, 'F' | 'B' << 8, 2);
    put(&padding, fill, 2);
    memset(padding.bytes + padding.n, 'Z', fill);
    padding.n += fill;
    put(&header, 0x04034b50, 4);
    put(&header, VERSION, 2);
    put(&header, FLAGS, 2);
    put(&header, 0, 4); /* method "stored", no time */
    put(&header, DATE, 2);
    put(&header, 0, 4); /* 0, because the CRC follows the data */
    put(&header, large ? UINT32_MAX : 0, 4);
    put(&header, large ? UINT32_MAX : 0, 4);
    put(&header, strlen(entry->name), 2);
    put(&header, sizes.n + padding.n, 2);
    TESS_TRY(output_write(writer->out, header.bytes, header.n));
    TESS_TRY(output_write(writer->out, entry->name, strlen(entry->name)));
    TESS_TRY(output_write(writer->out, sizes.bytes, sizes.n));
    return output_write(writer->out, padding.bytes, padding.n);
}

static tess_status write_descriptor(zip_writer *writer)
{
    const zip_written *entry = &writer->entries[writer->n - 1];
    record descriptor = {0};
    size_t width = entry->bytes >= UINT32_MAX ? 8 : 4;
    put(&descriptor, 0x08074b50, 4);
    put(&descriptor, entry->crc, 4);
    put(&descriptor, entry->bytes, width);
    put(&descriptor, entry->bytes, width);
    return output_write(writer->out, descriptor.bytes, descriptor.n);
}

tess_status zip_writer_entry(zip_writer *writer, const char *name, uint64_t bytes)
{
    TESS_TRY(add_entry(writer, name, bytes));
    TESS_TRY(write_header(writer, &writer->entries[writer->n - 1]));
    writer->left = bytes;
    return bytes == 0 ? write_descriptor(writer) : TESS_OK;
}

tess_status zip_writer_data(zip_writer *writer, const void *data, size_t size)
{
    zip_written *entry = &writer->entries[writer->n - 1];
    TESS_CHECK(size <= writer->left, TESS_E_INTERNAL, "more than the %llu bytes of '%s'",
               (unsigned long long)entry->bytes, entry->name);
    TESS_TRY(output_write(writer->out, data, size));
    for (size_t done = 0, n; done < size; done += n) {
        n = size - done < 1u << 30 ? size - done : 1u << 30;
        entry->crc = (uint32_t)crc32(entry->crc, (const Bytef *)data + done, (uInt)n);
    }
    writer->left -= size;
    return size > 0 && writer->left == 0 ? write_descriptor(writer) : TESS_OK;
}

tess_status zip_writer_add(zip_writer *writer, const char *name, const void *data, size_t size)
{
    TESS_TRY(zip_writer_entry(writer, name, size));
    return zip_writer_data(writer, data, size);
}

static tess_status write_central(zip_writer *writer, const zip_written *entry)
{
    record central = {0}, extra = {0};
    bool large = entry->bytes >= UINT32_MAX, far = entry->header >= UINT32_MAX;
    if (large || far) {
        put(&extra, 1, 2);
        put(&extra, (large ? 16 : 0) + (far ? 8 : 0), 2);
        put(&extra, entry->bytes, large ? 8 : 0);
        put(&extra, entry->bytes, large ? 8 : 0);
        put(&extra, entry->header, far ? 8 : 0);
    }
    put(&central, 0x02014b50, 4);
    put(&central, VERSION, 2);
    put(&central, VERSION, 2);
    put(&central, FLAGS, 2);
    put(&central, 0, 4);
    put(&central, DATE, 2);
    put(&central, entry->crc, 4);
    put(&central, low(entry->bytes), 4);
    put(&central, low(entry->bytes), 4);
    put(&central, strlen(entry->name), 2);
    put(&central, extra.n, 2);
    put(&central, 0, 8); /* no comment, first disk, no attributes */
    put(&central, 0, 2);
    put(&central, low(entry->header), 4);
    TESS_TRY(output_write(writer->out, central.bytes, central.n));
    TESS_TRY(output_write(writer->out, entry->name, strlen(entry->name)));
    return output_write(writer->out, extra.bytes, extra.n);
}

/* Writes the zip64 end record, its locator, and the end record that all archives have. */
static tess_status write_end(zip_writer *writer, uint64_t directory)
{
    record record = {0};
    uint64_t end = writer->out->at - writer->begin;
    put(&record, 0x06064b50, 4);
    put(&record, 44, 8);
    put(&record, VERSION, 2);
    put(&record, VERSION, 2);
    put(&record, 0, 8);
    put(&record, writer->n, 8);
    put(&record, writer->n, 8);
    put(&record, end - directory, 8);
    put(&record, directory, 8);
    put(&record, 0x07064b50, 4);
    put(&record, 0, 4);
    put(&record, end, 8);
    put(&record, 1, 4);
    uint64_t n = writer->n < UINT16_MAX ? writer->n : UINT16_MAX;
    put(&record, 0x06054b50, 4);
    put(&record, 0, 4);
    put(&record, n, 2);
    put(&record, n, 2);
    put(&record, low(end - directory), 4);
    put(&record, low(directory), 4);
    put(&record, 0, 2);
    return output_write(writer->out, record.bytes, record.n);
}

tess_status zip_writer_end(zip_writer *writer)
{
    uint64_t directory = writer->out->at - writer->begin;
    TESS_CHECK(writer->left == 0, TESS_E_INTERNAL, "an entry lacks %llu bytes", (unsigned long long)writer->left);
    for (size_t i = 0; i < writer->n; i++)
        TESS_TRY(write_central(writer, &writer->entries[i]));
    TESS_TRY(write_end(writer, directory));
    tess_mem_drop(&writer->entries);
    return TESS_OK;
}
