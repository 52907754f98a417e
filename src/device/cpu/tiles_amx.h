/* The configuration of the tile registers that all AMX kernels share: eight whole tiles of 16 rows of 64 bytes. */
#ifndef TESS_DEVICE_CPU_TILES_AMX_H
#define TESS_DEVICE_CPU_TILES_AMX_H

#include <immintrin.h>
#include <stdint.h>

typedef struct __attribute__((packed)) tess_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tess_tile_config;

/* Static, because the compiler does not know that LDTILECFG reads 64 bytes and may remove the stores to a local
 * variable. */
static const tess_tile_config tess_whole_tiles = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

/* tess_tiles_enter is called on a thread before it uses tiles, and tess_tiles_leave afterwards. */
static inline void tess_tiles_enter(void)
{
    _tile_loadconfig(&tess_whole_tiles);
}

static inline void tess_tiles_leave(void)
{
    _tile_release();
}

/* Makes the compiler write earlier stores to memory. TILELOADD needs that, as the compiler does not know what it
 * reads. */
static inline void tess_tiles_fence(void)
{
    __asm__ volatile("" ::: "memory");
}

#endif
