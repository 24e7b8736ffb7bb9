#include "submit/options/hosts.h"

#include <string.h>

#include "shared/base/json.h"

const char *hosts_name(const struct options *o)
{
    return o->worker_hosts[0] ? "the list of hosts" : o->workers;
}

int hosts_count(const char *list)
{
    int n = list[0] != '\0';

    for (; *list; list++)
        n += *list == ',';
    return n;
}

static json_t *split(const char *list)
{
    json_t *hosts = json_array();

    for (int left = hosts_count(list); left > 0; left--) {
        size_t n = strcspn(list, ",");
        char host[ADDRESS_MAX];

        snprintf(host, sizeof host, "%.*s", (int)n, list); /* a longer one is no address either */
        if (json_array_append_new(hosts, json_text(host, SIZE_MAX)) < 0) {
            json_decref(hosts);
            return NULL;
        }
        list += n + 1;
    }
    return hosts;
}

int hosts_read(struct worker_list *out, const struct options *o, struct err *e)
{
    json_t *doc;
    int rc;

    if (!o->worker_hosts[0]) {
        rc = worker_list_read(out, o->workers, e);
        return rc == ERR_NOT_FOUND && strcmp(o->workers, OPTIONS_WORKERS) != 0
                   ? err_set(e, ERR_NOT_FOUND,
                             "%s: there is no such file; --workers or PSGD_WORKERS name the file with the "
                             "list of the agents' addresses",
                             o->workers)
                   : rc;
    }
    doc = json_pack("{s:o, s:o}", "PS", split(o->ps_hosts), "Worker", split(o->worker_hosts));
    if (!doc)
        return err_set(e, ERR_NOMEM, "no memory for the list of hosts");
    rc = worker_list_parse(out, doc, "--ps_hosts and --worker_hosts", e);
    json_decref(doc);
    return rc == ERR_CONFIG ? (e->code = ERR_USAGE) : rc;
}

static json_t *stand_ins(int n, int first)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_sprintf("127.0.0.1:%d", first + i));
    return list;
}

int hosts_stand_in(struct worker_list *out, int n_workers, int n_servers, struct err *e)
{
    json_t *doc = json_pack("{s:o, s:o}", "PS", stand_ins(n_servers, 1), "Worker",
                            stand_ins(n_workers, 1 + n_servers));
    int rc;

    if (!doc)
        return err_set(e, ERR_NOMEM, "no memory for the list of hosts");
    rc = worker_list_parse(out, doc, "the list", e);
    json_decref(doc);
    return rc;
}
