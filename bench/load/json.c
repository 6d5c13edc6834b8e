/* Top-level members of a JSON object, found without decoding the rest. Servers are trusted to send valid JSON. */
#include "load.h"

#include <string.h>

static const char *past_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at + 1;
}

static const char *past_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
        at++;
    return at;
}

static const char *past_value(const char *at, const char *end) {
    int depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = past_string(at, end);
            if (!depth)
                return at;
            continue;
        }
        if (*at == '[' || *at == '{')
            depth++;
        else if (*at == ']' || *at == '}')
            depth--;
        else if (*at == ',' && !depth)
            return at;
        if (depth < 0)
            return at;
        at++;
        if (!depth && (at[-1] == ']' || at[-1] == '}'))
            return at;
    }
    return at;
}

bool json_member(const char *json, size_t len, const char *key, struct span *value) {
    const char *end = json + len, *at = past_space(json, end);
    size_t key_len = strlen(key);
    if (at < end && *at == '{')
        at = past_space(at + 1, end);
    while (at < end && *at == '"') {
        const char *name = at + 1, *after = past_string(at, end);
        at = past_space(after, end);
        if (at >= end || *at != ':')
            return false;
        at = past_space(at + 1, end);
        const char *stop = past_value(at, end);
        if ((size_t)(after - 1 - name) == key_len && !memcmp(name, key, key_len)) {
            *value = (struct span){at, (size_t)((stop < end ? stop : end) - at)};
            return true;
        }
        at = past_space(stop, end);
        if (at < end && *at == ',')
            at = past_space(at + 1, end);
    }
    return false;
}

bool json_is(struct span value, const char *text) {
    size_t len = strlen(text);
    return value.len >= len + 2 && value.at[0] == '"' && value.at[len + 1] == '"' && !memcmp(value.at + 1, text, len);
}

struct span json_first(struct span array) {
    const char *end = array.at + array.len, *at = past_space(array.at + 1, end);
    const char *stop = past_value(at, end);
    return (struct span){at, (size_t)(stop - at)};
}

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(const uint8_t *from, size_t len, char *to) {
    char *start = to;
    for (size_t at = 0; at < len; at += 3) {
        unsigned left = (unsigned)(len - at < 3 ? len - at : 3);
        unsigned bits = (unsigned)from[at] << 16;
        if (left > 1)
            bits |= (unsigned)from[at + 1] << 8;
        if (left > 2)
            bits |= from[at + 2];
        *to++ = DIGITS[bits >> 18];
        *to++ = DIGITS[bits >> 12 & 63];
        *to++ = left > 1 ? DIGITS[bits >> 6 & 63] : '=';
        *to++ = left > 2 ? DIGITS[bits & 63] : '=';
    }
    return (size_t)(to - start);
}

/* Skips what is no digit: padding, and the backslash that JSON allows before a slash. */
size_t base64_decode(const char *from, size_t len, uint8_t *to) {
    static int8_t values[256];
    if (!values['B']) {
        memset(values, -1, sizeof values);
        for (int digit = 0; digit < 64; digit++)
            values[(uint8_t)DIGITS[digit]] = (int8_t)digit;
    }
    uint8_t *start = to;
    unsigned bits = 0, have = 0;
    for (size_t at = 0; at < len; at++) {
        int value = values[(uint8_t)from[at]];
        if (value < 0)
            continue;
        bits = bits << 6 | (unsigned)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            *to++ = (uint8_t)(bits >> have);
        }
    }
    return (size_t)(to - start);
}
