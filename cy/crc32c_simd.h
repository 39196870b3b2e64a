/* CRC-32C (Castagnoli, RFC 3720) four ways: a table, one stream of the CPU's crc32 instruction, three interleaved streams
 * joined by carry-less multiplication, and 512-bit folding.
 *
 * A CRC register is a polynomial over GF(2) modulo P, in reflected bit order (bit 31 is x^0). Two facts carry everything:
 *
 *   1. Reading n bytes after register r gives  r * x^(8n) + (the CRC of the n bytes from register 0).  So three streams
 *      run apart, each hiding the latency of the others (the instruction takes 3 cycles and one starts every cycle), and are
 *      joined by shifting the earlier ones over the later ones.
 *   2. A carry-less product of two reflected words is the reflected product times x; a constant in the low half of a 64-bit
 *      lane stands for itself times x^32. So multiplying by the word x^(d-33) shifts by d bits, and crc32(0, product)
 *      reduces 64 bits to 32.
 *
 * Constants are computed when the module is loaded (crc32c_setup), so the numbers cannot disagree with the lengths.
 * No -march flag is needed: each function names its own target, crc32c_setup picks one that this CPU has.
 */
#ifndef PYBROKER_CRC32C_SIMD_H
#define PYBROKER_CRC32C_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <arm_neon.h>
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#endif

#define CRC32C_POLYNOMIAL 0x82F63B78u

/* Bytes per stream and turn; whole turns are three of them. */
#define CRC32C_LONG 1024
#define CRC32C_SHORT 128

typedef uint32_t (*crc32c_function)(uint32_t state, const uint8_t *data, size_t length);

typedef struct {
    const char *name;
    crc32c_function update;
} crc32c_implementation;

static uint32_t crc32c_tables[8][256];
static crc32c_implementation crc32c_available[5];
static int crc32c_available_count;

/* x^(d-33) for a shift by d bits: over one and two LONG streams, one and two SHORT ones. */
static uint32_t crc32c_long_1, crc32c_long_2, crc32c_short_1, crc32c_short_2;

static inline uint64_t crc32c_load64(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

static uint32_t crc32c_power_of_x(unsigned n) {
    uint32_t power = 0x80000000u;
    for (; n; n--) power = (power >> 1) ^ ((power & 1) ? CRC32C_POLYNOMIAL : 0);
    return power;
}

static uint32_t crc32c_shift_constant(unsigned bits) { return crc32c_power_of_x(bits - 33); }

/* ---- table ---------------------------------------------------------------------------------------------------- */

static uint32_t crc32c_table(uint32_t state, const uint8_t *data, size_t length) {
    for (; length >= 8; data += 8, length -= 8) {
        uint32_t low = state ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        state = crc32c_tables[7][low & 255] ^ crc32c_tables[6][low >> 8 & 255] ^ crc32c_tables[5][low >> 16 & 255] ^
                crc32c_tables[4][low >> 24] ^ crc32c_tables[3][data[4]] ^ crc32c_tables[2][data[5]] ^
                crc32c_tables[1][data[6]] ^ crc32c_tables[0][data[7]];
    }
    for (; length; data++, length--) state = state >> 8 ^ crc32c_tables[0][(state ^ *data) & 255];
    return state;
}

static void crc32c_fill_tables(void) {
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++) state = (state >> 1) ^ ((state & 1) ? CRC32C_POLYNOMIAL : 0);
        crc32c_tables[0][byte] = state;
    }
    for (int row = 1; row < 8; row++)
        for (unsigned byte = 0; byte < 256; byte++) {
            uint32_t state = crc32c_tables[row - 1][byte];
            crc32c_tables[row][byte] = state >> 8 ^ crc32c_tables[0][state & 255];
        }
}

/* ---- the two instructions, by architecture ---------------------------------------------------------------------- */

#if defined(__x86_64__)

#define CRC32C_TARGET __attribute__((target("sse4.2,pclmul")))
#define CRC32C_WORD(state, word) ((uint32_t)_mm_crc32_u64((state), (word)))
#define CRC32C_BYTE(state, byte) ((uint32_t)_mm_crc32_u8((state), (byte)))

CRC32C_TARGET static inline uint64_t crc32c_multiply(uint32_t a, uint32_t b) {
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0));
}

#elif defined(__aarch64__)

#define CRC32C_TARGET __attribute__((target("+crc+crypto")))
#define CRC32C_WORD(state, word) (__crc32cd((state), (word)))
#define CRC32C_BYTE(state, byte) (__crc32cb((state), (byte)))

CRC32C_TARGET static inline uint64_t crc32c_multiply(uint32_t a, uint32_t b) {
    return vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64((poly64_t)a, (poly64_t)b)), 0);
}

#endif

#if defined(CRC32C_TARGET)

/* ---- one stream ------------------------------------------------------------------------------------------------- */

CRC32C_TARGET static uint32_t crc32c_one_stream(uint32_t state, const uint8_t *data, size_t length) {
    for (; length >= 8; data += 8, length -= 8) state = CRC32C_WORD(state, crc32c_load64(data));
    for (; length; data++, length--) state = CRC32C_BYTE(state, *data);
    return state;
}

/* ---- three streams ------------------------------------------------------------------------------------------------ */

CRC32C_TARGET static inline uint32_t crc32c_turn(uint32_t state, const uint8_t *data, size_t stream, uint32_t shift_1,
                                                 uint32_t shift_2) {
    uint32_t first = state, second = 0, third = 0;
    const uint8_t *end = data + stream;
    for (; data < end; data += 8) {
        first = CRC32C_WORD(first, crc32c_load64(data));
        second = CRC32C_WORD(second, crc32c_load64(data + stream));
        third = CRC32C_WORD(third, crc32c_load64(data + 2 * stream));
    }
    return third ^ CRC32C_WORD(0, crc32c_multiply(first, shift_2) ^ crc32c_multiply(second, shift_1));
}

CRC32C_TARGET static uint32_t crc32c_three_streams(uint32_t state, const uint8_t *data, size_t length) {
    for (; length >= 3 * CRC32C_LONG; data += 3 * CRC32C_LONG, length -= 3 * CRC32C_LONG)
        state = crc32c_turn(state, data, CRC32C_LONG, crc32c_long_1, crc32c_long_2);
    for (; length >= 3 * CRC32C_SHORT; data += 3 * CRC32C_SHORT, length -= 3 * CRC32C_SHORT)
        state = crc32c_turn(state, data, CRC32C_SHORT, crc32c_short_1, crc32c_short_2);
    return crc32c_one_stream(state, data, length);
}

#endif

/* ---- folding: four 512-bit accumulators, 256 bytes a turn ------------------------------------------------------------ */

#if defined(__x86_64__)

#define CRC32C_FOLD_TARGET __attribute__((target("sse4.2,pclmul,avx512f,avx512vl,vpclmulqdq")))
#define CRC32C_FOLD_MINIMUM 512

/* Pairs (x^(d+64-33), x^(d-33)) for d bits: a 128-bit lane is low * x^64 + high, as the low half comes first in memory. */
static uint64_t crc32c_fold_2048[2], crc32c_fold_512[2], crc32c_fold_lanes[8];

static void crc32c_fold_constants(uint64_t pair[2], unsigned bits) {
    pair[0] = crc32c_shift_constant(bits + 64);
    pair[1] = crc32c_shift_constant(bits);
}

CRC32C_FOLD_TARGET static inline __m512i crc32c_fold_onto(__m512i lanes, __m512i constants, __m512i next) {
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(lanes, constants, 0x00),
                                     _mm512_clmulepi64_epi128(lanes, constants, 0x11), next, 0x96);
}

CRC32C_FOLD_TARGET static inline __m512i crc32c_broadcast(const uint64_t pair[2]) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)pair));
}

/* The four 128-bit lanes shifted over each other (384, 256, 128 and 0 bits), then reduced to 32 bits. */
CRC32C_FOLD_TARGET static inline uint32_t crc32c_reduce(__m512i lanes) {
    __m512i constants = _mm512_loadu_si512(crc32c_fold_lanes);
    __m512i shifted = _mm512_xor_si512(_mm512_clmulepi64_epi128(lanes, constants, 0x00),
                                       _mm512_clmulepi64_epi128(lanes, constants, 0x11));
    __m128i sum = _mm_xor_si128(
        _mm_xor_si128(_mm512_extracti32x4_epi32(shifted, 0), _mm512_extracti32x4_epi32(shifted, 1)),
        _mm_xor_si128(_mm512_extracti32x4_epi32(shifted, 2), _mm512_extracti32x4_epi32(lanes, 3)));
    uint32_t state = CRC32C_WORD(0, (uint64_t)_mm_cvtsi128_si64(sum));
    return CRC32C_WORD(state, (uint64_t)_mm_extract_epi64(sum, 1));
}

CRC32C_FOLD_TARGET static uint32_t crc32c_folding(uint32_t state, const uint8_t *data, size_t length) {
    if (length < CRC32C_FOLD_MINIMUM) return crc32c_three_streams(state, data, length);
    __m512i constants = crc32c_broadcast(crc32c_fold_2048);
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(data), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
    __m512i b = _mm512_loadu_si512(data + 64), c = _mm512_loadu_si512(data + 128), d = _mm512_loadu_si512(data + 192);
    for (data += 256, length -= 256; length >= 256; data += 256, length -= 256) {
        a = crc32c_fold_onto(a, constants, _mm512_loadu_si512(data));
        b = crc32c_fold_onto(b, constants, _mm512_loadu_si512(data + 64));
        c = crc32c_fold_onto(c, constants, _mm512_loadu_si512(data + 128));
        d = crc32c_fold_onto(d, constants, _mm512_loadu_si512(data + 192));
    }
    constants = crc32c_broadcast(crc32c_fold_512);
    a = crc32c_fold_onto(crc32c_fold_onto(crc32c_fold_onto(a, constants, b), constants, c), constants, d);
    for (; length >= 64; data += 64, length -= 64) a = crc32c_fold_onto(a, constants, _mm512_loadu_si512(data));
    return crc32c_one_stream(crc32c_reduce(a), data, length);
}

static void crc32c_fold_setup(void) {
    crc32c_fold_constants(crc32c_fold_2048, 2048);
    crc32c_fold_constants(crc32c_fold_512, 512);
    for (int lane = 0; lane < 3; lane++) crc32c_fold_constants(crc32c_fold_lanes + 2 * lane, 384 - 128 * lane);
    crc32c_fold_lanes[6] = crc32c_fold_lanes[7] = 0;
}

#endif

/* ---- choice --------------------------------------------------------------------------------------------------------- */

static int crc32c_cpu_has_streams(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__) && defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) && (getauxval(AT_HWCAP) & HWCAP_PMULL);
#elif defined(__aarch64__) && defined(__APPLE__)
    return 1;
#else
    return 0;
#endif
}

#if defined(__x86_64__)
static int crc32c_cpu_has_folding(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq");
}
#endif

static void crc32c_offer(const char *name, crc32c_function update) {
    crc32c_available[crc32c_available_count].name = name;
    crc32c_available[crc32c_available_count].update = update;
    crc32c_available_count++;
}

/* Fills the tables and lists what this CPU can run, the fastest last. */
static void crc32c_setup(void) {
    crc32c_fill_tables();
    crc32c_available_count = 0;
    crc32c_offer("table", crc32c_table);
#if defined(CRC32C_TARGET)
    if (!crc32c_cpu_has_streams()) return;
    crc32c_long_1 = crc32c_shift_constant(8 * CRC32C_LONG);
    crc32c_long_2 = crc32c_shift_constant(16 * CRC32C_LONG);
    crc32c_short_1 = crc32c_shift_constant(8 * CRC32C_SHORT);
    crc32c_short_2 = crc32c_shift_constant(16 * CRC32C_SHORT);
    crc32c_offer("one stream", crc32c_one_stream);
    crc32c_offer("three streams", crc32c_three_streams);
#endif
#if defined(__x86_64__)
    if (!crc32c_cpu_has_folding()) return;
    crc32c_fold_setup();
    crc32c_offer("folding", crc32c_folding);
#endif
}

#endif
