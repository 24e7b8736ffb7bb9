/* text_source -- the documents of a text: a file, whose documents are between lines that separate them, or a
 * folder, whose files are the documents, and whose folders are topics. */
#ifndef PSGD_TEXT_SOURCE_H
#define PSGD_TEXT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "submit/data/data_map.h"
#include "submit/data/dataset.h"

struct text_document {
    char *path;     /* of a folder's document; owned. NULL: bytes of the file */
    size_t at, len; /* its bytes; of a packed file, those of its text */
    int32_t topic;  /* -1: there are no topics */
    bool is_checked;
};

struct text_source {
    struct dataset_warnings *warnings;
    const char *path;
    struct data_map file; /* {0}: a folder of several documents */
    struct text_document *docs;
    size_t n, room, n_bytes, n_empty; /* n_empty: documents that are left out */
    char *topics;                     /* (n_topics), each with its zero byte; NULL: none */
    size_t n_topics, topics_len;
};

/* separator "": a file is one document. A folder with one document is read as a file. `path` and `w` must
 * outlive it. ERR_NOT_FOUND, ERR_IO; ERR_CONFIG: no text, with a sentence; a separator of a folder. */
int text_source_open(struct text_source *s, const char *path, const char *separator,
                     struct dataset_warnings *w, struct err *e);
void text_source_clear(struct text_source *s);

/* Maps a document, unless it is of the file, and calls use() for its bytes, which are checked the first time.
 * ERR_CONFIG: they are no text. */
int text_source_visit(struct text_source *s, struct text_document *doc,
                      int (*use)(void *arg, const uint8_t *text, size_t n, struct err *e), void *arg,
                      struct err *e);

#endif
