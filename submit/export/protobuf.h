/* protobuf -- writes protocol buffers, the format of ONNX files and of TensorBoard's events.
 *
 * A field is a varint of (number << 3 | wire type), then its value: wire type 0 a varint, 1 eight bytes, 5
 * four bytes, 2 a length and that many bytes. A nested message is bytes. Without memory the buffer is marked
 * as failed and ignores further calls, so that a caller checks `failed` once, at the end. */
#ifndef PSGD_SUBMIT_PROTOBUF_H
#define PSGD_SUBMIT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf {
    unsigned char *bytes; /* owned */
    size_t len, cap;
    bool failed;
};

void protobuf_clear(struct protobuf *p);
void protobuf_int(struct protobuf *p, int field, int64_t value);
void protobuf_float(struct protobuf *p, int field, float value);
void protobuf_double(struct protobuf *p, int field, double value);
void protobuf_bytes(struct protobuf *p, int field, const void *bytes, size_t len);
void protobuf_text(struct protobuf *p, int field, const char *text);
void protobuf_message(struct protobuf *p, int field, struct protobuf *take); /* `take` becomes empty */
void protobuf_append(struct protobuf *p, struct protobuf *take); /* its fields become fields of p */

#endif
