/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a kubelet refused the registration because of the API's version, by its error
 * text. The kubelet's versions are found by the words before and after them. The rest of the text
 * is not repeated: it comes from another process, and may be long.
 */
#include "proto/plugin/api-version.h"

#include "proto/methods.h"

/* What a version and the punctuation between two of them consist of. */
#define VERSION_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._- "
#define LIST_CHARS    "[]\"," VERSION_CHARS

const char *const api_versions[] = { DEVICE_PLUGIN_VERSION, NULL };

/* How each kind of registration reports it: the text, and the words right before the versions. */
static const struct {
	const char *text, *before, *characters;
} refusals[] = {
	{ " is not supported by kubelet", "Supported version is ", LIST_CHARS },
	{ " is not among plugin supported versions", "manager version, ", VERSION_CHARS },
};

/* Copies the versions without quotation marks and brackets, as far as there is room. */
static void copy_versions(const char *from, const char *characters, char *ret, size_t size)
{
	size_t length = strspn(from, characters), used = 0;

	for (size_t i = 0; i < length && used < size - 1; i++)
		if (!strchr("[]\"", from[i]))
			ret[used++] = from[i];
	ret[used] = '\0';
}

static void list_own(char *ret, size_t size)
{
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; api_versions[i] && used < size; i++)
		used += (size_t)snprintf(
			ret + used, size - used, "%s%s", i > 0 ? ", " : "", api_versions[i]);
}

bool api_version_is_refused(const char *refusal, char ret[static API_VERSION_TEXT_MAX])
{
	char theirs[96] = "", own[96];

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		const char *versions = strstr(refusal, refusals[i].before);

		if (!strstr(refusal, refusals[i].text))
			continue;
		if (versions)
			copy_versions(versions + strlen(refusals[i].before), refusals[i].characters,
				theirs, sizeof(theirs));
		list_own(own, sizeof(own));
		(void)snprintf(ret, API_VERSION_TEXT_MAX,
			"this kubelet supports %s of the device plugin API, this devplugd supports "
			"%s: upgrade devplugd",
			theirs[0] ? theirs : "another version", own);
		return true;
	}
	return false;
}
