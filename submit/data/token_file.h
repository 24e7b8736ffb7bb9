/* token_file -- a tokenized text, as job_submit data tokenize writes it: a safetensors file
 * (shared/records/tensor_file.h) of
 *
 *     "train", "test" (tokens; U8 or U16)   the halves, documents with TOKEN_END behind each
 *     "merges" (merges, 2; U16)             of the tokenizer; without them tokens are bytes
 *     "documents" (documents; I64)          where those of the training half begin, if there are topics
 *     "document_topics" (documents; I32)    their topics
 *
 * and the metadata "tokens", "1", the version; "dataset", the set that was tokenized; "test_bytes", of the
 * text of the test half; and "topics", the names of the topics, a line each. It is mapped, and not copied. */
#ifndef PSGD_TOKEN_FILE_H
#define PSGD_TOKEN_FILE_H

#include <stdbool.h>

#include "shared/base/err.h"
#include "submit/data/data_sets.h"

/* Does the file begin as a safetensors file, which no text does? */
bool token_file_is(const char *path);
/* Opens it as a data set. ERR_CONFIG: not such a file, a token beyond its vocabulary, or other merges than
 * the model's. *d is to be cleared after an error, too. */
int token_file_open(struct dataset *d, const char *path, const struct data_use *use, struct err *e);
/* Writes a set of text that is not cut into windows. */
int token_file_write(const char *path, const struct dataset *d, const char *dataset, struct err *e);

#endif
