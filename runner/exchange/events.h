/* events -- an event rule of a codec (struct codec_events) on a channel. */
#ifndef PSGD_EVENTS_H
#define PSGD_EVENTS_H

#include "codecs/codec_events.h"

struct channel_handlers events_handlers(const struct codec_events *events);

#endif
