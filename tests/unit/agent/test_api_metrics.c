/* GET /metrics of a whole agent. */
#include <math.h>

#include "tests/lib/agent_fixture.h"
#include "tests/lib/prometheus_check.h"
#include "tests/unit/unit.h"

static struct reply r;
static struct prometheus_text t;

static void scrape(struct fixture *f)
{
    prometheus_text_clear(&t);
    assert_int_equal(ask_bytes(f, &r, "GET", "/metrics", "", NULL, 0), 200);
    assert_non_null(strstr(r.text, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    if (!prometheus_read(&t, r.body))
        fail_msg("%s", t.why);
}

#define assert_series(name, v)                                                                               \
    do {                                                                                                     \
        double got = prometheus_value(&t, name);                                                             \
        if (!(got == (v)))                                                                                   \
            fail_msg("%s is %g in\n%s", name, got, r.body);                                                  \
    } while (0)

TEST(a_job_is_counted_from_its_reservation_to_its_end)
{
    struct fixture f = {0};

    fixture_open(&f);
    scrape(&f);
    assert_series("psgd_agent_slots", 1);
    assert_series("psgd_agent_slots_used", 0);
    assert_series("psgd_jobs{state=\"running\"}", 0);
    assert_true(isnan(prometheus_value(&t, "psgd_train_loss{codec=\"fedavg\",node=\"0\",slot=\"0\"}")));
    job_run(&f, "j-abcdef", "forever");
    job_until(&f, "j-abcdef", "running");
    do
        scrape(&f);
    while (isnan(prometheus_value(&t, "psgd_train_loss{codec=\"fedavg\",node=\"0\",slot=\"0\"}")));
    assert_series("psgd_train_loss{codec=\"fedavg\",node=\"0\",slot=\"0\"}", 0.4);
    assert_series("psgd_agent_slots_used", 1);
    assert_series("psgd_jobs{state=\"running\"}", 1);
    assert_null(strstr(r.body, "j-abcdef"));
    assert_null(strstr(r.body, f.token));
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL);
    job_until(&f, "j-abcdef", "cancelled");
    job_run(&f, "j-second", "ok");
    job_until(&f, "j-second", "succeeded");
    scrape(&f);
    assert_series("psgd_jobs_finished_total{state=\"cancelled\",reason=\"UserCancelled\",codec=\"fedavg\"}",
                  1);
    assert_series("psgd_jobs_finished_total{state=\"succeeded\",reason=\"\",codec=\"fedavg\"}", 1);
    assert_series("psgd_job_queue_seconds_count{codec=\"fedavg\"}", 2);
    assert_series("psgd_job_duration_seconds_count{codec=\"fedavg\"}", 2);
    assert_series("psgd_jobs{state=\"succeeded\"}", 1);
    assert_true(prometheus_value(&t, "psgd_train_steps_total{codec=\"fedavg\",role=\"worker\"}") >= 5);
    assert_series("psgd_http_requests_total{route=\"/v1/jobs\",method=\"POST\",code=\"201\"}", 2);
    assert_true(prometheus_value(&t, "process_resident_memory_bytes") > 1e6);
    assert_true(prometheus_value(&t, "process_open_fds") > 3);
    prometheus_text_clear(&t);
    fixture_close(&f);
}

TEST(requests_are_counted_by_their_route_whatever_the_path)
{
    static const struct {
        const char *method, *path;
    } requests[] = {{"GET", "/nothing"},           {"GET", "/nothing/else"}, {"BREW", "/healthz"},
                    {"GET", "/v1/jobs/j-unknown"}, {"GET", "/v1/jobs?x=1"},  {"HEAD", "/healthz"}};
    static const char *const no_label[] = {"nothing", "BREW", "j-unknown", "x=1"};
    struct fixture f = {0};

    fixture_open(&f);
    for (size_t i = 0; i < N_OF(requests); i++)
        ask(&f, &r, requests[i].method, requests[i].path, NULL);
    ask_bytes(&f, &r, "GET", "/v1/agent", "", NULL, 0);
    scrape(&f);
    assert_series("psgd_http_requests_total{route=\"none\",method=\"GET\",code=\"404\"}", 2);
    assert_series("psgd_http_requests_total{route=\"none\",method=\"other\",code=\"405\"}", 1);
    assert_series("psgd_http_requests_total{route=\"/v1/jobs/{id}\",method=\"GET\",code=\"404\"}", 1);
    assert_series("psgd_http_requests_total{route=\"/v1/jobs\",method=\"GET\",code=\"400\"}", 1);
    assert_series("psgd_http_requests_total{route=\"/healthz\",method=\"HEAD\",code=\"200\"}", 1);
    assert_series("psgd_http_requests_total{route=\"/v1/agent\",method=\"GET\",code=\"401\"}", 1);
    assert_series("psgd_http_request_duration_seconds_count{route=\"none\",method=\"GET\"}", 2);
    for (size_t i = 0; i < N_OF(no_label); i++)
        assert_null(strstr(r.body, no_label[i]));
    prometheus_text_clear(&t);
    fixture_close(&f);
}

TEST(jobs_are_named_only_with_the_option_for_it)
{
    static const char series[] = "psgd_train_loss{codec=\"fedavg\",node=\"0\",slot=\"0\",job=\"j-abcdef\"}";
    struct fixture f = {.opt.metrics_per_job = true};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    do
        scrape(&f);
    while (isnan(prometheus_value(&t, series)));
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL);
    job_until(&f, "j-abcdef", "cancelled");
    scrape(&f);
    assert_null(strstr(r.body, "j-abcdef")); /* only while it holds a slot */
    prometheus_text_clear(&t);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_counted_from_its_reservation_to_its_end),
        cmocka_unit_test(requests_are_counted_by_their_route_whatever_the_path),
        cmocka_unit_test(jobs_are_named_only_with_the_option_for_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
