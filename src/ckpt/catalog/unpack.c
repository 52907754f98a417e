/* Unpacks pieces. The unpacked size is known beforehand, so that no file can make memory grow. */
#include <inttypes.h>
#include <math.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "ckpt/catalog/catalog_impl.h"
#include "ckpt/safetensors/safetensors.h"

static tess_status unpack_zstd(const void *packed, size_t packed_size, void *data, size_t size)
{
    size_t n = ZSTD_decompress(data, size, packed, packed_size);
    TESS_CHECK(ZSTD_getErrorCode(n) != ZSTD_error_memory_allocation, TESS_E_NOMEM, "no memory to unpack it");
    TESS_CHECK(!ZSTD_isError(n), TESS_E_FORMAT, "zstd cannot unpack it: %s", ZSTD_getErrorName(n));
    TESS_CHECK(n == size, TESS_E_FORMAT, "it unpacks to %zu bytes, not %zu", n, size);
    return TESS_OK;
}

/* Limits a length to what zlib's 32-bit counters can hold. */
static uInt part(size_t left)
{
    return left < (1u << 30) ? (uInt)left : 1u << 30;
}

static int inflate_all(z_stream *z, const uint8_t *packed, size_t packed_size, uint8_t *data, size_t size)
{
    int result = Z_OK;
    size_t in = 0, out = 0;
    while (result == Z_OK) {
        uInt to_read = part(packed_size - in), to_write = part(size - out);
        z->next_in = (Bytef *)(packed + in);
        z->avail_in = to_read;
        z->next_out = data + out;
        z->avail_out = to_write;
        result = inflate(z, Z_NO_FLUSH);
        in += to_read - z->avail_in;
        out += to_write - z->avail_out;
        if (result == Z_OK && to_read == z->avail_in && to_write == z->avail_out)
            result = Z_BUF_ERROR;
    }
    if (result == Z_MEM_ERROR)
        return result;
    return result == Z_STREAM_END && out == size && in == packed_size ? Z_OK : Z_DATA_ERROR;
}

/* Unpacks raw deflate data, without a header, as in zip files. */
static tess_status unpack_deflate(const void *packed, size_t packed_size, void *data, size_t size)
{
    z_stream z = {.zalloc = Z_NULL};
    TESS_CHECK(inflateInit2(&z, -MAX_WBITS) == Z_OK, TESS_E_NOMEM, "no memory to unpack it");
    int result = inflate_all(&z, packed, packed_size, data, size);
    inflateEnd(&z);
    TESS_CHECK(result != Z_MEM_ERROR, TESS_E_NOMEM, "no memory to unpack it");
    TESS_CHECK(result == Z_OK, TESS_E_FORMAT, "zlib cannot unpack its %zu bytes to %zu", packed_size, size);
    return TESS_OK;
}

tess_status tess_unpack(tess_codec codec, const void *packed, size_t packed_size, void *data, size_t size)
{
    return codec == TESS_CODEC_ZSTD ? unpack_zstd(packed, packed_size, data, size)
                                    : unpack_deflate(packed, packed_size, data, size);
}

/* The blocks of a column of blocks go to the same 32 rows of the result, so that both sides stay in the cache. */
tess_status tess_unpack_mxfp4(const uint8_t *blocks, const uint8_t *scales, int64_t rows, int64_t n, void *data)
{
    static const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    enum { BIAS = 127, NAN_SCALE = 255, CODES = 16 };
    uint16_t values[NAN_SCALE][CODES], *out = data;
    for (int scale = 0; scale < NAN_SCALE; scale++) {
        float x[CODES];
        for (int code = 0; code < CODES; code++)
            x[code] = copysignf(ldexpf(magnitudes[code % 8], scale - BIAS), code < 8 ? 1.0f : -1.0f);
        TESS_TRY(tess_st_encode(x, CODES, TESS_BF16, values[scale]));
    }
    for (int64_t i = 0; i < rows * n; i++)
        TESS_CHECK(scales[i] != NAN_SCALE, TESS_E_FORMAT,
                   "the scale of block %" PRId64 " of output %" PRId64 " is 255, which stands for NaN", i % n, i / n);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t row = 0; row < rows; row++) {
            const uint8_t *block = blocks + (row * n + i) * TESS_MXFP4_BYTES;
            const uint16_t *value = values[scales[row * n + i]];
            uint16_t *to = out + i * TESS_MXFP4_VALUES * rows + row;
            for (int k = 0; k < TESS_MXFP4_BYTES; k++) {
                to[2 * k * rows] = value[block[k] & 15];
                to[(2 * k + 1) * rows] = value[block[k] >> 4];
            }
        }
    }
    return TESS_OK;
}
