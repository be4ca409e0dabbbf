// Causal grouped-query attention over paged keys and values.
//
// A single new token reads every key and value once. A longer piece first lays the keys of a head out as panels and its
// values as rows, then takes a few tokens at a time through blocks of keys with a running softmax.
#pragma once

#include "linear.h"
#include "model.h"

constexpr long KEYS = 4 * PAIR;  // in a block
constexpr long QUERIES = 2 * BLOCK;
constexpr float HIDDEN = -1e30f;  // a score that no softmax sees

struct AttentionLayer {
    const Shape& shape;
    const Layer& layer;
    const Batch& batch;
    const Memory& memory;
    const float* q;  // [tokens, heads, dim], readable up to a multiple of BLOCK tokens
    const float* k;  // [tokens, kv_heads, dim]
    const float* v;
    float* y;  // [tokens, heads, dim]

    // Keys or values (0, 1) of one position of a sequence: [kv_heads, dim].
    float* remembered(long sequence, long position, int which) const {
        long page = batch.pages[sequence * batch.table_width + position / batch.page_size];
        long at = ((page * memory.attentions + layer.slot) * 2 + which) * batch.page_size + position % batch.page_size;
        return memory.kv + at * shape.kv_heads * shape.head_dim;
    }
    void remember(Team team) const;
    void attend(Team team, float* laid) const;

  private:
    void single(long sequence, long head) const;
    void several(Team team, long sequence, float* laid) const;
    void block(long sequence, long head, long token, long count, const float* keys, const float* values) const;
};

inline void AttentionLayer::remember(Team team) const {
    size_t width = (size_t)shape.kv_heads * shape.head_dim;
    for (long s = 0; s < batch.sequences; s++)
        for (long t = batch.starts[s] + team.me; t < batch.starts[s + 1]; t += team.count) {
            long position = batch.contexts[s] + t - batch.starts[s];
            memcpy(remembered(s, position, 0), k + t * width, width * sizeof(float));
            memcpy(remembered(s, position, 1), v + t * width, width * sizeof(float));
        }
}

inline void AttentionLayer::single(long sequence, long head) const {
    static thread_local Room room;
    const long dim = shape.head_dim, seen = batch.contexts[sequence] + 1, token = batch.starts[sequence];
    const long shared = head / (shape.heads / shape.kv_heads) * dim;
    const float* query = q + (token * shape.heads + head) * dim;
    float* out = y + (token * shape.heads + head) * dim;
    float* scores = room.of(seen);
    float most = HIDDEN, total = 0;
    for (long i = 0; i < seen; i++) {
        const float* key = remembered(sequence, i, 0) + shared;
        float score = 0;
#pragma omp simd reduction(+ : score)
        for (long d = 0; d < dim; d++) score += query[d] * key[d];
        scores[i] = score * shape.scale;
        most = scores[i] > most ? scores[i] : most;
    }
    for (long i = 0; i < seen; i += W) store(scores + i, exponential(load(scores + i, seen - i) - most), seen - i);
#pragma omp simd reduction(+ : total)
    for (long i = 0; i < seen; i++) total += scores[i];
    memset(out, 0, dim * sizeof(float));
    for (long i = 0; i < seen; i++) {
        const float* value = remembered(sequence, i, 1) + shared;
        for (long d = 0; d < dim; d++) out[d] += scores[i] * value[d];
    }
    for (long d = 0; d < dim; d++) out[d] /= total;
}

// `count` tokens from `token` on, one query head, against laid-out keys and values.
inline void AttentionLayer::block(long sequence, long head, long token, long count, const float* keys,
                                  const float* values) const {
    static thread_local Room room;
    const long dim = shape.head_dim, wide = rounded(dim, PAIR), stride = shape.heads * dim;
    const long first = batch.contexts[sequence] + token - batch.starts[sequence];  // position
    float* scores = room.of(QUERIES * (KEYS + wide));
    float* sums = scores + QUERIES * KEYS;
    float most[QUERIES], total[QUERIES];
    alignas(64) float out[BLOCK * PAIR];
    for (long i = 0; i < QUERIES; i++) most[i] = HIDDEN, total[i] = 0;
    memset(sums, 0, QUERIES * wide * sizeof(float));
    for (long begin = 0; begin < first + count; begin += KEYS) {
        long visible = first + count - begin < KEYS ? first + count - begin : KEYS;
        for (long r = 0; r < count; r += BLOCK)
            for (long c = 0; c < visible; c += PAIR) {
                tile(q + (token + r) * stride + head * dim, stride, keys + (begin + c) * dim, PAIR, dim, out);
                for (long i = 0; i < BLOCK; i++) memcpy(scores + (r + i) * KEYS + c, out + i * PAIR, sizeof(float) * PAIR);
            }
        for (long i = 0; i < count; i++) {
            float* row = scores + i * KEYS;
            long valid = first + i + 1 - begin;
            valid = valid < 0 ? 0 : valid > visible ? visible : valid;
            const long filled = rounded(visible, W);
            for (long j = valid; j < filled; j++) row[j] = HIDDEN;
            vec peaks = all(most[i]), added{};
            for (long j = 0; j < filled; j += W) {
                vec s = load(row + j) * shape.scale;
                peaks = s > peaks ? s : peaks;
            }
            float peak = most[i];
            for (int j = 0; j < W; j++) peak = peaks[j] > peak ? peaks[j] : peak;
            for (long j = 0; j < filled; j += W) {
                vec e = exponential(load(row + j) * shape.scale - peak);
                added += e;
                store(row + j, e);
            }
            float kept = exponential(most[i] - peak);
            total[i] = total[i] * kept + sum(added);
            most[i] = peak;
            for (long d = 0; d < wide; d++) sums[i * wide + d] *= kept;
        }
        for (long r = 0; r < count; r += BLOCK)
            for (long d = 0; d < wide; d += PAIR) {
                tile(scores + r * KEYS, KEYS, values + begin * wide + d, wide, visible, out);
                for (long i = 0; i < BLOCK; i++)
                    for (long j = 0; j < PAIR; j++) sums[(r + i) * wide + d + j] += out[i * PAIR + j];
            }
    }
    for (long i = 0; i < count; i++)
        for (long d = 0; d < dim; d++) y[(token + i) * stride + head * dim + d] = sums[i * wide + d] / total[i];
}

// `laid` belongs to the whole team.
inline void AttentionLayer::several(Team team, long sequence, float* laid) const {
    const long dim = shape.head_dim, wide = rounded(dim, PAIR), per_key = shape.heads / shape.kv_heads;
    const long length = batch.starts[sequence + 1] - batch.starts[sequence], seen = batch.contexts[sequence] + length;
    const long filled = rounded(seen, PAIR), size = filled * (dim + wide);  // of one key head: panels, then rows
    for (long unit = team.me; unit < shape.kv_heads * filled / PAIR; unit += team.count) {
        long head = unit % shape.kv_heads, begin = unit / shape.kv_heads * PAIR;
        float *panel = laid + head * size + begin * dim, *rows = laid + head * size + filled * dim + begin * wide;
        for (long i = 0; i < PAIR; i++) {
            bool there = begin + i < seen;
            const float* key = there ? remembered(sequence, begin + i, 0) + head * dim : nullptr;
            const float* value = there ? remembered(sequence, begin + i, 1) + head * dim : nullptr;
            for (long d = 0; d < dim; d++) panel[d * PAIR + i] = there ? key[d] : 0;
            for (long d = 0; d < wide; d++) rows[i * wide + d] = there && d < dim ? value[d] : 0;
        }
    }
    team.wait();
    long blocks = rounded(length, QUERIES) / QUERIES;
    for (long unit = team.me; unit < blocks * shape.heads; unit += team.count) {
        // The last block looks at the most keys: begin with it.
        long i = blocks - 1 - unit / shape.heads, head = unit % shape.heads;
        long count = length - i * QUERIES < QUERIES ? length - i * QUERIES : QUERIES;
        const float* keys = laid + head / per_key * size;
        block(sequence, head, batch.starts[sequence] + i * QUERIES, count, keys, keys + filled * dim);
    }
    team.wait();  // before another sequence's keys are laid out there
}

// Floats that the keys and values of the longest view take when laid out.
static inline size_t laid_out(const Shape& shape, const Batch& batch) {
    long most = 0;
    for (long s = 0; s < batch.sequences; s++) {
        long length = batch.starts[s + 1] - batch.starts[s];
        if (length > 1 && batch.contexts[s] + length > most) most = batch.contexts[s] + length;
    }
    return rounded(most, PAIR) * shape.kv_heads * (shape.head_dim + rounded(shape.head_dim, PAIR));
}

inline void AttentionLayer::attend(Team team, float* laid) const {
    long unit = 0;
    for (long s = 0; s < batch.sequences; s++)
        if (batch.starts[s + 1] - batch.starts[s] == 1) {
            for (long head = 0; head < shape.heads; head++)
                if (unit++ % team.count == team.me) single(s, head);
        } else {
            several(team, s, laid);
        }
}
