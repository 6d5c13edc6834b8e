/* The Service providing protocol, as its clients speak it: they subscribe to the services that are offered. */
#include "load.h"

#include <string.h>

enum { OFFER = 1, INFO = 16 };

static uint32_t integer(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void open_spp(struct client *client) { (void)client; /* The server begins. */ }

static void subscribe(struct client *client) {
    const uint8_t len = sizeof SERVICE - 1;
    bytes_add(&client->out, (uint8_t[]){0, 0, 0, 1, 0, 0, 0, 4 + len, 0, 0, 0, len}, 12);
    bytes_add(&client->out, SERVICE, len);
    loop_send(client);
}

static bool take_packet(struct client *client, uint32_t type, const uint8_t *data, size_t len) {
    if (len < 4 || integer(data) > len - 4)
        return false;
    size_t name = integer(data);
    bool ours = name == sizeof SERVICE - 1 && !memcmp(data + 4, SERVICE, name);
    if (type == OFFER && ours && !client->confirmed)
        subscribe(client);
    if (type != INFO || !ours)
        return true;
    if (len - 4 - name < 4 || integer(data + 4 + name) != len - 8 - name)
        return false;
    if (client->confirmed)
        traffic_take(client, data + 8 + name, len - 8 - name);
    /* The first one is a snapshot: what was last published before. */
    loop_confirm(client);
    return true;
}

static size_t parse(struct client *client, const uint8_t *data, size_t len) {
    size_t at = 0;
    while (len - at >= 8) {
        size_t size = integer(data + at + 4);
        if (size > len - at - 8)
            break;
        if (!take_packet(client, integer(data + at), data + at + 8, size))
            return PROTOCOL_ERROR;
        at += 8 + size;
    }
    return at;
}

const struct format SPP = {.name = "spp", .open = open_spp, .parse = parse};
