/* GET /: the page that shows this agent and its jobs in a browser (page/page.h). It is the same for every
 * client: its script asks the other routes, with a token that the user types where one is needed. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/api/agent_state.h"
#include "agent/api/api.h"

static int make_page(struct static_document *d, struct err *e)
{
    static const char mode[] = "{\"mode\":\"agent\"}";
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    bool is_whole;

    if (f)
        page_write(f, PAGE_SERVED, mode, sizeof mode - 1);
    is_whole = f && !ferror(f);
    if (!f || fclose(f) != 0 || !is_whole) {
        free(text);
        return err_set(e, ERR_NOMEM, "no memory for the page");
    }
    static_document_set(d, text, len);
    return 0;
}

void api_page(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct err e = {0};

    if (!a->page.text) {
        page_policy(a->page_policy, PAGE_SERVED);
        if (make_page(&a->page, &e) < 0) {
            respond_error(rs, &e);
            return;
        }
    }
    respond_static(rq, rs, &a->page, "text/html; charset=utf-8");
    rs->policy = a->page_policy;
}
