/* The shapes of publications. They take turns, so that sizes and content types change from one to the next. */
#include "load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *TYPES[] = {"text/plain; charset=UTF-8", "application/json", "image/png", "application/octet-stream"};

/* What metadata is filled up with: text, numbers, lists, nested objects, escapes, and characters of several bytes. */
static const char *MEMBERS[] = {
    ",\"subject-%u\":\"Kitchen light\"", ",\"level-%u\":0.250", ",\"tags-%u\":[\"home\",\"upstairs\",\"lamp\"]",
    ",\"place-%u\":{\"room\":\"K\xc3\xbc" "che\",\"floor\":2}", ",\"note-%u\":\"said \\\"on\\\" at \\u00bd past\"",
    ",\"at-%u\":1795305723.114502", ",\"retained-%u\":true",
};

/* A class keeps its shapes: sequence number, shape and class agree. */
unsigned template_count(const struct plan *sizes) { return MAX_SHAPES - MAX_SHAPES % sizes->classes; }

/* Spread evenly over magnitudes, in an order that is not that of size. */
static size_t spread(size_t least, size_t most, unsigned shape) {
    if (least >= most)
        return least;
    double place = (double)(shape * 37 % MAX_SHAPES) / (MAX_SHAPES - 1);
    return (size_t)(exp(log((double)least) + place * (log((double)most) - log((double)least))) + 0.5);
}

size_t template_metadata(const struct plan *sizes, unsigned shape) {
    return spread(sizes->metadata_min, sizes->metadata_max, shape);
}

size_t template_payload(const struct plan *sizes, unsigned shape) {
    return sizes->payload + (sizes->extra_max ? spread(sizes->extra_min, sizes->extra_max, shape) : 0);
}

const char *template_type(const struct plan *sizes, unsigned shape, char *room) {
    if (sizes->classes == 1)
        return TYPES[shape % (sizeof TYPES / sizeof *TYPES)];
    sprintf(room, "application/x-bench-%u", shape % sizes->classes);
    return room;
}

/* `begin` opens the object and has its first members. :returns: bytes */
size_t metadata_write(struct bytes *out, const char *begin, const char *type, size_t payload, size_t size) {
    size_t start = out->len;
    bytes_print(out, "%s,\"type\":\"%s\",\"size\":%zu", begin, type, payload);
    for (unsigned number = 0; out->len - start + 64 < size; number++)
        bytes_print(out, MEMBERS[number % (sizeof MEMBERS / sizeof *MEMBERS)], number);
    size_t padding = sizeof ",\"pad\":\"\"}" - 1;
    if (out->len - start + padding <= size) {
        size_t count = size - padding - (out->len - start);
        bytes_print(out, ",\"pad\":\"");
        memset(bytes_grow(out, count), 'x', count);
        bytes_print(out, "\"");
    }
    bytes_print(out, "}");
    return out->len - start;
}

static void write_id(uint8_t *to, const char *run, uint64_t word) {
    memcpy(to, run, 8);
    for (int digit = 0; digit < 16; digit++)
        to[8 + digit] = (uint8_t) "0123456789abcdef"[word >> (60 - 4 * digit) & 15];
}

static void write_payload(uint8_t *to, size_t size, const struct publication *publication) {
    memcpy(to, &publication->word, 8);
    memcpy(to + 8, &publication->time, 8);
    if (size < MIN_PAYLOAD + 8)
        return;
    memset(to + MIN_PAYLOAD, (int)(publication->word & 0xff), size - MIN_PAYLOAD - 8);
    memcpy(to + size - 8, &publication->word, 8);
}

void template_apply(struct bytes *out, const struct template *template, const struct publication *publication,
                    const char *run, bool base64) {
    size_t start = out->len;
    bytes_add(out, template->head.data, template->head.len);
    if (template->id_at)
        write_id(out->data + start + template->id_at, run, publication->word);
    if (base64) {
        uint8_t payload[65536];
        write_payload(payload, template->payload, publication);
        size_t len = (template->payload + 2) / 3 * 4;
        base64_encode(payload, template->payload, (char *)bytes_grow(out, len));
    } else {
        write_payload(bytes_grow(out, template->payload), template->payload, publication);
    }
    bytes_add(out, template->tail, strlen(template->tail));
}
