/* What the C baselines share: the loop over blocks of stream tuples and tiles of the window.
 *
 * A row function gets one stream tuple and one tile of the window that lies in the first-level
 * cache, appends the pairs (i, j) that match, and returns the new number of pairs. The baselines
 * have no room check, no ranges and no pauses: they are what a C programmer would write for this
 * one join.
 */
#ifndef KERNELS_H
#define KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define TILE 2048
#define BLOCK 256

/* Two band tests, lo <= w <= hi; keys are codes of 32 bits. */
typedef struct {
    const uint32_t *w0, *w1, *lo0, *hi0, *lo1, *hi1;
} band;

static inline int band_holds(band b, size_t i, size_t j)
{
    return (b.w0[j] >= b.lo0[i]) & (b.w0[j] <= b.hi0[i]) & (b.w1[j] >= b.lo1[i]) &
           (b.w1[j] <= b.hi1[i]);
}

/* abs(ax - bx) + abs(ay - by) < d on 32-bit integers whose differences do not overflow. */
typedef struct {
    const int32_t *ax, *ay, *bx, *by;
    int32_t d;
} plain;

static inline int32_t magnitude(int32_t v) { return v < 0 ? -v : v; }

static inline int plain_holds(plain p, size_t i, size_t j)
{
    return magnitude(p.ax[i] - p.bx[j]) + magnitude(p.ay[i] - p.by[j]) < p.d;
}

#define DEFINE_JOIN(name, row, type)                                                            \
    uint64_t name(const type *data, uint64_t rows, uint64_t window, uint32_t *out_i,            \
                  uint32_t *out_j)                                                              \
    {                                                                                           \
        uint64_t count = 0;                                                                     \
        for (uint64_t i0 = 0; i0 < rows; i0 += BLOCK) {                                         \
            uint64_t i1 = i0 + BLOCK < rows ? i0 + BLOCK : rows;                                \
            for (uint64_t j0 = 0; j0 < window; j0 += TILE) {                                    \
                uint64_t j1 = j0 + TILE < window ? j0 + TILE : window;                          \
                for (uint64_t i = i0; i < i1; i++)                                              \
                    count = row(*data, i, j0, j1, out_i, out_j, count);                         \
            }                                                                                   \
        }                                                                                       \
        return count;                                                                           \
    }

#endif
