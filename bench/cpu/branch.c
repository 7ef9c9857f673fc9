/* Emit by a branch: test each pair, write it if it matches. */
#include "kernels.h"

#define DEFINE_ROW(name, type, holds)                                                           \
    static inline uint64_t name(type data, uint64_t i, uint64_t j0, uint64_t j1,                \
                                uint32_t *restrict out_i, uint32_t *restrict out_j,             \
                                uint64_t count)                                                 \
    {                                                                                           \
        for (uint64_t j = j0; j < j1; j++)                                                      \
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
