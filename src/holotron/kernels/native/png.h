// The lines of a PNG, as they come out of its compression, to pixels: each is told as differences from what is left of it
// and above it. Eight bits a channel, three or four channels; a pixel is worked on as a vector, because each needs the
// one before it.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace png {

// Four bytes, of which a pixel of three channels has the first three: whatever the fourth is, nobody looks at it.
inline __m128i pixel(const uint8_t* at) {
    uint32_t bytes;
    memcpy(&bytes, at, 4);
    return _mm_cvtsi32_si128(int(bytes));
}

inline __m128i wide(__m128i bytes) { return _mm_unpacklo_epi8(bytes, _mm_setzero_si128()); }

// left + above - corner is nearest to one of the three: that one, the first of them if several are.
inline __m128i paeth(__m128i left, __m128i above, __m128i corner) {
    const __m128i a = wide(left), b = wide(above), c = wide(corner);
    const __m128i to_left = _mm_abs_epi16(_mm_sub_epi16(b, c)), to_above = _mm_abs_epi16(_mm_sub_epi16(a, c));
    const __m128i to_corner = _mm_abs_epi16(_mm_sub_epi16(_mm_add_epi16(a, b), _mm_add_epi16(c, c)));
    const __m128i least = _mm_min_epi16(to_corner, _mm_min_epi16(to_left, to_above));
    __m128i best = _mm_blendv_epi8(c, b, _mm_cmpeq_epi16(least, to_above));
    best = _mm_blendv_epi8(best, a, _mm_cmpeq_epi16(least, to_left));
    return _mm_packus_epi16(best, best);
}

// The mean of both, rounded down.
inline __m128i mean(__m128i a, __m128i b) {
    const __m128i up = _mm_avg_epu8(a, b);
    return _mm_sub_epi8(up, _mm_and_si128(_mm_xor_si128(a, b), _mm_set1_epi8(1)));
}

// Every pixel is written with four bytes, so that the next one overwrites what is too much.
template <int N, typename Guess>
inline void undo(const uint8_t* line, const uint8_t* above, long width, uint8_t* out, Guess guess) {
    __m128i left = _mm_setzero_si128(), corner = left;
    for (long x = 0; x < width; x++, line += N, above += N, out += N) {
        const __m128i up = pixel(above);
        left = _mm_add_epi8(pixel(line), guess(left, up, corner));
        corner = up;
        const uint32_t bytes = uint32_t(_mm_cvtsi128_si32(left));
        memcpy(out, &bytes, 4);
    }
}

inline void add(const uint8_t* __restrict line, const uint8_t* __restrict above, long bytes, uint8_t* __restrict out) {
    for (long i = 0; i < bytes; i++) out[i] = uint8_t(line[i] + above[i]);
}

// False: a kind of difference that there is not. `out` has room for four bytes more.
template <int N>
inline bool undo_all(const uint8_t* raw, long width, long height, const uint8_t* nothing, uint8_t* out) {
    const long bytes = N * width;
    for (long y = 0; y < height; y++, raw += bytes, out += bytes) {
        const uint8_t* above = y ? out - bytes : nothing;
        switch (*raw++) {
            case 0: memcpy(out, raw, bytes); break;
            case 1: undo<N>(raw, above, width, out, [](__m128i a, __m128i, __m128i) { return a; }); break;
            case 2: add(raw, above, bytes, out); break;
            case 3: undo<N>(raw, above, width, out, [](__m128i a, __m128i b, __m128i) { return mean(a, b); }); break;
            case 4: undo<N>(raw, above, width, out, paeth); break;
            default: return false;
        }
    }
    return true;
}

}  // namespace png

// Lines to pixels [height, width, channels]. `nothing` is a line of zeros; it, the lines and `out` have room for four
// bytes more. False: these are no lines of a PNG.
extern "C" bool holotron_unfilter(const uint8_t* raw, long width, long height, int channels, const uint8_t* nothing,
                                  uint8_t* out) {
    return channels == 3 ? png::undo_all<3>(raw, width, height, nothing, out)
                         : png::undo_all<4>(raw, width, height, nothing, out);
}

// Four channels to three, in place. False: something is transparent.
extern "C" bool holotron_opaque(uint8_t* pixels, long count) {
    uint8_t opaque = 255;
    for (long i = 0; i < count; i++) opaque &= pixels[4 * i + 3];
    if (opaque != 255) return false;
    for (long i = 0; i < count; i++) memmove(pixels + 3 * i, pixels + 4 * i, 3);
    return true;
}
