// What a forward pass is given. These structures are mirrored in __init__.py, field by field.
#pragma once

#include <cstdint>

extern "C" {

enum Kind : int32_t { MAMBA = 0, MLP = 1, ATTENTION = 2 };

struct Layer {
    int32_t kind;
    int32_t slot;  // which of the layers of its kind, in the memory
    const float* norm;
    const float* weights[4];  // Mamba: in, out. MLP: up, down. Attention: q, k, v, o.
    // Mamba only
    const float* conv;       // [channels, taps]
    const float* conv_bias;  // may be null
    const float* A_log;
    const float* D;
    const float* dt_bias;
    const float* gated_norm;
};

struct Shape {
    int32_t hidden, layers;
    int32_t mamba_heads, mamba_dim, state, groups, taps;
    int32_t mlp;
    int32_t heads, kv_heads, head_dim;
    float eps, scale;

    long inner() const { return (long)mamba_heads * mamba_dim; }
    long channels() const { return inner() + 2L * groups * state; }
    long projected() const { return inner() + channels() + mamba_heads; }
};

// Several sequences end to end, as in layout.py.
struct Batch {
    int32_t tokens, sequences, snapshots, page_size, table_width;
    const int32_t* starts;         // [sequences + 1]
    const int32_t* contexts;       // tokens already remembered
    const int32_t* rows;           // of the recurrent memory
    const int32_t* pages;          // [sequences, table_width]
    const int32_t* snapshot_list;  // [snapshots, 3]: sequence, tokens, row; by sequence, then by tokens
};

// What the network remembers, as in cache.py.
struct Memory {
    float* ssm;   // [rows, layers, heads, dim, state]
    float* conv;  // [rows, layers, taps - 1, channels], oldest first
    float* kv;    // [pages, layers, 2, page_size, kv_heads, head_dim]
    int32_t mambas, attentions;
};
}
