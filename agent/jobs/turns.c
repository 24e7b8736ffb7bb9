#include "agent/jobs/turns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_shared(const char *owner)
{
    static const char *const names[] = {"", "owner", "cluster"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(owner, names[i]) == 0)
            return true;
    return false;
}

void turns_user(char out[TURN_USER], const char *owner, const char *submitter)
{
    if (is_shared(owner))
        snprintf(out, TURN_USER, "%.*s", (int)strcspn(submitter, "@"), submitter);
    else
        snprintf(out, TURN_USER, "%s", owner);
}

static double decay(double used_s, double seconds)
{
    return used_s * exp2(-fmax(0, seconds) / HALF_S);
}

static struct turn_user *find_user(const struct turns *t, const char *user)
{
    for (size_t i = 0; i < t->n_users; i++)
        if (strcmp(t->users[i].name, user) == 0)
            return (struct turn_user *)&t->users[i];
    return NULL;
}

/* A free entry. If there is none, the entry of the user with the least use is taken. */
static struct turn_user *new_user(struct turns *t, double now)
{
    struct turn_user *least = &t->users[0];

    if (t->n_users < TURNS_USERS)
        return &t->users[t->n_users++];
    for (size_t i = 1; i < t->n_users; i++)
        if (decay(t->users[i].used_s, now - t->users[i].at) < decay(least->used_s, now - least->at))
            least = &t->users[i];
    return least;
}

void turns_charge(struct turns *t, const char *user, double seconds, double now)
{
    struct turn_user *u = find_user(t, user);

    if (!u) {
        u = new_user(t, now);
        *u = (struct turn_user){.at = now};
        snprintf(u->name, sizeof u->name, "%s", user);
    }
    u->used_s = decay(u->used_s, now - u->at) + seconds;
    u->at = now;
}

double turns_used(const struct turns *t, const char *user, double now)
{
    const struct turn_user *u = find_user(t, user);

    return u ? decay(u->used_s, now - u->at) : 0;
}

void turns_freed(struct turns *t, double now)
{
    t->n_freed++;
    t->n_changes++;
    t->freed_at = now;
}

struct turn_waiter *turns_find(const struct turns *t, const char *id, const char *owner)
{
    for (size_t i = 0; i < t->n_waiters; i++)
        if (strcmp(t->waiters[i].id, id) == 0 && strcmp(t->waiters[i].owner, owner) == 0)
            return (struct turn_waiter *)&t->waiters[i];
    return NULL;
}

/* A token has a limit, so that its user cannot take all the room, or have a turn for each of many
 * watchers. */
static void make_room_for(struct turns *t, const char *owner)
{
    struct turn_waiter *oldest = NULL;
    int n = 0;

    for (size_t i = 0; i < t->n_waiters; i++) {
        struct turn_waiter *w = &t->waiters[i];

        if (strcmp(w->owner, owner) != 0)
            continue;
        n++;
        if (!oldest || w->until < oldest->until)
            oldest = w;
    }
    if (oldest && n >= (is_shared(owner) ? TURNS_OF_SHARED : TURNS_OF_TOKEN))
        turns_forget(t, oldest);
}

struct turn_waiter *turns_waiter(struct turns *t, const char *id, const char *owner)
{
    struct turn_waiter *w = turns_find(t, id, owner);

    if (w)
        return w;
    make_room_for(t, owner);
    if (t->n_waiters == TURNS_WAITERS)
        return NULL;
    w = &t->waiters[t->n_waiters++];
    *w = (struct turn_waiter){0};
    snprintf(w->id, sizeof w->id, "%s", id);
    snprintf(w->owner, sizeof w->owner, "%s", owner);
    return w;
}

void turns_forget(struct turns *t, struct turn_waiter *w)
{
    json_decref(w->jobs);
    *w = t->waiters[--t->n_waiters];
    t->n_changes++;
}

bool turns_expire(struct turns *t, double now)
{
    bool is_any = false;

    for (size_t i = t->n_waiters; i-- > 0;)
        if (t->waiters[i].n_open == 0 && now > t->waiters[i].until) {
            turns_forget(t, &t->waiters[i]);
            is_any = true;
        }
    return is_any;
}

void turns_set_first(struct turn_waiter *w, const char *first, double since, double now, double wall)
{
    if (strcmp(w->first, first) != 0) {
        snprintf(w->first, sizeof w->first, "%s", first);
        w->first_seen = now;
        w->kept_s = w->keep_most_s = 0;
    }
    w->first_since = fmax(since, wall - (now - w->first_seen) - CLAIM_S);
}

static bool keeps(const struct turns *t, const struct turn_waiter *w, double now)
{
    return w->n_waiting > 0 && w->first[0] && w->first_is_possible && now - w->first_seen >= t->aging_s;
}

static bool is_before(const struct turn_waiter *a, const struct turn_waiter *b)
{
    return a->first_since < b->first_since ||
           (a->first_since <= b->first_since && strcmp(a->first, b->first) < 0);
}

static const struct turn_waiter *find_keeper(const struct turns *t, double now)
{
    const struct turn_waiter *first = NULL;

    for (size_t i = 0; i < t->n_waiters && now >= t->rest_until; i++)
        if (keeps(t, &t->waiters[i], now) && (!first || is_before(&t->waiters[i], first)))
            first = &t->waiters[i];
    return first;
}

void turns_keep(struct turns *t, int n_free, double now)
{
    struct turn_waiter *w = (struct turn_waiter *)(n_free > 0 ? find_keeper(t, now) : NULL);

    if (w && t->kept_at > 0)
        w->kept_s += now - t->kept_at;
    t->kept_at = w ? now : 0;
    if (!w || w->kept_s <= fmax(t->aging_s, w->keep_most_s))
        return;
    w->keep_most_s = 2 * fmax(t->aging_s, w->keep_most_s);
    w->kept_s = t->kept_at = 0;
    w->first_seen = now;
    t->rest_until = now + t->aging_s;
    t->n_changes++;
}

bool turns_may_take(const struct turns *t, const struct turn_claim *c, int n_free, double now,
                    double (*used_s)(const void *arg, const char *user, double now), const void *arg,
                    char *why, size_t size)
{
    const struct turn_waiter *keeper = find_keeper(t, now);
    int n_before = 0;

    snprintf(why, size, "%s", "");
    if (keeper && (c->job ? strcmp(c->job, keeper->first) != 0 : strcmp(c->user, keeper->user) != 0)) {
        bool is_seen = c->sees_all || (c->owner && strcmp(c->owner, keeper->owner) == 0);

        snprintf(why, size, "its slots are kept for %s of %s", is_seen ? keeper->first : "another job",
                 keeper->user);
        return false;
    }
    for (size_t i = 0; !c->holds_others && i < t->n_waiters && now < t->freed_at + TURN_S; i++) {
        const struct turn_waiter *w = &t->waiters[i];

        if (w->n_waiting == 0 || w->passed == t->n_freed || strcmp(w->user, c->user) == 0 ||
            used_s(arg, w->user, now) >= c->used_s)
            continue;
        if (++n_before >= n_free) {
            snprintf(why, size, "it is the turn of %s", w->user);
            return false;
        }
    }
    return true;
}
