/* Any bytes as a text file, plain, gzip or zstd: blocks that are all of its text, or a message. Their records are
 * inside them. The first byte says whether it is jsonl. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/corpus/text_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    tess_mem *mem;
    tess_text_stream *stream;
    uint64_t total = 0;
    bool end = false;
    if (size == 0)
        return 0;
    snprintf(path, sizeof(path), "/tmp/fuzz-text-%d%s", (int)getpid(), data[0] & 1 ? ".jsonl" : "");
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data + 1, 1, size - 1, file) != size - 1 || fclose(file) != 0 ||
        tess_mem_create(&mem) != TESS_OK)
        abort();
    tess_buffer text = {.mem = mem};
    tess_status status = tess_text_stream_open(mem, path, &stream);
    while (status == TESS_OK && !end && total < 64 << 20) {
        status = tess_text_stream_next(stream, &text, &end);
        total += text.size;
        if (status == TESS_OK && tess_text_stream_at(stream) != total)
            abort();
        tess_records records =
            tess_records_of(status == TESS_OK ? tess_text_stream_kind(stream) : TESS_TEXT_LINES, text.data, text.size);
        for (bool there = true; status == TESS_OK && there;) {
            status = tess_records_next(&records, &there);
            if (there && records.begin + records.length > text.size)
                abort();
        }
    }
    if (status != TESS_OK && tess_error_message()[0] == '\0')
        abort();
    unlink(path);
    tess_buffer_free(&text);
    tess_text_stream_close(&stream);
    if (tess_mem_destroy(&mem) != 0)
        abort();
    return 0;
}
