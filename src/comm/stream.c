#include "comm/stream.h"

#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

enum { LINE = 64 };

void tess_stream_copy(void *to, const void *from, size_t bytes)
{
    uint8_t *y = to;
    const uint8_t *x = from;
    size_t head = (LINE - (uintptr_t)y % LINE) % LINE;
    head = head < bytes ? head : bytes;
    memcpy(y, x, head);
    size_t i = head;
    for (; bytes - i >= LINE; i += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(x + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(x + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(x + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(x + i + 48));
        _mm_stream_si128((__m128i *)(void *)(y + i), a);
        _mm_stream_si128((__m128i *)(void *)(y + i + 16), b);
        _mm_stream_si128((__m128i *)(void *)(y + i + 32), c);
        _mm_stream_si128((__m128i *)(void *)(y + i + 48), d);
    }
    memcpy(y + i, x + i, bytes - i);
}

void tess_stream_end(void)
{
    _mm_sfence();
}

void tess_copy(void *to, const void *from, size_t bytes, bool streams)
{
    if (streams) {
        tess_stream_copy(to, from, bytes);
        tess_stream_end();
    } else {
        memcpy(to, from, bytes);
    }
}
