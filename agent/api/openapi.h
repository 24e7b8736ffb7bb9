/* openapi -- GET /openapi.json: the routes of api.h as an OpenAPI 3.1 document. Its schemas are in
 * openapi.json beside this file, which is embedded in the agent; states, problems and the version come from
 * the tables of the program. */
#ifndef PSGD_OPENAPI_H
#define PSGD_OPENAPI_H

#include <jansson.h>

#include "shared/base/err.h"

/* Returns the document, which the caller frees; NULL: ERR_NOMEM, or ERR_INTERNAL, a route names a schema or a
 * parameter that openapi.json lacks. */
json_t *openapi_document(struct err *e);

#endif
