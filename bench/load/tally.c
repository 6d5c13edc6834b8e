/* Every publication is marked when it comes, so that a second one is known from a late one. */
#include "load.h"

static uint64_t span = 64;

void tally_set_span(uint64_t publications) {
    while (span < publications)
        span *= 2;
}

struct tally *tally_new(size_t count) {
    struct tally *made = allocate(count, sizeof *made);
    uint64_t *marks = allocate(count * (span / 64), sizeof *marks);
    for (size_t index = 0; index < count; index++)
        made[index].seen = marks + index * (span / 64);
    return made;
}

static void pass_over(struct tally *tally, uint64_t until) {
    uint64_t from = until - tally->next > span ? until - span : tally->next;
    for (; from < until; from++)
        tally->seen[from / 64 & (span / 64 - 1)] &= ~(1ULL << from % 64);
}

enum verdict tally_take(struct tally *tally, uint64_t sequence) {
    uint64_t *word = &tally->seen[sequence / 64 & (span / 64 - 1)];
    uint64_t mark = 1ULL << sequence % 64;
    if (sequence >= tally->next) {
        pass_over(tally, sequence);
        *word |= mark;
        tally->next = sequence + 1;
        tally->received++;
        return FRESH;
    }
    /* What is older than anything in flight has come before, or was given up and is lost. */
    if (tally->next - sequence > span || *word & mark)
        return DUPLICATE;
    *word |= mark;
    tally->received++;
    return LATE;
}
