#include "load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void *allocate(size_t count, size_t size) {
    void *made = calloc(count ? count : 1, size);
    if (!made)
        die("out of memory");
    return made;
}

uint8_t *bytes_grow(struct bytes *bytes, size_t more) {
    if (bytes->len + more > bytes->room) {
        bytes->room = 2 * (bytes->len + more);
        bytes->data = realloc(bytes->data, bytes->room);
        if (!bytes->data)
            die("out of memory");
    }
    bytes->len += more;
    return bytes->data + bytes->len - more;
}

void bytes_add(struct bytes *bytes, const void *data, size_t len) {
    if (len)
        memcpy(bytes_grow(bytes, len), data, len);
}

void bytes_print(struct bytes *bytes, const char *format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (len < 0 || (size_t)len >= sizeof text)
        die("too long: %s", format);
    bytes_add(bytes, text, (size_t)len);
}

uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
