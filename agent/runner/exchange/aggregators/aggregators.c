#include "agent/runner/exchange/aggregators/aggregators.h"

aggregate_function *aggregate_of(enum aggregate_kind kind)
{
#define ROW(constant, name, a, b, function) [constant] = function,
    static aggregate_function *const functions[AGGREGATE_KINDS] = {AGGREGATORS(ROW)};
#undef ROW

    return functions[kind];
}
