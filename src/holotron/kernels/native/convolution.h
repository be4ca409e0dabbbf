// A Mamba-2 layer between its two products, and the causal convolution over some of its channels.
#pragma once

#include "model.h"
#include "vector.h"

struct MambaLayer {
    const Shape& shape;
    const Layer& layer;
    const Batch& batch;
    const Memory& memory;
    const float* projected;  // [tokens, gate | x | B | C | dt]
    float* y;                // [tokens, inner]

    float* conv_row(long row) const {
        return memory.conv + (row * memory.mambas + layer.slot) * (shape.taps - 1) * shape.channels();
    }
    float* ssm_row(long row) const {
        return memory.ssm + (row * memory.mambas + layer.slot) * shape.inner() * shape.state;
    }
    const float* convolution_input(long token) const { return projected + token * shape.projected() + shape.inner(); }

    void remember_inputs(long sequence) const;
};

// The last inputs of the convolution, at the end of a piece and wherever a snapshot is asked for.
inline void MambaLayer::remember_inputs(long sequence) const {
    long before = shape.taps - 1, start = batch.starts[sequence];
    float* own = conv_row(batch.rows[sequence]);
    auto keep = [&](long tokens, float* to) {
        for (long k = 0; k < before; k++) {
            long at = tokens - before + k;
            const float* from = at < 0 ? own + (at + before) * shape.channels() : convolution_input(start + at);
            memmove(to + k * shape.channels(), from, shape.channels() * sizeof(float));
        }
    };
    for (long i = 0; i < batch.snapshots; i++) {
        const int32_t* snapshot = batch.snapshot_list + 3 * i;
        if (snapshot[0] == sequence) keep(snapshot[1], conv_row(snapshot[2]));
    }
    keep(batch.starts[sequence + 1] - start, own);  // last: it overwrites what the others read
}

// Some neighbouring channels of the convolution, with its weights as rows: the bias, then one row per tap.
struct Convolution {
    const MambaLayer& mamba;
    const long first, channels;
    float* const weights;  // [taps + 1, channels]

    Convolution(const MambaLayer& mamba, long first, long channels, float*& room)
        : mamba(mamba), first(first), channels(channels), weights(room) {
        const Layer& layer = mamba.layer;
        const long taps = mamba.shape.taps;
        room += (taps + 1) * channels;
        for (long c = 0; c < channels; c++) {
            weights[c] = layer.conv_bias ? layer.conv_bias[first + c] : 0;
            for (long k = 0; k < taps; k++) weights[(k + 1) * channels + c] = layer.conv[(first + c) * taps + k];
        }
    }

    // `count` tokens of a sequence from `token` on, to rows that lie `apart`.
    void apply(long sequence, long token, long count, float* out, long apart) const {
        const Shape& shape = mamba.shape;
        const float* remembered = mamba.conv_row(mamba.batch.rows[sequence]);
        long start = mamba.batch.starts[sequence], before = shape.taps - 1;
        auto input = [&](long t, long k) {
            long at = token + t - start - before + k;  // in this piece; what lies before it is remembered
            return (at < 0 ? remembered + (at + before) * shape.channels() : mamba.convolution_input(start + at)) + first;
        };
        auto tap = [&](long k) { return weights + (k + 1) * channels; };
        for (long t = 0; t < count; t++, out += apart) {
            if (shape.taps == 4) {  // as in every published model: one pass instead of five
                const float *i0 = input(t, 0), *i1 = input(t, 1), *i2 = input(t, 2), *i3 = input(t, 3);
                const float *w0 = tap(0), *w1 = tap(1), *w2 = tap(2), *w3 = tap(3);
                for (long c = 0; c < channels; c += W) {
                    long n = channels - c;
                    vec sum = load(weights + c, n) + load(w0 + c, n) * load(i0 + c, n) + load(w1 + c, n) * load(i1 + c, n);
                    sum += load(w2 + c, n) * load(i2 + c, n) + load(w3 + c, n) * load(i3 + c, n);
                    store(out + c, silu(sum), n);
                }
                continue;
            }
            memcpy(out, weights, channels * sizeof(float));
            for (long k = 0; k < shape.taps; k++) {
                const float *in = input(t, k), *w = tap(k);
                for (long c = 0; c < channels; c++) out[c] += w[c] * in[c];
            }
            for (long c = 0; c < channels; c += W) store(out + c, silu(load(out + c, channels - c)), channels - c);
        }
    }
};
