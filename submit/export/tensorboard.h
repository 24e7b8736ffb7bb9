/* tensorboard -- a job's curves as TensorBoard's event files.
 *
 * A file is TFRecords: u64 length, masked CRC-32C of these 8 bytes, the message, masked CRC-32C of it;
 * all numbers little-endian; masked: rotated right by 15 bits, plus 0xa282ead8
 * (tensorflow/core/lib/io/record_writer.h, tsl/lib/hash/crc32c.h). A message is an Event
 * (tensorflow/core/util/event.proto):
 *     1 wall_time, a double   2 step, int64   3 file_version, text   5 summary
 * and a summary (tensorflow/core/framework/summary.proto) has fields 1, a value each:
 *     1 tag, text   2 simple_value, a float
 * The first event has the file_version "brain.Event:2". */
#ifndef PSGD_SUBMIT_TENSORBOARD_H
#define PSGD_SUBMIT_TENSORBOARD_H

#include <jansson.h>

#include "shared/base/err.h"

/* Writes TO/NODE/events.out.tfevents.SECONDS.psgd for each node in the records of a folder of results,
 * whose run.json is `run`; files of these names are replaced. An event's wall time is the node's start
 * plus the row's time_s. ERR_IO, ERR_NOSPACE, ERR_NOMEM, ERR_PROTOCOL. */
int tensorboard_write(const char *folder, const json_t *run, const char *to, struct err *e);

#endif
