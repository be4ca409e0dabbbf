// The decoder's layers over a packed batch, all in one call: norms, mixers, residual sums, memories updated in place.
//
// All threads walk through the layers together and wait for each other between steps that exchange data. The stream of
// residuals and what the layers hand on lie in one buffer that is kept from call to call.

#include "attention.h"
#include "linear.h"
#include "mamba.h"
#include "model.h"
#include "norm.h"
#include "png.h"
#include "resize.h"
#include "team.h"

namespace {

struct Pass {
    const Shape& shape;
    const Batch& batch;
    const Memory& memory;
    const long tokens = batch.tokens;
    const bool small = tokens <= FEW;
    float *stream, *normed, *wide, *mixed, *keys, *values, *laid;

    // Applies f(token, result) to all tokens. A few are done by every thread for itself, which is faster than waiting.
    template <class F>
    const float* each(Team team, long width, F f) const {
        static thread_local Room room;
        float* to = small ? room.of(tokens * width) : normed;
        for (long t = small ? 0 : team.from(tokens); t < (small ? tokens : team.to(tokens)); t++) f(t, to + t * width);
        if (!small) team.wait();
        return to;
    }

    const float* norm(Team team, const float* weight) const {
        return each(team, shape.hidden, [&](long t, float* to) {
            rms_norm(stream + t * shape.hidden, weight, shape.hidden, shape.eps, to);
        });
    }

    void mamba(Team team, const Layer& layer) const {
        linear<Then::set>(team, norm(team, layer.norm), tokens, shape.hidden, layer.weights[0], shape.projected(), wide);
        team.wait();
        MambaLayer mixer{shape, layer, batch, memory, wide, mixed};
        scan(team, mixer);
        team.wait();
        for (long s = team.me; s < batch.sequences; s += team.count) mixer.remember_inputs(s);
        const long inner = shape.inner();
        const float* gated = each(team, inner, [&](long t, float* to) {
            gated_rms_norm(mixed + t * inner, wide + t * shape.projected(), layer.gated_norm, inner, shape.groups,
                           shape.eps, to);
        });
        linear<Then::add>(team, gated, tokens, inner, layer.weights[1], shape.hidden, stream);
    }

    void mlp(Team team, const Layer& layer) const {
        linear<Then::relu2>(team, norm(team, layer.norm), tokens, shape.hidden, layer.weights[0], shape.mlp, wide);
        team.wait();
        linear<Then::add>(team, wide, tokens, shape.mlp, layer.weights[1], shape.hidden, stream);
    }

    void attention(Team team, const Layer& layer) const {
        const long width = (long)shape.heads * shape.head_dim, kv_width = (long)shape.kv_heads * shape.head_dim;
        const float* x = norm(team, layer.norm);
        linear<Then::set>(team, x, tokens, shape.hidden, layer.weights[0], width, wide);
        linear<Then::set>(team, x, tokens, shape.hidden, layer.weights[1], kv_width, keys);
        linear<Then::set>(team, x, tokens, shape.hidden, layer.weights[2], kv_width, values);
        team.wait();
        AttentionLayer mixer{shape, layer, batch, memory, wide, keys, values, mixed};
        mixer.remember(team);
        team.wait();
        mixer.attend(team, laid);
        team.wait();
        linear<Then::add>(team, mixed, tokens, width, layer.weights[3], shape.hidden, stream);
    }
};

thread_local Crowd crowd;

}  // namespace

extern "C" void holotron_forward(const Shape* shape, const Layer* layers, const float* last_norm, const Batch* batch,
                                 const Memory* memory, const float* x, float* hidden, int threads) {
    static thread_local Room room;
    const long rows = batch->tokens + BLOCK;  // tiles read beyond the last row
    auto most = [](long a, long b) { return a > b ? a : b; };
    const long width = (long)shape->heads * shape->head_dim, kv_width = (long)shape->kv_heads * shape->head_dim;
    const long normed = most(shape->hidden, shape->inner()), mixed = most(shape->inner(), width);
    const long wide = most(most(shape->projected(), shape->mlp), width);
    float* at = room.of(rows * (shape->hidden + normed + wide + mixed + 2 * kv_width) + laid_out(*shape, *batch));
    Pass pass{*shape, *batch, *memory};
    pass.stream = at, at += rows * shape->hidden;
    pass.normed = at, at += rows * normed;
    pass.wide = at, at += rows * wide;
    pass.mixed = at, at += rows * mixed;
    pass.keys = at, at += rows * kv_width;
    pass.values = at, at += rows * kv_width;
    pass.laid = at;
    memcpy(pass.stream, x, sizeof(float) * batch->tokens * shape->hidden);
    if (pass.small) threads = crowd.begin(threads);
    Meeting meeting;
#pragma omp parallel num_threads(threads)
    {
        Team team{omp_get_thread_num(), omp_get_num_threads(), &meeting};
        for (int i = 0; i < shape->layers; i++) {
            const Layer& layer = layers[i];
            if (layer.kind == MAMBA) pass.mamba(team, layer);
            if (layer.kind == MLP) pass.mlp(team, layer);
            if (layer.kind == ATTENTION) pass.attention(team, layer);
            team.wait();
        }
        for (long t = team.from(pass.tokens); t < team.to(pass.tokens); t++)
            rms_norm(pass.stream + t * shape->hidden, last_norm, shape->hidden, shape->eps, hidden + t * shape->hidden);
    }
    if (pass.small) crowd.end(threads, meeting.lost);
}

// A product of a few rows on its own, for the head.
extern "C" void holotron_linear(const float* x, long rows, long inputs, const float* weight, long outputs, float* y,
                                int threads) {
    threads = crowd.threads(threads);
#pragma omp parallel num_threads(threads)
    {
        Team team{omp_get_thread_num(), omp_get_num_threads(), nullptr};
        linear<Then::set>(team, x, rows, inputs, weight, outputs, y);
    }
}
