/* One pass over the received bytes of a member or a linked server: finds whole objects, and writes them as they are
 * forwarded.
 *
 * The readers and routers in Python say what is right; this file does the same for most objects, without an object of
 * Python for each. It takes a strict subset: whatever it does not take is left to Python, which is also the only
 * source of errors. bussrv/bus/routing/compiled.py and exchanges.py call it. The end of this file receives and sends for
 * bussrv/net/transport/tcp.py.
 *
 *   object = metadata NUL payload                                    see bussrv/wire/objects.py
 *   taken  = metadata without its last brace, [ID,] TAIL, payload    ID is: ,"id":"..."   TAIL is: ,"route":[...]} NUL
 *
 * Metadata of a linked server has an id, and ends with a route: another TAIL takes its place.
 *
 * Invariants:
 *   1. A cursor never leaves its bytes: they are looked at by peek(), peek_word(), begins_with() and odd_bytes() alone,
 *      and a cursor moves over what they have shown. All of them check the end.
 *   2. A scan allocates nothing. All it keeps is of fixed size, on the stack, or has got its room before.
 *   3. Nesting takes no recursion: one bit a level, and no more levels than bits.
 *   4. Metadata that is taken is sound JSON in UTF-8, and the Python readers find the same values in it.
 *   5. Metadata that is taken is what bussrv/wire/forwarded.py would keep as it is, byte for byte.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <sys/socket.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Changes with every change of how Python and this file call each other. */
#define INTERFACE 9

#define MOST_OBJECTS 1024  /* the most objects of one pass */
#define MOST_PLANS 128     /* the most route plans of a table */
#define SLOTS 512          /* of the hash table of plans: a power of two, with room to spare */
#define MOST_OUTLETS 64    /* one bit each */
#define MOST_LEVELS 64     /* one bit each */
#define MOST_EXAMPLES 64   /* one bit each */
#define MOST_NATURES 64    /* as MAX_NATURES in bussrv/wire/objects.py */
#define MOST_KEYS 32       /* the most keys that are compared with each other */
#define MOST_DIGITS 18     /* such an integer fits in 64 bits */
#define LONGEST_KEY 1024   /* the most bytes of what a route plan depends on */
#define MOST_AWAITED 32768 /* Python gathers larger payloads, and counts their memory */
#define LEAST_ROOM 1024    /* a power of two */
#define MOST_READ 122880   /* as in bussrv/net/transport/tcp.py */

typedef enum {
    CONTINUE = 0,      /* so far so good */
    INCOMPLETE = 1,    /* the rest of the object has not come yet */
    NEEDS_PYTHON = 2,  /* Python is to look at the object */
    NO_PLAN = 3,       /* there is no route plan for such objects */
    MUST_OPEN = 4,     /* the groups of its route plan are to be opened */
    ROUTE_CHANGED = 5, /* it came by another route */
} Verdict;

/* Bytes that are read one after the other. */

/* A window is 64 bytes that are looked at together. A byte is odd if it is not ASCII that means itself in a string: bit n
 * tells it of byte n. */
#define WINDOW 64

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
    const unsigned char *window; /* not after at */
    uint64_t odd;
} Cursor;

typedef struct {
    const unsigned char *begin;
    Py_ssize_t size;
} Span;

#define END (-1)

/* HOT: a function that becomes part of its callers. The cursor of a scan stays in registers as long as no other function
 * is given its address; such functions are given a copy. */
#define HOT static inline __attribute__((always_inline))
#define NOT_INLINE __attribute__((noinline))

static inline int
peek(const Cursor *cursor)
{
    return cursor->at < cursor->end ? *cursor->at : END;
}

static inline int
peek_word(const Cursor *cursor, uint64_t *word)
{
    if (cursor->end - cursor->at < (Py_ssize_t)sizeof(*word)) {
        return 0;
    }
    memcpy(word, cursor->at, sizeof(*word));
    return 1;
}

/* Whether these bytes come next. */
HOT int
begins_with(const Cursor *cursor, const Span *text)
{
    return cursor->end - cursor->at >= text->size && !memcmp(cursor->at, text->begin, (size_t)text->size);
}

static inline int
take(Cursor *cursor, int byte)
{
    if (peek(cursor) != byte) {
        return 0;
    }
    cursor->at++;
    return 1;
}

/* The verdict if the byte that has to come does not. */
static inline Verdict
lacking(const Cursor *cursor)
{
    return peek(cursor) == END ? INCOMPLETE : NEEDS_PYTHON;
}

static inline int
is_blank(int byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Returns whether there were any. */
static inline int
skip_blanks(Cursor *cursor)
{
    const unsigned char *begin = cursor->at;
    while (is_blank(peek(cursor))) {
        cursor->at++;
    }
    return cursor->at != begin;
}

static inline int
is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

/* Metadata: its grammar, and the attributes that routing needs. */

enum { EVENT = 1, TYPE = 2, SIZE = 4, ID = 8, NATURES = 16, SENDER = 32, TO = 64, ROUTE = 128 };

typedef struct {
    Py_ssize_t max_metadata;
    Py_ssize_t max_payload;
    int max_nesting; /* at most MOST_LEVELS */
} Limits;

/* What a scan of metadata has found. A value of Python's readers is the text itself, as no escapes are taken in it. */
typedef struct {
    int max_nesting;
    int seen;               /* the names of the attributes, as bits */
    int is_sender_null;
    Span event, type, natures, sender;
    Span id;                /* with its quotes */
    Span digits;            /* of size */
    Span route;             /* that objects of a linked server have, as JSON; of no bytes: a member sent them */
    Py_ssize_t size;        /* of the payload */
    int number;             /* of keys that are no attributes */
    Span keys[MOST_KEYS];
} Head;

HOT int
attribute_of_some_size(const Span *name)
{
    const char *text = (const char *)name->begin;
    switch (name->size) {
    case 2:
        return !memcmp(text, "id", 2) ? ID : !memcmp(text, "to", 2) ? TO : 0;
    case 4:
        return !memcmp(text, "type", 4) ? TYPE : !memcmp(text, "size", 4) ? SIZE : 0;
    case 5:
        return !memcmp(text, "event", 5) ? EVENT : !memcmp(text, "route", 5) ? ROUTE : 0;
    case 6:
        return !memcmp(text, "sender", 6) ? SENDER : 0;
    case 7:
        return !memcmp(text, "natures", 7) ? NATURES : 0;
    default:
        return 0;
    }
}

/* The attribute with this name, or 0. */
HOT int
attribute(const Span *name)
{
    static const uint32_t initials = 1 << ('i' & 31) | 1 << ('t' & 31) | 1 << ('s' & 31) | 1 << ('e' & 31)
        | 1 << ('r' & 31) | 1 << ('n' & 31);
    int may_be = name->size <= 7 && name->size >= 2 && initials >> (name->begin[0] & 31) & 1;
    return may_be ? attribute_of_some_size(name) : 0;
}

/* Which of sixteen bytes are odd. */
#if defined(__SSE2__)
HOT uint64_t
odd_of_block(const unsigned char *bytes)
{
    __m128i block = _mm_loadu_si128((const __m128i *)bytes);
    /* As signed numbers, bytes that are no ASCII are less than 32, too. */
    __m128i odd = _mm_or_si128(_mm_cmplt_epi8(block, _mm_set1_epi8(0x20)),
                               _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')),
                                            _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'))));
    return (uint64_t)(unsigned)_mm_movemask_epi8(odd);
}
#else
#define ONES UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

/* The high bit of each byte tells whether the ASCII in it is at least so much: nothing is carried to the next byte. */
#define AT_LEAST(least, word) (((word) & ~HIGHS) + ONES * (0x80 - (least)))

HOT uint64_t
odd_of_word(const unsigned char *bytes)
{
    uint64_t word = (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 | (uint64_t)bytes[3] << 24
        | (uint64_t)bytes[4] << 32 | (uint64_t)bytes[5] << 40 | (uint64_t)bytes[6] << 48 | (uint64_t)bytes[7] << 56;
    uint64_t unquoted = AT_LEAST(1, word ^ ONES * '"') & AT_LEAST(1, word ^ ONES * '\\');
    uint64_t plain = AT_LEAST(0x20, word) & unquoted & ~word & HIGHS;
    /* This puts the lowest bits of all bytes next to each other, in the highest byte. */
    return (plain >> 7 ^ ONES) * UINT64_C(0x0102040810204080) >> 56;
}

HOT uint64_t
odd_of_block(const unsigned char *bytes)
{
    return odd_of_word(bytes) | odd_of_word(bytes + 8) << 8;
}
#endif

/* The same of 64 bytes. */
HOT uint64_t
odd_of_window(const unsigned char *bytes)
{
    return odd_of_block(bytes) | odd_of_block(bytes + 16) << 16 | odd_of_block(bytes + 32) << 32
        | odd_of_block(bytes + 48) << 48;
}

/* The same of the bytes from here to the end, 64 at most. All after the end are odd. */
static NOT_INLINE uint64_t
odd_bytes(const unsigned char *begin, const unsigned char *end)
{
    unsigned char last[WINDOW] = {0};
    if (end - begin >= WINDOW) {
        return odd_of_window(begin);
    }
    memcpy(last, begin, (size_t)(end - begin));
    return odd_of_window(last);
}

/* Look at the bytes from here on. */
HOT void
open_window(Cursor *cursor)
{
    cursor->window = cursor->at;
    cursor->odd = odd_bytes(cursor->at, cursor->end);
}

/* Skip ASCII of a string that means itself. */
HOT void
skip_plain(Cursor *cursor)
{
    for (;;) {
        Py_ssize_t place = cursor->at - cursor->window;
        uint64_t odd = place < WINDOW ? cursor->odd >> place : 0;
        if (odd) {
            cursor->at += __builtin_ctzll(odd); /* the lowest bit */
            return;
        }
        if (place < WINDOW) {
            cursor->at = cursor->window + WINDOW;
        }
        open_window(cursor);
    }
}

/* A character of two to four bytes, as RFC 3629 has them: none longer than need be, no surrogates, none over 10FFFF. */
HOT Verdict
scan_character(Cursor *cursor)
{
    int first = peek(cursor), least = 0x80, most = 0xBF, further;
    if (first >= 0xC2 && first <= 0xDF) {
        further = 1;
    }
    else if (first >= 0xE0 && first <= 0xEF) {
        further = 2;
        least = first == 0xE0 ? 0xA0 : least;
        most = first == 0xED ? 0x9F : most;
    }
    else if (first >= 0xF0 && first <= 0xF4) {
        further = 3;
        least = first == 0xF0 ? 0x90 : least;
        most = first == 0xF4 ? 0x8F : most;
    }
    else {
        return NEEDS_PYTHON;
    }
    cursor->at++;
    for (; further; further--) {
        int byte = peek(cursor);
        if (byte < least || byte > most) {
            return lacking(cursor);
        }
        cursor->at++;
        least = 0x80;
        most = 0xBF;
    }
    return CONTINUE;
}

static inline int
is_escape(int byte)
{
    switch (byte) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return 1;
    default:
        return 0;
    }
}

/* What follows a backslash. Surrogates are left to Python, also those of a sound pair. */
HOT Verdict
scan_escape(Cursor *cursor)
{
    int byte = peek(cursor), value = 0, digits;
    if (byte == END) {
        return INCOMPLETE;
    }
    if (byte != 'u') {
        if (!is_escape(byte)) {
            return NEEDS_PYTHON;
        }
        cursor->at++;
        return CONTINUE;
    }
    cursor->at++;
    for (digits = 0; digits < 4; digits++) {
        int digit = peek(cursor), letter = digit | 0x20;
        if (is_digit(digit)) {
            value = 16 * value + digit - '0';
        }
        else if (digit != END && letter >= 'a' && letter <= 'f') {
            value = 16 * value + letter - 'a' + 10;
        }
        else {
            return lacking(cursor);
        }
        cursor->at++;
    }
    return value >= 0xD800 && value <= 0xDFFF ? NEEDS_PYTHON : CONTINUE;
}

/* The beginning of a string: as much of it as is ASCII that means itself, which is all of most strings. */
HOT Verdict
begin_string(Cursor *cursor, Span *text)
{
    if (!take(cursor, '"')) {
        return lacking(cursor);
    }
    text->begin = cursor->at;
    skip_plain(cursor);
    return CONTINUE;
}

/* Its end, if that comes now. text is what stands between the quotes. */
HOT int
end_string(Cursor *cursor, Span *text)
{
    text->size = cursor->at - text->begin;
    return take(cursor, '"');
}

/* The rest of a string that was begun. has_escapes becomes 1 if there are any. */
HOT Verdict
scan_rest(Cursor *cursor, Span *text, int *has_escapes)
{
    do {
        int byte = peek(cursor);
        Verdict verdict;
        if (byte == '\\') {
            *has_escapes = 1;
            cursor->at++;
            verdict = scan_escape(cursor);
        }
        else if (byte >= 0x80) {
            verdict = scan_character(cursor);
        }
        else {
            verdict = lacking(cursor);
        }
        if (verdict != CONTINUE) {
            return verdict;
        }
        skip_plain(cursor);
    } while (!end_string(cursor, text));
    return CONTINUE;
}

/* A string whose value does not matter here. */
HOT Verdict
scan_any_string(Cursor *cursor)
{
    Span text;
    int has_escapes = 0;
    Verdict verdict = begin_string(cursor, &text);
    return verdict != CONTINUE || end_string(cursor, &text) ? verdict : scan_rest(cursor, &text, &has_escapes);
}

/* A string whose value matters: without escapes, it is the text itself. */
HOT Verdict
scan_plain(Cursor *cursor, Span *text)
{
    int has_escapes = 0;
    Verdict verdict = begin_string(cursor, text);
    if (verdict != CONTINUE || end_string(cursor, text)) {
        return verdict;
    }
    verdict = scan_rest(cursor, text, &has_escapes);
    return verdict == CONTINUE && has_escapes ? NEEDS_PYTHON : verdict;
}

HOT Verdict
scan_literal(Cursor *cursor, const char *text)
{
    for (; *text; text++) {
        if (!take(cursor, *text)) {
            return lacking(cursor);
        }
    }
    return CONTINUE;
}

/* One digit or more. */
HOT Verdict
scan_digits(Cursor *cursor)
{
    if (!is_digit(peek(cursor))) {
        return lacking(cursor);
    }
    while (is_digit(peek(cursor))) {
        cursor->at++;
    }
    return CONTINUE;
}

/* The digits of an integer: no leading zero. */
HOT Verdict
scan_whole(Cursor *cursor)
{
    return take(cursor, '0') ? CONTINUE : scan_digits(cursor);
}

HOT Verdict
scan_number(Cursor *cursor)
{
    Verdict verdict;
    take(cursor, '-');
    verdict = scan_whole(cursor);
    if (verdict == CONTINUE && take(cursor, '.')) {
        verdict = scan_digits(cursor);
    }
    if (verdict == CONTINUE && (take(cursor, 'e') || take(cursor, 'E'))) {
        if (!take(cursor, '+')) {
            take(cursor, '-');
        }
        verdict = scan_digits(cursor);
    }
    return verdict;
}

/* An integer of few digits. What follows may make another number of it, which is then no end of a value. */
HOT Verdict
scan_integer(Cursor *cursor)
{
    const unsigned char *begin;
    Verdict verdict;
    take(cursor, '-');
    begin = cursor->at;
    verdict = scan_whole(cursor);
    return verdict == CONTINUE && cursor->at - begin > MOST_DIGITS ? NEEDS_PYTHON : verdict;
}

/* The size of the payload. */
HOT Verdict
scan_size(Cursor *cursor, Head *head)
{
    Cursor digits = *cursor;
    Verdict verdict = peek(cursor) == '-' ? NEEDS_PYTHON : scan_integer(cursor);
    if (verdict == CONTINUE) {
        int64_t size = 0;
        head->digits.begin = digits.at;
        head->digits.size = cursor->at - digits.at;
        for (digits.end = cursor->at; peek(&digits) != END; digits.at++) {
            size = 10 * size + peek(&digits) - '0';
        }
        head->size = size > PY_SSIZE_T_MAX ? PY_SSIZE_T_MAX : (Py_ssize_t)size;
    }
    return verdict;
}

HOT Verdict
scan_natures(Cursor *cursor, Head *head)
{
    int number = 0;
    Span text;
    head->natures.begin = cursor->at;
    if (!take(cursor, '[')) {
        return lacking(cursor);
    }
    skip_blanks(cursor);
    if (!take(cursor, ']')) {
        for (;;) {
            Verdict verdict = scan_plain(cursor, &text);
            if (verdict != CONTINUE) {
                return verdict;
            }
            if (++number > MOST_NATURES) {
                return NEEDS_PYTHON;
            }
            skip_blanks(cursor);
            if (take(cursor, ']')) {
                break;
            }
            if (!take(cursor, ',')) {
                return lacking(cursor);
            }
            skip_blanks(cursor);
        }
    }
    head->natures.size = cursor->at - head->natures.begin;
    return CONTINUE;
}

HOT Verdict
scan_scalar(Cursor *cursor)
{
    switch (peek(cursor)) {
    case '"':
        return scan_any_string(cursor);
    case 't':
        return scan_literal(cursor, "true");
    case 'f':
        return scan_literal(cursor, "false");
    case 'n':
        return scan_literal(cursor, "null");
    default:
        return scan_number(cursor);
    }
}

/* The name of a member of a nested object, up to its value. */
HOT Verdict
scan_name(Cursor *cursor)
{
    Verdict verdict = scan_any_string(cursor);
    if (verdict != CONTINUE) {
        return verdict;
    }
    skip_blanks(cursor);
    if (!take(cursor, ':')) {
        return lacking(cursor);
    }
    skip_blanks(cursor);
    return CONTINUE;
}

/* Any value. The cursor is inside of metadata, which is level 1. The lowest bit of objects tells whether the present
 * level is an object or an array, the next one the same of the level around it, and so on. */
HOT Verdict
scan_value(Cursor *cursor, int max_nesting)
{
    uint64_t objects = 0;
    int level = 1;
    for (;;) {
        Verdict verdict;
        int opening = peek(cursor), is_open = 0;
        if (opening == '{' || opening == '[') {
            if (level >= max_nesting) {
                return NEEDS_PYTHON;
            }
            cursor->at++;
            level++;
            objects = objects << 1 | (opening == '{');
            skip_blanks(cursor);
            is_open = !take(cursor, opening == '{' ? '}' : ']');
            if (!is_open) {
                level--;
                objects >>= 1;
            }
        }
        else {
            verdict = scan_scalar(cursor);
            if (verdict != CONTINUE) {
                return verdict;
            }
        }
        /* After a value: the ends of all levels that it ends, then a comma. */
        while (!is_open && level > 1) {
            skip_blanks(cursor);
            if (take(cursor, ',')) {
                skip_blanks(cursor);
                is_open = 1;
            }
            else if (take(cursor, objects & 1 ? '}' : ']')) {
                level--;
                objects >>= 1;
            }
            else {
                return lacking(cursor);
            }
        }
        if (level == 1) {
            return CONTINUE;
        }
        if (objects & 1) {
            verdict = scan_name(cursor);
            if (verdict != CONTINUE) {
                return verdict;
            }
        }
    }
}

/* The value of an attribute. */
HOT Verdict
scan_attribute(Cursor *cursor, Head *head, int name)
{
    Cursor aside;
    Verdict verdict;
    switch (name) {
    case EVENT:
        return scan_plain(cursor, &head->event);
    case TYPE:
        return scan_plain(cursor, &head->type);
    case NATURES:
        aside = *cursor;
        verdict = scan_natures(&aside, head);
        *cursor = aside;
        return verdict;
    case SIZE:
        return scan_size(cursor, head);
    case ID:
        head->id.begin = cursor->at;
        verdict = peek(cursor) == '"' ? scan_any_string(cursor) : scan_integer(cursor);
        head->id.size = cursor->at - head->id.begin;
        return verdict;
    case ROUTE:
        if (!head->route.size || !begins_with(cursor, &head->route)) {
            return head->route.size ? ROUTE_CHANGED : NEEDS_PYTHON;
        }
        cursor->at += head->route.size;
        return CONTINUE;
    case SENDER:
        if (peek(cursor) != 'n') {
            return scan_plain(cursor, &head->sender);
        }
        head->is_sender_null = 1;
        return scan_literal(cursor, "null");
    case 0:
        return scan_value(cursor, head->max_nesting);
    default:
        return NEEDS_PYTHON;
    }
}

/* Note a key that is no attribute. Returns whether it certainly was not there before; if it was, or if there are too many
 * keys, Python writes the metadata anew: two readers might go by different ones of two equal keys. */
HOT int
is_new_key(Head *head, const Span *key)
{
    int place;
    if (head->number == MOST_KEYS) {
        return 0;
    }
    for (place = 0; place < head->number; place++) {
        const Span *before = &head->keys[place];
        if (key->size == before->size && !memcmp(key->begin, before->begin, (size_t)key->size)) {
            return 0;
        }
    }
    head->keys[head->number++] = *key;
    return 1;
}

/* One key of metadata with its value. */
HOT Verdict
scan_member(Cursor *cursor, Head *head)
{
    Span key;
    Verdict verdict = scan_plain(cursor, &key);
    int name;
    if (verdict != CONTINUE) {
        return verdict;
    }
    name = attribute(&key);
    if (name & head->seen || (!name && !is_new_key(head, &key))) {
        return NEEDS_PYTHON;
    }
    head->seen |= name;
    skip_blanks(cursor);
    if (!take(cursor, ':')) {
        return lacking(cursor);
    }
    skip_blanks(cursor);
    return scan_attribute(cursor, head, name);
}

/* Metadata: an object without a recipient; without a route, too, if a member sent it. No key is in it twice. */
HOT Verdict
scan_metadata(Cursor *cursor, Head *head)
{
    skip_blanks(cursor);
    if (!take(cursor, '{')) {
        return lacking(cursor);
    }
    do {
        Verdict verdict;
        skip_blanks(cursor);
        verdict = scan_member(cursor, head);
        if (verdict != CONTINUE) {
            return verdict;
        }
        if (skip_blanks(cursor) && peek(cursor) == '}') {
            return NEEDS_PYTHON;
        }
    } while (take(cursor, ','));
    return take(cursor, '}') ? CONTINUE : lacking(cursor);
}

/* An object that is taken. Its metadata begins at begin, its payload ends at end. */
typedef struct {
    const unsigned char *begin, *end;
    Py_ssize_t metadata; /* bytes */
    uint64_t outlets;
    uint64_t id;         /* the number in the id that it is given; 0: it has one */
    Py_ssize_t payload;  /* bytes */
    int service;         /* that it is published on; 0: none */
} Object;

/* What follows metadata that is sound, and the NUL after it. */
HOT Verdict
take_payload(Cursor *cursor, const Limits *limits, const Head *head, Object *object)
{
    if (object->metadata > limits->max_metadata || head->size > limits->max_payload) {
        return NEEDS_PYTHON;
    }
    if (cursor->end - cursor->at < head->size) {
        return head->size > MOST_AWAITED ? NEEDS_PYTHON : INCOMPLETE;
    }
    cursor->at += head->size;
    object->end = cursor->at;
    object->payload = head->size;
    return CONTINUE;
}

HOT Verdict
scan_object(Cursor *cursor, const Limits *limits, Head *head, Object *object)
{
    Verdict verdict;
    head->max_nesting = limits->max_nesting;
    head->seen = head->is_sender_null = head->number = 0;
    head->size = 0;
    head->event.begin = head->type.begin = head->natures.begin = head->sender.begin = cursor->at;
    head->event.size = head->type.size = head->natures.size = head->sender.size = 0;
    head->id = head->digits = head->event;
    object->begin = cursor->at;
    verdict = scan_metadata(cursor, head);
    object->metadata = cursor->at - object->begin;
    if (verdict == CONTINUE && !take(cursor, 0)) {
        verdict = lacking(cursor);
    }
    if (verdict != CONTINUE) {
        return verdict == INCOMPLETE && cursor->end - object->begin > limits->max_metadata ? NEEDS_PYTHON : verdict;
    }
    return take_payload(cursor, limits, head, object);
}

/* Requests and replies: those that say nothing unusual, so that a few texts tell what becomes of them. */

enum { NAME = 256, ANSWERED = 512 };

#define MOST_EXCHANGES 128 /* the most of one pass */
#define LONGEST_ID 120     /* the most bytes of an id that Python compares as it is; see key_of() in records.py */

/* What a scan of one has found. head has what other objects have, too. */
typedef struct {
    Head head;
    int is_reply;
    Span name;     /* with its quotes */
    Span answered; /* in-reply-to */
    Span to;
} Exchange;

static int
is_text(const Span *text, const char *wanted)
{
    return text->size == (Py_ssize_t)strlen(wanted) && !memcmp(text->begin, wanted, (size_t)text->size);
}

static int
exchange_attribute(const Span *key)
{
    return is_text(key, "name") ? NAME : is_text(key, "in-reply-to") ? ANSWERED : attribute(key);
}

static Verdict
scan_exchange_attribute(Cursor *cursor, Exchange *exchange, int name)
{
    Verdict verdict;
    switch (name) {
    case NAME:
        exchange->name.begin = cursor->at;
        verdict = scan_any_string(cursor);
        exchange->name.size = cursor->at - exchange->name.begin;
        return verdict;
    case ANSWERED:
        return scan_plain(cursor, &exchange->answered);
    case TO:
        return scan_plain(cursor, &exchange->to);
    case ID:
        return scan_plain(cursor, &exchange->head.id);
    case NATURES:
    case ROUTE:
        return NEEDS_PYTHON;
    default:
        return scan_attribute(cursor, &exchange->head, name);
    }
}

/* One key with its value. What names a service in another way is left to Python. */
static Verdict
scan_exchange_member(Cursor *cursor, Exchange *exchange)
{
    Span key;
    Head *head = &exchange->head;
    Verdict verdict = scan_plain(cursor, &key);
    int name;
    if (verdict != CONTINUE) {
        return verdict;
    }
    name = exchange_attribute(&key);
    if (name & head->seen || is_text(&key, "service") || (!name && !is_new_key(head, &key))) {
        return NEEDS_PYTHON;
    }
    head->seen |= name;
    skip_blanks(cursor);
    if (!take(cursor, ':')) {
        return NEEDS_PYTHON;
    }
    skip_blanks(cursor);
    return scan_exchange_attribute(cursor, exchange, name);
}

/* How many keys the metadata has; 0: it is not plain. It has as many colons. */
static int
scan_exchange_metadata(Cursor *cursor, Exchange *exchange)
{
    const unsigned char *at = cursor->at;
    int keys = 0, colons = 0;
    skip_blanks(cursor);
    if (!take(cursor, '{')) {
        return 0;
    }
    do {
        skip_blanks(cursor);
        if (scan_exchange_member(cursor, exchange) != CONTINUE || (skip_blanks(cursor) && peek(cursor) == '}')) {
            return 0;
        }
        keys++;
    } while (take(cursor, ','));
    if (!take(cursor, '}')) {
        return 0;
    }
    for (; at < cursor->at; at++) {
        colons += *at == ':';
    }
    return colons == keys ? keys : 0;
}

static int
is_plain_exchange(Exchange *exchange)
{
    const int seen = exchange->head.seen;
    exchange->is_reply = is_text(&exchange->head.event, "services/reply");
    if (exchange->is_reply) {
        return seen & ANSWERED && exchange->answered.size <= LONGEST_ID;
    }
    return is_text(&exchange->head.event, "services/request") && seen & ID && !(seen & (TO | ANSWERED))
        && exchange->head.id.size <= LONGEST_ID;
}

/* Returns whether there is a whole and plain one. */
static NOT_INLINE int
scan_exchange(Cursor *cursor, const Limits *limits, Exchange *exchange, Object *object)
{
    Head *head = &exchange->head;
    head->max_nesting = limits->max_nesting;
    head->seen = head->is_sender_null = head->number = 0;
    head->size = head->route.size = 0;
    head->event.begin = cursor->at;
    head->event.size = 0;
    head->type = head->id = exchange->name = exchange->answered = exchange->to = head->event;
    object->begin = cursor->at;
    if (!scan_exchange_metadata(cursor, exchange) || !is_plain_exchange(exchange)) {
        return 0;
    }
    object->metadata = cursor->at - object->begin;
    return take(cursor, 0) && take_payload(cursor, limits, head, object) == CONTINUE;
}

/* An object by which those like it are taken in fewer steps. They have another id and another size of the payload, and
 * are the same bytes elsewhere; so whatever a scan would find there is known. */
typedef struct {
    Span metadata;     /* and the NUL after it */
    Span gaps[2];      /* the id and the size, as they stand; of no bytes: there is none */
    int is_size_first; /* of the gaps */
    int seen, has_payload;
} Example;

/* Make an example of an object. */
HOT void
make_example(const Head *head, const Object *object, Example *example)
{
    example->metadata.begin = object->begin;
    example->metadata.size = object->metadata + 1;
    example->is_size_first = head->digits.begin < head->id.begin;
    example->gaps[example->is_size_first] = head->id;
    example->gaps[!example->is_size_first] = head->digits;
    example->seen = head->seen;
    example->has_payload = head->size > 0;
}

/* Take an object that is like the example: then it has the same route plan, too. Returns whether it is. */
HOT int
take_alike(Cursor *cursor, const Example *example, const Limits *limits, Head *head, Object *object)
{
    Span same = {example->metadata.begin, 0};
    head->size = 0;
    head->seen = example->seen;
    object->begin = cursor->at;
    for (int place = 0; place < 2; place++) {
        const Span *gap = &example->gaps[place];
        if (!gap->size) {
            continue;
        }
        same.size = gap->begin - same.begin;
        if (!begins_with(cursor, &same)) {
            return 0;
        }
        cursor->at += same.size;
        if ((place == example->is_size_first ? scan_attribute(cursor, head, ID) : scan_size(cursor, head)) != CONTINUE) {
            return 0;
        }
        same.begin = gap->begin + gap->size;
    }
    same.size = example->metadata.begin + example->metadata.size - same.begin;
    if ((head->size > 0) != example->has_payload || !begins_with(cursor, &same)) {
        return 0;
    }
    cursor->at += same.size;
    object->metadata = cursor->at - object->begin - 1;
    return take_payload(cursor, limits, head, object) == CONTINUE;
}

/* Objects that came over links lately: the newest ones, by origin and id, as bussrv/bus/routing/seen.py has them.
 *
 * Their keys are hashes: SipHash-1-3, with a secret. Each key that is remembered is in a ring, in which the oldest one is
 * known, and in a hash table, of which half is free. A slot of the table is 0 if it is free, so no key is 0. */

typedef struct {
    PyObject_HEAD
    uint64_t secret[2];
    Py_ssize_t capacity, number, room; /* room is a power of two */
    size_t oldest;
    uint64_t *ring;  /* of so many keys, and after it: */
    uint64_t *slots; /* twice as many */
} Seen;

static inline uint64_t
turned(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void
stir(uint64_t state[4], uint64_t word, int rounds)
{
    uint64_t a = state[0], b = state[1], c = state[2], d = state[3] ^ word;
    for (; rounds; rounds--) {
        a += b;
        c += d;
        b = turned(b, 13) ^ a;
        d = turned(d, 16) ^ c;
        a = turned(a, 32) + d;
        c += b;
        d = turned(d, 21) ^ a;
        b = turned(b, 17) ^ c;
        c = turned(c, 32);
    }
    state[0] = a ^ word;
    state[1] = b;
    state[2] = c;
    state[3] = d;
}

static uint64_t
hash_of(const Seen *self, uint64_t origin, const Span *text)
{
    uint64_t state[4], word, last = (uint64_t)(text->size + 8) << 56;
    Cursor cursor = {text->begin, text->begin + text->size, NULL, 0};
    int bits = 0;
    state[0] = self->secret[0] ^ UINT64_C(0x736F6D6570736575);
    state[1] = self->secret[1] ^ UINT64_C(0x646F72616E646F6D);
    state[2] = self->secret[0] ^ UINT64_C(0x6C7967656E657261);
    state[3] = self->secret[1] ^ UINT64_C(0x7465646279746573);
    stir(state, origin, 1);
    for (; peek_word(&cursor, &word); cursor.at += sizeof(word)) {
        stir(state, word, 1);
    }
    for (; peek(&cursor) != END; cursor.at++, bits += 8) {
        last |= (uint64_t)peek(&cursor) << bits;
    }
    stir(state, last, 1);
    state[2] ^= 0xFF;
    stir(state, 0, 3);
    word = state[0] ^ state[1] ^ state[2] ^ state[3];
    return word ? word : 1;
}

/* The slot of a key, or the free one where it would be. */
static size_t
slot_for(const Seen *self, uint64_t key)
{
    size_t mask = 2 * (size_t)self->room - 1, slot = key & mask;
    while (self->slots[slot] && self->slots[slot] != key) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

static int
has_seen(const Seen *self, uint64_t key)
{
    return self->room && self->slots[slot_for(self, key)];
}

/* Make room for some more keys, so that a scan need not. Returns whether there was memory for it. */
static int
make_room(Seen *self, Py_ssize_t more)
{
    Seen larger = *self;
    Py_ssize_t most = self->number + more, place;
    if (most <= self->room || self->capacity <= self->room) {
        return 1;
    }
    for (larger.room = LEAST_ROOM; larger.room < most; larger.room *= 2) {
    }
    larger.ring = PyMem_Calloc((size_t)larger.room, 3 * sizeof(uint64_t));
    if (larger.ring == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    larger.slots = larger.ring + larger.room;
    larger.oldest = 0;
    for (place = 0; place < self->number; place++) {
        uint64_t key = self->ring[(self->oldest + (size_t)place) & ((size_t)self->room - 1)];
        larger.ring[place] = key;
        larger.slots[slot_for(&larger, key)] = key;
    }
    PyMem_Free(self->ring);
    *self = larger;
    return 1;
}

/* No search passes a free slot: keys after the one that becomes free move there if they may. */
static void
forget_oldest(Seen *self)
{
    size_t mask = 2 * (size_t)self->room - 1, hole = slot_for(self, self->ring[self->oldest]), slot = hole;
    for (;;) {
        slot = (slot + 1) & mask;
        if (!self->slots[slot]) {
            break;
        }
        if (((slot - self->slots[slot]) & mask) >= ((slot - hole) & mask)) {
            self->slots[hole] = self->slots[slot];
            hole = slot;
        }
    }
    self->slots[hole] = 0;
    self->oldest = (self->oldest + 1) & ((size_t)self->room - 1);
    self->number--;
}

/* Remember a key that is new. There is room for it. */
static void
remember(Seen *self, uint64_t key)
{
    while (self->number && self->number >= self->capacity) {
        forget_oldest(self);
    }
    if (self->capacity > 0) {
        self->ring[(self->oldest + (size_t)self->number) & ((size_t)self->room - 1)] = key;
        self->slots[slot_for(self, key)] = key;
        self->number++;
    }
}

/* What comes over a link by one route. */
typedef struct {
    Seen *seen;         /* NULL: objects of a member */
    Span ending;        /* of its metadata: ,"route":[...]} */
    uint64_t origin;    /* the same id of another origin is another object */
    Py_ssize_t longest; /* the most bytes of metadata that are forwarded */
} Way;

/* Whether the metadata of an object ends with the route, as that of a server does, and has an id by whose text it can be
 * looked up: one that has no escapes, and is not another text of zero. */
static int
is_forwarded(const Way *way, const Head *head, const Object *object)
{
    const unsigned char *end = object->begin + object->metadata;
    Cursor last = {object->begin, end, NULL, 0};
    if ((head->seen & (ID | ROUTE)) != (ID | ROUTE) || object->metadata > way->longest
        || object->metadata <= way->ending.size + 1) {
        return 0;
    }
    last.at = end - way->ending.size;
    return begins_with(&last, &way->ending) && memchr(head->id.begin, '\\', (size_t)head->id.size) == NULL
        && (head->id.size != 2 || memcmp(head->id.begin, "-0", 2));
}

/* How many bytes are copied at a time. */
#define BLOCK 16

/* Returns the place after the copy. Most texts are so short that a call of memcpy() would take as long as the copy. */
HOT char *
copy(char *to, const void *from, size_t size)
{
    const char *at = from;
    size_t place;
    if (size < BLOCK || size > 16 * BLOCK) {
        memcpy(to, at, size);
        return to + size;
    }
    for (place = 0; place < size - BLOCK; place += BLOCK) {
        memcpy(to + place, at + place, BLOCK);
    }
    memcpy(to + size - BLOCK, at + size - BLOCK, BLOCK); /* the rest, and some bytes once more */
    return to + size;
}

/* Route plans. Objects with equal keys have the same one. */

typedef struct {
    PyObject *key;
    char *text;
    Py_ssize_t size;
    uint64_t outlets;  /* bit n: outlet n is given such objects */
    uint64_t turn;     /* the turn in which its groups were opened */
    int follower;      /* the plan of the object that came after one of this plan the last time */
    int service;       /* that such objects are published on, from 1; 0: none */
    char is_own;       /* whether what is open for one sender is not for another one */
    char is_pythons;   /* whether Python routes such objects */
} Plan;

typedef struct {
    PyObject_HEAD
    PyTypeObject *sender, *taken; /* the types of what splice() is given, and of what it returns */
    int is_by_sender;      /* whether plans depend on the sender that an object names */
    int number;
    uint64_t opened;       /* the outlets that were opened in these turns */
    uint64_t turn, own_turn;
    Plan plans[MOST_PLANS];
    uint16_t slots[SLOTS]; /* the number of a plan, from 1; 0: none */
} Plans;

/* What a route plan depends on, as text: the sizes of its parts, what else matters, and the parts. */
#define PARTS 4
#define BEFORE_PARTS (2 * PARTS + 2)

typedef struct {
    Py_ssize_t size;
    char text[BEFORE_PARTS + LONGEST_KEY];
} Key;

/* Returns whether it is not too long. */
static int
make_key(const Head *head, int is_by_sender, Key *key)
{
    int part, seen = EVENT | TYPE | NATURES | (is_by_sender && !head->is_sender_null ? SENDER : 0);
    const Span none = {head->sender.begin, 0}, *sender = is_by_sender ? &head->sender : &none;
    const Span *parts[PARTS] = {&head->event, &head->type, &head->natures, sender};
    char *to = key->text + BEFORE_PARTS;
    if (head->event.size + head->type.size + head->natures.size + head->sender.size > LONGEST_KEY) {
        return 0;
    }
    for (part = 0; part < PARTS; part++) {
        key->text[2 * part] = (char)(parts[part]->size >> 8);
        key->text[2 * part + 1] = (char)parts[part]->size;
        to = copy(to, parts[part]->begin, (size_t)parts[part]->size);
    }
    /* An event of no characters is an event, too. */
    key->text[2 * PARTS] = (char)(head->seen & seen);
    key->text[2 * PARTS + 1] = head->size > 0;
    key->size = to - key->text;
    return 1;
}

static int
has_key(const Plan *plan, const char *text, Py_ssize_t size)
{
    return plan->size == size && !memcmp(plan->text, text, (size_t)size);
}

/* The place where the search for a key begins; the slots of equal hashes follow each other. Clients choose keys, so a
 * search may pass all plans; there are few. */
static uint32_t
slot_of(const char *text, Py_ssize_t size)
{
    uint64_t hash = 0, word;
    Cursor cursor = {(const unsigned char *)text, (const unsigned char *)text + size, NULL, 0};
    for (; peek_word(&cursor, &word); cursor.at += sizeof(word)) {
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    for (; peek(&cursor) != END; cursor.at++) {
        hash = (hash << 8 | hash >> 56) ^ (uint64_t)peek(&cursor);
    }
    hash *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 32) % SLOTS;
}

/* The plan with a key. latest is that of the object before: many senders repeat the same few keys in the same order, so
 * the plan that followed it the last time is tried first. */
static Plan *
find_plan(Plans *self, const Key *key, Plan *latest)
{
    if (latest != NULL && has_key(&self->plans[latest->follower], key->text, key->size)) {
        return &self->plans[latest->follower];
    }
    for (uint32_t slot = slot_of(key->text, key->size); self->slots[slot]; slot = (slot + 1) % SLOTS) {
        int place = self->slots[slot] - 1;
        if (has_key(&self->plans[place], key->text, key->size)) {
            if (latest != NULL) {
                latest->follower = place;
            }
            return &self->plans[place];
        }
    }
    return NULL;
}

/* The latest objects of some plans that were scanned in this pass. The more comparisons are in vain, the fewer are made. */
typedef struct {
    uint64_t known; /* bit n: there is one of plan n */
    uint32_t in_vain, pause; /* after the latest comparison in vain so many objects are scanned; of these so many are left */
    Example of[MOST_EXAMPLES];
} Examples;

/* Take an object of which Python need not decide anything. *plan is that of the object before, and then its own. */
HOT Verdict
take_planned(Plans *self, Cursor *cursor, const Limits *limits, const Way *way, Examples *examples, Head *head,
             Object *object, Key *key, Plan **plan)
{
    int likely = *plan == NULL ? MOST_EXAMPLES : (*plan)->follower;
    Cursor begin = *cursor;
    Verdict verdict;
    if (examples->pause) {
        examples->pause--;
    } else if (likely < MOST_EXAMPLES && examples->known >> likely & 1) {
        if (take_alike(cursor, &examples->of[likely], limits, head, object)) {
            examples->in_vain = 0;
            *plan = &self->plans[likely];
            return way->seen == NULL || is_forwarded(way, head, object) ? CONTINUE : NEEDS_PYTHON;
        }
        *cursor = begin;
        examples->pause = examples->in_vain = examples->in_vain < 31 ? 2 * examples->in_vain + 1 : 31;
    }
    verdict = scan_object(cursor, limits, head, object);
    if (verdict != CONTINUE) {
        return verdict;
    }
    if (!make_key(head, self->is_by_sender, key) || (way->seen != NULL && !is_forwarded(way, head, object))) {
        return NEEDS_PYTHON;
    }
    *plan = find_plan(self, key, *plan);
    if (*plan == NULL) {
        return NO_PLAN;
    }
    likely = (int)(*plan - self->plans);
    if (!examples->pause && likely < MOST_EXAMPLES) {
        examples->known |= UINT64_C(1) << likely;
        make_example(head, object, &examples->of[likely]);
    }
    return (*plan)->is_pythons ? NEEDS_PYTHON : CONTINUE;
}

/* Writing: for each outlet, all objects that it is given, in one piece. */

/* What the server adds to metadata. An id is the opening, a number of at least so many digits, and a quote. */
typedef struct {
    PyObject *tails; /* the tail of all outlets, or a tuple with one for each */
    char *tail, *opening;
    Py_ssize_t tail_size, opening_size;
    int digits;
    Py_ssize_t cut; /* how many bytes of metadata the tail takes the place of */
} Added;

static size_t
digits_of(const Added *added, uint64_t number)
{
    int digits = 1;
    for (; number >= 10; number /= 10) {
        digits++;
    }
    return (size_t)(digits < added->digits ? added->digits : digits);
}

static size_t
size_of(const Object *object, const Added *added)
{
    size_t size = (size_t)(object->metadata - added->cut + added->tail_size + object->payload);
    return object->id ? size + (size_t)added->opening_size + digits_of(added, object->id) + 1 : size;
}

/* Returns the place after what was written. */
static char *
write_id(char *to, const Added *added, uint64_t number)
{
    size_t digits = digits_of(added, number), place;
    memcpy(to, added->opening, (size_t)added->opening_size);
    to += added->opening_size;
    for (place = digits; place; place--, number /= 10) {
        to[place - 1] = (char)('0' + number % 10);
    }
    to[digits] = '"';
    return to + digits + 1;
}

HOT char *
write_object(char *to, const Object *object, const Added *added)
{
    to = copy(to, object->begin, (size_t)(object->metadata - added->cut));
    if (object->id) {
        to = write_id(to, added, object->id);
    }
    to = copy(to, added->tail, (size_t)added->tail_size);
    return copy(to, object->end - object->payload, (size_t)object->payload);
}

static PyObject *
piece_for(const Object *objects, int number, uint64_t outlet, const Added *added, long *count)
{
    size_t size = 0;
    char *to;
    PyObject *piece;
    int place;
    *count = 0;
    for (place = 0; place < number; place++) {
        if (objects[place].outlets & outlet) {
            size += size_of(&objects[place], added);
            ++*count;
        }
    }
    piece = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (piece == NULL) {
        return NULL;
    }
    to = PyBytes_AsString(piece);
    for (place = 0; place < number; place++) {
        if (objects[place].outlets & outlet) {
            to = write_object(to, &objects[place], added);
        }
    }
    return piece;
}

/* Returns whether an outlet has a tail. */
static int
use_tail(Added *added, int outlet)
{
    PyObject *tail = PyTuple_Check(added->tails) ? PyTuple_GetItem(added->tails, outlet) : added->tails;
    return tail != NULL && PyBytes_AsStringAndSize(tail, &added->tail, &added->tail_size) == 0;
}

/* Returns [(outlet, piece, count), ...]. */
static PyObject *
pieces_for(const Object *objects, int number, Added *added)
{
    PyObject *pieces = PyList_New(0);
    uint64_t outlets = 0;
    int place, outlet;
    for (place = 0; place < number; place++) {
        outlets |= objects[place].outlets;
    }
    for (outlet = 0; pieces != NULL && outlet < MOST_OUTLETS && outlets >> outlet; outlet++) {
        long count;
        PyObject *piece, *row;
        if (!(outlets >> outlet & 1)) {
            continue;
        }
        piece = use_tail(added, outlet) ? piece_for(objects, number, UINT64_C(1) << outlet, added, &count) : NULL;
        row = piece == NULL ? NULL : Py_BuildValue("(iNl)", outlet, piece, count);
        if (row == NULL || PyList_Append(pieces, row) < 0) {
            Py_CLEAR(pieces);
        }
        Py_XDECREF(row);
    }
    return pieces;
}

/* Returns [(service, [payload, ...]), ...]: what is published, in order. */
static PyObject *
published(const Object *objects, int number)
{
    PyObject *runs = PyList_New(0), *payloads = NULL;
    int place, service = 0;
    for (place = 0; runs != NULL && place < number; place++) {
        const Object *object = &objects[place];
        PyObject *payload;
        if (!object->service) {
            continue;
        }
        if (object->service != service) {
            PyObject *run;
            service = object->service;
            payloads = PyList_New(0); /* its run keeps it, and the list of runs keeps that */
            run = payloads == NULL ? NULL : Py_BuildValue("(iN)", service, payloads);
            if (run == NULL || PyList_Append(runs, run) < 0) {
                Py_CLEAR(runs);
            }
            Py_XDECREF(run);
        }
        payload = runs == NULL ? NULL : PyBytes_FromStringAndSize((const char *)object->end - object->payload, object->payload);
        if (payload == NULL || PyList_Append(payloads, payload) < 0) {
            Py_CLEAR(runs);
        }
        Py_XDECREF(payload);
    }
    return runs;
}

/* The module: a type with the plans of some senders. */

static int
wants_arguments(Py_ssize_t given, Py_ssize_t wanted)
{
    if (given != wanted) {
        PyErr_Format(PyExc_TypeError, "%zd arguments are wanted, not %zd", wanted, given);
    }
    return given == wanted;
}

static Plan *
plan_at(Plans *self, PyObject *number)
{
    Py_ssize_t place = PyLong_AsSsize_t(number);
    if (place < 0 || place >= self->number) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_IndexError, "there is no such plan");
        }
        return NULL;
    }
    return &self->plans[place];
}

/* A sender, with everything that stays the same from one stretch of its input to the next. */
typedef struct {
    PyObject_HEAD
    Limits limits;
    Way way;
    Span route;    /* as in Head */
    Added added;
    PyObject *kept; /* the arguments, whose bytes are used */
} Sender;

/* Read what objects have that come over a link. */
static int
read_way(PyObject *given, Sender *sender)
{
    static const char before[] = ",\"route\":";
    Py_ssize_t size = sizeof(before) - 1;
    Way *way = &sender->way;
    const char *ending = "}";
    unsigned long long origin = 0;
    way->ending.size = 1;
    if (given == Py_None) {
        return 1;
    }
    if (!PyArg_ParseTuple(given, "Oy#Kn", &way->seen, &ending, &way->ending.size, &origin, &way->longest)) {
        return 0;
    }
    if (way->ending.size < size + 3 || memcmp(ending, before, (size_t)size)) {
        PyErr_SetString(PyExc_ValueError, "that is no ending");
        return 0;
    }
    way->ending.begin = (const unsigned char *)ending;
    way->origin = origin;
    sender->route.begin = way->ending.begin + size;
    sender->route.size = way->ending.size - size - 1;
    return 1;
}

/* Sender(limits, tails, opening, digits, way). All else of a new object is zero. */
static PyObject *
sender_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *tails, *way;
    const char *opening;
    Py_ssize_t opening_size, max_metadata, max_payload;
    int nesting, digits;
    Sender *sender;
    if (!PyArg_ParseTuple(arguments, "(nni)Oy#iO", &max_metadata, &max_payload, &nesting, &tails, &opening, &opening_size,
                          &digits, &way)) {
        return NULL;
    }
    sender = (Sender *)PyType_GenericNew(type, arguments, keywords);
    if (sender == NULL) {
        return NULL;
    }
    Py_INCREF(arguments);
    sender->kept = arguments;
    sender->limits.max_metadata = max_metadata;
    sender->limits.max_payload = max_payload;
    sender->limits.max_nesting = nesting > MOST_LEVELS ? MOST_LEVELS : nesting;
    sender->added.tails = tails;
    sender->added.opening = (char *)opening;
    sender->added.opening_size = opening_size;
    sender->added.digits = digits;
    if (!read_way(way, sender)) {
        Py_DECREF(sender);
        return NULL;
    }
    sender->added.cut = sender->way.ending.size;
    return (PyObject *)sender;
}

static void
sender_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_CLEAR(((Sender *)object)->kept);
    free_object(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(sender_doc,
"Sender(limits, tails, opening, digits, way)\n--\n\n"
"What stays the same for one sender. limits: the most bytes of metadata and of payload, and the most levels. tails is what\n"
"ends metadata, or a tuple of it by outlets. An id is the opening, and a number of at least so many digits. way is None, or\n"
"(seen, ending, origin, longest) for objects that come over a link.");

static PyType_Slot sender_slots[] = {
    {Py_tp_doc, (void *)sender_doc},
    {Py_tp_new, (void *)sender_new},
    {Py_tp_dealloc, (void *)sender_dealloc},
    {0, NULL},
};

static PyType_Spec sender_spec = {"bussrv._speedups.Sender", sizeof(Sender), 0, Py_TPFLAGS_DEFAULT, sender_slots};

static PyStructSequence_Field taken_fields[] = {
    {"end", "the place after the objects"},
    {"objects", "how many were taken, duplicates among them"},
    {"verdict", "why there were no more"},
    {"what", "the key of the object that has no plan, or the number of the plan whose groups are to be opened"},
    {"pieces", "[(outlet, piece, objects), ...]"},
    {"ids", "how many ids were made"},
    {"published", "[(service, [payload, ...]), ...]"},
    {"duplicates", "how many had come before"},
    {NULL, NULL},
};

static PyStructSequence_Desc taken_type = {"bussrv._speedups.Taken", "The objects that were taken.", taken_fields, 8};

/* Takes over all references, and returns NULL if one is missing. */
static PyObject *
make_taken(PyTypeObject *type, PyObject **values)
{
    PyObject *taken = PyStructSequence_New(type);
    int place, is_whole = taken != NULL;
    for (place = 0; place < taken_type.n_in_sequence; place++) {
        is_whole = is_whole && values[place] != NULL;
    }
    for (place = 0; place < taken_type.n_in_sequence; place++) {
        if (is_whole) {
            PyStructSequence_SetItem(taken, place, values[place]);
        } else {
            Py_XDECREF(values[place]);
        }
    }
    if (!is_whole) {
        Py_CLEAR(taken);
    }
    return taken;
}

PyDoc_STRVAR(splice_doc,
"splice(sender, data, begin, turn, own_turn, most, made)\n--\n\n"
"Take at most so many objects from data, from a place on. Turn 0: nothing is collected, so the groups of all plans count as\n"
"open. made is the number of the latest id that was made. Returns a Taken.");

static PyObject *
plans_splice(PyObject *object, PyObject *const *arguments, Py_ssize_t given)
{
    Plans *self = (Plans *)object;
    Sender *sender;
    Object objects[MOST_OBJECTS];
    Py_ssize_t begin, size;
    uint64_t turn, own_turn, made, made_before;
    Cursor cursor;
    char *data;
    long most, count = 0, duplicates = 0;
    Verdict verdict = CONTINUE;
    Limits limits;
    Way way;
    Added added;
    Head head;
    Key key;
    Plan *plan = NULL;
    Examples examples;
    PyObject *what = NULL, *pieces;

    if (!wants_arguments(given, 7) || PyBytes_AsStringAndSize(arguments[1], &data, &size) < 0) {
        return NULL;
    }
    if (Py_TYPE(arguments[0]) != self->sender) {
        PyErr_SetString(PyExc_TypeError, "that is no sender");
        return NULL;
    }
    sender = (Sender *)arguments[0];
    limits = sender->limits; /* copies stay in registers */
    way = sender->way;
    added = sender->added;
    begin = PyLong_AsSsize_t(arguments[2]);
    turn = PyLong_AsUnsignedLongLong(arguments[3]);
    own_turn = PyLong_AsUnsignedLongLong(arguments[4]);
    most = PyLong_AsLong(arguments[5]);
    made = made_before = PyLong_AsUnsignedLongLong(arguments[6]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (begin < 0 || begin > size) {
        PyErr_SetString(PyExc_IndexError, "begin is not in data");
        return NULL;
    }
    most = most > MOST_OBJECTS ? MOST_OBJECTS : most;
    if (way.seen != NULL && !make_room(way.seen, most)) {
        return NULL;
    }
    head.route = sender->route;
    cursor.at = (const unsigned char *)data + begin;
    cursor.end = (const unsigned char *)data + size;
    open_window(&cursor);
    examples.known = examples.in_vain = examples.pause = 0;
    while (count + duplicates < most) {
        Cursor next = cursor;
        uint64_t known = 0;
        verdict = take_planned(self, &next, &limits, &way, &examples, &head, &objects[count], &key, &plan);
        if (verdict == NO_PLAN) {
            what = PyBytes_FromStringAndSize(key.text, key.size);
            if (what == NULL) {
                return NULL;
            }
        }
        if (verdict != CONTINUE) {
            break;
        }
        if (way.seen != NULL) {
            known = hash_of(way.seen, way.origin, &head.id);
            if (has_seen(way.seen, known)) {
                duplicates++;
                cursor = next;
                continue;
            }
        }
        if (turn && plan->turn != (plan->is_own ? own_turn : turn)) {
            verdict = MUST_OPEN;
            what = PyLong_FromSsize_t(plan - self->plans);
            if (what == NULL) {
                return NULL;
            }
            break;
        }
        if (way.seen != NULL) {
            remember(way.seen, known);
        }
        objects[count].id = head.seen & ID ? 0 : ++made;
        objects[count].service = plan->service;
        objects[count++].outlets = plan->outlets;
        cursor = next;
    }
    pieces = pieces_for(objects, (int)count, &added);
    if (what == NULL) {
        what = Py_None;
        Py_INCREF(what);
    }
    return make_taken(self->taken, (PyObject *[]){
        PyLong_FromSsize_t(cursor.at - (const unsigned char *)data),
        PyLong_FromLong(count + duplicates),
        PyLong_FromLong((long)verdict),
        what,
        pieces,
        PyLong_FromUnsignedLongLong(made - made_before),
        pieces == NULL ? NULL : published(objects, (int)count),
        PyLong_FromLong(duplicates),
    });
}

PyDoc_STRVAR(add_doc,
"add(key, outlets, is_own, is_pythons, service)\n--\n\n"
"Add the plan of objects with a key that splice has named. Returns its number. IndexError: there is no room.");

static PyObject *
plans_add(PyObject *object, PyObject *const *arguments, Py_ssize_t given)
{
    Plans *self = (Plans *)object;
    Plan plan = {0};
    uint32_t slot;
    if (!wants_arguments(given, 5) || PyBytes_AsStringAndSize(arguments[0], &plan.text, &plan.size) < 0) {
        return NULL;
    }
    plan.outlets = PyLong_AsUnsignedLongLong(arguments[1]);
    plan.is_own = (char)PyObject_IsTrue(arguments[2]);
    plan.is_pythons = (char)PyObject_IsTrue(arguments[3]);
    plan.service = (int)PyLong_AsLong(arguments[4]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (self->number == MOST_PLANS) {
        PyErr_SetString(PyExc_IndexError, "there are too many plans");
        return NULL;
    }
    for (slot = slot_of(plan.text, plan.size); self->slots[slot]; slot = (slot + 1) % SLOTS) {
    }
    plan.follower = self->number;
    plan.key = arguments[0];
    Py_INCREF(plan.key);
    self->plans[self->number] = plan;
    self->slots[slot] = (uint16_t)++self->number;
    return PyLong_FromLong(self->number - 1);
}

PyDoc_STRVAR(give_doc, "give(number, outlets)\n--\n\nGive the objects of a plan to these outlets from now on.");

static PyObject *
plans_give(PyObject *object, PyObject *const *arguments, Py_ssize_t given)
{
    Plan *plan = wants_arguments(given, 2) ? plan_at((Plans *)object, arguments[0]) : NULL;
    uint64_t outlets = plan == NULL ? 0 : PyLong_AsUnsignedLongLong(arguments[1]);
    if (plan == NULL || PyErr_Occurred()) {
        return NULL;
    }
    plan->outlets = outlets;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(open_doc,
"open(number, turn, own_turn)\n--\n\n"
"The groups of a plan are open during these turns, so that plans with no other outlets are open, too. Turns count from 1.");

static PyObject *
plans_open(PyObject *object, PyObject *const *arguments, Py_ssize_t given)
{
    Plans *self = (Plans *)object;
    Plan *plan = wants_arguments(given, 3) ? plan_at(self, arguments[0]) : NULL, *other;
    uint64_t turn = plan == NULL ? 0 : PyLong_AsUnsignedLongLong(arguments[1]);
    uint64_t own_turn = plan == NULL ? 0 : PyLong_AsUnsignedLongLong(arguments[2]);
    if (plan == NULL || PyErr_Occurred()) {
        return NULL;
    }
    if (self->turn != turn || self->own_turn != own_turn) {
        self->opened = 0;
        self->turn = turn;
        self->own_turn = own_turn;
    }
    self->opened |= plan->outlets;
    for (other = self->plans; other < self->plans + self->number; other++) {
        if (!(other->outlets & ~self->opened)) {
            other->turn = other->is_own ? own_turn : turn;
        }
    }
    Py_RETURN_NONE;
}

static void
plans_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Plans *self = (Plans *)object;
    for (int place = 0; place < self->number; place++) {
        Py_CLEAR(self->plans[place].key);
    }
    Py_CLEAR(self->sender);
    Py_CLEAR(self->taken);
    free_object(object);
    Py_DECREF(type);
}

static PyMethodDef plans_methods[] = {
    {"splice", (PyCFunction)(void (*)(void))plans_splice, METH_FASTCALL, splice_doc},
    {"add", (PyCFunction)(void (*)(void))plans_add, METH_FASTCALL, add_doc},
    {"give", (PyCFunction)(void (*)(void))plans_give, METH_FASTCALL, give_doc},
    {"open", (PyCFunction)(void (*)(void))plans_open, METH_FASTCALL, open_doc},
    {NULL, NULL, 0, NULL},
};

/* Types that the module keeps for its plans. */
typedef struct {
    PyTypeObject *sender, *taken;
} Types;

/* Plans(is_by_sender). All else of a new object is zero: it has no plans. */
static PyObject *
plans_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    int is_by_sender, is_given = PyArg_ParseTuple(arguments, "p", &is_by_sender);
    Types *types = PyType_GetModuleState(type);
    PyObject *object = is_given && types != NULL ? PyType_GenericNew(type, arguments, keywords) : NULL;
    if (object != NULL) {
        Plans *self = (Plans *)object;
        self->is_by_sender = is_by_sender;
        Py_INCREF(types->sender);
        Py_INCREF(types->taken);
        self->sender = types->sender;
        self->taken = types->taken;
    }
    return object;
}

static PyType_Slot plans_slots[] = {
    {Py_tp_doc, (void *)"Route plans, and the taking of objects by them."},
    {Py_tp_new, (void *)plans_new},
    {Py_tp_dealloc, (void *)plans_dealloc},
    {Py_tp_methods, plans_methods},
    {0, NULL},
};

static PyType_Spec plans_spec = {"bussrv._speedups.Plans", sizeof(Plans), 0, Py_TPFLAGS_DEFAULT, plans_slots};

/* Seen(secret, capacity). Nothing is remembered at first. */
static PyObject *
seen_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    const char *secret;
    Py_ssize_t size, capacity;
    PyObject *object;
    if (PyArg_ParseTuple(arguments, "y#n", &secret, &size, &capacity) && size != sizeof(((Seen *)NULL)->secret)) {
        PyErr_SetString(PyExc_ValueError, "the secret has 16 bytes");
    }
    object = PyErr_Occurred() ? NULL : PyType_GenericNew(type, arguments, keywords);
    if (object != NULL) {
        memcpy(((Seen *)object)->secret, secret, (size_t)size);
        ((Seen *)object)->capacity = capacity;
    }
    return object;
}

static void
seen_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyMem_Free(((Seen *)object)->ring);
    free_object(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(seen_add_doc, "add(origin, text)\n--\n\nRemember an object by the text of its id. Returns whether it is new.");

static PyObject *
seen_add(PyObject *object, PyObject *const *arguments, Py_ssize_t given)
{
    Seen *self = (Seen *)object;
    uint64_t origin, key;
    char *data;
    Span text;
    if (!wants_arguments(given, 2) || PyBytes_AsStringAndSize(arguments[1], &data, &text.size) < 0) {
        return NULL;
    }
    text.begin = (const unsigned char *)data;
    origin = PyLong_AsUnsignedLongLongMask(arguments[0]);
    if (PyErr_Occurred() || !make_room(self, 1)) {
        return NULL;
    }
    key = hash_of(self, origin, &text);
    if (has_seen(self, key)) {
        Py_RETURN_FALSE;
    }
    remember(self, key);
    Py_RETURN_TRUE;
}

static PyMethodDef seen_methods[] = {
    {"add", (PyCFunction)(void (*)(void))seen_add, METH_FASTCALL, seen_add_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef seen_members[] = {
    {"capacity", T_PYSSIZET, offsetof(Seen, capacity), 0, "How many are remembered. More are forgotten at the next one."},
    {"number", T_PYSSIZET, offsetof(Seen, number), READONLY, "How many there are."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot seen_slots[] = {
    {Py_tp_doc, (void *)"The newest objects that came over links, by origin and id."},
    {Py_tp_new, (void *)seen_new},
    {Py_tp_dealloc, (void *)seen_dealloc},
    {Py_tp_methods, seen_methods},
    {Py_tp_members, seen_members},
    {0, NULL},
};

static PyType_Spec seen_spec = {"bussrv._speedups.Seen", sizeof(Seen), 0, Py_TPFLAGS_DEFAULT, seen_slots};

/* What the plan of an exchange depends on, as text: whether there is a type, whether there is a payload, both names. */
static PyObject *
exchange_key(const Exchange *exchange)
{
    char text[LONGEST_KEY + 3], *to = text;
    const Head *head = &exchange->head;
    if (exchange->name.size + head->type.size > LONGEST_KEY) {
        return NULL;
    }
    *to++ = (char)('0' + ((head->seen & TYPE) != 0) + 2 * (head->size > 0));
    memcpy(to, exchange->name.begin, (size_t)exchange->name.size);
    to += exchange->name.size;
    *to++ = 0;
    memcpy(to, head->type.begin, (size_t)head->type.size);
    return PyBytes_FromStringAndSize(text, to + head->type.size - text);
}

/* An id as Python compares it. */
static PyObject *
exchange_id(const Span *id)
{
    char text[LONGEST_ID + 4] = "str ";
    memcpy(text + 4, id->begin, (size_t)id->size);
    return PyUnicode_DecodeUTF8(text, id->size + 4, NULL);
}

/* Returns (is_reply, id, key, frame, to, ids, end); NULL without an exception: it is left to Python. */
static NOT_INLINE PyObject *
make_exchange(const Exchange *exchange, const Object *object, const Added *added, Py_ssize_t end)
{
    const Span *id = exchange->is_reply ? &exchange->answered : &exchange->head.id;
    PyObject *key = exchange_key(exchange), *frame, *name, *to;
    char *text;
    if (key == NULL) {
        return NULL;
    }
    frame = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size_of(object, added));
    if (frame != NULL && (text = PyBytes_AsString(frame)) != NULL) {
        write_object(text, object, added);
    }
    name = exchange_id(id);
    if (exchange->head.seen & TO) {
        to = PyUnicode_DecodeUTF8((const char *)exchange->to.begin, exchange->to.size, NULL);
    } else {
        to = Py_None;
        Py_INCREF(to);
    }
    if (frame == NULL || name == NULL || to == NULL) {
        Py_DECREF(key);
        Py_XDECREF(frame);
        Py_XDECREF(name);
        Py_XDECREF(to);
        return NULL;
    }
    return Py_BuildValue("(NNNNNNn)", PyBool_FromLong(exchange->is_reply), name, key, frame, to,
                         PyBool_FromLong(object->id != 0), end);
}

PyDoc_STRVAR(exchanges_doc,
"exchanges(sender, data, made)\n--\n\n"
"Read the plain requests and replies that data begins with, up to 128. made is the number of the latest id that was made.\n"
"Returns [(is_reply, id, key, frame, to, ids, end), ...]: the id of the request as it is compared, what its plan depends on,\n"
"the bytes that are forwarded, the addressee or None, whether an id was made, and the place after it.");

static PyObject *
exchanges(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    Types *types = PyModule_GetState(module);
    Exchange exchange;
    Object object;
    Cursor cursor;
    Sender *sender;
    Added added;
    PyObject *found;
    char *data;
    Py_ssize_t size;
    uint64_t made;
    int number;
    if (!wants_arguments(given, 3)) {
        return NULL;
    }
    if (Py_TYPE(arguments[0]) != types->sender) {
        PyErr_SetString(PyExc_TypeError, "a Sender is wanted");
        return NULL;
    }
    sender = (Sender *)arguments[0];
    made = PyLong_AsUnsignedLongLong(arguments[2]);
    if (PyErr_Occurred() || PyBytes_AsStringAndSize(arguments[1], &data, &size) < 0) {
        return NULL;
    }
    added = sender->added;
    if (PyBytes_AsStringAndSize(added.tails, &added.tail, &added.tail_size) < 0) {
        return NULL;
    }
    found = PyList_New(0);
    cursor.at = (const unsigned char *)data;
    cursor.end = cursor.at + size;
    open_window(&cursor);
    for (number = 0; found != NULL && number < MOST_EXCHANGES; number++) {
        PyObject *one;
        int failed;
        if (!scan_exchange(&cursor, &sender->limits, &exchange, &object)) {
            break;
        }
        object.id = exchange.head.seen & ID ? 0 : ++made;
        one = make_exchange(&exchange, &object, &added, cursor.at - (const unsigned char *)data);
        if (one == NULL && !PyErr_Occurred()) {
            break;
        }
        failed = one == NULL || PyList_Append(found, one) < 0;
        Py_XDECREF(one);
        if (failed) {
            Py_CLEAR(found);
        }
    }
    return found;
}

/* Connections do not block, so the interpreter's lock is kept: to get it back from the journal's thread would take longer
 * than the call. */
static PyObject *
receive(PyObject *Py_UNUSED(module), PyObject *connection)
{
    static char room[MOST_READ];
    int number = PyObject_AsFileDescriptor(connection);
    Py_ssize_t size = number < 0 ? -1 : recv(number, room, sizeof(room), 0);
    return size >= 0 ? PyBytes_FromStringAndSize(room, size) : number < 0 ? NULL : PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *
send_bytes(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t given)
{
    int number = wants_arguments(given, 2) ? PyObject_AsFileDescriptor(arguments[0]) : -1;
    char *data;
    Py_ssize_t size;
    if (number < 0 || PyBytes_AsStringAndSize(arguments[1], &data, &size) < 0) {
        return NULL;
    }
    size = send(number, data, (size_t)size, 0);
    return size < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromSsize_t(size);
}

static PyMethodDef module_methods[] = {
    {"exchanges", (PyCFunction)(void (*)(void))exchanges, METH_FASTCALL, exchanges_doc},
    {"receive", receive, METH_O, "receive(connection)\n--\n\nThe bytes that came; none: no more will come. It raises OSError."},
    {"send", (PyCFunction)(void (*)(void))send_bytes, METH_FASTCALL,
     "send(connection, data)\n--\n\nSend bytes as far as there is room. Returns how many were sent. It raises OSError."},
    {NULL, NULL, 0, NULL},
};

/* Add a type to the module, and keep a reference to it. */
static int
add_type(PyObject *module, PyObject *type, PyTypeObject **kept)
{
    int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) < 0;
    if (failed || kept == NULL) {
        Py_XDECREF(type);
    } else {
        *kept = (PyTypeObject *)type;
    }
    return failed;
}

static int
fill(PyObject *module)
{
    Types *types = PyModule_GetState(module);
    int failed = add_type(module, PyType_FromModuleAndSpec(module, &plans_spec, NULL), NULL)
        || add_type(module, PyType_FromModuleAndSpec(module, &seen_spec, NULL), NULL)
        || add_type(module, PyType_FromModuleAndSpec(module, &sender_spec, NULL), &types->sender)
        || add_type(module, (PyObject *)PyStructSequence_NewType(&taken_type), &types->taken)
        || PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0
        || PyModule_AddIntConstant(module, "MOST_PLANS", MOST_PLANS) < 0;
    return failed ? -1 : 0;
}

static int
clear(PyObject *module)
{
    Types *types = PyModule_GetState(module);
    Py_CLEAR(types->sender);
    Py_CLEAR(types->taken);
    return 0;
}

static int
traverse(PyObject *module, visitproc visit, void *arg)
{
    Types *types = PyModule_GetState(module);
    Py_VISIT(types->sender);
    Py_VISIT(types->taken);
    return 0;
}

static void
free_module(void *module)
{
    clear(module);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)fill}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_speedups", "Routes most objects without an object of Python for each.", sizeof(Types),
    module_methods, module_slots, traverse, clear, free_module,
};

PyMODINIT_FUNC
PyInit__speedups(void)
{
    return PyModuleDef_Init(&module_definition);
}
