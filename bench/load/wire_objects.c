/* Objects and business objects: JSON, NUL, and as many bytes as the JSON's `size` says. */
#define _GNU_SOURCE
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_KEY "\"size\":"
#define SIZE_PLACES 8

static void add_types(struct client *client, const char *name) {
    bytes_print(&client->out, ",\"%s\":", name);
    if (plan.classes == 1) {
        bytes_print(&client->out, "\"all\"");
        return;
    }
    char separator = '[';
    for (unsigned class = 0; class < plan.classes; class++)
        if (client->interest >> class & 1) {
            bytes_print(&client->out, "%c\"application/x-bench-%u\"", separator, class);
            separator = ',';
        }
    bytes_print(&client->out, "]");
}

static void finish(struct client *client) {
    bytes_add(&client->out, "}", 2);
    loop_send(client);
}

static void open_with(struct client *client, const char *event, const char *receive, const char *types) {
    struct bytes *out = &client->out;
    bytes_print(out, "{\"event\":\"%s\",\"id\":\"subscribe\"", event);
    client->awaited = 1;
    if (client->role == REQUESTER)
        bytes_print(out, ",\"subscriptions\":[\"@services/reply\"]");
    else if (client->role == PROVIDER)
        bytes_print(out, ",\"subscriptions\":[\"@services/request\"]");
    else if (client->role == CHURNER || client->format->service)
        bytes_print(out, ",\"subscriptions\":[]"); /* unlike "none" this lets answers through */
    else if (client->role == PUBLISHER)
        bytes_print(out, ",\"%s\":\"none\"", receive);
    else
        add_types(client, types);
    finish(client);
}

static void open_objects(struct client *client) {
    open_with(client, "routing/subscribe", "receive_mode", "types");
    if (client->role != PROVIDER && !client->format->service)
        return;
    bytes_print(&client->out, "{\"event\":\"services/register\",\"id\":\"register\",\"name\":\"" SERVICE "\"");
    client->awaited++;
    finish(client);
}

static void open_business(struct client *client) { open_with(client, "clients/register", "receive", "subscribe"); }

static void shape(const struct client *client, unsigned shape, struct template *template) {
    char room[64], begin[256], id[64];
    const char *request = client->role == REQUESTER ? "\"event\":\"services/request\",\"name\":\"" SERVICE "\"," : "";
    int id_size = sprintf(id, ",\"id\":\"%024d\"", 0);
    sprintf(begin, "{%s\"sender\":\"%s\"%s", request, client->format->service ? SERVICE : "load", plan.ids ? id : "");
    metadata_write(&template->head, begin, template_type(&plan, shape, room), template->payload,
                   template_metadata(&plan, shape) - (plan.ids ? 0 : (size_t)id_size));
    template->id_at = plan.ids ? strlen(begin) - 25 : 0;
    bytes_add(&template->head, "", 1);
    template->tail = "";
}

static void reply(struct client *provider, struct span id, struct span to, const uint8_t *payload, size_t len) {
    struct bytes *out = &provider->out;
    bytes_print(out, "{\"event\":\"services/reply\",\"name\":\"" SERVICE "\",\"in-reply-to\":");
    bytes_add(out, id.at, id.len);
    bytes_print(out, ",\"to\":");
    bytes_add(out, to.at, to.len);
    bytes_print(out, ",\"type\":\"application/json\",\"size\":%zu}", len);
    bytes_add(out, "", 1);
    bytes_add(out, payload, len);
}

/* One session registers a service and unregisters it again. */
static void churn(struct client *client) {
    bytes_print(&client->out, "{\"event\":\"services/%s\",\"id\":\"%llu\",\"name\":\"" SERVICE "/%u\"",
                client->changes % 2 ? "unregister" : "register", (unsigned long long)client->changes, client->number);
    bytes_add(&client->out, "}", 2);
}

static void take_answer(struct client *client, const char *head, size_t len, struct span event) {
    struct span to;
    char number[32];
    /* A request that comes before the first provider does is a probe, and there will be more. */
    if (json_is(event, "error") && client->role != REQUESTER)
        die("the server refuses: %.*s", (int)len, head);
    if (!json_member(head, len, "in-reply-to", &to))
        return;
    if (!client->confirmed) {
        if ((json_is(to, "subscribe") || json_is(to, "register")) && !--client->awaited)
            loop_confirm(client);
        return;
    }
    sprintf(number, "%llu", (unsigned long long)client->changes);
    if (client->role == CHURNER && json_is(to, number))
        traffic_changed(client);
}

static void take_object(struct client *client, const char *head, size_t len, const uint8_t *payload, size_t size) {
    struct span event, id, route;
    if (size && client->role != PROVIDER) {
        traffic_take(client, payload, size);
        return;
    }
    if (!json_member(head, len, "event", &event))
        totals.other++;
    else if (json_is(event, "services/request") && json_member(head, len, "id", &id) &&
             json_member(head, len, "route", &route))
        traffic_request(client, id, json_first(route), payload, size);
    else
        take_answer(client, head, len, event);
}

/* Objects are alike but for their types, so `size` mostly stands where it stood in one of the last few. A comma and
 * quotes cannot stand in a JSON string like that, and what is published here has it at the top level only. */
static size_t size_places[SIZE_PLACES];

static bool size_at(const char *head, size_t len, size_t place) {
    size_t key = sizeof SIZE_KEY - 1;
    return place && place + key < len && head[place - 1] == ',' && !memcmp(head + place, SIZE_KEY, key);
}

static size_t payload_size(const char *head, size_t len) {
    static unsigned turn;
    size_t key = sizeof SIZE_KEY - 1;
    for (unsigned index = 0; index < SIZE_PLACES; index++)
        if (size_at(head, len, size_places[index]))
            return strtoul(head + size_places[index] + key, NULL, 10);
    struct span size;
    if (!json_member(head, len, "size", &size))
        return 0;
    size_t at = (size_t)(size.at - head);
    if (at > key && size_at(head, len, at - key))
        size_places[turn++ % SIZE_PLACES] = at - key;
    return strtoul(size.at, NULL, 10);
}

static size_t parse(struct client *client, const uint8_t *data, size_t len) {
    size_t at = 0;
    while (at < len) {
        const uint8_t *end = memchr(data + at, 0, len - at);
        if (data[at] != '{')
            return PROTOCOL_ERROR;
        if (!end)
            break;
        const char *head = (const char *)data + at;
        size_t head_len = (size_t)((const char *)end - head);
        size_t size = payload_size(head, head_len);
        if (size > len - at - head_len - 1)
            break;
        take_object(client, head, head_len, end + 1, size);
        at += head_len + 1 + size;
    }
    return at;
}

const struct format OBJECTS = {
    .name = "objects", .open = open_objects, .parse = parse, .shape = shape, .reply = reply, .churn = churn};
const struct format OBJECTS_SERVICE = {
    .name = "objects-service", .service = true, .open = open_objects, .parse = parse, .shape = shape};
const struct format BUSINESS = {.name = "business", .open = open_business, .parse = parse, .shape = shape};
