#include "device/cpu/cpu_peak.h"

#include "device/cpu/tiles_amx.h"

double tess_peak_loop_amx(int64_t rounds)
{
    tess_tiles_enter();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int64_t r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    tess_tiles_leave();
    return (double)rounds * 4 * 16 * 16 * 32 * 2;
}
