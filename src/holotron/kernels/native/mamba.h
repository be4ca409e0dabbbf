// The state-space scan of a Mamba-2 layer, with the convolution before it.
//
//     S <- exp(dt A) S + dt x B^T        y = S C + D x
//
// One thread takes a few heads of every sequence through all its tokens; then nothing has to be exchanged, and all
// threads have the same to do. Tokens come in blocks that fit the first cache. For a single token the state is read and
// written once where it lies. A longer piece keeps its states transposed, [state, channel], so that a register holds
// channels and STATES rows of the state stay in registers over a run of tokens. Within a run the decay is not applied to
// the state at all: with L the logarithm of the decay since the run's first token,
//
//     S = exp(L) S'        S' <- S' + exp(-L) dt x B^T        y = exp(L) S' C + D x
//
// which leaves two multiply-adds for every entry and token. A run ends before exp(-L) could overflow.
#pragma once

#include <numeric>

#include "convolution.h"
#include "team.h"
#include "vector.h"

constexpr long TOKENS = 32;        // in a block
constexpr long BRIEF = 8;          // pieces up to this length are not worth transposing a state
constexpr float DEEPEST = -50.0f;  // L

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

// Some heads of one group: the weights of their convolution and their decay rates.
struct Heads {
    const MambaLayer& mamba;
    const long head, count;
    float* room;
    const Convolution x, B, C;
    float* const A;

    Heads(const MambaLayer& mamba, long group, long head, long count)
        : mamba(mamba),
          head(head),
          count(count),
          room(space((mamba.shape.taps + 1) * (count * mamba.shape.mamba_dim + 2L * mamba.shape.state) + count)),
          x(mamba, head * mamba.shape.mamba_dim, count * mamba.shape.mamba_dim, room),
          B(mamba, mamba.shape.inner() + group * mamba.shape.state, mamba.shape.state, room),
          C(mamba, mamba.shape.inner() + (mamba.shape.groups + group) * mamba.shape.state, mamba.shape.state, room),
          A(room) {
        for (long h = 0; h < count; h++) A[h] = -exponential(mamba.layer.A_log[head + h]);
    }

  private:
    static float* space(long n) {
        static thread_local Room kept;
        return kept.of(n);
    }
};

// Some heads of one sequence, through all its tokens.
class Scan {
    const Heads& part;
    const MambaLayer& mamba = part.mamba;
    const long sequence, head = part.head, heads = part.count;
    const long dim = mamba.shape.mamba_dim, state = mamba.shape.state, inner = mamba.shape.inner();
    // The rows of a block lie a little further apart than they need to: at powers of two they would share cache lines.
    const long channels = heads * dim, wide = rounded(channels, PAIR) + W, deep = rounded(state, STATES);
    const long begin = mamba.batch.starts[sequence], end = mamba.batch.starts[sequence + 1];
    const bool brief = end - begin <= BRIEF;
    float* const own = row(mamba.batch.rows[sequence]);  // [channels, state]
    float *x, *entering, *out;                           // [TOKENS, wide]
    float *B, *C;                                        // [TOKENS, deep]
    float *dt, *rate, *up, *down;                        // [TOKENS, heads]: step, dt A, exp(-L) dt, exp(L)
    float *enter, *leave;                                // [wide]
    float* states;                                       // [deep, wide], unless brief

    float* row(long row) const { return mamba.ssm_row(row) + head * dim * state; }

  public:
    Scan(const Heads& part, long sequence) : part(part), sequence(sequence) {
        static thread_local Room room;
        const long most = end - begin < TOKENS ? end - begin : TOKENS;
        const long filled = most * (3 * wide + 2 * deep) + 2 * wide + (brief ? 0 : deep * wide);
        float* at = room.of(filled + 4 * most * heads);
        memset(at, 0, filled * sizeof(float));  // what only fills up must not be NaN
        auto take = [&](long n) { return at += n, at - n; };
        x = take(most * wide), entering = take(most * wide), out = take(most * wide);
        B = take(most * deep), C = take(most * deep);
        enter = take(wide), leave = take(wide);
        states = take(brief ? 0 : deep * wide);
        dt = take(most * heads), rate = take(most * heads), up = take(most * heads), down = take(most * heads);
    }

    void all_tokens() {
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
        part.x.apply(sequence, token, count, x, wide);
        part.B.apply(sequence, token, count, B, deep);
        part.C.apply(sequence, token, count, C, deep);
        const Shape& shape = mamba.shape;
        for (long t = 0; t < count; t++) {
            const float* raw = mamba.projected + (token + t) * shape.projected() + inner + shape.channels() + head;
            for (long h = 0; h < heads; h += W) {
                const long n = heads - h;
                vec size = softplus(load(raw + h, n) + load(mamba.layer.dt_bias + head + h, n));
                store(dt + t * heads + h, size, n);
                store(rate + t * heads + h, size * load(part.A + h, n), n);
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
                for (long n = 0; n < state; n += LINE) __builtin_prefetch(s + n + AHEAD);
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
        // L as a float and what that leaves: at L = -40 the rounding of one float would be seen in every decay.
        float *near = down, *rest = up;  // until it is known how far the run goes
        for (long i = first * heads; i < (first + 1) * heads; i++) near[i] = rest[i] = 0;
        long last = first + 1;
        for (bool fits = true; last < count; last++) {
            for (long h = 0, i = last * heads; h < heads; h++, i++) {
                const double L = (double)near[i - heads] + rest[i - heads] + (double)dt[i] * part.A[h];
                near[i] = L;
                rest[i] = L - near[i];
                fits = fits && L > DEEPEST;
            }
            if (!fits) break;
        }
        for (long i = first * heads, n; (n = last * heads - i) > 0; i += W) {
            const vec L = load(near + i, n), more = load(rest + i, n);
            store(down + i, exponential(L) * (1.0f + more), n);
            store(up + i, load(dt + i, n) * (exponential(-L) * (1.0f - more)), n);
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

static void scan(Team team, const MambaLayer& mamba) {
    const Shape& shape = mamba.shape;
    const long per_group = shape.mamba_heads / shape.groups;
    long parts = team.count / std::gcd(team.count, shape.groups);  // of a group: an equal number for every thread
    if (parts > per_group) parts = per_group;
    for (long unit = team.me; unit < shape.groups * parts; unit += team.count) {
        const long group = unit / parts, i = unit % parts;
        const long first = per_group * i / parts, last = per_group * (i + 1) / parts;
        Heads heads(mamba, group, group * per_group + first, last - first);
        for (long sequence = 0; sequence < mamba.batch.sequences; sequence++) Scan(heads, sequence).all_tokens();
    }
}
