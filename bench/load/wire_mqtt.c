/* MQTT 3.1.1 with QoS 0 or 1. Source: the OASIS standard of that version; sections are given below. */
#include "load.h"

#include <stdio.h>
#include <string.h>

enum { CONNACK = 2, PUBLISH = 3, PUBACK = 4, SUBACK = 9 };

static bool confirms(const struct client *client) { return client->format == &MQTT_CONFIRMED; }

static void add_string(struct bytes *out, const char *text) {
    size_t len = strlen(text);
    bytes_add(out, (uint8_t[]){(uint8_t)(len >> 8), (uint8_t)len}, 2);
    bytes_add(out, text, len);
}

/* Section 2.2.3: the length of what follows, 7 bits a byte, the lowest first. */
static void add_fixed_header(struct bytes *out, uint8_t first, size_t len) {
    bytes_add(out, &first, 1);
    do {
        uint8_t digit = (uint8_t)(len & 127) | (len > 127 ? 128 : 0);
        bytes_add(out, &digit, 1);
    } while (len >>= 7);
}

static void subscribe(struct client *client, const char *topic) {
    add_fixed_header(&client->out, 0x82, 2 + 2 + strlen(topic) + 1);
    bytes_add(&client->out, "\0\1", 2);
    add_string(&client->out, topic);
    bytes_add(&client->out, confirms(client) ? "\1" : "\0", 1);
    client->awaited++;
}

static void open_mqtt(struct client *client) {
    char topic[64];
    static const uint8_t connect[] = {0x10, 12, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, 0};
    bytes_add(&client->out, connect, sizeof connect);
    client->awaited = 1;
    if (client->role == REQUESTER) {
        sprintf(topic, "reply/%u", client->number);
        subscribe(client, topic);
    } else if (client->role == PROVIDER) {
        subscribe(client, "$share/providers/" SERVICE "/0");
    } else if (client->role != PUBLISHER) {
        for (unsigned class = 0; class < plan.classes; class++)
            if (client->interest >> class & 1) {
                sprintf(topic, SERVICE "/%u", class);
                subscribe(client, topic);
            }
    }
    loop_send(client);
}

static void shape(const struct client *client, unsigned shape, struct template *template) {
    char topic[64];
    unsigned qos = confirms(client);
    sprintf(topic, SERVICE "/%u", shape % plan.classes);
    add_fixed_header(&template->head, (uint8_t)(PUBLISH << 4 | qos << 1), 2 + strlen(topic) + 2 * qos + template->payload);
    add_string(&template->head, topic);
    /* One packet identifier for all: no server looks for it again when the QoS is 1. */
    if (qos)
        bytes_add(&template->head, "\0\1", 2);
    template->tail = "";
}

static void reply(struct client *provider, struct span id, struct span to, const uint8_t *payload, size_t len) {
    char topic[64];
    uint64_t word;
    (void)id, (void)to;
    memcpy(&word, payload, 8);
    /* MQTT 3.1.1 has no place for where to reply to but the payload. */
    sprintf(topic, "reply/%u", (unsigned)(word >> 48));
    add_fixed_header(&provider->out, PUBLISH << 4, 2 + strlen(topic) + len);
    add_string(&provider->out, topic);
    bytes_add(&provider->out, payload, len);
}

static bool take_packet(struct client *client, unsigned first, const uint8_t *body, size_t len) {
    unsigned type = first >> 4;
    if (type == PUBLISH) {
        size_t head = len < 2 ? 2 : 2 + ((size_t)body[0] << 8 | body[1]);
        if (head + 2 > len)
            return false;
        if (first >> 1 & 3) {
            bytes_add(&client->out, (uint8_t[]){PUBACK << 4, 2, body[head], body[head + 1]}, 4);
            head += 2;
        }
        if (client->role == PROVIDER && len - head >= MIN_PAYLOAD)
            traffic_request(client, (struct span){NULL, 0}, (struct span){NULL, 0}, body + head, len - head);
        else
            traffic_take(client, body + head, len - head);
    } else if (type == CONNACK || type == SUBACK) {
        /* Sections 3.2.2.3 and 3.9.3: the last byte says whether it was refused; otherwise that of SUBACK is the QoS. */
        if (!len || body[len - 1] > (type == SUBACK ? 1 : 0))
            return false;
        if (!--client->awaited)
            loop_confirm(client);
    }
    return true;
}

static size_t parse(struct client *client, const uint8_t *data, size_t len) {
    size_t at = 0;
    while (at + 2 <= len) {
        size_t size = 0, digit = at + 1;
        unsigned shift = 0;
        while (digit < len && data[digit] & 128 && shift < 21) {
            size |= (size_t)(data[digit++] & 127) << shift;
            shift += 7;
        }
        if (digit >= len)
            break;
        size |= (size_t)data[digit++] << shift;
        if (size > len - digit)
            break;
        if (!take_packet(client, data[at], data + digit, size))
            return PROTOCOL_ERROR;
        at = digit + size;
    }
    if (confirms(client))
        loop_send(client);
    return at;
}

const struct format MQTT_CONFIRMED = {
    .name = "mqtt-confirmed", .open = open_mqtt, .parse = parse, .shape = shape, .reply = reply};
const struct format MQTT = {.name = "mqtt", .open = open_mqtt, .parse = parse, .shape = shape, .reply = reply};
