/* Counts by magnitude: 64 steps to each power of 2, so that a percentile is at most 1.6 percent too high. */
#include "load.h"

#define STEP_BITS 6
#define STEPS (1u << STEP_BITS)

static uint64_t counts[(64 - STEP_BITS + 1) * STEPS];
static uint64_t total, largest;

static unsigned step_of(uint64_t value) {
    if (value < STEPS)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - STEP_BITS;
    return (shift + 1) * STEPS + (unsigned)(value >> shift) - STEPS;
}

static uint64_t top_of(unsigned step) {
    if (step < STEPS)
        return step;
    unsigned shift = step / STEPS - 1;
    return (((uint64_t)(step % STEPS + STEPS) + 1) << shift) - 1;
}

void histogram_add(uint64_t ns) {
    counts[step_of(ns)]++;
    total++;
    if (ns > largest)
        largest = ns;
}

uint64_t histogram_count(void) { return total; }
uint64_t histogram_max(void) { return largest; }

uint64_t histogram_percentile(double share) {
    uint64_t wanted = (uint64_t)((double)total * share), below = 0;
    for (unsigned step = 0; step < sizeof counts / sizeof *counts; step++) {
        below += counts[step];
        if (below > wanted)
            return top_of(step) < largest ? top_of(step) : largest;
    }
    return largest;
}
