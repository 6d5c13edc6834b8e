/* Inbus: one JSON object a datagram. Its payload is text, so here it is always base64: version 1 takes that for text, to
 * version 2 it means the bytes. */
#include "load.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

enum { SUBSCRIBE = 1, UNSUBSCRIBE = 2 };

static int version_of(const struct client *client) { return client->format == &INBUS_2 ? 2 : 1; }

static void send_opcode(struct client *client, int opcode) {
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    if (client->role == PUBLISHER)
        return;
    if (getsockname(client->fd, (struct sockaddr *)&own, &size))
        die("getsockname failed");
    bytes_print(&client->out,
                "{\"version\":%d,\"opcode\":%d,\"application\":[\"" SERVICE "\",0],\"address\":[\"127.0.0.1\",%u]"
                ",\"payload\":\"\"}",
                version_of(client), opcode, ntohs(own.sin_port));
    loop_send(client);
}

static void open_inbus(struct client *client) {
    loop_confirm(client); /* There is no answer: probes show whether it worked. */
    send_opcode(client, SUBSCRIBE);
}

/* Or the server would go on sending to it, all through what is measured next. */
static void leave(struct client *client) { send_opcode(client, UNSUBSCRIBE); }

static void shape(const struct client *client, unsigned shape, struct template *template) {
    (void)shape;
    bytes_print(&template->head,
                "{\"version\":%d,\"opcode\":3,\"application\":[\"" SERVICE "\",1],\"address\":[\"\",0],\"payload\":\"",
                version_of(client));
    template->tail = "\"}";
}

static size_t parse(struct client *client, const uint8_t *data, size_t len) {
    struct span payload;
    uint8_t decoded[65536];
    if (!json_member((const char *)data, len, "payload", &payload))
        totals.corrupt++;
    else
        traffic_take(client, decoded, base64_decode(payload.at, payload.len, decoded));
    return len;
}

const struct format INBUS = {
    .name = "inbus", .datagrams = true, .base64 = true, .open = open_inbus, .leave = leave, .parse = parse, .shape = shape};
const struct format INBUS_2 = {
    .name = "inbus2", .datagrams = true, .base64 = true, .open = open_inbus, .leave = leave, .parse = parse, .shape = shape};
