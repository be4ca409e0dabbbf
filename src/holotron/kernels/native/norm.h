// Root-mean-square norms of one token.
#pragma once

#include "vector.h"

static inline void rms_norm(const float* x, const float* weight, long width, float eps, float* y) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (long i = 0; i < width; i++) squares += x[i] * x[i];
    float scale = 1.0f / sqrtf(squares / width + eps);
    for (long i = 0; i < width; i++) y[i] = x[i] * scale * weight[i];
}

// norm(x * silu(gate)), each of `groups` slices on its own.
static inline void gated_rms_norm(const float* x, const float* gate, const float* weight, long width, long groups,
                                  float eps, float* y) {
    for (long i = 0; i < width; i += W) store(y + i, load(x + i, width - i) * silu(load(gate + i, width - i)), width - i);
    long slice = width / groups;
    for (long g = 0; g < groups; g++) rms_norm(y + g * slice, weight + g * slice, slice, eps, y + g * slice);
}
