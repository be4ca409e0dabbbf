// Vectors of floats as wide as the machine's registers, and the few functions of them that a network needs.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr int W = 16;      // floats in a register
constexpr int BLOCK = 12;  // rows of a product's tile: its 2 * BLOCK sums and their operands fill the registers
constexpr int STATES = 8;  // entries of a state that the scan keeps in registers
#else
constexpr int W = 8;
constexpr int BLOCK = 6;
constexpr int STATES = 4;
#endif
constexpr int PAIR = 2 * W;  // columns of a tile
constexpr int LINE = 16;     // floats in a cache line
constexpr long AHEAD = 256;  // floats between what is asked for and what is used, where memory is read once, in order

typedef float vec __attribute__((vector_size(4 * W)));
typedef float loose __attribute__((vector_size(4 * W), aligned(4)));  // the same at any address
typedef int32_t ivec __attribute__((vector_size(4 * W)));

static inline vec load(const float* p) { return *(const loose*)p; }
static inline void store(float* p, vec v) { *(loose*)p = v; }
static inline vec all(float x) { return x - vec{}; }

// The same for the end of an array, where only n numbers are left.
static inline vec load(const float* p, long n) {
    if (n >= W) return load(p);
    vec v{};
    memcpy(&v, p, n * sizeof(float));
    return v;
}
static inline void store(float* p, vec v, long n) {
    if (n >= W)
        store(p, v);
    else
        memcpy(p, &v, n * sizeof(float));
}

static inline long rounded(long n, long to) { return (n + to - 1) / to * to; }

static inline float sum(vec v) {
    typedef float four __attribute__((vector_size(16)));
    four part[W / 4];
    memcpy(part, &v, sizeof v);
    for (int n = W / 8; n; n /= 2)
        for (int i = 0; i < n; i++) part[i] += part[i + n];
    return (part[0][0] + part[0][2]) + (part[0][1] + part[0][3]);
}

// e^x = 2^k e^r with |r| <= ln(2)/2: a polynomial for e^r, and k goes into the exponent. Exact to two units in the last
// place; never zero.
static inline vec exponential(vec x) {
    x = x < -87.0f ? all(-87.0f) : x;
    x = x > 88.0f ? all(88.0f) : x;
    vec k = (x * 1.44269504f + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23 leaves no room for digits after the point
    vec r = x - k * 0.693359375f;
    r = r + k * 2.12194440e-4f;
    vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * (vec)((__builtin_convertvector(k, ivec) + 127) << 23);
}
static inline float exponential(float x) { return exponential(all(x))[0]; }

static inline vec silu(vec x) { return x / (1.0f + exponential(-x)); }

// log(1 + e^x), from log(1 + e) = 2 atanh(e / (2 + e)) for e <= 1.
static inline vec softplus(vec x) {
    vec e = exponential(x < 0.0f ? x : -x);
    vec s = e / (2.0f + e), s2 = s * s;
    vec p = s2 * (1.0f / 13) + 1.0f / 11;
    p = p * s2 + 1.0f / 9;
    p = p * s2 + 1.0f / 7;
    p = p * s2 + 1.0f / 5;
    p = p * s2 + 1.0f / 3;
    return (x > 0.0f ? x : vec{}) + 2.0f * (s + s * s2 * p);
}
