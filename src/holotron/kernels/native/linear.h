// Matrix products y = x W^T with weights as PyTorch stores them, [outputs, inputs].
//
// Few rows of x: every weight is read once, which is all that counts; several distant rows of W at a time and a little
// ahead of their use, because one stream does not saturate the memory. Many rows: W is cut into panels of PAIR outputs,
// transposed into a buffer that fits the cache, and multiplied tile by tile with all sums in registers. Threads share
// the outputs.
#pragma once

#include "team.h"
#include "vector.h"

constexpr int FEW = 20;  // rows up to which transposing the weights does not pay

enum class Then { set, add, relu2 };  // what becomes of a result

template <Then then>
static inline float combined(float old, float x) {
    if (then == Then::add) return old + x;
    if (then == Then::relu2) return x > 0 ? x * x : 0 * x;
    return x;
}

// R rows of W against C rows of x. The order of summation does not depend on R and C: batching changes no bit.
template <int R, int C, Then then>
static inline void dots(const float* const* w, const float* x, long stride, long inputs, float* const* y, long apart) {
    vec sums[R][C] = {};
    long i = 0;
    for (; i + W <= inputs; i += W) {
        vec xs[C];
        for (int c = 0; c < C; c++) xs[c] = load(x + c * stride + i);
        for (int r = 0; r < R; r++) {
            __builtin_prefetch(w[r] + i + AHEAD);  // at the end of a row that is in the next, which comes next
            vec ws = load(w[r] + i);
            for (int c = 0; c < C; c++) sums[r][c] += ws * xs[c];
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            float total = sum(sums[r][c]);
            for (long j = i; j < inputs; j++) total += w[r][j] * x[c * stride + j];
            y[r][c * apart] = combined<then>(y[r][c * apart], total);
        }
}

// R rows of W against all rows of x from `t` on, C of them at a time, then fewer.
template <int R, int C, Then then>
static void few(const float* const* w, const float* x, long stride, long rows, long inputs, float* const* y, long apart,
                long t = 0) {
    for (; t + C <= rows; t += C) {
        float* at[R];
        for (int r = 0; r < R; r++) at[r] = y[r] + t * apart;
        dots<R, C, then>(w, x + t * stride, stride, inputs, at, apart);
    }
    if constexpr (C > 1) few<R, C / 2, then>(w, x, stride, rows, inputs, y, apart, t);
}

// Outputs from `begin` on, R at a time that lie as far apart as they can; returns the first of those that are left.
template <int R, int C, Then then>
static long streams(long begin, long end, const float* x, long stride, long rows, long inputs, const float* weight,
                    float* y, long apart) {
    const long share = (end - begin) / R;
    for (long o = begin; o < begin + share; o++) {
        const float* w[R];
        float* to[R];
        for (int r = 0; r < R; r++) {
            w[r] = weight + (o + r * share) * inputs;
            to[r] = y + o + r * share;
        }
        few<R, C, then>(w, x, stride, rows, inputs, to, apart);
    }
    return begin + R * share;
}

template <Then then>
static void linear_few(Team team, const float* x, long stride, long rows, long inputs, const float* weight,
                       long outputs, float* y, long apart) {
    long o = team.from(outputs), end = team.to(outputs);
    if (rows <= 2) o = streams<8, 2, then>(o, end, x, stride, rows, inputs, weight, y, apart);
    o = streams<4, 4, then>(o, end, x, stride, rows, inputs, weight, y, apart);
    streams<1, 4, then>(o, end, x, stride, rows, inputs, weight, y, apart);
}

// A tile: BLOCK rows of x (`stride` apart) times `inner` rows of PAIR numbers (`apart`), to `out` [BLOCK, PAIR].
static inline void tile(const float* x, long stride, const float* panel, long apart, long inner, float* out) {
    vec sums[BLOCK][2];
    for (int i = 0; i < BLOCK; i++) sums[i][0] = sums[i][1] = vec{};
    const float* row[BLOCK / 3];  // one address for three rows: fewer registers than one each
    for (int i = 0; i < BLOCK / 3; i++) row[i] = x + 3 * i * stride;
    for (long k = 0; k < inner; k++) {
        vec left = load(panel), right = load(panel + W);
        panel += apart;
#pragma GCC unroll 12
        for (int i = 0; i < BLOCK; i++) {
            vec xs = all(row[i / 3][(i % 3) * stride + k]);
            sums[i][0] += xs * left;
            sums[i][1] += xs * right;
        }
    }
    for (int i = 0; i < BLOCK; i++) {
        store(out + i * PAIR, sums[i][0]);
        store(out + i * PAIR + W, sums[i][1]);
    }
}

// Rows of `from` (`count` of them, the rest zero) as the columns of a panel [inner, PAIR].
static inline void transpose(const float* from, long stride, long count, long inner, float* panel) {
    if (count < PAIR) memset(panel, 0, inner * PAIR * sizeof(float));
    for (long j = 0; j < count; j++, from += stride)
        for (long k = 0; k < inner; k++) panel[k * PAIR + j] = from[k];
}

// `x` must be readable up to a multiple of BLOCK rows.
template <Then then>
static void linear_many(Team team, const float* x, long stride, long rows, long inputs, const float* weight,
                        long outputs, float* y, long apart) {
    static thread_local Room room;
    long panels = rounded(outputs, PAIR) / PAIR;
    long across = panels < team.count ? panels : team.count, down = team.count / across;
    Team sideways{team.me % (int)across, (int)across, nullptr}, downwards{team.me / (int)across, (int)down, nullptr};
    if (downwards.me >= down) return;
    long blocks = rounded(rows, BLOCK) / BLOCK;
    long first = downwards.from(blocks) * BLOCK, last = downwards.to(blocks) * BLOCK;
    // So many panels fit the second cache, and so many rows of x and of results do not crowd them out.
    long together = (1 << 17) / (inputs * PAIR), step = (1 << 14) / inputs / BLOCK * BLOCK;
    if (together < 1) together = 1;
    if (step < BLOCK) step = BLOCK;
    float* buffer = room.of(together * inputs * PAIR);
    alignas(64) float out[BLOCK * PAIR];
    for (long p = sideways.from(panels); p < sideways.to(panels); p += together) {
        long until = p + together < sideways.to(panels) ? p + together : sideways.to(panels);
        for (long q = p; q < until; q++) {
            long count = outputs - q * PAIR < PAIR ? outputs - q * PAIR : PAIR;
            transpose(weight + q * PAIR * inputs, inputs, count, inputs, buffer + (q - p) * inputs * PAIR);
        }
        for (long begin = first; begin < last; begin += step) {
            long end = begin + step < last ? begin + step : last;
            for (long q = p; q < until; q++) {
                long count = outputs - q * PAIR < PAIR ? outputs - q * PAIR : PAIR;
                for (long t = begin; t < end; t += BLOCK) {
                    long valid = rows - t < BLOCK ? rows - t : BLOCK;
                    for (long i = 0; i < valid; i++)  // results fall on memory that should be at hand by then
                        for (int j = 0; j < PAIR; j += 16) __builtin_prefetch(y + (t + i) * apart + q * PAIR + j, 1);
                    tile(x + t * stride, stride, buffer + (q - p) * inputs * PAIR, PAIR, inputs, out);
                    for (long i = 0; i < valid; i++) {
                        float* to = y + (t + i) * apart + q * PAIR;
                        for (long j = 0; j < count; j++) to[j] = combined<then>(to[j], out[i * PAIR + j]);
                    }
                }
            }
        }
    }
}

template <Then then>
static void linear(Team team, const float* x, long rows, long inputs, const float* weight, long outputs, float* y) {
    if (rows <= FEW)
        linear_few<then>(team, x, inputs, rows, inputs, weight, outputs, y, outputs);
    else
        linear_many<then>(team, x, inputs, rows, inputs, weight, outputs, y, outputs);
}
