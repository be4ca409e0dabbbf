// The Mamba-2 mixer between its two products: causal convolution, then the state-space scan.
//
//     S <- exp(dt A) S + dt x B^T        y = S C + D x
//
// One thread takes a few heads of one sequence through all its tokens; then nothing has to be exchanged. Tokens come in
// blocks that fit the first cache. For a single token the state is read and written once where it lies. A longer piece
// keeps its states transposed, [state, channel], so that a register holds channels and STATES rows of the state stay in
// registers over a run of tokens. Within a run the decay is not applied to the state at all: with L the logarithm of
// the decay since the run's first token,
//
//     S = exp(L) S'        S' <- S' + exp(-L) dt x B^T        y = exp(L) S' C + D x
//
// which leaves two multiply-adds for every entry and token. A run ends before exp(-L) could overflow.
#pragma once

#include <initializer_list>

#include "model.h"
#include "team.h"
#include "vector.h"

constexpr long TOKENS = 32;        // in a block
constexpr long BRIEF = 8;          // pieces up to this length are not worth transposing a state
constexpr float DEEPEST = -50.0f;  // L

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

    void scan(Team team) const;
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
    long first, channels;
    float* weights;

    static long room(const Shape& shape, long channels) { return (shape.taps + 1) * channels; }

    void prepare() const {
        const Layer& layer = mamba.layer;
        long taps = mamba.shape.taps;
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

// A run of tokens through STATES rows of transposed states, PAIR channels of them. x is exp(-L) dt x; y comes out
// without exp(L). The decay of the run's first token and the run's last exp(L) are applied on the way in and out.
static inline void run(float* states, long apart, const float* enter, const float* leave, const float* B,
                       const float* C, long deep, const float* x, float* y, long wide, long count) {
    vec s[STATES][2];
    for (int n = 0; n < STATES; n++)
        for (int i = 0; i < 2; i++) s[n][i] = load(states + n * apart + i * W) * load(enter + i * W);
    for (long t = 0; t < count; t++, B += deep, C += deep, x += wide, y += wide) {
        vec left = load(x), right = load(x + W), y_left = load(y), y_right = load(y + W);
#pragma GCC unroll 8
        for (int n = 0; n < STATES; n++) {
            s[n][0] += B[n] * left;
            s[n][1] += B[n] * right;
            y_left += C[n] * s[n][0];
            y_right += C[n] * s[n][1];
        }
        store(y, y_left);
        store(y + W, y_right);
    }
    for (int n = 0; n < STATES; n++)
        for (int i = 0; i < 2; i++) store(states + n * apart + i * W, s[n][i] * load(leave + i * W));
}

// Some heads of one group, through all tokens of one sequence.
class Scan {
    const MambaLayer& mamba;
    const long sequence, head, heads;
    const long dim = mamba.shape.mamba_dim, state = mamba.shape.state, inner = mamba.shape.inner();
    const long channels = heads * dim, wide = rounded(channels, PAIR) + W, deep = rounded(state, STATES);
    const long begin = mamba.batch.starts[sequence], end = mamba.batch.starts[sequence + 1];
    const bool brief = end - begin <= BRIEF;
    float* const own = row(mamba.batch.rows[sequence]);  // [channels, state]
    Convolution x_conv, B_conv, C_conv;
    float *x, *entering, *out;      // [TOKENS, wide]
    float *B, *C;                   // [TOKENS, deep]
    float *dt, *rate, *up, *down;   // [TOKENS, heads]: step, dt A, exp(-L) dt, exp(L)
    float *A, *enter, *leave;       // [heads], [wide], [wide]
    float* states;                  // [deep, wide], unless brief

    float* row(long row) const { return mamba.ssm_row(row) + head * dim * state; }

  public:
    Scan(const MambaLayer& mamba, long sequence, long group, long head, long heads)
        : mamba(mamba),
          sequence(sequence),
          head(head),
          heads(heads),
          x_conv{mamba, head * dim, channels, nullptr},
          B_conv{mamba, inner + group * state, state, nullptr},
          C_conv{mamba, inner + (mamba.shape.groups + group) * state, state, nullptr} {
        static thread_local Room room;
        const long most = end - begin < TOKENS ? end - begin : TOKENS;
        long filled = most * (3 * wide + 2 * deep) + 2 * wide + (brief ? 0 : deep * wide);
        float* at = room.of(filled + 4 * most * heads + heads + Convolution::room(mamba.shape, channels + 2 * state));
        memset(at, 0, filled * sizeof(float));  // what only fills up must not be NaN
        auto take = [&](long n) { return at += n, at - n; };
        x = take(most * wide), entering = take(most * wide), out = take(most * wide);
        B = take(most * deep), C = take(most * deep);
        enter = take(wide), leave = take(wide);
        states = take(brief ? 0 : deep * wide);
        dt = take(most * heads), rate = take(most * heads), up = take(most * heads), down = take(most * heads);
        A = take(heads);
        for (Convolution* conv : {&x_conv, &B_conv, &C_conv}) {
            conv->weights = take(Convolution::room(mamba.shape, conv->channels));
            conv->prepare();
        }
    }

    void all_tokens() {
        for (long h = 0; h < heads; h++) A[h] = -exponential(mamba.layer.A_log[head + h]);
        if (!brief)
            for (long c = 0; c < channels; c++)
                for (long n = 0; n < state; n++) states[n * wide + c] = own[c * state + n];
        const Batch& batch = mamba.batch;
        const int32_t* snapshot = batch.snapshot_list;
        const int32_t* past = snapshot + 3 * batch.snapshots;
        while (snapshot < past && snapshot[0] < sequence) snapshot += 3;
        auto here = [&] { return snapshot < past && snapshot[0] == sequence; };
        for (long token = begin; token < end;) {
            long stop = here() ? begin + snapshot[1] : end;
            long count = stop - token < TOKENS ? stop - token : TOKENS;
            block(token, count);
            token += count;
            for (; here() && begin + snapshot[1] == token; snapshot += 3) write_back(row(snapshot[2]));
        }
        write_back(own);
    }

  private:
    void write_back(float* to) const {
        if (brief) {
            if (to != own) memcpy(to, own, channels * state * sizeof(float));
            return;
        }
        for (long c = 0; c < channels; c++)
            for (long n = 0; n < state; n++) to[c * state + n] = states[n * wide + c];
    }

    void block(long token, long count) {
        x_conv.apply(sequence, token, count, x, wide);
        B_conv.apply(sequence, token, count, B, deep);
        C_conv.apply(sequence, token, count, C, deep);
        const Shape& shape = mamba.shape;
        for (long t = 0; t < count; t++) {
            const float* raw = mamba.projected + (token + t) * shape.projected() + inner + shape.channels() + head;
            for (long h = 0; h < heads; h += W) {
                const long n = heads - h;
                vec size = softplus(load(raw + h, n) + load(mamba.layer.dt_bias + head + h, n));
                store(dt + t * heads + h, size, n);
                store(rate + t * heads + h, size * load(A + h, n), n);
            }
        }
        if (brief) {
            for (long t = 0; t < count; t++) step(t);
        } else {
            memset(out, 0, count * wide * sizeof(float));
            for (long first = 0; first < count;) first = run_from(first, count);
        }
        for (long t = 0; t < count; t++)
            for (long h = 0; h < heads; h++)
                for (long c = h * dim; c < (h + 1) * dim; c++)
                    mamba.y[(token + t) * inner + head * dim + c] =
                        out[t * wide + c] * down[t * heads + h] + mamba.layer.D[head + h] * x[t * wide + c];
    }

    // One token, with the state where it lies.
    void step(long t) {
        const float *b = B + t * deep, *c = C + t * deep;
        for (long h = 0; h < heads; h++) {
            const float decay = exponential(rate[t * heads + h]), size = dt[t * heads + h];
            for (long p = h * dim; p < (h + 1) * dim; p++) {
                const float in = size * x[t * wide + p];
                float *s = own + p * state, total = 0;
#pragma omp simd reduction(+ : total)
                for (long n = 0; n < state; n++) {
                    s[n] = decay * s[n] + in * b[n];
                    total += s[n] * c[n];
                }
                out[t * wide + p] = total;
            }
            down[t * heads + h] = 1;
        }
    }

    // Tokens from `first` on, as many as one run can hold; returns the first token after it.
    long run_from(long first, long count) {
        float* L = up;  // until it is known how far the run goes
        for (long h = 0; h < heads; h++) L[first * heads + h] = 0;
        long last = first + 1;
        for (bool fits = true; last < count; last++) {
            for (long i = last * heads; i < (last + 1) * heads; i++) {
                L[i] = L[i - heads] + rate[i];
                fits = fits && L[i] > DEEPEST;
            }
            if (!fits) break;
        }
        for (long i = first * heads, n; (n = last * heads - i) > 0; i += W) {
            vec depth = load(L + i, n);
            store(down + i, exponential(depth), n);
            store(up + i, load(dt + i, n) * exponential(-depth), n);
        }
        for (long h = 0; h < heads; h++) {
            const float decay = exponential(rate[first * heads + h]);
            for (long c = h * dim; c < (h + 1) * dim; c++) {
                enter[c] = decay;
                leave[c] = down[(last - 1) * heads + h];
            }
            for (long t = first; t < last; t++)
                for (long c = h * dim; c < (h + 1) * dim; c++)
                    entering[t * wide + c] = x[t * wide + c] * up[t * heads + h];
        }
        for (long c = 0; c < channels; c += PAIR)
            for (long n = 0; n < deep; n += STATES)
                run(states + n * wide + c, wide, enter + c, leave + c, B + first * deep + n, C + first * deep + n, deep,
                    entering + first * wide + c, out + first * wide + c, wide, last - first);
        return last;
    }
};

inline void MambaLayer::scan(Team team) const {
    long per_group = shape.mamba_heads / shape.groups, whole = (long)batch.sequences * shape.groups;
    long parts = rounded(team.count, whole) / whole;
    if (parts > per_group) parts = per_group;
    for (long unit = team.me; unit < whole * parts; unit += team.count) {
        long sequence = unit / parts / shape.groups, group = unit / parts % shape.groups, i = unit % parts;
        long first = per_group * i / parts, last = per_group * (i + 1) / parts;
        Scan(*this, sequence, group, group * per_group + first, last - first).all_tokens();
    }
}
