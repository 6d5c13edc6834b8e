/* Redis: RESP2, and its publish and subscribe. Source: the Redis serialization protocol specification. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_redis(struct client *client) {
    if (client->role == PUBLISHER || client->role == CHURNER) {
        bytes_print(&client->out, "*1\r\n$4\r\nPING\r\n");
        loop_send(client);
        return;
    }
    for (unsigned class = 0; class < plan.classes; class++)
        if (client->interest >> class & 1) {
            client->awaited++;
            bytes_print(&client->out, "*2\r\n$9\r\nSUBSCRIBE\r\n$8\r\n" SERVICE ".%02u\r\n", class);
        }
    loop_send(client);
}

static void shape(const struct client *client, unsigned shape, struct template *template) {
    (void)client;
    bytes_print(&template->head, "*3\r\n$7\r\nPUBLISH\r\n$8\r\n" SERVICE ".%02u\r\n$%zu\r\n", shape % plan.classes,
                template->payload);
    template->tail = "\r\n";
}

static void churn(struct client *client) {
    char member[32];
    int len = sprintf(member, "%u", client->number);
    bytes_print(&client->out, "*3\r\n$4\r\n%s\r\n$8\r\nservices\r\n$%d\r\n%s\r\n",
                client->changes % 2 ? "SREM" : "SADD", len, member);
}

/* :returns: how long the line is, with its end; 0: it is not all there */
static size_t line_of(const uint8_t *data, size_t len) {
    const uint8_t *end = memchr(data, '\n', len);
    return end ? (size_t)(end - data) + 1 : 0;
}

static void take_line(struct client *client, const uint8_t *line, size_t len) {
    if (*line == '-')
        die("Redis refuses: %.*s", (int)len, line);
    if (!client->confirmed)
        loop_confirm(client);
    else if (client->role == CHURNER && *line == ':')
        traffic_changed(client);
}

/* A message or an answer to SUBSCRIBE: an array of three. :returns: its length; 0: it is not all there */
static size_t take_array(struct client *client, const uint8_t *data, size_t len) {
    struct span parts[3] = {{NULL, 0}};
    size_t at = line_of(data, len);
    if (!at)
        return 0;
    if (memcmp(data, "*3\r\n", 4))
        return PROTOCOL_ERROR;
    for (int part = 0; part < 3; part++) {
        size_t line = line_of(data + at, len - at);
        if (!line)
            return 0;
        parts[part].at = (const char *)data + at + line;
        parts[part].len = data[at] == '$' ? strtoul((const char *)data + at + 1, NULL, 10) : 0;
        size_t whole = line + (data[at] == '$' ? parts[part].len + 2 : 0);
        if (whole > len - at)
            return 0;
        at += whole;
    }
    if (parts[0].len == 7)
        traffic_take(client, (const uint8_t *)parts[2].at, parts[2].len);
    else if (!--client->awaited)
        loop_confirm(client);
    return at;
}

static size_t parse(struct client *client, const uint8_t *data, size_t len) {
    size_t at = 0;
    while (at < len) {
        bool array = data[at] == '*';
        size_t taken = array ? take_array(client, data + at, len - at) : line_of(data + at, len - at);
        if (taken == PROTOCOL_ERROR || !memchr("*:+-", data[at], 4))
            return PROTOCOL_ERROR;
        if (!taken)
            break;
        if (!array)
            take_line(client, data + at, taken);
        at += taken;
    }
    return at;
}

const struct format REDIS = {.name = "redis", .open = open_redis, .parse = parse, .shape = shape, .churn = churn};
