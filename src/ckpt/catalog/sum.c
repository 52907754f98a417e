/* Checksums of bytes that come in parts. */
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zlib.h>

#include "ckpt/catalog/catalog_impl.h"

struct tess_sum {
    XXH3_state_t xxh3; /* aligned to 64 */
    tess_sum_kind kind;
    uint32_t crc;
};

enum { CRC_PART = 1 << 30 }; /* zlib counts in 32 bits */

static uint32_t crc_of(uint32_t crc, const uint8_t *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        size_t n = size - done < CRC_PART ? size - done : CRC_PART;
        crc = (uint32_t)crc32(crc, data + done, (uInt)n);
        done += n;
    }
    return crc;
}

tess_status tess_sum_create(tess_mem *mem, tess_sum_kind kind, tess_sum **sum)
{
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(**sum), "checksum", (void **)sum));
    XXH3_INITSTATE(&(*sum)->xxh3);
    XXH3_64bits_reset(&(*sum)->xxh3);
    (*sum)->kind = kind;
    return TESS_OK;
}

void tess_sum_add(tess_sum *sum, const void *data, size_t size)
{
    if (sum->kind == TESS_SUM_KIND_XXH3)
        XXH3_64bits_update(&sum->xxh3, data, size);
    else if (sum->kind == TESS_SUM_KIND_CRC32)
        sum->crc = crc_of(sum->crc, data, size);
}

uint64_t tess_sum_value(const tess_sum *sum)
{
    if (sum->kind == TESS_SUM_KIND_XXH3)
        return XXH3_64bits_digest(&sum->xxh3);
    return sum->kind == TESS_SUM_KIND_CRC32 ? sum->crc : 0;
}

void tess_sum_destroy(tess_mem *mem, tess_sum **sum)
{
    tess_mem_free(mem, *sum);
    *sum = NULL;
}
