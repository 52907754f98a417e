/* Operations of a warp's lanes together. The fragments are those of the manual "PTX ISA", mma.m16n8k16 and ldmatrix. */
#include <string.h>

#include "device/ptx/ptx_machine_impl.h"
#include "device/ptx/ptx_operations.h"

/* Returns the lane that a lane gets its value from, as the manual computes it. `bounds`: the highest lane (the lowest,
 * for up) in its low bits, and the bits of a lane that stay in bits 8 to 12. */
static int source_lane(char mode, int lane, uint32_t b, uint32_t bounds, bool *inside)
{
    const int segment = (int)(bounds >> 8 & 31), clamp = (int)(bounds & 31), n = (int)(b & 31);
    const int last = (lane & segment) | (clamp & ~segment);
    int from = lane;
    switch (mode) {
    case 'u':
        from = lane - n;
        *inside = from >= last;
        break;
    case 'd':
        from = lane + n;
        *inside = from <= last;
        break;
    case 'b':
        from = lane ^ n;
        *inside = from <= last;
        break;
    default:
        from = (lane & segment) | (n & ~segment);
        *inside = from <= last;
    }
    return *inside ? from : lane;
}

void ptx_shuffle(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    uint64_t values[PTX_WARP];
    memcpy(values, ptx_lanes(m, w, i->in[0]), sizeof(values));
    const uint32_t known = ptx_known(w, i->in[0]);
    ptx_need(m, w, i->in[1], lanes, "a lane");
    ptx_need(m, w, i->in[2], lanes, "a lane");
    for (int lane = 0; lane < PTX_WARP; lane++) {
        bool inside;
        if (!(lanes >> lane & 1))
            continue;
        const int from = source_lane(i->mode, lane, (uint32_t)ptx_lanes(m, w, i->in[1])[lane],
                                     (uint32_t)ptx_lanes(m, w, i->in[2])[lane], &inside);
        if (!(lanes >> from & 1))
            ptx_stop(m, w, lane, "shuffle: it reads lane %d, which does not take part (mask %08x)", from, lanes);
        ptx_set(w, i->out[0], lane, ptx_narrow(values[from], 32));
        if (!(known >> from & 1))
            ptx_set_unknown(w, i->out[0], lane);
        ptx_set(w, i->out[1], lane, inside);
    }
}

void ptx_vote(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    uint32_t yes = 0;
    ptx_need(m, w, i->in[0], lanes, "a vote");
    for (int lane = 0; lane < PTX_WARP; lane++)
        yes |= (uint32_t)(lanes >> lane & ptx_lanes(m, w, i->in[0])[lane] & 1) << lane;
    const uint64_t result = i->mode == 'a'   ? yes == lanes
                            : i->mode == 'y' ? yes != 0
                            : i->mode == 'u' ? yes == lanes || yes == 0
                                             : yes;
    for (int lane = 0; lane < PTX_WARP; lane++)
        if (lanes >> lane & 1)
            ptx_set(w, i->out[0], lane, result);
}

/* Two elements of bfloat16. */
static void widen(float *first, float *second, uint64_t pair)
{
    *first = ptx_half(pair & 0xffff, PTX_BF16);
    *second = ptx_half(pair >> 16 & 0xffff, PTX_BF16);
}

/* Products are exact. A GPU adds them in an order of its own with more bits than float32; here the sum of an element is
 * computed in float64 and rounded once. */
void ptx_multiply(ptx_machine *m, ptx_warp *w, const ptx_instruction *i)
{
    float a[16][16], b[16][8];
    for (int k = 0; k < i->n_in; k++)
        ptx_need(m, w, i->in[k], UINT32_MAX, "an element of a matrix");
    for (int lane = 0; lane < PTX_WARP; lane++) {
        const int row = lane / 4, pair = lane % 4 * 2;
        for (int k = 0; k < 4; k++) /* a: rows row and row + 8 in turn, columns pair, then pair + 8 */
            widen(&a[row + k % 2 * 8][pair + k / 2 * 8], &a[row + k % 2 * 8][pair + k / 2 * 8 + 1],
                  ptx_lanes(m, w, i->in[k])[lane]);
        for (int k = 0; k < 2; k++) /* b: rows pair and pair + 8, column row */
            widen(&b[pair + k * 8][row], &b[pair + k * 8 + 1][row], ptx_lanes(m, w, i->in[4 + k])[lane]);
    }
    for (int lane = 0; lane < PTX_WARP; lane++)
        for (int k = 0; k < 4; k++) { /* c: rows row, row, row + 8, row + 8, columns pair and the next */
            const int row = lane / 4 + k / 2 * 8, column = lane % 4 * 2 + k % 2;
            double sum = (double)ptx_float(ptx_lanes(m, w, i->in[6 + k])[lane]);
            for (int n = 0; n < 16; n++)
                sum += (double)a[row][n] * (double)b[n][column];
            ptx_set(w, i->out[k], lane, ptx_float_bits((float)sum));
        }
}

/* Lane l of the first 8 n lanes has the address of row l % 8 of matrix l / 8. Each lane gets a pair of each matrix. */
void ptx_load_matrix(ptx_machine *m, ptx_warp *w, const ptx_instruction *i)
{
    uint16_t rows[4][8][8];
    uint64_t address[PTX_WARP];
    const uint64_t *base = ptx_lanes(m, w, i->base);
    const uint32_t lanes = i->vector == 4 ? UINT32_MAX : (UINT32_C(1) << (8 * i->vector)) - 1;
    ptx_need(m, w, i->base, lanes, "an address");
    for (int lane = 0; lane < 8 * i->vector; lane++) {
        address[lane] = (uint32_t)(base[lane] + (uint64_t)i->offset);
        if (address[lane] % 16 != 0)
            ptx_stop(m, w, lane, "misaligned: a matrix's row at %llu", (unsigned long long)address[lane]);
        memcpy(rows[lane / 8][lane % 8], ptx_shared_at(m, w, lane, address[lane], 16, PTX_READS), 16);
    }
    const bool known = !ptx_take_unwritten(m);
    ptx_count_shared(m, address, lanes, 16);
    for (int lane = 0; lane < PTX_WARP; lane++)
        for (int k = 0; k < i->vector; k++) {
            const int at = lane / 4, pair = lane % 4 * 2;
            const uint32_t first = i->transposed ? rows[k][pair][at] : rows[k][at][pair];
            const uint32_t second = i->transposed ? rows[k][pair + 1][at] : rows[k][at][pair + 1];
            ptx_set(w, i->out[k], lane, first | second << 16);
            if (!known)
                ptx_set_unknown(w, i->out[k], lane);
        }
}
