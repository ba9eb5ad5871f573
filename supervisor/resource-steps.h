/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to the state machine of a resource: what its actions have in common.
 */

#include "common/log.h"
#include "resource.h"

struct log_fields resource_fields(const struct resource *resource, const char *message_id);
uint64_t resource_now(const struct resource *resource);

/* Arms a timer `delay` from now; USEC_INFINITY: off. */
void resource_set_timer(struct resource *resource, enum resource_timer timer, uint64_t delay);

/* Replaces the sentence that people are shown. */
_printf_(2, 3) void resource_explain(struct resource *resource, const char *format, ...);

/* Leaves one state for another, with the time limit of the new one. */
void resource_enter(struct resource *resource, enum resource_state state, uint64_t timeout);

/* What is left to do when a session, or the whole child, is gone. */
void resource_forget_session(struct resource *resource);
void resource_forget_child(struct resource *resource);

/* resource_delay_next() with the resource's source of randomness. */
uint64_t resource_next_delay(
	struct resource *resource, uint64_t *delay, uint64_t minimum, uint64_t maximum);

/* Waits without a child, longer each time. */
void resource_back_off(struct resource *resource, const char *why);
void resource_start_child(struct resource *resource);

/* Sends a configuration to the live child. If that is impossible now, UNANSWERED will come. */
int resource_configure(struct resource *resource, const char *text);

/* Says why a configuration was refused and what that means; once, although each try is refused for
 * the same reason until somebody mends it. */
void resource_log_refusal(struct resource *resource, const char *text, enum refusal refusal);

/* Brings a ready child to `wanted`, one configuration at a time. */
void resource_catch_up(struct resource *resource);
void resource_kill_child(struct resource *resource, int number, const char *why);

/* Opens a session if the kubelet is there, and else decides when to try again. */
void resource_try_session(struct resource *resource);
void resource_next_session(struct resource *resource, uint64_t delay, const char *why);
void resource_end_session(struct resource *resource, const char *why);
void resource_stop_child(struct resource *resource, enum resource_state state);
