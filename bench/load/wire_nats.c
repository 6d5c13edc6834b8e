/* NATS: lines of text, payloads by size. Source: the NATS client protocol. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_nats(struct client *client) {
    bytes_print(&client->out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"echo\":false}\r\n");
    if (client->role == REQUESTER)
        bytes_print(&client->out, "SUB reply.%u 1\r\n", client->number);
    else if (client->role == PROVIDER)
        bytes_print(&client->out, "SUB " SERVICE " providers 1\r\n");
    else if (client->role != PUBLISHER)
        for (unsigned class = 0; class < plan.classes; class++)
            if (client->interest >> class & 1)
                bytes_print(&client->out, "SUB " SERVICE ".%u %u\r\n", class, class + 1);
    bytes_print(&client->out, "PING\r\n");
    loop_send(client);
}

static void shape(const struct client *client, unsigned shape, struct template *template) {
    if (client->role == REQUESTER)
        bytes_print(&template->head, "PUB " SERVICE " reply.%u %zu\r\n", client->number, template->payload);
    else
        bytes_print(&template->head, "PUB " SERVICE ".%u %zu\r\n", shape % plan.classes, template->payload);
    template->tail = "\r\n";
}

/* MSG subject sid [reply] size. :returns: the size; `reply` is empty when there is none */
static size_t read_message_line(const char *line, size_t len, struct span *reply) {
    struct span words[5];
    unsigned count = 0;
    for (size_t at = 0; at < len && count < 5;) {
        size_t start = at;
        while (at < len && line[at] != ' ' && line[at] != '\r')
            at++;
        words[count++] = (struct span){line + start, at - start};
        if (at >= len || line[at] == '\r')
            break;
        at++;
    }
    *reply = count == 5 ? words[3] : (struct span){line, 0};
    return strtoul(words[count - 1].at, NULL, 10);
}

static size_t take_message(struct client *client, const uint8_t *data, size_t line, size_t len) {
    struct span reply;
    size_t size = read_message_line((const char *)data, line, &reply);
    if (size + 2 > len - line)
        return 0;
    if (reply.len)
        traffic_request(client, reply, reply, data + line, size);
    else
        traffic_take(client, data + line, size);
    return line + size + 2;
}

static void reply(struct client *provider, struct span id, struct span to, const uint8_t *payload, size_t len) {
    (void)id;
    bytes_print(&provider->out, "PUB %.*s %zu\r\n", (int)to.len, to.at, len);
    bytes_add(&provider->out, payload, len);
    bytes_add(&provider->out, "\r\n", 2);
}

static void take_line(struct client *client, const uint8_t *line, size_t len) {
    if (len >= 4 && !memcmp(line, "PONG", 4)) {
        loop_confirm(client);
    } else if (len >= 4 && !memcmp(line, "PING", 4)) {
        bytes_print(&client->out, "PONG\r\n");
        loop_send(client);
    } else if (*line == '-') {
        die("NATS refuses: %.*s", (int)len, line);
    }
}

static size_t parse(struct client *client, const uint8_t *data, size_t len) {
    size_t at = 0;
    while (at < len) {
        const uint8_t *end = memchr(data + at, '\n', len - at);
        if (!end)
            break;
        size_t line = (size_t)(end - data) + 1 - at, taken = line;
        if (line > 4 && !memcmp(data + at, "MSG ", 4))
            taken = take_message(client, data + at, line, len - at);
        else
            take_line(client, data + at, line);
        if (!taken)
            break;
        at += taken;
    }
    return at;
}

const struct format NATS = {.name = "nats", .open = open_nats, .parse = parse, .shape = shape, .reply = reply};
