/* Count the matches of a small tile with a loop the compiler vectorises; rescan it if there are
 * any. */
#include "kernels.h"

#define STEP 256

#define DEFINE_ROW(name, type, holds)                                                           \
    static inline uint64_t name(type data, uint64_t i, uint64_t j0, uint64_t j1,                \
                                uint32_t *restrict out_i, uint32_t *restrict out_j,             \
                                uint64_t count)                                                 \
    {                                                                                           \
        uint64_t j = j0;                                                                        \
        for (; j + STEP <= j1; j += STEP) {                                                     \
            uint32_t hits = 0;                                                                  \
            for (uint64_t k = j; k < j + STEP; k++)                                             \
                hits += (uint32_t)holds(data, i, k);                                            \
            if (hits)                                                                           \
                for (uint64_t k = j; k < j + STEP; k++)                                         \
                    if (holds(data, i, k)) {                                                    \
                        out_i[count] = (uint32_t)i;                                             \
                        out_j[count++] = (uint32_t)k;                                           \
                    }                                                                           \
        }                                                                                       \
        for (; j < j1; j++)                                                                     \
            if (holds(data, i, j)) {                                                            \
                out_i[count] = (uint32_t)i;                                                     \
                out_j[count++] = (uint32_t)j;                                                   \
            }                                                                                   \
        return count;                                                                           \
    }

DEFINE_ROW(band_row, band, band_holds)
DEFINE_ROW(plain_row, plain, plain_holds)
DEFINE_JOIN(band_join, band_row, band)
DEFINE_JOIN(plain_join, plain_row, plain)
