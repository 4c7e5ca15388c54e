/* strftime_now(format): the time is the request's, in its variable `now`, never a clock's. */
#ifndef WEIGHTD_ENGINE_TEMPLATE_DATE_H
#define WEIGHTD_ENGINE_TEMPLATE_DATE_H

#include "src/engine/template/builtin.h"

builtin_fn date_strftime_now;

#endif
