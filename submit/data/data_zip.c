/* The part of zip (PKWARE's APPNOTE) that numpy.savez and savez_compressed write. Sizes are read from the
 * central directory at the end: local headers may have them elsewhere (zip64, streams). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "shared/base/utf8.h"
#include "submit/data/data_file.h"
#include "submit/data/data_formats.h"
#include "submit/data/data_map.h"

enum {
    END_LEN = 22,
    ENTRY_LEN = 46,
    LOCAL_LEN = 30,
    COMMENT_MAX = 65535,
    STORED = 0,
    DEFLATED = 8,
    MEMBERS_MAX = 4096,
    LIST_LEN = 200,
    DEFLATE_RATIO = 1032 /* maximum of the format: 258 bytes from two bits */
};

static uint32_t le16(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t le32(const uint8_t *p)
{
    return le16(p) | le16(p + 2) << 16;
}

static int broken(struct err *e, const char *what)
{
    return err_set(e, ERR_CONFIG, "not a zip file that can be read: %s", what);
}

struct zip_member {
    const uint8_t *data; /* packed */
    uint32_t method, crc, packed, size;
};

/* Finds the record at the end of the file, whose comment ends exactly there. NULL: none. */
static const uint8_t *find_end(const uint8_t *zip, size_t len)
{
    for (size_t back = END_LEN; back <= len && back <= END_LEN + COMMENT_MAX; back++) {
        const uint8_t *p = zip + len - back;

        if (le32(p) == 0x06054b50 && le16(p + 20) == back - END_LEN)
            return p;
    }
    return NULL;
}

/* Finds the data after the local header that the directory entry p points at. `directory`: where the
 * central directory begins. */
static int locate(struct zip_member *m, const uint8_t *zip, size_t directory, const uint8_t *p, struct err *e)
{
    size_t at = le32(p + 42);
    size_t name_len = le16(p + 28);
    size_t head;

    *m = (struct zip_member){
        .method = le16(p + 10), .crc = le32(p + 16), .packed = le32(p + 20), .size = le32(p + 24)};
    if (le16(p + 8) & 1)
        return broken(e, "a member is encrypted");
    if (m->method != STORED && m->method != DEFLATED)
        return broken(e, "a member is neither stored nor deflated");
    if (at > directory || directory - at < LOCAL_LEN || le32(zip + at) != 0x04034b50)
        return broken(e, "a member is not at the offset that the directory has");
    head = LOCAL_LEN + name_len + le16(zip + at + 28);
    if (le16(zip + at + 26) != name_len || directory - at < head || directory - at - head < m->packed ||
        memcmp(zip + at + LOCAL_LEN, p + ENTRY_LEN, name_len) != 0)
        return broken(e, "a member contradicts the directory");
    if (m->size > DATA_BYTES_MAX) {
        err_set(e, ERR_CONFIG, "an array of more than a gibibyte");
        return data_hint_large(e);
    }
    if (m->method == STORED ? m->size != m->packed : m->size / DEFLATE_RATIO > m->packed)
        return broken(e, "a member's sizes contradict each other");
    if (m->method == DEFLATED && data_is_bomb(m->size, m->packed)) {
        err_set(e, ERR_CONFIG, "a member unpacks to more than %d times its size: %u bytes from %u",
                UNPACKED_RATIO, m->size, m->packed);
        return err_hint(e, "If that is meant, write it with numpy.savez, unpacked.");
    }
    m->data = zip + at + head;
    return 0;
}

/* Appends the name of a member, as far as there is room, for a message. */
static void list_name(char list[LIST_LEN], const uint8_t *name, size_t len)
{
    size_t used = strlen(list);

    if (used + len + 3 > LIST_LEN)
        return;
    snprintf(list + used, LIST_LEN - used, "%s%.*s", used > 0 ? ", " : "", (int)len, (const char *)name);
    utf8_clean(list, strlen(list), false);
}

static int find_member(struct zip_member *m, const uint8_t *zip, size_t len, const char *name, struct err *e)
{
    const uint8_t *end = find_end(zip, len);
    const uint8_t *p, *found = NULL;
    char list[LIST_LEN] = "";
    size_t directory, n;

    if (!end)
        return len >= 4 && le32(zip) != 0x04034b50 && data_refuse_kind(zip, len, e) < 0
                   ? err_at(e, "not a zip file")
               : len >= 2 && memcmp(zip, "PK", 2) != 0 ? err_set(e, ERR_CONFIG, "not a zip file")
                                                       : broken(e, "its end is missing");
    n = le16(end + 10);
    directory = le32(end + 16);
    if (le16(end + 4) != 0 || le16(end + 6) != 0 || le16(end + 8) != n || n > MEMBERS_MAX)
        return broken(e, "in several parts, or too many members");
    if (directory > (size_t)(end - zip) || (size_t)(end - zip) - directory != le32(end + 12))
        return broken(e, "its directory is not at the offset that its end has");
    p = zip + directory;
    for (size_t i = 0; i < n; i++) {
        size_t name_len;

        if (end - p < ENTRY_LEN || le32(p) != 0x02014b50)
            return broken(e, "its directory is too short");
        name_len = le16(p + 28);
        if ((size_t)(end - p) - ENTRY_LEN < name_len + le16(p + 30) + le16(p + 32))
            return broken(e, "its directory is too short");
        if (name_len == strlen(name) && memcmp(p + ENTRY_LEN, name, name_len) == 0) {
            if (found)
                return broken(e, "a name occurs twice");
            found = p;
        }
        list_name(list, p + ENTRY_LEN, name_len);
        p += ENTRY_LEN + name_len + le16(p + 30) + le16(p + 32);
    }
    if (!found)
        return err_set(e, ERR_NOT_FOUND, "no member %s among %s", name, list[0] ? list : "none");
    return locate(m, zip, directory, found, e);
}

/* The member's first bytes are those of an array as long as the member. */
static int check_promise(const uint8_t *bytes, size_t len, const struct zip_member *m, struct err *e)
{
    uint64_t whole;

    if (npy_promise(&whole, bytes, len, e) < 0)
        return e->code;
    return whole == m->size
               ? 0
               : err_set(e, ERR_CONFIG, "%llu bytes expected by its header, %u by the zip file's directory",
                         (unsigned long long)whole, m->size);
}

static int inflate_all(uint8_t *out, const struct zip_member *m, struct err *e)
{
    size_t head = m->size < DATA_HEAD ? m->size : DATA_HEAD;
    z_stream z = {.avail_in = m->packed, .avail_out = (uInt)head, .next_out = out};
    int rc;

    z.next_in = (z_const Bytef *)(uintptr_t)m->data;
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return err_set(e, ERR_NOMEM, "no memory to unpack");
    rc = inflate(&z, Z_SYNC_FLUSH);
    if ((rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR) &&
        check_promise(out, head - z.avail_out, m, e) < 0) {
        inflateEnd(&z);
        return e->code;
    }
    if (rc == Z_OK) {
        z.avail_out = m->size - (uInt)head;
        rc = inflate(&z, Z_FINISH);
    }
    inflateEnd(&z);
    return rc == Z_STREAM_END && z.avail_out == 0 && z.avail_in == 0 ? 0 : broken(e, "damaged data");
}

/* A stored member is its own data. */
static int copy_all(uint8_t *out, const struct zip_member *m, struct err *e)
{
    if (check_promise(m->data, m->size, m, e) < 0)
        return e->code;
    memcpy(out, m->data, m->size);
    return 0;
}

int zip_member(uint8_t **out, size_t *out_len, const uint8_t *zip, size_t len, const char *name,
               struct err *e)
{
    struct zip_member m = {0};
    uint8_t *bytes;
    int rc;

    if (find_member(&m, zip, len, name, e) < 0)
        return e->code;
    bytes = malloc((size_t)m.size + 1);
    if (!bytes)
        return err_set(e, ERR_NOMEM, "no memory for %u bytes of %s", m.size, name);
    rc = m.method == DEFLATED ? inflate_all(bytes, &m, e) : copy_all(bytes, &m, e);
    if (rc == 0 && crc32(0, bytes, m.size) != m.crc)
        rc = broken(e, "damaged data");
    if (rc < 0) {
        free(bytes);
        return err_at(e, "%s", name);
    }
    *out = bytes;
    *out_len = m.size;
    return 0;
}
