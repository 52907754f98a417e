/* Copies to memory past the caches. An ordinary store first reads the cache line that it writes. For a sum of two
 * tensors that is a third of the memory traffic, and it is useless if the result does not stay in a cache. */
#ifndef TESS_DEVICE_CPU_STREAM_COPY_H
#define TESS_DEVICE_CPU_STREAM_COPY_H

#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

enum { STREAM_LINE = 64 };

static void plain_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

/* Other threads see the copied bytes only after stream_end. */
static void stream_copy(void *to, const void *from, size_t bytes)
{
    uint8_t *y = to;
    const uint8_t *x = from;
    size_t head = (STREAM_LINE - (uintptr_t)y % STREAM_LINE) % STREAM_LINE;
    head = head < bytes ? head : bytes;
    memcpy(y, x, head);
    size_t i = head;
    for (; bytes - i >= STREAM_LINE; i += STREAM_LINE) {
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

static void stream_end(void)
{
    _mm_sfence();
}

#endif
