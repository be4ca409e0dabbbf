// The threads that compute one forward pass together, and memory that a thread keeps between passes.
#pragma once

#include <immintrin.h>
#include <linux/futex.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

// Where threads wait for each other, some hundred times per pass: mostly for less than a microsecond, so they spin. But a
// thread may have lost its core to another program; then the rest sleep, because spinning would take cores from it. Not
// too soon: on a virtual machine a core that sleeps takes tens of microseconds to come back.
class Meeting {
    static constexpr int64_t PATIENCE = 200000;  // clock ticks, some 70 microseconds
    std::atomic<int32_t> arrived{0}, round{0}, asleep{0};

  public:
    std::atomic<int64_t> lost{0};  // clock ticks that all threads together have waited

    void wait(int count) {
        int32_t now = round.load(std::memory_order_acquire);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) == count - 1) {
            arrived.store(0, std::memory_order_relaxed);
            round.store(now + 1);
            if (asleep.load()) syscall(SYS_futex, &round, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
            return;
        }
        int64_t since = __rdtsc();
        while (round.load(std::memory_order_acquire) == now && (int64_t)__rdtsc() - since < PATIENCE) _mm_pause();
        if (round.load(std::memory_order_acquire) == now) {
            asleep.fetch_add(1);
            while (round.load() == now) syscall(SYS_futex, &round, FUTEX_WAIT_PRIVATE, now, nullptr, nullptr, 0);
            asleep.fetch_sub(1);
        }
        lost.fetch_add(__rdtsc() - since, std::memory_order_relaxed);
    }
};

// How many threads to use while other programs want the cores too: a pass takes as long as its slowest thread, so with
// the cores taken away in turns, one thread alone is faster than several that wait for each other. Where waiting has
// eaten up what the threads gained, the next passes are done alone, and then it is tried again.
class Crowd {
    static constexpr int LONGEST = 32;
    int alone = 0, pause = 1, losses = 0;
    int64_t begun = 0;

  public:
    // For something small that goes with a pass.
    int threads(int wanted) const { return alone ? 1 : wanted; }

    int begin(int wanted) {
        begun = __rdtsc();
        if (alone) alone--;
        return threads(wanted);
    }
    void end(int threads, int64_t lost) {
        if (threads == 1) return;
        // Of the time that is lost, a thread spends about half waiting and half without a core.
        bool gained = 2 * lost < (threads - 1) * (int64_t)(__rdtsc() - begun);
        losses = gained ? 0 : losses + 1;
        if (gained) pause = 1;
        if (losses < 2) return;  // once may be chance, or a thread that had to be woken
        losses = 0;
        alone = pause + 1;
        pause = pause < LONGEST ? 2 * pause : LONGEST;
    }
};

struct Team {
    int me, count;
    Meeting* meeting;

    // Everybody has finished what came before.
    void wait() const {
        if (count > 1) meeting->wait(count);
    }
    // My share of n equal things: [from, to).
    long from(long n) const { return n * me / count; }
    long to(long n) const { return n * (me + 1) / count; }
};

// Room that only grows, until it is so large that keeping it would be rude.
class Room {
    static constexpr size_t KEPT = size_t(64) << 20;
    float* data = nullptr;
    size_t size = 0;

  public:
    ~Room() { free(data); }

    // Room for n floats, whose contents are arbitrary; what was handed out before is gone.
    float* of(size_t n) {
        size_t bytes = (n * sizeof(float) + 4095) / 4096 * 4096;
        if (bytes > size || size > KEPT) {
            free(data);
            data = static_cast<float*>(aligned_alloc(4096, bytes));
            size = bytes;
            if (!data) abort();
        }
        return data;
    }
};
