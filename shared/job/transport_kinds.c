#include "shared/job/transport_kinds.h"

#define TRANSPORT_TRAITS(constant, ...) [constant] = {__VA_ARGS__},
const struct transport_traits transport_traits[TRANSPORT_KINDS] = {TRANSPORTS(TRANSPORT_TRAITS)};
