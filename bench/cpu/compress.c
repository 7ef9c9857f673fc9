/* Compare sixteen pairs at once and pack the matching positions with a compress instruction.
 * Written by hand with AVX-512 intrinsics; needs a machine that has them. */
#include <immintrin.h>

#include "kernels.h"

#define LANES 16

/* In a register first: compressing straight to memory is microcoded on some processors. */
static inline uint64_t put(__mmask16 hit, uint64_t i, uint64_t j, uint32_t *restrict out_i,
                           uint32_t *restrict out_j, uint64_t count)
{
    const __m512i step = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i position = _mm512_add_epi32(_mm512_set1_epi32((int)j), step);
    _mm512_storeu_si512(out_i + count, _mm512_set1_epi32((int)i));
    _mm512_storeu_si512(out_j + count, _mm512_maskz_compress_epi32(hit, position));
    return count + (uint64_t)__builtin_popcount(hit);
}

static inline __mmask16 band_mask(band b, uint64_t i, uint64_t j)
{
    __m512i x = _mm512_loadu_si512(b.w0 + j), y = _mm512_loadu_si512(b.w1 + j);
    __mmask16 m = _mm512_cmpge_epu32_mask(x, _mm512_set1_epi32((int)b.lo0[i]));
    m = _mm512_mask_cmple_epu32_mask(m, x, _mm512_set1_epi32((int)b.hi0[i]));
    m = _mm512_mask_cmpge_epu32_mask(m, y, _mm512_set1_epi32((int)b.lo1[i]));
    return _mm512_mask_cmple_epu32_mask(m, y, _mm512_set1_epi32((int)b.hi1[i]));
}

static inline __mmask16 plain_mask(plain p, uint64_t i, uint64_t j)
{
    __m512i x = _mm512_loadu_si512(p.bx + j), y = _mm512_loadu_si512(p.by + j);
    x = _mm512_abs_epi32(_mm512_sub_epi32(_mm512_set1_epi32(p.ax[i]), x));
    y = _mm512_abs_epi32(_mm512_sub_epi32(_mm512_set1_epi32(p.ay[i]), y));
    return _mm512_cmplt_epi32_mask(_mm512_add_epi32(x, y), _mm512_set1_epi32(p.d));
}

#define DEFINE_ROW(name, type, mask, holds)                                                     \
    static inline uint64_t name(type data, uint64_t i, uint64_t j0, uint64_t j1,                \
                                uint32_t *restrict out_i, uint32_t *restrict out_j,             \
                                uint64_t count)                                                 \
    {                                                                                           \
        uint64_t j = j0;                                                                        \
        for (; j + LANES <= j1; j += LANES) {                                                   \
            __mmask16 hit = mask(data, i, j);                                                   \
            if (hit)                                                                            \
                count = put(hit, i, j, out_i, out_j, count);                                    \
        }                                                                                       \
        for (; j < j1; j++)                                                                     \
            if (holds(data, i, j)) {                                                            \
                out_i[count] = (uint32_t)i;                                                     \
                out_j[count++] = (uint32_t)j;                                                   \
            }                                                                                   \
        return count;                                                                           \
    }

DEFINE_ROW(band_row, band, band_mask, band_holds)
DEFINE_ROW(plain_row, plain, plain_mask, plain_holds)
DEFINE_JOIN(band_join, band_row, band)
DEFINE_JOIN(plain_join, plain_row, plain)
