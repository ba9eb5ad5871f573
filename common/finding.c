/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which reasons a health probe may have, and keeps what probes found for several readers.
 */
#include "common/finding.h"

#include <stdatomic.h>
#include <stdlib.h>

#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

struct finding_set {
	atomic_uint references;
	size_t count;
	struct finding items[];
};

const char *const probe_severities[] = {
	[SEVERITY_NO_NEW_PODS] = "no-new-pods",
	[SEVERITY_EVICT] = "evict",
	[SEVERITY_NOTICE] = "notice",
	NULL,
};

enum probe_severity finding_severity(const char *name)
{
	for (size_t i = 0; i < _SEVERITY_MAX; i++)
		if (streq(name, probe_severities[i]))
			return (enum probe_severity)i;
	return SEVERITY_NO_NEW_PODS;
}

/* --- reasons --- */

static bool is_reserved(const char *reason)
{
	static const char *const reserved[] = { REASON_CLEANING, REASON_CORDONED, REASON_MISSING,
		REASON_UNHEALTHY };

	for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
		if (streq(reason, reserved[i]))
			return true;
	return false;
}

/* k8s.io/apimachinery/pkg/util/validation: IsQualifiedName, the part after the slash. */
static bool is_label_name(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length <= FINDING_REASON_MAX &&
		strspn(text, LETTERS_AND_DIGITS "-_.") == length &&
		strchr(LETTERS_AND_DIGITS, text[0]) && strchr(LETTERS_AND_DIGITS, text[length - 1]);
}

bool finding_reason_is_valid(const char *reason)
{
	return is_label_name(reason) && !is_reserved(reason);
}

int finding_check_reason(const char *reason, struct error *error)
{
	if (is_reserved(reason))
		return error_set(
			error, -EINVAL, "must not be \"%s\", which devplugd uses itself", reason);
	if (!is_label_name(reason))
		return error_set(error, -EINVAL,
			"must have at most %d letters, digits, \"-\", \"_\" and \".\", with a letter or "
			"digit at both ends, such as \"temperature\", not \"%s\"",
			FINDING_REASON_MAX, reason);
	return 0;
}

/* --- sets --- */

static char *put_text(char **position, const char *text)
{
	char *copy = *position;

	*position = stpcpy(copy, text) + 1;
	return copy;
}

int finding_set_new(const struct finding *findings, size_t count, struct finding_set **ret)
{
	size_t size = sizeof(struct finding_set) + count * sizeof(struct finding);
	struct finding_set *set;
	char *position;

	if (count == 0) {
		*ret = NULL;
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		size += strlen(findings[i].reason ?: "") + strlen(findings[i].text) + 2;
	set = malloc(size);
	if (!set)
		return -ENOMEM;
	atomic_init(&set->references, 1);
	set->count = count;
	position = (char *)&set->items[count];
	for (size_t i = 0; i < count; i++)
		set->items[i] = (struct finding){
			.reason =
				findings[i].reason ? put_text(&position, findings[i].reason) : NULL,
			.severity = findings[i].severity,
			.text = put_text(&position, findings[i].text),
			.could_not_run = findings[i].could_not_run,
			.probe = findings[i].probe,
		};
	*ret = set;
	return 0;
}

struct finding_set *finding_set_ref(struct finding_set *set)
{
	if (set)
		atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
	return set;
}

struct finding_set *finding_set_unref(struct finding_set *set)
{
	if (set && atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) == 1)
		free(set);
	return NULL;
}

const struct finding *finding_set_get(const struct finding_set *set, size_t at)
{
	return set && at < set->count ? &set->items[at] : NULL;
}

bool finding_set_is(const struct finding_set *set, const struct finding *findings, size_t count)
{
	if (count != (set ? set->count : 0))
		return false;
	for (size_t i = 0; i < count; i++)
		if (!streq(set->items[i].reason ?: "", findings[i].reason ?: "") ||
			set->items[i].severity != findings[i].severity ||
			set->items[i].could_not_run != findings[i].could_not_run ||
			set->items[i].probe != findings[i].probe ||
			!streq(set->items[i].text, findings[i].text))
			return false;
	return true;
}

bool finding_set_equal(const struct finding_set *a, const struct finding_set *b)
{
	return a == b || finding_set_is(a, b ? b->items : NULL, b ? b->count : 0);
}
