#include "device/moments.h"

#include <math.h>

static int search(const tess_code_map *map, float x)
{
    int code = 0;
    for (int step = 128; step > 0; step /= 2)
        code += x > map->middle[code + step - 1] ? step : 0;
    return code;
}

static void fill_cells(tess_code_map *map)
{
    for (uint32_t cell = 0; cell <= TESS_CODE_LAST_CELL; cell++) {
        uint32_t least = (cell + TESS_CODE_FIRST_CELL) << 16, most = least + 0xffffu;
        map->lowest[cell] = (uint8_t)search(map, cell > 0 ? tess_bits_float(least) : 0);
        map->lowest[TESS_CODE_CELLS + cell] = (uint8_t)search(map, -tess_bits_float(most));
    }
}

void tess_code_map_fill(bool is_signed, tess_code_map *map)
{
    enum { EXPONENTS = 7 };
    static const double power[EXPONENTS] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    int zero = is_signed ? 127 : 0, n = 0;
    map->is_signed = is_signed;
    map->value[zero] = 0;
    for (int e = 0; e < EXPONENTS; e++) {
        int parts = 1 << (is_signed ? e : e + 1);
        for (int i = 0; i < parts; i++) {
            double middle = 0.1 + 0.9 * (i + 0.5) / parts;
            n++;
            map->value[zero + n] = (float)(power[e] * middle);
            if (is_signed)
                map->value[zero - n] = -map->value[zero + n];
        }
    }
    map->value[255] = 1;
    for (int i = 0; i < 255; i++)
        map->middle[i] = (map->value[i] + map->value[i + 1]) / 2;
    map->middle[255] = INFINITY;
    fill_cells(map);
}
