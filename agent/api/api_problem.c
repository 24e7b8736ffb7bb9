/* GET /problems/{code}: the page that the `type` of a problem points to, as HTML for browsers and as text for
 * curl. */
#include <stdio.h>
#include <string.h>

#include "agent/api/api.h"

/* The page has no style, script or image. */
#define POLICY "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* No text of the table has a character that HTML needs escaped (test_problem). */
static const char html[] = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                           "<meta name=\"color-scheme\" content=\"light dark\"><title>%s</title></head>\n"
                           "<body><h1>%s</h1>\n<p><code>%s</code>, HTTP status %d</p>\n<p>%s</p>\n<p>%s</p>\n"
                           "</body></html>\n";
static const char plain[] = "%s\n%s, HTTP status %d\n\n%s\n%s\n";

void api_problem(struct agent *a, const struct request *rq, struct api_response *rs)
{
    enum problem p = problem_find(rq->arg[0]);
    const char *code = problem_code(p), *title = problem_title(p);
    int n;

    (void)a;
    if (p == PROBLEM_NONE) {
        respond_problem(rs, NOT_FOUND, NULL, "no problem has the code %s", rq->arg[0]);
        return;
    }
    n = rq->wants_html ? asprintf(&rs->body, html, title, title, code, problem_status(p), problem_meaning(p),
                                  problem_advice(p))
                       : asprintf(&rs->body, plain, title, code, problem_status(p), problem_meaning(p),
                                  problem_advice(p));
    if (n < 0) {
        rs->body = NULL;
        respond_problem(rs, OVERLOADED, NULL, "no memory for the page");
        return;
    }
    rs->len = (size_t)n;
    rs->type = rq->wants_html ? "text/html; charset=utf-8" : "text/plain; charset=utf-8";
    rs->policy = POLICY;
}
