// A picture to another size, bicubic with antialiasing in fp32, cut into tiles: what torch's `interpolate` computes.
//
// Rows first (sums over whole lines of bytes, as wide as a register is), then columns, where a pixel is a vector of its
// colours. Weights are those of Pillow and torch: a cubic with a = -0.5, stretched where the picture shrinks. Sums in
// between are neither rounded nor clamped; the result is.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace resize {

struct Taps {
    std::vector<int> first, count;
    std::vector<float> weight;  // `most` for each output
    int most = 0;
};

inline double cubic(double x) {
    x = std::fabs(x);
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    if (x < 2) return ((-0.5 * x + 2.5) * x - 4) * x + 2;
    return 0;
}

inline Taps taps(long inputs, long outputs) {
    const double scale = double(inputs) / outputs, stretch = std::max(scale, 1.0), reach = 2 * stretch;
    Taps t;
    t.most = int(std::ceil(reach)) * 2 + 1;
    t.first.resize(outputs);
    t.count.resize(outputs);
    t.weight.assign(outputs * t.most, 0.f);
    for (long i = 0; i < outputs; i++) {
        const double centre = scale * (i + 0.5);
        const long from = std::max(0L, long(centre - reach + 0.5)), to = std::min(inputs, long(centre + reach + 0.5));
        double sum = 0;
        for (long j = from; j < to; j++) sum += cubic((j - centre + 0.5) / stretch);
        for (long j = from; j < to; j++)
            t.weight[i * t.most + j - from] = float(cubic((j - centre + 0.5) / stretch) / sum);
        t.first[i] = int(from);
        t.count[i] = int(to - from);
    }
    return t;
}

// The weighted sum of up to FOUR lines of bytes, added to what is there already unless it begins.
template <bool BEGINS, int FOUR>
inline void mix_lines(float* __restrict to, const uint8_t* lines, long n, const float* weight) {
    for (long i = 0; i < n; i++) {
        float sum = BEGINS ? 0.f : to[i];
        for (int k = 0; k < FOUR; k++) sum += weight[k] * lines[k * n + i];
        to[i] = sum;
    }
}

template <bool BEGINS>
inline void mix_some(float* to, const uint8_t* lines, long n, const float* weight, int count) {
    if (count == 1) mix_lines<BEGINS, 1>(to, lines, n, weight);
    if (count == 2) mix_lines<BEGINS, 2>(to, lines, n, weight);
    if (count == 3) mix_lines<BEGINS, 3>(to, lines, n, weight);
    if (count == 4) mix_lines<BEGINS, 4>(to, lines, n, weight);
    if (count == 5) mix_lines<BEGINS, 5>(to, lines, n, weight);
}

inline void mix(float* to, const uint8_t* lines, long n, const float* weight, int count) {
    mix_some<true>(to, lines, n, weight, std::min(count, 5));
    for (int k = 5; k < count; k += 5) mix_some<false>(to, lines + k * n, n, weight + k, std::min(count - k, 5));
}

// Pixels from:to of a line. N taps for each, or (0) as many as it has; weights that are not used are zero.
template <int N>
inline void across_line(const float* mixed, const Taps& t, long from, long to, uint8_t* out, long plane) {
    for (long x = from; x < to; x++) {
        const float* weight = &t.weight[x * t.most];
        const float* pixel = mixed + 3L * t.first[x];
        __m128 sum = _mm_setzero_ps();
        const int n = N ? N : t.count[x];
        for (int k = 0; k < n; k++) sum = _mm_fmadd_ps(_mm_set1_ps(weight[k]), _mm_loadu_ps(pixel + 3 * k), sum);
        const __m128i whole = _mm_cvtps_epi32(sum);  // to the nearest, ties to even
        const uint32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(_mm_packs_epi32(whole, whole), whole));
        out[x - from] = uint8_t(bytes);
        out[x - from + plane] = uint8_t(bytes >> 8);
        out[x - from + 2 * plane] = uint8_t(bytes >> 16);
    }
}

}  // namespace resize

// From bytes [height, width, 3] to tiles [rows * columns, 3, tile_height, tile_width], row after row.
extern "C" void holotron_resize(const uint8_t* in, long height, long width, long rows, long columns, long tile_height,
                                long tile_width, uint8_t* out) {
    using namespace resize;
    const long out_height = rows * tile_height, out_width = columns * tile_width, line = 3 * width;
    const Taps down = taps(height, out_height), across = taps(width, out_width);
    std::vector<float> mixed(line + 3 * across.most + 4, 0.f);  // pixels are read a little beyond the last
    const long plane = tile_height * tile_width;
    const int most = *std::max_element(across.count.begin(), across.count.end());
    for (long y = 0; y < out_height; y++) {
        mix(mixed.data(), in + down.first[y] * line, line, &down.weight[y * down.most], down.count[y]);
        for (long column = 0; column < columns; column++) {
            uint8_t* tile = out + ((y / tile_height) * columns + column) * 3 * plane + (y % tile_height) * tile_width;
            const long from = column * tile_width, to = from + tile_width;
            if (most <= 4)
                across_line<4>(mixed.data(), across, from, to, tile, plane);
            else if (most == 5)
                across_line<5>(mixed.data(), across, from, to, tile, plane);
            else
                across_line<0>(mixed.data(), across, from, to, tile, plane);
        }
    }
}
