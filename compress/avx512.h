/* avx512.h - what the kernels whose file names end in _avx512.c include instead of immintrin.h.
 *
 * Tests compile these files a second time with GW_SIMDE, against libsimde's functions of the same names: so every machine runs
 * them.  That table has names of its own and is in no product. */
#ifndef GW_COMPRESS_AVX512_H
#define GW_COMPRESS_AVX512_H

#if defined(GW_SIMDE)
#include <simde_avx512.h>
#define gw_kern_avx512 gw_kern_avx512_simde
#define gw_kern_lossy_avx512 gw_kern_lossy_avx512_simde
#define gw_kern_rans_avx512 gw_kern_rans_avx512_simde
#define gw_kern_tight_avx512 gw_kern_tight_avx512_simde
#define gw_kern_holes_avx512 gw_kern_holes_avx512_simde
#define gw_avx512_bf16 gw_avx512_bf16_simde
#define gw_avx512_f16 gw_avx512_f16_simde
#define gw_avx512_e4m3 gw_avx512_e4m3_simde
#define gw_avx512_e5m2 gw_avx512_e5m2_simde
#else
#include <immintrin.h>
#endif

#define ALWAYS static inline __attribute__((always_inline))

/* clang does it without being asked. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

ALWAYS __m512i get(const void *p)
{
    return _mm512_loadu_si512(p);
}

ALWAYS void put(void *p, __m512i v)
{
    _mm512_storeu_si512(p, v);
}

ALWAYS __m128i get16(const void *p)
{
    return _mm_loadu_si128(p);
}

ALWAYS __m256i get32(const void *p)
{
    return _mm256_loadu_si256(p);
}
#endif
