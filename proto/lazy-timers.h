/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * gRPC's timer threads look at their empty lists once a second for as long as the process lives
 * (grpc#19947). Nothing that devplugd asks of gRPC has a deadline, so they may look less often.
 */

#include <stdbool.h>

/* Whether timer threads that gRPC starts from now on are lazy: their timers come up to 50 s late.
 */
void lazy_timers_set(bool lazy);
